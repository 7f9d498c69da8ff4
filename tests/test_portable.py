"""System calls that are not the same on all systems, as Linux has them. `elsewhere` runs what other systems have."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from callgate import portable


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def test_one_descriptor_locks_a_file_until_it_is_closed(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "a"), opened(tmp_path / "a")
    assert portable.lock(one)
    assert not portable.lock(other)
    os.close(one)
    assert portable.lock(other)
    os.close(other)


def test_what_cannot_be_locked_is_an_error(tmp_path: Path) -> None:
    closed = opened(tmp_path / "a")
    os.close(closed)
    with pytest.raises(OSError, match="Bad file descriptor"):
        portable.lock(closed)


def test_a_duplicate_is_above_the_standard_descriptors_and_not_inherited() -> None:
    code = (
        "import os\nfrom callgate import portable\nos.close(0)\nos.close(2)\n"
        "own = portable.duplicate(1)\nos.write(1, b'%d %d ' % (own, os.get_inheritable(own)))\n"
        "os.write(1, b'%d' % os.dup(1))"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60, check=True)
    own, inherited, lowest = map(int, done.stdout.split())
    assert own > 2
    assert not inherited
    assert lowest == 0, "what was taken on the way was given back"


def test_the_descriptors_of_a_process_are_its_soft_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert portable.most_files() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert portable.most_files() is None


def test_a_folder_is_synced_or_gone(tmp_path: Path) -> None:
    portable.sync_folder(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        portable.sync_folder(str(tmp_path / "gone"))
