"""A collector, and a runtime that reports to it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from callgate import Runtime, Telemetry
from otlp_collector import Providers, collecting
from runtime.conftest import opened

Reporting = Callable[..., contextlib.AbstractAsyncContextManager[Runtime]]


@pytest.fixture
def providers() -> Iterator[Providers]:
    """Of an OTLP collector of this process."""
    with collecting() as each:
        yield each


@pytest.fixture
def reporting(providers: Providers) -> Reporting:
    """Opens a runtime with these tools that reports to the collector."""

    @contextlib.asynccontextmanager
    async def open_one(
        *tools: Any, content: bool = False, redact: Any = None, **options: Any
    ) -> AsyncIterator[Runtime]:
        telemetry = Telemetry(
            include_content=content, redact=redact, tracer_provider=providers.tracer, meter_provider=providers.meter
        )
        async with opened(*tools, telemetry=telemetry, **{"sandbox": None, **options}) as runtime:
            yield runtime

    return open_one
