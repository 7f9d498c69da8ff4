"""Runs the harness as a command, as tests do. Knows no test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["campaign"]

TESTS = Path(__file__).parents[2]


def campaign(*options: str, seconds: float = 570) -> tuple[int, str]:
    """Run the harness with these options, in a process of its own that adopts what killed processes leave. Returns
    its exit code and what it printed."""
    command = [sys.executable, "-m", "durable.kill", *options]
    ran = subprocess.run(
        command, cwd=TESTS, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr
