"""What a model is told when it takes a query apart or chooses tools, and the schemas its answers have to fit. Builds
texts within bounds; asks nobody, reads no answer.

The template is the tool planning engine's. What does not change between queries comes first, in the system text, so
that providers can cache it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from callgate.search.words import stem
from callgate.tools.faults import printable
from callgate.tools.registry import ToolInfo

from .capabilities import Kind, kind_of, words_of_tool
from .outcome import Advice
from .reading import MAX_CHOICES, MAX_PARTS
from .tool_plan import DecomposedQuery

__all__ = [
    "DECOMPOSITION_SCHEMA",
    "DECOMPOSITION_SYSTEM",
    "MAX_PROMPT_CHARACTERS",
    "decomposition_request",
    "repair",
    "selection_request",
    "selection_schema",
    "selection_system",
]

MAX_PROMPT_CHARACTERS = 40_000
"""About 10,000 tokens: so much is told of all tools together. Where that is not enough, tools with a long description
are told in as much as is theirs of it, so that none can hide the others; where that is not enough, the last are left
out."""
_LEAST_OF_TOOL = 400
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
"""Beyond that, an answer's schema does not hold the tools' own: providers bound what they compile."""

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

_GUIDED: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({stem("hybrid")}), "best of both"),
    (frozenset({stem("keyword"), stem("exact")}), "exact matches"),
    (frozenset({stem("semantic"), stem("vector")}), "semantic lookups"),
)
_AFTER: tuple[tuple[Kind, str], ...] = (
    ("synthesis", "after the searches"),
    ("validation", "after synthesis, or after the searches where nothing is synthesized"),
)
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
    """What is said to have a query taken apart."""
    return f"**Query**: {_cut(query, _MAX_QUERY)}"


def selection_system(tools: Sequence[ToolInfo]) -> str:
    """The part of the template that is the same for every query: tools, guidelines, output format."""
    told: list[str] = []
    room = MAX_PROMPT_CHARACTERS
    entries = [_described(tool) for tool in tools]
    if sum(map(len, entries)) > room:
        share = max(room // len(entries), _LEAST_OF_TOOL)
        entries = [_shortened(entry, share) for entry in entries]
    for entry in entries:
        if len(entry) > room:
            told.append(f"({len(tools) - len(told)} more tools are left out)")
            break
        room -= len(entry)
        told.append(entry)
    return "\n\n".join(
        (
            "You are an expert tool planner.",
            "**Available Tools**:\n" + "\n".join(told),
            "For each sub-query, select the best tool(s) to use.",
            "**Guidelines**:\n" + "\n".join(f"{n}. {each}" for n, each in enumerate(_guidelines(tools), 1)),
            _FORMAT,
        )
    )


def selection_request(query: DecomposedQuery, advice: Advice | None) -> str:
    """The part of the template that is this query's."""
    parts = "\n".join(
        f"- {_cut(part.text, _MAX_PART)}"
        + (f" ({_cut(part.kind, 40)})" if part.kind else "")
        + (
            f" [needs: {', '.join(_cut(query.sub_queries[n].text, 80) for n in part.depends_on)}]"
            if part.depends_on
            else ""
        )
        for part in query.sub_queries
    )
    said = [
        f"**Query**: {_cut(query.query, _MAX_QUERY)}",
        f"**Query Type**: {_cut(query.query_type, 80) or 'not known'}",
        f"**Sub-Queries**:\n{parts}",
    ]
    lines = _advised(advice) if advice is not None else []
    if lines:
        said.append("**Experience**:\n" + "\n".join(lines))
    return "\n".join(said)


def selection_schema(query: DecomposedQuery, tools: Sequence[ToolInfo], *, bounded: bool = False) -> dict[str, Any]:
    """The schema of an answer: the tools by name, each with its own parameters where these are few and small.

    Args:
        query: in its parts.
        tools: that are shown.
        bounded: whether lengths are bounded; Anthropic takes no such bounds.
    """
    reasoning: dict[str, Any] = {"type": "string"}
    chain: dict[str, Any] = {"type": "array"}
    if bounded:  # a small model that is held to a schema would reason on and on
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
    """What is said after an answer that has faults."""
    listed = "\n".join(f"- {_cut(each, _MAX_LINE)}" for each in faults[:_MAX_FAULTS])
    more = f"\n- and {len(faults) - _MAX_FAULTS} more" if len(faults) > _MAX_FAULTS else ""
    return f"This cannot be used:\n{listed}{more}\nSend the whole JSON again, corrected, and nothing else."


def _parameters(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's schema, where a reference may stand for each value."""
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


def _shortened(entry: str, most: int) -> str:
    """The first lines of a tool's entry."""
    if len(entry) <= most:
        return entry
    more = "\n    (and more)"
    lines = entry[: most - len(more)].split("\n")
    return "\n".join(lines[:-1] or lines) + more


def _guidelines(tools: Sequence[ToolInfo]) -> list[str]:
    guided: dict[str, list[str]] = {}
    for tool in tools:
        if kind_of(tool) == "search":
            words = words_of_tool(tool)
            use = next((use for stems, use in _GUIDED if words & stems), "")
            if use:
                guided.setdefault(use, []).append(printable(tool.name))
    said = [f"Use {' or '.join(guided[use][:4])} for {use}" for _, use in reversed(_GUIDED) if use in guided]
    for kind, when in _AFTER:
        names = [printable(tool.name) for tool in tools if kind_of(tool) == kind]
        if names:
            said.append(f"Use {kind} tools ({', '.join(names[:4])}) {when}")
    return [*said, "Avoid tools that are slow or fail often where another will do", "Prefer fewer tools over more"]


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
    """One line, at most so long."""
    line = printable(" ".join(text[: 2 * most].split()))
    return line if len(line) <= most else line[: most - 1] + "…"
