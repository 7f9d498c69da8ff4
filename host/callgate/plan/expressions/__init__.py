"""Evaluate Python's expression syntax over JSON values: no `eval`, a closed list of operations, a budget.

Knows Python and JSON; no plans, steps or tools. The caller says what the names mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from callgate.lazily import names_from

if TYPE_CHECKING:
    from .budget import Budget, BudgetExceeded, ExpressionError, ExpressionFault
    from .expression import Expression, from_node, parse_expression, to_json
    from .kinds import Record

__all__ = [
    "Budget", "BudgetExceeded", "Expression", "ExpressionError", "ExpressionFault", "Record", "from_node",
    "parse_expression", "to_json",
]  # fmt: skip

__getattr__, __dir__ = names_from(
    __name__,
    {
        "budget": ("Budget", "BudgetExceeded", "ExpressionError", "ExpressionFault"),
        "expression": ("Expression", "from_node", "parse_expression", "to_json"),
        "kinds": ("Record",),
    },
)
