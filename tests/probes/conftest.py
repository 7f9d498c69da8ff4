"""The probes' fixtures: one runtime per kind of sandbox for all of them, and a place on the host that anybody may read and write."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from callgate import Limits, Runtime, SandboxUnavailable
from probes.harness import Jail, Toolbox
from probes.kinds import ALL, KINDS, SRT, Kind
from probes.processes import resident_bytes
from sandbox.docker.images import have_engine_and_image

NOBODY = 65534
CANARY = "canary-h0st-environment"
"""What the host has in its environment when its jails are started."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "left_out(*kinds, reason): the sandboxes that a probe is not run in, which says nothing of them"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each probe runs in every sandbox of `KINDS` but those that its marks leave out."""
    if "session_jail" in metafunc.fixturenames:
        marks = list(metafunc.definition.iter_markers("left_out"))
        assert all(mark.kwargs["reason"] for mark in marks)
        left_out = {id for mark in marks for id in mark.args}
        assert left_out <= {each.id for each in ALL}
        ids = [id for id in KINDS if id not in left_out]
        metafunc.parametrize("session_jail", ids, indirect=True, scope="module")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to the quick tests one probe of each family (``p01`` to ``p90``) in each tier; of the others no more than two run at once.

    Of srt, whose guests take half a second to start, one probe of each family is run; ``CALLGATE_PROBES=srt`` runs all.
    """
    seen: set[tuple[Kind | None, str]] = set()
    left: list[pytest.Item] = []
    for item in items:
        if item.path.parent == Path(__file__).parent:
            callspec = getattr(item, "callspec", None)
            kind = KINDS.get(callspec.params.get("session_jail", "")) if callspec else None
            families = {(kind, family) for family in re.findall(r"(?<=_)p\d\d(?=_)", item.name.partition("[")[0])}
            again = bool(families) and families <= seen
            seen |= families
            if kind is SRT and again and "CALLGATE_PROBES" not in os.environ:
                left.append(item)
            elif (kind and (kind.contained or kind.is_srt)) or again:
                item.add_marker("alone")
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


def open_jail(stack: ExitStack, kind: Kind, **options: Any) -> Jail:
    """A runtime of that kind, open until `stack` is. Skips where that does not work; with CI=true, fails."""
    if kind.contained:
        anyio.run(have_engine_and_image)
    portal = stack.enter_context(start_blocking_portal("asyncio"))
    toolbox = Toolbox()
    runtime = Runtime(toolbox.tools(), **kind.options(), **options)
    try:
        stack.enter_context(portal.wrap_async_context_manager(runtime))
    except SandboxUnavailable as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{kind.id} has to work in CI: {reason}")
        pytest.skip(str(reason))
    return Jail(kind, runtime, portal, toolbox)


@pytest.fixture(scope="module")
def session_jail(request: pytest.FixtureRequest) -> Iterator[Jail]:
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROBE_CANARY", CANARY)
        yield open_jail(stack, KINDS[request.param], limits=Limits(wall_seconds=20))


@pytest.fixture
def jail(session_jail: Jail) -> Jail:
    """The sandbox of each kind in turn, with a toolbox that has seen nothing."""
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
    assert resident_bytes() - resident < jail.kind.resident_bytes


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
