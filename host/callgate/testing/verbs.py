"""What every backend promises: the verbs of `Backend` and `Guest`."""

from __future__ import annotations

from collections.abc import Hashable

import anyio
import anyio.lowlevel
import pytest

from callgate.errors import SandboxCrashed
from callgate.sandbox.backend import SIGKILL, SIGXCPU, Backend, Usage

from .asking import SECONDS, ask, hear, open_files, request, until
from .opening import Opening, OpensBackend

__all__ = ["DEAF", "KeepsItsVerbs"]

DEAF = """
import fcntl, os, stat
for fd in range(3, 100):
    try:
        readable = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        if readable and stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.close(fd)
    except OSError:
        pass
os.write(2, b"deaf")
while True: pass
"""
"""A program that closes its end of the wire, and lives."""


class KeepsItsVerbs(OpensBackend):
    """A program, its prints and calls; the end of a guest; both sides that wait; limits; many guests."""

    async def test_a_program_with_a_call_works(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        heard = await ask(guest, "print('hello')\n(await echo([1, 2]))[1]")
        assert heard.value == 2
        assert heard.messages[0]["params"]["text"] == "hello\n"
        await guest.aclose()

    async def test_one_guest_runs_programs_one_after_the_other(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        assert (await ask(guest, "x = 5\n", 1)).value is None
        assert (await ask(guest, "x", 2)).value == 5
        await guest.aclose()

    async def test_it_says_what_it_is(self, backend: Backend) -> None:
        assert backend.name
        assert len(backend.description) > 20, "one line for people: what confines a guest"

    async def test_two_guests_share_nothing(self, backend: Backend) -> None:
        one, other = await backend.open(self.allowance), await backend.open(self.allowance)
        await ask(one, "import sys\nx = 1\nsys.shared = 1\n")
        heard = await ask(other, "import sys\n['x' in globals(), hasattr(sys, 'shared')]")
        assert heard.value == [False, False]
        one.kill()
        assert (await ask(other, "await echo('alive')", 2)).value == "alive"
        assert (await one.aclose()).status == -SIGKILL
        await other.aclose()

    async def test_the_end_stays_the_end(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        alive = [guest.alive]
        await guest.send(request("import os\nos._exit(3)"))
        assert (await hear(guest)).reply is None
        for _ in range(3):
            assert await guest.receive() == ("wire", b"")
        ended = await guest.aclose()
        assert ended.status == 3
        assert [*alive, guest.alive] == [True, False]
        assert isinstance(ended.usage, Usage)
        assert 0 < ended.usage.cpu_seconds < 10
        assert ended.usage.peak_memory_bytes > 1 << 20
        assert await guest.receive() == ("wire", b"")

    async def test_two_may_close_at_once(self, backend: Backend) -> None:
        """A run ends its guest, and so does whoever leaves the backend meanwhile."""
        guest = await backend.open(self.allowance)
        ended: list[object] = []

        async def close() -> None:
            ended.append(await guest.aclose())

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(close)
                tasks.start_soon(close)
        assert ended[0] == ended[1]

    async def test_closing_may_be_repeated(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        first = await guest.aclose()
        assert await guest.aclose() == first
        guest.kill()
        guest.kill()
        assert await guest.receive() == ("wire", b"")
        assert guest.unread_output() == b""
        with pytest.raises(SandboxCrashed):
            await guest.send(b"{}\n")

    async def test_kill_wakes_whoever_receives(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        await guest.send(request("while True: pass"))
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:

                async def receive() -> None:
                    assert await guest.receive() == ("wire", b"")

                tasks.start_soon(receive)
                await anyio.wait_all_tasks_blocked()
                guest.kill()
        assert (await guest.aclose()).status == -SIGKILL

    async def test_kill_wakes_whoever_sends(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        await guest.send(request("while True: pass"))
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:

                async def send() -> None:
                    with pytest.raises(SandboxCrashed):
                        await guest.send(b"x" * 10_000_000)

                tasks.start_soon(send)
                tasks.start_soon(send)
                await anyio.wait_all_tasks_blocked()
                guest.kill()
        await guest.aclose()

    async def test_the_death_of_a_guest_is_seen_by_whoever_sends(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        await guest.send(request("import os\nos._exit(0)"))
        with anyio.fail_after(SECONDS), pytest.raises(SandboxCrashed):  # noqa: PT012
            while True:
                await guest.send(b"x" * 100_000)
        await guest.aclose()

    async def test_a_guest_that_hears_no_more_and_lives_is_seen_by_whoever_sends(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        await guest.send(request(DEAF))
        with anyio.fail_after(SECONDS), pytest.raises(SandboxCrashed):  # noqa: PT012
            while True:
                await guest.send(b"x" * 100_000)
        with anyio.fail_after(SECONDS):
            assert await guest.receive() == ("output", b"deaf")
        assert (await guest.aclose()).status == -SIGKILL, "it was there until it was killed"

    async def test_the_death_of_a_guest_is_seen_by_whoever_sends_while_another_receives(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        await guest.send(request("import os, time\nos.write(2, b'here')\ntime.sleep(0.2)\nos._exit(0)"))

        async def send() -> None:
            with pytest.raises(SandboxCrashed):  # noqa: PT012
                while True:
                    await guest.send(b"x" * 100_000)

        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(send)
                assert await guest.receive() == ("output", b"here")
                assert await guest.receive() == ("wire", b"")
        assert (await guest.aclose()).status == 0

    async def test_a_cancelled_receive_loses_nothing(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        with anyio.move_on_after(0.01):
            await guest.receive()
        assert (await ask(guest, "7")).value == 7
        await guest.aclose()

    async def test_a_guest_that_says_much_waits_for_the_host(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        await guest.send(request("for i in range(200):\n    print('x' * 100_000)\n'done'"))
        await anyio.lowlevel.checkpoint()  # nothing is read yet
        heard = await hear(guest)
        assert heard.value == "done"
        assert sum(len(each["params"]["text"]) for each in heard.messages if "method" in each) == 200 * 100_001
        await guest.aclose()

    async def test_a_host_that_says_much_waits_for_the_guest(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        heard = await ask(guest, f"# {'x' * 5_000_000}\n8")
        assert heard.value == 8
        await guest.aclose()

    async def test_both_say_much_at_once(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        code = "import asyncio\nr = await asyncio.gather(*(echo('x' * 100_000) for _ in range(50)))\nsum(map(len, r))"
        heard = await ask(guest, code)
        assert heard.value == 5_000_000
        await guest.aclose()

    @pytest.mark.parametrize("fd", [1, 2])
    async def test_what_is_written_behind_pythons_back_is_output(self, backend: Backend, fd: int) -> None:
        guest = await backend.open(self.allowance)
        heard = await ask(guest, f"import os\nfor i in range(1000):\n    os.write({fd}, b'stray %d\\n' % i)\n1")
        assert heard.value == 1
        assert heard.output == "".join(f"stray {i}\n" for i in range(1000)), "all that was written before the reply"
        await guest.aclose()

    async def test_output_after_which_it_dies_is_not_lost(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        await guest.send(request("import os\nos.write(2, b'last words')\nos._exit(1)"))
        heard = await hear(guest)
        assert heard.output + guest.unread_output().decode() == "last words"
        await guest.aclose()

    async def test_usage_tells_what_was_spent_so_far(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        before = guest.usage()
        await ask(guest, "x = bytearray(50_000_000)\nfor i in range(2_000_000): pass")
        after = guest.usage()
        assert before is not None
        assert after is not None
        assert after.cpu_seconds > before.cpu_seconds
        assert after.peak_memory_bytes > before.peak_memory_bytes + 40_000_000
        ended = await guest.aclose()
        assert ended.usage is not None
        assert ended.usage.peak_memory_bytes >= after.peak_memory_bytes * 0.9

    async def test_memory_is_bounded(self, backend: Backend) -> None:
        guest = await backend.open(self.allowance)
        heard = await ask(guest, "try:\n    bytearray(400_000_000)\nexcept MemoryError:\n    r = 'no'\nr")
        assert heard.value == "no"
        await guest.aclose()

    async def test_processor_time_is_bounded(self, backend: Backend) -> None:
        guest = await backend.open(type(self.allowance)(1, 256 << 20, 16, 1 << 20))
        await guest.send(request("while True: pass"))
        assert (await hear(guest)).reply is None
        assert (await guest.aclose()).status == -SIGXCPU

    async def test_many_guests_at_once_and_nothing_left(self, backend: Backend) -> None:
        before: set[str] = set()
        places: list[Hashable] = []

        async def one(number: int) -> None:
            guest = await backend.open(self.allowance)
            places.append(self.place_of(guest))
            assert (await ask(guest, f"await echo({number})")).value == number
            await guest.aclose()

        for start in range(0, 24, 8):
            async with anyio.create_task_group() as tasks:
                for number in range(start, start + 8):
                    tasks.start_soon(one, number)
            before = before or open_files()  # with what a backend keeps for the next, after the first eight
        assert len(open_files()) <= len(before) + self.kept_open
        if not self.reuses_places:
            assert len(set(places)) == 24
            for place in places:
                await self.gone(place)

    async def test_opening_may_be_cancelled(self, backend: Backend) -> None:
        await (await backend.open(self.allowance)).aclose()
        before = len(open_files())
        for _ in range(self.kept_open + 10):
            with anyio.CancelScope() as scope:
                scope.cancel()
                guest = await backend.open(self.allowance)
                with anyio.CancelScope(shield=True):
                    await guest.aclose()
        await until(lambda: len(open_files()) <= before + self.kept_open)
        guest = await backend.open(self.allowance)
        assert (await ask(guest, "1")).value == 1
        await guest.aclose()

    async def test_guests_that_nobody_closes_are_gone_with_the_backend(self, opening: Opening) -> None:
        before = len(open_files())
        async with opening() as backend:
            guests = [await backend.open(self.allowance) for _ in range(3)]
            await guests[0].send(request("while True: pass"))
            places = [self.place_of(guest) for guest in guests]
        for place in places:
            await self.gone(place)
        for guest in guests:
            assert await guest.receive() == ("wire", b"")
            await guest.aclose()
        assert len(open_files()) <= before
