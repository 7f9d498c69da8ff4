"""Durable runs and programs in the background have guests of their own, which hash texts alike; ordinary programs have
random hashes, in the same runtime, too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import ConfigurationError, Runtime
from callgate.errors import SandboxCrashed
from callgate.runtime.background import _words
from callgate.runtime.replay.guests import ReplayGuests
from callgate.sandbox.backend import Backend
from callgate.sandbox.jail import JailBackend
from sandbox.asking import until

pytestmark = pytest.mark.anyio
HASH = "import sys\n[hash('probe'), sys.flags.hash_randomization]"
MODULES = "import sys\n[name in sys.modules for name in ('callgate_guest.replaying', 'callgate_guest.standing_still')]"


async def in_the_background(runtime: Runtime) -> Any:
    with anyio.fail_after(30):
        result = await (await runtime.start(HASH)).wait()
    assert result.ok, result.error
    return result.value


@pytest.mark.parametrize("keeps", ["a file", "memory"])
async def test_runs_that_may_go_on_elsewhere_hash_alike_and_other_programs_do_not(keeps: str, tmp_path: Path) -> None:
    store = tmp_path / "runs.db" if keeps == "a file" else None
    found, ordinary = [], []
    for _ in range(2):
        async with Runtime(sandbox="jail", pool_size=1, durable=store) as runtime:
            ordinary.append((await runtime.execute_code(HASH)).value)
            found.append(await in_the_background(runtime))
            ordinary.append((await runtime.execute_code(HASH)).value)
    assert found[0] == found[1]
    assert found[0][1] == 0
    assert [each[1] for each in ordinary] == [1, 1, 1, 1]
    assert ordinary[0] == ordinary[1] != ordinary[2] == ordinary[3]
    assert found[0][0] not in [each[0] for each in ordinary]


async def test_nothing_of_their_guests_is_left_when_the_runtime_is_left() -> None:
    async with Runtime(sandbox="jail", pool_size=2) as runtime:
        assert runtime._replay_guests is not None
        await in_the_background(runtime)
        backend, pool = await runtime._replay_guests.opened()
        assert isinstance(backend, JailBackend)
        pid = backend.zygote_pid
        assert pid != runtime.backend.zygote_pid  # type: ignore[attr-defined]
        await until(lambda: pool.idle == 2)
        guests = list(pool._idle)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not any(guest.alive for guest in guests)


async def test_a_runtime_that_is_left_while_they_are_opened_has_them_when_it_is_entered_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    runtime = Runtime(sandbox="jail", pool_size=0)
    assert runtime._replay_guests is not None
    contexts = runtime._replay_guests._contexts
    entering = anyio.Event()

    class Slow(JailBackend):
        """Is entered when it is to be left."""

        async def __aenter__(self) -> JailBackend:
            entering.set()
            await contexts._leave.wait()
            return await super().__aenter__()

    async def opens() -> None:
        with pytest.raises(ConfigurationError) as error:
            await runtime._confined_for_replay()
        told.append(str(error.value))

    monkeypatch.setattr("callgate.runtime.replay.guests.replaying", lambda _: Slow())
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks, runtime:
            tasks.start_soon(opens)
            await entering.wait()
            tasks.start_soon(opens)  # waits for the first one
            await anyio.wait_all_tasks_blocked()
        monkeypatch.undo()
        await opens()
        assert told == ["this runtime was left already; enter it again, or make another one"] * 3
        assert contexts.loop is None
        async with runtime:
            assert (await in_the_background(runtime))[1] == 0


async def test_they_count_among_the_guests_of_the_runtime() -> None:
    async with Runtime(sandbox="jail", pool_size=0, max_guests=1, queue_seconds=30) as runtime:
        async with runtime.session() as session:
            run = await runtime.start(HASH)
            with anyio.move_on_after(0.3) as waiting:
                await run.wait()
            assert waiting.cancelled_caught
            assert (await session.execute_code("1 + 1")).value == 2
        with anyio.fail_after(30):
            assert (await run.wait()).ok


async def test_a_run_that_finds_no_guest_says_what_it_waits_for_and_tries_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [SandboxCrashed("the jail is not running")]
    opened = ReplayGuests.opened

    async def fails_once(guests: ReplayGuests) -> Any:
        if failures:
            raise failures.pop()
        return await opened(guests)

    monkeypatch.setattr(ReplayGuests, "opened", fails_once)
    async with Runtime(sandbox="jail", pool_size=0) as runtime:
        run = await runtime.start(HASH)
        with anyio.fail_after(30):
            assert await run.rest() is None
            assert (run.status, run.reason) == ("waiting", "waits for a sandbox: the jail is not running")
            assert await _words(runtime, run) == (
                f'Run "{run.id}" waits for a sandbox: the jail is not running. It continues by itself, and wait_run '
                "gives its result."
            )
            row = await runtime._runs_host.store.find(run.id)
            assert row.wake_at is not None
            assert row.wake_at - row.changed == pytest.approx(30, abs=5)
            await runtime.runs.resume(run.id)
            assert (await run.wait()).ok


async def test_a_sandbox_without_such_guests_says_what_to_do() -> None:
    class Plain:
        """The jail without the verb `replaying`."""

        name = "plain"
        description = "a jail"

        def __init__(self) -> None:
            self.jail = JailBackend()

        async def open(self, allowance: Any) -> Any:
            return await self.jail.open(allowance)

        async def __aenter__(self) -> Backend:
            await self.jail.__aenter__()
            return self

        async def __aexit__(self, *error: object) -> None:
            await self.jail.__aexit__(*error)

    async with Runtime(sandbox=Plain(), pool_size=0) as runtime:
        assert (await runtime.execute_code("1 + 1")).value == 2
        run = await runtime.start(HASH)
        with anyio.fail_after(30):
            assert await run.rest() is None
        assert run.status == "needs_attention"
        assert run.reason == (
            "the sandbox 'plain' cannot replay runs, since it has no method replaying(): use sandbox='jail' or "
            "'docker'; then resume the run"
        )


async def test_an_ordinary_guest_has_nothing_of_what_replays() -> None:
    async with Runtime(sandbox="jail", pool_size=0) as runtime:
        assert (await runtime.execute_code(MODULES)).value == [False, False]
        with anyio.fail_after(30):
            assert (await (await runtime.start(MODULES)).wait()).value == [True, True]
