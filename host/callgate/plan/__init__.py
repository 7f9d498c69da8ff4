"""The declarative half: what a plan is, what is wrong with it, and in which order its steps run. Pure."""

from __future__ import annotations

from .faults import PLAN_FAULT_CODES, PlanFault

__all__ = ["PLAN_FAULT_CODES", "PlanFault"]
