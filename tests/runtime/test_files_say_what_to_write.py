"""What a program hears of a file that is missing or read-only, and an operator of one that cannot be given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from callgate import ConfigurationError, SandboxUnavailable, SyncRuntime

FILES = {"sales.csv": b"a,b\n", "rates.json": b"{}"}


@pytest.fixture(scope="module")
def runtime() -> Iterator[SyncRuntime]:
    try:
        runtime = SyncRuntime(sandbox="jail", tier=1, pool_size=1).open()
    except SandboxUnavailable as reason:
        pytest.skip(str(reason))
    yield runtime
    runtime.close()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("open('sale.csv')", "the files here are rates.json, sales.csv, in /input; did you mean 'sales.csv'?"),
        ("open('/home/me/sales.csv')", "in /input; did you mean 'sales.csv'?"),
        ("import os\nos.stat('nothing-like-it')", "the files here are rates.json, sales.csv, in /input\n"),
        ("open('sales.csv', 'w')", "files that were given can only be read: write to another name\n"),
        ("open('/input/new.csv', 'w')", "files that were given can only be read: write to another name\n"),
    ],
)
def test_a_program_hears_which_files_there_are(runtime: SyncRuntime, code: str, words: str) -> None:
    assert words in runtime.execute_code(code, files=FILES).for_model() + "\n"


@pytest.mark.parametrize("code", ["open('/etc/passwd')", "open('/usr/new', 'w')"])
def test_without_files_python_s_own_words_suffice(runtime: SyncRuntime, code: str) -> None:
    told = runtime.execute_code(code).for_model()
    assert "the files here" not in told
    assert "files that were given" not in told


def test_many_files_are_not_all_listed(runtime: SyncRuntime) -> None:
    told = runtime.execute_code("open('x')", files={f"{number:03}.csv": b"" for number in range(100)}).for_model()
    assert "029.csv and 70 more, in /input" in told


def test_a_folder_among_the_files_is_told_where_it_belongs(runtime: SyncRuntime, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        runtime.execute_code("1", files={"data": tmp_path})
    assert str(error.value) == f"files: 'data': {str(tmp_path)!r} is a folder: pass it to Runtime(folders=...)"
    with pytest.raises(ConfigurationError, match="there is no file"):
        runtime.execute_code("1", files={"data": "nope.csv"})
