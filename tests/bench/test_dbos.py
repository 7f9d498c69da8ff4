"""DBOS beside durable runs: its workflows make their steps, and find them recorded, in any folder."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from bench.interpreters import packages_of
from callgate_bench.contest.process import PeerProcess
from callgate_bench.contestants.listed import PEERS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="the harness needs Linux")]


def rows(folder: Path, status: str, steps: int) -> int:
    """How many workflows of a folder have this status and so many steps."""
    query = (
        "SELECT COUNT(*) FROM workflow_status AS run WHERE status = ? AND"
        " (SELECT COUNT(*) FROM operation_outputs WHERE workflow_uuid = run.workflow_uuid) = ?"
    )
    with closing(sqlite3.connect(folder / "dbos.sqlite")) as database:
        return int(database.execute(query, (status, steps)).fetchone()[0])


def test_workflows_of_dbos_make_steps_and_find_them_again_in_one_folder_after_the_other(tmp_path: Path) -> None:
    async def ask() -> None:
        packages = await packages_of("dbos", "dbos")
        async with PeerProcess("callgate_bench.contestants.dbos_workflow", packages=packages) as peer:
            for name in ("first", "second"):
                folder = tmp_path / name
                folder.mkdir()
                made = await peer.ask("calls", folder=str(folder), calls=12, in_flight=5)
                assert made["seconds"] > 0
                again = await peer.ask("replay", folder=str(folder), calls=12, in_flight=5)
                assert again["seconds"] > 0
                assert rows(folder, "SUCCESS", 13) == 3

    anyio.run(ask)


def test_dbos_takes_no_workload_and_says_why() -> None:
    (listed,) = (each for each in PEERS if each.name == "dbos")
    assert listed.cannot == "it makes a developer's functions durable, and takes no program or plan from a model"
