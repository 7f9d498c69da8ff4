"""The host's side of /input: how files get there, what is refused, and that nothing stays."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from callgate.errors import ConfigurationError, SandboxCrashed, SandboxUnavailable
from callgate.sandbox.staging import Staging, checked_folders, remove_abandoned


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The host's temporary folder."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def staging(place: Path) -> Iterator[Staging]:
    made = Staging()
    yield made
    made.remove()
    assert os.listdir(place) == []


def staged(staging: Staging, name: str) -> Path:
    return Path(staging.folder, name)


def test_bytes_and_files_are_there_under_their_names(staging: Staging, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2")
    got = staged(staging, staging.stage({"x/y/a.csv": tmp_path / "a.csv", "b": b"\0", "x/c": b""}, ["data"]))
    assert (got / "x/y/a.csv").read_text() == "1,2"
    assert (got / "b").read_bytes() == b"\0"
    assert (got / "x/c").read_bytes() == b""
    assert list((got / "data").iterdir()) == []
    for path in [got, got / "x", got / "x/y", got / "data"]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert stat.S_IMODE((got / "b").stat().st_mode) == 0o644


def test_a_file_of_the_same_file_system_is_not_copied(staging: Staging, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(1 << 20))
    before = os.statvfs(tmp_path).f_bfree
    got = staged(staging, staging.stage({"large": tmp_path / "large"}, []))
    linked = (got / "large").stat().st_ino == (tmp_path / "large").stat().st_ino
    assert linked or before - os.statvfs(tmp_path).f_bfree < 100, "a hard link, or a clone"


def test_a_link_is_followed_to_its_file(staging: Staging, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    got = staged(staging, staging.stage({"a": tmp_path / "link"}, []))
    assert not (got / "a").is_symlink()
    assert (got / "a").read_text() == "x"


def test_a_file_of_another_file_system_is_copied(staging: Staging) -> None:
    other = Path("/dev/shm")
    if not os.access(other, os.W_OK) or other.stat().st_dev == os.stat(staging.folder).st_dev:
        pytest.skip("there is no other file system to write to")
    with tempfile.NamedTemporaryFile(dir=other) as file:
        file.write(b"x" * 3_000_000)
        file.flush()
        got = staged(staging, staging.stage({"a": Path(file.name)}, []))
        assert (got / "a").read_bytes() == b"x" * 3_000_000
        assert (got / "a").stat().st_ino != os.stat(file.name).st_ino


@pytest.mark.skipif(os.geteuid() != 0, reason="only guests of root are another user")
def test_a_file_that_guests_may_not_read_is_copied(staging: Staging, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("x")
    (tmp_path / "private").chmod(0o600)
    got = staged(staging, staging.stage({"a": tmp_path / "private"}, [])) / "a"
    assert (got.read_text(), stat.S_IMODE(got.stat().st_mode)) == ("x", 0o644)
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_modes_do_not_depend_on_the_umask(place: Path) -> None:
    before = os.umask(0o777)
    try:
        staging = Staging()
        got = staged(staging, staging.stage({"a/b": b"x"}, []))
    finally:
        os.umask(before)
    assert stat.S_IMODE((got / "a/b").stat().st_mode) == 0o644
    assert stat.S_IMODE((got / "a").stat().st_mode) == 0o755
    staging.remove()


def test_the_folder_of_all_guests_can_be_searched_and_not_listed(staging: Staging) -> None:
    assert stat.S_IMODE(os.stat(staging.folder).st_mode) == 0o311
    assert stat.S_IMODE(os.stat(os.path.dirname(staging.folder)).st_mode) == 0o700


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a": b"", "a/b": b""}, "files: 'a/b' has the name of another file, or of its folder"),
        ({"a/b": b"", "a": b""}, "files: 'a' has the name of another file, or of its folder"),
        ({"data/b": b""}, "files: 'data/b' is in the folder that `folders` has under that name"),
        ({"data": b""}, "files: 'data' is in the folder that `folders` has under that name"),
        ({"a": Path("/nowhere/x")}, "files: 'a': '/nowhere/x': No such file or directory"),
        ({"a": Path("/dev/zero")}, "files: 'a': '/dev/zero' is no file"),
        ({"a": Path("/")}, "files: 'a': '/' is no file"),
    ],
)
def test_bad_files_are_told_by_name_and_leave_nothing(staging: Staging, files: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        staging.stage(files, ["data"])  # type: ignore[arg-type]
    assert str(caught.value) == said
    os.chmod(staging.folder, 0o700)
    assert os.listdir(staging.folder) == []


def test_a_fifo_does_not_block(staging: Staging, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ConfigurationError, match=r"is no file$"):
        staging.stage({"a": tmp_path / "fifo"}, [])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_no_room_is_told_in_words_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", str(small)], check=False).returncode:
        pytest.skip("mount is not permitted")
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(small))
        staging = Staging()
        with pytest.raises(SandboxUnavailable, match=r"No space left on device\. Make room, or set TMPDIR"):
            staging.stage({"a": bytes(1 << 20)}, [])
        staging.remove()
        assert os.listdir(small) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_what_is_removed_takes_no_more_files(place: Path) -> None:
    staging = Staging()
    staging.remove()
    staging.remove()
    with pytest.raises(SandboxCrashed):
        staging.stage({"a": b""}, [])
    assert os.listdir(place) == []


def test_what_a_killed_host_has_left_the_next_start_removes_and_nothing_else(place: Path) -> None:
    program = (
        "import os, tempfile\n"
        f"tempfile.tempdir = {str(place)!r}\n"
        "from callgate.sandbox.staging import Staging\n"
        "Staging().stage({'a/b': b'x'}, ['data'])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    (abandoned,) = place.iterdir()
    alive = Staging()
    (place / "callgate-files-mine.txt").write_text("x")
    (place / "callgate-files-link").symlink_to("/")
    remove_abandoned()
    assert abandoned.exists(), "it is young: its host may not have locked it yet"
    an_hour_ago = time.time() - 3600
    for path in place.iterdir():
        os.utime(path, (an_hour_ago, an_hour_ago), follow_symlinks=False)
    remove_abandoned()
    assert not abandoned.exists()
    assert len(list(place.iterdir())) == 3
    assert Path(alive.folder).exists()
    alive.remove()


def test_folders_are_looked_through_and_what_is_no_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir(mode=0o755)
    (tmp_path / "sub" / "a").write_text("x")
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "loop").symlink_to(".")
    tmp_path.chmod(0o755)
    checked_folders({"data": str(tmp_path)})
    os.mkfifo(tmp_path / "sub" / "pipe")
    with pytest.raises(ConfigurationError, match=r"^folders: 'data': '.*/sub/pipe' is a FIFO, over which guests could"):
        checked_folders({"data": str(tmp_path)})
    os.unlink(tmp_path / "sub" / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.open(tmp_path, os.O_PATH)
        bound.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    with pytest.raises(ConfigurationError, match="is a socket"):
        checked_folders({"data": str(tmp_path)})
    with pytest.raises(ConfigurationError, match="is a device"):
        checked_folders({"dev": "/dev"})


@pytest.mark.parametrize("path", ["/nowhere", "/etc/passwd", "/etc/\0", "/" + "x" * 300])
def test_a_folder_that_is_not_there_is_told(path: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^folders: 'data': there is no folder"):
        checked_folders({"data": path})


@pytest.mark.skipif(os.geteuid() != 0, reason="only guests of root are another user")
def test_a_folder_that_guests_may_not_read_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(ConfigurationError, match=r"who may not read .*: let others read it \(chmod -R o\+rX "):
        checked_folders({"data": str(tmp_path)})
