"""Names that nothing binds, and names that a program leaves behind for the next one of its session.

Knows which names every program has; refuses to guess where a program may bind unseen.

An error here stops a run, so it is one only where the name is certain not to exist. Rules:

1. The whole check is silent when the program can bind names that the text does not show: a star import, `exec`, `eval`,
   `globals()`, `locals()`, `vars()`, the module `builtins`, or a namespace reached by an attribute.
2. A name in a `try` that catches `NameError` is silent; in one that catches everything it is a warning.
3. A name in an annotation is a warning: whether it is ever evaluated depends on the version of Python.
4. A name is reported once, where it stands first.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Final

from .findings import Finding, Severity, nearest, shown
from .survey import MOST_TRIES, Scope, Survey, survey
from .syntax import DEFAULT_MAX_SOURCE_BYTES, parse_program
from .tool_names import NONE, Namespaces

__all__ = ["GIVEN_NAMES", "bound_names", "unknown_names"]

GIVEN_NAMES: Final = frozenset({"tools", "tool_call", "ToolError", "ApprovalDenied", "UnknownOutcome", "display"})
"""Names that every program has without an import, besides its tools."""

_OF_OTHER_VERSIONS: Final = frozenset({
    "PythonFinalizationError", "WindowsError", "exit", "help", "quit",
})  # fmt: skip
_OF_A_MODULE: Final = frozenset({
    "__annotate__", "__annotations__", "__builtins__", "__cached__", "__conditional_annotations__", "__dict__",
    "__doc__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__",
})  # fmt: skip
_OF_A_CLASS: Final = frozenset({
    "__class__", "__classcell__", "__classdict__", "__firstlineno__", "__module__", "__qualname__",
    "__static_attributes__", "__type_params__",
})  # fmt: skip
_OF_THE_PROMPT: Final = frozenset({"copyright", "credits", "license"})
"""Names that `site` adds for a prompt, and that no program has."""
_BUILT_IN: Final = tuple(name for name in dir(builtins) if name not in _OF_THE_PROMPT)
_KNOWN: Final = frozenset(_BUILT_IN) | GIVEN_NAMES | _OF_OTHER_VERSIONS | _OF_A_MODULE | _OF_A_CLASS

_OPAQUE_NAMES: Final = frozenset({
    "__builtins__", "__dict__", "__import__", "eval", "exec", "global_enum", "globals", "locals", "vars",
})  # fmt: skip
_OPAQUE_MODULES: Final = frozenset({"__main__", "builtins", "importlib"})
_OPAQUE_ATTRIBUTES: Final = frozenset({
    "__builtins__", "__dict__", "__globals__", "_convert_", "f_builtins", "f_globals", "f_locals", "global_enum",
    "import_module", "modules",
})  # fmt: skip
_CATCH_ALL: Final = frozenset({"Exception", "BaseException"})

_DEEPEST: Final = 40
_MOST_NAMES: Final = 20

_WRITE_INSTEAD: Final = {
    "true": "write `True`", "false": "write `False`", "null": "write `None`", "undefined": "write `None`",
    "nil": "write `None`", "raw_input": "a program cannot ask for input; it gets its `inputs` as variables",
    "unicode": "write `str`", "xrange": "write `range`", "basestring": "write `str`", "unichr": "write `chr`",
    "console": "write `print(...)`",
}  # fmt: skip
_IMPORT_FROM: Final = {
    "defaultdict": "collections", "Counter": "collections", "OrderedDict": "collections", "deque": "collections",
    "namedtuple": "collections", "datetime": "datetime", "timedelta": "datetime", "timezone": "datetime",
    "date": "datetime", "dataclass": "dataclasses", "field": "dataclasses", "asdict": "dataclasses",
    "reduce": "functools", "partial": "functools", "lru_cache": "functools", "wraps": "functools",
    "chain": "itertools", "product": "itertools", "combinations": "itertools", "permutations": "itertools",
    "groupby": "itertools", "islice": "itertools", "Decimal": "decimal", "Fraction": "fractions", "Path": "pathlib",
    "Enum": "enum", "mean": "statistics", "median": "statistics", "stdev": "statistics", "sqrt": "math",
    "ceil": "math", "floor": "math", "log": "math", "pi": "math", "gather": "asyncio", "sleep": "asyncio",
    "Any": "typing", "Optional": "typing", "List": "typing", "Dict": "typing", "Tuple": "typing", "Union": "typing",
    "Callable": "typing", "NamedTuple": "typing", "TypedDict": "typing", "StringIO": "io", "deepcopy": "copy",
    "itemgetter": "operator", "suppress": "contextlib", "contextmanager": "contextlib", "uuid4": "uuid",
}  # fmt: skip


def unknown_names(
    seen: Survey,
    tools: Collection[str],
    known_names: Collection[str],
    namespaces: Namespaces = NONE,
    why_absent: Callable[[str], str | None] | None = None,
) -> Iterator[Finding]:
    """A finding for each name that is used and certain not to exist."""
    missing = _missing(seen, tools, known_names, namespaces)
    if not missing or _binds_unseen(seen):
        return
    missing.sort(key=lambda found: (found[0].lineno, found[0].col_offset), reverse=True)
    first = {node.id: (node, scope) for node, scope in missing}
    for node, scope in list(reversed(first.values()))[:_MOST_NAMES]:
        severity = _severity(node, scope, seen)
        if severity is None:
            continue
        absent = None if why_absent is None else why_absent(node.id)
        hint = absent or _hint(node.id, scope, tools, known_names, namespaces)
        yield Finding.at(node, "unknown-name", f"`{shown(node.id)}` is not defined", hint, severity)


def _missing(
    seen: Survey, tools: Collection[str], known_names: Collection[str], namespaces: Collection[str]
) -> list[tuple[ast.Name, Scope]]:
    module = set(seen.module.stores)
    missing: list[tuple[ast.Name, Scope]] = []
    for scope in seen.scopes:
        visible: list[set[str]] | None = None
        for node in scope.uses:
            name = node.id
            if name in module or name in _KNOWN or name in tools or name in known_names or name in namespaces:
                continue
            if visible is None:
                if scope.depth > _DEEPEST:
                    break
                visible = _visible(scope)
            if not any(name in names for names in visible):
                missing.append((node, scope))
    return missing


def _visible(scope: Scope) -> list[set[str]]:
    """The names a scope sees without the module's. Those of a class are not seen from the functions in it."""
    visible: list[set[str]] = []
    in_function = False
    inner: Scope | None = scope
    while inner is not None:
        if inner.kind != "class" or not in_function:
            visible.append(inner.bound)
        in_function = in_function or inner.kind in ("def", "async", "lambda")
        inner = inner.parent
    return visible


def _binds_unseen(seen: Survey) -> bool:
    if seen.star_import:
        return True
    for node, _ in seen.imports:
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
        if not _OPAQUE_MODULES.isdisjoint(modules):
            return True
    return any(attribute.attr in _OPAQUE_ATTRIBUTES for attribute in seen.attributes) or any(
        use.id in _OPAQUE_NAMES for scope in seen.scopes for use in scope.uses
    )


def _severity(node: ast.Name, scope: Scope, seen: Survey) -> Severity | None:
    severity: Severity = "warning" if len(seen.tries) > MOST_TRIES else "error"
    if scope.kind == "annotation":
        if seen.lazy_annotations:
            return None
        severity = "warning"
    for guard in seen.guards(node.lineno):
        caught = _caught(guard)
        if "NameError" in caught:
            return None
        if caught & _CATCH_ALL:
            severity = "warning"
    return severity


def _caught(guard: ast.Try) -> set[str]:
    """Names of the exceptions a `try` catches, `Exception` for one that is not a plain name."""
    caught = set()
    for handler in guard.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        caught |= {kind.id if isinstance(kind, ast.Name) else "Exception" for kind in kinds}
    return caught


def _hint(name: str, scope: Scope, tools: Collection[str], known_names: Collection[str], namespaces: Namespaces) -> str:
    if name in _WRITE_INSTEAD:
        return _WRITE_INSTEAD[name]
    if name in _IMPORT_FROM:
        return f"write `from {_IMPORT_FROM[name]} import {name}` first"
    if name in sys.stdlib_module_names:
        return f"write `import {name}` first"
    for namespace, members in namespaces.items():
        if name in members:
            return f"did you mean `{namespace or 'tools'}.{name}`?"
    own: list[str] = []
    inner: Scope | None = scope
    while inner is not None:
        own += inner.stores[:500]
        inner = inner.parent
    guess = nearest(name, own[:1000], GIVEN_NAMES, _BUILT_IN, filter(None, namespaces), tools, known_names)
    if guess is not None:
        return f"did you mean `{guess}`?"
    return "assign it, import it, or pass it in as an input before it is used"


def bound_names(source: str, *, max_source_bytes: int = DEFAULT_MAX_SOURCE_BYTES) -> frozenset[str]:
    """Names that a program may bind at its top level; empty if the source is not a program. Never raises.

    ``from tools import get_weather`` is left out: the name stands for the tool, as before.
    """
    tree = parse_program(source, max_source_bytes=max_source_bytes)
    if isinstance(tree, Finding):
        return frozenset()
    seen = survey(tree)
    names = Counter(seen.module.stores)
    for node, scope in seen.imports:
        if scope is seen.module:
            of_tools = isinstance(node, ast.ImportFrom) and node.module == "tools" and not node.level
            for alias in node.names:
                itself = of_tools or (isinstance(node, ast.Import) and alias.name == "tools")
                if itself and alias.asname is None:
                    names[alias.name] -= 1
    return frozenset(name for name, count in names.items() if count > 0)
