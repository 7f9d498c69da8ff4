from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable.kill import warm
from durable.kill.lives import adopt_orphans
from durable.kill.trials import Setting


@pytest.fixture(autouse=True)
def _orphans() -> Iterator[None]:
    adopt_orphans()
    yield
    adopt_orphans(False)


@pytest.fixture(scope="module", autouse=True)
def _parents() -> Iterator[None]:
    yield
    warm.close()


@pytest.fixture(scope="session")
def undisturbed_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the runs that nobody killed, one for all processes of a test run."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "undisturbed"


@pytest.fixture
def setting(undisturbed_runs: Path) -> Setting:
    """A setting with the runs that nobody killed, of this test run."""
    return Setting(shared=str(undisturbed_runs))


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of the tests; the campaigns have processes on both."""
    return "asyncio"
