"""What endpoints may do wrong: busy, failing, gone in the middle of a stream, silent, answering something else. Each
has an outcome and a line in the transcript, and nothing is left under way. docs/agents.md is the table of it.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agent.loop.bad_endpoint import PROVIDERS, Fails, Provider, Says, Sends, misbehaving
from agent.loop.bad_solving import DONE, QUERY, World, solve
from callgate import Runtime
from callgate.agent.events import TextArrived
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("provider", PROVIDERS)]


# the endpoint


@pytest.mark.parametrize("status", [429, 500, 529])
async def test_a_failure_that_passes_is_waited_out(provider: Provider, status: int, tmp_path: Path) -> None:
    solved = await solve(provider, tmp_path, Fails(status), DONE)
    assert solved.result.outcome == "answered"
    (replied,) = [line for line in solved.lines if line["kind"] == "model_replied"]
    assert replied["attempts"] == 2


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_failure_that_stays_ends_as_unavailable(
    provider: Provider, status: int, stream: bool, tmp_path: Path
) -> None:
    solved = await solve(provider, tmp_path, Says(calls=[QUERY]), Fails(status, "come back later"), stream=stream)
    assert solved.result.outcome == "unavailable"
    assert str(status) in solved.result.reason
    assert "come back later" in solved.result.reason
    assert solved.faults() == [("unavailable", "ended")]
    assert len(solved.endpoint.bodies) == 3
    assert solved.result.tool_calls == 1


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_a_request_that_is_not_taken_ends_as_rejected(provider: Provider, status: int, tmp_path: Path) -> None:
    solved = await solve(provider, tmp_path, Fails(status, "no such model"))
    assert solved.result.outcome == "rejected"
    assert "no such model" in solved.result.reason
    assert solved.faults() == [("rejected", "ended")]
    assert len(solved.endpoint.bodies) == 1


async def test_a_spent_quota_is_not_waited_for(provider: Provider, tmp_path: Path) -> None:
    if provider == "anthropic":
        pytest.skip("Anthropic has no code for it")
    solved = await solve(provider, tmp_path, Fails(429, "You exceeded your quota", code="insufficient_quota"))
    assert solved.result.outcome == "rejected"


async def test_a_connection_that_is_refused_ends_as_unavailable(provider: Provider, tmp_path: Path) -> None:
    with misbehaving(provider, DONE, max_retries=0) as (_, made):
        model = made()
    file = tmp_path / "transcript.jsonl"
    async with Runtime(World().tools(), sandbox=None) as runtime:
        result = await Agent(model, runtime, mode="direct", transcript=file).run("What?")
    await model.aclose()
    assert result.outcome == "unavailable"
    assert "no connection to the model" in result.reason
    assert '"fault": "unavailable"' in file.read_text().replace('":"', '": "')


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_a_stream_that_breaks_off_is_begun_anew(provider: Provider, after: int, tmp_path: Path) -> None:
    words = Says("cpu_usage is at 72.5 %, and so below its threshold.", breaks=after)
    solved = await solve(provider, tmp_path, words, DONE, stream=True)
    assert (solved.result.outcome, solved.result.answer) == ("answered", DONE.text)
    arrived = [event for event in solved.heard if isinstance(event, TextArrived)]
    restarts = [place for place, event in enumerate(arrived) if event.restarted]
    assert len(restarts) == 1
    assert "".join(event.text for event in arrived[restarts[0] :]) == DONE.text
    assert sum(line["kind"] == "model_replied" for line in solved.lines) == 1


async def test_calls_of_a_stream_that_breaks_off_are_not_made(provider: Provider, tmp_path: Path) -> None:
    calls = [("query_metric", {"name": "a"}), ("query_metric", {"name": "b"})]
    solved = await solve(provider, tmp_path, Says(calls=calls, breaks=5), DONE, stream=True)
    assert solved.result.outcome == "answered"
    assert solved.world.calls == []


@pytest.mark.parametrize(
    "broken", [Says("cpu_usage is at", stops=2), Says("cpu_usage is at", errs=2)], ids=["stops", "errs"]
)
async def test_a_stream_that_is_not_whole_is_begun_anew_and_given_up_in_the_end(
    provider: Provider, broken: Says, tmp_path: Path
) -> None:
    mended = await solve(provider, tmp_path, broken, DONE, stream=True)
    assert (mended.result.outcome, mended.result.answer) == ("answered", DONE.text)
    (tmp_path / "given up").mkdir()
    solved = await solve(provider, tmp_path / "given up", broken, stream=True, model={"stream_retries": 1})
    assert solved.result.outcome == "unavailable"
    assert solved.result.answer == ""
    assert len(solved.endpoint.bodies) == 2


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_reply_without_end_is_given_up(provider: Provider, stream: bool, tmp_path: Path) -> None:
    options = {"max_reply_bytes": 20_000}
    solved = await solve(provider, tmp_path, Says("and so on " * 5_000), stream=stream, model=options)
    assert solved.result.outcome == "unavailable"
    assert "longer than 20000 bytes" in solved.result.reason


async def test_more_calls_than_any_reply_can_mean_are_no_reply(provider: Provider, tmp_path: Path) -> None:
    solved = await solve(provider, tmp_path, Says(calls=[QUERY] * 1_001), model={"stream_retries": 0})
    assert solved.result.outcome == "unavailable"
    assert solved.world.calls == []


async def test_a_pause_that_is_longer_than_the_budget_ends_as_budget(provider: Provider, tmp_path: Path) -> None:
    busy = Fails(429, "slow down", headers={"retry-after": "30"})
    solved = await solve(provider, tmp_path, busy, DONE, budget=Budget(seconds=0.4))
    assert solved.result.outcome == "budget"
    assert len(solved.endpoint.bodies) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "sent",
    [b"<html>502 Bad Gateway</html>", b"", b"[]", b'{"choices": [], "content": 3}', b"\xff\xfe"],
    ids=str,
)
async def test_what_is_no_reply_ends_as_unavailable(
    provider: Provider, stream: bool, sent: bytes, tmp_path: Path
) -> None:
    options = {"max_retries": 0, "stream_retries": 0}
    solved = await solve(provider, tmp_path, Sends(sent), stream=stream, model=options)
    assert solved.result.outcome == "unavailable"
    assert solved.faults() == [("unavailable", "ended")]
    assert len(solved.result.reason) < 1_000


async def test_an_endpoint_that_falls_silent_is_given_up_when_the_time_is_over(
    provider: Provider, tmp_path: Path
) -> None:
    began = time.monotonic()
    silent = Says("cpu_usage is at 72.5 %, I think.", silent=2)
    solved = await solve(provider, tmp_path, silent, stream=True, budget=Budget(seconds=0.4))
    assert solved.result.outcome == "budget"
    assert "seconds" in solved.result.reason
    assert time.monotonic() - began < 10


# too long

TOO_LONG = {
    "openai": Fails(
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        code="context_length_exceeded",
    ),
    "anthropic": Fails(400, "prompt is too long: 9000 tokens > 8192 maximum"),
}


async def test_results_that_are_too_long_are_shortened_and_it_goes_on(provider: Provider, tmp_path: Path) -> None:
    solved = await solve(provider, tmp_path, Says(calls=[("report", {"days": 3})]), TOO_LONG[provider], DONE)
    assert solved.result.outcome == "answered"
    assert solved.faults() == [("too_long", "shortened the oldest results")]
    assert len(solved.endpoint.results(1)[0]) > 30_000
    assert len(solved.endpoint.results(2)[0]) < 5_000


async def test_what_stays_too_long_ends_so(provider: Provider, tmp_path: Path) -> None:
    solved = await solve(provider, tmp_path, Says(calls=[("report", {"days": 3})]), TOO_LONG[provider])
    assert solved.result.outcome == "too_long"
    shorter = ("too_long", "shortened the oldest results")
    assert solved.faults() == [shorter, shorter, ("too_long", "ended")]
    assert [len(solved.endpoint.results(n)[0]) // 1_000 for n in (2, 3)] == [4, 0]
    assert len(solved.endpoint.bodies) == 4
