"""The places of a source file where one small fault can be put in, and the text with the fault in place.

A mutant is known by its room, the function it is in, its kind, the text of its line, and its number among equals. A
file that moves keeps its mutants; a line that is rewritten loses them.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from rooms import SAMPLE, SOURCES, sample_room_of

SIZE = 500
SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OTHER: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult
}  # fmt: skip
DROPPED = (ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Mutant:
    """One fault: the bytes from `start` to `end` of `path` become `text`."""

    room: str
    key: str
    path: str
    lines: range
    """From the beginning of the statement to the end of the fault."""
    start: int
    end: int
    text: str

    def rank(self, seed: int) -> str:
        """Order in which mutants are drawn: by chance, and the same whatever else is in the room."""
        return hashlib.sha256(f"{seed} {self.key}".encode()).hexdigest()

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def is_a_sequence(node: ast.expr) -> bool:
    """Whether no arithmetic but joining can be done with it."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes)
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple)


def faults(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Faults that can be put in at this very node: kind, the node to replace, the text instead."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in SWAPPED:
            swapped = ast.Compare(node.left, [SWAPPED[type(operator)]()], node.comparators)
            yield "comparison", node, f"({ast.unparse(swapped)})"
        case ast.BoolOp():
            other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
            yield "and/or", node, f"({ast.unparse(ast.BoolOp(other, node.values))})"
        case ast.UnaryOp(op=ast.Not()):
            yield "not removed", node, f"({ast.unparse(node.operand)})"
        case ast.BinOp() if type(node.op) in OTHER and not any(map(is_a_sequence, (node.left, node.right))):
            yield "arithmetic", node, f"({ast.unparse(ast.BinOp(node.left, OTHER[type(node.op)](), node.right))})"
        case ast.Constant(value=bool() as value):
            yield "constant", node, str(not value)
        case ast.Constant(value=int() as value):
            yield "constant", node, str(value + 1)
        case ast.If() | ast.While() | ast.IfExp():
            yield "condition negated", node.test, f"(not ({ast.unparse(node.test)}))"
        case ast.Return(value=ast.expr()) if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "nothing returned", node, "return None"
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "statement dropped", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement dropped", node, "pass"
        case _ if isinstance(node, DROPPED):
            yield "statement dropped", node, "pass"


def places(path: str, source: bytes, room: str) -> list[Mutant]:
    """All mutants of one file: what its functions do, not its tables, signatures, annotations and assertions."""
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    found: list[Mutant] = []
    seen: Counter[str] = Counter()

    def visit(node: ast.AST, names: tuple[str, ...], inside: bool, first: int) -> None:
        if isinstance(node, ast.stmt):
            first = node.lineno
        if isinstance(node, ast.JoinedStr | ast.Assert | ast.arguments | ast.MatchValue):
            return  # before 3.12, what is in an f-string has no place of its own
        for kind, replaced, text in faults(node) if inside else ():
            start, end = starts[replaced.lineno - 1], starts[(replaced.end_lineno or 0) - 1]
            line = source[start : starts[replaced.lineno]].decode().strip()
            key = f"{room} | {'.'.join(names)} | {kind} | {line}"
            seen[key] += 1
            lines = range(min(first, replaced.lineno), (replaced.end_lineno or 0) + 1)
            start, end = start + replaced.col_offset, end + (replaced.end_col_offset or 0)
            found.append(Mutant(room, f"{key} | {seen[key]}", path, lines, start, end, text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = (*names, node.name)
            for each in node.body:
                visit(each, names, inside or not isinstance(node, ast.ClassDef), first)
            return
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns"):
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, ast.AST):
                        visit(each, names, inside or isinstance(node, ast.Lambda), first)

    visit(ast.parse(source), (), False, 0)
    return found


def all_places(checkout: Path) -> dict[str, list[Mutant]]:
    """Room of the sample -> its mutants, in a checkout."""
    rooms: dict[str, list[Mutant]] = {room: [] for room in SAMPLE}
    for root in SOURCES:
        for file in sorted((checkout / root).rglob("*.py")):
            path = file.relative_to(checkout).as_posix()
            if room := sample_room_of(path):
                rooms[room] += places(path, file.read_bytes(), room)
    return rooms


def sample(checkout: Path, seed: int, of_base: list[str]) -> list[Mutant]:
    """`SIZE` mutants, as many of each room: those of the base that are still there, others in place of the rest."""
    chosen: list[Mutant] = []
    for number, (_, found) in enumerate(sorted(all_places(checkout).items())):
        share = SIZE // len(SAMPLE) + (number < SIZE % len(SAMPLE))
        wanted = set(of_base)
        unique = {each.key: each for each in found}.values()
        chosen += sorted(unique, key=lambda each: (each.key not in wanted, each.rank(seed)))[:share]
    return chosen
