"""How long tools were at work, from known intervals."""

from __future__ import annotations

import pytest

from callgate.bench.model.tool_time import Span, at_work


def span(*intervals: tuple[float, float], began: float = 0.0, ended: float = 10.0, seconds: float = 10.0) -> Span:
    return Span(began=began, ended=ended, seconds=seconds, intervals=intervals)


@pytest.mark.parametrize(
    ("spans", "seconds", "concurrency", "busy"),
    [
        ([], 0.0, 0, 0.0),
        ([span()], 0.0, 0, 0.0),
        ([span((1, 3))], 2.0, 1, 1.0),
        ([span((1, 3), (3, 5))], 4.0, 1, 1.0),
        ([span((1, 3), (5, 6))], 3.0, 1, 1.0),
        ([span((1, 5), (2, 3), (2, 4))], 4.0, 3, 7 / 4),
        ([span((2, 4), (1, 3))], 3.0, 2, 4 / 3),
        ([span((-5, 2), (8, 99))], 4.0, 1, 1.0),
        ([span((11, 12), (-3, -1), (4, 4))], 0.0, 0, 0.0),
        ([span((0, 10), (0, 10), seconds=5.0)], 5.0, 2, 2.0),
        ([span((1, 2)), span((20, 23), (21, 22), began=20, ended=30)], 4.0, 2, 5 / 4),
        ([span((1, 25)), span((1, 25), began=20, ended=30)], 14.0, 1, 1.0),
    ],
)
def test_how_long_tools_were_at_work(spans: list[Span], seconds: float, concurrency: int, busy: float) -> None:
    worked = at_work(spans)
    assert worked.seconds == pytest.approx(seconds)
    assert worked.concurrency == concurrency
    assert worked.busy == pytest.approx(busy)
