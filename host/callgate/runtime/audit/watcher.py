"""What the lines of an audit log say about runs and calls.

1. A call that the gate refuses has one line (``refused``, with the check that it did not pass). The answer of a person
   who was asked has one (``approved``, ``denied``). A call with effects has one before it is made (``called``). Every
   call that was not refused has one at its end (``outcome``).
2. Where the line before a call with effects cannot be written, the call is refused. Other lines that cannot be written
   are logged, and the next line that can be written counts them.
3. No line has an argument, a result or an error's text, unless the log includes content.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from callgate.cut import cut
from callgate.errors import ToolNotAllowed
from callgate.limits import Limits
from callgate.runtime.gate.arguments import weight
from callgate.runtime.gate.records import CallRecord
from callgate.runtime.gate.watching import CallWatch, Origin, RunStart, RunWatch, origin
from callgate.runtime.redaction import Redaction
from callgate.runtime.run_redaction import RunRedaction
from callgate.tools.encoding import NotJson, canonical_json
from callgate.tools.turns import LARGE_BYTES

from .chain import Keys
from .file import AppendFile

if TYPE_CHECKING:
    from callgate.runtime.plans.result import PlanResult
    from callgate.runtime.result import CodeResult
    from callgate.tools import Registry, Tool

__all__ = ["Auditor"]

_SHORT: Final = 200
"""Characters of a name in a line."""
_CONTENT: Final = 8 * 1024
"""Characters of arguments, of a result, and of an error in a line."""
_LIMITS: Final = Limits()

logger = logging.getLogger("callgate")


class Auditor:
    """Follows the runs of one runtime.

    Args:
        file: takes the lines.
        keys: make digests of values.
        redaction: of the runtime.
        include_content: whether arguments, results and errors stand in lines.
    """

    def __init__(self, file: AppendFile, keys: Keys, redaction: Redaction, include_content: bool) -> None:
        self.file = file
        self.keys = keys
        self.redaction = redaction
        self.include_content = include_content

    def run(self, start: RunStart) -> RunWatch:
        """A run begins."""
        return _Run(self, start)

    def note(self, kind: str, fields: dict[str, Any]) -> None:
        """Write a line; if it cannot be written, log that."""
        try:
            self.file.write(kind, fields)
        except OSError as error:
            logger.error("a line of the audit log (%s) was lost: %s", kind, error.strerror)

    def digest(self, text: str) -> str:
        """The keyed digest of a text."""
        return self.keys.digest(text)

    def content(self, name: str, redacted: Callable[[], str | None]) -> dict[str, Any]:
        """A text for a log that includes content: redacted, then cut."""
        text = redacted() if self.include_content else None
        return {} if text is None else {name: cut(text, _CONTENT)}


class _Run:
    def __init__(self, auditor: Auditor, start: RunStart) -> None:
        self.auditor = auditor
        self.start = start
        self.who: dict[str, Any] = {"run": start.id}
        self.redaction = auditor.redaction.run(start.offer.registry)
        self.origin = _named(start.origin)
        auditor.file.look()
        if start.kind == "direct":
            self.who |= self.origin
            return
        fields = {**self.who, **self.origin, "run_kind": start.kind}
        fields |= self._digest_of(start.source)
        changed = {name: each for name, each in vars_of(start.limits).items() if each != getattr(_LIMITS, name)}
        auditor.note("run", {**fields, "limits": changed})

    def _digest_of(self, source: Any) -> dict[str, Any]:
        """The digest of a program or a plan; nothing if it is not known."""
        text = source if isinstance(source, str) else None if source is None else _json(source)
        if not text:
            return {}
        return {"source_digest": self.auditor.digest(text)}

    def call(self, record: CallRecord) -> CallWatch:
        """A call has arrived."""
        return _Call(self.auditor, self.redaction, self.start.offer.registry, self.who, record)

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """Write the answer."""
        fields = {**self.who, "by": cut(str(by), _SHORT)}
        self.auditor.note(
            "plan_approved" if granted else "plan_denied", {**fields, "changed": True} if changed else fields
        )

    def ended(self, result: CodeResult | PlanResult | None, error: BaseException | None) -> None:
        """Write how the run ended, and have the file written to the disk."""
        if self.start.kind != "direct":
            how: dict[str, Any] = {
                "ok": False,
                "error": "cancelled" if error is None else type(error).__name__[:_SHORT],
            }
            if result is not None:
                usage = result.usage
                how = {"ok": result.ok, "calls": usage.tool_calls, "seconds": round(usage.wall_seconds, 6)}
                if result.error is not None:
                    how["error"] = cut(result.error.kind, _SHORT)
                    message = result.error.message
                    how |= self.auditor.content("message", lambda: self.redaction.text(message))
                if result.error is not None and result.error.limit is not None:
                    how["limit"] = result.error.limit
                if usage.cpu_seconds is not None:
                    how |= {"cpu_seconds": round(usage.cpu_seconds, 6), "peak_memory_bytes": usage.peak_memory_bytes}
                how |= self.auditor.content("source", partial(self._source, result))  # its calls' secrets are known
                how["path"] = result.path
                if self.start.kind == "plan" and (getattr(result, "changed", False) or not self.start.source):
                    text = _json(result.plan)  # the line `run` does not know it
                    how |= {} if result.plan is None or text is None else {"plan_digest": self.auditor.digest(text)}
            if self.start.source is None:  # it was still being written when the run began
                how |= {**self._digest_of(getattr(result, "source", None)), **_named(origin.get())}
            self.auditor.note("run_ended", {**self.who, **how})
        self.auditor.file.sync()

    def _source(self, result: CodeResult | PlanResult) -> str | None:
        """The program or the plan, redacted. One that was still being written stands in the result."""
        source = self.start.source
        if source is None:
            source = getattr(result, "plan" if self.start.kind == "plan" else "source", None)
        if source is None:
            return None
        if self.start.kind == "code":
            return self.redaction.source(source)
        plan = self.redaction.plan(source)
        return plan if isinstance(plan, str) else _json(plan)


class _Call:
    __slots__ = ("_auditor", "_called", "_record", "_redaction", "_registry", "_who")

    def __init__(
        self, auditor: Auditor, redaction: RunRedaction, registry: Registry, who: dict[str, Any], record: CallRecord
    ) -> None:
        self._auditor = auditor
        self._redaction = redaction
        self._registry = registry
        self._record = record
        self._who = {**who, "call": record.id, "tool": cut(record.tool, _SHORT), "caller": record.caller}
        self._called = False

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """Write the answer."""
        fields = {**self._who, "by": cut(str(by), _SHORT)}
        self._auditor.note("approved" if granted else "denied", {**fields, "changed": True} if changed else fields)

    def calling(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """Write the intent of a call with effects; refuse the call if that fails."""
        self._called = True
        if tool.read_only:
            return
        self._auditor.file.look()
        try:
            self._auditor.file.write("called", {**self._who, **self._given(tool, arguments)})
        except OSError as error:
            logger.error(
                "a call of %s was refused, since the audit log cannot be written: %s", tool.name, error.strerror
            )
            raise ToolNotAllowed(
                f"tool {tool.name!r} was not called: the audit log cannot be written ({error.strerror}), and a call "
                "with effects must stand in it. Tell the operator; tools that only read still work",
                tool=tool.name,
            ) from None

    def ended(self, tool: Tool | None, text: str | None) -> None:
        """Write the outcome, or why the call was refused."""
        record = self._record
        fields = {**self._who}
        if record.error is not None:
            error = record.error
            fields |= self._auditor.content("error", lambda: self._redaction.text(error))
        if record.status == "refused" and not self._called:
            check = "validated"
            if tool is None:
                check = "allowed" if record.tool in self._registry else "known"
            elif record.approval == "unavailable":
                check = "approved"
            self._auditor.note("refused", {**fields, "check": check, **self._given(tool, record.arguments)})
            return
        if tool is None or tool.read_only or not self._called:
            given = record.arguments if record.changed_arguments is None else record.changed_arguments
            fields |= self._given(tool, given)
        fields |= {"status": record.status, "seconds": round(record.duration_seconds, 6), "attempts": record.attempts}
        if record.cached:
            fields["cached"] = True
        if record.reused:
            fields["reused"] = True
        if record.early:
            fields["early"] = True
        if record.fallback_call is not None:
            fields["fallback_call"] = record.fallback_call
        if text is not None:
            fields["result_digest"] = self._auditor.digest(text)
            fields |= self._auditor.content("result", lambda: self._redaction.result(tool, text))
        self._auditor.note("outcome", fields)

    def _given(self, tool: Tool | None, arguments: Any) -> dict[str, Any]:
        """The arguments: their digest, or the arguments themselves. Large ones are only counted: a digest of megabytes
        would keep other runs waiting."""
        size = weight(arguments, LARGE_BYTES)
        if size > LARGE_BYTES:
            return {"arguments": "large"}
        text = _json(arguments)
        if text is None:
            return {"arguments": "not JSON"}
        if not self._auditor.include_content:
            return {"arguments_digest": self._auditor.digest(text)}
        return self._auditor.content("arguments", lambda: _json(self._redaction.arguments(tool, arguments)))


def _named(who: Origin | None) -> dict[str, Any]:
    """Who asked, as far as it is known."""
    if who is None:
        return {}
    named = {
        "task": who.task, "outer_task": who.outer_task, "turn": who.turn, "call_id": who.call, "client": who.client
    }  # fmt: skip
    return {name: cut(each, _SHORT) if isinstance(each, str) else each for name, each in named.items() if each}


def vars_of(limits: Limits) -> dict[str, Any]:
    """The limits by name."""
    return {name: getattr(limits, name) for name in limits.__dataclass_fields__}


def _json(value: Any) -> str | None:
    try:
        return canonical_json(value)
    except (NotJson, ValueError, TypeError, RecursionError):
        try:
            return json.dumps(value, sort_keys=True)
        except (ValueError, TypeError, RecursionError):
            return None
