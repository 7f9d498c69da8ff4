"""Words for the runs of a store: lines of a list, the page of one run, and questions that wait. Reads no store.

Secrets are redacted as on a run's page, by their keys. The arguments that a person decides about are shown whole, or
the line says how much of them is missing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from callgate.durable.store import ENDED
from callgate.runtime import Redaction
from callgate.runtime.durable.pending import call_name

from .screen import call_text
from .words import one_line, tame

if TYPE_CHECKING:
    from callgate.durable.store import Approval, RunHistory, StoredCall, StoredRun
    from callgate.runtime.durable.pending import PendingCall
    from callgate.runtime.run_redaction import RunRedaction

__all__ = ["call_text_of", "page_of", "question", "question_json", "redaction_of", "run_json", "run_line"]

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_MOST_TEXT = 400
_MOST_ASKED = 4_000
"""Characters of the arguments of one question."""
_MOST_SOURCE_LINES = 40
_STATUS_WIDTH = len("needs_attention")


def ago(seconds: float) -> str:
    """A stretch of time in its largest unit: ``2 h``."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return "0 s"


def _left(seconds: float) -> str:
    """A stretch of time that is left, in its two largest units: ``6 d 23 h``."""
    first = ago(seconds)
    size = dict(_UNITS)[first.split()[1]]
    rest = ago(seconds % size)
    return first if rest == "0 s" else f"{first} {rest}"


def run_line(run: StoredRun) -> str:
    """One run of a list: id, status, age, key, and what it waits for or why it failed."""
    age = ago(time.time() - run.created)
    known = f"{run.id}  {_status(run):<{_STATUS_WIDTH}}  {age:>6} ago  {one_line(run.key or '-')}"
    return f"{known}  {one_line(_why(run))}".rstrip()


def _status(run: StoredRun) -> str:
    return "ending" if run.cancelled and run.status not in ENDED else run.status


def _why(run: StoredRun) -> str:
    return Redaction().run().text(run.reason or "")


def redaction_of(history: RunHistory) -> RunRedaction:
    """The redaction of one run, which knows the secrets in the arguments of its calls."""
    shown = Redaction().run()
    for call in history.calls:
        shown.arguments(None, _read(call.arguments))
    return shown


def page_of(history: RunHistory) -> Iterator[str]:
    """One run for a person: its state, its program, its calls, its questions and its result."""
    run, shown, now = history.run, redaction_of(history), time.time()
    key = f" ({run.key})" if run.key else ""
    yield f"run {run.id}{key}: {run.kind}, {_status(run)}, begun {ago(now - run.created)} ago"
    if run.reason:
        yield f"  {one_line(shown.text(run.reason))}"
    if run.wake_at is not None and run.status == "waiting" and not history.approvals:
        yield f"  goes on by itself in {ago(run.wake_at - now)}"
    if run.wake_at is not None and run.status == "needs_attention":
        yield "  goes on by itself in a process that has its tools"
    lines = shown.source(run.text).splitlines()
    yield f"{run.kind}:"
    yield from (f"  {line}" for line in lines[:_MOST_SOURCE_LINES])
    if len(lines) > _MOST_SOURCE_LINES:
        yield f"  ... {len(lines) - _MOST_SOURCE_LINES} more lines: --json has them"
    asked = {approval.call: approval for approval in history.approvals}
    if history.calls:
        yield "calls:"
    for call in history.calls:
        yield f"  {call_name(call.key)}  {call.status:<8} {_call(call, shown)}"
        if run.status in ENDED and call.status in ("started", "unknown"):
            yield "    nobody knows whether it was done: the run ended without its outcome"
        if (approval := asked.get(call.key)) is not None:
            yield f"    {_decision(approval, now)}"
    if run.result is not None:
        yield "result:"
        yield f"  {_result(run.result, shown)}"


def _call(call: StoredCall, shown: RunRedaction) -> str:
    arguments = shown.arguments(None, _read(call.arguments))
    text = f"{call.tool}({_written(arguments)})"
    if call.outcome is None:
        return one_line(text, _MOST_TEXT)
    outcome = _read(call.outcome)
    if call.status == "failed" and isinstance(outcome, Mapping):
        said = f"{outcome.get('kind', 'error')}: {shown.text(str(outcome.get('message', '')))}"
    else:
        said = shown.result(None, call.outcome)
    return f"{one_line(text, _MOST_TEXT)} -> {one_line(said, _MOST_TEXT)}"


def _decision(approval: Approval, now: float) -> str:
    """What was decided, and who says to have decided it: nobody has checked the name."""
    decision = approval.decision
    if decision is None:
        return _waiting(approval.asked, approval.expires, now)
    edited = ", with other arguments" if decision.arguments is not None else ""
    why = f": {decision.reason}" if decision.reason else ""
    verb = "granted" if decision.granted else "denied"
    name = f" by {decision.by!r} (as the caller said)" if decision.by else ""
    return one_line(f"{verb}{edited}{name} {ago(now - decision.time)} ago{why}", _MOST_TEXT)


def _result(text: str, shown: RunRedaction) -> str:
    result = _read(text)
    if not isinstance(result, Mapping):
        return one_line(shown.text(text), _MOST_TEXT)
    error = result.get("error")
    if isinstance(error, Mapping):
        return one_line(f"{error.get('kind')}: {shown.text(str(error.get('message', '')))}", _MOST_TEXT)
    given = result.get("outputs", result.get("value_repr") or result.get("value"))
    return one_line(_written(shown.value(given)), _MOST_TEXT)


def question(call: PendingCall) -> str:
    """A call that waits for a person, with its arguments as they are but for secrets, by their keys."""
    now = time.time()
    text = _written(_for_person(call.arguments))
    if (missing := len(text) - _MOST_ASKED) > 0:
        half = _MOST_ASKED // 2
        text = f"{text[:half]} [{missing:,} characters not shown: --json has them] {text[-half:]}"
    age = "" if call.asked is None or call.expires is None else f"{_waiting(call.asked, call.expires, now)}"
    return f"{call.run}  {call.call}  {age}\n  {tame(call.tool)} with {tame(text)}"


def question_json(call: PendingCall) -> dict[str, Any]:
    """The same as JSON values, with the whole arguments."""
    return {**asdict(call), "arguments": _for_person(call.arguments)}


def call_text_of(call: PendingCall) -> str:
    """A call on one line, cut where it is long."""
    return call_text(call.tool, Redaction().run().arguments(None, call.arguments))


def _for_person(arguments: Any) -> Any:
    """Arguments for a person who decides about the call: nothing but secrets is left out."""
    try:
        return Redaction().run().step_for_approval(arguments)
    except RecursionError:
        return "(nested too deeply to be shown)"


def _waiting(asked: float, expires: float, now: float) -> str:
    left = expires - now
    return f"asked {ago(now - asked)} ago, {f'expires in {_left(left)}' if left > 0 else 'expired'}"


def run_json(run: StoredRun, history: RunHistory | None = None) -> dict[str, Any]:
    """A run as JSON values; with its text, calls, approvals and result if `history` is given."""
    shown = Redaction().run() if history is None else redaction_of(history)
    names = ("id", "key", "kind", "status", "belongs_to", "created", "changed", "wake_at", "cancelled")
    given = {name: getattr(run, name) for name in names}
    given["reason"] = None if run.reason is None else shown.text(run.reason)
    if history is None:
        return given
    given["text"] = shown.source(run.text)
    given["calls"] = [
        {
            "call": call_name(call.key), "tool": call.tool, "arguments": shown.arguments(None, _read(call.arguments)),
            "status": call.status, "idempotency_key": call.idempotency_key,
            "outcome": None if call.outcome is None else _read(shown.result(None, call.outcome)),
        }
        for call in history.calls
    ]  # fmt: skip
    given["approvals"] = [
        {
            "call": call_name(each.call), "tool": each.tool, "arguments": _for_person(_read(each.arguments)),
            "asked": each.asked, "expires": each.expires,
            "decision": None if each.decision is None else shown.value(asdict(each.decision)),
        }
        for each in history.approvals
    ]  # fmt: skip
    given["result"] = None if run.result is None else shown.value(_read(run.result))
    return given


def _read(text: str) -> Any:
    """The value of JSON text; the text itself where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
