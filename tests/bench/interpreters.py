"""The interpreter that a peer runs with in the tests: this one where it has the peer, else that of its environment."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

from callgate.bench.contest.environments import ready
from callgate.bench.contestants.listed import PEERS

__all__ = ["python_of"]


async def python_of(name: str, *modules: str) -> str:
    """The interpreter. In CI the harness makes the environment that is missing; elsewhere the test is skipped.

    Args:
        name: of the peer in `PEERS`.
        modules: that have to be importable.
    """
    if all(importlib.util.find_spec(each) is not None for each in modules):
        return sys.executable
    (listed,) = (each for each in PEERS if each.name == name)
    if not os.environ.get("CI"):
        pytest.skip(f"{listed.requirements[0]} is not installed; in CI the harness installs it")
    environment = await ready(listed)
    assert environment.failure == ""
    return environment.python
