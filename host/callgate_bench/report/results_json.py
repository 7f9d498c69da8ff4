"""`results.json`: written, read, and described by a JSON Schema. Knows the file, and nothing of what is in it.

The schema is made from the dataclasses of `results`, so the two cannot differ. The reader ignores fields that it does
not know, so that other versions may have more; a change of what a field means raises `SCHEMA_VERSION`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pydantic

from callgate.tools.decoding import strict_json
from callgate.tools.docstring import read_docstring
from callgate_bench.results import SCHEMA_VERSION, Results

__all__ = ["MAX_BYTES", "SCHEMA", "UnreadableResults", "read", "write", "write_schema"]

MAX_BYTES = 32 * 1024 * 1024
"""A longer file is refused. A full run writes about one megabyte."""

_ADAPTER = pydantic.TypeAdapter(Results)


class UnreadableResults(Exception):
    """A file is not a run of callgate bench; the text says which file and why."""


def write(results: Results, path: Path) -> None:
    """Write a run to a file, whole or not at all: a reader sees the file before or the file after.

    NaN and infinity become null, characters that UTF-8 cannot hold become question marks.

    Args:
        results: a run, also one that is not over.
        path: is replaced. Its folder has to exist.

    Raises:
        OSError: the file cannot be written. What was there is still there.
    """
    _replace(path, results.to_dict())


def write_schema(path: Path) -> None:
    """Write `SCHEMA` to a file, whole or not at all."""
    _replace(path, SCHEMA)


def read(path: Path) -> Results:
    """A run from a file.

    Raises:
        UnreadableResults: it is not there, too large, not JSON, of another version, or not what the schema says.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableResults(f"{path} cannot be read: {error.strerror or error}") from None
    if len(text) > MAX_BYTES:
        raise UnreadableResults(f"{path} is longer than {MAX_BYTES:,} bytes: no run of callgate bench wrote it")
    try:
        data = strict_json(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UnreadableResults(f"{path} is not JSON: {str(error)[:200]}") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version is None:
        raise UnreadableResults(f"{path} is not a run of callgate bench: it has no schema_version")
    if version != SCHEMA_VERSION or isinstance(version, (bool, float)):
        raise UnreadableResults(
            f"{path} has schema_version {str(version)[:40]}, this callgate reads {SCHEMA_VERSION}: "
            "run callgate bench again with this version, or compare with the one that wrote it"
        )
    try:
        return _ADAPTER.validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        raise UnreadableResults(f"{path} is not a run of callgate bench: {_told(error)}") from None


def _told(error: pydantic.ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    first = faults[0]
    where = ".".join(map(str, first["loc"])) or "the whole"
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}{more}"


def _finite(value: Any) -> Any:
    """`value` with null for NaN and infinity."""
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _replace(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(_finite(value), indent=1, ensure_ascii=False, allow_nan=False, default=str)
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_bytes(text.encode("utf-8", "replace") + b"\n")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _schema() -> dict[str, Any]:
    """The schema of what `write` writes: all fields are there, and no others."""
    made = _ADAPTER.json_schema(mode="validation")
    for part in (made, *made["$defs"].values()):
        part["additionalProperties"] = False
        part["required"] = list(part["properties"])
        for each in part["properties"].values():
            each.pop("default", None)
            each.pop("title", None)
        docs = read_docstring(part["description"])
        part["description"] = docs.description
        for field, told in docs.parameters.items():
            part["properties"][field]["description"] = told
    made["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "title": "results.json of callgate bench",
    }


SCHEMA: dict[str, Any] = _schema()
"""A JSON Schema (2020-12) of the file."""
