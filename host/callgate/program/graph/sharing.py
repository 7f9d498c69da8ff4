"""Which values may be the same object, or have parts in common. Knows Python's expressions; no value.

A token stands for the containers that one operation makes, each time it is reached. What is said here may be too much,
never too little: two values that share nothing here share nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["NOTHING", "Shares", "Token", "aged", "both", "fresh", "shares_of"]

Token = tuple[int, int]
"""What made it, and 0 for the container itself, 1 for those within, 2 and 3 for the same of an earlier round."""
_SCALARS: Final = frozenset({"abs", "all", "any", "bool", "float", "int", "len", "range", "round", "str"})
_TEXTS: Final = frozenset({
    "capitalize", "casefold", "center", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdigit",
    "isspace", "join", "ljust", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rfind", "rjust",
    "rstrip", "startswith", "strip", "swapcase", "title", "upper", "zfill",
})  # fmt: skip
_NEW: Final = frozenset({"copy", "partition", "rpartition", "rsplit", "split", "splitlines"})
_NEW_FUNCTIONS: Final = frozenset({"dict", "list", "set", "sorted", "tuple"})


@dataclass(frozen=True, slots=True)
class Shares:
    """What a value may be made of."""

    own: frozenset[Token]
    """What it may be itself; empty where it is certainly no container that can be changed."""
    parts: frozenset[Token]
    """What may be somewhere within it."""

    @property
    def all(self) -> frozenset[Token]:
        return self.own | self.parts


NOTHING: Final = Shares(frozenset(), frozenset())


def fresh(key: int, parts: frozenset[Token] = frozenset(), *, nested: bool = False) -> Shares:
    """A container made here, with these parts."""
    return Shares(frozenset({(key, 0)}), parts | {(key, 1)} if nested else parts)


def both(one: Shares, other: Shares) -> Shares:
    """It may be the one or the other."""
    if other.own <= one.own and other.parts <= one.parts:
        return one
    return Shares(one.own | other.own, one.parts | other.parts)


def aged(shares: Shares, key: int) -> Shares:
    """The same, once the operation is reached again and makes new containers."""
    own, parts = shares.own, shares.parts
    if (key, 0) not in own and (key, 0) not in parts and (key, 1) not in own and (key, 1) not in parts:
        return shares
    return Shares(_aged(own, key), _aged(parts, key))


def _aged(tokens: frozenset[Token], key: int) -> frozenset[Token]:
    return frozenset((made, which + 2 if made == key and which < 2 else which) for made, which in tokens)


def shares_of(node: ast.expr, of: Mapping[str, Shares], key: int) -> Shares:
    """What the value of an expression may share.

    Args:
        node: the expression.
        of: what its variables share.
        key: names what it makes anew.
    """
    return _Reading(of, key).value(node, 0)


class _Reading:
    def __init__(self, of: Mapping[str, Shares], key: int) -> None:
        self._of = of
        self._key = key

    def value(self, node: ast.expr, level: int) -> Shares:
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.Compare | ast.UnaryOp):
            return NOTHING
        if isinstance(node, ast.Name):
            return self._of.get(node.id, NOTHING)
        if isinstance(node, ast.Attribute):
            return self._part(node.value, level)
        if isinstance(node, ast.Subscript):
            part = self._part(node.value, level)
            return Shares(self._new(level), part.parts) if isinstance(node.slice, ast.Slice) else part
        if isinstance(node, ast.IfExp):
            return both(self.value(node.body, level), self.value(node.orelse, level))
        if isinstance(node, ast.BoolOp):
            found = NOTHING
            for each in node.values:
                found = both(found, self.value(each, level))
            return found
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return Shares(self._new(level), self._within(node.elts))
        if isinstance(node, ast.Dict):
            spread = [value for name, value in zip(node.keys, node.values, strict=True) if name is None]
            plain = [value for name, value in zip(node.keys, node.values, strict=True) if name is not None]
            parts = [self.value(each, 1).parts for each in spread]
            return Shares(self._new(level), self._within(plain).union(*parts))
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left, 1), self.value(node.right, 1)
            if left == right == NOTHING:
                return NOTHING
            return Shares(self._new(level), left.parts | right.parts)
        if isinstance(node, ast.Call):
            found_call = self._call(node, level)
            if found_call is not None:
                return found_call
        everything = self._everything(node)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp):
            return Shares(self._new(level), everything)
        return Shares(everything | self._new(level), everything)

    def _call(self, node: ast.Call, level: int) -> Shares | None:
        function = node.func
        if isinstance(function, ast.Name):
            if function.id in _SCALARS:
                return NOTHING
            if function.id in _NEW_FUNCTIONS:
                odd = any(isinstance(each, ast.Starred | ast.GeneratorExp) for each in node.args)
                if odd or (function.id == "dict" and node.keywords):
                    return Shares(self._new(level), self._everything(node))
                parts = [self.value(each, 1).parts for each in node.args]
                return Shares(self._new(level), frozenset[Token]().union(*parts))
            return None
        assert isinstance(function, ast.Attribute)
        if function.attr == "dumps" or function.attr in _TEXTS:
            return NOTHING
        if function.attr in _NEW:
            return Shares(self._new(level), self.value(function.value, 1).parts)
        return None

    def _new(self, level: int) -> frozenset[Token]:
        return frozenset({(self._key, min(level, 1))})

    def _part(self, node: ast.expr, level: int) -> Shares:
        parts = self.value(node, 1).parts
        return Shares(parts, parts)

    def _within(self, nodes: list[ast.expr]) -> frozenset[Token]:
        found: frozenset[Token] = frozenset()
        for node in nodes:
            if isinstance(node, ast.Starred):
                found |= self.value(node.value, 1).parts
            else:
                found |= self.value(node, 1).all
        return found

    def _everything(self, node: ast.AST) -> frozenset[Token]:
        """All that any of its variables may share, and what is made within it."""
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        found = [self._of[name].all for name in sorted(names) if name in self._of]
        return frozenset({(self._key, 1)}).union(*found)
