"""The store of artifacts: names, types, handles, owners, bounds, and what is written to disk."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

import pytest

from callgate import Artifact, Artifacts
from callgate.media import believed_type, clean_name, is_text, media_type_of

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


def text(data: bytes = b"x", name: str = "") -> Artifact:
    return Artifact.from_bytes(data, name)


def test_a_handle_finds_its_artifact_on_its_own_shelf_alone() -> None:
    store = Artifacts()
    mine, other = store.shelf(), store.shelf()
    kept = mine.add(text())
    assert mine.get(kept.handle) is mine.get(kept.to_json()) is kept
    assert other.get(kept.handle) is None
    assert store.get(kept.handle) is kept
    for guessed in ("", "art_", "art_" + "0" * 32, kept.handle[:-1], kept.handle.upper()):
        assert mine.get(guessed) is None


def test_handles_cannot_be_guessed_and_say_nothing() -> None:
    shelf = Artifacts().shelf()
    handles = {shelf.add(text()).handle for _ in range(100)}
    assert len(handles) == 100
    assert {len(handle) for handle in handles} == {36}


def test_the_oldest_make_room_whoever_owns_them() -> None:
    store = Artifacts(max_bytes=10_000)
    one, other = store.shelf(), store.shelf()
    first, second = one.add(text(b"x" * 4000)), other.add(text(b"x" * 4000))
    third = other.add(text(b"x" * 4000))
    assert [store.get(each.handle) is not None for each in (first, second, third)] == [False, True, True]
    assert len(one) == 0
    assert store.kept_bytes == sum(each.weight for each in other) <= 10_000


def test_what_is_larger_than_the_store_is_not_kept_and_ends_no_other() -> None:
    store = Artifacts(max_bytes=10_000)
    shelf = store.shelf()
    kept = shelf.add(text())
    lost = shelf.add(text(b"x" * 10_001))
    assert shelf.get(lost.handle) is None
    assert shelf.get(kept.handle) is kept
    assert lost.read() == b"x" * 10_001


def test_names_and_addresses_count_with_the_bytes() -> None:
    shelf = (store := Artifacts(max_bytes=10_000)).shelf()
    for number in range(5):
        shelf.add(Artifact.sent(b"x" * 1000, "", "s", f"note://{number}/" + "\U0001f600" * 490))
    assert 0 < len(shelf) < 5
    assert store.kept_bytes <= 10_000


def test_there_are_ten_thousand_at_most() -> None:
    shelf = (store := Artifacts()).shelf()
    kept = [shelf.add(text(b"")) for _ in range(10_010)]
    assert len(store) == len(shelf) == 10_000
    assert [shelf.get(each.handle) is not None for each in kept[:11]] == [False] * 10 + [True]


def test_artifacts_go_with_their_shelf_and_results_keep_their_bytes() -> None:
    store = Artifacts()
    shelf = store.shelf()
    kept = shelf.add(text(b"abc"))
    del shelf
    gc.collect()
    assert (len(store), store.kept_bytes) == (0, 0)
    assert kept.read() == b"abc"


def test_a_cleared_shelf_has_nothing_and_leaves_the_others() -> None:
    store = Artifacts()
    one, other = store.shelf(), store.shelf()
    one.add(text())
    kept = other.add(text())
    one.clear()
    assert (list(one), list(other), list(store)) == ([], [kept], [kept])
    store.clear()
    assert (len(other), store.kept_bytes) == (0, 0)


def test_one_thread_lists_artifacts_while_another_adds_some() -> None:
    """As with a `SyncRuntime`, whose event loop is another thread."""
    shelf, over, artifact = (store := Artifacts()).shelf(), threading.Event(), text()
    for _ in range(3000):
        shelf.add(text())

    def add() -> None:
        while not over.is_set():
            shelf.add(artifact)

    adding = threading.Thread(target=add)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    adding.start()
    try:
        assert all(len(list(store)) >= 3000 for _ in range(100))
    finally:
        sys.setswitchinterval(before)
        over.set()
        adding.join()


NAMES = [
    ("../../etc/passwd", "etc/passwd"),
    ("/etc/passwd", "etc/passwd"),
    ("a/./b/../c", "a/b/c"),
    ("a\0b\nc", "a_b_c"),
    ("a\udcffb", "a_b"),
    ("\u202egnp.exe", "_gnp.exe"),
    ("..", ""),
    ("con\\x:y", "con_x_y"),
    ("x" * 300 + ".csv", "x" * 116 + ".csv"),
]


@pytest.mark.parametrize(("name", "clean"), NAMES)
def test_a_name_is_safe_whatever_a_program_wrote(name: str, clean: str) -> None:
    assert clean_name(name) == clean
    assert Artifact.from_bytes(b"x", name).name == (clean or "artifact.txt")


TYPES = [
    (PNG, "image/png", "image/png"),
    (PNG, "", "image/png"),
    (PNG, "text/html", "image/png"),
    (b"<html><script>", "image/png", "text/html"),
    (b"<html><script>", "text/plain", "text/html"),
    (b"<svg onload=x>", "image/png", "image/svg+xml"),
    (b"\x00\x01", "image/png", "application/octet-stream"),
    (b"\x00\x01", "text/plain", "application/octet-stream"),
    (b"\x00\x01", "audio/wav", "audio/wav"),
    (b"a,b", "text/csv", "text/csv"),
    (b"PK\x03\x04", "application/epub+zip", "application/epub+zip"),
    (b"PK\x03\x04", "image/png", "application/zip"),
]


@pytest.mark.parametrize(("data", "claim", "believed"), TYPES)
def test_a_claim_that_the_content_refutes_does_not_count(data: bytes, claim: str, believed: str) -> None:
    assert believed_type(claim, "", data) == believed


def test_a_claimed_type_is_one_bounded_line() -> None:
    kind = Artifact.from_bytes(b"\0", media_type="audio/x\r\nSet-Cookie: a" + "x" * 1_000_000).media_type
    assert len(kind) == 255
    assert kind.startswith("audio/x set-cookie")


def test_a_name_decides_between_types_of_text_alone() -> None:
    assert [media_type_of(name, b"a,b") for name in ("a.csv", "a.json", "a.png", "a", "a.exe")] == [
        "text/csv", "application/json", "text/plain", "text/plain", "text/plain",
    ]  # fmt: skip
    assert media_type_of("a.csv", PNG) == "image/png"
    assert [is_text("a", data) for data in (b"a,b", b"{}", b"\0", PNG, "é".encode() * 3000)] == [
        True, True, False, False, True,
    ]  # fmt: skip


def test_saving_overwrites_nothing_and_stays_in_the_folder(tmp_path: Path) -> None:
    folder, outside = tmp_path / "out", tmp_path / "outside"
    outside.mkdir()
    first = text(b"1", "a/b.csv").save(folder)
    second = text(b"2", "a/b.csv").save(folder)
    assert [path.relative_to(folder).as_posix() for path in (first, second)] == ["a/b.csv", "a/b-2.csv"]
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"2")
    (folder / "link").symlink_to(outside)
    (folder / "c.csv").symlink_to(outside / "c.csv")
    with pytest.raises(OSError, match="link"):
        text(b"3", "link/d.csv").save(folder)
    assert text(b"3", "c.csv").save(folder).name == "c-2.csv"
    assert list(outside.iterdir()) == []
    escaping = Artifact(name="../../x", media_type="text/plain", data=b"4").save(folder)
    assert escaping == folder / "x"


def test_saving_makes_no_hidden_file_that_a_program_such_as_git_would_obey(tmp_path: Path) -> None:
    assert text(b"1", ".git/hooks/..evil").save(tmp_path) == tmp_path / "git/hooks/evil"
    assert text(b"1", ".envrc").save(tmp_path) == tmp_path / "envrc"
