"""What a task came to: the answer on stdout, or why there is none and what to do about it, and the exit code."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from callgate.cut import cut

from .words import FAILED, LIMIT, OK, USAGE, emit, explain, one_line, say

if TYPE_CHECKING:
    from callgate.agent.loop.result import AgentResult

    from .agent_options import Chosen

__all__ = ["exit_code", "raised", "report"]

_MOST_WORDS = 2_000
_STATUS = {"answered": OK, "budget": LIMIT, "rejected": USAGE}
"""Exit codes by outcome; any other is that there is no answer."""
_HEADLINES = {
    "refused": "the model refused",
    "empty": "the model said nothing, again and again",
    "cut": "the model's replies were cut at its limit of tokens, again and again",
    "stuck": "the model went round in circles",
    "budget": "the budget is spent",
    "unavailable": "the model's endpoint gives no answer",
    "rejected": "the model's endpoint will not take the request",
    "too_long": "the conversation is longer than the model takes",
    "interrupted": "the agent was interrupted",
}
_TIPS = {
    "refused": "say the task in other words, or name another model",
    "empty": "name another model; small ones do better with --mode direct",
    "cut": "ask for less in one answer, or name another model",
    "stuck": "--verbose shows every call and every result; a tool's error should say what to do instead",
    "unavailable": "try again later; --base-url names another endpoint",
    "rejected": "look at --model, at --base-url, and at the key in {key}",
    "replay": "give the task, the mode, the system prompt and the tools of the recording; --record FILE makes another",
    "ollama": "start it: ollama serve; --base-url names another endpoint",
    "too_long": "offer fewer tools, let programs and plans keep results out of the conversation, or name another model",
}
_KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}


def report(result: AgentResult, chosen: Chosen, model_calls: int, *, as_json: bool) -> int:
    """Show the result, and give the exit code. Raises `OutputLost`.

    Args:
        result: of the task.
        chosen: what was asked for.
        model_calls: replies of the model, a planner's included.
        as_json: everything as one object, instead of the answer.
    """
    if as_json:
        emit(json.dumps(_whole(result, model_calls), ensure_ascii=False, default=str))
    elif result.ok:
        emit(result.answer)
    if result.ok:
        return OK
    if result.answer and not as_json:
        say("what there was of an answer:", "dim")
        say(cut(result.answer, _MOST_WORDS))
    headline = _HEADLINES.get(result.outcome, result.outcome)
    if result.outcome == "rejected" and _kind(chosen) == "replay":
        headline = "the recording does not fit"
    reason = one_line(result.reason)
    explain(reason if reason.startswith(headline) else f"{headline}: {reason}" if reason else headline,
            _tip(result, chosen))  # fmt: skip
    return exit_code(result.outcome)


def exit_code(outcome: str) -> int:
    """Of the command, for a task that ended so."""
    return _STATUS.get(outcome, FAILED)


def _tip(result: AgentResult, chosen: Chosen) -> str:
    if result.outcome == "budget":
        return f"raise it with {' '.join(raised(result, chosen))}, or ask for less"
    tip = _TIPS.get(result.outcome, "")
    if (result.outcome, _kind(chosen)) in (("rejected", "replay"), ("unavailable", "ollama")):
        return _TIPS[_kind(chosen)]
    if "{key}" in tip:
        anthropic = (chosen.model or "").startswith(("anthropic:", "claude"))
        tip = tip.format(key=_KEYS["anthropic" if anthropic else "openai"])
    return tip


def _kind(chosen: Chosen) -> str:
    """What stands before the colon in the model's name."""
    return (chosen.model or "").partition(":")[0]


def raised(result: AgentResult, chosen: Chosen) -> tuple[str, str]:
    """Which of the budget's bounds to raise, and to what: twice what was allowed, or was spent."""
    tokens = result.usage.input_tokens + result.usage.output_tokens
    if result.turns >= chosen.max_turns:
        return "--max-turns", f"{chosen.max_turns * 2}"
    if chosen.max_tokens is not None and tokens >= chosen.max_tokens * 0.9:
        return "--max-tokens", f"{max(chosen.max_tokens, tokens) * 2}"
    if chosen.max_cost is not None and result.cost is not None and result.cost >= chosen.max_cost * 0.9:
        return "--max-cost", f"{max(chosen.max_cost, result.cost) * 2:g}"
    return "--seconds", f"{max(chosen.seconds, result.seconds) * 2:.10g}"


def _whole(result: AgentResult, model_calls: int) -> dict[str, Any]:
    """The result as JSON values; the conversation is in the transcript."""
    return {
        "ok": result.ok,
        "outcome": result.outcome,
        "answer": result.answer,
        "sources": [dict(source) for source in result.sources],
        "reason": result.reason,
        "turns": result.turns,
        "model_calls": model_calls,
        "tool_calls": result.tool_calls,
        "usage": asdict(result.usage),
        "cost": result.cost,
        "seconds": result.seconds,
        "routes": [asdict(route) for route in result.routes],
        "found": list(result.found),
        "artifacts": [dict(artifact) for artifact in result.artifacts],
        "transcript": None if result.transcript is None else str(result.transcript),
    }
