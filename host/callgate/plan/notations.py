"""References as other systems write them: ``{{s1.email}}``, ``$steps.s1.email``, ``#E1``. Finds them; compiles nothing.

A model that has learned another system writes its notation, and a tool with side effects would receive that text.

1. Only a text that names a step that exists counts, or the item of a `for_each`: ``{name}`` without such a step is
   text.
2. A text that as a whole is such a reference counts, in any notation below. In longer text a form in braces counts
   that names a step and a path into its result.
3. A name with a dot and nothing around it (``s1.email``) is text: ``data.csv`` is a file, whatever the step is called.
4. Two `$` before a brace escape it, as they do for our own references.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from .references import Names

__all__ = ["Meant", "meant_by"]

_LONGEST = 400
"""Characters of a reference."""
_ENCLOSED = (
    ("{{{", "}}}"), ("={{", "}}"), ("${{", "}}"), ("{{", "}}"), ("{%", "%}"), ("#{", "}"), ("@{", "}"), ("%{", "}"),
    ("$ref{", "}"), ("$ref(", ")"), ("$!{", "}"), ("{", "}"), ("<%=", "%>"), ("<", ">"), ("$", "$"), ("$", ""),
)  # fmt: skip
"""What stands around a reference that is a whole text: Mustache, n8n, GitHub, Jinja, Ruby, Power Automate, Velocity,
Python, ERB, XML; JSONPath, Semantic Kernel and LLMCompiler have a dollar sign."""
_WITH_PATH = (
    ("[[", "]]"), ("<<", ">>"), ("%", "%"), ("$(", ")"), ("$[", "]"), ("#[", "]"),
    ("@", ""), ("ref:", ""), ("steps", ""), ("step.", ""),
)  # fmt: skip
"""The same where a name alone means something else: a wiki's page, a variable of the shell, a person."""
_BRACES = re.compile(r"(?<!\$)(\$*)[#@%!]?(\{{1,3})([^{}]{1,400})\}")
_LEAD = re.compile(r"[\s$#=.@]*")
_SCOPE = re.compile(
    r"(?:steps?|tasks?|nodes?|needs|jobs?|outputs?|results?|refs?|vars?|variables|states?|context|dependencies)"
    r"(?:\s*[.:/]|(?=[\[(]))",
    re.IGNORECASE,
)
"""Where other systems keep results: ``steps.s1``, ``outputs.s1``, ``$node["s1"]``."""
_SCOPES = 4
"""So many words stand before a step's id, for example ``$steps.outputs.s1``."""
_CALL = re.compile(r"""[\w.]{0,60}\(\s*(?:\w{1,30}\s*=\s*)?\[?\s*(['"])(?P<name>[^'"]{1,256})\1[^()]{0,100}\)""")
"""``outputs('s1')``, ``ti.xcom_pull(task_ids='s1')``, ``$('s1')``."""
_KEY = re.compile(r"""\[\s*(['"])(?P<name>[^'"]{1,256})\1\s*\]""")
_POSITION = re.compile(r"\[\s*([0-9]{1,6})\s*\]|([0-9]{1,6})(?![\w-])")
_NUMBERED = re.compile(r"(?:step[_-]?)?([0-9]{1,6})(?![\w-])", re.IGNORECASE)
"""LLMCompiler and Make count from 1: ``$1``, ``{{1.email}}``; so do those who write ``{{step1.email}}``."""
_WORD = re.compile(r"(?:\w|-(?!>)){1,256}")
_PART = re.compile(
    r"""(?:\??\.|->)\s?(\w+(?:[ -]\w+)*)(?:\(\))?|\??\.?\[\s*(-?[0-9]{1,9}|\*|"[^"]*"|'[^']*'|[^\W\d][\w-]*)\s*\]"""
)
"""``.email``, Blade's ``->email``, ``[0]``, ``['email']``, Python's ``[email]``."""
_TAIL = re.compile(r"\s*[#%]?\s*(?:(?:\||\?\?|![rsa]|:[^:]).*)?", re.DOTALL)
"""A filter, a default, a format."""
_RESULT = frozenset({"output", "outputs", "result", "results", "json"})
"""What other systems write between a step and a path into its result."""
_EVIDENCE = re.compile(r"#(E([0-9]{1,4}))((?:[.\[].{1,256})?)")
"""ReWOO counts from 1. A path may follow."""
_RESOURCE = re.compile(r"<(?:node|resource|step)-([0-9]{1,4})>|<GENERATED>-([0-9]{1,4})")
"""TaskBench and HuggingGPT count from 0."""


class Meant(NamedTuple):
    """A reference in another notation."""

    shown: str
    """As it is written."""
    reference: str
    """The same as we write it after ``$ref:`` and within ``${}``."""
    is_whole: bool
    """It is the whole text."""
    of_item: bool
    """It is about the item of a `for_each`."""


class _Form(NamedTuple):
    """What may be a reference."""

    shown: str
    inside: str
    is_whole: bool
    needs_path: bool
    alone: bool
    """It holds a reference and nothing else; otherwise anything may follow."""


def meant_by(text: str, names: Names, own: str) -> Meant | None:
    """The first reference in another notation in a text, if there is one.

    Args:
        text: as it is written.
        names: what there is to refer to; they bound how much of a plan is looked at.
        own: the id of the step in which the text stands.
    """
    if "{" in text and len(text) > _LONGEST and not names.may_look(len(text)):
        return None
    for form in _forms(text):
        if not names.may_look(_LONGEST):
            return None
        found = _counted(form.shown, names) if form.is_whole else None
        found = found or _read(form, names, own)
        if found is not None:
            of_item = names.item and found.partition(".")[0].partition("[")[0] in ("item", "index")
            return Meant(form.shown, found, form.is_whole, of_item)
    return None


def _forms(text: str) -> Iterator[_Form]:
    whole = text.strip()
    if 1 < len(whole) <= _LONGEST:
        yield from _whole_forms(whole)
    if "{" in text:
        for match in _BRACES.finditer(text):
            dollars, opening, inside = match.groups()
            if not dollars or (len(dollars) % 2 and opening != "{"):  # otherwise it is escaped, or our own
                yield _Form(match.group(), inside, False, True, opening == "{")


def _whole_forms(text: str) -> Iterator[_Form]:
    if text[0] not in "{=$<#%@[rs" or text.startswith("$$") or (text[:2] == "${" and text[:3] != "${{"):
        return
    for pairs in (_ENCLOSED, _WITH_PATH):
        for opening, closing in pairs:
            if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
                is_word = opening[0] in "rs"
                inside = text if is_word else text[len(opening) : len(text) - len(closing)]
                if set("{}<>").isdisjoint(inside):
                    yield _Form(text, inside, True, pairs is _WITH_PATH, not opening.endswith("{{"))
    if _EVIDENCE.fullmatch(text) or _RESOURCE.fullmatch(text):
        yield _Form(text, "", True, True, True)


def _counted(text: str, names: Names) -> str | None:
    """The step that ``#E1`` or ``<node-0>`` means."""
    if (evidence := _EVIDENCE.fullmatch(text)) is not None:
        name = evidence[1] if evidence[1] in names.ids else names.at(int(evidence[2]) - 1)
        start, path = 0, ""
        while (part := _PART.match(evidence[3], start)) is not None:
            start, path = part.end(), path + _segment(part)
        return None if name is None or start < len(evidence[3]) else f"{name}{path}"
    resource = _RESOURCE.fullmatch(text)
    return None if resource is None else names.at(int(resource[1] or resource[2]))


def _read(form: _Form, names: Names, own: str) -> str | None:
    """The reference as we write it; None where it is none."""
    text = form.inside.strip()
    start, is_scoped = 0, False
    for _ in range(_SCOPES):
        lead = _LEAD.match(text, start)
        start = start if lead is None else lead.end()
        found = _named(text, start, names, own, is_scoped)
        if found is not None:
            break
        scope = _SCOPE.match(text, start)
        if scope is None:
            return None
        start, is_scoped = scope.end(), True
    else:
        return None
    name, start = found
    path, has_path = "", form.is_whole and (is_scoped or text[start - 1] == ")")
    while (part := _PART.match(text, start)) is not None:
        start, has_path = part.end(), True
        if path or (part[1] or part[2].strip("'\"")) not in _RESULT:
            path += _segment(part)
    if not has_path and (form.needs_path or name == own):  # ``<b>`` in the step `b`: no step refers to itself
        return None
    tail = _TAIL.match(text, start)
    if form.alone and (tail is None or tail.end() < len(text)):
        return None
    return f"{name}{path}"


def _named(text: str, start: int, names: Names, own: str, is_scoped: bool) -> tuple[str, int] | None:
    """The id of a step that stands at `start`, or ``item``, and where it ends."""
    if (found := names.step_at(text, start)) is not None:
        return found
    for pattern in (_CALL, _KEY):
        match = pattern.match(text, start)
        if match is not None and match["name"] in names.ids:
            return match["name"], match.end()
    word = _WORD.match(text, start)
    if word is not None and (word.group() in names.ids or (names.item and word.group() in ("item", "index"))):
        return word.group(), word.end()
    position = _POSITION.match(text, start) if is_scoped else _NUMBERED.match(text, start)
    if position is None:
        return None
    if is_scoped:
        name = names.at(int(position[1] or position[2]))
    else:  # a number alone counts the steps before this one where they have no ids of their own; else it is a number
        name = names.at(int(position[1]) - 1)
        is_price = position[1] == position.group() and name is not None and not name.startswith("steps[")
        if is_price or name is None or names.ids[name] >= names.ids.get(own, -1):
            return None
    return None if name is None else (name, position.end())


def _segment(part: re.Match[str]) -> str:
    """A part of a path as we write it."""
    name, index = part[1], part[2]
    if name is None and index[0] in "*-0123456789":
        return f"[{index}]"
    name = index.strip("'\"") if name is None else name
    return f".{name}" if _WORD.fullmatch(name) else f"['{name}']"
