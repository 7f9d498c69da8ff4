"""Single moments in the life of a run that a campaign does not meet: two processes at one run, a clock that jumps, a
full disk, tools that change while the run waits."""

from __future__ import annotations

import signal
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from durable.kill.hanging import is_stopped, is_stopped_without_a_lock
from durable.kill.judging import Kept
from durable.kill.lives import Kill, Lives
from durable.kill.moments import check, row
from durable.kill.people import people
from durable.kill.trials import Setting, undisturbed
from durable.kill.workload import STORE_FAILED, WAITS
from durable.kill.world import entries

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(600)]

DAY = 86_400


async def began(lives: Lives) -> None:
    """Return when the run has called a tool."""
    with anyio.fail_after(60):
        while not entries(lives.folder):  # noqa: ASYNC110
            await anyio.sleep(0.001)


@pytest.mark.parametrize("program", ["plan_charges", "fast_charges", "guest_as_completed"])
async def test_of_two_processes_that_are_given_one_run_one_makes_its_calls(
    program: str, tmp_path: Path, setting: Setting
) -> None:
    expected = await undisturbed(setting, program)
    lives = Lives(tmp_path / "two", program)
    both = [lives.start(Kill()) for _ in range(2)]
    for process in both:
        assert await anyio.to_thread.run_sync(process.wait, 60) == 0, (lives.folder / "stderr").read_text()
    lives.read()
    check(lives, expected)
    assert len({entry.process for entry in entries(lives.folder)}) == 1


@pytest.mark.parametrize("program", ["plan_charges", "fast_charges", "guest_as_completed"])
async def test_a_process_that_waits_for_a_run_takes_it_over_when_its_owner_is_killed(
    program: str, tmp_path: Path, setting: Setting
) -> None:
    expected = await undisturbed(setting, program)
    lives = Lives(tmp_path / "two", program)
    owner = lives.start(Kill(point=expected.points // 2))
    await began(lives)
    await lives.life(Kill())
    assert await anyio.to_thread.run_sync(owner.wait, 60) == -9
    lives.kept.append(Kept(0, frozenset()))
    check(lives, expected)
    assert len({entry.process for entry in entries(lives.folder)}) == 2


LEASE = {"KILL_LEASE": "3"}
"""Environment of processes whose lease does not hold a test up."""
EARLY, LATER = "12", "20"
"""A point of `guest_stores`, and a write that comes later, of 330 points and 80 writes."""


async def test_a_process_that_hung_beyond_its_lease_leaves_the_run_to_the_one_that_took_it(
    tmp_path: Path, setting: Setting
) -> None:
    expected = await undisturbed(setting, "guest_stores")
    lives = Lives(tmp_path / "two", "guest_stores")
    owner = lives.start(Kill(), {**LEASE, "KILL_STOPS_AT": EARLY})
    await is_stopped_without_a_lock(owner, lives.folder / "runs.db")
    before = len(entries(lives.folder))
    await lives.life(Kill(), LEASE)
    owner.send_signal(signal.SIGCONT)
    lives.kept.append(Kept(0, frozenset()))
    assert await anyio.to_thread.run_sync(owner.wait, 60) == 0, (lives.folder / "stderr").read_text()
    lives.read()
    check(lives, expected)
    assert len(entries(lives.folder)) > before


@pytest.mark.parametrize(
    ("other", "ends"), [("comes then", "goes on"), ("comes then", "is killed"), ("was there", "goes on")]
)
async def test_a_process_that_hangs_in_a_transaction_stops_the_others_in_words_and_loses_nothing(
    other: str, ends: str, tmp_path: Path, setting: Setting
) -> None:
    expected = await undisturbed(setting, "guest_stores")
    lives = Lives(tmp_path / "two", "guest_stores")
    was_there = other == "was there"
    owner = lives.start(Kill(), {**LEASE, "KILL_STOPS_AT": EARLY if was_there else "0", "KILL_STOPS_IN": LATER})
    if was_there:
        await is_stopped_without_a_lock(owner, lives.folder / "runs.db")
    else:
        await is_stopped(owner)
    second = lives.start(Kill(), LEASE)
    if was_there:
        with anyio.fail_after(60):
            while not (lives.folder / "stdout").stat().st_size:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        owner.send_signal(signal.SIGCONT)
        await is_stopped(owner)
    before = entries(lives.folder)
    assert await anyio.to_thread.run_sync(second.wait, 60) == STORE_FAILED
    assert "another process has locked it for more than 5 s" in (lives.folder / "stderr").read_text()
    assert entries(lives.folder) == before
    if ends == "is killed":
        owner.kill()
        assert await anyio.to_thread.run_sync(owner.wait, 60) == -signal.SIGKILL
        lives.kept.append(Kept(len(before), frozenset()))
        await lives.run([])
    else:
        owner.send_signal(signal.SIGCONT)
        assert await anyio.to_thread.run_sync(owner.wait, 60) == 0, (lives.folder / "stderr").read_text()
        lives.read()
    check(lives, expected)
    assert len({entry.process for entry in entries(lives.folder)}) == (2 if ends == "is killed" else 1)


@pytest.mark.parametrize("program", ["plan_charges", "fast_gather", "guest_tasks"])
async def test_a_process_that_is_interrupted_leaves_nothing_that_nobody_knows(
    program: str, tmp_path: Path, setting: Setting
) -> None:
    expected = await undisturbed(setting, program)
    lives = Lives(tmp_path / "interrupted", program, leaves="soft", accepted=[-signal.SIGINT])
    seconds = expected.seconds
    first = Kill(point=expected.points // 5, signal=signal.SIGINT)  # a time may be later than the end
    others = [Kill(seconds=part * seconds, signal=signal.SIGINT) for part in (0.3, 0.2, 0.1, 0.05)]
    await lives.run([first, *others])
    check(lives, expected)
    assert lives.kept
    assert not [what for what in lives.counts if what.startswith("settled")]


@pytest.mark.parametrize(
    "program", ["plan_approvals", "fast_approvals", "guest_approvals", "guest_sync", "guest_timers"]
)
async def test_a_clock_that_jumps_between_and_in_processes_changes_nothing(
    program: str, tmp_path: Path, setting: Setting
) -> None:
    expected = await undisturbed(setting, program)
    lives = Lives(tmp_path / "jumps", program, leaves="hard")
    clocks = [{"KILL_CLOCK": str(days * DAY)} for days in (0, 1, -1, 2, -2)]
    await lives.run([Kill(point=expected.points // 3), Kill(point=expected.points // 3), Kill()], clocks)
    check(lives, expected)


@pytest.mark.parametrize("program", ["plan_charges", "fast_charges", "guest_as_completed"])
async def test_a_full_disk_ends_the_process_in_words_and_the_run_goes_on_where_there_is_room(
    program: str, tmp_path: Path, setting: Setting
) -> None:
    expected = await undisturbed(setting, program)
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
    check(lives, expected)


async def test_a_question_is_asked_again_when_the_schema_of_its_tool_has_changed(
    tmp_path: Path, setting: Setting
) -> None:
    expected = await undisturbed(setting, "fast_approvals")
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
    check(lives, expected)
    assert lives.counts["approved"] == 3


@pytest.mark.parametrize("program", ["plan_approvals", "fast_approvals", "guest_approvals"])
async def test_a_run_whose_tool_is_gone_needs_attention_until_the_tool_is_back(
    program: str, tmp_path: Path, setting: Setting
) -> None:
    expected = await undisturbed(setting, program)
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
    check(lives, expected)
