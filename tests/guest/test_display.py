"""What a program shows: the text that stands among its prints, and the rich form that goes to the host."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from guest.conftest import Run
from guest.driver import GuestProcess, Ran

PNG = "b'\\x89PNG\\r\\n\\x1a\\n...'"


def shown(ran: Ran) -> list[dict[str, Any]]:
    assert ran.error is None, ran.error
    return [each["params"] for each in ran.messages if each.get("method") == "rpc.display"]


def having(**methods: str) -> str:
    """A class `X` whose methods return these expressions."""
    lines = [f"    def {name}(self): return {value}" for name, value in methods.items()]
    return "\n".join(["class X:", *lines, ""])


ORDER = {
    "a PNG": ({"_repr_png_": PNG}, "image/png", "picture-1.png"),
    "a JPEG": ({"_repr_jpeg_": "b'\\xff\\xd8\\xff...'"}, "image/jpeg", "picture-1.jpg"),
    "an SVG": ({"_repr_svg_": "'<svg/>'"}, "image/svg+xml", "picture-1.svg"),
    "HTML": ({"_repr_html_": "'<b>é</b>'"}, "text/html", "page-1.html"),
    "Markdown": ({"_repr_markdown_": "'# é'"}, "text/markdown", "text-1.md"),
    "PNG before HTML": ({"_repr_html_": "'<b>'", "_repr_png_": PNG}, "image/png", "picture-1.png"),
    "a bundle first": (
        {"_repr_png_": PNG, "_repr_mimebundle_": "{'image/jpeg': b'\\xff\\xd8\\xff', 'text/plain': 'x'}"},
        "image/png", "picture-1.png",
    ),
    "a bundle's PNG, as base64": (
        {"_repr_mimebundle_": "{'text/html': '<b>', 'image/png': 'iVBORw0KGgo='}"}, "image/png", "picture-1.png",
    ),
    "a bundle with metadata": ({"_repr_mimebundle_": "({'text/html': '<b>'}, {})"}, "text/html", "page-1.html"),
    "a PNG with metadata": ({"_repr_png_": f"({PNG}, {{'width': 1}})"}, "image/png", "picture-1.png"),
    "HTML, for the PNG is None": ({"_repr_png_": "None", "_repr_html_": "'<b>'"}, "text/html", "page-1.html"),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDER)
def test_the_first_form_that_a_value_really_has_is_sent(name: str, guest: GuestProcess) -> None:
    methods, media_type, file = ORDER[name]
    (message,) = shown(guest.run(f"{having(**methods)}display(X())"))
    assert (message["media_type"], message["name"]) == (media_type, file)
    assert len(message) == 4
    assert message["line"] > 0


def test_bytes_and_text_arrive_as_they_are(guest: GuestProcess) -> None:
    code = having(_repr_png_=f"{PNG} + bytes(range(256)) * 1000")
    (picture,) = shown(guest.run(f"{code}display(X())"))
    assert base64.b64decode(picture["data"]) == b"\x89PNG\r\n\x1a\n..." + bytes(range(256)) * 1000
    (page,) = shown(guest.run(f"{having(_repr_html_=repr('<b>é😀</b>'))}display(X())"))
    assert page["text"] == "<b>é😀</b>"


def test_the_model_reads_a_line_for_a_picture_and_text_for_all_else(guest: GuestProcess) -> None:
    ran = guest.run(
        f"{having(_repr_png_=PNG)}"
        "class Page:\n    def _repr_html_(self): return '<b>1</b>'\n"
        "class Table(Page):\n    def __repr__(self): return 'a  b'\n"
        "class Text:\n    def _repr_markdown_(self): return '# One'\n"
        "display(X(), Page(), Table(), Text(), 'two\\nlines', 1.5, None, [1], X())"
    )
    assert ran.logs == (
        "[picture 1: picture-1.png]\n[page 1: page-1.html]\na  b\n# One\ntwo\nlines\n1.5\nNone\n[1]\n"
        "[picture 2: picture-2.png]\n"
    )
    assert [each["name"] for each in shown(ran)] == [
        "picture-1.png", "page-1.html", "page-2.html", "text-1.md", "picture-2.png",
    ]  # fmt: skip


def test_what_is_displayed_begins_a_line(guest: GuestProcess) -> None:
    assert guest.run("print('a', end='')\ndisplay(1)\nprint('b')\ndisplay(2)").logs == "a\n1\nb\n2\n"


def test_what_is_displayed_keeps_its_place_among_prints_and_calls(guest: GuestProcess) -> None:
    ran = guest.run(
        f"import sys\n{having(_repr_png_=PNG)}print('a', end='')\nsys.stderr.write('b')\ndisplay(X())\nprint('c')\n"
        "import asyncio\ncall = asyncio.ensure_future(get_weather('Oslo'))\nawait asyncio.sleep(0)\ndisplay(X())\n"
        "await call\nprint('d')"
    )
    order = [
        each["params"]["text"] if each["method"] == "print" else each["method"]
        for each in ran.messages
        if "method" in each
    ]
    text = "".join(order)
    assert text.index("a") < text.index("picture-1") < text.index("rpc.display") < text.index("c\n")
    assert text.index("get_weather") < text.index("picture-2") < text.rindex("rpc.display") < text.index("d\n")
    assert "b" in text[: text.index("rpc.display")]


def test_the_value_of_the_last_expression_is_shown_where_it_is_no_json_value(guest: GuestProcess) -> None:
    ran = guest.run(f"{having(_repr_png_=PNG)}X()")
    assert (ran.value, ran.value_repr, ran.logs) == (None, "[picture 1: picture-1.png]", "")
    assert len(shown(ran)) == 1
    returned = guest.run(f"import asyncio\n{having(_repr_png_=PNG)}await asyncio.sleep(0)\nreturn X()")
    assert (returned.value_repr, len(shown(returned))) == ("[picture 2: picture-2.png]", 1)


def test_a_value_that_is_json_stays_json(guest: GuestProcess) -> None:
    code = "class D(dict):\n    def _repr_html_(self): return '<b>'\nD(a=1)"
    ran = guest.run(code)
    assert (ran.value, ran.value_repr, shown(ran)) == ({"a": 1}, None, [])


def test_the_value_of_a_program_that_waits_for_calls_is_shown_once(guest: GuestProcess) -> None:
    ran = guest.run(f"import asyncio\n{having(_repr_png_=PNG)}asyncio.ensure_future(get_weather('Oslo'))\nX()")
    assert len(shown(ran)) == 1


WRONG = {
    "raises": ("1 / 0", "[_repr_png_() of X raised ZeroDivisionError: division by zero]"),
    "exits": ("exit(3)", "[_repr_png_() of X raised SystemExit: 3]"),
    "recurses": ("self._repr_png_()", "[_repr_png_() of X raised RecursionError: maximum recursion depth exceeded"),
    "is a number": ("7", "[image/png of X is int, not bytes]"),
    "is text": ("'no base64'", "[image/png of X is text, not bytes]"),
    "is no PNG": ("b'GIF89a'", "[image/png of X does not begin as such a picture does]"),
    "is empty": ("b''", "[image/png of X does not begin as such a picture does]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_form_that_fails_costs_a_line_of_words_and_the_next_one_is_shown(name: str, run: Run) -> None:
    expression, words = WRONG[name]
    ran = run(f"{having(_repr_png_=expression, _repr_html_=repr('<b>'))}display(X())\nprint('and on')")
    assert [each["media_type"] for each in shown(ran)] == ["text/html"]
    assert ran.logs.startswith(words)
    assert ran.logs.endswith("and on\n")


def test_an_error_that_cannot_be_shown_is_told_all_the_same(run: Run) -> None:
    code = "class E(Exception):\n    def __str__(self): raise self\ndef no(self): raise E\n"
    ran = run(f"{code}class X: _repr_png_ = no\ndisplay(X())\nclass Y: __repr__ = no\ndisplay(Y())")
    assert shown(ran) == []
    assert "[_repr_png_() of X raised E]" in ran.logs
    assert "<Y whose repr() raised E>" in ran.logs


def test_what_is_larger_than_a_message_is_left_out_with_words(run: Run) -> None:
    code = f"{having(_repr_png_=f'{PNG} + bytes(100_000_000)')}display(X())\nprint('and on')"
    ran = run(code)
    assert shown(ran) == []
    assert "is left out: it has 100,000,011 bytes, and a message takes 16,777,216 at most (max_message_bytes)" in (
        ran.logs
    )
    escapes = run(f"{having(_repr_html_=repr('é') + ' * 4_000_000')}display(X())")
    assert shown(escapes) == []
    assert "is left out: it has 4,000,000" in escapes.logs


def test_an_object_that_answers_to_every_name_is_shown_as_text(run: Run) -> None:
    code = "class X:\n    def __getattr__(self, name): return lambda *a: b'lie'\n    def __repr__(self): return 'me'\n"
    ran = run(f"{code}display(X())")
    assert (ran.logs, shown(ran)) == ("me\n", [])


def test_long_text_is_cut(run: Run) -> None:
    ran = run("display('x' * 1_000_000)")
    assert len(ran.logs) < 70_000
    assert "characters cut" in ran.logs


def test_a_call_that_was_not_awaited_is_an_error(run: Run) -> None:
    assert "was not awaited" in run("display(get_weather('Oslo'))").message


@pytest.mark.parametrize("code", ["display = str\ndisplay(1)", "def display(x): return '1'\ndisplay(0)"])
def test_a_name_of_the_program_hides_display(code: str, guest: GuestProcess) -> None:
    assert guest.run(code).value == "1"


def test_an_input_and_a_tool_of_that_name_hide_display(guest: GuestProcess) -> None:
    assert guest.run("await display(1)", tools=[["display", "echo", "value"]]).value == 1
    assert guest.run("display + 1", {"display": 1}).value == 2


def test_display_is_a_builtin_that_a_program_can_ask_about(run: Run) -> None:
    assert "Show values" in run("import builtins\nhelp(builtins.display)").logs
    assert run("display(1, metadata={}, display_id='x')\ndisplay()").logs == "1\n"


def test_threads_display_too(guest: GuestProcess) -> None:
    code = (
        f"import threading\n{having(_repr_png_=PNG)}threads = [threading.Thread(target=display, args=(X(),)) for _ in "
        "range(8)]\n[t.start() for t in threads]\n[t.join() for t in threads]\nNone"
    )
    assert len({each["name"] for each in shown(guest.run(code))}) == 8
