"""Every async test runs on both event loops; Ctrl-C is Ctrl-C however the tests were started."""

from __future__ import annotations

import signal

import pytest

# a shell has its background jobs ignore it, and so would every command that the tests start and interrupt
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend
