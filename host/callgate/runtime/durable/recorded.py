"""What the store keeps of calls and results, as JSON, and back: records, errors and names. Waits for nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from pydantic_core import to_json

import callgate.errors
from callgate.durable.store import MAX_STORED_BYTES, CallKey, CallStatus, StoredCall
from callgate.errors import ToolError
from callgate.protocol.run import error_object
from callgate.runtime.gate.failures import ToolCrashed
from callgate.runtime.gate.records import CallRecord, CallUnderWay
from callgate.runtime.plans.result import PlanResult
from callgate.runtime.result import CodeResult, RunError
from callgate.tools import Tool
from callgate.tools.encoding import NotJson, canonical_json

__all__ = [
    "arguments_text", "as_given", "error_from", "error_text", "key_of", "records_from", "records_of", "records_text",
    "result_text", "schema_digest", "settled", "stored_call", "with_outcome",
]  # fmt: skip

_LEFT_OUT: Final = "(not kept: the result of the run is too large)"
_NOT_KEPT: Final = frozenset({"id", "tool", "arguments", "caller", "early", "replayed", "fallback_call"})
"""Fields of a record that the journal has elsewhere, or that the call has anew."""
_KEPT: Final = {each.name: each.default for each in fields(CallRecord) if each.name not in _NOT_KEPT}
"""The others, with their defaults, which are not written."""


def arguments_text(arguments: Any) -> str:
    """The arguments as JSON text, equal for equal arguments."""
    try:
        return canonical_json(arguments)
    except NotJson:  # the gate refuses them, and the refusal is kept like any other outcome
        return json.dumps(arguments, sort_keys=True, default=repr)


def schema_digest(tool: Tool) -> bytes:
    """What a person agrees to who approves a call: the tool's input schema and description, hashed."""
    text = canonical_json([tool.input_schema, tool.description])
    return hashlib.blake2b(text.encode(), digest_size=32).digest()


def records_text(chain: Sequence[CallRecord], given: tuple[str, str] | None = None) -> str:
    """The records of a call and of its fallbacks.

    Args:
        chain: the records.
        given: the call's tool and arguments as a guest wrote them, if the tool has other names for them.
    """
    kept = [
        {name: value for name, default in _KEPT.items() if (value := getattr(record, name)) != default}
        | ({"tool": record.tool} if number else {})
        for number, record in enumerate(chain)
    ]
    if given is not None:
        kept[0]["given"] = given
    return json.dumps(kept)


def records_from(text: str, tool: str, arguments: Any, caller: str) -> list[CallRecord]:
    """What `records_text` wrote; `id` and `fallback_call` count from 1."""
    chain = []
    listed = json.loads(text)
    for number, kept in enumerate(listed, 1):
        kept.pop("given", None)
        record = CallRecord(number, kept.pop("tool", tool)[:256], arguments, caller, 0.0)
        for name, value in kept.items():
            setattr(record, name, value)
        record.replayed = True
        record.fallback_call = number + 1 if number < len(listed) else None
        chain.append(record)
    return chain


def key_of(call: CallUnderWay) -> CallKey:
    """The name of a call that has one."""
    assert call.kept is not None
    assert call.kept.key is not None
    return call.kept.key


def stored_call(
    key: CallKey, call: CallUnderWay, status: CallStatus, record: str, outcome: str | None = None
) -> StoredCall:
    """A call as it is kept: see `StoredCall`."""
    number = None if call.kept is None else call.kept.number
    return StoredCall(
        key=key, number=number, tool=call.name[:256], arguments=arguments_text(call.arguments), status=status,
        outcome=outcome, idempotency_key=call.idempotency_key or "", record=record,
    )  # fmt: skip


def with_outcome(key: CallKey, call: CallUnderWay, chain: Sequence[CallRecord], outcome: str | ToolError) -> StoredCall:
    """A call that has its outcome, as it is kept.

    Args:
        key: its name.
        call: the call.
        chain: its record and those of its fallbacks.
        outcome: result or error.
    """
    given, written = None, None if call.kept is None else call.kept.written
    if written is not None and written != (call.name, call.arguments):
        given = written[0], arguments_text(written[1])
    record = records_text(chain, given)
    if isinstance(outcome, ToolError):
        return stored_call(key, call, "failed", record, error_text(outcome))
    return stored_call(key, call, "done", record, outcome)


def settled(call: StoredCall, outcome: str | ToolError | None) -> StoredCall:
    """A call that was at work when its process ended, after somebody has said what became of it.

    Args:
        call: as it is kept.
        outcome: its result as JSON, or its error; None for a call that was not done, and is to be made.
    """
    if outcome is None:
        return replace(call, status="waiting")
    if isinstance(outcome, ToolError):
        failed = json.dumps([{"status": "failed", "attempts": 1, "error": outcome.message, "result": None}])
        return replace(call, status="failed", outcome=error_text(outcome), record=failed)
    done = json.dumps([{"status": "succeeded", "attempts": 1, "error": None, "result": outcome[:4096]}])
    return replace(call, status="done", outcome=outcome, record=done)


def as_given(call: StoredCall) -> tuple[str, str]:
    """The tool and the arguments of a guest's call, as the guest wrote them."""
    given = json.loads(call.record)[0].get("given") if '"given"' in call.record else None
    tool, arguments = given or (call.tool, call.arguments)
    return tool, arguments


def records_of(calls: Iterable[StoredCall], caller: str) -> tuple[list[CallRecord], dict[int, str]]:
    """The records of a run's calls, and their whole results by the records' ids."""
    records: list[CallRecord] = []
    results: dict[int, str] = {}
    for call in calls:
        if call.status == "waiting":
            continue
        arguments, text = json.loads(call.arguments), call.record
        if call.outcome is None:  # it was at work
            text = json.dumps([{"status": "unknown_outcome", "attempts": 1}])
        chain = records_from(text, call.tool, arguments, caller)
        before = len(records)
        for record in chain:
            record.id += before
            record.fallback_call = None if record is chain[-1] else record.id + 1
        records += chain
        if call.status == "done":
            results[chain[-1].id] = call.outcome or "null"
    return records, results


def error_text(error: ToolError) -> str:
    """A tool's error, with the name of its class."""
    return json.dumps({"kind": type(error).__name__, **error_object(error)})


def error_from(text: str) -> ToolError:
    """What `error_text` wrote. A class that callgate does not have gets one of its name."""
    given = json.loads(text)
    kind, more = str(given["kind"]), given["data"]
    known: Any = ToolCrashed if kind == "ToolCrashed" else getattr(callgate.errors, kind, None)
    if not (isinstance(known, type) and issubclass(known, ToolError)):
        known = type(kind, (ToolError,), {})
    made: type[ToolError] = known
    return made(given["message"], code=given["code"], data=more["data"], retryable=more["retryable"], tool=more["tool"])


def result_text(result: CodeResult | PlanResult) -> str:
    """A result as JSON text; one that is too long to be kept is kept without its arguments, or without its value."""
    text, size = _written(result)
    if size > MAX_STORED_BYTES:
        calls = [replace(call, arguments=_LEFT_OUT, changed_arguments=None, result=None) for call in result.calls]
        text, size = _written(replace(result, calls=calls))
    if size > MAX_STORED_BYTES:
        error = RunError("LimitReached", f"the result of the run takes {size:,} bytes; {_LEFT_OUT[1:-1]}")
        less = replace(result, calls=[], error=result.error or error)
        less = (
            replace(less, steps=[], outputs={}) if isinstance(less, PlanResult) else replace(less, value=None, logs="")
        )
        text, _ = _written(less)
    return text


def _written(result: CodeResult | PlanResult) -> tuple[str, int]:
    """A result as JSON text, and its size in bytes. pydantic's writer takes a quarter of the time that Python's takes;
    it cannot write halves of surrogate pairs, nor what is nested very deeply."""
    given = result.to_dict()
    try:
        data = to_json(given, inf_nan_mode="constants")
    except (ValueError, RecursionError):
        text = json.dumps(given)
        return text, len(text)
    return data.decode(), len(data)
