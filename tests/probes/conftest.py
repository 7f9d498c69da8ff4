"""The probes' fixtures: one runtime per tier for all of them, and a place on the host that anybody may read and write."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from callgate import Limits, Runtime, SandboxUnavailable
from probes.harness import Jail, Toolbox, resident_bytes

NOBODY = 65534
CANARY = "canary-h0st-environment"
"""What the host has in its environment when its jails are started."""


def open_jail(stack: ExitStack, tier: int, **options: Any) -> Jail:
    """A runtime of that tier, open until `stack` is. Skips where the tier does not work; with CI=true, fails."""
    portal = stack.enter_context(start_blocking_portal("asyncio"))
    toolbox = Toolbox()
    runtime = Runtime(toolbox.tools(), sandbox="jail", tier=tier, **options)
    try:
        stack.enter_context(portal.wrap_async_context_manager(runtime))
    except SandboxUnavailable as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(f"tier {tier} has to work in CI: {reason}")
        pytest.skip(str(reason))
    return Jail(tier, runtime, portal, toolbox)


@pytest.fixture(scope="session", params=[1, 2], ids=["tier1", "tier2"])
def session_jail(request: pytest.FixtureRequest) -> Iterator[Jail]:
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROBE_CANARY", CANARY)
        yield open_jail(stack, request.param, limits=Limits(wall_seconds=20))


@pytest.fixture
def jail(session_jail: Jail) -> Jail:
    """The jail of each tier in turn, with a toolbox that has seen nothing."""
    session_jail.toolbox.seen.clear()
    session_jail.toolbox.started = session_jail.toolbox.cancelled = 0
    return session_jail


@pytest.fixture
def nothing_is_left(jail: Jail) -> Iterator[None]:
    """Whatever the test does: afterwards no process and no descriptor is left, the host has not grown, and the next program works."""
    resident = resident_bytes()
    with jail.leaves_nothing():
        yield
        jail.is_well()
    assert resident_bytes() - resident < 128 << 20


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of the host that every user may read and write, with a file ``canary`` that belongs to the guests' own user."""
    folder = Path(tempfile.mkdtemp(prefix="probe-"))
    try:
        folder.chmod(0o777)
        canary = folder / "canary"
        canary.write_text("canary-h0st-file")
        canary.chmod(0o666)
        if os.geteuid() == 0:
            os.chown(canary, NOBODY, NOBODY)
        yield folder
    finally:
        shutil.rmtree(folder)
