"""Statements that no graph has: what each is called, why it is none, and what to write instead. Only the table."""

from __future__ import annotations

import ast
from typing import Final

__all__ = ["CONSTRUCTS"]

CONSTRUCTS: Final[dict[type[ast.stmt], tuple[str, str, str]]] = {
    ast.While: ("while", "how often it runs is not known before", "loop over a list, if there is one"),
    ast.Try: ("try", "what happens after an error is not part of a graph", ""),
    ast.TryStar: ("try", "what happens after an error is not part of a graph", ""),
    ast.FunctionDef: ("def", "functions are not part of a graph", "write its body where it is needed"),
    ast.ClassDef: ("class", "classes are not part of a graph", "use dicts"),
    ast.With: ("with", "context managers are not part of a graph", ""),
    ast.AsyncWith: ("async with", "context managers are not part of a graph", "use asyncio.gather"),
    ast.AsyncFor: ("async for", "asynchronous iterators are not part of a graph", "use for"),
    ast.Delete: ("del", "names and items that go away are not part of a graph", ""),
    ast.Global: ("global", "it is not needed at the top level", "leave the function out"),
    ast.Nonlocal: ("nonlocal", "functions are not part of a graph", ""),
    ast.Raise: ("raise", "errors of the program's own are not part of a graph", ""),
    ast.Assert: ("assert", "errors of the program's own are not part of a graph", ""),
    ast.Break: ("break", "how often the loop runs is not known before", "select the items first: [x for x in xs if …]"),
    ast.Continue: ("continue", "something follows the `if` that it stands in", "use if and else"),
    ast.Match: ("match", "patterns are not part of a graph", "use if and elif"),
    ast.Return: ("return", "it is not the last statement", "use if and else"),
}
"""The hint is empty where there is nothing to say."""
