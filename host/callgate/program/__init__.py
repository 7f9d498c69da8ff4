"""Checks the program that a model wrote, before it runs. Pure: reads text, executes nothing, opens nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callgate.lazily import names_from

if TYPE_CHECKING:
    from .check import Policy, check_program
    from .findings import FINDING_CODES, Finding, Severity, ToolShape
    from .names import bound_names
    from .restricted_lists import DEFAULT_ALLOWED_IMPORTS
    from .syntax import DEFAULT_MAX_SOURCE_BYTES, parse_program

__all__ = [
    "DEFAULT_ALLOWED_IMPORTS",
    "DEFAULT_MAX_SOURCE_BYTES",
    "FINDING_CODES",
    "Finding",
    "Policy",
    "Severity",
    "ToolShape",
    "bound_names",
    "check_program",
    "parse_program",
]

__getattr__, __dir__ = names_from(
    __name__,
    {
        "check": ("Policy", "check_program"),
        "findings": ("FINDING_CODES", "Finding", "Severity", "ToolShape"),
        "names": ("bound_names",),
        "restricted_lists": ("DEFAULT_ALLOWED_IMPORTS",),
        "syntax": ("DEFAULT_MAX_SOURCE_BYTES", "parse_program"),
    },
)
