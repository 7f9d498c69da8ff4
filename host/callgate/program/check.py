"""`check_program`: all there is to say about a program before it runs. Knows the order of the looks, nothing else.

1. Too large or not parseable: that finding alone, because nothing else can be known. Of a program with too many tokens
   to be parsed here it is a warning, since its sandbox can parse it; under the restricted policy it is an error.
2. Not compilable, or an `await` in a plain `def`: reported with whatever the other looks find. What is long, or costs
   the compiler much, is not compiled here: the sandbox says so before it runs anything.
3. Names, tools, awaits; then, if asked for, the restricted policy.

Errors stop a run and warnings do not. A false error blocks a valid program, which is far worse than a missed one: each
look is silent where it is not certain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, Literal

from .awaiting import awaits_in_def, never_awaited, never_called
from .findings import Finding, ToolShape
from .hidden_fields import hidden_fields
from .names import unknown_names
from .restricted_lists import DEFAULT_ALLOWED_IMPORTS
from .survey import survey
from .syntax import DEFAULT_MAX_SOURCE_BYTES, compile_fault, has_many_tokens, parse_program
from .tool_names import NONE, Namespaces, ToolNames
from .tool_use import tool_findings
from .waited import already_waited

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
) -> list[Finding]:
    """Findings in a program, sorted by place. Executes nothing and never raises, whatever the source.

    Args:
        source: the program.
        tools: the tools it may call. A mapping from their Python names saves the copy where there are thousands.
        namespaces: of servers: their tools' names among `tools`, by what they are called there. The namespace ``""``
            is the module `tools`: what may be written there besides.
        resolve: the tool that ``tool_call("...")`` finds for a name, as among `tools`; by default the one of that name.
        why_absent: why the tool or server of that name is not there, though it is expected; None: none is.
        inputs: names of the variables that the run binds.
        policy: ``"restricted"`` adds the language policy of `restricted.py`.
        allowed_imports: modules the restricted policy allows; None means `DEFAULT_ALLOWED_IMPORTS`.
        max_source_bytes: UTF-8 bytes a program may have; a larger one gets one finding, and is not parsed.
        known_names: variables that earlier programs of the session have bound; too many do no harm.
        names_known: False where those cannot be known: then no name is reported as unknown.
        session: whether another program may follow that has the variables of this one.
    """
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
    """At most twenty of a kind: a model mends a few at a time, and the work behind each must stay bounded."""
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
