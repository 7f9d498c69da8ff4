"""An answer to a model's call: text for the model, and what a host wants to know besides. Calls nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from callgate.runtime.result import MODEL_CHARACTERS, CodeResult, cut
from callgate.runtime.search.result import Described, SearchResult

if TYPE_CHECKING:
    from callgate.runtime.plans.result import PlanResult

__all__ = ["Answer", "error_text", "value_text"]

_SHARE = MODEL_CHARACTERS // 2
_MOST_LOOKED = 2 * MODEL_CHARACTERS


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a model's call came to."""

    name: str
    """The tool, by its own name, or the meta-tool."""
    text: str
    """For the model: of a tool, the text that it returned, as it is, or its result as compact JSON."""
    ok: bool = True
    """False where the call was refused or failed, or the program or the plan did."""
    mistake: bool = False
    """The model's own: no such tool, wrong arguments, a tool it may not call, a program or a plan that was not run."""
    value: Any = None
    """The result of a tool, as a JSON value; None for meta-tools."""
    result: CodeResult | PlanResult | SearchResult | Described | None = None
    """What a meta-tool came to; None for tools, and for calls that were refused."""
    found: tuple[str, ...] = ()
    """Tools that a search found or that were described, by their own names, best first."""
    tools_changed: bool = False
    """The model's list of tools has changed: give it `Conversation.tool_definitions` anew before its next turn."""
    bare: bool = False
    """The tool promises an object, so that `structured` is `value` itself, and not ``{"result": value}``."""

    def structured(self) -> dict[str, Any] | None:
        """The answer as a JSON object, for MCP's ``structuredContent``; None where the call was refused or a tool
        failed.

        It fits the ``outputSchema`` of ``tool_definitions("mcp")``. Long fields are cut as `text` is; `truncated` names
        them.
        """
        match self.result:
            case None:
                if not self.ok:
                    return None
                return self.value if self.bare else {"result": self.value}
            case CodeResult() as run:
                return _code(run)
            case SearchResult() | Described() as looked:
                return _looked(looked.to_json())
            case plan:
                return _plan(plan)


def value_text(value: Any, encoded: str) -> str:
    """A tool's result as a model reads it: a text as it is, unless it is blank, and anything else as JSON.

    Args:
        value: the result.
        encoded: the same as compact JSON.
    """
    return value if isinstance(value, str) and value.strip() else encoded


def error_text(message: str) -> str:
    """What went wrong as a model reads it. Messages of servers often begin with that word: it stands there once."""
    return message if message[:5].lower() == "error" else f"Error: {message}"


def _looked(told: dict[str, Any]) -> dict[str, Any]:
    """What a search tells, without schemas where these are long."""
    if len(json.dumps(told, ensure_ascii=False)) <= _MOST_LOOKED:
        return told
    for each in told.get("found", told.get("tools", ())):
        for key in ("input_schema", "output_schema"):
            each.pop(key, None)
        each["description"] = cut(each["description"], 500)
    return told


def _code(run: CodeResult) -> dict[str, Any]:
    truncated = set(run.truncated)
    shown: dict[str, Any] = {"ok": run.ok, "logs": _cut("logs", run.logs, truncated)}
    if run.value_repr is not None:
        shown["value"] = _cut("value", run.value_repr, truncated)
    elif run.value is not None:
        shown["value"] = _value("value", run.value, _SHARE, truncated)
    if run.notes:
        shown["notes"] = list(run.notes)
    return shown | _rest(run, truncated)


def _plan(run: PlanResult) -> dict[str, Any]:
    truncated = set(run.truncated)
    share = max(_SHARE // max(len(run.outputs), 1), 200)
    outputs = {name: _value("outputs", value, share, truncated) for name, value in list(run.outputs.items())[:200]}
    if len(run.outputs) > len(outputs):
        truncated.add("outputs")
    steps = [
        {"id": step.id, "tool": step.tool, "status": step.status, "error": step.error and cut(step.error, 500)}
        for step in run.steps[:200]
    ]
    if len(run.steps) > len(steps):
        truncated.add("steps")
    return {"ok": run.ok, "outputs": outputs, "steps": steps} | _rest(run, truncated)


def _rest(run: CodeResult | PlanResult, truncated: set[str]) -> dict[str, Any]:
    error = run.error and {
        "kind": run.error.kind,
        "message": _cut("error", run.error.message, truncated),
        "line": run.error.line,
    }
    return {"error": error, "tool_calls": len(run.calls), "truncated": sorted(truncated)}


def _value(name: str, value: Any, most: int, truncated: set[str]) -> Any:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        truncated.add(name)
        return "(nested too deeply to be shown)"
    if len(text) <= most:
        return value
    truncated.add(name)
    return cut(text, most)


def _cut(name: str, text: str, truncated: set[str]) -> str:
    if len(text) > _SHARE:
        truncated.add(name)
        text = cut(text, _SHARE)
    return text.encode("utf-8", "replace").decode()
