"""`results.json`: written, read, and described by a JSON Schema. Knows the file, and nothing of what is in it.

The schema is made from the dataclasses of `results`, so the two cannot differ. Fields that a reader does not know are
left out by it, so a later version may add some; whoever changes what a field means raises `SCHEMA_VERSION`.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pydantic

from callgate.bench.results import SCHEMA_VERSION, Results
from callgate.tools.decoding import count_values, strict_json
from callgate.tools.docstring import read_docstring

__all__ = ["MAX_BYTES", "MAX_VALUES", "SCHEMA", "UnreadableResults", "read", "write", "write_schema"]

MAX_BYTES = 32 * 1024 * 1024
"""A longer file is refused. A full run writes about one megabyte."""
MAX_VALUES = 2_000_000
"""A file with more JSON values is refused: each of them is an object in memory."""

_ADAPTER = pydantic.TypeAdapter(Results)


class UnreadableResults(Exception):
    """A file is not what `write` writes; the text says which file and why, for people."""


def write(results: Results, path: Path) -> None:
    """Write a run to a file, whole or not at all: whoever reads meanwhile sees the file before or the file after.

    Figures that are no numbers (NaN, infinity) become null, characters that are none become question marks.

    Args:
        results: a run, also one that is not over.
        path: is replaced. Its folder has to exist.

    Raises:
        OSError: the file cannot be written. What was there is still there.
    """
    _replace(path, results.to_dict())


def write_schema(path: Path) -> None:
    """Write `SCHEMA` to a file, in the same way."""
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
    if count_values(text, MAX_VALUES) > MAX_VALUES:
        raise UnreadableResults(f"{path} has more than {MAX_VALUES:,} values: no run of callgate bench wrote it")
    try:
        data = strict_json(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UnreadableResults(f"{path} is not JSON: {str(error)[:200]}") from None
    _right_version(path, data)
    try:
        results = _ADAPTER.validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        raise UnreadableResults(f"{path} is not a run of callgate bench: {_told(error)}") from None
    wrong = next(_not_figures(data, ""), None)
    if wrong is not None:
        raise UnreadableResults(f"{path} is not a run of callgate bench: {wrong} is negative")
    return results


def _right_version(path: Path, data: Any) -> None:
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version is None:
        raise UnreadableResults(f"{path} is not a run of callgate bench: it has no schema_version")
    if version != SCHEMA_VERSION or isinstance(version, (bool, float)):
        raise UnreadableResults(
            f"{path} has schema_version {str(version)[:40]}, this callgate reads {SCHEMA_VERSION}: "
            "run callgate bench again with this version, or compare with the one that wrote it"
        )


def _told(error: pydantic.ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    first = faults[0]
    where = ".".join(map(str, first["loc"])) or "the whole"
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}{more}"


def _not_figures(value: Any, where: str) -> Iterator[str]:
    """Places of numbers below zero; single things may have some, such as memory that shrank."""
    if isinstance(value, dict):
        for name, part in value.items():
            if where or name != "rows":
                yield from _not_figures(part, f"{where}.{name}" if where else name)
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _not_figures(part, f"{where}.{place}")
    elif isinstance(value, (int, float)) and value < 0:
        yield where


def _finite(value: Any) -> Any:
    """The same without figures that JSON has no words for."""
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _replace(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(_finite(value), indent=1, ensure_ascii=False, allow_nan=False, default=str)
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "replace") + b"\n")
        Path(beside).chmod(0o644)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def _schema() -> dict[str, Any]:
    """What `write` writes: all fields are there, no others, and figures are not negative."""
    made = _ADAPTER.json_schema(mode="validation")
    for name, part in [("Results", made), *made["$defs"].items()]:
        part["additionalProperties"] = False
        part["required"] = list(part["properties"])
        for each in part["properties"].values():
            each.pop("default", None)
            each.pop("title", None)
            if name != "Row":
                _not_negative(each)
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


def _not_negative(schema: dict[str, Any]) -> None:
    if schema.get("type") in ("number", "integer"):
        schema["minimum"] = 0
    if "items" in schema:
        _not_negative(schema["items"])


SCHEMA: dict[str, Any] = _schema()
"""A JSON Schema (2020-12) of the file."""
