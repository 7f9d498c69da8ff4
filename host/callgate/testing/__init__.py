"""Tests for a sandbox of your own: the conformance suite that callgate's own backends pass.

Needs pytest. Nothing else in callgate imports it.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(f"{__name__}.asking", f"{__name__}.verbs", f"{__name__}.with_files")

from .asking import ALLOWANCE, Heard, ask, hear, request  # noqa: E402 (their assertions are rewritten)
from .conformance import BackendConformance  # noqa: E402

__all__ = ["ALLOWANCE", "BackendConformance", "Heard", "ask", "hear", "request"]
