"""A process is killed at a chosen moment of a call, and another one goes on with its run, from an SQLite file."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callgate import Runtime
from callgate.runtime.durable.runs import Run
from runtime.durable import dying
from runtime.durable.waiting import becomes

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

DIES = Path(dying.__file__)


@pytest.fixture
def anyio_backend() -> str:
    """Which loop goes on makes no difference to what was stored."""
    return "asyncio"


def killed(folder: Path, kind: str, point: str, name: str) -> tuple[Path, Path]:
    file, log = folder / "runs.db", folder / "log"
    arguments = [str(file), str(log), kind, point, name]
    done = subprocess.run([sys.executable, str(DIES), *arguments], capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    return file, log


def calls(log: Path) -> list[str]:
    """The calls with effects; a read may be made again."""
    names = [line.split()[0] for line in log.read_text().splitlines()]
    return [name for name in names if name != "get"]


async def the_run(runtime: Runtime) -> Run[Any]:
    (run,) = await runtime.runs.list()
    return run


def value(result: Any) -> Any:
    return result.value if hasattr(result, "value") else list(result.outputs.values())


@pytest.mark.parametrize("kind", ["program", "plan"])
@pytest.mark.parametrize(("point", "made"), [("before started", 0), ("after done", 1)])
async def test_what_is_known_needs_nobody(tmp_path: Path, kind: str, point: str, made: int) -> None:
    file, log = killed(tmp_path, kind, point, "send")
    assert calls(log) == ["send"] * made
    async with Runtime(dying.tools(log), sandbox=None, durable=file) as runtime:
        result = await (await the_run(runtime)).wait()
    assert value(result) == ["a", "sent to a"]
    assert calls(log) == ["send"]


@pytest.mark.parametrize("kind", ["program", "plan"])
@pytest.mark.parametrize(("point", "made"), [("after started", 0), ("in the tool", 1), ("before done", 1)])
async def test_what_is_unknown_is_not_done_again_by_itself(tmp_path: Path, kind: str, point: str, made: int) -> None:
    file, log = killed(tmp_path, kind, point, "send")
    assert calls(log) == ["send"] * made
    async with Runtime(dying.tools(log), sandbox=None, durable=file) as runtime:
        run = await becomes(runtime, await the_run(runtime), "needs_attention")
        (call,) = await runtime.runs.unsettled(run.id)
        assert calls(log) == ["send"] * made
        if made:
            await runtime.runs.settle(run.id, call.call, happened="sent to a")
        else:
            await runtime.runs.settle(run.id, call.call, again=True)
        assert value(await run.wait()) == ["a", "sent to a"]
    assert calls(log) == ["send"]


@pytest.mark.parametrize("kind", ["program", "plan"])
@pytest.mark.parametrize("point", ["in the tool", "before done"])
async def test_what_is_idempotent_is_done_again_with_its_key(tmp_path: Path, kind: str, point: str) -> None:
    file, log = killed(tmp_path, kind, point, "put")
    async with Runtime(dying.tools(log), sandbox=None, durable=file) as runtime:
        assert value(await (await the_run(runtime)).wait()) == ["a", "put to a"]
    get, *puts = log.read_text().splitlines()
    assert get.startswith("get ")
    assert len(puts) == 2
    assert len(set(puts)) == 1


async def test_a_key_finds_the_run_of_a_process_that_is_gone(tmp_path: Path) -> None:
    file, log = killed(tmp_path, "program", "before started", "send")
    async with Runtime(dying.tools(log), sandbox=None, durable=file) as runtime:
        run = await runtime.start(dying.GIVEN["program"].format(tool="send"), key=dying.KEY)
        assert run.id == (await the_run(runtime)).id
        assert (await run.wait()).value == ["a", "sent to a"]
    assert calls(log) == ["send"]
