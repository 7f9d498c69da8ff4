"""What endpoints may do wrong: each has an outcome and a line in the transcript, and nothing is left under way.
docs/agents.md is the table of it. tests/agent/models shows over HTTP which error each fault becomes; here the errors
are played, and at the end one task goes over each provider's wire.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from agent.loop.bad_solving import DONE, QUERY, says, solve
from agent.models.wires import WIRES, asks, talking, tells
from callgate.agent.events import TextArrived
from callgate.agent.loop.budget import Budget
from callgate.agent.models.model import ModelProvider, Request
from callgate.agent.models.scripted import Move, Say
from callgate.errors import ModelError, ModelRejected, ModelUnavailable
from callgate_bench.model.stand_in.faults import hanging_up, refusing

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ModelUnavailable("the model's endpoint answered 503: come back later", status=503), "unavailable"),
        (ModelUnavailable("no connection to the model"), "unavailable"),
        (ModelUnavailable("the model's endpoint gave no reply: it is longer than 20000 bytes"), "unavailable"),
        (ModelRejected("the model's endpoint answered 404: no such model", status=404), "rejected"),
    ],
)
async def test_an_endpoint_that_fails_ends_the_task_with_its_words(
    error: ModelError, outcome: str, tmp_path: Path
) -> None:
    solved = await solve(tmp_path, says("", QUERY), error)
    assert (solved.result.outcome, solved.result.reason) == (outcome, str(error))
    assert solved.faults() == [(outcome, "ended")]
    assert (solved.result.tool_calls, len(solved.model.requests)) == (1, 2)


async def test_a_stream_that_breaks_off_is_begun_anew(tmp_path: Path) -> None:
    solved = await solve(tmp_path, Say(DONE.text, restarts=1))
    assert (solved.result.outcome, solved.result.answer) == ("answered", DONE.text)
    arrived = [event for event in solved.heard if isinstance(event, TextArrived)]
    (restart,) = [place for place, event in enumerate(arrived) if event.restarted]
    assert "".join(event.text for event in arrived[restart:]) == DONE.text
    assert [line["attempts"] for line in solved.lines if line["kind"] == "model_replied"] == [2]


async def test_an_endpoint_that_falls_silent_is_given_up_when_the_time_is_over(tmp_path: Path) -> None:
    async def silent(request: Request) -> Move:
        await anyio.sleep_forever()
        raise AssertionError

    solved = await solve(tmp_path, silent, budget=Budget(seconds=0.3))
    assert solved.result.outcome == "budget"
    assert "seconds" in solved.result.reason


@pytest.mark.parametrize("wire", WIRES)
async def test_over_http_what_passes_is_waited_out_and_a_pause_ends_with_the_budget(
    wire: ModelProvider, tmp_path: Path
) -> None:
    busy = refusing(429, "wait", headers={"retry-after-ms": "1"})
    async with talking(wire, asks, tells, faults=(busy, hanging_up(3))) as talk:
        solved = await solve(tmp_path, model=talk.model)
    assert (solved.result.outcome, solved.result.answer) == ("answered", "Rome: 20 and Oslo: 20")
    assert sorted(solved.world.calls) == ["weather Oslo", "weather Rome"]
    assert [line["attempts"] for line in solved.lines if line["kind"] == "model_replied"] == [3, 1]
    (tmp_path / "pause").mkdir()
    slow = refusing(429, "slow down", headers={"retry-after": "30"})
    async with talking(wire, faults=(slow,), for_ever=True) as talk:
        solved = await solve(tmp_path / "pause", model=talk.model, budget=Budget(seconds=0.4))
        assert (solved.result.outcome, len(talk.bodies)) == ("budget", 1)
