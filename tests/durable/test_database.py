"""Which file a store takes, with which modes, and what it says of others."""

from __future__ import annotations

import logging
import os
import pwd
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from callgate.durable.sqlite import SqliteStore
from callgate.errors import ConfigurationError, StoreFailed
from durable.stored import ended, event, run, started

pytestmark = pytest.mark.anyio

KEY = bytes(range(32))


async def refusal(path: Path, key: bytes | None = None) -> str:
    """What a store says of a file that it does not take."""
    before = content(path)
    with pytest.raises(StoreFailed) as told:
        async with SqliteStore(path, encryption_key=key).opened():
            raise AssertionError("opened")
    assert content(path) == before
    return str(told.value).replace(str(path), "FILE")


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def modes(directory: Path) -> set[tuple[str, int]]:
    return {(each.name, stat.S_IMODE(each.stat().st_mode)) for each in directory.iterdir()}


async def test_the_file_and_those_beside_it_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with SqliteStore(tmp_path / "runs.db").opened():
            assert modes(tmp_path) == {("runs.db", 0o600), ("runs.db-wal", 0o600), ("runs.db-shm", 0o600)}
    finally:
        os.umask(before)
    assert modes(tmp_path) == {("runs.db", 0o600)}


async def test_a_file_of_ours_that_others_may_read_is_mended_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "runs.db"
    async with SqliteStore(path).opened():
        pass
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING, "callgate"):
        async with SqliteStore(path).opened():
            assert modes(tmp_path) == {("runs.db", 0o600), ("runs.db-wal", 0o600), ("runs.db-shm", 0o600)}
    assert caplog.messages == [f"{path} could be read by others; its mode is 0600 now"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
async def test_a_file_of_another_user_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.touch(0o644)
    os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)
    said = await refusal(path)
    assert said == "FILE can be read by others, and belongs to another user, who must run chmod 600 FILE"


async def test_a_file_that_is_no_database_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Buy milk. " * 500)
    path.chmod(0o644)
    assert "FILE cannot be used: it is not an SQLite database: name another file" in await refusal(path)
    assert modes(tmp_path) == {("notes.txt", 0o644)}, "the mode of a file that is not ours has changed"


async def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA auto_vacuum = FULL")
    other.execute("CREATE TABLE runs (id)")
    other.close()
    path.chmod(0o600)
    assert await refusal(path) == "FILE is another program's database: name another file for the store of runs"


async def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with SqliteStore(path).opened():
        pass
    newer = sqlite3.connect(path, isolation_level=None)
    newer.execute("PRAGMA user_version = 2")
    newer.close()
    assert "FILE has tables of version 2, and this callgate knows version 1" in await refusal(path)


async def test_a_directory_is_no_file_and_a_missing_directory_is_told(tmp_path: Path) -> None:
    assert "FILE is not a file" in await refusal(tmp_path)
    assert "FILE cannot be used: No such file or directory" in await refusal(tmp_path / "missing" / "runs.db")


async def test_a_damaged_file_is_told_and_hangs_nobody(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with SqliteStore(path).opened():
        pass
    store = SqliteStore(path)
    async with store.opened():
        for _ in range(50):
            await ended(store)
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    with pytest.raises(StoreFailed, match="it is damaged: restore a copy"):
        await use(store)


async def use(store: SqliteStore) -> None:
    async with store.opened():
        await store.list()
        await started(store)


def test_a_directory_that_cannot_be_written_is_told() -> None:
    program = (
        "import anyio, os, sys\n"
        "from callgate.durable.sqlite import SqliteStore\n"
        "from callgate.errors import StoreFailed\n"
        "async def main():\n"
        "    if os.geteuid() == 0: os.seteuid(int(sys.argv[2]))\n"  # root may write everywhere
        "    try:\n"
        "        async with SqliteStore(sys.argv[1]).opened(): print('opened')\n"
        "    except StoreFailed as error: print(error)\n"
        "anyio.run(main)"
    )
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o555)
        path = directory / "runs.db"
        command = [sys.executable, "-c", program, str(path), str(pwd.getpwnam("nobody").pw_uid)]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert said.stdout == f"the store of runs {path} cannot be used: Permission denied\n", said.stderr
        directory.chmod(0o755)


async def test_an_encrypted_file_opens_with_its_key_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = SqliteStore(path, encryption_key=KEY)
    async with store.opened():
        name = await ended(store)
    assert await refusal(path) == "FILE is encrypted: give its encryption_key"
    assert await refusal(path, bytes(32)) == "FILE is encrypted with another encryption_key than the given one"
    async with store.opened():
        assert (await store.find(name)).result == '"fine"'


async def test_a_file_that_is_not_encrypted_takes_no_key(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "runs.db").opened():
        pass
    assert "FILE is not encrypted: leave encryption_key out" in await refusal(tmp_path / "runs.db", KEY)


@pytest.mark.parametrize("key", ["correct horse battery staple", b"short", bytes(33), 7])
def test_a_passphrase_is_no_key(tmp_path: Path, key: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"32 random bytes, not a passphrase: .*secrets.token_bytes\(32\)"):
        SqliteStore(tmp_path / "runs.db", encryption_key=key)
    assert not (tmp_path / "runs.db").exists()


async def test_a_store_that_is_closed_or_open_already_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    async with store.opened():
        held = await started(store)
        with pytest.raises(StoreFailed, match="open already: make a second SqliteStore"):
            async with store.opened():
                pass
        await store.write(held, event(1))  # which did not close it
    with pytest.raises(StoreFailed, match="is closed"):
        await store.write(held, event(2))
    with pytest.raises(StoreFailed, match="is closed"):
        await store.find(held.run)


async def test_leaving_waits_for_what_nobody_awaited(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    async with store.opened():
        held = await started(store, "a")
        for n in range(1, 2001):
            store.write(held, event(n))
    async with store.opened():
        assert len((await store.load("a")).events) == 2000


async def test_opening_and_leaving_can_be_cancelled_and_nothing_is_left(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with store.opened():
            pass
    with anyio.CancelScope() as scope:
        async with store.opened():
            held = await started(store, "a")
            store.write(held, event(1))
            scope.cancel()
            await anyio.sleep_forever()
    async with store.opened():
        assert len((await store.load("a")).events) == 1


async def test_a_locked_file_is_told_after_a_bounded_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgate.durable.database.LOCK_SECONDS", 0.05)
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    async with store.opened():
        held = await started(store, "a")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailed, match="another process has locked it for more than"):
            await store.write(held, event(1))
        assert (await store.find("a")).status == "running"  # reads go on
        other.close()
        with pytest.raises(StoreFailed, match="an earlier change of this run was not stored"):
            await store.write(held, event(2))
        await store.add(run("b"))


async def test_a_pruned_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    async with store.opened():
        for n in range(20):
            await ended(store, options="x" * 100_000, key=str(n))
    large = path.stat().st_size
    async with store.opened():
        assert await store.prune(ended_before=4e9) == 20
    assert large > 2_000_000
    assert path.stat().st_size < large // 10
