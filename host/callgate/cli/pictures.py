"""Pictures in the terminal, for the terminals that draw them. Writes escape sequences around base64, nothing else.

Two protocols: kitty's (https://sw.kovidgoyal.net/kitty/graphics-protocol/) and iTerm2's
(https://iterm2.com/documentation-images.html). A terminal is known by its environment alone: it is never asked, since
an answer would come among what a person types. Within tmux and screen nothing is drawn.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final, Literal

from callgate import Artifact
from callgate.runtime.pictures import picture_size

__all__ = ["Protocol", "inline", "protocol_of"]

Protocol = Literal["kitty", "iterm2"]

_KITTY_TERMS: Final = ("xterm-kitty", "xterm-ghostty")
_PROGRAMS: Final[Mapping[str, Protocol]] = {
    "ghostty": "kitty", "iTerm.app": "iterm2", "WezTerm": "iterm2", "mintty": "iterm2",
}  # fmt: skip
_MOST_BYTES: Final = 4_000_000
_MOST_PIXELS: Final = 25_000_000
"""A terminal decodes a picture in its own process, and a small file may have billions of pixels."""
_PIECE: Final = 4096
"""Characters of base64 in one sequence: kitty takes no more."""


def protocol_of(environment: Mapping[str, str]) -> Protocol | None:
    """How the terminal takes pictures; None if it does not, or may not."""
    term = environment.get("TERM", "")
    if "TMUX" in environment or term.startswith(("screen", "tmux", "dumb")):
        return None
    if term in _KITTY_TERMS or "KITTY_WINDOW_ID" in environment:
        return "kitty"
    return _PROGRAMS.get(environment.get("TERM_PROGRAM", ""))


def inline(artifact: Artifact, protocol: Protocol) -> str:
    """The sequences that draw a picture, on a line of its own; empty if it is none that the terminal may draw."""
    found = picture_size(artifact.data)
    if found is None or artifact.size_bytes > _MOST_BYTES or found[1] * found[2] > _MOST_PIXELS:
        return ""
    data = base64.b64encode(artifact.data).decode()
    if protocol == "iterm2":
        return f"\x1b]1337;File=inline=1;size={artifact.size_bytes};preserveAspectRatio=1:{data}\a\n"
    if found[0] != "image/png":  # the one format that kitty's protocol takes as a file
        return ""
    pieces = [data[start : start + _PIECE] for start in range(0, len(data), _PIECE)]
    controls = ["a=T,f=100,q=2,", *[""] * (len(pieces) - 1)]
    more = [*["m=1"] * (len(pieces) - 1), "m=0"]
    drawn = zip(controls, more, pieces, strict=True)
    return "".join(f"\x1b_G{control}{state};{piece}\x1b\\" for control, state, piece in drawn) + "\n"
