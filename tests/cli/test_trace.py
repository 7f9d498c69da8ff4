"""`--trace` and `callgate trace`: pages of runs, transcripts and saved results."""

from __future__ import annotations

import pytest

from cli.command import Command
from cli.plans import OSLO, TOOLS, WARMER, plan_file


def test_a_program_has_a_page_and_its_saved_result_has_one(cli: Command) -> None:
    done = cli("run", "--path", "plan", "-c", "6 * 7", "--trace", "out.html", "--json")
    assert done.status == 0
    assert "42" in (cli.folder / "out.html").read_text(encoding="utf-8")
    (cli.folder / "saved.json").write_text(done.out)
    again = cli("trace", "saved.json", "-o", "again.html", "--title", "Run 7")
    assert (again.status, again.out) == (0, "")
    assert "<title>Run 7</title>" in (cli.folder / "again.html").read_text(encoding="utf-8")
    assert cli("trace", "--json", "saved.json").out.startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nowhere.json"], "nowhere.json cannot be read"),
        (["words.txt"], "words.txt is not JSON"),
        (["list.json"], "list.json is not a saved result"),
        (["plan.json", "-o", "no/such/x.html"], "there is no folder"),
    ],
)
def test_what_has_no_page_is_told(cli: Command, arguments: list[str], error: str) -> None:
    (cli.folder / "words.txt").write_text("words")
    (cli.folder / "list.json").write_text("[]")
    plan_file(cli, OSLO, WARMER)
    done = cli("trace", *arguments)
    assert done.status == 2
    assert error in done.error


def test_a_page_is_a_html_file(cli: Command) -> None:
    done = cli("plan", plan_file(cli, OSLO), "--trace", "out.txt", *TOOLS)
    assert (done.status, done.error) == (2, "--trace writes a page, and 'out.txt' is not a .html file")
