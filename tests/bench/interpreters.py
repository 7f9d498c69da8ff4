"""The packages that a peer runs with in the tests: those of the tests where the peer is there, else its own."""

from __future__ import annotations

import importlib.util
import os

import pytest

from callgate_bench.contest.process import ready
from callgate_bench.contestants.listed import PEERS

__all__ = ["packages_of"]


async def packages_of(name: str, *modules: str) -> str:
    """The folder. In CI the harness makes the environment that is missing; elsewhere the test is skipped.

    Args:
        name: of the peer in `PEERS`.
        modules: that have to be importable.
    """
    if all(importlib.util.find_spec(each) is not None for each in modules):
        return ""
    (listed,) = (each for each in PEERS if each.name == name)
    if not os.environ.get("CI"):
        pytest.skip(f"{listed.requirements[0]} is not installed; in CI the harness installs it")
    environment = await ready(listed)
    assert environment.failure == ""
    return environment.packages
