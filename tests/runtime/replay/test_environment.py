"""What a program runs with, beside its events."""

from __future__ import annotations

import platform

from callgate.runtime.replay.environment import differences, environment
from callgate.sandbox.unsafe import UnsafeBackend


def test_it_tells_of_python_the_processor_time_zones_and_packages() -> None:
    found = environment(UnsafeBackend())
    assert found["Python"] == f"{platform.python_implementation()} {platform.python_version()}"
    assert found["processor"] == platform.machine()
    assert set(found) == {"Python", "processor", "time zones", "packages"}


def test_a_difference_is_told_in_words() -> None:
    recorded = {"Python": "CPython 3.11.7", "packages": "numpy 2.1.0", "processor": "x86_64"}
    now = {"Python": "CPython 3.12.1", "packages": "", "processor": "x86_64"}
    assert differences(recorded, now) == [
        "Python: recorded with CPython 3.11.7, now CPython 3.12.1",
        "packages: recorded with numpy 2.1.0, now none",
    ]
    assert differences(now, now) == []
