"""What a guest has left in /output: a folder here, with what a hostile program could make and what it could not."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from callgate.sandbox.backend import Collected
from callgate.sandbox.collecting import Seen, collected

MEBIBYTE = 1 << 20


class Left:
    """A folder and what was collected of it so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: Seen = {}

    def collect(self, *, inputs: frozenset[str] = frozenset(), most: int = 32, most_bytes: int = MEBIBYTE) -> Collected:
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        before = set(os.listdir("/proc/self/fd"))
        try:
            return collected(fd, self.seen, inputs, most, most_bytes)
        finally:
            assert set(os.listdir("/proc/self/fd")) == before or threading.active_count() > 1
            os.close(fd)


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Left]:
    (tmp_path / "secret").write_text("canary")
    (tmp_path / "output").mkdir()
    yield Left(tmp_path / "output")
    for where, folders, _ in os.walk(tmp_path):  # pytest removes it
        for each in folders:
            os.chmod(os.path.join(where, each), 0o700)


def test_files_come_sorted_with_those_in_folders(left: Left) -> None:
    (left.path / "b.csv").write_text("b")
    (left.path / "a" / "deep").mkdir(parents=True)
    (left.path / "a" / "deep" / "x.txt").write_text("x")
    (left.path / "empty").write_text("")
    assert left.collect() == Collected((("a/deep/x.txt", b"x"), ("b.csv", b"b"), ("empty", b"")))


def test_hidden_names_are_passed_over(left: Left) -> None:
    (left.path / ".cache").mkdir()
    (left.path / ".cache" / "x").write_text("x")
    (left.path / ".hidden").write_text("x")
    assert left.collect() == Collected()


def test_what_has_not_changed_is_not_collected_again(left: Left) -> None:
    (left.path / "a").write_text("1")
    (left.path / "b").write_text("1")
    assert len(left.collect().files) == 2
    assert left.collect() == Collected()
    (left.path / "b").write_text("2")
    (left.path / "c").write_text("3")
    assert left.collect().files == (("b", b"2"), ("c", b"3"))
    os.replace(left.path / "c", left.path / "a")
    assert left.collect().files == (("a", b"3"),)


def test_no_link_is_followed_and_those_to_inputs_are_passed_over(left: Left) -> None:
    (left.path / "sales.csv").symlink_to("/input/sales.csv")
    (left.path / "file").symlink_to("../secret")
    (left.path / "folder").symlink_to("..")
    (left.path / "absolute").symlink_to(left.path.parent / "secret")
    (left.path / "magic").symlink_to("/proc/self/environ")
    assert left.collect(inputs=frozenset({"sales.csv"})) == Collected(
        left=("absolute and 3 more were not kept: symbolic links are not collected",)
    )


def test_a_name_that_becomes_a_link_between_two_looks_leads_nowhere(left: Left) -> None:
    """A guest that is still at it swaps a file and a folder for links to the host's, as fast as it can."""
    stop = threading.Event()

    def swap() -> None:
        link, spare = left.path / ".link", left.path / ".spare"
        while not stop.is_set():
            for name, target in (("file", "../secret"), ("folder", "..")):
                link.symlink_to(target)
                os.rename(link, spare)
                if (left.path / name).is_dir() and not (left.path / name).is_symlink():
                    os.rename(left.path / name, link)
                    os.rename(spare, left.path / name)
                    os.remove(left.path / name)
                    os.rename(link, left.path / name)
                else:
                    os.rename(spare, left.path / name)
                    (left.path / ".new").write_text("mine")
                    os.rename(left.path / ".new", left.path / name)

    (left.path / "file").write_text("mine")
    (left.path / "folder").mkdir()
    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(300):
            left.seen.clear()
            assert all(b"canary" not in data for _, data in left.collect().files)
    finally:
        stop.set()
        swapping.join()


def test_fifos_sockets_and_devices_never_block_and_are_told(left: Left) -> None:
    os.mkfifo(left.path / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.open(left.path, os.O_PATH)
        bound.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    told = ["fifo was not kept: FIFOs are not collected", "socket was not kept: sockets are not collected"]
    if os.geteuid() == 0:
        os.mknod(left.path / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        told.append("zero was not kept: devices are not collected")
    assert left.collect() == Collected(left=tuple(told))


def test_what_nobody_may_read_is_told_also_by_root(left: Left) -> None:
    (left.path / "closed").write_text("x")
    (left.path / "closed").chmod(0)
    (left.path / "closed-folder").mkdir(mode=0)
    assert left.collect() == Collected(left=("closed and 1 more were not kept: its mode lets nobody read it",))


def test_limits_are_told_and_the_rest_is_kept(left: Left) -> None:
    for number in range(40):
        (left.path / f"{number:02}").write_text("x")
    got = left.collect()
    assert [name for name, _ in got.files] == [f"{number:02}" for number in range(32)]
    assert got.left == ("32 and 7 more were not kept: the run has as many artifacts as it may have (max_artifacts)",)
    assert left.collect(most=0).files == ()


def test_a_file_that_does_not_fit_leaves_room_for_others(left: Left) -> None:
    (left.path / "a").write_bytes(bytes(600_000))
    (left.path / "b").write_bytes(bytes(600_000))
    (left.path / "c").write_bytes(bytes(400_000))
    got = left.collect()
    assert [name for name, _ in got.files] == ["a", "c"]
    assert got.left == ("b of 600,000 bytes was not kept: the artifacts of the run leave no room (max_artifact_bytes)",)


def test_a_sparse_file_counts_as_long_as_it_says(left: Left) -> None:
    with open(left.path / "sparse", "wb") as file:
        file.truncate(1 << 42)
    got = left.collect()
    assert got.files == ()
    assert got.left[0].startswith("sparse of 4,398,046,511,104 bytes was not kept")


def test_hard_links_count_each(left: Left) -> None:
    (left.path / "0").write_bytes(bytes(300_000))
    for number in range(1, 50):
        os.link(left.path / "0", left.path / f"{number}")
    got = left.collect()
    assert sum(len(data) for _, data in got.files) == 900_000
    assert "46 more were not kept" in got.left[0]


def test_a_hundred_thousand_files_are_bounded_and_told(left: Left) -> None:
    first = left.path / "00000"
    first.write_text("x")
    for number in range(1, 20_000):
        os.link(first, left.path / f"{number:05}")
    got = left.collect()
    assert len(got.files) == 32
    assert [line.partition(" ")[2] for line in got.left] == [
        "and 4,967 more were not kept: the run has as many artifacts as it may have (max_artifacts)",
        "was not kept: only 5,000 files are looked at",
    ]


def test_a_deep_tree_is_bounded_and_told(left: Left) -> None:
    fd = os.open(left.path, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("f", os.O_CREAT, dir_fd=fd))
    os.close(fd)
    got = left.collect()
    assert got.files == ()
    assert got.left == (f"{'d/' * 15}d was not kept: folders are looked into 16 deep",)


def test_names_of_any_bytes_are_found_and_told_in_one_printable_line(left: Left) -> None:
    odd = [b"new\nline", b"sur\xff", b"esc\x1b[2J", "richtung\u202e".encode(), b"n" * 250]
    for name in odd:
        (left.path / os.fsdecode(name)).write_text("x")
    assert {name for name, _ in left.collect().files} == {os.fsdecode(name) for name in odd}
    for name in odd:
        (left.path / os.fsdecode(name)).unlink()
        (left.path / os.fsdecode(name)).symlink_to("x")
        line = left.collect().left[0]
        assert line.isprintable()
        assert len(line) < 160
        (left.path / os.fsdecode(name)).unlink()


def test_a_file_that_grows_while_it_is_read_is_read_as_far_as_it_said(left: Left) -> None:
    (left.path / "grows").write_bytes(bytes(1000))
    stop = threading.Event()

    def grow() -> None:
        with open(left.path / "grows", "ab", buffering=0) as file:
            while not stop.is_set() and file.tell() < 200 * MEBIBYTE:
                file.write(bytes(10_000))
                if file.tell() > 100 * MEBIBYTE:
                    file.truncate(10)

    growing = threading.Thread(target=grow)
    growing.start()
    try:
        for _ in range(50):
            left.seen.clear()
            assert sum(len(data) for _, data in left.collect().files) <= MEBIBYTE
    finally:
        stop.set()
        growing.join()
