"""The four meta-tools: their names, their arguments, what they answer. Knows no provider, and calls nothing."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Literal, get_args

from callgate.tools.json_schema import SchemaArguments

__all__ = ["META_TOOLS", "MetaTool", "input_schema", "meant", "output_schema", "validated", "without_nulls"]

MetaTool = Literal["search_tools", "describe_tools", "execute_code", "execute_tool_plan"]
META_TOOLS: tuple[MetaTool, ...] = get_args(MetaTool)
"""In the order in which a model is shown them."""
_OTHER_NAMES: dict[str, MetaTool] = {"execute_plan": "execute_tool_plan"}
"""What models that have learned another system call a meta-tool."""

Schema = dict[str, Any]

_INPUT: dict[MetaTool, Schema] = {
    "search_tools": {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "What the tool should do, in a few words; or its name. May be left out beside server or "
                "capability, which then list all of theirs.",
            },
            "limit": {"type": "integer", "minimum": 1, "description": "Most tools to return: 10, or up to 100."},
            "detail": {
                "type": "string",
                "enum": ["names", "signatures", "full"],
                "description": "How much to say of each; signatures unless told otherwise.",
            },
            "server": {"type": "string", "description": "Only tools of this server."},
            "capability": {"type": "string", "description": "Only tools that list this capability."},
            "regex": {"type": "boolean", "description": "Read query as a regular expression (RE2 syntax)."},
        },
        "additionalProperties": False,
    },
    "describe_tools": {
        "type": "object",
        "properties": {
            "names": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "maxItems": 50,
                "description": "Names of tools.",
            }
        },
        "required": ["names"],
        "additionalProperties": False,
    },
    "execute_code": {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "Python source."}},
        "required": ["code"],
        "additionalProperties": False,
    },
    "execute_tool_plan": {
        "type": "object",
        "properties": {
            "goal": {"type": "string", "description": "What the plan is for, in one line."},
            "steps": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "description": "A name of your own, for references."},
                        "tool": {"type": "string", "description": "The tool's name."},
                        "arguments": {
                            "type": "object",
                            "description": 'By name. "$ref:ID" or "$ref:ID.field" stands for a step\'s result.',
                        },
                        "for_each": {
                            "description": 'A list, or a reference to one: one call per item, which is "$item".'
                        },
                        "when": {"description": 'A condition, for instance {"$expr": "a[\'total\'] > 5"}.'},
                        "depends_on": {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": "Ids of steps to wait for, beside those referred to.",
                        },
                    },
                    "required": ["id", "tool"],
                },
            },
            "output_steps": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Ids of the steps whose results you want to see; all unless given.",
            },
        },
        "required": ["steps"],
    },
}

_PLAN_AS_TEXT: Schema = {
    "type": "object",
    "properties": {
        "plan": {
            "type": "string",
            "description": 'The whole plan as JSON text: {"steps": [{"id": ..., "tool": ..., "arguments": {...}}], '
            '"output_steps": [...]}. A step may have for_each, when and depends_on (a list of ids).',
        }
    },
    "required": ["plan"],
    "additionalProperties": False,
}
_ERROR: Schema = {
    "type": ["object", "null"],
    "properties": {
        "kind": {"type": "string"},
        "message": {"type": "string"},
        "line": {"type": ["integer", "null"]},
    },
    "required": ["kind", "message"],
}
_OUTPUT: dict[MetaTool, Schema] = {
    "search_tools": {
        "type": "object",
        "properties": {"found": {"type": "array", "items": {"type": "object"}}, "total": {"type": "integer"}},
        "required": ["found", "total"],
    },
    "describe_tools": {
        "type": "object",
        "properties": {"tools": {"type": "array", "items": {"type": "object"}}},
        "required": ["tools"],
    },
    "execute_code": {
        "type": "object",
        "properties": {
            "ok": {"type": "boolean"},
            "logs": {"type": "string", "description": "What was printed."},
            "value": {"description": "The value of the last expression."},
            "notes": {
                "type": "array",
                "items": {"type": "string"},
                "description": "How the program ended: calls that it never awaited, tasks that were cancelled.",
            },
            "error": _ERROR,
            "tool_calls": {"type": "integer"},
            "truncated": {"type": "array", "items": {"type": "string"}, "description": "Fields that were cut."},
        },
        "required": ["ok", "logs", "error", "tool_calls", "truncated"],
    },
    "execute_tool_plan": {
        "type": "object",
        "properties": {
            "ok": {"type": "boolean"},
            "outputs": {"type": "object", "description": "Results by step."},
            "steps": {"type": "array", "items": {"type": "object"}},
            "error": _ERROR,
            "tool_calls": {"type": "integer"},
            "truncated": {"type": "array", "items": {"type": "string"}, "description": "Fields that were cut."},
        },
        "required": ["ok", "outputs", "steps", "error", "tool_calls", "truncated"],
    },
}
_CONTRACTS: dict[str, SchemaArguments] = {}


def meant(name: str, known: Collection[str]) -> str:
    """The meta-tool that a model means by another system's name for it; else the name itself.

    Args:
        name: as the model wrote it.
        known: the names of what the model has, tools or meta-tools: they win.
    """
    other = _OTHER_NAMES.get(name)
    return other if other is not None and other in known and name not in known else name


def input_schema(name: MetaTool, *, plan_as_text: bool = False) -> Schema:
    """JSON Schema of its arguments; a copy.

    Args:
        name: the meta-tool.
        plan_as_text: a plan is one argument, the whole of it as JSON text.
    """
    of_text = plan_as_text and name == "execute_tool_plan"
    schema: Schema = json.loads(json.dumps(_PLAN_AS_TEXT if of_text else _INPUT[name]))
    return schema


def output_schema(name: MetaTool) -> Schema:
    """JSON Schema of `Answer.structured`; a copy."""
    schema: Schema = json.loads(json.dumps(_OUTPUT[name]))
    return schema


def without_nulls(name: MetaTool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Without null for what was left out, as a strict form has it: no argument of a meta-tool can be null."""
    known = _INPUT[name]["properties"]
    return {key: value for key, value in arguments.items() if value is not None or key not in known}


def validated(name: MetaTool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, if they are what the meta-tool takes. Raises `InvalidArguments` that names every fault."""
    contract = _CONTRACTS.get(name)
    if contract is None:
        contract = _CONTRACTS[name] = SchemaArguments(name, _INPUT[name])
    return contract.validate(name, arguments)
