"""What one run records of the arguments, results and errors of its calls, within bounds: a hostile guest must not fill
the host. Knows no tool, and makes no call."""

from __future__ import annotations

from typing import Any, Final

from callgate.tools import Caller
from callgate.tools.turns import LARGE_BYTES

from .arguments import in_turns, weighing, weight
from .records import CallRecord, CallUnderWay

__all__ = ["MAX_RECORDED_BYTES", "MAX_RESULT_BYTES", "Recording"]

MAX_RECORDED_BYTES = 64 * 1024 * 1024
"""Memory for the recorded arguments and errors of one run, about."""
MAX_RESULT_BYTES = 16 * 1024 * 1024
"""Memory for the recorded results of one run; besides that of the arguments, which results must not push out."""
_RESULT_BYTES: Final = 4096
"""Bytes of one result that are recorded."""
_OBJECT_BYTES: Final = 64
"""Memory of a short text beside its characters."""
_SHORT: Final = 200
"""Characters of an error that are recorded when the memory is used up."""
_NOT_KEPT: Final = "(not kept: the arguments recorded in this run take 64 MiB already)"
_NOT_WEIGHED: Final = "(not kept: the call was cancelled before its large arguments were looked at)"


class Recording:
    """The memory for the records of one run.

    Args:
        caller: the kind of caller. Of programs, results are also kept whole, for a program that corrects this one.

    Attributes:
        whole: results of a program that are longer than what records keep, by the ids of the records.
    """

    def __init__(self, caller: Caller) -> None:
        self.whole: dict[int, str] = {}
        self._keeps_whole = caller == "code"
        self._left = MAX_RECORDED_BYTES
        self._results = self._whole_results = MAX_RESULT_BYTES

    def arguments(self, call: CallUnderWay) -> Any:
        """The arguments for the record of a call. Those of a large call are looked at later: see `weigh`."""
        call.size = weight(call.arguments, LARGE_BYTES)
        self._left -= call.size
        return _NOT_KEPT if self._left < 0 else call.arguments

    def not_weighed(self, record: CallRecord) -> None:
        """A call was cancelled before `weigh`."""
        record.arguments = _NOT_WEIGHED

    async def weigh(self, call: CallUnderWay) -> None:
        """Subtract the memory of large arguments that is not counted yet."""
        try:
            size = await in_turns(weighing(call.arguments, max(self._left, 0) + call.size))
        except BaseException:
            self.not_weighed(call.record)
            raise
        self._left -= size - call.size
        if self._left < 0:
            call.record.arguments = _NOT_KEPT

    def result(self, record: CallRecord, text: str) -> None:
        """Record the size and the beginning of a result."""
        kept = text if len(text) <= _RESULT_BYTES else text[:_RESULT_BYTES]
        record.result_bytes = len(text)
        if not text.isascii():
            record.result_bytes = len(text.encode("utf-8", "surrogatepass"))
            kept = kept.encode("utf-8", "replace")[:_RESULT_BYTES].decode("utf-8", "ignore")
        if record.result_bytes > _RESULT_BYTES and self._keeps_whole:
            self._whole_results -= record.result_bytes
            if self._whole_results >= 0:
                self.whole[record.id] = text
        self._results -= len(kept) + _OBJECT_BYTES
        if self._results >= 0:
            record.result = kept

    def error(self, record: CallRecord, message: str) -> None:
        """Record an error."""
        self._left -= weight(message, self._left)
        record.error = message if self._left >= 0 else message[:_SHORT]
