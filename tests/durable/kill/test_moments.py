"""Single moments in the life of a run that a campaign does not meet: two processes at one run, a clock that jumps, a
full disk, another Python, tools that change while the run waits."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import StoredRun
from durable.kill.judging import Kept, Told, faults
from durable.kill.lives import Kill, Lives
from durable.kill.people import people
from durable.kill.workload import STORE_FAILED, WAITS
from durable.kill.world import entries

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(600)]

DAY = 86_400
HOME = Path(__file__).parents[3]


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of the tests; the campaigns have processes on both."""
    return "asyncio"


async def expected(tmp_path: Path, program: str) -> tuple[Told, int]:
    """What a run says that nobody disturbs, and the number of its points."""
    undisturbed = Lives(tmp_path / "undisturbed", program)
    await undisturbed.run([])
    assert undisturbed.told is not None, undisturbed.faults
    return undisturbed.told, undisturbed.points


async def began(lives: Lives) -> None:
    """Return when the run has called a tool."""
    with anyio.fail_after(60):
        while not entries(lives.folder):  # noqa: ASYNC110
            await anyio.sleep(0.001)


def check(lives: Lives, told: Told) -> None:
    assert lives.faults == []
    assert lives.told is not None
    assert faults(lives.told, told, entries(lives.folder), lives.kept) == []


async def row(folder: Path) -> StoredRun:
    store = SqliteStore(folder / "runs.db")
    async with store.opened():
        (run,) = await store.list()
        return await store.find(run.id)


@pytest.mark.parametrize("program", ["plan_charges", "fast_charges", "guest_as_completed"])
async def test_of_two_processes_that_are_given_one_run_one_makes_its_calls(program: str, tmp_path: Path) -> None:
    told, _ = await expected(tmp_path, program)
    lives = Lives(tmp_path / "two", program)
    both = [lives.start(Kill()) for _ in range(2)]
    for process in both:
        assert await anyio.to_thread.run_sync(process.wait, 60) == 0, (lives.folder / "stderr").read_text()
    lives.read()
    check(lives, told)
    assert len({entry.process for entry in entries(lives.folder)}) == 1


@pytest.mark.parametrize("program", ["plan_charges", "fast_charges", "guest_as_completed"])
async def test_a_process_that_waits_for_a_run_takes_it_over_when_its_owner_is_killed(
    program: str, tmp_path: Path
) -> None:
    told, points = await expected(tmp_path, program)
    lives = Lives(tmp_path / "two", program)
    owner = lives.start(Kill(point=points // 2))
    await began(lives)
    await lives.life(Kill())
    assert await anyio.to_thread.run_sync(owner.wait, 60) == -9
    lives.kept.append(Kept(0, frozenset()))
    check(lives, told)
    assert len({entry.process for entry in entries(lives.folder)}) == 2


async def test_a_process_that_hung_beyond_its_lease_leaves_the_run_to_the_one_that_took_it(tmp_path: Path) -> None:
    told, _ = await expected(tmp_path, "guest_stores")
    lives = Lives(tmp_path / "two", "guest_stores")
    owner = lives.start(Kill())
    await began(lives)
    owner.send_signal(signal.SIGSTOP)
    before = len(entries(lives.folder))
    await lives.life(Kill())
    owner.send_signal(signal.SIGCONT)
    lives.kept.append(Kept(0, frozenset()))
    assert await anyio.to_thread.run_sync(owner.wait, 60) == 0, (lives.folder / "stderr").read_text()
    lives.read()
    check(lives, told)
    assert len(entries(lives.folder)) > before


@pytest.mark.parametrize("program", ["plan_charges", "fast_gather", "guest_tasks"])
async def test_a_process_that_is_interrupted_leaves_nothing_that_nobody_knows(program: str, tmp_path: Path) -> None:
    undisturbed = Lives(tmp_path / "undisturbed", program)
    await undisturbed.run([])
    assert undisturbed.told is not None, undisturbed.faults
    lives = Lives(tmp_path / "interrupted", program, leaves="soft", accepted=[-signal.SIGINT])
    seconds = undisturbed.seconds
    await lives.run([Kill(seconds=part * seconds, signal=signal.SIGINT) for part in (0.2, 0.3, 0.2, 0.1, 0.05)])
    check(lives, undisturbed.told)
    assert lives.kept
    assert not [what for what in lives.counts if what.startswith("settled")]


@pytest.mark.parametrize(
    "program", ["plan_approvals", "fast_approvals", "guest_approvals", "guest_sync", "guest_timers"]
)
async def test_a_clock_that_jumps_between_and_in_processes_changes_nothing(program: str, tmp_path: Path) -> None:
    told, points = await expected(tmp_path, program)
    lives = Lives(tmp_path / "jumps", program, leaves="hard")
    clocks = [{"KILL_CLOCK": str(days * DAY)} for days in (0, 1, -1, 2, -2)]
    await lives.run([Kill(point=points // 3), Kill(point=points // 3), Kill()], clocks)
    check(lives, told)


@pytest.mark.parametrize("program", ["plan_charges", "fast_charges", "guest_as_completed"])
async def test_a_full_disk_ends_the_process_in_words_and_the_run_goes_on_where_there_is_room(
    program: str, tmp_path: Path
) -> None:
    told, _ = await expected(tmp_path, program)
    lives = Lives(tmp_path / "full", program, leaves="hard", accepted=[STORE_FAILED])
    full = 0
    for pages in (13, 16, 19, 22, 26, 30, 36):
        code = await lives.life(Kill(), {"KILL_FILE_BYTES": str(pages * 4096)})
        full += code == STORE_FAILED
        if code == STORE_FAILED:
            said = (lives.folder / "stderr").read_text()
            assert "full" in said or "disk" in said, said
        if lives.told is not None:
            break
    assert full
    if lives.told is None:
        await lives.run([])
    check(lives, told)


async def test_a_question_is_asked_again_when_the_schema_of_its_tool_has_changed(tmp_path: Path) -> None:
    told, _ = await expected(tmp_path, "fast_approvals")
    lives = Lives(tmp_path / "changed", "fast_approvals", leaves="soft")
    assert await lives.life(Kill()) == WAITS
    async with people(lives.folder, lives.counts) as those:
        assert await those.decide() == 1
    changed = {"KILL_TOOLS": "changed"}
    assert await lives.life(Kill(), changed) == WAITS
    assert not [entry for entry in entries(lives.folder) if entry.tool == "refund"]
    async with people(lives.folder, lives.counts) as those:
        assert await those.decide() == 1
    await lives.run([], [changed] * 5)
    check(lives, told)
    assert lives.counts["approved"] == 3


@pytest.mark.parametrize("program", ["plan_approvals", "fast_approvals", "guest_approvals"])
async def test_a_run_whose_tool_is_gone_needs_attention_until_the_tool_is_back(program: str, tmp_path: Path) -> None:
    told, _ = await expected(tmp_path, program)
    lives = Lives(tmp_path / "gone", program, leaves="soft")
    assert await lives.life(Kill()) == WAITS
    made = len(entries(lives.folder))
    async with people(lives.folder, lives.counts) as those:
        assert await those.decide()
    assert await lives.life(Kill(), {"KILL_TOOLS": "gone"}) == WAITS
    run = await row(lives.folder)
    assert run.status == "needs_attention"
    assert "refund" in (run.reason or ""), run.reason
    assert len(entries(lives.folder)) == made
    await lives.run([], [{"KILL_RESUME": "1"}])
    check(lives, told)


def _another_python(folder: Path) -> str:
    """An interpreter of another version that has callgate; skips where there is none."""
    minor = sys.version_info.minor
    versions = Path.home() / ".pyenv" / "versions"
    found = [shutil.which(f"python3.{other}") for other in range(11, 15) if other != minor]
    found += [str(path) for path in sorted(versions.glob("3.1[1-4].*/bin/python3")) if f"/3.{minor}." not in str(path)]
    python = next((each for each in reversed(found) if each and _answers(each)), None)
    if python is None:
        pytest.skip("there is no other Python of 3.11 to 3.14 here: install one, for instance with pyenv")
    made = folder / "venv"
    try:
        subprocess.run([python, "-m", "venv", str(made)], check=True, capture_output=True, timeout=60)
        install = [str(made / "bin" / "python"), "-m", "pip", "install", "-q", "--editable", str(HOME)]
        subprocess.run(install, check=True, capture_output=True, timeout=200)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"callgate cannot be installed for {python}: {error}")
    return str(made / "bin" / "python")


def _answers(python: str) -> bool:
    asked = [python, "-c", "import sys; print(sys.version_info.minor)"]
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False)
    return ran.stdout.strip() not in ("", str(sys.version_info.minor))


async def test_a_run_goes_on_under_another_python_and_says_so(tmp_path: Path) -> None:
    python = _another_python(tmp_path)
    for program in ("plan_charges", "fast_charges", "guest_as_completed", "guest_tasks", "guest_chance"):
        told, points = await expected(tmp_path / program, program)
        lives = Lives(tmp_path / program / "two", program)
        await lives.life(Kill(point=points // 2))
        lives.python = python
        await lives.run([])
        check(lives, told)
        stored = json.loads((await row(lives.folder)).result or "{}")
        assert not program.startswith("guest") or "Python" in str(stored.get("notes")), stored
