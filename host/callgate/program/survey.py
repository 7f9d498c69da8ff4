"""One walk over a program's tree: which scope binds and uses which names, which calls it makes, where they stand.

Knows Python's scoping. Refuses to know what any of it means: tools, `await` and did-you-mean are other files' business.

Rules:

1. The walk is a loop with its own stack, never a recursion: a chain of 100,000 operators is a tree 100,000 deep.
2. It does not follow the order of execution. A name counts as bound in its scope if it is bound there anywhere,
   whatever `if`, `del` or `except … as` may do to it. This misses some unbound names and never invents one.
3. A comprehension binds into the scope around it, and type parameters into the module, for the same reason.
4. It is the hot path of every run (about 25 µs for ten lines): names and constants are handled inline, the rest through
   one table from the node's class to what is to be done.
"""

from __future__ import annotations

import ast
from ast import Attribute, Call, Constant, Load, Name, Starred
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Final, Literal, cast

from .findings import Severity

__all__ = ["AnyImport", "Scope", "ScopeKind", "Survey", "survey"]

ScopeKind = Literal["module", "def", "async", "lambda", "class", "annotation"]
AnyImport = ast.Import | ast.ImportFrom

MANY_NODES: Final = 400
"""From this size on a tree is compiled to see whether it can be; a smaller one of harmless statements always can."""
MOST_CLAUSES: Final = 200
"""`for` clauses of one comprehension. CPython 3.11 crashes at some 30,000 (its compiler recurses without a guard)."""
MOST_COMPILED: Final = 8 * 1024
"""Characters of a source that is compiled on the host. Much in CPython's compiler is quadratic: names of a function by
scopes within it, functions of one form, keyword arguments. Up to here, each takes below 0.1 s."""
MOST_COPIES: Final = 32 * 1024
"""Characters times how often each may be compiled: a `finally` is compiled twice, and once more for each way out of its
`try`, with every `finally` in it. Twenty within each other take 5 s, and thirty more memory than there is."""
MOST_CAPTURES: Final = 500
"""Names that the patterns of a program bind: those of one pattern are compared each with each. 2,700 take 0.4 s."""

MOST_TRIES: Final = 1_000
"""`try` statements that are looked through for one fault. Where there are more, every fault may be caught."""


@dataclass(eq=False)
class Scope:
    """A module, a function or a class: what it binds and what it uses."""

    kind: ScopeKind
    name: str
    parent: Scope | None
    node: ast.AST
    body: Iterable[ast.AST]
    stores: list[str] = field(default_factory=list)
    uses: list[Name] = field(default_factory=list)
    has_yield: bool = False
    has_generator_expression: bool = False

    def __post_init__(self) -> None:
        self.depth: int = 0 if self.parent is None else self.parent.depth + 1

    @cached_property
    def bound(self) -> set[str]:
        """The names in `stores`; asked for once the walk is over."""
        return set(self.stores)


class Survey:
    """What the walk saw."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope("module", "", None, tree, tree.body)
        self.scopes: list[Scope] = [self.module]
        self.calls: list[tuple[Call, Scope]] = []
        self.parents: dict[ast.expr, ast.AST] = {}
        """The node around each call."""
        self.attributes: list[Attribute] = []
        self.imports: list[tuple[AnyImport, Scope]] = []
        self.functions: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Scope]] = []
        self.tries: list[ast.Try] = []
        self.awaits_in_def: list[tuple[ast.expr, Scope]] = []
        self.top_level_returns: list[ast.Return] = []
        self.star_import = False
        self.lazy_annotations = False
        self.too_complex: ast.expr | None = None
        self.nodes = 0
        self.blocks = 0
        self.finals = 0
        """`try` statements with a `finally`."""
        self.exits = 0
        """`return`, `break` and `continue` statements."""
        self.captures = 0
        """Names that patterns and `except` bind."""
        self.unusual = 0
        """Statements that the parser takes in places where the compiler does not."""

    @cached_property
    def counts(self) -> Counter[str]:
        """How often the program binds each name, in whatever scope."""
        return Counter(chain.from_iterable(scope.stores for scope in self.scopes))

    def guards(self, line: int) -> Iterator[ast.Try]:
        """The `try` statements that a line stands in, where its errors are caught."""
        for guard in self.tries[:MOST_TRIES]:
            last = guard.body[-1]
            if guard.lineno <= line <= (last.end_lineno or last.lineno):
                yield guard

    def severity(self, line: int) -> Severity:
        """Of a fault at a line: a warning where a `try` may be there to catch it."""
        return "warning" if len(self.tries) > MOST_TRIES or any(self.guards(line)) else "error"

    def should_compile(self, source: str) -> bool:
        """Whether only the compiler can tell that the tree compiles, and asking it is cheap enough."""
        if not self.unusual and self.nodes <= MANY_NODES and self.blocks < 20:
            return False
        if len(source) > MOST_COMPILED or self.captures > MOST_CAPTURES:
            return False
        copies: int = (2 + self.exits) ** min(self.finals, 64)
        return len(source) * copies <= MOST_COPIES


def survey(tree: ast.Module) -> Survey:
    """Walks the tree. Time and memory are linear in its size; no tree makes it raise."""
    seen = Survey(tree)
    for scope in seen.scopes:  # grows as the walk finds functions and classes
        _collect(scope, seen)
    if len(seen.calls) > 1:  # the stack yields them backwards
        seen.calls.sort(key=_place)
    return seen


def _place(found: tuple[Call, Scope]) -> tuple[int, int]:
    call = found[0]
    return call.lineno, call.col_offset


def _collect(scope: Scope, seen: Survey) -> None:
    """Walks one scope, leaving the scopes inside it for later."""
    stack: list[Any] = list(scope.body)
    pop, push, extend = stack.pop, stack.append, stack.extend
    use, store = scope.uses.append, scope.stores.append
    calls, parents = seen.calls, seen.parents
    count = 0
    while stack:
        node = pop()
        kind = node.__class__
        if kind is Constant:
            continue
        count += 1
        if kind is Name:
            if node.ctx.__class__ is Load:
                use(node)
            else:
                store(node.id)
            continue
        if kind is Call:
            calls.append((node, scope))
            push(node.func)
            for child in node.args:
                if child.__class__ is Starred:
                    child = child.value
                    if child.__class__ is Call:
                        parents[child] = _UNPACKED
                elif child.__class__ is Call:
                    parents[child] = node
                push(child)
            for keyword in node.keywords:
                push(keyword.value)
            continue
        special = _SPECIAL.get(kind)
        if special is not None:
            special(node, scope, seen, push)
            if kind in _SCOPES:
                continue
        for part in _CHILDREN.get(kind, ()):
            child = getattr(node, part, None)
            if child.__class__ is list:
                for item in child:
                    if item.__class__ is Call:
                        parents[item] = node
                extend(child)
            elif child is not None:
                if child.__class__ is Call:
                    parents[child] = node
                push(child)
    seen.nodes += count


Push = Callable[[Any], None]
Special = Callable[[Any, Scope, Survey, Push], None]

_UNPACKED: Final = Starred(Constant(None), Load())
"""Stands in `Survey.parents` for the star of ``f(*call())``."""

_NOT_CHILDREN: Final = frozenset({"ctx", "op", "ops", "type_comment", "type_ignores", "id", "attr", "annotation"})
_SCOPES: Final = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda})


def _children() -> dict[type, tuple[str, ...]]:
    """The fields of every class of node that may hold nodes, names and operators left out."""
    table: dict[type, tuple[str, ...]] = {}
    for kind in vars(ast).values():
        if isinstance(kind, type) and issubclass(kind, ast.AST):
            table[kind] = tuple(field for field in kind._fields if field not in _NOT_CHILDREN)
    for leaf in (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Pass, ast.Break, ast.Continue, Constant):
        table[leaf] = ()
    return table


_CHILDREN: Final = _children()


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope, seen: Survey, push: Push) -> None:
    scope.stores.append(node.name)
    seen.functions.append((node, scope))
    for decorator in node.decorator_list:
        push(decorator)
    kind: ScopeKind = "async" if node.__class__ is ast.AsyncFunctionDef else "def"
    inner = Scope(kind, node.name, scope, node, node.body)
    seen.scopes.append(inner)
    _arguments(node.args, inner, scope, seen, push)
    _annotation(node.returns, scope, seen)
    _type_parameters(node, scope, seen)


def _lambda(node: ast.Lambda, scope: Scope, seen: Survey, push: Push) -> None:
    inner = Scope("lambda", "<lambda>", scope, node, (node.body,))
    seen.scopes.append(inner)
    _arguments(node.args, inner, scope, seen, push)


def _arguments(arguments: ast.arguments, inner: Scope, scope: Scope, seen: Survey, push: Push) -> None:
    for default in arguments.defaults:
        push(default)
    for maybe in arguments.kw_defaults:
        if maybe is not None:
            push(maybe)
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None:
            inner.stores.append(argument.arg)
            _annotation(argument.annotation, scope, seen)
    if len(set(inner.stores)) != len(inner.stores):
        seen.unusual += 1  # one of them twice


def _class(node: ast.ClassDef, scope: Scope, seen: Survey, push: Push) -> None:
    scope.stores.append(node.name)
    for child in (*node.decorator_list, *node.bases):
        push(child)
    for keyword in node.keywords:
        push(keyword.value)
    seen.scopes.append(Scope("class", node.name, scope, node, node.body))
    _type_parameters(node, scope, seen)


def _type_parameters(node: ast.AST, scope: Scope, seen: Survey) -> None:
    for parameter in getattr(node, "type_params", ()):
        seen.unusual += 1
        seen.module.stores.append(parameter.name)
        for part in ("bound", "default_value"):
            _annotation(getattr(parameter, part, None), scope, seen)


def _type_alias(node: Any, scope: Scope, seen: Survey, push: Push) -> None:
    seen.unusual += 1
    push(node.name)
    _type_parameters(node, scope, seen)
    _annotation(node.value, scope, seen)


def _annotation(node: ast.expr | None, scope: Scope, seen: Survey) -> None:
    if node is not None:
        seen.scopes.append(Scope("annotation", "", scope, node, (node,)))


def _annotated(node: ast.AnnAssign, scope: Scope, seen: Survey, push: Push) -> None:
    if scope.kind in ("module", "class"):  # elsewhere an annotation is never evaluated
        _annotation(node.annotation, scope, seen)


def _import(node: AnyImport, scope: Scope, seen: Survey, push: Push) -> None:
    seen.imports.append((node, scope))
    for alias in node.names:
        if alias.name == "*":
            seen.star_import = True
            seen.unusual += 1
        else:
            scope.stores.append(alias.asname or alias.name.partition(".")[0])
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        seen.unusual += 1
        seen.lazy_annotations |= any(alias.name == "annotations" for alias in node.names)


def _global(node: ast.Global, scope: Scope, seen: Survey, push: Push) -> None:
    seen.unusual += 1
    seen.module.stores.extend(node.names)
    scope.stores.extend(node.names)


def _named(node: Any, scope: Scope, seen: Survey, push: Push) -> None:
    name = getattr(node, "rest", None) or getattr(node, "name", None)
    if isinstance(name, str):
        seen.captures += 1
        scope.stores.append(name)


def _try(node: ast.Try, scope: Scope, seen: Survey, push: Push) -> None:
    seen.blocks += 1
    seen.tries.append(node)
    seen.finals += bool(node.finalbody)
    if node.__class__ is not ast.Try or any(handler.type is None for handler in node.handlers[:-1]):
        seen.unusual += 1


def _attribute(node: Attribute, scope: Scope, seen: Survey, push: Push) -> None:
    seen.attributes.append(node)


def _return(node: ast.Return, scope: Scope, seen: Survey, push: Push) -> None:
    seen.exits += 1
    if scope.kind == "module":
        seen.top_level_returns.append(node)
    elif scope.kind == "class":
        seen.unusual += 1


def _yield(node: ast.expr, scope: Scope, seen: Survey, push: Push) -> None:
    seen.unusual += 1
    scope.has_yield = True


def _await(node: ast.Await, scope: Scope, seen: Survey, push: Push) -> None:
    # In a generator expression `await` is right even in a plain `def`: it makes an asynchronous generator.
    if scope.kind == "def" and not scope.has_generator_expression:
        seen.awaits_in_def.append((node, scope))
    elif scope.kind not in ("module", "async"):
        seen.unusual += 1


def _comprehension(node: Any, scope: Scope, seen: Survey, push: Push) -> None:
    if node.__class__ is ast.GeneratorExp:
        scope.has_generator_expression = True
    if len(node.generators) > MOST_CLAUSES:
        seen.too_complex = node
    if any(clause.is_async for clause in node.generators):
        seen.unusual += 1


def _counting(*counters: str) -> Special:
    def count(node: ast.AST, scope: Scope, seen: Survey, push: Push) -> None:
        for counter in counters:
            setattr(seen, counter, getattr(seen, counter) + 1)

    return count


_SPECIAL: Final = cast(
    "dict[type, Special]",
    {
        Attribute: _attribute,
        ast.Lambda: _lambda,
        ast.ClassDef: _class,
        ast.AnnAssign: _annotated,
        ast.Global: _global,
        ast.Return: _return,
        ast.Await: _await,
        **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), _function),
        **dict.fromkeys((ast.Import, ast.ImportFrom), _import),
        **dict.fromkeys((ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping), _named),
        **dict.fromkeys((ast.Try, ast.TryStar), _try),
        **dict.fromkeys((ast.Yield, ast.YieldFrom), _yield),
        **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _comprehension),
        **dict.fromkeys((ast.For, ast.While, ast.If, ast.With), _counting("blocks")),
        **dict.fromkeys((ast.AsyncFor, ast.AsyncWith), _counting("blocks", "unusual")),
        **dict.fromkeys((ast.Break, ast.Continue), _counting("unusual", "exits")),
        **dict.fromkeys((ast.Nonlocal, ast.Match, ast.NamedExpr, Starred), _counting("unusual")),
    },
)
if hasattr(ast, "TypeAlias"):
    _SPECIAL[ast.TypeAlias] = _type_alias
