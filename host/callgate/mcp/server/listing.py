"""The lists of tools that clients see, made anew when the tools have changed. Knows what is made of what, and how
often; tells nobody.

A server that reports changes without end must not have its whole list made as often: see `Pace`. Meanwhile clients see
the list before. Whether a tool may still be called, the gate decides, and it knows the tools of this moment.
"""

from __future__ import annotations

import logging
import time

from mcp_types import Tool as McpTool

from callgate.runtime import Conversation, Runtime

from .clients import Client
from .definitions import chosen, definitions
from .options import Serving
from .pace import Pace

__all__ = ["Listing"]

logger = logging.getLogger("callgate")


class Listing:
    """What clients of one server see.

    Args:
        runtime: whose tools.
        serving: which of them clients see as they are.
    """

    def __init__(self, runtime: Runtime, serving: Serving) -> None:
        self._runtime = runtime
        self._serving = serving
        self._tools: list[McpTool] = []
        self._made_of: object = None
        self._chosen: tuple[object, tuple[str, ...]] = None, ()
        self._pace = Pace()
        self._told: set[str] = set()
        self.made = 0
        """How often the list was made."""

    def tools(self) -> list[McpTool]:
        """What every client sees; the same object until it is made anew."""
        now = self._runtime.registry.tools()
        if now is not self._made_of and not self.wait():
            self._pace.done(time.monotonic())
            self._made_of = now
            self.made += 1
            try:
                self._tools = definitions(
                    self._runtime, self._runtime.tool_definitions("mcp", direct=self._direct()), self._told
                )
            except Exception:
                logger.exception("the list of tools could not be made; clients see the one before")
        return self._tools

    def wait(self) -> float:
        """Seconds until the list may be made anew."""
        return self._pace.wait(time.monotonic())

    def tools_of(self, client: Client) -> list[McpTool]:
        """What one client sees."""
        tools = self.tools()
        if not self._serving.reveal:
            return tools
        conversation = self.conversation(client)
        found = conversation.found
        before = client.listed
        if before is None or before[0] is not tools or before[1] != found:
            own = definitions(self._runtime, conversation.tool_definitions("mcp"), self._told)
            before = client.listed = tools, found, own
        return before[2]

    def conversation(self, client: Client) -> Conversation:
        """What its model has searched for; searches are learned from, whether or not the list grows by them."""
        direct = self._direct()
        before = client.conversation
        if before is None or client.direct != direct:
            client.direct = direct
            state = None if before is None else before.state()
            before = client.conversation = self._runtime.conversation(
                direct=direct, grows=self._serving.reveal, state=state
            )
        return before

    def _direct(self) -> tuple[str, ...]:
        """The tools passed through, as they are now."""
        registry = self._runtime.registry
        if self._chosen[0] is not registry.tools():
            self._chosen = registry.tools(), chosen(registry, self._serving.direct)
        return self._chosen[1]
