"""Requests whose answer is several calls, and the programs a model would write for them. Runs and compiles nothing.

The requests are those of the Berkeley function-calling collection, in its own form: JSON lines of functions with their
schemas, and *gold calls*, whose every argument is a list of values that would do. An empty text among these means that
the argument may be left out; the one that stands first is what is written here.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callgate.runtime import Runtime
from callgate.tools import Registry, Tool

__all__ = ["SHAPES", "GoldCall", "Request", "Share", "programs", "read_requests", "register", "shares"]

_JSON_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}
"""Names of types that the collection takes from Python."""


@dataclass(frozen=True, slots=True)
class GoldCall:
    """One call of the answer."""

    function: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked, the functions there are, and the calls that answer it."""

    id: str
    query: str
    functions: list[dict[str, Any]]
    calls: list[GoldCall]


def read_requests(path: Path) -> list[Request]:
    """The requests of one file of the collection, gzipped JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [_request(json.loads(line)) for line in lines]


def _request(record: dict[str, Any]) -> Request:
    calls = [
        GoldCall(function, {name: _first(values) for name, values in given.items() if values[0] != ""})
        for call in record["ground_truth"]
        for function, given in call.items()
    ]
    return Request(record["id"], record["query"], record["functions"], calls)


def _first(values: Any) -> Any:
    """The first value that would do; within an object every member is a list of such values again."""
    value = values[0]
    return {name: _first(each) for name, each in value.items()} if isinstance(value, dict) else value


def register(request: Request, registry: Registry, function: Callable[..., Any], *, read_only: bool) -> dict[str, str]:
    """Take the functions of a request in as tools; returns the registry's name of each, which may be another.

    Args:
        request: whose functions.
        registry: where they go.
        function: called as ``function(name, arguments)`` when one of them is called; its result is theirs.
        read_only: what they say of themselves.
    """
    return {
        each["name"]: registry.add(_tool(each, function, read_only=read_only), rename=True).name
        for each in request.functions
    }


def _tool(spec: Mapping[str, Any], function: Callable[..., Any], *, read_only: bool) -> Tool:
    name = spec["name"]

    async def call(**arguments: Any) -> Any:
        return function(name, arguments)

    return Tool.from_schema(name, spec["description"], _schema(spec["parameters"]), call, read_only=read_only)


def _schema(schema: Any) -> Any:
    """As JSON Schema."""
    if isinstance(schema, list):
        return [_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    mended = {key: _schema(value) for key, value in schema.items()}
    kind = mended.get("type")
    if isinstance(kind, str) and _JSON_TYPES.get(kind, kind) is None:
        del mended["type"]
    elif isinstance(kind, str):
        mended["type"] = _JSON_TYPES.get(kind, kind)
    return mended


def programs(request: Request, names: Mapping[str, str]) -> dict[str, str]:
    """The program for a request in every shape.

    Args:
        request: what is asked.
        names: what the functions are called in programs.
    """
    return {shape: write(request.calls, names) for shape, write in SHAPES.items()}


def _call(call: GoldCall, names: Mapping[str, str]) -> str:
    return f"{names[call.function]}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"


def _sequential(calls: Sequence[GoldCall], names: Mapping[str, str]) -> str:
    lines = []
    for number, call in enumerate(calls, 1):
        lines += [f"result_{number} = await {_call(call, names)}", f"print(result_{number})"]
    return "\n".join(lines) + "\n"


def _gathered(calls: Sequence[GoldCall], names: Mapping[str, str]) -> str:
    written = "".join(f"    {_call(call, names)},\n" for call in calls)
    return (
        f"import asyncio\n\nresults = await asyncio.gather(\n{written})\n"
        "for result in results:\n    print(result)\nresults\n"
    )


def _gathered_list(calls: Sequence[GoldCall], names: Mapping[str, str]) -> str:
    written = "".join(f"    {_call(call, names)},\n" for call in calls)
    return f"import asyncio\n\ncalls = [\n{written}]\nresults = await asyncio.gather(*calls)\nprint(results)\nresults\n"


def _looped_over_objects(calls: Sequence[GoldCall], names: Mapping[str, str]) -> str:
    """A loop over the arguments as objects; where calls are not alike, a gather over a list of them."""
    if not _alike(calls):
        return _gathered_list(calls, names)
    written = "".join(f"    {call.arguments!r},\n" for call in calls)
    passed = ", ".join(f'{name}=request["{name}"]' for name in calls[0].arguments)
    return (
        f"requests = [\n{written}]\nfor request in requests:\n"
        f"    result = await {names[calls[0].function]}({passed})\n    print(result)\n"
    )


def _looped_over_tuples(calls: Sequence[GoldCall], names: Mapping[str, str]) -> str:
    """A loop over the arguments as tuples; where calls are not alike, a gather over a list of them."""
    if not _alike(calls):
        return _gathered_list(calls, names)
    parameters = list(calls[0].arguments)
    rows = [[call.arguments[name] for name in parameters] for call in calls]
    written = ", ".join(repr(row[0]) if len(row) == 1 else f"({', '.join(map(repr, row))})" for row in rows)
    passed = ", ".join(f"{name}={name}" for name in parameters)
    return (
        f"results = []\nfor {', '.join(parameters)} in [{written}]:\n"
        f"    results.append(await {names[calls[0].function]}({passed}))\nprint(len(results))\nresults\n"
    )


def _alike(calls: Sequence[GoldCall]) -> bool:
    """Whether one function is called, always with the same arguments' names, of which there is one at least."""
    return bool(calls[0].arguments) and len({(call.function, frozenset(call.arguments)) for call in calls}) == 1


SHAPES: dict[str, Callable[[Sequence[GoldCall], Mapping[str, str]], str]] = {
    "one await after the other": _sequential,
    "gathered": _gathered,
    "looped over objects": _looped_over_objects,
    "looped over tuples": _looped_over_tuples,
}
"""How the calls may be written: the name of each shape, and what writes it."""


@dataclass(slots=True)
class Share:
    """How many programs of one shape take the fast path, of one file of requests."""

    file: str
    shape: str
    programs: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    """The first reason, by the request's id."""

    def __str__(self) -> str:
        taken = self.programs - len(self.refused)
        return f"{taken} of {self.programs} ({100 * taken / self.programs:.4g} %)"


def shares(folder: Path, *, read_only: bool = True) -> list[Share]:
    """Compile the programs of all requests in `folder`, in every shape; runs none.

    Args:
        folder: has the collection's files, ``*.jsonl.gz``.
        read_only: what the functions say of themselves.
    """
    counted: dict[tuple[str, str], Share] = {}
    for path in sorted(folder.glob("*.jsonl.gz")):
        file = path.name.removesuffix(".jsonl.gz")
        for request in read_requests(path):
            registry = Registry()
            known = register(request, registry, lambda name, arguments: None, read_only=read_only)
            runtime = Runtime(registry, sandbox=None)
            names = {function: registry.callable_names()[known[function]] for function in known}
            for shape, code in programs(request, names).items():
                each = counted.setdefault((file, shape), Share(file, shape))
                each.programs += 1
                compilation = runtime.compile(code)
                if not compilation.ok:
                    each.refused[request.id] = compilation.reasons[0].message
    return list(counted.values())
