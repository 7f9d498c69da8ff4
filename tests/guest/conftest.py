"""One guest for the programs of a module, replaced when one ended it; and a fresh one for those that need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from guest.driver import GuestProcess, Ran

Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def shared() -> Iterator[list[GuestProcess]]:
    guests = [GuestProcess()]
    yield guests
    for guest in guests:
        guest.__exit__()


@pytest.fixture
def run(shared: list[GuestProcess]) -> Run:
    """Run a program in the module's guest: what earlier programs left behind is there, as in a session."""
    if shared[-1].process.poll() is not None:
        shared.append(GuestProcess())

    def run_in_it(code: str, inputs: dict[str, Any] | None = None, **options: Any) -> Ran:
        return shared[-1].run(code, inputs, **options)

    return run_in_it


@pytest.fixture
def guest() -> Iterator[GuestProcess]:
    with GuestProcess() as fresh:
        yield fresh
