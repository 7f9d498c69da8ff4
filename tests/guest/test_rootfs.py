"""The root file system of a container, collected from the Python that runs the tests."""

from __future__ import annotations

import importlib.util
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import callgate_guest.wire

GUEST = str(Path(callgate_guest.wire.__file__).parent.parent)
START = f"import sys; sys.path.append({GUEST!r}); from callgate_guest.rootfs import main; main(sys.argv[1:])"
SECONDS = 120


def rootfs(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", START, *arguments],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages: one whose tests nothing imports, one that imports its own, scripts, and a broken file."""
    folder = tmp_path_factory.mktemp("packages")
    for name, text in {
        "plain/__init__.py": "",
        "plain/broken.py": "this is no Python\n",
        "plain/sub/tests/test_it.py": "",
        "selfish/__init__.py": "from .tests.runner import go\n",
        "selfish/tests/runner.py": "def go(): pass\n",
        "Plain-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: Plain\nVersion: 1.0\n",
        "bin/plain": "#!/bin/sh\n",
        "py.typed": "",
        "plain/__pycache__/x.pyc": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Path:
    folder = tmp_path_factory.mktemp("rootfs") / "root"
    done = rootfs("collect", str(folder), str(packages), SOURCE_DATE_EPOCH="86400")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('callgate-facts {"python": "3.')
    assert '"packages": ["Plain==1.0"]' in done.stdout
    return folder


def test_it_has_the_layout_of_the_jail(root: Path) -> None:
    assert {each.name for each in root.iterdir()} - {"lib64"} <= {
        "etc", "guest", "input", "lib", "output", "packages", "python", "tmp", "usr",
    }  # fmt: skip
    stdlib = root / f"python/lib/python3.{sys.version_info[1]}"
    assert (root / "python/bin/python3").is_file()
    assert (stdlib / "os.py").is_file()
    assert list((stdlib / "lib-dynload").iterdir())
    assert (root / "guest/callgate_guest/wire.py").is_file()
    assert list((root / "lib").glob("ld-*"))


def test_everything_has_one_time_and_modes_that_say_nothing(root: Path) -> None:
    for where, _, names in os.walk(root):
        for path in [where, *(os.path.join(where, name) for name in names)]:
            about = os.lstat(path)
            assert about.st_mtime == 86400, path
            assert stat.S_ISLNK(about.st_mode) or about.st_mode & 0o7777 in (0o644, 0o755, 0o1777), path
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_packages_come_without_scripts_and_tests_that_nothing_imports(root: Path) -> None:
    kept = root / "packages"
    assert sorted(each.name for each in kept.iterdir()) == ["Plain-1.0.dist-info", "plain", "selfish"]
    assert not (kept / "plain/sub/tests").exists()
    assert (kept / "selfish/tests/runner.py").is_file()
    assert not (kept / "plain/__pycache__/x.pyc").exists()


@pytest.mark.slow
def test_all_that_can_be_compiled_is_and_twice_the_same(root: Path, packages: Path, tmp_path: Path) -> None:
    again = tmp_path / "root"
    assert rootfs("collect", str(again), str(packages), SOURCE_DATE_EPOCH="86400").returncode == 0
    compiled = sorted(path.relative_to(root) for path in root.rglob("*.pyc"))
    assert len(compiled) > 300
    assert sorted(path.relative_to(again) for path in again.rglob("*.pyc")) == compiled
    for path in compiled:
        assert (root / path).read_bytes() == (again / path).read_bytes(), path
        assert (root / path).read_bytes()[4:8] == b"\1\0\0\0", path  # PEP 552: hash-based, not to be checked


def test_a_base_is_not_compiled_and_takes_no_packages(tmp_path: Path, packages: Path) -> None:
    assert rootfs("base", str(tmp_path / "root"), str(packages)).returncode == 0
    assert not list((tmp_path / "root").rglob("*.pyc"))
    assert not list((tmp_path / "root/packages").iterdir())


def test_nothing_is_installed_where_nothing_is_required(tmp_path: Path) -> None:
    for nothing in ("", " ", "\n# why\n\n"):
        assert rootfs("install", str(tmp_path / "to"), REQUIREMENTS=nothing).returncode == 0
    assert not (tmp_path / "to").exists()


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this environment has no pip")
def test_a_requirement_that_nobody_has_ends_with_one_sentence(tmp_path: Path) -> None:
    done = rootfs("install", str(tmp_path / "to"), REQUIREMENTS="--no-index\ncallgate-nowhere\n")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("callgate: pip could not install the requirements (status 1)")
    assert not list((tmp_path / "to").iterdir())
