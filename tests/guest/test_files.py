"""What the supervisor of a container does with files, in a folder of this machine: no engine is needed."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from callgate_guest import files, frames
from callgate_guest.files import Given, Output


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`INPUT` and the place of `OUTPUT`, below a folder of the test."""
    (tmp_path / "input").mkdir()
    monkeypatch.setattr(files, "INPUT", str(tmp_path / "input"))
    monkeypatch.setattr(files, "_PLACE", str(tmp_path / "output"))
    return tmp_path


def left(output: Output, most: int = 32, most_bytes: int = 1 << 20) -> tuple[dict[str, bytes], list[str]]:
    """The files, and why others were left."""
    found: dict[str, bytes] = {}
    name = ""
    for kind, payload in output.left(most, most_bytes):
        if kind == frames.FILE:
            name = json.loads(payload)["name"]
            assert name not in found
            found[name] = b""
        elif kind == frames.PART:
            found[name] += payload
        else:
            assert kind == frames.COLLECTED
            return found, json.loads(payload)["left"]
    raise AssertionError("it does not end")


def test_what_was_given_is_there_and_found_in_the_working_directory(places: Path) -> None:
    given = Given()
    for name, parts in {"a.txt": [b"one ", b"two"], "b/c/d.txt": [], "b/e.txt": [b"x" * 100_000]}.items():
        given.begin(name)
        for part in parts:
            given.write(part)
    given.end()
    output = Output()
    assert places.joinpath("output/a.txt").read_bytes() == b"one two"
    assert places.joinpath("output/b/c/d.txt").read_bytes() == b""
    assert sorted(os.listdir(places / "output")) == ["a.txt", "b"]
    assert places.joinpath("input/a.txt").stat().st_mode & 0o777 == 0o444
    assert not output.touched
    assert left(output) == ({}, [])
    with pytest.raises(FileExistsError):
        given.begin("a.txt")


def test_no_name_leads_out_of_the_folder_of_files_that_were_given(places: Path) -> None:
    """The host cleans names; a link could only be there if the host had made it."""
    given = Given()
    with pytest.raises(OSError, match="exists"):
        given.begin("..")
    assert os.listdir(places / "input") == []


def test_only_what_is_new_or_has_changed_is_handed_over(places: Path) -> None:
    output, place = Output(), places / "output"
    place.joinpath("a").write_text("a")
    place.joinpath("b").write_text("b")
    assert output.touched
    assert left(output)[0] == {"a": b"a", "b": b"b"}
    assert left(output)[0] == {}
    place.joinpath("b").write_text("new")
    os.remove(place / "a")
    assert left(output)[0] == {"b": b"new"}
    place.joinpath("a").write_text("a")
    assert left(output)[0] == {"a": b"a"}


def test_pipes_sockets_and_links_never_block_and_lead_nowhere(places: Path) -> None:
    output, place = Output(), places / "output"
    os.mkfifo(place / "pipe")
    os.symlink("/etc/passwd", place / "link")
    os.symlink("/etc", place / "folder")
    with socket.socket(socket.AF_UNIX) as heard:
        heard.bind(str(place / "socket"))
    place.joinpath("last").write_text("last")
    assert left(output) == (
        {"last": b"last"},
        [
            "folder and 1 more were not kept: symbolic links are not collected",
            "pipe was not kept: FIFOs are not collected",
            "socket was not kept: sockets are not collected",
        ],
    )


def test_a_working_directory_that_was_moved_away_is_still_the_one_that_is_read(places: Path) -> None:
    output = Output()
    os.rename(places / "output", places / "moved")
    os.symlink("/etc", places / "output")
    places.joinpath("moved/mine").write_text("mine")
    assert left(output)[0] == {"mine": b"mine"}


def test_numbers_bytes_names_and_depth_are_bounded(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, place = Output(), places / "output"
    for number in range(5):
        place.joinpath(f"{number}").write_bytes(bytes(10))
    place.joinpath("sparse").touch()
    os.truncate(place / "sparse", 1 << 40)
    found, words = left(output, most=3, most_bytes=100)
    assert list(found) == ["0", "1", "2"]
    assert words == ["3 and 2 more were not kept: the run has as many artifacts as it may have (max_artifacts)"]
    output = _again(output, places)
    assert left(output, most_bytes=25) == (
        {"0": bytes(10), "1": bytes(10)},
        ["2 of 10 bytes and 3 more were not kept: the artifacts of the run leave no room (max_artifact_bytes)"],
    )
    deep = place
    for _ in range(20):
        deep = deep / "deep"
    deep.mkdir(parents=True)
    deep.joinpath("far").touch()
    assert left(_again(output, places))[1][-1].endswith("not kept: folders are looked into 16 deep")
    monkeypatch.setattr(files, "_MOST_NAMES", 4)
    found, words = left(_again(output, places))
    assert len(words) == 1
    assert "only 4 files are looked at" in words[0]


def _again(output: Output, places: Path) -> Output:
    """As if nothing had been handed over yet."""
    output._seen.clear()
    return output


def test_nothing_stays_open(places: Path) -> None:
    output, place = Output(), places / "output"
    for number in range(20):
        place.joinpath(f"{number}/x").mkdir(parents=True)
        place.joinpath(f"{number}/x/file").write_bytes(bytes(1 << 20))
    before = os.listdir("/proc/self/fd")
    left(output, most=100, most_bytes=1 << 30)
    half = _again(output, places).left(100, 1 << 30)
    for _ in range(5):
        next(half)
    del half  # as when the container ends in the middle
    assert len(os.listdir("/proc/self/fd")) == len(before)
