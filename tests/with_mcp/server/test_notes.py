"""What a client hears while a run goes on: prints, calls and progress, as far as it wants them."""

from __future__ import annotations

import json
import warnings
from typing import Any

import anyio
import pytest

from callgate import Redaction
from callgate.mcp.server.notes import Notes
from callgate.runtime.gate.events import CallEnded, CallProgressed, CallStarted, Event, Printed
from callgate.runtime.gate.records import CallRecord
from with_mcp.server.served import ERAS, Ear, Served, until

pytestmark = pytest.mark.anyio

WAITS = """
print('before')
while True:
    went = await wait_for_go()
    break
print('after')
await get_weather(city=went)
"""


@pytest.mark.parametrize("era", ERAS)
async def test_prints_and_calls_come_while_the_program_runs(served: Served, era: str) -> None:
    ear = Ear()
    async with served.client(ear=ear, era=era) as client, anyio.create_task_group() as tasks:

        async def run() -> None:
            result = await client.call_tool("execute_code", {"code": WAITS}, progress_callback=ear.on_progress)
            assert result.structured_content["value"] == {"temp": 4}

        tasks.start_soon(run)
        await until(lambda: ear.printed == "before\n" and any(each == "wait_for_go() ..." for _, each in ear.progress))
        (served.folder / "go").write_text("Oslo")
    assert ear.printed == "before\nafter\n"
    assert any(each.startswith('get_weather(city="Oslo") succeeded in') for each in ear.told)
    heard = [done for done, _ in ear.progress]
    assert heard == sorted(set(heard))


@pytest.mark.parametrize("era", ERAS)
async def test_a_plan_tells_of_its_steps(served: Served, era: str) -> None:
    ear = Ear()
    plan = {"steps": [{"id": "a", "tool": "get_weather", "arguments": {"city": "nowhere"}}]}
    async with served.client(ear=ear, era=era) as client:
        await client.call_tool("execute_tool_plan", plan, progress_callback=ear.on_progress)
    assert any(each.startswith("step a: failed") for each in ear.told)
    assert {each.level for each in ear.logs if "failed" in each.data} == {"warning"}


async def test_only_the_levels_that_were_asked_for_are_sent(served: Served) -> None:
    quiet, modern = Ear(), Ear()
    code = {"code": "print('a')\nawait get_weather('nowhere')"}
    async with served.client(ear=quiet) as client:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await client.set_logging_level("warning")
        await client.call_tool("execute_code", code)
    assert {each.level for each in quiet.logs} == {"warning"}
    async with served.client(ear=modern, era="auto", level="warning") as client:
        await client.call_tool("execute_code", code)
    assert {each.level for each in modern.logs} == {"warning"}


async def test_who_asks_for_nothing_hears_nothing(served: Served) -> None:
    ear = Ear()
    async with served.client(ear=ear, era="auto", level=None) as client:
        await client.call_tool("execute_code", {"code": "print('a')\nawait get_weather('Oslo')"})
    assert ear.logs == []
    assert ear.progress == []


async def test_very_many_prints_and_calls_become_few_notes(served: Served) -> None:
    ear = Ear()
    code = "for n in range(3000):\n    print(n)\n    await names()\n"
    async with served.client(ear=ear) as client:
        await client.call_tool("execute_code", {"code": code}, progress_callback=ear.on_progress)
    assert ear.printed == "".join(f"{n}\n" for n in range(3000))
    assert len(ear.logs) <= 6002


class Slow:
    """A client that takes nothing until it is let go."""

    def __init__(self) -> None:
        self.go = anyio.Event()
        self.logs: list[str] = []
        self.done: list[float] = []
        self.messages: list[str] = []

    async def log(self, level: Any, logger: str, text: str) -> None:
        await self.go.wait()
        self.logs.append(text)

    async def progress(self, done: float, message: str) -> None:
        self.done.append(done)
        self.messages.append(message)


def record(n: int) -> CallRecord:
    return CallRecord(n, "tool", {"text": "x" * 1000}, "code", 0.0, "succeeded")


async def test_what_waits_for_a_slow_client_is_bounded() -> None:
    notes, slow = Notes(Redaction().run()), Slow()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(notes.deliver, slow)
            for n in range(5000):
                notes.put(CallStarted(record(n)))
                notes.put(CallEnded(record(n)))
            notes.put(Printed("end"))
            notes.stop()
            slow.go.set()
    assert len(slow.logs) < 300
    assert "end" in slow.logs
    assert slow.logs[-1] == "... and 9800 more notes of calls, left out"
    assert max(map(len, slow.logs)) <= 300


async def test_notes_go_on_after_a_pause() -> None:
    notes, slow = Notes(Redaction().run()), Slow()
    slow.go.set()
    notes.put(Printed("a"))
    notes.stop()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(notes.deliver, slow)
            notes.stop()
            await until(lambda: slow.logs == ["a"])
            notes.stop()
        notes.put(Printed("b"))
        notes.stop()
        await notes.deliver(slow)
    assert slow.logs == ["a", "b"]
    assert slow.done == [1, 2]


LONG = "\x01" * 100_000 + "".join(f"{n}\n" for n in range(1_000)) + "end"
ODD = CallRecord(1, "tool", {"a": "\x1b[31m\u202e\ud800"}, "code", 0.0, "failed", error="first\nsecond\x07")


async def sent(*events: Event) -> Slow:
    """What a client gets of these events, which all waited."""
    notes, client = Notes(Redaction().run()), Slow()
    client.go.set()
    for event in events:
        notes.put(event)
    notes.stop()
    await notes.deliver(client)
    return client


@pytest.mark.parametrize(
    ("events", "logs", "messages"),
    [
        ([Printed("\n")], ["\n"], []),
        (
            [CallProgressed(record(1), 3, 10, "reading"), CallProgressed(record(1), 0.5, None, None)],
            ["tool: 3 of 10: reading", "tool: 0.5"],
            ["tool: 0.5"],
        ),
        ([Printed(f"line {n}\n") for n in range(3)], ["line 0\nline 1\nline 2\n"], ["line 0 line 1 line 2"]),
    ],
    ids=["nothing to say", "progress of calls", "prints"],
)
async def test_notes_that_waited_become_few_messages(events: list[Event], logs: list[str], messages: list[str]) -> None:
    client = await sent(*events)
    assert (client.logs, client.messages) == (logs, messages)


async def test_progress_has_all_that_was_printed_and_the_latest_call() -> None:
    client = await sent(*(event for n in range(3) for event in (Printed(f"line {n}\n"), CallStarted(record(n)))))
    assert client.messages[0] == "line 0 line 1 line 2"
    assert client.messages[1].startswith("tool(text=")
    assert client.done == [1, 2]


async def test_much_that_was_printed_is_whole_in_the_log_and_marked_in_the_progress() -> None:
    client = await sent(Printed(LONG[:50_000]), *(Printed(LONG[n : n + 7]) for n in range(50_000, len(LONG), 7)))
    assert "".join(client.logs) == LONG
    assert len(client.logs) < 6
    assert max(len(json.dumps(each)) for each in client.logs) < 200_000
    (message,) = client.messages
    assert message.startswith(f"[{len(LONG) - 2_000:,} characters left out] ")
    assert message.endswith("998 999 end")
    assert message.isprintable()


async def test_a_note_is_one_line_that_no_terminal_obeys() -> None:
    (line,) = (await sent(CallEnded(ODD))).logs
    assert line.isprintable()
    assert "first second" in line


@pytest.mark.parametrize("era", ERAS)
async def test_prints_of_any_size_do_not_cost_the_answer_over_http(served: Served, era: str) -> None:
    ear = Ear()
    with served.http() as (url, _):
        async with served.http_client(url, era=era, ear=ear) as client:
            result = await client.call_tool(
                "execute_code", {"code": "print(chr(1) * 900_000)\n5"}, progress_callback=ear.on_progress
            )
    assert result.structured_content["value"] == 5
    assert ear.printed == "\x01" * 900_000 + "\n"
