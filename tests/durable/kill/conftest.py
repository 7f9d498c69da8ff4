from __future__ import annotations

from collections.abc import Iterator

import pytest

from durable.kill.lives import adopt_orphans


@pytest.fixture(autouse=True)
def _orphans() -> Iterator[None]:
    adopt_orphans()
    yield
    adopt_orphans(False)
