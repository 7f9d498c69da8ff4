"""The names a program leaves behind for the next one of its session. Knows scoping, not what was executed.

It is a superset of what is there after the program has run, which is what `check_program` wants as `known_names`; after
a program that binds by other means (a star import, `exec`) nothing can be known: see `names_known`.
"""

from __future__ import annotations

import ast
from collections import Counter

from .findings import Finding
from .survey import survey
from .syntax import DEFAULT_MAX_SOURCE_BYTES, parse_program

__all__ = ["bound_names"]


def bound_names(source: str, *, max_source_bytes: int = DEFAULT_MAX_SOURCE_BYTES) -> frozenset[str]:
    """Names that a program may bind at its top level; none for what is no program. Never raises.

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
