"""Find references in the notation of other systems: ``{{s1.email}}``, ``$steps.s1.email``, ``#E1``.

A model that has learned another system writes its notation, and a tool with side effects would receive that text.

1. A text counts only if it names a step that exists, or the item of a `for_each`: ``{name}`` without such a step is
   text.
2. A whole text counts if marks or a word such as ``steps.`` lead to the step, and only a filter or closing marks
   follow. In longer text a form in braces counts if it names a step and a path into its result.
3. A name with a dot and nothing around it (``s1.email``) is text: ``data.csv`` is a file, whatever the step is called.
4. Two `$` before a brace escape it, as they do for our own references.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .references import Names

__all__ = ["Meant", "meant_by"]

_LONGEST = 400
"""Characters of a reference."""
_TEXT = re.compile(r"^\$\$|\$\{(?!\{)|^#(?!E[0-9]|[\[{])")
"""A whole text that is escaped, holds our own notation, or is a tag such as ``#s1.active``."""
_ALONE = re.compile(r"""[={]|#(?!\[)|[@%]\{|<(?!<)|\$(?!\(|\[(?!['"]))""")
"""Marks after which a step's name is a reference. After others (``@s1``, ``[[s1]]``, ``%s1%``, ``$(s1)``) a name alone
is a person, a page or a variable of the shell; there a path is needed."""
_BRACES = re.compile(r"(?<!\$)(\$*)[#@%!]?(\{{1,3})([^{}]{1,400})\}")
_MARKS = re.compile(r"(?:[\s={$<#%@!.]|\[\[|[\[(](?=\s*['\"])|ref[{(]|(?<=\$)[(\[]|(?<=#)\[)*")
_SCOPE = re.compile(
    r"(?:steps?|tasks?|nodes?|needs|jobs?|outputs?|results?|refs?|vars?|variables|states?|context|dependencies)"
    r"(?:\s*[.:/]|(?=[\[(]))",
    re.IGNORECASE,
)
"""Where other systems keep results: ``steps.s1``, ``outputs.s1``, ``$node["s1"]``."""
_SCOPES = 4
"""Words that may stand before a step's id, for example ``$steps.outputs.s1``."""
_QUOTED = re.compile(
    r"""(?:[\w.]{0,60}\(\s*(?:\w{1,30}\s*=\s*)?\[?\s*)?(['"])([^'"]{1,256})\1(?:\](?=\)))?[^()\[\]]{0,100}[\])]"""
)
"""``outputs('s1')``, ``ti.xcom_pull(task_ids='s1')``, ``["s1"]``."""
_POSITION = re.compile(r"\[\s*([0-9]{1,6})\s*\]")
_DOTTED = re.compile(r"(?<=\w[.:/])([0-9]{1,6})(?![\w-])")
"""``steps.0``, ``{{steps.0.email}}`` count from 0."""
_EVIDENCE = re.compile(r"(?<=#)E([0-9]{1,4})(?!\w)")
"""ReWOO counts from 1."""
_RESOURCE = re.compile(r"(?<=<)(?:node|resource|step|GENERATED>)-([0-9]{1,4})(?=>|$)")
"""TaskBench and HuggingGPT count from 0."""
_NUMBERED = re.compile(r"(?:step[_-]?)?([0-9]{1,6})(?![\w-])", re.IGNORECASE)
"""LLMCompiler and Make count from 1: ``$1``, ``{{1.email}}``; models also write ``{{step1.email}}``."""
_WORD = re.compile(r"(?:\w|-(?!>)){1,256}")
_PART = re.compile(
    r"""(?:\??\.|->)\s?(\w+(?:[ -]\w+)*)(?:\(\))?|\??\.?\[\s*(-?[0-9]{1,9}|\*|"[^"]*"|'[^']*'|[^\W\d][\w-]*)\s*\]"""
)
"""``.email``, Blade's ``->email``, ``[0]``, ``['email']``, Python's ``[email]``."""
_TAIL = re.compile(r"\s*(?:(?:\||\?\?|![rsa]|:[^:]).*)?[\s})>\]%$#]*", re.DOTALL)
"""A filter, a default, a format; and what closes the reference."""
_RESULT = frozenset({"output", "outputs", "result", "results", "json"})
"""Words of other systems between a step and a path into its result."""


class Meant(NamedTuple):
    """A reference in another notation."""

    shown: str
    """The reference as written."""
    reference: str
    """The reference as we write it after ``$ref:`` and within ``${}``."""
    is_whole: bool
    """Whether the reference is the whole text."""
    of_item: bool
    """Whether the reference means the item of a `for_each`."""


def meant_by(text: str, names: Names, own: str) -> Meant | None:
    """Return the first reference in another notation in a text, if there is one.

    Args:
        text: as written.
        names: what there is to refer to; they bound how much of a plan is looked at.
        own: the id of the step in which the text stands.
    """
    whole = text.strip()
    if 1 < len(whole) <= _LONGEST and not _TEXT.search(whole) and names.may_look(_LONGEST):
        found = _read(whole, names, own, needs_path=_ALONE.match(whole) is None)
        if found is not None and _is_closed(whole):
            return _meant(whole, found, names, is_whole=True)
    if "{" not in text or (len(text) > _LONGEST and not names.may_look(len(text))):
        return None
    for match in _BRACES.finditer(text):
        dollars, opening, inside = match.groups()
        if dollars and (len(dollars) % 2 == 0 or opening == "{"):  # escaped, or our own
            continue
        if not names.may_look(_LONGEST):
            return None
        is_long = opening == "{" or len(whole) > _LONGEST
        needs_path = is_long or match.group().strip("}") != whole.strip("=}")  # not so ``{{ s1 + 1 }}``
        found = _read(inside, names, own, needs_path=needs_path, needs_end=opening == "{", in_braces=True)
        if found is not None:
            return _meant(match.group(), found, names, is_whole=False)
    return None


def _meant(shown: str, found: str, names: Names, *, is_whole: bool) -> Meant:
    of_item = names.item and found.partition(".")[0].partition("[")[0] in ("item", "index")
    return Meant(shown, found, is_whole, of_item)


def _is_closed(text: str) -> bool:
    """Whether every brace and angle that a text opens is closed in it."""
    return text.count("{") == text.count("}") and text.count("<") <= text.count(">")


def _read(
    text: str, names: Names, own: str, *, needs_path: bool, needs_end: bool = True, in_braces: bool = False
) -> str | None:
    """Return the reference as we write it; None for plain text."""
    start, is_scoped = 0, in_braces
    for _ in range(_SCOPES):
        start = _MARKS.match(text, start).end()  # type: ignore[union-attr]  # matches anywhere
        found = _named(text, start, names, own) if start or is_scoped else None
        if found is not None:
            break
        scope = _SCOPE.match(text, start)
        if scope is None:
            return None
        start, is_scoped = scope.end(), True
    else:
        return None
    name, start = found
    stands_alone = not needs_path or (is_scoped and not in_braces) or text[start - 1] == ")"
    path, has_path = "", False
    while (part := _PART.match(text, start)) is not None:
        start, has_path = part.end(), True
        if path or (part[1] or part[2].strip("'\"")) not in _RESULT:
            path += _segment(part)
    if not has_path and (not stands_alone or name == own):  # ``<b>`` in the step `b`: no step refers to itself
        return None
    return f"{name}{path}" if not needs_end or _TAIL.fullmatch(text, start) else None


def _named(text: str, start: int, names: Names, own: str) -> tuple[str, int] | None:
    """Return the id of the step that stands at `start`, or ``item``, and where the name ends."""
    if (found := names.step_at(text, start)) is not None:
        return found
    if (quoted := _QUOTED.match(text, start)) is not None and quoted[2] in names.ids:
        return quoted[2], quoted.end()
    word = _WORD.match(text, start)
    if word is not None and (word.group() in names.ids or (names.item and word.group() in ("item", "index"))):
        return word.group(), word.end()
    for pattern, first in ((_POSITION, 0), (_DOTTED, 0), (_RESOURCE, 0), (_EVIDENCE, 1), (_NUMBERED, 1)):
        counted = pattern.match(text, start)
        name = None if counted is None else names.at(int(counted[1]) - first)
        if counted is None or name is None:
            continue
        is_price = counted[1] == counted.group() and not name.startswith("steps[")  # a number beside steps with ids
        if pattern is not _NUMBERED or not (is_price or names.ids[name] >= names.ids.get(own, -1)):
            return name, counted.end()
    return None


def _segment(part: re.Match[str]) -> str:
    """Return a part of a path as we write it."""
    name, index = part[1], part[2]
    if name is None and index[0] in "*-0123456789":
        return f"[{index}]"
    name = index.strip("'\"") if name is None else name
    return f".{name}" if _WORD.fullmatch(name) else f"['{name}']"
