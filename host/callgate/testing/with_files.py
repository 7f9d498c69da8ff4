"""What a backend promises whose guests have files: `Backend.open_with` and `Guest.collect`.

Skipped, with its reason, where the backend says with ``no_files`` that it has none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate.errors import CallgateError
from callgate.sandbox.backend import Backend, Collected, Guest

from .asking import SECONDS, ask, open_files
from .opening import OpensBackend

__all__ = ["HasFiles"]

_MOST, _MOST_BYTES = 32, 1 << 20


class HasFiles(OpensBackend):
    """Files come in, for one guest, and stay as they are; what is left in /output comes out, and nothing else."""

    @pytest.fixture
    def files(self, backend: Backend) -> Any:
        """Opens a guest with files."""
        reason = getattr(backend, "no_files", f"{backend.name} has no attribute no_files")
        if reason:
            pytest.skip(reason)
        return getattr(backend, "open_with")  # noqa: B009 (an optional verb)

    async def test_a_guest_finds_its_files_and_no_other_guest_does(self, files: Any, tmp_path: Path) -> None:
        given = tmp_path / "given.csv"
        given.write_text("a,b\n1,2\n")
        with anyio.fail_after(SECONDS):
            one = await files(self.allowance, {"given.csv": given, "more/raw.bin": bytes(range(256))})
            other = await files(self.allowance, {"mine.txt": b"mine"})
        code = "import os\n[open('given.csv').read(), open('/input/given.csv').read(), os.listdir('/input/more'), "
        code += "list(open('more/raw.bin', 'rb').read())]"
        assert (await ask(one, code)).value == ["a,b\n1,2\n"] * 2 + [["raw.bin"], list(range(256))]
        assert (await ask(other, "import os\n[os.listdir('/input'), os.listdir()]")).value == [["mine.txt"]] * 2
        await one.aclose()
        await other.aclose()

    async def test_a_guest_without_files_has_none(self, files: Any, backend: Backend) -> None:
        guest = await files(self.allowance, {"mine.txt": b"mine"})
        await guest.aclose()
        code = "import os\n[os.path.exists('/input/mine.txt'), os.listdir()]"
        plain = await backend.open(self.allowance)
        assert (await ask(plain, code)).value == [False, []]
        await plain.aclose()

    async def test_files_cannot_be_changed(self, files: Any, tmp_path: Path) -> None:
        given = tmp_path / "given.txt"
        given.write_text("as it was")
        guest = await files(self.allowance, {"given.txt": given})
        code = """
import os
done = []
for name, change in {
    "write": lambda: open("/input/given.txt", "w"), "make": lambda: open("/input/new.txt", "w"),
    "truncate": lambda: os.truncate("given.txt", 0), "remove": lambda: os.remove("/input/given.txt"),
    "rename": lambda: os.rename("/input/given.txt", "/input/other.txt"),
    "link": lambda: os.link("/input/given.txt", "/output/link.txt"),
}.items():
    try:
        change()
        done.append(name)
    except OSError:
        pass
[done, open("given.txt").read()]
"""
        assert (await ask(guest, code)).value == [[], "as it was"]
        await guest.aclose()
        assert given.read_text() == "as it was"

    async def test_what_a_program_leaves_is_collected_after_its_death(self, files: Any) -> None:
        guest = await files(self.allowance, {"in.txt": b"in"})
        code = """
import os
os.makedirs("a/b")
for name, data in {"out.txt": b"out", "a/b/deep.bin": bytes(100_000), ".hidden": b"h", "/tmp/elsewhere": b"e"}.items():
    with open(name, "wb") as file:
        file.write(data)
os.symlink("/etc/passwd", "link")
"""
        assert (await ask(guest, code)).value is None
        guest.kill()
        found = await collected(guest)
        assert dict(found.files) == {"out.txt": b"out", "a/b/deep.bin": bytes(100_000)}
        assert any("link" in line for line in found.left), "what is left out is told"
        await guest.aclose()

    async def test_a_guest_that_died_by_itself_leaves_its_files(self, files: Any) -> None:
        guest = await files(self.allowance, {"in.txt": b"in"})
        code = "import os\nwith open('out.txt', 'w') as file:\n    file.write('out')\nos._exit(3)"
        assert (await ask(guest, code)).reply is None
        guest.kill()
        assert (await collected(guest)).files == (("out.txt", b"out"),)
        await guest.aclose()

    async def test_a_guest_that_lives_hands_over_what_is_new_or_has_changed(self, files: Any) -> None:
        guest = await files(self.allowance, {"in.txt": b"in"})
        write = "for name in {!r}:\n    with open(name, 'w') as file:\n        file.write({!r})"
        await ask(guest, write.format(["a", "b"], "first"), 1)
        assert dict((await collected(guest)).files) == {"a": b"first", "b": b"first"}
        assert (await collected(guest)).files == ()
        await ask(guest, write.format(["b"], "and then"), 2)
        assert dict((await collected(guest)).files) == {"b": b"and then"}
        assert (await ask(guest, "1 + 1", 3)).value == 2, "it goes on"
        await guest.aclose()

    async def test_files_and_bytes_are_bounded(self, files: Any) -> None:
        guest = await files(self.allowance, {"in.txt": b"in"})
        code = "for i in range(9):\n    with open(f'{i}.bin', 'wb') as file:\n        file.write(bytes(1000))"
        await ask(guest, code)
        guest.kill()
        found = await collected(guest, most=5, most_bytes=3500)
        assert len(found.files) == 3
        assert found.left
        await guest.aclose()

    async def test_a_file_that_cannot_be_had_is_told_before_a_guest_is_there(self, files: Any, tmp_path: Path) -> None:
        for path in (tmp_path / "nowhere", tmp_path):
            with pytest.raises(CallgateError):
                await files(self.allowance, {"x": path})

    async def test_nothing_of_files_stays_open(self, files: Any) -> None:
        before: set[str] = set()
        for _ in range(3):
            guest = await files(self.allowance, {"in.txt": b"in"})
            await ask(guest, "with open('out.txt', 'w') as file:\n    file.write('out')")
            guest.kill()
            assert (await collected(guest)).files == (("out.txt", b"out"),)
            await guest.aclose()
            before = before or open_files()
        assert len(open_files()) <= len(before) + self.kept_open


async def collected(guest: Guest, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> Collected:
    """What is in /output, in time."""
    with anyio.fail_after(SECONDS):
        found: Collected = await getattr(guest, "collect")(most, most_bytes)  # noqa: B009 (an optional verb)
        return found
