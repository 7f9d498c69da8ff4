"""What people read says what it means: names as they were given, what is not known, what is replaced; whole words."""

from __future__ import annotations

import dataclasses
import re

import pytest

from cli.agents import TOOLS, asked, with_key
from cli.command import Command

PLAN = '{"steps": [{"id": "oslo", "tool": "get_weather", "arguments": {"city": "Oslo"}}]}'


def test_an_estimate_without_a_history_says_so_and_names_no_time(cli: Command) -> None:
    (cli.folder / "plan.json").write_text(PLAN)
    done = cli("plan", "plan.json", *TOOLS, "--estimate")
    assert done.status == 0
    assert done.out.startswith("how long it takes is not known: none of its tools has a history yet\n")
    assert "0 ms" not in done.out
    assert "0 s" not in done.out


@pytest.mark.parametrize(
    ("given", "shown"),
    [("declarative", "declarative"), ("individual", "individual"), ("plan", "plan"), ("direct", "direct")],
)
def test_a_mode_is_shown_by_the_name_that_it_was_given(cli: Command, given: str, shown: str) -> None:
    done = asked(with_key(cli), "Warm.", options=(*TOOLS, "--mode", given))
    assert done.status == 0
    assert f"model played, mode {shown}, 4 tools" in done.err


@pytest.mark.parametrize(("model", "variable"), [("openai:m", "OPENAI_API_KEY"), ("claude-x", "ANTHROPIC_API_KEY")])
def test_a_missing_key_names_the_variable_and_no_option_that_is_not_there(
    cli: Command, model: str, variable: str
) -> None:
    done = dataclasses.replace(cli, variables={})("agent", "do", "--model", model)
    assert done.status == 2
    assert done.error.endswith(f": set the environment variable {variable}")
    assert "api_key" not in done.err


def test_a_long_error_is_cut_between_words(cli: Command) -> None:
    words = " ".join(f"word{number:03}" for number in range(200))
    (cli.folder / "failing.py").write_text(
        f"from callgate import ToolError, tool\n\n@tool\ndef fail() -> int:\n    raise ToolError({words!r})\n"
    )
    done = cli("run", "--tools", "failing.py", "-c", "await fail()")
    assert done.status == 1
    shown = re.findall(r"\S*word\S*", done.error)
    assert " ... " in done.error
    assert [each for each in shown if not re.fullmatch(r"word\d{3}", each)] == []
