"""`SyncConversation`: a conversation for code without ``await``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

from callgate.artifacts import Shelf
from callgate.runtime.answer import Answer
from callgate.runtime.discovery.conversation import Conversation

from .loop_thread import LoopThread
from .options import SyncCallOptions, async_options
from .waiting import Waiting, plain

if TYPE_CHECKING:
    from .runtime import SyncRuntime

__all__ = ["SyncConversation"]


class SyncConversation(Waiting):
    """A `Conversation` without ``await``; made by `SyncRuntime.conversation`.

    A context manager, which has to be entered if it has a `loader` or a `session`. Leaving it ends its session.
    """

    def __init__(self, runtime: SyncRuntime, conversation: Conversation) -> None:
        self.runtime = runtime
        """The `SyncRuntime` of the conversation."""
        self._inner: Conversation = conversation

    def __enter__(self) -> Self:
        self._thread().wait(self._inner.__aenter__)
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_open():
            self._thread().wait(self._inner.__aexit__)

    def _thread(self) -> LoopThread:
        return self.runtime._thread()

    def _is_open(self) -> bool:
        return self.runtime._is_open()

    @property
    def artifacts(self) -> Shelf:
        """What its programs, plans and calls have produced."""
        return self._inner.artifacts

    @property
    def found(self) -> tuple[str, ...]:
        """Names of the found tools that the model can call, in the order of their definitions."""
        return self._read(lambda: self._inner.found)

    tool_definitions = plain(Conversation.tool_definitions)
    tool_choice = plain(Conversation.tool_choice)
    tool_result = plain(Conversation.tool_result)
    tool_results = plain(Conversation.tool_results)
    instructions = plain(Conversation.instructions)
    state = plain(Conversation.state)

    def handle(self, name: str, arguments: Mapping[str, Any] | str | None, **options: Any) -> str:
        """Answer a model's call with text: see `answer`, whose text it is."""
        return self.answer(name, arguments, **options).text

    def answer(
        self, name: str, arguments: Mapping[str, Any] | str | None, **options: Unpack[SyncCallOptions]
    ) -> Answer:
        """Answer a model's call: see `Conversation.answer`. The `session` among its options is a `SyncSession`."""
        given = async_options(options)
        return self._thread().wait(lambda: self._inner.answer(name, arguments, **given))
