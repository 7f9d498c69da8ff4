"""The simulated waits of tools: how long, by what factor, and without an event loop."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from callgate_bench.workloads import WORKLOADS, pace
from callgate_bench.workloads.services import at_once, seconds_for


@pytest.fixture(autouse=True)
def paced_as_before() -> Iterator[None]:
    yield
    pace(1)


def test_waits_differ_by_argument_and_not_by_time() -> None:
    waits = {city: seconds_for(0.1, 0.2, city) for city in ("Athens", "Lisbon", "Stockholm")}
    assert waits == {city: seconds_for(0.1, 0.2, city) for city in waits}
    assert len(set(waits.values())) == 3
    assert all(0.1 <= wait <= 0.2 for wait in waits.values())


def test_a_negative_pace_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0, not -1"):
        pace(-1)


def test_a_tool_that_only_waits_needs_no_event_loop() -> None:
    pace(0.1)
    (get_weather, _) = WORKLOADS["weather"].tools
    with ThreadPoolExecutor(1) as threads:
        started = time.perf_counter()
        report = threads.submit(lambda: at_once(get_weather(city="Athens"))).result(10)
        assert time.perf_counter() - started >= seconds_for(0.01, 0.02, "Athens")
        assert report["city"] == "Athens"
        with pytest.raises(ValueError, match="no city 'Atlantis'"):
            threads.submit(lambda: at_once(get_weather(city="Atlantis"))).result(10)
        with pytest.raises(RuntimeError, match="waits for an event loop"):
            threads.submit(lambda: at_once(_suspended())).result(10)


async def _suspended() -> None:
    await _Forever()


class _Forever:
    def __await__(self) -> Generator[None]:
        yield
