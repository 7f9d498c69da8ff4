"""`callgate check`: findings as lines, and exit codes."""

from __future__ import annotations

import json

from cli.command import Command


def test_a_clean_program_has_no_findings(cli: Command) -> None:
    done = cli("check", "--tools", "tools.py", "-c", "print((await get_weather('Oslo')).temp)")
    assert (done.status, done.out, done.err) == (0, "", "nothing found\n")


def test_a_finding_is_a_line_with_place_severity_code_message_and_hint(cli: Command) -> None:
    (cli.folder / "program.py").write_text("x = 1\nprint(await get_wether('Oslo'))\n")
    done = cli("check", "--tools", "tools.py", "program.py")
    assert done.status == 1
    expected = "program.py:2:13: error unknown-name `get_wether` is not defined; did you mean `get_weather`?\n"
    assert done.out == expected


def test_warnings_alone_exit_with_0(cli: Command) -> None:
    done = cli("check", "--json", "--tools", "tools.py", "-c", "x = [get_weather('Oslo')]\nx = 1")
    assert {finding["severity"] for finding in json.loads(done.out)} <= {"warning"}
    assert done.status == 0


def test_json_lists_the_findings(cli: Command) -> None:
    done = cli("check", "--json", "-c", "print(undefined)")
    (finding,) = json.loads(done.out)
    assert (finding["code"], finding["line"], finding["column"]) == ("unknown-name", 1, 7)
    assert done.status == 1


def test_inputs_are_known_names(cli: Command) -> None:
    assert cli("check", "-c", "print(cities)").status == 1
    assert cli("check", "--input", "cities", "-c", "print(cities)").status == 0


def test_the_policy_is_checked_where_it_is_asked_for(cli: Command) -> None:
    assert cli("check", "-c", "import socket").status == 0
    assert "restricted-import" in cli("check", "--policy", "restricted", "-c", "import socket").out
