"""The options of a sync `answer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict

from callgate.limits import Limits

from .session import SyncSession

if TYPE_CHECKING:
    from callgate.runtime.final_answer import AnswerType
    from callgate.runtime.gate import Approve
    from callgate.runtime.gate.events import Event
    from callgate.runtime.repair import After

__all__ = ["SyncCallOptions", "async_options"]


class SyncCallOptions(TypedDict, total=False):
    """The options of `SyncRuntime.answer`: those of `Runtime.answer`, with a `SyncSession`."""

    caller: str
    limits: Limits | None
    on_event: Callable[[Event], None] | None
    session: SyncSession | None
    pictures: bool
    final_answer: AnswerType | None
    approve: Approve | None
    as_run: bool
    after: After


def async_options(options: SyncCallOptions) -> dict[str, Any]:
    """The options for the async `answer`. Raises `ConfigurationError` if the session was not entered."""
    given: dict[str, Any] = {**options}
    if isinstance(session := options.get("session"), SyncSession):
        session._thread()
        given["session"] = session._inner
    return given
