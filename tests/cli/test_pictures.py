"""Pictures of a program in the terminals that draw them; elsewhere their lines alone."""

from __future__ import annotations

import base64
import re

import pytest

from callgate.cli.pictures import inline, protocol_of
from cli.command import Command
from runtime.drawn import HTML, JPEG, SVG, artifact, png, png_header

PNG = base64.b64encode(png()).decode()
PROGRAM = f"""
import base64
class Picture:
    def _repr_png_(self): return base64.b64decode({PNG!r})
print("before")
display(Picture())
print("after", end="")
display(Picture())
"""

TERMINALS = {
    "kitty": ({"TERM": "xterm-kitty"}, "kitty"),
    "kitty, by its window": ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
    "ghostty": ({"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}, "kitty"),
    "iTerm2": ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm2"),
    "WezTerm": ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm2"),
    "another": ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, None),
    "nothing": ({}, None),
    "kitty in tmux": ({"TERM": "screen-256color", "KITTY_WINDOW_ID": "1"}, None),
    "iTerm2 in tmux": ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app", "TMUX": "/tmp/x"}, None),
    "dumb": ({"TERM": "dumb", "TERM_PROGRAM": "iTerm.app"}, None),
}


@pytest.mark.parametrize("name", TERMINALS)
def test_a_terminal_is_known_by_its_environment(name: str) -> None:
    environment, protocol = TERMINALS[name]
    assert protocol_of(environment) == protocol


@pytest.mark.parametrize(("term", "drawn"), [("xterm-kitty", f"\x1b_Ga=T,f=100,q=2,m=0;{PNG}\x1b\\"), ("xterm", "")])
def test_a_picture_is_drawn_below_its_line(cli: Command, term: str, drawn: str) -> None:
    with cli.terminal("run", "-c", PROGRAM, environment={"TERM": term}) as terminal:
        seen = terminal.read_all().replace("\r\n", "\n")
        assert terminal.wait() == 0
    line = f"{drawn}\n" if drawn else ""
    assert f"before\n[picture 1: picture-1.png]\n{line}after\n[picture 2: picture-2.png]\n{line}" in seen


def test_without_a_terminal_there_are_lines_alone(cli: Command) -> None:
    done = cli("run", "-c", PROGRAM, environment={"TERM": "xterm-kitty"})
    assert done.out == "before\n[picture 1: picture-1.png]\nafter\n[picture 2: picture-2.png]\n"


def test_a_long_picture_goes_in_pieces_that_kitty_takes() -> None:
    picture = artifact(png(200, 200, noise=True), "a.png")
    drawn = inline(picture, "kitty")
    pieces = re.findall("\x1b_G([^;]*);([^\x1b]*)\x1b\\\\", drawn)
    assert "".join(f"\x1b_G{control};{piece}\x1b\\" for control, piece in pieces) + "\n" == drawn
    assert pieces[0][0] == "a=T,f=100,q=2,m=1"
    assert {control for control, _ in pieces[1:-1]} == {"m=1"}
    assert pieces[-1][0] == "m=0"
    assert all(len(piece) <= 4096 and len(piece) % 4 == 0 for _, piece in pieces)
    assert base64.b64decode("".join(piece for _, piece in pieces)) == picture.data


def test_iterm2_takes_a_picture_in_one() -> None:
    data = base64.b64encode(JPEG).decode()
    sequence = f"\x1b]1337;File=inline=1;size={len(JPEG)};preserveAspectRatio=1:{data}\x07\n"
    assert inline(artifact(JPEG, "a\x1b]0;owned\x07.jpg"), "iterm2") == sequence


NOT_DRAWN = {
    "a drawing": artifact(SVG, "a.svg"),
    "a page": artifact(HTML, "a.png", "image/png"),
    "a picture of ten thousand million pixels": artifact(png_header(100_000, 100_000), "a.png"),
    "a picture of 5 MB": artifact(png() + bytes(5_000_000), "a.png"),
    "no picture": artifact(b"a,b", "a.csv"),
}


@pytest.mark.parametrize("name", NOT_DRAWN)
def test_what_a_terminal_must_not_draw_is_not_sent(name: str) -> None:
    assert inline(NOT_DRAWN[name], "kitty") == ""
    assert inline(NOT_DRAWN[name], "iterm2") == ""


def test_kitty_gets_png_alone() -> None:
    assert inline(artifact(JPEG, "a.jpg"), "kitty") == ""
