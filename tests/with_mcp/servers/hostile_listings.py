"""Kinds whose listing of tools is odd, large or wrong; and tools whose results are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from with_mcp.servers.hostile_server import ECHO, answer, server, text


def tools_without_end() -> None:
    server.list_tools = lambda r: answer(r, {"tools": [], "nextCursor": r.get("params", {}).get("cursor", "") + "x"})


def tools_in_a_circle() -> None:
    server.list_tools = lambda r: answer(r, {"tools": [ECHO] if "params" not in r else [], "nextCursor": "again"})


def pages() -> None:
    def list_tools(request: dict[str, Any]) -> None:
        page = int(request.get("params", {}).get("cursor", "0"))
        tools = [{**ECHO, "name": f"tool_{page}_{n}"} for n in range(10)]
        answer(request, {"tools": tools} | ({"nextCursor": str(page + 1)} if page < 4 else {}))

    server.list_tools = list_tools


def two_thousand_tools() -> None:
    server.tools = [
        {
            "name": f"tool{number}",
            "description": f"Tool number {number}.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "what to look for"},
                    "options": {
                        "type": "object",
                        "properties": {"deep": {"type": "boolean"}, "n": {"type": "integer"}},
                    },
                },
                "required": ["query"],
            },
        }
        for number in range(2000)
    ]


def bad_tools() -> None:
    """A listing in which hardly anything is as it should be, and one tool is."""
    deep: Any = {"type": "string"}
    for _ in range(150):
        deep = {"type": "array", "items": deep}
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    named = [
        ("invalid", {"type": "object", "properties": {"x": {"type": "strnig"}}}),
        ("recursive", {"type": "object", "properties": {"n": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}),
        ("endless", {"$ref": "#"}),
        ("deep", {"type": "object", "properties": {"x": deep}}),
        ("enormous", {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(60_000)}}),
        ("foreign", {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/schema.json"}}}),
        ("pattern", {"type": "object", "properties": {"mail": {"type": "string", "pattern": "^(?!x)(?=y).*$"}}}),
        ("no_object", {"type": "array"}),
        ("text", "not a schema"),
        ("nothing", None),
        ("boolean", True),
        ("required", {"type": "object", "required": 5}),
    ]
    server.tools = [{"name": name, "inputSchema": schema} for name, schema in named]
    server.tools += [
        None,
        5,
        {"name": 7, "inputSchema": {"type": "object"}},
        {"name": "", "inputSchema": {"type": "object"}},
        {"name": "   ", "inputSchema": {"type": "object"}},
        {"inputSchema": {"type": "object"}},
        {"name": "twice", "inputSchema": {"type": "object"}},
        {"name": "twice", "inputSchema": {"type": "object"}},
        {"name": "odd_hints", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "yes"}},
        {"name": "no_hints", "inputSchema": {"type": "object"}, "annotations": 5},
        {"name": "wordy", "description": "w" * 100_000, "inputSchema": {"type": "object"}},
        {"name": "control", "description": "red \x1b[31m alert\x07", "inputSchema": {"type": "object"}},
        {"name": "not_words", "description": {"a": 1}, "inputSchema": {"type": "object"}},
        {"name": "bad_output", "inputSchema": {"type": "object"}, "outputSchema": {"type": "strnig"}},
        ECHO,
    ]


def tools_of_a_file() -> None:
    """What a test has written down: each tool answers with the arguments that came."""
    server.tools = json.loads(Path(os.environ["TOOLS_FILE"]).read_text())
    server.call = lambda r: answer(r, text(json.dumps(r["params"].get("arguments"))))


def bad_names() -> None:
    names = ["__class__", "print", "execute_code", "class", "get-x", "get_x", "get.x", "s\u0435arch", "search", "天気"]
    names += ["\u202egnirts", "a" * 500, "with\nnewline", "rpc.x", "ﬁle", "1st", "tools"]
    server.tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    server.call = lambda r: answer(r, text(r["params"]["name"]))


def structured() -> None:
    """Structured content that does or does not keep its promise."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wrapped = {"type": "object", "properties": {"result": {"type": "array", "items": {"type": "integer"}}}}
    wrapped["x-fastmcp-wrap-result"] = True  # type: ignore[assignment]
    results: dict[str, Any] = {
        "right": {"content": [], "structuredContent": {"n": 1}},
        "wrong": {"content": [], "structuredContent": {"n": "one"}},
        "none": {"content": [{"type": "text", "text": "no structure"}]},
        "in_text": {"content": [{"type": "text", "text": '{"n": 2}'}]},
        "wrapped": {"content": [], "structuredContent": {"result": [1, 2]}},
    }
    server.tools = [
        {
            "name": name,
            "inputSchema": {"type": "object"},
            "outputSchema": wrapped if name == "wrapped" else schema,
            "annotations": {"readOnlyHint": True},
        }
        for name in results
    ]
    server.call = lambda r: answer(r, results[r["params"]["name"]])


def beside() -> None:
    """An image and a link beside structured content; output schemas that have room for them, and such that do not."""
    closed: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    schemas = {
        "closed": closed,
        "typed": {**closed, "additionalProperties": {"type": "integer"}},
        "unevaluated": {"type": "object", "properties": {"n": {}}, "unevaluatedProperties": False},
        "in_text": closed,
        "has_the_key": {"type": "object", "properties": {"artifacts": {"type": "integer"}}},
        "by_reference": {"$ref": "#/$defs/a", "$defs": {"a": closed}},
        "wrapped": {"type": "object", "properties": {"result": {"type": "integer"}}, "x-fastmcp-wrap-result": True},
        "wrapped_object": {"type": "object", "properties": {"result": closed}, "x-fastmcp-wrap-result": True},
    }
    values: dict[str, Any] = {
        "has_the_key": {"artifacts": 1},
        "wrapped": {"result": 1},
        "wrapped_object": {"result": {"n": 1}},
    }
    server.tools = [{"name": name, "inputSchema": {}, "outputSchema": schema} for name, schema in schemas.items()]

    def call(request: dict[str, Any]) -> None:
        name = request["params"]["name"]
        value = values.get(name, {"n": 1})
        text = {"type": "text", "text": json.dumps(value)}
        image = {"type": "image", "data": "eHh4", "mimeType": "image/png"}
        link = {"type": "resource_link", "uri": "note://1", "name": "first"}
        structured = {} if name == "in_text" else {"structuredContent": value}
        answer(request, {"content": [text, image, link], **structured})

    server.call = call
