"""The texts that ask a model to take a query apart or to choose tools, and the schemas of its answers. Builds texts
within bounds; asks no model, reads no answer.

The template is the tool planning engine's. The system text has what does not change between queries, so that providers
can cache it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from callgate.tools.faults import printable
from callgate.tools.registry import ToolInfo

from .reading import MAX_CHOICES
from .selection import Advice
from .tool_plan import MAX_PARTS, DecomposedQuery

__all__ = [
    "DECOMPOSITION_SCHEMA", "DECOMPOSITION_SYSTEM", "MAX_PROMPT_CHARACTERS", "decomposition_request", "repair",
    "selection_request", "selection_schema", "selection_system",
]  # fmt: skip

MAX_PROMPT_CHARACTERS = 40_000
"""About 10,000 tokens for all tools together. Where the tools' entries are longer, each is cut to an equal share, so
that no tool can hide others."""
_MAX_QUERY = 4_000
_MAX_PART = 1_000
_MAX_DESCRIPTION = 600
_MAX_PARAMETER = 400
_MAX_LINE = 300
_MAX_EXAMPLES = 2
_MAX_FAULTS = 20
_MAX_REASONING = 600
_MAX_SCHEMA_TOOLS = 20
_MAX_SCHEMA_CHARACTERS = 20_000
"""A longer schema leaves out the tools' own parameters: providers bound what they compile."""

_REFERENCE = {"type": "string", "pattern": r"^\$ref:c[0-9]"}

DECOMPOSITION_SYSTEM = f"""You take questions apart for a planner that calls tools.

Split the query into the fewest sub-queries that can be answered one by one. A simple query stays whole: one sub-query.
At most {MAX_PARTS}.
- Each sub-query is a question of its own, and names what it is about: no "it", no "they".
- dependsOn: the positions, from 0, of the sub-queries whose answers it needs. Empty where it needs none.
- kind: lookup, comparison, validation, synthesis, or another word.
- confidence: from 0 to 1, how sure you are that it is part of what was asked; the outer one, that the split is right.

**Output Format**: JSON, and nothing else:
{{"queryType": "simple | comparison | multi-hop | list", "confidence": 0.9,
 "subQueries": [{{"text": "...", "kind": "lookup", "confidence": 0.9, "dependsOn": []}}]}}"""


def _object(**properties: Any) -> dict[str, Any]:
    """The schema of an object with just these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _array(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}
_SUB_QUERY = _object(text=_TEXT, kind=_TEXT, confidence=_NUMBER, dependsOn=_array({"type": "integer"}))
DECOMPOSITION_SCHEMA: Mapping[str, Any] = _object(queryType=_TEXT, confidence=_NUMBER, subQueries=_array(_SUB_QUERY))

_GUIDELINES = """**Guidelines**:
1. Use semantic (vector) search for questions of meaning, keyword search for exact matches, hybrid search for both.
2. Use synthesis tools after the searches, and validation tools after synthesis.
3. Avoid tools that are slow or fail often where another tool will do.
4. Prefer fewer tools over more."""
_FORMAT = """**Output Format**: JSON, and nothing else:
{"reasoning": "...", "toolChain": [
 {"subQuery": "...", "tool": "...", "parameters": {...}, "confidence": 0.9}]}
- subQuery: one of the sub-queries, word for word.
- parameters: what the tool takes, with the values that the query names.
- A parameter may be an earlier result: "$ref:c0" is the result of the first entry of toolChain, "$ref:c1.field" a field
  of the second. Use it where an entry needs what another finds.
- confidence: from 0 to 1, how sure you are that this is the right tool.
- An empty toolChain where no tool is needed."""


def decomposition_request(query: str) -> str:
    """The message that asks a model to take a query apart."""
    return f"**Query**: {_cut(query, _MAX_QUERY)}"


def selection_system(tools: Sequence[ToolInfo]) -> str:
    """The part of the template that is equal for all queries: tools, guidelines, output format."""
    entries = [_described(tool) for tool in tools]
    if sum(map(len, entries)) > MAX_PROMPT_CHARACTERS:
        share = MAX_PROMPT_CHARACTERS // len(entries)
        entries = [entry if len(entry) <= share else f"{entry[:share]}\n    (and more)" for entry in entries]
    listed = "\n".join(entries)
    return (
        f"You are an expert tool planner.\n\n**Available Tools**:\n{listed}\n\n"
        f"For each sub-query, select the best tool(s) to use.\n\n{_GUIDELINES}\n\n{_FORMAT}"
    )


def selection_request(query: DecomposedQuery, advice: Advice | None) -> str:
    """The part of the template that is this query's own."""
    lines = [
        f"**Query**: {_cut(query.query, _MAX_QUERY)}",
        f"**Query Type**: {_cut(query.query_type, 80) or 'not known'}",
        "**Sub-Queries**:",
    ]
    for part in query.sub_queries:
        needs = ", ".join(_cut(query.sub_queries[place].text, 80) for place in part.depends_on)
        kind = f" ({_cut(part.kind, 40)})" if part.kind else ""
        lines.append(f"- {_cut(part.text, _MAX_PART)}{kind}{f' [needs: {needs}]' if needs else ''}")
    experience = _advised(advice) if advice is not None else []
    return "\n".join([*lines, "**Experience**:", *experience] if experience else lines)


def selection_schema(query: DecomposedQuery, tools: Sequence[ToolInfo], *, has_bounds: bool = False) -> dict[str, Any]:
    """The schema of an answer: the tools by name, each with its own parameters where they are few and small.

    Args:
        query: the query in its parts.
        tools: the tools that the model sees.
        has_bounds: whether the schema bounds lengths; Anthropic takes no such bounds.
    """
    reasoning: dict[str, Any] = {"type": "string"}
    chain: dict[str, Any] = {"type": "array"}
    if has_bounds:  # without bounds, a small model that is held to a schema may never end
        reasoning["maxLength"] = _MAX_REASONING
        chain["maxItems"] = MAX_CHOICES
    texts = list(dict.fromkeys(part.text for part in query.sub_queries))
    part: dict[str, Any] = (
        {"type": "string", "enum": texts} if sum(map(len, texts)) <= _MAX_QUERY else {"type": "string"}
    )

    def choice(names: list[str], parameters: dict[str, Any]) -> dict[str, Any]:
        tool = {"type": "string", "enum": names}
        return _object(subQuery=part, tool=tool, parameters=parameters, confidence=_NUMBER)

    by_tool = [choice([tool.name], _parameters(tool.parameters)) for tool in tools]
    small = len(tools) <= _MAX_SCHEMA_TOOLS and all("$ref" not in json.dumps(tool.parameters) for tool in tools)
    if small and len(json.dumps(by_tool)) <= _MAX_SCHEMA_CHARACTERS:
        items = by_tool[0] if len(by_tool) == 1 else {"anyOf": by_tool}
    else:
        items = choice([tool.name for tool in tools], {"type": "object"})
    return _object(reasoning=reasoning, toolChain={**chain, "items": items})


def repair(faults: Sequence[str]) -> str:
    """The message after an answer with faults."""
    listed = "\n".join(f"- {_cut(each, _MAX_LINE)}" for each in faults[:_MAX_FAULTS])
    more = f"\n- and {len(faults) - _MAX_FAULTS} more" if len(faults) > _MAX_FAULTS else ""
    return f"This cannot be used:\n{listed}{more}\nSend the whole JSON again, corrected, and nothing else."


def _parameters(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's schema that allows a reference instead of each value."""
    properties = {
        name: each
        if isinstance(each, Mapping) and each.get("type") == "string" and not {"enum", "const", "format"} & each.keys()
        else {"anyOf": [each, _REFERENCE]}
        for name, each in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties, "additionalProperties": schema.get("additionalProperties", False)}


def _described(tool: ToolInfo) -> str:
    kind = f" ({_cut(tool.category, 40)})" if tool.category else ""
    lines = [f"- {printable(tool.name)}{kind}: {_cut(tool.description, _MAX_DESCRIPTION)}"]
    required = tool.parameters.get("required", ())
    for name, schema in tool.parameters.get("properties", {}).items():
        need = "required" if name in required else "optional"
        lines.append(f"    parameter {_cut(name, 80)} ({need}): {_cut(_compact(schema), _MAX_PARAMETER)}")
    for title, listed in (("capabilities", tool.capabilities), ("limitations", tool.limitations)):
        if listed:
            lines.append(f"    {title}: {_cut('; '.join(listed), _MAX_LINE)}")
    lines += [f"    example: {_cut(_compact(each), _MAX_LINE)}" for each in tool.examples[:_MAX_EXAMPLES]]
    known = []
    if tool.average_seconds is not None:
        known.append(f"takes {tool.average_seconds:.2g} s on average")
    if tool.failure_rate is not None:
        known.append(f"fails {100 * tool.failure_rate:.0f} % of the time")
    if tool.cost is not None:
        known.append(f"costs {tool.cost:g}" if isinstance(tool.cost, (int, float)) else f"costs {_cut(tool.cost, 60)}")
    if known:
        lines.append(f"    {', '.join(known)}")
    return "\n".join(lines)


def _advised(advice: Advice) -> list[str]:
    lines = []
    for tool in advice.tools[:_MAX_FAULTS]:
        rate = "" if tool.success_rate is None else f"{100 * tool.success_rate:.0f} % of {tool.samples} tries succeeded"
        avoid = f"avoid it: {_cut(tool.avoid, 120)}" if tool.avoid else ""
        if rate or avoid:
            lines.append(f"- {printable(tool.tool)}: {'; '.join(filter(None, (avoid, rate)))}")
    for each in advice.combinations[:5]:
        names = " then ".join(printable(name) for name in each.tools)
        lines.append(f"- worked together for queries like this one, {each.successes} of {each.tries} times: {names}")
    return lines


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _cut(text: str, most: int) -> str:
    """The text in one line of at most `most` characters."""
    line = printable(" ".join(text[: 2 * most].split()))
    return line if len(line) <= most else line[: most - 1] + "…"
