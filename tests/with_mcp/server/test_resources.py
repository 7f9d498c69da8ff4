"""Artifacts through `callgate serve`: pictures in results, links, a list, and bytes for their owner alone; with the
SDK's client, on stdio and over HTTP."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import BlobResourceContents, CallToolResult, ImageContent, ResourceLink, TextResourceContents

from callgate.artifacts import Artifacts
from callgate.mcp.server.resources import SCHEME, links, listed, read
from runtime.drawn import HTML, SVG, artifact, png
from with_mcp.server.served import ERAS, Served, text

pytestmark = pytest.mark.anyio

DRAWING = f'''
"""Tools that make artifacts."""
import sys

sys.path.insert(0, {str(Path(__file__).parents[2])!r})

from callgate import Artifact, tool
from runtime.drawn import HTML, SVG, png


@tool(read_only=True)
def draw(seed: int, name: str = "plot.png") -> Artifact:
    """Draws a plot."""
    return Artifact.from_bytes(png(seed=seed), name)


@tool(read_only=True)
def photograph(seed: int) -> Artifact:
    """Takes a large picture."""
    return Artifact.from_bytes(png(500, 400, seed=seed, noise=True), f"photo{{seed}}.png")


@tool(read_only=True)
def table() -> Artifact:
    """Makes a table."""
    return Artifact.from_bytes(b"a,b\\n1,2\\n", "out.csv")


@tool(read_only=True)
def live() -> list[Artifact]:
    """Makes what is no picture for a model."""
    return [Artifact.from_bytes(SVG, "plot.svg"), Artifact.from_bytes(HTML, "page.html")]


@tool(read_only=True)
def large() -> Artifact:
    """Makes a large file."""
    return Artifact.from_bytes(bytes(900_000), "large.bin")
'''
ONE = "await draw(seed=1)\nNone"


@pytest.fixture
def drawing(served: Served) -> Served:
    (served.folder / "tools.py").write_text(DRAWING)
    return served


@contextlib.asynccontextmanager
async def connected(served: Served, wire: str, era: str) -> AsyncIterator[Client]:
    if wire == "stdio":
        async with served.client(era=era) as client:
            yield client
    else:
        with served.http() as (url, _):
            async with served.http_client(url, era=era) as client:
                yield client


async def ran(client: Client, code: str) -> CallToolResult:
    result = await client.call_tool("execute_code", {"code": code})
    assert isinstance(result, CallToolResult)
    assert not result.is_error, text(result)
    return result


def images(result: CallToolResult) -> list[ImageContent]:
    return [each for each in result.content if isinstance(each, ImageContent)]


def linked(result: CallToolResult) -> list[ResourceLink]:
    return [each for each in result.content if isinstance(each, ResourceLink)]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("wire", ["stdio", "http"])
async def test_a_program_s_picture_is_an_image_and_its_table_a_link_that_can_be_read(
    drawing: Served, wire: str, era: str
) -> None:
    async with connected(drawing, wire, era) as client:
        result = await ran(client, "await draw(seed=1)\nawait table()\nNone")
        (image,) = images(result)
        assert (image.mime_type, base64.b64decode(image.data)) == ("image/png", png(seed=1))
        assert image.data[:40] not in text(result)
        assert result.structured_content is not None
        assert {each["name"] for each in result.structured_content["artifacts"]} == {"plot.png", "out.csv"}
        (link,) = linked(result)
        assert (link.name, link.mime_type, link.size) == ("out.csv", "text/csv", 8)
        (content,) = (await client.read_resource(link.uri)).contents
        assert isinstance(content, TextResourceContents)
        assert (content.text, content.mime_type, content.uri) == ("a,b\n1,2\n", "text/csv", link.uri)


async def test_svg_and_html_are_links_and_no_images(drawing: Served) -> None:
    async with drawing.client() as client:
        result = await ran(client, "await live()\nNone")
        assert images(result) == []
        assert [each.mime_type for each in linked(result)] == ["image/svg+xml", "text/html"]
        (content,) = (await client.read_resource(linked(result)[0].uri)).contents
        assert isinstance(content, TextResourceContents)
        assert content.text.encode() == SVG
        assert HTML.decode() not in text(result)


async def test_a_client_lists_its_artifacts_newest_first(drawing: Served) -> None:
    async with drawing.client() as client:
        assert client.server_capabilities.resources is not None
        assert (await client.list_resources()).resources == []
        await ran(client, ONE)
        await ran(client, "await table()\nNone")
        newest, first = (await client.list_resources()).resources
        assert (newest.name, first.name) == ("out.csv", "plot.png")
        (content,) = (await client.read_resource(first.uri)).contents
        assert isinstance(content, BlobResourceContents)
        assert base64.b64decode(content.blob) == png(seed=1)


async def test_a_client_neither_lists_nor_reads_what_another_one_made(drawing: Served) -> None:
    with drawing.http() as (url, _):
        async with drawing.http_client(url) as one, drawing.http_client(url) as other:
            await ran(one, ONE)
            (mine,) = (await one.list_resources()).resources
            assert (await other.list_resources()).resources == []
            with pytest.raises(MCPError, match="is not kept any more, or never was"):
                await other.read_resource(mine.uri)
            assert (await one.read_resource(mine.uri)).contents


async def test_without_a_session_a_handle_is_read_by_those_who_know_it_and_nothing_is_listed(drawing: Served) -> None:
    with drawing.http() as (url, _):
        async with drawing.http_client(url, era="auto") as client:
            (link,) = linked(await ran(client, "await table()\nNone"))
            assert (await client.list_resources()).resources == []
            assert (await client.read_resource(link.uri)).contents


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd", f"{SCHEME}art_{'0' * 32}", f"{SCHEME}../../etc/passwd", "", "callgate://", "x" * 100_000,
        f"{SCHEME}art_{'0' * 32}\n", f"{SCHEME}art_{'0' * 32}?x", "\x00",
    ],
)  # fmt: skip
async def test_no_other_uri_opens_anything(uri: str) -> None:
    with pytest.raises(MCPError, match="there is no resource") as raised:
        read(Artifacts().shelf(), uri, http=False)
    assert len(str(raised.value)) < 400


# over HTTP, clients drop long messages


async def test_pictures_for_which_a_message_has_no_room_are_links_over_http(drawing: Served) -> None:
    code = "for n in range(4):\n    await photograph(seed=n)\nNone"
    with drawing.http() as (url, _):
        async with drawing.http_client(url) as client:
            result = await ran(client, code)
    assert len(images(result)) == 1
    assert len({each.name for each in linked(result)}) == 3
    assert "3 pictures are not shown to you: a result has 1,000,000 bytes over HTTP" in text(result)
    async with drawing.client() as client:
        assert len(images(await ran(client, code))) == 4


async def test_what_is_too_long_for_http_is_refused_in_words(drawing: Served) -> None:
    with drawing.http() as (url, _):
        async with drawing.http_client(url) as client:
            (link,) = linked(await ran(client, "await large()\nNone"))
            with pytest.raises(MCPError, match=r"large\.bin has 900,000 bytes, and clients read 1,000,000 over HTTP"):
                await client.read_resource(link.uri)
            await ran(client, "1")
    async with drawing.client() as client:
        (link,) = linked(await ran(client, "await large()\nNone"))
        (content,) = (await client.read_resource(link.uri)).contents
        assert isinstance(content, BlobResourceContents)
        assert base64.b64decode(content.blob) == bytes(900_000)


def test_clients_from_before_links_get_none() -> None:
    kept = Artifacts().shelf().add(artifact(b"a", "a.txt"))
    assert [len(links([kept], version)) for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28")] == [
        0, 0, 1, 1,
    ]  # fmt: skip
    assert links([kept], None) == []
    assert links([artifact(b"a", "a.txt")], "2025-11-25") == []  # the store had no room for it


def test_a_long_list_comes_in_pages() -> None:
    shelf = Artifacts().shelf()
    for number in range(1_200):
        shelf.add(artifact(b"%d" % number, f"{number}.txt"))
    names: list[str] = []
    cursor: Any = None
    for _ in range(3):
        page = listed(shelf, cursor)
        names += [each.name for each in page.resources]
        cursor = page.next_cursor
    assert cursor is None
    assert names == [f"{number}.txt" for number in reversed(range(1_200))]
    for odd in ("x", "-1", "0", "1201", "9" * 100, "٣"):
        with pytest.raises(MCPError, match="there is no page"):
            listed(shelf, odd)
