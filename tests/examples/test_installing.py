"""What the examples install is installed once; where it cannot be, they say so, and under CI they fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from installing import NotHere, git_server, node_server, python_server

pytestmark = pytest.mark.slow


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no registry anywhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "none"))
    monkeypatch.delenv("CI", raising=False)
    return tmp_path / "callgate" / "examples"


def test_without_a_registry_it_is_not_here(cache: Path) -> None:
    with pytest.raises(NotHere, match=r"some-server-1\.0-py\d+ cannot be installed: .*No matching distribution"):
        python_server("some-server", "1.0")
    assert not list(cache.glob("*/.complete"))


def test_under_ci_that_is_an_error(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(RuntimeError, match="No matching distribution"):
        python_server("some-server", "1.0")


def test_without_node_or_git_it_is_not_here(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(NotHere, match="@scope/server needs node and npm"):
        node_server("@scope/server", "1.0", "index.js")
    with pytest.raises(NotHere, match="the git server needs git"):
        git_server(tmp_path)


def test_what_is_there_is_not_installed_again(cache: Path) -> None:
    folder = cache / f"some-server-1.0-py{sys.version_info[0]}{sys.version_info[1]}"
    folder.mkdir(parents=True)
    (folder / ".complete").touch()
    assert python_server("some-server", "1.0") == str(folder / "bin" / "some-server")


def test_what_was_left_half_done_is_begun_anew(cache: Path) -> None:
    folder = cache / f"some-server-1.0-py{sys.version_info[0]}{sys.version_info[1]}"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "some-server").touch()
    with pytest.raises(NotHere):
        python_server("some-server", "1.0")
    assert not (folder / "bin" / "some-server").exists()
