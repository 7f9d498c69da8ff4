"""`check_program`: all findings about a program before it runs. Knows only the order of the checks.

1. Too large or not parseable: only this finding, because nothing else can be known. Too many tokens to be parsed here
   is a warning, since the sandbox can parse the program; under the restricted policy it is an error.
2. Not compilable, or an `await` in a plain `def`: reported with the findings of the other checks. A program that is
   long, or costly to compile, is not compiled here: the sandbox reports its faults before it runs anything.
3. Names, tools, awaits; then, if asked for, the restricted policy.

Errors stop a run and warnings do not. A false error blocks a valid program, which is far worse than a missed error: a
check that is not certain reports nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, Literal

from .already_waited import already_waited
from .findings import Finding, ToolShape
from .hidden_fields import hidden_fields
from .names import unknown_names
from .not_awaited import awaits_in_def, never_awaited, never_called
from .restricted_lists import DEFAULT_ALLOWED_IMPORTS
from .survey import survey
from .syntax import DEFAULT_MAX_SOURCE_BYTES, compile_fault, has_many_tokens, parse_program
from .tool_names import NONE, Namespaces, ToolNames
from .tool_use import tool_findings

__all__ = ["Policy", "check_program"]

Policy = Literal["none", "restricted"]

_MOST_OF_A_KIND: Final = 20


def check_program(
    source: str,
    tools: Sequence[ToolShape] | Mapping[str, ToolShape],
    *,
    namespaces: Namespaces = NONE,
    resolve: Callable[[str], str | None] = str,
    why_absent: Callable[[str], str | None] | None = None,
    inputs: Collection[str] = (),
    policy: Policy = "none",
    allowed_imports: Collection[str] | None = None,
    max_source_bytes: int = DEFAULT_MAX_SOURCE_BYTES,
    known_names: Collection[str] = (),
    names_known: bool = True,
    session: bool = False,
    replays: bool = False,
    tree: ast.Module | Finding | None = None,
) -> list[Finding]:
    """Findings in a program, sorted by place. Executes nothing and never raises, whatever the source.

    Args:
        source: the program.
        tools: the tools that it may call. A mapping by their Python names saves a copy when there are thousands.
        namespaces: for each server the names among `tools`, by the tools' names in that namespace. The namespace ``""``
            is the module `tools`, with its further names.
        resolve: name among `tools` for the name in ``tool_call("...")``; by default the same name.
        why_absent: why an expected tool or server of that name is missing; None for any other name.
        inputs: names of the variables that the run binds.
        policy: ``"restricted"`` adds the language policy of `restricted.py`.
        allowed_imports: modules the restricted policy allows; None means `DEFAULT_ALLOWED_IMPORTS`.
        max_source_bytes: UTF-8 bytes a program may have; a larger program gets one finding and is not parsed.
        known_names: variables that earlier programs of the session have bound; superfluous names do no harm.
        names_known: False if these variables cannot be known: then no name is reported as unknown.
        session: whether another program with the variables of this one may follow.
        replays: whether its run can be replayed.
        tree: what `parse_program` returned for it, if the caller has parsed it. Top-level `return`s of it are replaced.
    """
    if tree is None:
        tree = parse_program(source, max_source_bytes=max_source_bytes)
    if isinstance(tree, Finding) and tree.code == "too-complex" and policy == "none" and has_many_tokens(source):
        message = f"{tree.message}: it was not looked at before it ran"
        return [replace(tree, message=message, severity="warning")]
    if isinstance(tree, Finding):
        return [_placed(tree, source)]
    seen = survey(tree)
    if seen.too_complex is not None:
        message = "the comprehension has more `for` clauses than can be compiled"
        return [Finding("too-complex", seen.too_complex.lineno, 1, message, "write it as loops")]
    shapes = tools if isinstance(tools, Mapping) else {shape.name: shape for shape in tools}
    bound = (*known_names, *inputs) if inputs or known_names else ()
    earlier = frozenset(bound)
    found: list[Finding] = []
    _add(found, awaits_in_def(seen))
    if names_known:
        _add(found, unknown_names(seen, shapes, earlier, namespaces, why_absent))
    if seen.calls or seen.imports or seen.attributes:
        known = ToolNames(seen, shapes, earlier, namespaces, resolve)
        _add(found, tool_findings(seen, known, why_absent))
        _add(found, never_awaited(seen, known, session=session))
        _add(found, already_waited(seen, known))
        _add(found, hidden_fields(seen, known))
    if replays:
        from .not_replayable import not_replayable  # few runs can be replayed

        _add(found, not_replayable(seen))
    if policy == "restricted":
        allowed = DEFAULT_ALLOWED_IMPORTS if allowed_imports is None else frozenset(allowed_imports)
        from .restricted import restricted_findings  # RestrictedPython comes with it

        _add(found, restricted_findings(tree, allowed))
    if seen.should_compile(source) and not seen.awaits_in_def:
        fault = compile_fault(tree, source, returns_at_top_level=bool(seen.top_level_returns))
        if fault is not None:
            found.append(fault)
    if seen.functions and not any(finding.severity == "error" for finding in found):
        _add(found, never_called(seen, session=session))
    if len(found) > 1:
        found.sort(key=lambda finding: (finding.line, finding.column))
    return [_placed(finding, source) for finding in found] if found and not source.isascii() else found


def _add(found: list[Finding], more: Iterable[Finding]) -> None:
    """Take at most twenty findings of a kind: a model mends a few at a time, and the work has to stay bounded."""
    found.extend(islice(more, _MOST_OF_A_KIND))


def _placed(finding: Finding, source: str) -> Finding:
    """The finding with its column in characters; the tree counts UTF-8 bytes."""
    if source.isascii() or finding.column == 1 or finding.code in ("syntax", "too-complex"):
        return finding
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if finding.line > len(lines):
        return finding
    before = lines[finding.line - 1].encode("utf-8", "surrogatepass")[: finding.column - 1]
    return replace(finding, column=len(before.decode("utf-8", "ignore")) + 1)
