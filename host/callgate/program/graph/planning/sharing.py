"""Which values may be the same object, or have parts in common. Knows Python's expressions; no value.

A token stands for the containers that one operation makes, each time it is reached. What is said here may be too much,
never too little: two values that share nothing here share nothing. A set of tokens is an integer with a bit for each of
them, so that a program with thousands costs little.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final, NamedTuple

from callgate.plan.expressions.trees import nodes_of

__all__ = ["NOTHING", "Shares", "Tokens", "aged", "both", "shares_of"]

_SCALARS: Final = frozenset({"abs", "all", "any", "bool", "float", "int", "len", "range", "round", "str"})
_TEXTS: Final = frozenset({
    "capitalize", "casefold", "center", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdigit",
    "isspace", "join", "ljust", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rfind", "rjust",
    "rstrip", "startswith", "strip", "swapcase", "title", "upper", "zfill",
})  # fmt: skip
_NEW: Final = frozenset({"copy", "partition", "rpartition", "rsplit", "split", "splitlines"})
_NEW_FUNCTIONS: Final = frozenset({"dict", "list", "set", "sorted", "tuple"})


class Shares(NamedTuple):
    """What a value may be made of."""

    own: int
    """What it may be itself; 0 where it is certainly no container that can be changed."""
    parts: int
    """What may be somewhere within it."""

    @property
    def all(self) -> int:
        """Both."""
        return self.own | self.parts


NOTHING: Final = Shares(0, 0)


class Tokens:
    """The tokens of one program: four bits for each key, which names what makes containers.

    The first is the container itself, the second those within; the others are the same of an earlier round.
    """

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._newest = 0
        """The first two bits of every key."""

    def __len__(self) -> int:
        """Bits."""
        return 4 * len(self._places)

    def token(self, key: int, which: int = 0) -> int:
        """The container itself, or with 1 those within."""
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = 4 * len(self._places)
            self._newest |= 3 << place
        return 1 << place + which

    def fresh(self, key: int, parts: int = 0, *, nested: bool = False) -> Shares:
        """A container made here, with these parts."""
        return Shares(self.token(key), parts | self.token(key, 1) if nested else parts)

    def newest(self, key: int) -> int:
        """What a key's containers are called until it makes them again; 0 where there are none."""
        place = self._places.get(key)
        return 0 if place is None else 3 << place

    def with_older(self, tokens: int) -> int:
        """These, and the same as they are called once they were made again."""
        return tokens | (tokens & self._newest) << 2


def both(one: Shares, other: Shares) -> Shares:
    """It may be the one or the other."""
    own, parts = one.own | other.own, one.parts | other.parts
    return one if own == one.own and parts == one.parts else Shares(own, parts)


def aged(shares: Shares, newest: int) -> Shares:
    """The same, once these are made again."""
    own, parts = shares
    old_own, old_parts = own & newest, parts & newest
    if not old_own and not old_parts:
        return shares
    return Shares(own ^ old_own | old_own << 2, parts ^ old_parts | old_parts << 2)


def shares_of(node: ast.expr, of: Mapping[str, Shares], key: int, tokens: Tokens) -> Shares:
    """What the value of an expression may share.

    Args:
        node: the expression.
        of: what its variables share.
        key: names what it makes anew.
        tokens: of the program.
    """
    return _Reading(of, key, tokens).value(node, 0)


class _Reading:
    def __init__(self, of: Mapping[str, Shares], key: int, tokens: Tokens) -> None:
        self._of = of
        self._key = key
        self._tokens = tokens

    def value(self, node: ast.expr, level: int) -> Shares:
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.Compare | ast.UnaryOp):
            return NOTHING
        if isinstance(node, ast.Name):
            return self._of.get(node.id, NOTHING)
        if isinstance(node, ast.Attribute):
            return self._part(node.value)
        if isinstance(node, ast.Subscript):
            part = self._part(node.value)
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
            parts = 0
            for name, value in zip(node.keys, node.values, strict=True):
                of_value = self.value(value, 1)
                parts |= of_value.parts if name is None else of_value.all
            return Shares(self._new(level), parts)
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
                parts = 0
                for each in node.args:
                    parts |= self.value(each, 1).parts
                return Shares(self._new(level), parts)
            return None
        assert isinstance(function, ast.Attribute)
        if function.attr == "dumps" or function.attr in _TEXTS:
            return NOTHING
        if function.attr in _NEW:
            return Shares(self._new(level), self.value(function.value, 1).parts)
        return None

    def _new(self, level: int) -> int:
        return self._tokens.token(self._key, min(level, 1))

    def _part(self, node: ast.expr) -> Shares:
        parts = self.value(node, 1).parts
        return Shares(parts, parts)

    def _within(self, nodes: list[ast.expr]) -> int:
        found = 0
        for node in nodes:
            if isinstance(node, ast.Starred):
                found |= self.value(node.value, 1).parts
            else:
                found |= self.value(node, 1).all
        return found

    def _everything(self, node: ast.AST) -> int:
        """All that any of its variables may share, and what is made within it."""
        found = self._tokens.token(self._key, 1)
        for each in nodes_of([node]):
            if isinstance(each, ast.Name) and each.id in self._of:
                found |= self._of[each.id].all
        return found
