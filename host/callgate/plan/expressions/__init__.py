"""Python's expression syntax over JSON values, interpreted: no `eval`, a closed list of what it can do, a budget.

Knows Python and JSON. Refuses to know plans, steps and tools: what the names mean is the caller's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from callgate.lazily import names_from

if TYPE_CHECKING:
    from .budget import Budget
    from .expression import Expression, from_node, parse_expression
    from .faults import BudgetExceeded, ExpressionError, ExpressionFault
    from .json_value import to_json
    from .kinds import Record

__all__ = [
    "Budget",
    "BudgetExceeded",
    "Expression",
    "ExpressionError",
    "ExpressionFault",
    "Record",
    "from_node",
    "parse_expression",
    "to_json",
]

__getattr__, __dir__ = names_from(
    __name__,
    {
        "budget": ("Budget",),
        "expression": ("Expression", "from_node", "parse_expression"),
        "faults": ("BudgetExceeded", "ExpressionError", "ExpressionFault"),
        "json_value": ("to_json",),
        "kinds": ("Record",),
    },
)
