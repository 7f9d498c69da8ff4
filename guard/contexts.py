"""A pytest plugin: tells coverage which test is running, and measures commands and guests that a test starts.

Loaded with ``-p contexts`` into each worker. Children of a test inherit its name in ``GUARD_TEST``. Commands start with
an environment of their own, guests without site-packages, and both end without Python's usual end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import hypothesis
import pytest

os.environ.pop("PYTHONPATH", None)  # it brought this plugin; the tests' own children run without it
RC_FILE = os.environ["COVERAGE_PROCESS_START"]
SAVING_SECONDS = 5.0
"""Longest wait for a guest that writes its figures."""
PACKAGES = Path(coverage.__file__).parent.parent
MEASURED = f"import sys; sys.path.append({str(PACKAGES)!r}); import coverage; coverage.process_startup(); "
LENIENT = list(hypothesis.HealthCheck)
hypothesis.settings.register_profile(
    "guard", database=None, derandomize=True, deadline=None, suppress_health_check=LENIENT
)
hypothesis.settings.load_profile("guard")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Count everything until the next test to this one, its fixtures included."""
    os.environ["GUARD_TEST"] = item.nodeid
    measurement = coverage.Coverage.current()
    if measurement is not None and "GUARD_CONTEXTS" in os.environ:
        measurement.switch_context(item.nodeid)
    return (yield)


class Popen(subprocess.Popen[Any]):
    """Starts coverage in a child that a test runs by hand, and lets a guest save its figures before it is killed."""

    def __init__(self, args: Any, *rest: Any, **options: Any) -> None:
        words = args if isinstance(args, list) and args[:1] == [sys.executable] else []
        self._is_guest = "-S" in words and "run_module('callgate_guest'" in words[-1]
        if self._is_guest:
            args = [*words[:-1], MEASURED + words[-1]]
        if self._is_guest or (words and "-I" not in words):
            rc_file = f"{RC_FILE}.{'guest' if self._is_guest else 'child'}"
            options["env"] = {**(options.get("env") or os.environ), "COVERAGE_PROCESS_START": rc_file}
        super().__init__(args, *rest, **options)

    def kill(self) -> None:
        if self._is_guest and self.poll() is None:
            self.terminate()
            until = time.monotonic() + SAVING_SECONDS
            while self.poll() is None and time.monotonic() < until:
                time.sleep(0.002)
        super().kill()


if "PYTEST_XDIST_WORKER" in os.environ:  # not the process that starts the workers
    subprocess.Popen = Popen  # type: ignore[misc]
