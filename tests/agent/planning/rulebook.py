"""Tools over a small rule book, and a model that answers in JSON: what tests of planning share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from callgate import Runtime, Tool
from callgate.agent.models.scripted import ScriptedModel, Turn
from callgate.agent.planning.planner import ToolPlanner
from callgate.agent.planning.tool_plan import DecomposedQuery, SubQuery, ToolPlan
from callgate.tools import tool

__all__ = [
    "RULEBOOK", "answer", "by_id", "chosen", "decomposed", "planner", "roster", "rulebook", "settle", "validate_answer",
    "vector_search",
]  # fmt: skip


@tool(
    name="vector-search",
    read_only=True,
    category="search",
    capabilities=["semantic search", "rules"],
    limitations=["poor at exact names"],
    examples=[
        {
            "query": "how far do jump packs move",
            "parameters": {"query": "jump pack movement"},
            "expected_result": "the rule of movement",
        }
    ],
    cost=0.2,
)
async def vector_search(query: str, limit: int = 5) -> dict[str, Any]:
    """Find passages of the rules by their meaning.

    Args:
        query: what is looked for.
        limit: passages at most.
    """
    return {"hits": [f"about {query}"][:limit], "confidence": 0.8}


@tool(name="keyword-search", read_only=True, category="search", capabilities=["exact search", "rules"], cost=0.1)
async def keyword_search(query: str, limit: int = 5) -> dict[str, Any]:
    """Find passages of the rules with these very words.

    Args:
        query: the words.
        limit: passages at most.
    """
    return {"hits": [query][:limit], "confidence": 0.6}


@tool(name="hybrid-search", read_only=True, category="search", capabilities=["hybrid search"])
async def hybrid_search(query: str, alpha: float = 0.5) -> dict[str, Any]:
    """Find passages by meaning and by words.

    Args:
        query: what is looked for.
        alpha: share of the meaning.
    """
    return {"hits": [query], "confidence": alpha}


@tool(name="hyde-search", read_only=True, category="search", capabilities=["semantic search", "hyde"])
async def hyde_search(query: str) -> dict[str, Any]:
    """Find passages that are like a made-up answer.

    Args:
        query: the question.
    """
    return {"hits": [query]}


@tool(read_only=True)
async def roster(faction: str, points: int) -> dict[str, Any]:
    """Units of a faction that so many points can buy.

    Args:
        faction: its name.
        points: to be spent.
    """
    return {"units": [faction], "points": points}


@tool(name="synthesize", read_only=True, category="synthesis", timeout_seconds=None)
async def settle(findings: list[Any]) -> str:
    """Put findings together into one answer.

    Args:
        findings: results of other tools.
    """
    return str(findings)


@tool(name="validate-answer", read_only=True, category="validation")
async def validate_answer(answer: str) -> dict[str, Any]:
    """Hold an answer against its sources.

    Args:
        answer: the words.
    """
    return {"valid": bool(answer), "confidence": 0.9}


RULEBOOK: tuple[Tool, ...] = (
    vector_search, keyword_search, hybrid_search, hyde_search, roster, settle, validate_answer,
)  # fmt: skip


def rulebook(*tools: Any) -> Runtime:
    """A runtime over these tools, or over all of them. It need not be entered to plan."""
    return Runtime(tools or RULEBOOK, sandbox=None)


def answer(*chain: Mapping[str, Any], reasoning: str = "as the question asks") -> str:
    """A model's answer, as the template wants it."""
    return json.dumps({"reasoning": reasoning, "toolChain": list(chain)})


def chosen(tool_name: str, sub_query: str = "", confidence: float = 0.9, **parameters: Any) -> dict[str, Any]:
    """An entry of the chain."""
    return {"subQuery": sub_query, "tool": tool_name, "parameters": parameters, "confidence": confidence}


def decomposed(query: str, *parts: SubQuery | str, confidence: float = 0.9, **fields: Any) -> DecomposedQuery:
    """A query in these parts."""
    made = tuple(part if isinstance(part, SubQuery) else SubQuery(text=part, confidence=0.9) for part in parts)
    return DecomposedQuery(query=query, sub_queries=made, confidence=confidence, **fields)


def planner(*turns: Turn, runtime: Runtime | None = None, **options: Any) -> tuple[ToolPlanner, ScriptedModel]:
    """A planner whose model plays these turns."""
    model = ScriptedModel(turns)
    return ToolPlanner(runtime or rulebook(), model, **options), model


def by_id(plan: ToolPlan) -> dict[str, Any]:
    """The steps by their ids."""
    return {step.id: step for step in plan.steps}
