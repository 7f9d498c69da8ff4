"""Peers of the search, each in its own process: they find what is there, and what is not there is said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import anyio
import pytest

from callgate.bench.peers.process import Bubblewrap, MontyPeer, PeerFailed, PeerProcess
from callgate.bench.singles.context import TINY, Bench
from callgate.bench.singles.measures.tool_search import search
from callgate.bench.singles.tool_sets import Query, ToolSet, halves, read_set, recall

PEERS = {
    "FastMCP": ("callgate.bench.peers.fastmcp_search", "fastmcp"),
    "pydantic-ai": ("callgate.bench.peers.pydantic_ai_search", "pydantic_ai"),
    "bm25s": ("callgate.bench.peers.bm25s_search", "bm25s"),
}
TOOLS = [
    {"id": "Skies/Forecast", "text": "Weather Skies Forecast Weather of the next days. city Name of a city."},
    {"id": "Skies/Now", "text": "Weather Skies Now Weather at this moment. city Name of a city."},
    {"id": "Shop/Order", "text": "Trade Shop Order Places an order. article What to buy."},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    queries = [{"query": f"buy article {n}", "relevant": ["Shop/Order"]} for n in range(10)]
    for beginning in ("stabletoolbench", "bfcl_all"):
        for kind, records in (("tools", TOOLS), ("queries", queries)):
            with gzip.open(tmp_path / f"{beginning}_{kind}.jsonl.gz", "wt") as file:
                file.writelines(json.dumps(record) + "\n" for record in records)
    return tmp_path


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_finds_what_is_there(folder: Path, name: str) -> None:
    module, package = PEERS[name]
    pytest.importorskip(package, reason=f"{name} is not installed")

    async def ask() -> tuple[list[list[str]], int]:
        async with PeerProcess(name, module, package) as peer:
            loaded = await peer.ask("load", folder=str(folder), beginnings=["stabletoolbench"], count=4)
            answer = await peer.ask("search", queries=["buy some article", "!?"])
            assert len(answer["seconds"]) == 2
            return answer["found"], loaded["tools"]

    found, tools = anyio.run(ask)
    assert found[0][0] == "Shop/Order"
    assert found[1] == []
    assert tools >= 3


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_says_that_its_tools_are_not_there(tmp_path: Path, name: str) -> None:
    module, package = PEERS[name]
    pytest.importorskip(package, reason=f"{name} is not installed")

    async def ask() -> None:
        async with PeerProcess(name, module, package) as peer:
            await peer.ask("load", folder=str(tmp_path), beginnings=["bfcl_all"], count=4)

    with pytest.raises(PeerFailed, match="no BFCL in "):
        anyio.run(ask)


def test_a_set_is_read_as_tools_of_ours(folder: Path) -> None:
    found = read_set(folder, "stabletoolbench")
    assert found is not None
    tool = found.tools()[0]
    assert (tool.name, tool.server, tool.server_tool, tool.category) == (
        "Skies/Forecast",
        "Skies",
        "Forecast",
        "Weather",
    )
    assert tool.description == "Weather of the next days. city Name of a city."
    assert read_set(folder / "elsewhere", "stabletoolbench") is None


def test_recall_is_the_mean_share_of_what_answers() -> None:
    queries = [Query("one", ("a", "b")), Query("two", ("c",))]
    assert recall(queries, {"one": ["a", "x"], "two": ["c"]}.__getitem__) == 0.75
    assert sum(map(len, halves(queries))) == 2
    assert ToolSet("none", {}, ()).tools() == []


def test_without_the_data_the_row_says_so(tmp_path: Path) -> None:
    async def rows() -> list[str]:
        bench = Bench(TINY, MontyPeer(), Bubblewrap(), tmp_path / "calls")
        return [row.measured for row in await search(bench)]

    assert anyio.run(rows) == [f"not measured: no tools and queries in {tmp_path / 'toolsearch'}"]
