"""Runs the harness as a command, as tests do. Knows no test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["campaign"]

TESTS = Path(__file__).parents[2]


def campaign(*options: str, shared: Path, seconds: float = 570) -> tuple[int, str]:
    """Run the harness, in a process of its own that adopts what killed processes leave.

    Args:
        options: of the harness.
        shared: folder of the runs that nobody killed; see `conftest.py`.
        seconds: bound of its time.

    Returns:
        Its exit code and what it printed.
    """
    command = [sys.executable, "-m", "durable.kill", "--workers", "1", "--shared", str(shared), *options]
    ran = subprocess.run(
        command, cwd=TESTS, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr
