"""Both paths, opened once for the programs of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fast_path.paths import Paths, open_paths


@pytest.fixture(scope="module")
def paths() -> Iterator[Paths]:
    with open_paths() as opened:
        yield opened
