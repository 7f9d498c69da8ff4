"""Servers that come, go, come back, or never come."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import ConfigurationError, Registry, ToolError
from callgate.mcp import McpServers
from callgate.mcp.client import server as server_module
from with_mcp.client.served import SERVERS, everything, hostile, lines, serving, until

pytestmark = pytest.mark.anyio


async def test_servers_start_side_by_side_and_a_hanging_one_holds_up_nobody(tmp_path: Path) -> None:
    go = tmp_path / "go"
    began = anyio.current_time()
    servers = {"late": hostile("late", HOSTILE_GO=str(go)), "a": hostile("well"), "b": everything()}
    async with serving(servers, ready_seconds=1) as served:
        assert anyio.current_time() - began < 10
        await served.until("a", "running")
        await served.until("b", "running")
        assert served.status("late").state == "starting"
        assert await served.call("a_echo", {"text": "x"}) == "x"
        assert "late_echo" not in served.registry
        go.touch()
        await served.until("late", "running")
        assert await served.call("late_echo", {"text": "here"}) == "here"


async def test_entering_waits_for_none_when_told_so() -> None:
    began = anyio.current_time()
    async with serving({"s": hostile("hang_at_start")}, ready_seconds=0) as served:
        assert anyio.current_time() - began < 10
        assert served.status("s").state == "starting"


async def test_entering_does_not_wait_for_what_has_failed() -> None:
    began = anyio.current_time()
    async with serving({"s": {"command": "/no/such/program"}, "t": hostile("well")}, ready_seconds=30) as served:
        assert anyio.current_time() - began < 10
        assert served.status("t").state == "running"


@pytest.mark.parametrize("kind", ["hang_at_start", "hang_in_listing", "only_garbage"])
async def test_a_start_that_takes_too_long_is_ended_and_tried_again(kind: str) -> None:
    async with serving({"s": hostile(kind)}, start_seconds=0.7, ready_seconds=0) as served:
        await until(lambda: served.status("s").error is not None)
        status = served.status("s")
        assert status.state == "starting"
        assert status.error == "it did not start within 0.7 s"
        assert status.remedy == "give it more with start_seconds"
        assert status.next_attempt_seconds is not None
        assert status.line().startswith("s: starting; it did not start within 0.7 s; give it more with start_seconds")


async def test_a_program_that_is_not_there_is_one_clear_line_and_not_tried_again() -> None:
    async with serving({"s": {"command": "no-such-program-at-all"}, "ok": hostile("well")}) as served:
        status = served.status("s")
        assert status.line() == (
            "s: failed; the command 'no-such-program-at-all' was not found: it is not on the PATH; "
            "install it, or write its full path"
        )
        assert await served.call("ok_echo", {"text": "x"}) == "x"


async def test_a_program_that_cannot_be_run_is_one_clear_line(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF not really")
    program.chmod(0o755)
    async with serving({"s": {"command": str(program)}}) as served:
        assert served.status("s").error == f"the command {str(program)!r} cannot be run: Exec format error"


async def test_a_faulty_configuration_is_that_servers_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "callgate"):
        async with serving({"s": {"command": "x", "env": {"A": "${NO_SUCH}"}}, "ok": hostile("well")}) as served:
            status = served.status("s")
            assert (status.state, status.remedy) == ("failed", "mend the configuration")
            assert status.error is not None
            assert "'NO_SUCH' is not set" in status.error
            assert await served.call("ok_echo", {"text": "x"}) == "x"
    assert [record.getMessage() for record in caplog.records] == [f"MCP server 's': {status.error}"]


async def test_a_disabled_server_is_not_started() -> None:
    async with serving({"s": {**hostile("well"), "disabled": True}}) as served:
        assert served.status("s").line() == "s: disabled"
        assert len(served.registry) == 0


async def test_a_server_that_ends_at_once_is_given_up_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "FIRST_DELAY_SECONDS", 0.01)
    async with serving({"s": hostile("exits_at_once")}) as served:
        status = await served.until("s", "failed")
        assert status.error == (
            "given up after 5 starts: exit code 1; its last words: Error: Cannot find module 'left-pad'"
        )
        assert status.stderr == "Error: Cannot find module 'left-pad'\n"


async def test_starts_are_repeated_with_growing_pauses_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    monkeypatch.setattr(server_module, "FIRST_DELAY_SECONDS", 0.05)
    began = anyio.current_time()
    async with serving({"s": hostile("crashes_at_every_start", HOSTILE_NOTES=str(notes))}) as served:
        await served.until("s", "failed")
        assert lines(notes) == ["start"] * 5
        assert anyio.current_time() - began > 0.05 + 0.1 + 0.2 + 0.4
        assert served.status("s").next_attempt_seconds is None


async def test_a_server_that_fails_at_first_comes_later(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with serving({"s": hostile("crashes_at_first_start", HOSTILE_NOTES=str(notes))}) as served:
        await served.until("s", "running")
        assert await served.call("s_echo", {"text": "x"}) == "x"
        assert lines(notes) == ["start"] * 2
        assert served.status("s").restarts == 0


async def test_a_server_that_dies_in_a_call_fails_it_clearly_and_comes_back() -> None:
    async with serving({"s": hostile("dies_in_call")}) as served:
        for times in range(1, 3):
            with pytest.raises(ToolError) as raised:
                await served.call("s_echo", {"text": "die"})
            assert raised.value.message == "server 's': it ended in the middle of the call: exit code 11"
            assert raised.value.retryable  # it says that it is read-only
            assert await served.call("s_echo", {"text": "again"}) == "alive"  # waits for the restart
            status = served.status("s")
            assert (status.state, status.restarts) == ("running", times)
            assert status.error == "exit code 11; its last words: Segmentation fault, more or less"
            assert "Segmentation" not in status.line()


async def test_the_outcome_of_a_call_with_effects_is_said_to_be_unknown() -> None:
    async with serving({"ev": everything()}) as served:
        with pytest.raises(ToolError) as raised:
            await served.call("ev_die", {"code": 4})
        assert raised.value.message == (
            "server 'ev': it ended in the middle of the call: exit code 4; it is not known whether the tool did "
            "its work: find out before you call it again"
        )
        assert not raised.value.retryable


@pytest.mark.parametrize(
    ("kind", "why"),
    [("dies_by_signal", "it was killed by signal 9"), ("leaves_a_child", "exit code 0")],
)
async def test_however_it_goes_every_call_of_it_fails_at_once(kind: str, why: str) -> None:
    async with serving({"s": hostile(kind)}) as served:
        messages: list[str] = []

        async def one() -> None:
            with pytest.raises(ToolError) as raised:
                await served.call("s_echo", {"text": "x"})
            messages.append(raised.value.message)

        with anyio.fail_after(8):
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(one)
        assert messages == [f"server 's': it ended in the middle of the call: {why}"] * 5


async def test_a_server_that_closes_its_stdout_is_gone() -> None:
    async with serving({"s": hostile("closes_stdout")}) as served:
        with anyio.fail_after(8), pytest.raises(ToolError, match="it ended in the middle of the call"):
            await served.call("s_echo", {"text": "x"})
        await until(lambda: served.status("s").restarts == 1)


async def test_a_server_that_closes_its_stdin_is_gone() -> None:
    async with serving({"s": hostile("closes_stdin")}) as served:
        assert await served.call("s_echo", {"text": "x"}) == "closed"
        with anyio.fail_after(8), pytest.raises(ToolError, match="it closed its stdin"):
            await served.call("s_echo", {"text": "x"})
        await until(lambda: served.status("s").restarts == 1)


async def test_calls_of_one_server_do_not_care_about_another_that_dies() -> None:
    servers = {"s": hostile("dies_by_signal"), "ev": everything()}
    async with serving(servers) as served, anyio.create_task_group() as tasks:
        tasks.start_soon(_fails, served, "s_echo")
        for _ in range(20):
            assert await served.call("ev_echo", {"text": "steady"}) == "steady"


async def _fails(served: Any, tool: str) -> None:
    with pytest.raises(ToolError):
        await served.call(tool, {"text": "x"})


async def test_a_failed_server_is_started_once_more_when_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "FIRST_DELAY_SECONDS", 0.01)
    program = tmp_path / "server.py"
    source = (SERVERS / "hostile.py").read_text()
    program.write_text(source)
    async with serving({"s": {**hostile("dies_in_call"), "args": [str(program), "dies_in_call"]}}) as served:
        program.write_text("raise SystemExit('gone')")
        with pytest.raises(ToolError):
            await served.call("s_echo", {"text": "die"})
        await served.until("s", "failed")
        with pytest.raises(ToolError) as raised:  # it was tried just now
            await served.call("s_echo", {"text": "x"})
        assert raised.value.message == (
            "server 's' is failed: given up after 5 starts: exit code 1; its last words: gone; "
            "the call was not made, try again later"
        )
        assert raised.value.retryable
        program.write_text(source)
        monkeypatch.setattr(server_module, "REVIVE_SECONDS", 0.0)
        assert await served.call("s_echo", {"text": "x"}) == "alive"
        assert served.status("s").state == "running"


async def test_a_call_waits_no_longer_than_it_must_for_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "FIRST_DELAY_SECONDS", 20.0)
    monkeypatch.setattr(server_module, "WAIT_SECONDS", 0.3)
    async with serving({"s": hostile("dies_in_call")}) as served:
        with pytest.raises(ToolError):
            await served.call("s_echo", {"text": "die"})
        await served.until("s", "restarting")
        with anyio.fail_after(10), pytest.raises(ToolError) as raised:
            await served.call("s_echo", {"text": "x"})
        assert raised.value.message.startswith("server 's' is restarting: exit code 11")


async def test_a_server_can_be_restarted_by_hand() -> None:
    async with serving({"ev": everything(), "s": hostile("well")}) as served:
        before = await served.call("ev_pid")
        status = await served.servers.restart("ev")
        assert (status.state, status.restarts) == ("running", 1)
        assert await served.call("ev_pid") != before
        with pytest.raises(ConfigurationError, match="there is no MCP server 'evv'; did you mean ev"):
            await served.servers.restart("evv")
    with pytest.raises(ConfigurationError, match="enter it first"):
        await served.servers.restart("ev")


async def test_a_tool_that_comes_or_goes_is_seen() -> None:
    async with serving({"ev": everything()}) as served:
        before = served.registry.tools()
        await served.call("ev_grow", {"name": "sprout"})
        await until(lambda: "ev_sprout" in served.registry)
        assert served.registry.tools() is not before
        assert await served.call("ev_sprout") == "I am sprout"
        assert "ev_sprout" in served.status("ev").tools
        await served.call("ev_grow", {"name": "sprout"})
        await until(lambda: "ev_sprout" not in served.registry)


async def test_a_restart_with_the_same_tools_changes_nothing_in_the_registry() -> None:
    async with serving({"s": hostile("dies_in_call")}) as served:
        before = served.registry.tools()
        with pytest.raises(ToolError):
            await served.call("s_echo", {"text": "die"})
        assert await served.call("s_echo", {"text": "x"}) == "alive"
        assert served.registry.tools() is before


async def test_the_same_servers_serve_one_runtime_at_a_time_and_several_after_each_other() -> None:
    servers = McpServers.read({"mcpServers": {"s": hostile("well")}}, ready_seconds=20)
    for _ in range(2):
        registry = Registry()
        async with servers.serving(registry):
            assert "s_echo" in registry
            with pytest.raises(ConfigurationError, match="serve a runtime already"):
                await servers.serving(Registry()).__aenter__()
        assert servers.status()[0].state == "stopped"


async def test_a_call_under_way_fails_when_the_servers_are_stopped() -> None:
    messages: list[str] = []

    async def one(function: Any) -> None:
        with pytest.raises(ToolError) as raised:
            await function(text="x")
        messages.append(raised.value.message)

    silent = hostile("tells_of_cancellation", HOSTILE_NOTES="/dev/null")
    async with anyio.create_task_group() as tasks, serving({"s": silent}) as served:
        function = served.registry.get("s_echo").function
        tasks.start_soon(one, function)
        await anyio.wait_all_tasks_blocked()
    assert messages == ["server 's': it ended in the middle of the call: it was stopped"]
    with pytest.raises(ToolError, match="server 's' is stopped"):
        await function(text="x")
