"""The optional language policy, on RestrictedPython: an import allow-list, nothing that leads into the interpreter.

The one door to RestrictedPython. It is used as a checker: every refusal becomes a finding, nothing is rewritten, and
the program that runs is the one the model wrote. RestrictedPython's own rewriting serves guards at run time, which a
jailed CPython does not have (they would make it 4 to 10 times slower).

This is defence in depth, and an early, clear word to the model. It is **not** the boundary: no look at a text can
confine CPython (an attribute's name can be computed, a library can be asked to do what the program may not); the
kernel does that. A program for which this finds nothing may still be hostile.

Rules:

1. A node whose kind neither this file nor RestrictedPython names is refused by RestrictedPython's `generic_visit`: new
   syntax stays out until its rules are written here. `except*` and metaclasses stay out, as there.
2. Beyond RestrictedPython, allowed are: async code, annotations, `match`, `nonlocal`, type parameters, augmented
   assignment of any kind, and classes that define any method.
3. Whatever binds a name is guarded like the name: `import as`, `except as`, captures of `match`, type parameters,
   `global`. A class pattern reads attributes, so ``case object(__class__=c)`` is guarded like ``c = x.__class__``, and
   `__match_args__`, which does the same by position, must be written out as plain names.
4. What reaches attributes by text is refused unless the text is written out and harmless: `getattr`, `str.format`,
   `attrgetter`. So are functions that build classes or code from text.
5. A module reached through another (``uuid.os``, ``from asyncio import subprocess``) must be on the list too.
6. The methods look at one node each. RestrictedPython's recurse through `node_contents_visit`, which does nothing here:
   the walk is a loop, so that no depth of nesting can end it early.
"""

from __future__ import annotations

import ast
import string
import sys
from collections.abc import Collection
from typing import Any, Final

from RestrictedPython.transformer import INSPECT_ATTRIBUTES, RestrictingNodeTransformer

from .findings import Finding, nearest
from .restricted_lists import (
    CLASS_NAMES,
    DEFAULT_ALLOWED_IMPORTS,
    FORBIDDEN_ATTRIBUTES,
    FORBIDDEN_NAMES,
    INTERPRETER_ATTRIBUTES,
    INTERPRETER_MODULES,
    METHODS_OF_SUPER,
    MODULE_HINTS,
    MODULE_NAMES,
    NOT_METHODS,
    READ_BY_TEXT,
)

__all__ = ["restricted_findings"]

_INTERPRETER: Final = INSPECT_ATTRIBUTES | INTERPRETER_ATTRIBUTES
_LEAVES: Final = (ast.expr_context, ast.Constant)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_NOT_FROM_MODULES: Final = frozenset(FORBIDDEN_NAMES) - {"compile"}  # `from re import compile` is a function of its own
_MOST: Final = 100


def restricted_findings(tree: ast.Module, allowed_imports: Collection[str]) -> list[Finding]:
    """A finding for each thing in a program that the policy refuses. Leaves the tree as it was, never raises."""
    policy = _Policy(frozenset(allowed_imports), tree)
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack and len(policy.findings) < _MOST:
        node, policy.in_class = stack.pop()
        policy.visit(node)
        in_class = isinstance(node, ast.ClassDef) or (policy.in_class and not isinstance(node, _FUNCTIONS))
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, _LEAVES):
                stack.append((child, in_class))
    return policy.findings


class _Policy(RestrictingNodeTransformer):
    """RestrictedPython's list of nodes, with the guards of this file in place of those that serve its own runtime."""

    def __init__(self, allowed_imports: frozenset[str], tree: ast.Module) -> None:
        super().__init__()
        self.findings: list[Finding] = []
        self.in_class = False
        self._allowed = allowed_imports
        self._called: set[int] = set()
        self._plain_match_args: set[int] = set()
        self._modules: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._modules.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)

    def node_contents_visit(self, node: Any) -> Any:
        return node

    def error(self, node: ast.AST, info: str) -> None:
        """Called by RestrictedPython for its own refusals."""
        if type(node).__name__ == "TryStar":
            self._refuse(node, "restricted-syntax", "`except*` is not allowed", "write `except`")
        else:
            self._refuse(node, "restricted-syntax", info.rstrip("."), "write it with plain statements")

    def _refuse(self, node: Any, code: str, message: str, hint: str) -> None:
        found = Finding(code, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1, message, hint)
        if found not in self.findings:
            self.findings.append(found)

    # Names

    def check_name(self, node: Any, name: str | None, allow_magic_methods: bool = False) -> None:
        if name is None or name == "_":
            return
        if name in FORBIDDEN_NAMES:
            self._refuse(node, "restricted-name", f"`{name}` is not allowed", FORBIDDEN_NAMES[name])
        elif name.startswith("_") and not (allow_magic_methods and self.in_class and _is_method(name)):
            plain = name.strip("_")[:80]
            hint = f"write `{plain}`" if plain.isidentifier() else "write a name without it"
            self._refuse(node, "restricted-name", f"the name `{name[:80]}` starts with an underscore", hint)

    def visit_Name(self, node: ast.Name) -> Any:
        if isinstance(node.ctx, ast.Load):
            if node.id in READ_BY_TEXT and id(node) not in self._called:
                self._refuse(node, "restricted-call", f"`{node.id}` may be called, but not passed on", "write a lambda")
            if node.id in MODULE_NAMES:
                return node
        elif (self.in_class and node.id in CLASS_NAMES) or id(node) in self._plain_match_args:
            return node
        elif node.id == "__match_args__":
            message = "`__match_args__` must be a tuple of attribute names, written out in the class"
            self._refuse(node, "restricted-attribute", message, "write `__match_args__ = ('x', 'y')`")
            return node
        self.check_name(node, node.id)
        return node

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> Any:
        for name in node.names:
            self.check_name(node, name)
        return node

    visit_Nonlocal = visit_Global

    def visit_keyword(self, node: ast.keyword) -> Any:
        if node.arg is not None and (node.arg.startswith("__") or node.arg in _INTERPRETER):
            self.check_attribute(node, node.arg)
        return node

    def _binder(self, node: Any) -> Any:
        self.check_name(node, getattr(node, "rest", None) or getattr(node, "name", None))
        return node

    visit_ExceptHandler = visit_MatchAs = visit_MatchStar = visit_MatchMapping = _binder
    visit_TypeVar = visit_ParamSpec = visit_TypeVarTuple = _binder

    # Attributes

    def check_attribute(self, node: Any, name: str) -> bool:
        """Refuses an attribute that leads into the interpreter, however it is written; True where it did."""
        if name.startswith("_") and name != "_":
            message = f"the attribute `{name[:80]}` starts with an underscore"
            hint = "use the public interface of the object, or give it a name without the underscore"
        elif name in _INTERPRETER:
            message, hint = f"the attribute `{name}` leads into the interpreter", "do without it"
        elif name in FORBIDDEN_ATTRIBUTES:
            message, hint = f"`{name}` is not allowed", FORBIDDEN_ATTRIBUTES[name]
        elif name in INTERPRETER_MODULES and name not in self._allowed:
            message = f"the attribute `{name}` may be the module `{name}`, which is not allowed"
            hint = f"to read an item of a result, write `[{name!r}]`"
        else:
            return False
        self._refuse(node, "restricted-attribute", message, hint)
        return True

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        called = id(node) in self._called
        if called and node.attr in METHODS_OF_SUPER and _is_super(node.value):
            return node
        if isinstance(node.value, ast.Name | ast.Attribute) and _root(node) in self._modules:
            dotted = _dotted(node)
            if self._leaves_the_list(node.attr, dotted):
                message = f"`{dotted[:120]}` reaches the module `{node.attr}`, which is not allowed"
                self._refuse(node, "restricted-import", message, self._instead(node.attr))
                return node
            if node.attr == "open":
                self._refuse(node, "restricted-name", f"`{dotted[:120]}` is not allowed", FORBIDDEN_NAMES["open"])
        if self.check_attribute(node, node.attr):
            return node
        if node.attr == "format" and not (called and isinstance(node.value, ast.Constant)):
            message = "`.format` of a text that is not written out is not allowed"
            self._refuse(node, "restricted-call", message, "write an f-string")
        return node

    def visit_MatchClass(self, node: ast.MatchClass) -> Any:
        for name in node.kwd_attrs:
            self.check_attribute(node, name)
        return node

    # Calls

    def visit_Call(self, node: ast.Call) -> Any:
        function = node.func
        self._called.add(id(function))
        if isinstance(function, ast.Name):
            if function.id in READ_BY_TEXT:
                self._check_read_by_text(node, function.id)
            elif function.id == "type" and len(node.args) + len(node.keywords) > 1:
                self._refuse(node, "restricted-call", "`type` with three arguments is not allowed", "write a `class`")
        elif isinstance(function, ast.Attribute) and function.attr == "format":
            text = function.value.value if isinstance(function.value, ast.Constant) else None
            if isinstance(text, str):
                self._check_format(node, text)
        return node

    def _check_read_by_text(self, node: ast.Call, function: str) -> None:
        name = node.args[1] if len(node.args) > 1 else None
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            message = f"`{function}` with a computed name is not allowed"
            self._refuse(node, "restricted-call", message, "write the attribute's name out, or use a dict")
        elif name.value == "format":
            self._refuse(node, "restricted-call", f"`{function}` of `format` is not allowed", "write an f-string")
        else:
            self.check_attribute(name, name.value)

    def _check_format(self, node: ast.Call, text: str, depth: int = 0) -> None:
        try:
            fields = list(string.Formatter().parse(text))
        except ValueError:
            return  # it will fail by itself
        for _, field, inner, _ in fields:
            if field is not None and ("." in field or "[" in field):
                shown = "{" + " ".join(field.split())[:80] + "}"
                message = f"`.format` with the field `{shown}` reads an attribute or an item"
                self._refuse(node, "restricted-call", message, "write an f-string")
            if inner and depth < 2:
                self._check_format(node, inner, depth + 1)

    # Imports

    def visit_Import(self, node: ast.Import) -> Any:
        for alias in node.names:
            self.check_name(node, alias.asname)
            self._check_module(node, alias.name)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.level or node.module is None:
            hint = "a program is not part of a package; import the module by its full name"
            self._refuse(node, "restricted-import", "a relative import is not allowed", hint)
            return node
        self._check_module(node, node.module)
        for alias in node.names:
            self.check_name(node, alias.asname)
            if alias.name == "*":
                hint = f"name what you need: `from {node.module[:80]} import ...`"
                self._refuse(node, "restricted-import", f"`from {node.module[:80]} import *` is not allowed", hint)
            elif node.module == "tools":
                self.check_name(node, alias.name)
            elif node.module != "__future__":
                if self._leaves_the_list(alias.name, f"{node.module}.{alias.name}"):
                    message = f"`from {node.module[:80]} import {alias.name}` reaches a module that is not allowed"
                    self._refuse(node, "restricted-import", message, self._instead(alias.name))
                elif not self.check_attribute(alias, alias.name) and alias.name in _NOT_FROM_MODULES:
                    self.check_name(node, alias.name)
        return node

    def visit_alias(self, node: ast.alias) -> Any:
        return node

    def _check_module(self, node: ast.stmt, name: str) -> None:
        root, *rest = name.split(".")
        listed = name in self._allowed or root in self._allowed
        if not listed or any(part.startswith("_") or self._leaves_the_list(part, name) for part in rest):
            self._refuse(node, "restricted-import", f"`import {name[:120]}` is not allowed", self._instead(name))

    def _leaves_the_list(self, part: str, dotted: str) -> bool:
        """Whether an attribute of a module is a module that is not allowed. The default list is never harmful."""
        if part.startswith("_") or part not in sys.stdlib_module_names or part in DEFAULT_ALLOWED_IMPORTS:
            return False  # an underscore is refused as such
        return part not in self._allowed and dotted not in self._allowed

    def _instead(self, name: str) -> str:
        if (hint := MODULE_HINTS.get(name.partition(".")[0])) is not None:
            return hint
        shown = sorted(module for module in self._allowed if not module.startswith("_"))
        if (guess := nearest(name, shown)) is not None:
            return f"did you mean `{guess}`?"
        if not shown:
            return "no module may be imported; use the tools"
        return f"these may be imported: {', '.join(shown[:60])}{', ...' if len(shown) > 60 else ''}"

    # Definitions

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
        self.check_name(node, node.name, allow_magic_methods=True)
        self.check_function_argument_names(node)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        self.check_name(node, node.name)
        if any(keyword.arg == "metaclass" for keyword in node.keywords):
            hint = "use a class decorator, or a base class"
            self._refuse(node, "restricted-syntax", "`metaclass=` is not allowed", hint)
        for statement in node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id="__match_args__") as target], value=ast.Tuple(elts=names)):
                    texts = [name.value for name in names if isinstance(name, ast.Constant)]
                    plain = len(texts) == len(names) and all(isinstance(text, str) for text in texts)
                    if plain:
                        self._plain_match_args.add(id(target))
                        for text in texts:
                            self.check_attribute(target, str(text))
        return node

    # Allowed beyond RestrictedPython, or without its rewriting

    def _plain(self, node: Any) -> Any:
        return node

    visit_Await = visit_AsyncFor = visit_AsyncWith = visit_AnnAssign = visit_AugAssign = visit_TypeAlias = _plain
    visit_Match = visit_match_case = visit_MatchValue = visit_MatchSingleton = visit_MatchSequence = _plain
    visit_MatchOr = visit_With = visit_Assign = visit_For = visit_comprehension = _plain
    visit_Subscript = visit_Module = _plain


def _is_method(name: str) -> bool:
    return len(name) > 4 and name.startswith("__") and name.endswith("__") and name not in NOT_METHODS


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args


def _root(node: ast.expr) -> str:
    for _ in range(20):
        if not isinstance(node, ast.Attribute):
            break
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _dotted(node: ast.expr) -> str:
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        names.append(node.id)
    return ".".join(reversed(names))
