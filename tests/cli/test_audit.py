"""`callgate audit`, and `--audit`."""

from __future__ import annotations

import json
from pathlib import Path

from cli.command import Command

TOOLS = """
from callgate import tool

@tool
async def put(x: int) -> int:
    return x
"""


def audited(cli: Command) -> str:
    """The path of a log of one program."""
    (cli.folder / "own.py").write_text(TOOLS)
    ran = cli("run", "-c", "await put(x=1)", "--tools", "own.py", "--audit", "audit.jsonl", "--path", "plan")
    assert (ran.status, ran.out) == (0, "1\n"), ran.err
    return "audit.jsonl"


def test_verify_says_what_was_changed_and_show_what_is_in_it(cli: Command) -> None:
    log = audited(cli)
    good = cli("audit", "verify", log)
    assert (good.status, good.err) == (0, "")
    chain, words = good.out.splitlines()
    assert "6 lines, closed; head " in chain
    assert words == "nothing was changed in 6 lines; a cut-off end would not show without --head"
    head = chain.rpartition(" ")[2]
    assert cli("audit", "verify", log, "--head", head).status == 0

    shown = cli("audit", "show", log, "--tool", "put").out.splitlines()
    assert [line.split()[1] for line in shown] == ["called", "outcome"]
    assert "status=succeeded" in shown[1]
    (run,) = {
        each["run"] for each in map(json.loads, cli("audit", "show", log, "--json").out.splitlines()) if "run" in each
    }
    assert len(cli("audit", "show", log, "--run", run[:12]).out.splitlines()) == 4

    path = Path(cli.folder, log)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    cut = cli("audit", "verify", log, "--head", head)
    assert cut.status == 1
    assert "not closed" in cut.out
    assert f"head {head} is not in it" in cut.out
    path.write_text("".join(lines).replace('"put"', '"get"', 1))
    changed = cli("audit", "verify", log, "--json")
    told = json.loads(changed.out)
    assert (changed.status, told["ok"], told["faults"][0]["line"]) == (1, False, 3)


def test_lines_behind_one_that_was_cut_off_are_shown(cli: Command) -> None:
    Path(cli.folder, "log").write_bytes(b'{"v":1,"at":"t","ki' + b'{"v":1,"at":"t","kind":"opened"}\n' * 2)
    shown = cli("audit", "show", "log", "--json")
    assert [json.loads(line)["kind"] for line in shown.out.splitlines()] == ["unreadable", "opened", "opened"]


def test_what_cannot_be_read_says_so(cli: Command) -> None:
    missing = cli("audit", "verify", "nothing.jsonl")
    assert (missing.status, missing.error) == (2, "nothing.jsonl cannot be read: No such file or directory")
    log = audited(cli)
    Path(cli.folder, f"{log}.key").unlink()
    without = cli("audit", "verify", log)
    assert without.status == 2
    assert "--key-file" in without.tip
    assert cli("audit", "verify", "/dev/stdin").status == 2


def test_nothing_in_a_log_drives_the_terminal(cli: Command) -> None:
    Path(cli.folder, "log").write_bytes(
        b'{"kind":"outcome","run":"r","call":1,"tool":"\\u001b[2J\\n\xe2\x80\xae"}\n\xff\x1b[2J\n' + b"[" * 90_000
    )
    shown = cli("audit", "show", "log")
    assert shown.status == 0
    assert "\x1b" not in shown.out
    assert "\u202e" not in shown.out
    assert len(shown.out.splitlines()) == 4
