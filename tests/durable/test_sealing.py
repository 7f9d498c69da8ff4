"""Values in an encrypted file: what cannot be read, and what is found when somebody has moved a value."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from callgate.durable.sealing import call_digest, sealing_of
from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import StateChange
from callgate.errors import StoreFailed
from durable.stored import approval, call, event, granted, key, started

pytestmark = pytest.mark.anyio

KEY = bytes(range(32))
SECRET = "Zürich4711"


async def stored(path: Path, encryption_key: bytes | None) -> None:
    """A run with the secret at every place where a person's data may be."""
    store = SqliteStore(path, encryption_key=encryption_key)
    async with store.opened():
        held = await started(store, "a", text=SECRET, options=SECRET, environment=SECRET, seed=SECRET.encode())
        texts: dict[str, Any] = {"arguments": SECRET, "outcome": SECRET, "record": SECRET}
        await store.write(held, call(1, **texts), call(2, **texts), event(1, 1), approval("a", arguments=SECRET))
        await store.decide("a", key(1), granted(by=SECRET, arguments=SECRET, reason=SECRET))
        await store.write(held, StateChange("failed", reason=SECRET, result=SECRET))


async def test_nothing_of_a_person_is_readable_in_an_encrypted_file(tmp_path: Path) -> None:
    await stored(tmp_path / "plain.db", None)
    await stored(tmp_path / "sealed.db", KEY)
    assert SECRET.encode() in (tmp_path / "plain.db").read_bytes()
    assert SECRET.encode() not in (tmp_path / "sealed.db").read_bytes()


SWAPS = [
    "UPDATE calls SET outcome = arguments",
    "UPDATE calls SET arguments = (SELECT arguments FROM calls AS other WHERE other.id <> calls.id)",
    "UPDATE programs SET text = options",
    "UPDATE runs SET result = reason",
    "UPDATE runs SET result = X'00'",
    "UPDATE approvals SET decided_arguments = arguments",
    "UPDATE approvals SET decided_by = decided_reason",
    "UPDATE programs SET text = substr(text, 1, 20)",
    "UPDATE runs SET id = 'b'; UPDATE programs SET run = 'b'",
]


@pytest.mark.parametrize("swap", SWAPS)
async def test_a_value_at_another_place_does_not_open(tmp_path: Path, swap: str) -> None:
    await stored(tmp_path / "runs.db", KEY)
    connection = sqlite3.connect(tmp_path / "runs.db")
    connection.executescript(swap)
    connection.close()
    store = SqliteStore(tmp_path / "runs.db", encryption_key=KEY)
    async with store.opened():
        with pytest.raises(StoreFailed, match="cannot be decrypted: the file was changed by another program"):
            await store.load("b" if "'b'" in swap else "a")


def test_the_same_value_never_looks_the_same() -> None:
    sealing = sealing_of(KEY)
    assert sealing.seal(b"yes", "a", "x") != sealing.seal(b"yes", "a", "x")


def digests(key: bytes) -> Sequence[bytes]:
    return [
        call_digest("pay", '{"n": 1}', "", key),
        call_digest("pay", '{"n": 2}', "", key),
        call_digest("payn", '{"n": 1}', "", key),
        call_digest("pay", '{"n": 1}', "step", key),
        call_digest("paystep", '{"n": 1}', "", key),
        call_digest("pay", '"\ud800"', "", key),
    ]


def test_a_digest_depends_on_every_part_and_on_the_key() -> None:
    keys = [b"", sealing_of(KEY).digest_key, sealing_of(bytes(32)).digest_key]
    every = [digest for each in keys for digest in digests(each)]
    assert len(set(every)) == len(every)
    assert {len(digest) for digest in every} == {32}
    assert digests(keys[1]) == digests(sealing_of(KEY).digest_key)


def test_the_digest_of_a_call_is_the_same_in_every_version() -> None:
    expected = "eb90a94d53e15e57bf483808430a4de8b9c0449c5904c1952708c33b6e906dca"
    assert call_digest("pay", '{"n": 1}').hex() == expected
