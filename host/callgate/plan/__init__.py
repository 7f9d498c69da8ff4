"""Plans: read, check, compile and order their steps. Pure: no I/O, and no tool is called here."""

from __future__ import annotations

from .faults import PLAN_FAULT_CODES, PlanFault

__all__ = ["PLAN_FAULT_CODES", "PlanFault"]
