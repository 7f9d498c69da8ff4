"""The scripted endpoint's process is there while it is wanted, and says why where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.erring_endpoint import opened
from callgate.bench.model.scripted_endpoint import ModelServerFailed, model_server

pytestmark = pytest.mark.anyio


async def test_the_server_is_there_while_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    async with model_server("bench.scripted_workloads:WORKLOADS") as server:
        with pytest.raises(ModelServerFailed, match="no such workload: 'none'; there are breaks"):
            await server.register("none", opened())
        assert await server.register("weather", opened()) == "scripted-1"
    with pytest.raises(ModelServerFailed, match="does not answer"):
        await server.register("weather", opened())


async def test_files_of_the_folder_where_it_is_started_are_not_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    async with model_server() as server:
        assert not await server.has_ended()
    assert await server.has_ended()


async def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(ModelServerFailed, match="No module named 'no_such_module'"):
        async with model_server("no_such_module:WORKLOADS"):
            pass
