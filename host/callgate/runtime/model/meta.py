"""The meta-tools (names, arguments, answers), and the options of definitions. Knows no tool, and calls nothing."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Literal, TypedDict, get_args

from callgate.errors import ConfigurationError
from callgate.tools.faults import did_you_mean
from callgate.tools.json_schema import SchemaArguments
from callgate.tools.tool import DETAILS

__all__ = [
    "ALL_META_TOOLS",
    "ANSWER",
    "BACKGROUND",
    "DEFAULT_INLINE_CHARACTERS",
    "MAX_WAIT_SECONDS",
    "META_TOOLS",
    "WAIT_SECONDS",
    "DefinitionOptions",
    "MetaTool",
    "checked_options",
    "input_schema",
    "meant",
    "output_schema",
    "validated",
]

MetaTool = Literal[
    "search_tools", "describe_tools", "execute_code", "execute_tool_plan", "read_artifact",
    "start_code", "wait_run", "stop_run",
]  # fmt: skip
ALL_META_TOOLS: tuple[MetaTool, ...] = get_args(MetaTool)
"""In the order in which a model is shown them."""
META_TOOLS: tuple[MetaTool, ...] = ALL_META_TOOLS[:4]
"""Those that a model has by default. A conversation adds ``read_artifact`` when there is something to read."""
BACKGROUND: tuple[MetaTool, ...] = ALL_META_TOOLS[5:]
"""Those for programs in the background. A model has them only where they are asked for."""
MAX_WAIT_SECONDS = 300
WAIT_SECONDS = 30
"""Longest wait of ``wait_run``, and its wait unless the model says another."""
_OTHER_NAMES: dict[str, MetaTool] = {"execute_plan": "execute_tool_plan"}
"""Names that models know from other systems."""

Schema = dict[str, Any]


def _object(required: str = "", /, **properties: Schema) -> Schema:
    """The schema of an object. `required`: names with blanks between them."""
    needed = {"required": required.split()} if required else {}
    return {"type": "object", "properties": properties, **needed}


def _closed(required: str = "", /, **properties: Schema) -> Schema:
    return {**_object(required, **properties), "additionalProperties": False}


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _texts(description: str, **bounds: int) -> Schema:
    return {"type": "array", "items": {"type": "string"}, **bounds, "description": description}


_STRING: Schema = {"type": "string"}
_NAMES: Schema = {"type": "array", "items": _STRING}
_STEP = _object(
    "id tool",
    id={"type": "string"},
    tool={"type": "string"},
    arguments={"type": "object"},
    for_each={},
    when={"description": '{"$expr": "a.total > 5"}'},
    depends_on=_NAMES,
)
_INPUT: dict[MetaTool, Schema] = {
    "search_tools": _closed(
        query={
            "type": ["string", "array"],
            "items": {"type": "string"},
            "description": "What the tool should do, in a few words; or its name. A list of up to 8 shares the places. "
            "May be left out beside server or capability, which then list all of theirs.",
        },
        limit={"type": "integer", "minimum": 1, "description": "Most tools to return: 10, or up to 100."},
        detail={
            "type": "string",
            "enum": list(DETAILS),
            "description": "How much to say about each; signatures by default.",
        },
        server=_text("Only tools of this server."),
        capability=_text("Only tools that list this capability."),
        regex={"type": "boolean", "description": "Read query as a regular expression (RE2 syntax)."},
    ),
    "describe_tools": _closed("names", names=_texts("Names of tools.", minItems=1, maxItems=50)),
    "execute_code": _closed("code", code=_text("Python source.")),
    "execute_tool_plan": _object(
        "steps",
        steps={"type": "array", "minItems": 1, "items": _STEP},
        output_steps=_NAMES,
    ),
    "read_artifact": _closed(
        "artifact",
        artifact=_text('Its handle: "art_...".'),
        offset={"type": "integer", "minimum": 0, "description": "First byte; 0 unless given."},
        limit={"type": "integer", "minimum": 1, "description": "Most bytes."},
    ),
    "start_code": _closed("code", code=_text("Python source.")),
    "wait_run": _closed(
        "run",
        run=_STRING,
        seconds={
            "type": "number",
            "minimum": 0,
            "maximum": MAX_WAIT_SECONDS,
            "description": f"Longest wait; {WAIT_SECONDS} unless given.",
        },
    ),
    "stop_run": _closed("run", run=_STRING),
}
ANSWER: Schema = {}
"""The member of a plan by which it answers the task."""
_PLAN_AS_TEXT = _closed(
    "plan",
    plan=_text(
        'The whole plan as JSON text: {"steps": [{"id": ..., "tool": ..., "arguments": {...}}], '
        '"output_steps": [...]}. A step may have for_each, when and depends_on (a list of ids).'
    ),
)

_OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
_RUN: dict[str, Schema] = {
    "error": {
        **_object("kind message", kind=_STRING, message=_STRING, line={"type": ["integer", "null"]}),
        "type": ["object", "null"],
    },
    "tool_calls": {"type": "integer"},
    "truncated": _texts("Fields that were cut."),
}
"""Fields in the answers of programs and of plans."""
_CODE: dict[str, Schema] = {
    "ok": {"type": "boolean"},
    "logs": _text("What was printed."),
    "value": {"description": "The value of the last expression."},
    "notes": _texts("How the program ended: calls that it never awaited, tasks that were cancelled."),
    "artifacts": {**_OBJECTS, "description": "Files and pictures that it made, with their handles."},
    **_RUN,
}
_UNDER_WAY: dict[str, Schema] = {
    "run": _text("Id of the run."),
    "status": _text("running, waiting, needs_attention or cancelled."),
}
_OUTPUT: dict[MetaTool, Schema] = {
    "search_tools": _object("found total", found=_OBJECTS, total={"type": "integer"}),
    "describe_tools": _object("tools", tools=_OBJECTS),
    "execute_code": _object("ok logs error tool_calls truncated", **_CODE),
    "execute_tool_plan": _object(
        "ok outputs steps error tool_calls truncated",
        ok={"type": "boolean"},
        outputs={"type": "object", "description": "Results by step."},
        steps=_OBJECTS,
        **_RUN,
    ),
    "read_artifact": _object(
        "artifact name media_type bytes offset next_offset",
        artifact=_STRING,
        name=_STRING,
        media_type=_STRING,
        bytes={"type": "integer"},
        offset={"type": "integer"},
        text=_text("Missing where it is not text."),
        next_offset={"type": ["integer", "null"]},
    ),
    "start_code": _object("run status", **_UNDER_WAY),
    "wait_run": _object(**_UNDER_WAY, **_CODE),
    "stop_run": _object("run status", **_UNDER_WAY),
}


def meant(name: str, known: Collection[str]) -> str:
    """The meta-tool for another system's name of it; any other name as it is.

    Args:
        name: the name as the model wrote it.
        known: the model's tools and meta-tools, whose names win.
    """
    other = _OTHER_NAMES.get(name)
    return other if other is not None and other in known and name not in known else name


def input_schema(name: MetaTool, *, plan_as_text: bool = False) -> Schema:
    """A copy of the JSON Schema of a meta-tool's arguments.

    Args:
        name: the meta-tool.
        plan_as_text: whether a plan is one argument, which is JSON text.
    """
    return copy.deepcopy(_PLAN_AS_TEXT if plan_as_text and name == "execute_tool_plan" else _INPUT[name])


def output_schema(name: MetaTool) -> Schema:
    """A copy of the JSON Schema of `Answer.structured`."""
    return copy.deepcopy(_OUTPUT[name])


@cache
def _contract(name: MetaTool) -> SchemaArguments:
    return SchemaArguments(name, _INPUT[name])


def validated(name: MetaTool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The checked arguments of a meta-tool. Raises `InvalidArguments` that names every fault.

    Null counts as left out, as in strict forms: no argument of a meta-tool can be null.
    """
    known = _INPUT[name]["properties"]
    given = {key: value for key, value in arguments.items() if value is not None or key not in known}
    return _contract(name).validate(name, given)


class DefinitionOptions(TypedDict, total=False):
    """The options of `Runtime.tool_definitions`."""

    direct: Collection[str] | Literal["all"]
    """Names of the tools that the model may call itself, each with a definition of its own. None by default. Tools that
    do not allow ``direct`` callers are left out of ``"all"``, and refused by name."""
    meta: Collection[MetaTool]
    """The meta-tools to define: by default the four of `META_TOOLS`. A conversation whose list grows adds
    ``read_artifact`` once it has artifacts. ``start_code``, ``wait_run`` and ``stop_run`` are for programs in the
    background; they stand beside ``execute_code``, whose text says how programs are written."""
    tools: Collection[str] | None
    """Names of the tools that this model has. None (the default): all. Give `handle` the same names."""
    texts: Mapping[MetaTool, str]
    """Descriptions of meta-tools instead of callgate's own. The list of tools still follows them."""
    inline_characters: int
    """Most characters of tool declarations in the description of ``execute_code`` (or of ``execute_tool_plan``, without
    ``execute_code``). If they do not fit, the description lists names; if these do not fit, it asks the model to
    search. 8,000 by default, about 2,000 tokens; 0 lists nothing."""
    strict: bool
    """Ask the provider to enforce the schemas of the tools that have a strict form. False by default. MCP has no strict
    forms."""
    plan_as_text: bool
    """``execute_tool_plan`` takes the whole plan as one argument, `plan`, which is JSON text: for models that do not
    nest objects well. False by default. Calls in either form are answered in any case."""
    defer: Collection[str] | Literal["all"]
    """Names of direct tools that the provider keeps out of the context until a search finds them. Anthropic and OpenAI
    Responses. None by default."""
    programmatic: str | None
    """Lets the provider's own code execution call direct tools, too: Anthropic's version of it, for instance
    ``"code_execution_20260120"``, or OpenAI Responses' ``"programmatic"``. Definitions then name the allowed callers
    (``code`` in `Tool.allowed_callers` stands for it), and `direct` may have tools for ``code`` alone."""


DEFAULT_INLINE_CHARACTERS = 8_000


def checked_options(options: Mapping[str, Any]) -> None:
    """Refuse unknown options and wrong values. Raises `ConfigurationError`."""
    for name in options:
        if name not in DefinitionOptions.__annotations__:
            hint = did_you_mean(name, DefinitionOptions.__annotations__)
            raise ConfigurationError(f"tool definitions have no option {name!r}{hint}")
    for name in ("direct", "defer", "tools", "meta"):
        value, all_of_them = options.get(name, ()), name in ("direct", "defer")
        if (value is None and name in ("defer", "tools")) or (all_of_them and value == "all"):
            continue
        listed = isinstance(value, Collection) and not isinstance(value, str)
        if not listed or any(not isinstance(each, str) for each in value):
            also = ", or 'all'" if all_of_them else ""
            raise ConfigurationError(f"{name} is a list of names{also}: {name}=['get_weather'], not {value!r}")
    for name in (*options.get("meta", ()), *(options.get("texts") or {})):
        if name not in ALL_META_TOOLS:
            raise ConfigurationError(f"there is no meta-tool {name!r}; there are: {', '.join(ALL_META_TOOLS)}")
    meta = options.get("meta", ())
    if "start_code" in meta and "execute_code" not in meta:
        raise ConfigurationError("start_code stands beside execute_code, whose text says how programs are written")
