"""The answer to a model's call: a value with a text for the model, and views for providers and for MCP."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from callgate.artifacts import HANDLE, Artifact, Shelf

from .discovery.found import Described, SearchResult
from .model.providers import Provider, blocks
from .pictures import Picture
from .result import MODEL_CHARACTERS, CodeResult, cut

if TYPE_CHECKING:
    from .plans.result import PlanResult

__all__ = ["Answer", "artifacts_of", "error_text"]

_SHARE = MODEL_CHARACTERS // 2
_MOST_LOOKED = 2 * MODEL_CHARACTERS
_HANDLE = re.compile(f'"artifact": ?"({HANDLE.pattern})"')
"""An artifact's object in JSON text."""
_MOST_ARTIFACTS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The answer to a model's call."""

    name: str
    """The tool's own name, or the meta-tool."""
    text: str
    """For the model; for a tool, the text that it returned, or its result as compact JSON."""
    ok: bool = True
    """False if the call was refused or failed, or its program or plan did."""
    mistake: bool = False
    """The model's own mistake: no such tool, wrong arguments, a forbidden tool, a refused program or plan."""
    value: Any = None
    """The result of a tool, as a JSON value; None for meta-tools."""
    result: CodeResult | PlanResult | SearchResult | Described | None = None
    """The result of a meta-tool; None for tools, and for refused calls."""
    found: tuple[str, ...] = ()
    """Tools that a search found or that were described, by their own names, best first."""
    tools_changed: bool = False
    """The model's list of tools has changed: send new `Conversation.tool_definitions` before its next turn."""
    bare: bool = False
    """The tool promises an object, so that `structured` is `value` itself, and not ``{"result": value}``."""
    artifacts: tuple[Artifact, ...] = ()
    """What the program displayed and left, and the artifacts whose handles are in the result or in a plan's outputs, in
    that order."""
    pictures: tuple[Picture, ...] = ()
    """Pictures for the model, beside the text: at most 4 of the `artifacts`, scaled down."""

    def blocks(self, provider: Provider) -> list[dict[str, Any]]:
        """The text and the pictures as content blocks in the form of a provider (``"mcp"`` included)."""
        return blocks(provider, self.text, self.pictures)

    def structured(self) -> dict[str, Any] | None:
        """The answer as a JSON object, for MCP's ``structuredContent``; None if the call was refused or a tool failed.

        The object fits the ``outputSchema`` of ``tool_definitions("mcp")``. Long fields are cut like `text`;
        `truncated` names them.
        """
        match self.result:
            case None if not self.ok:
                return None
            case None:
                return self.value if self.bare else {"result": self.value}
            case SearchResult() | Described() as looked:
                return _looked(looked.to_json())
            case run:
                return _run(run)


def error_text(message: str) -> str:
    """``Error: ...`` for a model. Messages of servers often begin with that word, which is not repeated."""
    return message if message[:5].lower() == "error" else f"Error: {message}"


def artifacts_of(answer: Answer, shelf: Shelf) -> tuple[Artifact, ...]:
    """The artifacts of an answer, each once: those of its program, and those that its result or its outputs name."""
    texts: Iterable[str] = ()
    made: Iterable[Artifact] = ()
    match answer.result:
        case SearchResult() | Described():
            pass
        case CodeResult() as run:
            made = run.artifacts
            texts = (answer.text,) if isinstance(run.value, (dict, list)) else ()
        case None:
            texts = (answer.text,) if answer.ok else ()
        case plan:
            texts = (step.result_json or "" for step in plan.steps if step.id in plan.outputs)
    found = {each.handle: each for each in made}
    for text in texts if len(shelf) else ():
        for handle in _HANDLE.findall(text):
            if len(found) < _MOST_ARTIFACTS and (kept := shelf.get(handle)) is not None:
                found[handle] = kept
    return tuple(found.values())


def _looked(result: dict[str, Any]) -> dict[str, Any]:
    """The result of a search as JSON, without schemas if it would be long."""
    if len(json.dumps(result, ensure_ascii=False)) <= _MOST_LOOKED:
        return result
    for each in result.get("found", result.get("tools", ())):
        each.pop("input_schema", None)
        each.pop("output_schema", None)
        each["description"] = cut(each["description"], 500)
    return result


def _run(run: CodeResult | PlanResult) -> dict[str, Any]:
    """The result of a program or a plan as JSON, with long fields cut."""
    truncated = set(run.truncated)

    def short(name: str, value: Any, most: int = _SHARE) -> Any:
        """The value; the beginning of its text if it is long."""
        try:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        except RecursionError:
            truncated.add(name)
            return "(nested too deeply to be shown)"
        if len(text) > most:
            truncated.add(name)
            value = cut(text, most)
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value

    shown: dict[str, Any] = {"ok": run.ok}
    if isinstance(run, CodeResult):
        shown["logs"] = short("logs", run.logs)
        value = run.value if run.value_repr is None else run.value_repr
        if value is not None:
            shown["value"] = short("value", value)
        if run.notes:
            shown["notes"] = list(run.notes)
        if run.artifacts:
            shown["artifacts"] = [each.to_json() for each in run.artifacts[:_MOST_ARTIFACTS]]
    else:
        share = max(_SHARE // max(len(run.outputs), 1), 200)
        shown["outputs"] = {name: short("outputs", value, share) for name, value in list(run.outputs.items())[:200]}
        shown["steps"] = [
            {"id": step.id, "tool": step.tool, "status": step.status, "error": step.error and cut(step.error, 500)}
            for step in run.steps[:200]
        ]
        truncated.update(name for name in ("outputs", "steps") if len(getattr(run, name)) > len(shown[name]))
    error = run.error and {
        "kind": run.error.kind, "message": short("error", run.error.message), "line": run.error.line,
    }  # fmt: skip
    return {**shown, "error": error, "tool_calls": len(run.calls), "truncated": sorted(truncated)}
