"""What is kept of images and files, and how much: whatever a server says of them, the room is bounded."""

from __future__ import annotations

import pytest

from with_mcp.client.served import hostile, serving


@pytest.mark.anyio
async def test_what_a_server_says_of_its_images_is_bounded() -> None:
    async with serving({"s": hostile("wordy_artifacts")}, max_artifact_bytes=6_000_000) as served:
        for _ in range(3):
            image, file = await served.call("s_echo", {"text": "x"})
            assert len(image["media_type"]) == 255
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
            image = {"artifact": kept.handle, "name": "artifact.txt", "media_type": "text/plain", "bytes": 3}
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
            f"the tool '{name}' sent artifacts for which its value has no room; Runtime.artifacts.get() has them: "
            f'{{"artifact":"{kept[place].handle}","name":"artifact.txt","media_type":"text/plain","bytes":3}}, {{"uri":"note://1","name":"first"}}'
            for place, name in enumerate(("wrapped", "has_the_key", "by_reference"), start=1)
        )
        assert [each.source for each in kept] == ["s.wrapped", "s.wrapped", "s.has_the_key", "s.by_reference"]
