"""`--trace` and `callgate trace`: pages of runs, transcripts and saved results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.agents import OSLO as CALL
from cli.agents import TOOLS as ONE_FILE
from cli.agents import asked, warm, with_key
from cli.command import Command
from cli.plans import MORE_TOOLS, OSLO, TOOLS, WARMER, plan_file
from runtime.timelines import Checked


@pytest.fixture(autouse=True)
def more_tools(cli: Command) -> None:
    (cli.folder / "more.py").write_text(MORE_TOOLS, encoding="utf-8")


def words_of(page: Path) -> str:
    return " ".join(" ".join(Checked(page.read_text(encoding="utf-8")).words).split())


def task(cli: Command, *more: str) -> None:
    options = (*ONE_FILE, "--mode", "direct", "--transcript", "task.jsonl", *more)
    done = asked(with_key(cli), ["I will look.", CALL], warm, options=options)
    assert (done.status, done.out) == (0, "4 degrees.\n")


# pages


def test_a_program_has_a_page_and_its_saved_result_has_one(cli: Command) -> None:
    done = cli("run", "--path", "plan", "-c", "6 * 7", "--trace", "out.html", "--json")
    assert (done.status, done.err) == (0, "")
    assert "42" in words_of(cli.folder / "out.html")
    (cli.folder / "saved.json").write_text(done.out)
    again = cli("trace", "saved.json", "-o", "again.html", "--title", "Run 7")
    assert (again.status, again.out, again.err) == (0, "", "page: again.html\n")
    assert "<title>Run 7</title>" in (cli.folder / "again.html").read_text(encoding="utf-8")
    assert cli("trace", "--json", "saved.json").out == (cli.folder / "out.html").read_text(encoding="utf-8")


def test_a_program_that_fails_has_a_page_and_keeps_its_exit_code(cli: Command) -> None:
    done = cli("run", "--path", "plan", "-c", "1 / 0", "--trace", "out.html")
    assert (done.status, "page: out.html" in done.err) == (1, True)
    assert "ZeroDivisionError: division by zero" in words_of(cli.folder / "out.html")


def test_a_plan_has_a_page_and_its_saved_result_has_the_same(cli: Command) -> None:
    done = cli("plan", plan_file(cli, OSLO, WARMER), "--trace", "out.html", "--json", *TOOLS)
    assert done.status == 0
    told = words_of(cli.folder / "out.html")
    assert ("warmer" in told, "critical path" in told) == (True, True)
    (cli.folder / "saved.json").write_text(done.out)
    assert cli("trace", "saved.json").out == (cli.folder / "out.html").read_text(encoding="utf-8")


def test_a_task_has_a_page_and_its_transcript_has_the_same(cli: Command) -> None:
    task(cli, "--trace", "out.html")
    told = words_of(cli.folder / "out.html")
    for words in ("How warm is Oslo?", "I will look.", '(city="Oslo")', "Turn 2", "4 degrees."):
        assert words in told, words
    assert cli("trace", "task.jsonl").out == (cli.folder / "out.html").read_text(encoding="utf-8")


def test_a_transcript_that_was_torn_has_a_page_of_its_whole_lines(cli: Command) -> None:
    task(cli)
    whole = (cli.folder / "task.jsonl").read_bytes()
    (cli.folder / "task.jsonl").write_bytes(whole[: whole.index(b'"call_ended"')])
    assert cli("trace", "task.jsonl", "-o", "torn.html").status == 0
    told = words_of(cli.folder / "torn.html")
    assert told.count("not ended") == 2  # the task and its call
    assert "4 degrees" not in told


# what has none


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nowhere.json"], "nowhere.json cannot be read: No such file or directory"),
        (["words.txt"], "words.txt is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (["list.json"], "list.json is not a saved result: it is not an object"),
        (["plan.json"], "plan.json: this is not a saved result: ok: Field required"),
        (["other.jsonl"], "other.jsonl, line 2: this is not a line of a transcript"),
        (["torn.jsonl"], "torn.jsonl is not JSON"),
        (["."], ". cannot be read: Is a directory"),
        (["plan.json", "-o", "no/such/x.html"], "no/such/x.html cannot be written: there is no folder no/such"),
        (["plan.json", "-o", "plan.json"], "-o writes a page, and 'plan.json' is not a .html file"),
    ],
)
def test_what_has_no_page_is_told(cli: Command, arguments: list[str], error: str) -> None:
    line = json.dumps({"v": 1, "at": "2026-11-29T12:00:00Z", "kind": "resumed", "turns": 1, "model": "m"}) + "\n"
    for name, text in {
        "words.txt": "words",
        "list.json": "[]",
        "other.jsonl": f"{line}{{}}\n",
        "torn.jsonl": line[:40],
    }.items():
        (cli.folder / name).write_text(text)
    plan_file(cli, OSLO, WARMER)
    done = cli("trace", *arguments)
    assert (done.status, done.out) == (2, "")
    assert done.error.startswith(error)


@pytest.mark.parametrize("command", ["run", "plan", "agent"])
def test_where_the_page_cannot_be_written_the_result_is_there_all_the_same(cli: Command, command: str) -> None:
    trace = ("--trace", "/proc/out.html")
    if command == "run":
        done, out = cli("run", "--path", "plan", "-c", "6 * 7", *trace), "42\n"
    elif command == "plan":
        done, out = cli("plan", plan_file(cli, OSLO), *trace, *TOOLS), '{"temp": 4}'
    else:
        done, out = asked(with_key(cli), "4 degrees.", options=(*ONE_FILE, "--mode", "direct", *trace)), "4 degrees.\n"
    assert (done.status, out in done.out) == (1, True)
    assert done.error.startswith("the page /proc/out.html cannot be written: ")
    assert done.tip == "name another file"


def test_of_a_task_the_transcript_has_the_page_and_not_what_json_printed(cli: Command) -> None:
    done = asked(with_key(cli), "4 degrees.", options=(*ONE_FILE, "--mode", "direct", "--json"))
    (cli.folder / "task.json").write_text(done.out)
    told = cli("trace", "task.json")
    assert (told.status, told.out) == (2, "")
    assert told.tip.startswith("name a transcript of `callgate agent --transcript`, or what `callgate run --json`")


def test_a_page_is_a_html_file(cli: Command) -> None:
    done = cli("plan", plan_file(cli, OSLO), "--trace", "out.txt", *TOOLS)
    assert (done.status, done.error) == (2, "--trace writes a page, and 'out.txt' is not a .html file")
