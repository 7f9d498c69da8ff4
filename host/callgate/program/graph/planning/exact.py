"""Which values are the same after they were JSON: no tuple, set, range or view, and texts as keys.

The items of a `for_each` are such values. What is not certain to be one is not carried as an item.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from callgate.plan.expressions.trees import nodes_of

from .symbols import is_literal

__all__ = ["Shape", "as_json", "bind", "elements_of", "is_exact"]

Shape = bool | tuple["Shape", ...]
"""Whether a value is exact; of a tuple, whether its items are."""
_EXACT: Final = frozenset({"abs", "all", "any", "bool", "float", "int", "len", "round", "str"})
_EXACT_METHODS: Final = frozenset({
    "capitalize", "casefold", "center", "count", "dumps", "endswith", "find", "index", "isalnum", "isalpha", "isdigit",
    "isspace", "join", "ljust", "loads", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rfind", "rjust",
    "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase", "title", "upper", "zfill",
})  # fmt: skip
_TEXTS: Final = frozenset({"capitalize", "dumps", "join", "lower", "replace", "strip", "title", "upper"})
_PARTS: Final = frozenset({"copy", "get"})
_SAME_ELEMENTS: Final = frozenset({"list", "reversed", "set", "sorted", "tuple"})


def is_exact(node: ast.expr, names: Mapping[str, Shape]) -> bool:
    """Whether the value of an expression certainly is. `names`: the variables of loops; results of calls are exact."""
    if isinstance(node, ast.Constant | ast.JoinedStr | ast.Compare | ast.UnaryOp):
        return True
    if isinstance(node, ast.Name):
        return names.get(node.id, True) is True
    if isinstance(node, ast.Attribute | ast.Subscript):
        return is_exact(node.value, names)
    if isinstance(node, ast.BinOp):
        return is_exact(node.left, names) and is_exact(node.right, names)
    if isinstance(node, ast.BoolOp):
        return all(is_exact(each, names) for each in node.values)
    if isinstance(node, ast.IfExp):
        return is_exact(node.body, names) and is_exact(node.orelse, names)
    if isinstance(node, ast.List):
        return all(
            elements_of(each.value, names) is True if isinstance(each, ast.Starred) else is_exact(each, names)
            for each in node.elts
        )
    if isinstance(node, ast.Dict):
        keys = all(key is not None and _is_text(key) for key in node.keys)
        return keys and all(is_exact(each, names) for each in node.values)
    if isinstance(node, ast.ListComp):
        return elements_of(node, names) is True
    if isinstance(node, ast.Call):
        return _call_is_exact(node, names)
    return False


def as_json(node: ast.expr, names: Mapping[str, Shape]) -> ast.expr:
    """An expression for what the value becomes as JSON. An expression of a plan has to have texts as keys, where a
    program may have numbers: those become texts."""
    if is_literal(node) or is_exact(node, names) or not _may_have_other_keys(node, names):
        return node
    return _json("loads", _json("dumps", node))


def _json(function: str, argument: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name("json", ast.Load()), function, ast.Load()), [argument], [])


def _may_have_other_keys(node: ast.expr, names: Mapping[str, Shape]) -> bool:
    for each in nodes_of([node]):
        if isinstance(each, ast.Name) and not _is_known(names.get(each.id, True)):
            return True
        if isinstance(each, ast.Dict) and not all(key is None or _is_text(key) for key in each.keys):
            return True
        if isinstance(each, ast.DictComp) and not _is_text(each.key):
            return True
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "dict":
            return True
    return False


def _is_known(shape: Shape) -> bool:
    return all(map(_is_known, shape)) if isinstance(shape, tuple) else shape


def elements_of(node: ast.expr, names: Mapping[str, Shape]) -> Shape:
    """What is certain of each item that a loop over the value gives."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return _alike([_shape(each, names) for each in node.elts])
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        inner = dict(names)
        for clause in node.generators:
            bind(clause.target, elements_of(clause.iter, inner), inner)
        return _shape(node.elt, inner)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        if node.func.id == "range":
            return True
        if node.func.id == "enumerate":
            return True, elements_of(node.args[0], names)
        if node.func.id == "zip":
            return tuple(elements_of(each, names) for each in node.args)
        if node.func.id in _SAME_ELEMENTS:
            return elements_of(node.args[0], names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_exact(node.func.value, names):
        if node.func.attr == "items":
            return True, True
        if node.func.attr in ("keys", "values"):
            return True
    return is_exact(node, names)


def bind(target: ast.expr, shape: Shape, names: dict[str, Shape]) -> None:
    """Note what is certain of the variables that take such an item apart."""
    if isinstance(target, ast.Name):
        names[target.id] = shape
    elif isinstance(target, ast.Tuple | ast.List):
        parts = shape if isinstance(shape, tuple) and len(shape) == len(target.elts) else (shape,) * len(target.elts)
        for each, part in zip(target.elts, parts, strict=True):
            bind(each, part is True if not isinstance(shape, tuple) else part, names)


def _call_is_exact(node: ast.Call, names: Mapping[str, Shape]) -> bool:
    function = node.func
    if isinstance(function, ast.Name):
        if function.id in _EXACT:
            return True
        if function.id in ("list", "sorted"):
            return not node.args or elements_of(node.args[0], names) is True
        if function.id in ("max", "min", "sum"):
            given = node.args[0] if node.args else node
            return (
                elements_of(given, names) is True
                if len(node.args) == 1
                else all(is_exact(each, names) for each in node.args if not isinstance(each, ast.Starred))
                and not any(isinstance(each, ast.Starred) for each in node.args)
            )
        return False
    assert isinstance(function, ast.Attribute)
    if function.attr in _EXACT_METHODS:
        return True
    return function.attr in _PARTS and all(is_exact(each, names) for each in (function.value, *node.args))


def _shape(node: ast.expr, names: Mapping[str, Shape]) -> Shape:
    if isinstance(node, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in node.elts):
        return tuple(_shape(each, names) for each in node.elts)
    if isinstance(node, ast.Starred):
        return elements_of(node.value, names)
    return is_exact(node, names)


def _alike(shapes: list[Shape]) -> Shape:
    """What is certain of each of them."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0] if shapes else True
    if all(isinstance(shape, tuple) for shape in shapes):
        found = [shape for shape in shapes if isinstance(shape, tuple)]
        if len({len(shape) for shape in found}) == 1:
            return tuple(_alike(list(parts)) for parts in zip(*found, strict=True))
    return False


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        return function.id == "str" if isinstance(function, ast.Name) else getattr(function, "attr", "") in _TEXTS
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
