"""Tokens of what a model is told of tools: the meta-tools' definitions against a definition for each tool, and stubs.

The tools are functions of the Berkeley function-calling collection (see `singles.gold`), with the schemas they have
there. The tokenizer is OpenAI's ``o200k_base``. Counted is the JSON of the request's `tools`, as it goes over the wire;
how a provider writes it into the model's prompt is not public, nor is Anthropic's tokenizer.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from statistics import median
from typing import Any

from callgate.bench.model.tokens import TokenizerMissing, Tokens
from callgate.bench.rows import Row
from callgate.bench.singles.context import Bench
from callgate.bench.singles.gold import Request, read_requests, register
from callgate.runtime import Runtime
from callgate.tools import Registry, Tool
from callgate.tools.stubs import DETAILS, stubs

__all__ = ["COUNTS", "PROVIDERS", "definitions"]

COUNTS = (10, 100, 500)
PROVIDERS = ("anthropic", "openai", "openai-responses", "mcp")
_FILES = ("bfcl_parallel.jsonl.gz", "bfcl_parallel_multiple.jsonl.gz")
_SEED = 20_261_122
_QUERIES = 50

Count = Callable[[str], int]


async def definitions(bench: Bench) -> list[Row]:
    """The definitions and the stubs of 10, 100 and 500 tools, in tokens."""
    absent = [name for name in _FILES if not (bench.calls / name).is_file()]
    if absent:
        return [_absent(f"there is no {bench.calls / absent[0]}; name the folder with --calls")]
    try:
        count: Count = Tokens()
    except TokenizerMissing as error:
        return [_absent(str(error))]
    requests = [request for name in _FILES for request in read_requests(bench.calls / name)]
    tools = _tools(requests)
    rows = []
    for number in COUNTS:
        chosen = random.Random(_SEED).sample(tools, number)
        runtime = Runtime(chosen, sandbox=None)
        names = {tool.name for tool in chosen}
        asked = [each.query for each in requests if any(call.function in names for call in each.calls)][:_QUERIES]
        answers = [count(runtime.search_tools(query, limit=10).for_model()) for query in asked]
        rows += [_definitions(runtime, provider, number, count, answers) for provider in PROVIDERS]
        rows.append(_stubs(Registry(chosen), number, count))
    return rows


def _absent(what: str) -> Row:
    return Row(key="definitions", measure="tokens of the definitions", measured=f"not to be had: {what}")


def _tools(requests: list[Request]) -> list[Tool]:
    """Every function of the requests once, by its name."""
    registry = Registry()
    seen: set[str] = set()
    for request in requests:
        new = [each for each in request.functions if each["name"] not in seen]
        seen.update(each["name"] for each in new)
        functions = Request(request.id, request.query, new, request.calls)
        register(functions, registry, lambda name, arguments: None, read_only=True)
    return list(registry)


def _definitions(runtime: Runtime, provider: Any, number: int, count: Count, answers: list[int]) -> Row:
    meta = count(_wire(runtime.tool_definitions(provider)))
    direct = count(_wire(runtime.tool_definitions(provider, meta=(), direct="all")))
    unlisted = count(_wire(runtime.tool_definitions(provider, inline_characters=0)))
    share = meta / direct
    return Row(
        key="definitions",
        measure=f"tokens of the definitions, {number} tools, {provider}",
        measured=f"{meta:,} ({share:.0%} of listing all); with no tool listed in them {unlisted:,}",
        peer=f"a definition for each tool: {direct:,}",
        ratio=share,
        note=f"the answer of one search for 10 tools: {median(answers):,.0f} more (p50 of {len(answers)} requests)",
        numbers={"meta": meta, "direct": direct, "unlisted": unlisted, "answers": answers},
    )


def _wire(value: list[dict[str, Any]]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _stubs(registry: Registry, number: int, count: Count) -> Row:
    tokens: dict[str, int] = {detail: count(stubs(registry, detail=detail)) for detail in DETAILS}
    schemas = [
        {"name": each.name, "description": each.description, "input_schema": each.input_schema} for each in registry
    ]
    listed = count(_wire(schemas))
    return Row(
        key="definitions",
        measure=f"tokens of the stubs, {number} tools",
        measured="; ".join(f"{detail} {many:,} ({many / number:.0f} a tool)" for detail, many in tokens.items()),
        peer=f"their JSON Schemas: {listed:,} ({listed / number:.0f} a tool)",
        ratio=tokens["full"] / listed,
        note="the ratio is that of full",
        numbers={**tokens, "schemas": listed},
    )
