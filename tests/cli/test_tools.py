"""`callgate tools`: lists, JSON, and stubs that really are Python."""

from __future__ import annotations

import json
import subprocess
import sys

from cli.command import Command


def test_tools_are_listed_with_signature_first_line_and_marks(cli: Command) -> None:
    done = cli("tools", "--tools", "tools.py")
    assert done.status == 0
    assert "get_weather(city: str) -> dict[str, int]\n    Current weather. [read-only]\n" in done.out
    assert "wipe(table: str) -> str\n    Delete a table. [destructive, asks for approval]\n" in done.out
    assert done.err == "4 tools\n"


def test_json_has_names_and_schemas(cli: Command) -> None:
    listed = json.loads(cli("tools", "--json", "--tools", "tools.py").out)
    assert [tool["name"] for tool in listed] == ["chatty", "get_weather", "wait_for_go", "wipe"]
    assert listed[1]["input_schema"]["required"] == ["city"]
    assert listed[3]["requires_approval"] is True


def test_stubs_import_and_are_the_same_every_time(cli: Command) -> None:
    done = cli("tools", "--stubs", "--tools", "tools.py")
    assert done.out == cli("tools", "--stubs", "--tools", "tools.py:SOME", "--tools", "tools.py").out.replace(
        'async def plain(number: int) -> int:\n    """A plain function."""\n    raise NotImplementedError\n\n\n', ""
    )
    (cli.folder / "stubs.py").write_text(done.out)
    code = "import inspect, stubs; print(inspect.signature(stubs.get_weather))"
    shown = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=cli.folder, capture_output=True, text=True, check=True
    )
    assert shown.stdout == "(city: 'str') -> 'dict[str, int]'\n"


def test_the_detail_of_stubs_can_be_chosen(cli: Command) -> None:
    names = cli("tools", "--stubs", "--detail", "names", "--tools", "tools.py").out
    assert "\nget_weather: Any\n" in names
    signatures = cli("tools", "--stubs", "--detail", "signatures", "--tools", "tools.py").out
    assert '    """Current weather."""\n' in signatures
    assert "Args:" not in signatures
    full = cli("tools", "--stubs", "--detail", "full", "--tools", "tools.py").out
    assert "    Args:\n        city: its name.\n" in full
    assert full == cli("tools", "--stubs", "--tools", "tools.py").out


def test_a_detail_without_stubs_is_refused(cli: Command) -> None:
    done = cli("tools", "--detail", "names", "--tools", "tools.py")
    assert (done.status, done.error) == (2, "--detail says how much stubs tell")
    assert done.tip == "use it together with --stubs"
