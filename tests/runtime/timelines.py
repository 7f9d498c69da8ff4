"""Results of plans for the tests of timelines: made by hand, hostile, or drawn; and a parser that checks tags."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from typing import Any, get_args

from hypothesis import strategies as st

from callgate.plan.outcomes import StepStatus
from callgate.runtime.gate.records import CallRecord, CallStatus
from callgate.runtime.plans.result import PlanResult, StepResult
from callgate.runtime.result import RunUsage

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\x1b[31mred\x1b[0m\x07",
    "abc\u202egnp.exe",
    "</title></style><!-- &lt;",
    "a\nb\tc\r\x85\u2028",
    "\ud800 alone",
    "x" * 200,
    "天気" * 100,
    "e" + "\u0301" * 50,
    "' onclick='x",
)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def step(id: str, start: float | None = None, took: float = 0.0, **more: Any) -> StepResult:
    more.setdefault("tool", "look_up")
    more.setdefault("wave", 0)
    more.setdefault("status", "skipped" if start is None else "succeeded")
    return StepResult(id=id, started_seconds=start, duration_seconds=took, **more)


def call(id: int, start: float, took: float, status: CallStatus = "succeeded", **more: Any) -> CallRecord:
    return CallRecord(id, "look_up", {}, "plan", start, status, took, more.pop("attempts", 1), **more)


def ran(*steps: StepResult, wall: float = 0.0, **more: Any) -> PlanResult:
    ok = all(each.status == "succeeded" for each in steps)
    return PlanResult(ok=ok, steps=list(steps), usage=RunUsage(wall_seconds=wall), **more)


def hostile(text: str) -> PlanResult:
    return ran(
        step(text, 0.0, 1.0, tool=text, status="failed", error=text, kind=text, warnings=(text,), calls=(1, 2),
             arguments={text: text}, fallback=text),
        step(f"{text}2", 1.0, 1.0, tool=text, wave=1, needs=(text,), after=(text,), result_json=f'"{text}'),
        step(f"{text}3", tool=text, wave=1, error=text),
        goal=text,
        calls=[call(1, 0.0, 0.5, "failed", error=text), call(2, 0.5, 0.5)],
    )  # fmt: skip


CHAIN = ran(
    step("login", 0.0, 1.0),
    step("slow", 1.0, 3.0, wave=1, needs=("login",)),
    step("quick", 1.0, 0.5, wave=1, needs=("login",)),
    step("report", 4.0, 1.0, wave=2, needs=("slow", "quick")),
    wall=5.0,
)


class Checked(HTMLParser):
    """A parser that fails on tags that do not balance, and keeps what it saw."""

    void = frozenset({"meta", "br", "img"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    def attributes(self, name: str) -> list[str]:
        return [value for _, attrs in self.seen if (value := attrs.get(name)) is not None]

    @property
    def text(self) -> str:
        return "".join(self.words)


texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40))
times = st.floats(0, 1e6) | st.floats(0, 1e-3) | st.just(0.0)


@st.composite
def results(draw: st.DrawFn) -> PlanResult:
    ids = draw(st.lists(texts, max_size=8, unique=True))
    numbers, calls, steps = itertools.count(1), [], []
    for place, id in enumerate(ids):
        own = [
            call(
                next(numbers), draw(times), draw(times), draw(st.sampled_from(get_args(CallStatus))), error=draw(texts)
            )
            for _ in range(draw(st.integers(0, 30)) if draw(st.booleans()) else 0)
        ]
        calls += own
        steps.append(
            step(
                id, draw(st.none() | times), draw(times), tool=draw(texts), wave=draw(st.integers(0, 3)),
                status=draw(st.sampled_from(get_args(StepStatus))), error=draw(st.none() | texts),
                needs=tuple(ids[:place]), items=draw(st.none() | st.integers(0, 30)),
                calls=tuple(each.id for each in own), arguments=draw(texts), result_json=draw(st.none() | texts),
                fallback=draw(st.none() | texts),
            )
        )  # fmt: skip
    return ran(*steps, wall=draw(times), calls=calls, goal=draw(st.none() | texts))
