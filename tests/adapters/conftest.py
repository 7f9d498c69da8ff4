"""What the adapters' tests share: a runtime with tools that note what happens to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import anyio
import pytest

from callgate import Allow, ApprovalRequest, Deny, Runtime, Tool, ToolError


@dataclass
class World:
    """A runtime, and what came to pass in it."""

    runtime: Runtime = field(init=False)
    asked: list[ApprovalRequest] = field(default_factory=list)
    began: anyio.Event = field(default_factory=anyio.Event)
    cancelled: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    async def approve(self, request: ApprovalRequest) -> Allow | Deny:
        self.asked.append(request)
        return Deny("not on Sundays") if "deny" in request.arguments["text"] else Allow()

    def tools(self) -> list[Tool]:
        async def add_numbers(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        async def find_book(title: str) -> str:
            """Find a book in the library.

            Args:
                title: words of its title.
            """
            if title == "burnt":
                raise ToolError("the library has burnt down")
            return f"{title} is on the shelf"

        async def send_mail(text: str) -> int:
            """Send a mail."""
            self.sent.append(text)
            return len(self.sent)

        async def wait_forever() -> None:
            """Wait."""
            self.began.set()
            try:
                await anyio.sleep_forever()
            except BaseException:
                self.cancelled.append("wait_forever")
                raise

        return [
            Tool.from_function(add_numbers, read_only=True),
            Tool.from_function(find_book, read_only=True),
            Tool.from_function(send_mail, requires_approval=True),
            Tool.from_function(wait_forever),
        ]


@pytest.fixture
def anyio_backend() -> str:
    """The frameworks run on asyncio alone: all three create tasks of it."""
    return "asyncio"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    async with Runtime(made.tools(), approve=made.approve, sandbox=None) as runtime:
        made.runtime = runtime
        yield made
