"""Typed Python stubs of tools, for models, editors and type checkers. Pure: JSON Schema in, text out.

1. The stubs are importable Python and pass ``mypy --strict`` and pyright. The annotations leave out what Python's types
   cannot express, and never guess: where a schema does not name a type, the annotation is `Any`.
2. The same tools give the same bytes, sorted, in any order of adding.
3. Schemas and descriptions come from outside. Their texts stay in strings, comments and names, and the text of each
   tool is bounded; a comment names whatever is left out for that.

`reading` makes annotations of schemas, `types` names the types they need, `writing` writes a tool's function.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from callgate.errors import ConfigurationError
from callgate.tools.registry import Registry
from callgate.tools.tool import DETAILS, Detail, Tool

from .texts import docstring
from .types import Types
from .writing import ToolStub

__all__ = ["DETAILS", "Detail", "result_types", "signature", "stubs"]

_TITLE = "Typed stubs of the tools that a program may call. They describe, and do nothing."
_NAMES_TITLE = "The tools that a program may call, without their arguments."


def stubs(registry: Registry, *, detail: Detail = "full", names: Collection[str] | None = None) -> str:
    """A Python module with one ``async def`` for every tool, and the types they use.

    A tool that was imported from a server is in the class of its server (``github.create_issue``), and has its own name
    as well. With the detail ``names`` the module has variables of type `Any` instead.

    Args:
        registry: the tools.
        detail: how much to say about each tool.
        names: only these tools, by registry name, identifier in programs or ``server.tool``; None for all.

    Raises:
        ToolNotFound: a name has no tool.
        ConfigurationError: `detail` does not exist.
    """
    if detail not in DETAILS:
        raise ConfigurationError(f"there is no detail {detail!r}; the details are: {', '.join(DETAILS)}")
    wanted = None if names is None else {registry.resolve(name) or registry.get(name).name for name in names}
    chosen = [tool for tool in registry if wanted is None or tool.name in wanted]
    known = registry.callable_names()
    namespaces = registry.namespaces()
    taken = {*known.values(), *namespaces, *(member for members in namespaces.values() for member in members)}
    if detail == "names":
        types = Types(taken, words=False)
        listed = [f"{known[tool.name]}: {types.typing('Any')}\n" for tool in chosen]
        return types.module(_NAMES_TITLE, [], ["".join(listed)] if listed else [])
    types = _types(chosen, taken, words=detail == "full")
    read = {tool.name: ToolStub(tool, known[tool.name], types) for tool in chosen}
    places = {tool: (server, member) for server, members in namespaces.items() for member, tool in members.items()}
    forms = [form for each in read.values() for form in each.forms]
    return types.module(_TITLE, forms, list(_functions(read, places, words=detail == "full")))


def signature(tool: Tool, name: str) -> str:
    """The call of one tool on one line, types by their names: ``get_weather(city: str) -> Weather``.

    Arguments without a Python spelling appear as they are passed: ``convert(**{'from': str, 'to': str})``.

    Args:
        tool: any tool.
        name: the name in the signature.
    """
    return ToolStub(tool, name, _types([tool], {name}, words=False)).line(name, alone=True)


def result_types(tool: Tool, name: str, *, most: int) -> str:
    """The types in the result of a tool's `signature`, on one line: ``Weather: {city: str, wind?: Wind}; Wind: ...``.

    Args:
        tool: any tool.
        name: as for `signature`.
        most: about as many characters are written; ``...`` stands for the rest.

    Returns:
        An empty text if the result names no type.
    """
    return ToolStub(tool, name, _types([tool], {name}, words=False)).result_types(most)


def _types(tools: Collection[Tool], taken: Collection[str], *, words: bool) -> Types:
    """Types for these tools. No type has the name of a key of an object: the key would hide the type."""
    keys = set(taken)
    todo: list[Any] = [schema for tool in tools for schema in (tool.input_schema, tool.output_schema)]
    for schema in todo:  # which grows meanwhile
        below = list(schema.values() if isinstance(schema, dict) else schema) if schema else []
        if isinstance(schema, dict) and isinstance(named := schema.get("properties"), dict):
            keys |= named.keys()
        todo += [each for each in below if isinstance(each, (dict, list))]
    return Types(keys, words=words)


def _functions(read: dict[str, ToolStub], places: dict[str, tuple[str, str]], *, words: bool) -> Iterator[str]:
    """Plain functions and the classes of servers, in the order of their names."""
    servers: dict[str, dict[str, ToolStub]] = {}
    blocks: dict[str, str] = {}
    for each in read.values():
        server, member = places.get(each.tool.name, ("", ""))
        if server and not member.startswith("__"):  # a class body would mangle the name
            servers.setdefault(server, {})[member] = each
        else:
            note = f"the tool {each.tool.name!r}" if each.name != each.tool.name else ""
            note = f"also {server}.{member}" if server else note
            blocks[each.name] = each.function(each.name, note=note, words=words)
    for server, members in servers.items():
        blocks[server] = _namespace(server, members, words=words)
    yield from (blocks[name] for name in sorted(blocks))


def _namespace(server: str, members: dict[str, ToolStub], *, words: bool) -> str:
    own_name: Any = next(iter(members.values())).tool.server
    stated = docstring(f"Tools of the server {own_name!r}.", "    ") if own_name != server else ""
    functions = []
    for member, each in sorted(members.items()):
        note = "" if each.tool.server_tool == member else f"the tool {each.tool.server_tool!r}"
        functions.append(f"    @staticmethod\n{each.function(member, '    ', note=note, words=words)}")
    also = [f"{each.name} = {server}.{member}\n" for member, each in sorted(members.items())]
    return f"class {server}:\n{stated}" + "\n".join(functions) + "\n\n" + "".join(also)
