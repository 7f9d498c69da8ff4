"""What audit log and spans say of a program that began while the model wrote it: the same as of any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.loop.scripted_runs import sandboxed
from callgate import CallStarted, Runtime, Telemetry, tool
from callgate.agent.events import CallProgress
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.early_programs import early_programs
from callgate.agent.models.model import Delta
from callgate.agent.models.scripted import Calls, ScriptedModel
from callgate.errors import SandboxBusy
from otlp_collector import Providers, collecting

pytestmark = pytest.mark.anyio

REST = "\n".join(f"# line {n} of what the model still writes" for n in range(10))
LOOKS = f"a = await look(1)\nb = await look(a + 1)\n{REST}\nb"
LOG: list[int] = []


@tool(read_only=True)
async def look(n: int) -> int:
    """Looks something up."""
    LOG.append(n)
    return n


@tool
async def hang(n: int) -> int:
    """Never comes back."""
    await anyio.sleep_forever()
    return n


@tool
async def save(code: str) -> str:
    """Saves a text."""
    return "saved"


@pytest.fixture
def providers() -> Iterator[Providers]:
    with collecting() as collected:
        yield collected


def telemetry(providers: Providers) -> Telemetry:
    return Telemetry(tracer_provider=providers.tracer, meter_provider=providers.meter)


def agent(runtime: Runtime, arguments: dict[str, Any], **options: Any) -> Agent:
    turns: list[Any] = [Calls(("execute_code", arguments)), "done"]
    return Agent(ScriptedModel(turns, tokens_per_second=400.0), runtime, mode="code", **options)


def ends(file: Path) -> list[dict[str, Any]]:
    """What the audit log says at the end of each run, without what differs in every run."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    began = {line["run"]: line for line in lines if line["kind"] == "run"}
    said = [began[line["run"]] | line for line in lines if line["kind"] == "run_ended"]
    return [{name: line.get(name) for name in ("ok", "error", "call_id", "turn")} for line in said]


async def test_early_calls_stand_below_their_program_in_the_one_tree_of_a_task(providers: Providers) -> None:
    async with sandboxed([look], telemetry=telemetry(providers)) as runtime:
        for code in (LOOKS, f"{LOOKS}\nimport math\nwhile b < 3: b += 1"):
            with anyio.fail_after(20):
                assert (await agent(runtime, {"code": code}).run("Look.")).ok
    collected = providers.all_ended()
    task = "invoke_agent callgate"
    program = f"{task} > execute_tool execute_code"
    one = [task, f"{task} > chat scripted", f"{task} > chat scripted", program, *[f"{program} > execute_tool look"] * 2]
    assert sorted(collected.tree()) == sorted(one * 2)
    for span in collected.named("execute_tool look"):
        above = collected.parent_of(span)
        assert above is not None
        assert above.start <= span.start
        assert span.attributes["callgate.speculative"] is True
        assert above.attributes["gen_ai.tool.call.id"] == "call_1_1"


@pytest.mark.parametrize("stream", [True, False], ids=["early", "not early"])
async def test_a_program_that_finds_no_guest_says_so_with_the_models_call(
    stream: bool, providers: Providers, tmp_path: Path
) -> None:
    file = tmp_path / "audit.jsonl"
    options: dict[str, Any] = {"max_guests": 1, "pool_size": 0, "queue_seconds": 0.05}
    code = f"{LOOKS}\nimport math\nwhile b < 3: b += 1"
    opened = sandboxed([look], telemetry=telemetry(providers), audit=file, **options)
    async with opened as runtime, runtime.session():
        with anyio.fail_after(20), pytest.raises(SandboxBusy):
            await agent(runtime, {"code": code}, stream=stream).run("Look.")
    assert ends(file)[:1] == [{"ok": False, "error": "SandboxBusy", "call_id": "call_1_1", "turn": 1}]
    span = providers.all_ended().one("execute_tool execute_code")
    assert (span.status, span.attributes["error.type"]) == ("ERROR", "SandboxBusy")
    assert span.attributes["gen_ai.tool.call.id"] == "call_1_1"


async def test_a_program_that_is_cancelled_says_so_with_the_models_call_behind_its_calls(
    providers: Providers, tmp_path: Path
) -> None:
    file = tmp_path / "audit.jsonl"
    async with sandboxed([look, hang], telemetry=telemetry(providers), audit=file) as runtime:
        with anyio.CancelScope() as scope:

            def hear(event: Any) -> None:
                begins = isinstance(event, CallProgress) and isinstance(event.event, CallStarted)
                if begins and event.event.record.tool == "hang":
                    scope.cancel()

            await agent(runtime, {"code": f"a = await look(1)\n{REST}\nawait hang(a)"}, on_event=hear).run("Look.")
    (end,) = ends(file)
    assert (end["ok"], end["call_id"], end["turn"]) == (False, "call_1_1", 1)
    assert end["error"] in ("CancelledError", "Cancelled")
    assert json.loads(file.read_text().splitlines()[-2])["kind"] == "run_ended"
    span = providers.all_ended().one("execute_tool execute_code")
    assert span.attributes["error.type"] == "cancelled"
    assert span.attributes["gen_ai.tool.call.id"] == "call_1_1"


async def test_a_program_whose_call_is_refused_is_cancelled_there(providers: Providers, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    async with sandboxed([look], telemetry=telemetry(providers), audit=file) as runtime:
        with anyio.fail_after(20):
            await agent(runtime, {"code": LOOKS, "timeout": 5}).run("Look.")
    assert ends(file) == [{"ok": False, "error": "cancelled", "call_id": "call_1_1", "turn": 1}]
    span = providers.all_ended().one("execute_tool execute_code")
    assert (span.status, span.attributes["error.type"]) == ("ERROR", "cancelled")


async def test_a_program_that_the_audit_log_has_with_content_is_the_finished_one(tmp_path: Path) -> None:
    from callgate import AuditLog

    file = tmp_path / "audit.jsonl"
    async with sandboxed([look], audit=AuditLog(file, include_content=True)) as runtime:
        with anyio.fail_after(20):
            await agent(runtime, {"code": LOOKS}).run("Look.")
    assert json.loads(file.read_text().splitlines()[-2])["source"] == LOOKS


async def test_after_a_restart_another_tool_in_a_programs_place_is_not_read_as_one() -> None:
    LOG.clear()
    written = json.dumps({"code": LOOKS})
    async with (
        Runtime([look, save], sandbox=None) as runtime,
        runtime.conversation() as conversation,
        early_programs(conversation, 1, ("execute_code",)) as early,
    ):
        assert early is not None
        early.take(Delta(call=0, name="execute_code"))
        early.take(Delta(call=1, name="execute_code"))
        early.take(Delta(restarted=True))
        early.take(Delta(call=0, name="save"))
        early.take(Delta(call=0, arguments=written))
        early.take(Delta(call=1, name="execute_code"))
        early.take(Delta(call=1, arguments=written.replace("look(1)", "look(5)")))
        with anyio.fail_after(20):
            while 6 not in LOG:  # noqa: ASYNC110 (nobody tells)
                await anyio.sleep(0.001)
        assert early.of(0) is None
        assert early.of(1) is not None
    assert LOG == [5, 6]
