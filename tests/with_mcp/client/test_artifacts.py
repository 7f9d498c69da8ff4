"""What is kept of images and files, and how much: whatever a server says of them, the room is bounded."""

from __future__ import annotations

import re

import pytest

from callgate.mcp import Artifacts
from with_mcp.client.served import hostile, serving


def test_a_mime_type_is_one_line_and_cut() -> None:
    kept = Artifacts().add(b"x", "image/png\n" + "x" * 30_000_000, server="s")
    assert len(kept.mime_type) == 255
    assert kept.mime_type.startswith("image/png xxx")
    assert kept.mime_type.endswith("...")
    assert Artifacts().add(b"x", "image/png", server="s").mime_type == "image/png"


def test_a_uri_takes_room_like_the_bytes() -> None:
    artifacts = Artifacts(max_bytes=10_000)
    handles = [
        artifacts.add(b"x" * 1000, "text/plain", server="s", uri=f"note://{number}/" + "\U0001f600" * 990).handle
        for number in range(5)
    ]
    assert len(artifacts) == 2
    assert artifacts.kept_bytes == 2 * (1000 + 4 * 999)
    assert [artifacts.get(handle) is not None for handle in handles] == [False, False, False, True, True]


def test_a_uri_larger_than_all_the_room_keeps_the_others() -> None:
    artifacts = Artifacts(max_bytes=10_000)
    kept = artifacts.add(b"x", "text/plain", server="s")
    lost = artifacts.add(b"x", "text/plain", server="s", uri="x" * 10_000)
    assert artifacts.get(lost.to_json()) is None
    assert artifacts.get(kept.handle) is kept


def test_the_oldest_go_when_there_are_very_many() -> None:
    artifacts = Artifacts()
    handles = [artifacts.add(b"", "image/png", server="s").handle for _ in range(10_010)]
    assert len(artifacts) == 10_000
    assert [artifacts.get(handle) is not None for handle in handles] == [False] * 10 + [True] * 10_000


def test_a_handle_cannot_be_guessed() -> None:
    artifacts = Artifacts()
    handles = {artifacts.add(b"x", "image/png", server="s").handle for _ in range(100)}
    assert len(handles) == 100
    assert all(re.fullmatch("art_[0-9a-f]{12}", handle) for handle in handles)
    assert artifacts.get("art_1") is None


@pytest.mark.anyio
async def test_what_a_server_says_of_its_images_is_bounded() -> None:
    async with serving({"s": hostile("wordy_artifacts")}, max_artifact_bytes=6_000_000) as served:
        for _ in range(3):
            image, file = await served.call("s_echo", {"text": "x"})
            assert len(image["mime_type"]) == 255
        assert served.servers.artifacts.kept_bytes <= 6_000_000
        assert served.servers.artifacts.get(image) is not None
        assert served.servers.artifacts.get(file) is not None
        assert len(served.servers.artifacts) == 2  # the newest answer alone: a URI takes 4 MB


@pytest.mark.anyio
async def test_an_image_beside_structured_content_stands_in_objects_that_are_closed_as_well() -> None:
    async with serving({"s": hostile("beside")}) as served:
        for name in ("closed", "typed", "unevaluated", "in_text", "wrapped_object"):
            value = await served.call(f"s_{name}")
            (*_, kept) = served.servers.artifacts
            image = {"artifact": kept.handle, "mime_type": "image/png", "bytes": 3}
            link = {"uri": "note://1", "name": "first"}
            assert value == {"n": 1, "artifacts": [image, link]}, name
            assert served.servers.artifacts.get(image) is not None
        schema = served.registry.get("s_closed").output_schema
        assert schema is not None
        assert set(schema["properties"]) == {"n", "artifacts"}
        assert schema["additionalProperties"] is False
        assert served.status("s").warnings == ()


@pytest.mark.anyio
async def test_where_a_value_has_no_room_the_status_tells_of_what_came_beside() -> None:
    async with serving({"s": hostile("beside")}) as served:
        assert await served.call("s_wrapped") == 1
        assert await served.call("s_wrapped") == 1
        assert await served.call("s_has_the_key") == {"artifacts": 1}
        assert await served.call("s_by_reference") == {"n": 1}
        kept = list(served.servers.artifacts)
        assert served.status("s").warnings == tuple(
            f"the tool '{name}' sent artifacts for which its value has no room; see McpServers.artifacts: "
            f'{{"artifact":"{kept[place].handle}","mime_type":"image/png","bytes":3}}, {{"uri":"note://1","name":"first"}}'
            for place, name in enumerate(("wrapped", "has_the_key", "by_reference"), start=1)
        )
        assert [each.tool for each in kept] == ["wrapped", "wrapped", "has_the_key", "by_reference"]
