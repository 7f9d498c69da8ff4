"""One walk over a program's tree: its scopes, the names that each binds and uses, its calls, and the parents of nodes.

Knows Python's scoping. Does not know what any of this means: other files know tools, `await` and did-you-mean.

Rules:

1. The walk is a loop with its own stack, never a recursion: a chain of 100,000 operators is a tree 100,000 deep.
2. It does not follow the order of execution. A name counts as bound in its scope if it is bound there anywhere,
   whatever `if`, `del` or `except … as` may do to it. This misses some unbound names and never invents one.
3. A comprehension binds into the scope around it, and type parameters into the module, for the same reason.
4. It is the hot path of every run (about 25 µs for ten lines): names and constants are handled inline, all other nodes
   through one table from the node's class to a function.
"""

from __future__ import annotations

import ast
from ast import Attribute, Call, Constant, Load, Name
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

FEW_NODES: Final = 400
"""Up to this many nodes of `HARMLESS` kinds, and with fewer blocks than the next, a tree can certainly be compiled."""
MOST_HARMLESS_BLOCKS: Final = 20
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
    """A module, function, class or annotation: the names that it binds and uses."""

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
        """The names in `stores`; read after the walk."""
        return set(self.stores)


class Survey:
    """Results of the walk."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope("module", "", None, tree, tree.body)
        self.scopes: list[Scope] = [self.module]
        self.calls: list[tuple[Call, Scope]] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        """The node around each node of a scope's body. Decorators, defaults and base classes have none here."""
        self.attributes: list[Attribute] = []
        self.imports: list[tuple[AnyImport, Scope]] = []
        self.functions: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Scope]] = []
        self.tries: list[ast.Try] = []
        self.awaits_in_def: list[tuple[ast.expr, Scope]] = []
        self.top_level_returns: list[ast.Return] = []
        self.star_import = False
        self.lazy_annotations = False
        self.too_complex: ast.expr | None = None
        self.kinds: set[type] = set()
        """Classes of the nodes in it, names and constants left out."""
        self.blocks = 0
        self.finals = 0
        """`try` statements with a `finally`."""
        self.exits = 0
        """`return`, `break` and `continue` statements."""
        self.captures = 0
        """Names that patterns and `except` bind."""

    @cached_property
    def counts(self) -> Counter[str]:
        """How often the program binds each name, in all scopes together."""
        return Counter(chain.from_iterable(scope.stores for scope in self.scopes))

    @cached_property
    def assigned(self) -> dict[str, ast.expr]:
        """The values of names that one plain assignment binds, and nothing else in the program."""
        assignments = [node for node in ast.walk(self.module.node) if isinstance(node, ast.Assign)]
        return {
            node.targets[0].id: node.value
            for node in assignments
            if len(node.targets) == 1 and isinstance(node.targets[0], Name) and self.counts[node.targets[0].id] == 1
        }

    @cached_property
    def task_groups(self) -> set[str]:
        """Names that an `async with` binds to a task group."""
        nodes = ast.walk(self.module.node)
        items = [item for node in nodes if isinstance(node, ast.AsyncWith) for item in node.items]
        return {
            item.optional_vars.id
            for item in items
            if isinstance(item.optional_vars, Name) and any(map(_is_task_group, ast.walk(item.context_expr)))
        }

    @cached_property
    def _asyncio(self) -> dict[str, str]:
        """Names that one import of asyncio binds, and nothing else: which of its functions each is, "" for asyncio."""
        found: dict[str, str] = {}
        for node, _ in self.imports:
            for alias in node.names:
                name = alias.asname or alias.name
                if self.counts[name] == 1 and isinstance(node, ast.Import) and alias.name == "asyncio":
                    found[name] = ""
                elif self.counts[name] == 1 and isinstance(node, ast.ImportFrom) and node.module == "asyncio":
                    found[name] = alias.name
        return found

    def asyncio_function(self, node: ast.expr) -> str | None:
        """Name of the function of asyncio that an expression certainly is."""
        if isinstance(node, Name):
            return self._asyncio.get(node.id) or None
        if isinstance(node, Attribute) and isinstance(node.value, Name) and self._asyncio.get(node.value.id) == "":
            return node.attr
        return None

    def guards(self, line: int) -> Iterator[ast.Try]:
        """The `try` statements that catch errors of a line."""
        for guard in self.tries[:MOST_TRIES]:
            last = guard.body[-1]
            if guard.lineno <= line <= (last.end_lineno or last.lineno):
                yield guard

    def severity(self, line: int) -> Severity:
        """Severity of a fault at a line: a warning if a `try` may catch the fault."""
        return "warning" if len(self.tries) > MOST_TRIES or any(self.guards(line)) else "error"

    def should_compile(self, source: str) -> bool:
        """Whether only the compiler can say if the tree compiles, and compiling it is cheap."""
        if self.kinds <= HARMLESS and len(self.parents) <= FEW_NODES and self.blocks < MOST_HARMLESS_BLOCKS:
            return False
        if len(source) > MOST_COMPILED or self.captures > MOST_CAPTURES:
            return False
        copies: int = (2 + self.exits) ** min(self.finals, 64)
        return len(source) * copies <= MOST_COPIES


def _is_task_group(node: ast.AST) -> bool:
    return "TaskGroup" in getattr(node, "attr", getattr(node, "id", ""))


def survey(tree: ast.Module) -> Survey:
    """Walk the tree. Time and memory are linear in its size. Never raises."""
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
    """Walk one scope, and leave the scopes inside it for later."""
    stack: list[Any] = list(scope.body)
    pop, push, extend = stack.pop, stack.append, stack.extend
    use, store = scope.uses.append, scope.stores.append
    parents, kinds = seen.parents, seen.kinds
    while stack:
        node = pop()
        kind = node.__class__
        if kind is Constant:
            continue
        if kind is Name:
            if node.ctx.__class__ is Load:
                use(node)
            else:
                store(node.id)
            continue
        kinds.add(kind)
        special = _SPECIAL.get(kind)
        if special is not None:
            special(node, scope, seen, push)
            if kind in _SCOPES:
                continue
        for part in _CHILDREN.get(kind, ()):
            child = getattr(node, part, None)
            if child.__class__ is list:
                for item in child:
                    parents[item] = node
                extend(child)
            elif child is not None:
                parents[child] = node
                push(child)


Push = Callable[[Any], None]
Special = Callable[[Any, Scope, Survey, Push], None]

_NOT_CHILDREN: Final = frozenset({
    "annotation", "arg", "attr", "conversion", "ctx", "id", "is_async", "kwd_attrs", "name", "op", "ops", "rest",
    "simple", "type_comment", "type_ignores",
})  # fmt: skip
HARMLESS: Final = frozenset({
    ast.Assign, ast.Attribute, ast.AugAssign, ast.Await, ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.Dict,
    ast.DictComp, ast.Expr, ast.For, ast.FormattedValue, ast.GeneratorExp, ast.If, ast.IfExp, ast.Import, ast.JoinedStr,
    ast.List, ast.ListComp, ast.Return, ast.Set, ast.SetComp, ast.Slice, ast.Subscript, ast.Tuple, ast.UnaryOp,
    ast.While, ast.With, ast.comprehension, ast.keyword, ast.withitem, type(None),
})  # fmt: skip
"""The compiler takes these wherever the parser does."""
_SCOPES: Final = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda})


def _children() -> dict[type, tuple[str, ...]]:
    """The fields of each class of node that hold nodes to visit; names and operators are left out."""
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
    seen.parents[node.body] = node
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
        seen.module.stores.append(parameter.name)
        for part in ("bound", "default_value"):
            _annotation(getattr(parameter, part, None), scope, seen)


def _type_alias(node: Any, scope: Scope, seen: Survey, push: Push) -> None:
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
        else:
            scope.stores.append(alias.asname or alias.name.partition(".")[0])
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        seen.lazy_annotations |= any(alias.name == "annotations" for alias in node.names)


def _global(node: ast.Global, scope: Scope, seen: Survey, push: Push) -> None:
    seen.module.stores.extend(node.names)
    scope.stores.extend(node.names)


def _named(node: Any, scope: Scope, seen: Survey, push: Push) -> None:
    name = getattr(node, "rest", None) or getattr(node, "name", None)
    if isinstance(name, str):
        seen.captures += 1
        scope.stores.append(name)


def _try(node: ast.Try, scope: Scope, seen: Survey, push: Push) -> None:
    seen.tries.append(node)
    seen.finals += bool(node.finalbody)


def _call(node: Call, scope: Scope, seen: Survey, push: Push) -> None:
    seen.calls.append((node, scope))


def _attribute(node: Attribute, scope: Scope, seen: Survey, push: Push) -> None:
    seen.attributes.append(node)


def _return(node: ast.Return, scope: Scope, seen: Survey, push: Push) -> None:
    seen.exits += 1
    if scope.kind == "module":
        seen.top_level_returns.append(node)


def _yield(node: ast.expr, scope: Scope, seen: Survey, push: Push) -> None:
    scope.has_yield = True


def _await(node: ast.Await, scope: Scope, seen: Survey, push: Push) -> None:
    # In a generator expression `await` is right even in a plain `def`: it makes an asynchronous generator.
    if scope.kind == "def" and not scope.has_generator_expression:
        seen.awaits_in_def.append((node, scope))


def _comprehension(node: Any, scope: Scope, seen: Survey, push: Push) -> None:
    if node.__class__ is ast.GeneratorExp:
        scope.has_generator_expression = True
    if len(node.generators) > MOST_CLAUSES:
        seen.too_complex = node


def _block(node: ast.AST, scope: Scope, seen: Survey, push: Push) -> None:
    seen.blocks += 1


def _exit(node: ast.AST, scope: Scope, seen: Survey, push: Push) -> None:
    seen.exits += 1


_SPECIAL: Final = cast(
    "dict[type, Special]",
    {
        Attribute: _attribute,
        Call: _call,
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
        **dict.fromkeys((ast.Break, ast.Continue), _exit),
        **dict.fromkeys((ast.For, ast.While, ast.If, ast.With), _block),
    },
)
if hasattr(ast, "TypeAlias"):
    _SPECIAL[ast.TypeAlias] = _type_alias
