"""`read_artifact`, for models and programs; and what is too long for a model, which it can read on."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from callgate import Artifact, CodeResult, Runtime, tool
from callgate.artifacts import NOT_HERE
from callgate.runtime.reading import MODEL_BYTES, PROGRAM_BYTES, part_of, read_by_model

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
LONG = "print('\\n'.join(f'line {n}' for n in range(5000)))"
WHOLE = "".join(f"line {n}\n" for n in range(5000))


@tool
async def document(letters: int) -> Artifact:
    """A text."""
    return Artifact.from_bytes(("aé😀" * letters)[:letters].encode(), "a.txt")


@tool
async def picture() -> Artifact:
    """A picture."""
    return Artifact.from_bytes(PNG, "a.png")


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime([document, picture], pool_size=1) as runtime:
        yield runtime


def read_on(text: str) -> tuple[str, int]:
    """The handle and the offset in a text for a model."""
    found = re.search(r'read on: read_artifact\("(art_[0-9a-f]{32})", offset=(\d+)\)', text)
    assert found is not None, text
    return found[1], int(found[2])


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 1000])
def test_text_is_read_in_parts_without_half_a_character(step: int) -> None:
    text = "aé😀b" * 20
    artifact = Artifact.from_bytes(text.encode(), "a.txt")
    parts, offset = list[str](), 0
    for _ in text.encode():
        part = part_of(artifact, offset, step)
        parts.append(part["text"])
        offset = part["next_offset"]
        if offset is None:
            break
    assert "".join(parts) == text


def test_what_is_no_text_is_one_line_for_a_model_and_base64_for_a_program() -> None:
    artifact = Artifact.from_bytes(PNG, "a.png")
    assert read_by_model(artifact, 0, 100) == (
        "a.png (image/png, 24 bytes) is not text. Pass its handle to a tool that takes files, or read its bytes in a "
        "program."
    )
    assert base64.b64decode(part_of(artifact, 8, 4)["base64"]) == PNG[8:12]


@pytest.mark.parametrize("path", ["plan", "sandbox"])
async def test_a_program_reads_its_artifacts(runtime: Runtime, path: Any) -> None:
    code = (
        "d = await document(10)\np = await read_artifact(d, offset=1, limit=2)\nq = await read_artifact(d.artifact)\n"
    )
    code += "p.text, p.next_offset, q.text, q.next_offset"
    run = await runtime.execute_code(code, path=path)
    assert run.value == ["é", 3, "aé😀aé😀aé😀a", None], run.error
    run = await runtime.execute_code("p = await picture()\n(await read_artifact(p, limit=8)).base64", path=path)
    assert run.value == base64.b64encode(PNG[:8]).decode()


async def test_a_plan_reads_too(runtime: Runtime) -> None:
    steps = [
        {"id": "d", "tool": "document", "arguments": {"letters": 3}},
        {"id": "r", "tool": "read_artifact", "arguments": {"artifact": "$ref:d"}},
    ]
    plan = await runtime.execute_tool_plan({"steps": steps, "output_steps": ["r"]})
    assert plan.outputs["r"]["text"] == "aé😀", plan.for_model()


BAD: list[tuple[dict[str, Any], str]] = [
    ({"artifact": "art_" + "0" * 32}, NOT_HERE),
    ({"artifact": "/etc/passwd"}, NOT_HERE),
    ({"artifact": 1}, "argument 'artifact' must be of type string"),
    ({}, "missing argument 'artifact'"),
    ({"artifact": "x", "offset": -1}, "'offset' must keep to minimum 0"),
    ({"artifact": "x", "limit": 0}, "'limit' must keep to minimum 1"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD)
async def test_a_wrong_call_says_what_is_wrong(runtime: Runtime, arguments: dict[str, Any], words: str) -> None:
    answer = await runtime.answer("read_artifact", arguments)
    assert answer.mistake
    assert words in answer.text
    run = await runtime.execute_code(f"await read_artifact(**{arguments!r})", check=False)
    assert run.error is not None
    assert words.replace("string", "string or object") in run.error.message


async def test_an_offset_beyond_the_end_gives_nothing_and_ends(runtime: Runtime) -> None:
    run = await runtime.execute_code(
        "d = await document(3)\nr = await read_artifact(d, offset=10**30)\nr.text, r.next_offset"
    )
    assert run.value == ["", None], run.error


async def test_a_program_gets_a_megabyte_at_a_time(runtime: Runtime) -> None:
    """Thirty calls for 31 MB of control characters took 5 GB of the host's memory."""
    run = await runtime.execute_code(
        "d = await document(2_000_000)\nr = await read_artifact(d, limit=10**9)\nr.next_offset"
    )
    assert PROGRAM_BYTES <= run.value < PROGRAM_BYTES + 4, run.error


@pytest.mark.parametrize("with_session", [False, True])
async def test_a_model_reads_on_what_was_too_long(runtime: Runtime, with_session: bool) -> None:
    async with runtime.conversation(session=with_session) as conversation:
        assert "read_artifact" not in names(conversation)
        answer = await conversation.answer("execute_code", {"code": LONG})
        assert isinstance(answer.result, CodeResult)
        assert len(answer.text) < 9_000
        assert answer.text.startswith("line 0\n")
        assert f"of {len(WHOLE) - 1} bytes left out; read on: " in answer.text
        assert answer.text.rstrip().endswith("From your next turn on you can also call: read_artifact.")
        assert answer.result.artifacts == []
        handle, offset = read_on(answer.text)
        read = answer.text[: answer.text.index("\n... ")]
        assert names(conversation)[-1] == "read_artifact"
        for _ in range(20):
            part = await conversation.answer("read_artifact", {"artifact": handle, "offset": offset, "limit": 10**9})
            assert part.ok, part.text
            head, _, text = part.text.partition("\n")
            assert len(text.encode()) <= MODEL_BYTES
            read += text
            if "the end" in head:
                break
            offset = int(head.rpartition("offset=")[2].rstrip(":"))
        assert read == WHOLE.rstrip()


def names(conversation: Any) -> list[str]:
    return [each["name"] for each in conversation.tool_definitions("anthropic")]


async def test_a_long_value_and_a_long_output_of_a_plan_are_kept_as_well(runtime: Runtime) -> None:
    conversation = runtime.conversation()
    answer = await conversation.answer("execute_code", {"code": "[n for n in range(9000)]"})
    handle, _ = read_on(answer.text)
    kept = conversation.artifacts.get(handle)
    assert kept is not None
    assert (kept.name, kept.media_type) == ("value.json", "application/json")
    assert json.loads(kept.text) == list(range(9000))
    plan = {"steps": [{"id": "d", "tool": "read_artifact", "arguments": {"artifact": handle}}]}
    answer = await conversation.answer("execute_tool_plan", plan)
    handle, _ = read_on(answer.text)
    kept = conversation.artifacts.get(handle)
    assert kept is not None
    assert json.loads(kept.text)["bytes"] == len(json.dumps(list(range(9000))))
    run = await conversation.answer("execute_code", {"code": f"len((await read_artifact({handle!r})).text)"})
    assert run.text == f"Value: {len(kept.text)}"


async def test_nothing_is_kept_where_the_model_cannot_read_on(runtime: Runtime) -> None:
    answer = await runtime.answer("execute_tool_plan", {"steps": []}, meta=["execute_tool_plan"])
    assert not answer.ok
    async with Runtime(sandbox=None) as alone:
        answer = await alone.answer("execute_code", {"code": "print('x' * 50_000)"}, meta=["execute_code"])
        assert "bytes left out ..." in answer.text
        assert len(alone.artifacts) == 0
        run = await alone.execute_code("print('x' * 50_000)")
        assert "bytes left out ..." in run.for_model()
        assert len(alone.artifacts) == 0


async def test_a_list_that_does_not_grow_stays_as_it_is(runtime: Runtime) -> None:
    conversation = runtime.conversation(grows=False)
    answer = await conversation.answer("execute_code", {"code": LONG})
    assert not answer.tools_changed
    assert "read_artifact" not in names(conversation)
    handle, offset = read_on(answer.text)  # in a program
    read = f"(await read_artifact({handle!r}, offset={offset}, limit=9)).text"
    assert (await conversation.answer("execute_code", {"code": read})).text == f"Value: {WHOLE[offset : offset + 9]}"
    assert (await conversation.answer("read_artifact", {"artifact": handle})).mistake


async def test_a_model_reads_a_line_about_each_file_once(runtime: Runtime) -> None:
    answer = await runtime.answer("execute_code", {"code": "p = await picture()\nfor n in range(40):\n    len('x')"})
    assert isinstance(answer.result, CodeResult)
    (kept,) = answer.result.artifacts
    assert f"Files:\n- a.png (image/png, 24 bytes): {kept.handle}" in answer.text
    answer = await runtime.answer("execute_code", {"code": "await picture()"})
    assert "Files:" not in answer.text
    shelf = runtime.artifacts.shelf()
    result = CodeResult(ok=True, artifacts=[shelf.add(Artifact.from_bytes(b"x", f"{n}" * 90)) for n in range(40)])
    lines = result.for_model().splitlines()
    assert (len(lines), lines[-1]) == (35, "- ... 8 more")
    assert max(map(len, lines)) < 250
