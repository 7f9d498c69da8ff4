"""`callgate run` with files: given to the program, made by it, saved or named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from callgate.cli.files import files_from, folders_from
from cli.command import Command

CODE = """
import os
os.makedirs("plots", exist_ok=True)
open("out.csv", "w").write(open("sales.csv").read().upper())
open("plots/\\x1b[31ma\\n.txt", "w").write("x" * 1234)
print(sorted(os.listdir("/input")), open("/input/data/x.txt").read())
"""


@pytest.fixture
def given(cli: Command) -> list[str]:
    (cli.folder / "sales.csv").write_text("a,b\n")
    (cli.folder / "d").mkdir()
    (cli.folder / "d" / "x.txt").write_text("deep")
    return ["run", "-c", CODE, "--tier", "1", "--file", "sales.csv", "--folder", "data=d"]


def test_a_program_gets_files_and_what_it_made_is_saved(cli: Command, given: list[str]) -> None:
    (cli.folder / "out").mkdir()
    (cli.folder / "out" / "out.csv").write_text("mine")
    done = cli(*given, "--output-dir", "out")
    assert (done.status, done.out) == (0, "['data', 'sales.csv'] deep\n")
    assert done.err == (
        "saved out/out-2.csv (text/csv, 4 bytes)\nsaved out/plots/_[31ma_.txt (text/plain, 1,234 bytes)\n"
    )
    assert (cli.folder / "out" / "out.csv").read_text() == "mine"
    assert (cli.folder / "out" / "out-2.csv").read_text() == "A,B\n"


def test_without_a_folder_one_line_says_what_there_is(cli: Command, given: list[str]) -> None:
    done = cli(*given)
    assert done.status == 0
    assert done.err == "2 files: out.csv (4 bytes), plots/_[31ma_.txt (1,234 bytes); --output-dir DIR saves them\n"
    assert not (cli.folder / "out.csv").exists()


def test_files_of_a_failed_program_are_saved_and_json_has_their_handles(cli: Command, given: list[str]) -> None:
    done = cli(*given, "--json", "--output-dir", "new/out")
    whole = json.loads(done.out)
    assert [each["name"] for each in whole["artifacts"]] == ["out.csv", "plots/_[31ma_.txt"]
    given[2] += "1/0"
    done = cli(*given, "--output-dir", "new/out")
    assert done.status == 1
    assert (cli.folder / "new" / "out" / "out-2.csv").exists()


def test_a_file_that_cannot_be_saved_costs_no_other(cli: Command, given: list[str]) -> None:
    (cli.folder / "out").mkdir()
    (cli.folder / "out" / "plots").write_text("no folder")
    given[2] += "open('z.txt', 'w').write('z')"
    done = cli(*given, "--output-dir", "out")
    assert done.status == 1
    assert "ERROR plots/_[31ma_.txt cannot be saved in out: Not a directory\n" in done.err
    assert (cli.folder / "out" / "z.txt").read_text() == "z"


def test_a_link_is_found_by_the_name_that_was_given(tmp_path: Path) -> None:
    (tmp_path / "2026-11.csv").write_text("a")
    (tmp_path / "latest.csv").symlink_to("2026-11.csv")
    assert list(files_from([f"{tmp_path}/latest.csv", f"{tmp_path}/./2026-11.csv"])) == ["latest.csv", "2026-11.csv"]
    (tmp_path / "d").mkdir()
    assert list(folders_from([f"{tmp_path}/d/.."])) == [tmp_path.name]


WRONG = [
    (["--file", "no.csv"], "--file no.csv: there is no file 'no.csv'"),
    (["--file", "../x=tools.py"], "'../x' is not a name below /input"),
    (["--file", "tools.py", "--file", "tools.py"], "two are called 'tools.py'"),
    (["--folder", "tools.py"], "there is no folder 'tools.py'"),
    (["--output-dir", "tools.py"], "--output-dir tools.py is not a folder"),
    (["--file", "tools.py", "--path", "plan"], "a program with files runs in a guest: leave out path='plan'"),
    (["--file", "tools.py", "--sandbox", "unsafe"], "sandbox='unsafe' has no files: use sandbox='jail' or 'docker'"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_what_is_wrong_with_an_option_is_one_error_and_one_tip(cli: Command, options: list[str], words: str) -> None:
    done = cli("run", "-c", "1", *options)
    assert done.status == 2
    error, tip = [line for line in done.err.splitlines() if not line.startswith("WARNING")]
    assert error.startswith("ERROR ")
    assert words in error
    assert tip.startswith("TIP ")
