"""Makes foreign texts and names fit for a definition. Pure.

*Texts* are bounded and have no invisible characters. Descriptions come from MCP servers. Control characters, text
direction marks, tag characters and other invisible ones can hide from a person what a model reads; a line break can
pretend to begin another section.

*Names*: a provider takes at most 64 letters, digits, ``_`` and ``-``. A tool whose name fits keeps it. Any other tool
gets a name made of its own; eight characters of its SHA-256 follow if the name was cut or is taken. So the name of a
tool does not depend on other tools, unless one of them has exactly that name.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

from callgate.tools import Registry, Tool

from .meta import ALL_META_TOOLS

__all__ = ["MAX_NAME", "ModelNames", "clean", "fitted", "one_line"]

_JOINERS = "\u200c\u200d"  # Persian, Hindi and emoji are written with them: one at a time, between other letters
_STRAY = re.compile(
    "(?<![^\\x00-\\x7f\u200c\u200d])[\u200c\u200d]+|[\u200c\u200d]+(?![^\\x00-\\x7f\u200c\u200d])|[\u200c\u200d]{2,}"
)
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef]|\ufe0f{2,}"
)
"""Fillers and variation selectors: invisible as well, but of other categories."""
_BREAKS = re.compile("\r\n?|[\u0085\u2028\u2029\v\f]")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})

MAX_NAME = 64
_ODD = re.compile(r"[^a-zA-Z0-9_-]")


def clean(text: str, most: int) -> str:
    """The visible characters, blanks and line breaks of `text`, at most `most` of them; `...` marks a cut."""
    text = _BREAKS.sub("\n", text[: most * 4]).replace("\t", "    ")
    text = "".join(c for c in text if c == "\n" or c in _JOINERS or unicodedata.category(c) not in _HIDDEN)
    text = _UNSEEN.sub("", _STRAY.sub("", text))
    return _cut(re.sub(r"\n{3,}", "\n\n", text).strip(), most)


def one_line(text: str, most: int) -> str:
    """Clean text on one line."""
    return _cut(" ".join(clean(text, most * 4).split()), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(most - 3, 0)].rstrip()}..."


def fitted(names: Iterable[str], taken: Iterable[str] = (), odd: re.Pattern[str] = _ODD) -> dict[str, str]:
    """A name that the provider takes for each name, by name.

    Args:
        names: any names.
        taken: names that are taken.
        odd: matches characters that a name may not have.
    """
    names = sorted(names)
    kept = {name: name for name in names if 0 < len(name) <= MAX_NAME and not odd.search(name)}
    used = {*taken, *kept}
    for name in names:
        if name in kept:
            continue
        made = odd.sub("_", name)
        if not made.strip("_-.") or len(made) > MAX_NAME or made in used:
            digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
            made = f"{made.strip('_')[: MAX_NAME - 9] or 'tool'}_{digest[:8]}"
            while made in used:
                digest = hashlib.sha256(digest.encode()).hexdigest()
                made = f"{made[:-8]}{digest[:8]}"
        used.add(made)
        kept[name] = made
    return kept


class ModelNames:
    """A model's names for one registry's tools, in both directions. Updated at the first use after a change."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._tools: tuple[Tool, ...] | None = None
        self._names: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The model's name for the tool of that name."""
        self._refresh()
        return self._names[name]

    def resolve(self, given: str) -> str | None:
        """The name of the tool with this name, model's name, identifier or ``server.tool``; None for no tool."""
        if given in self._registry:
            return given
        self._refresh()
        return self._back.get(given) or self._registry.resolve(given)

    def _refresh(self) -> None:
        tools = self._registry.tools()
        if tools is not self._tools:
            self._names = fitted((tool.name for tool in tools), ALL_META_TOOLS)
            self._back = {made: name for name, made in self._names.items() if made != name}
            self._tools = tools
