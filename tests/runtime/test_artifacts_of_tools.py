"""Tools that return and take files: handles in programs, plans and answers, owners, limits, caches."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import anyio
import pydantic
import pytest

from callgate import Artifact, CodeResult, ConfigurationError, Limits, Runtime, Tool, tool
from callgate.artifacts import HANDLE_SCHEMA, NOT_HERE

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
made: list[str] = []


@dataclass
class Report:
    page: bytes
    pictures: list[Artifact]
    rows: int


class Named(TypedDict):
    data: bytes


class Model(pydantic.BaseModel):
    file: Artifact
    raw: bytes
    n: int = 1


@tool(read_only=True, cache_seconds=60)
async def draw(name: str = "a.png") -> Artifact:
    """Draws."""
    made.append(name)
    return Artifact.from_bytes(PNG, name)


@tool
def raw() -> bytes:
    """A plain function."""
    return b"a,b\n1,2\n"


@tool
async def nested() -> Any:
    return {
        "rows": [bytearray(b"x"), 1, (memoryview(b"y"),)],
        "report": Report(b"<html>", [Artifact.from_bytes(PNG)], 3),
    }


@tool
async def typed() -> Report:
    return Report(b"page", [Artifact.from_bytes(PNG)], 3)


@tool
async def modelled() -> Model:
    return Model(file=Artifact.from_bytes(PNG), raw=b"text")


@tool
async def many(count: int, size: int = 1) -> list[bytes]:
    return [bytes(size) for _ in range(count)]


@tool
async def send(file: Artifact, more: list[Artifact] | None = None, also: Artifact | None = None) -> list[Any]:
    """Sends.

    Args:
        file: what to send.
    """
    return [each.name + f": {each.size_bytes}" for each in (file, *(more or ()), also) if each is not None]


@tool
async def same(file: Artifact) -> Artifact:
    return file


@tool
async def wrong() -> Report:
    return Report(b"kept by no one", "not a list", 3)  # type: ignore[arg-type]


TOOLS = [draw, raw, nested, typed, modelled, many, send, same, wrong]


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    made.clear()
    async with Runtime(TOOLS, pool_size=1) as runtime:
        yield runtime


@pytest.mark.parametrize("path", ["plan", "sandbox"])
async def test_bytes_become_a_handle_in_a_program_and_an_artifact_for_people(runtime: Runtime, path: Any) -> None:
    run = await runtime.execute_code("await raw()", path=path)
    (kept,) = run.artifacts
    assert run.value == {"artifact": kept.handle, "name": "artifact.txt", "media_type": "text/plain", "bytes": 8}
    assert (kept.read(), kept.source) == (b"a,b\n1,2\n", "raw")
    assert runtime.artifacts.get(run.value) is kept


@pytest.mark.parametrize("path", ["plan", "sandbox"])
async def test_they_do_so_inside_lists_dicts_and_dataclasses(runtime: Runtime, path: Any) -> None:
    run = await runtime.execute_code("await nested(), await typed(), await modelled()", path=path)
    assert run.ok, run.error
    nested, typed, modelled = run.value
    assert [each.read() for each in run.artifacts] == [b"x", b"y", b"<html>", PNG, b"page", PNG, PNG, b"text"]
    handles = [each.handle for each in run.artifacts]
    assert [nested["rows"][0]["artifact"], nested["rows"][2][0]["artifact"]] == handles[:2]
    assert nested["report"]["page"]["media_type"] == "text/html"
    assert [typed["page"]["artifact"], typed["pictures"][0]["artifact"], typed["rows"]] == [*handles[4:6], 3]
    assert [modelled["file"]["artifact"], modelled["raw"]["artifact"], modelled["n"]] == [*handles[6:], 1]


def test_the_schema_of_a_result_has_handles_where_bytes_are() -> None:
    assert raw.output_schema == HANDLE_SCHEMA
    assert typed.output_schema is not None
    assert typed.output_schema["properties"]["page"] == HANDLE_SCHEMA
    assert typed.output_schema["properties"]["pictures"]["items"] == HANDLE_SCHEMA
    text_and_bytes = Tool.from_function(_either, name="either").output_schema
    assert text_and_bytes == {"anyOf": [{"type": "string"}, HANDLE_SCHEMA]}
    encoded = Tool.from_function(_encoded, name="encoded").output_schema
    assert encoded is not None
    assert encoded["type"] == "string"


async def _either() -> str | bytes:
    return b""


async def _encoded() -> pydantic.Base64Bytes:
    return b"\xff"


def test_a_model_reads_that_an_argument_is_a_handle() -> None:
    properties = send.input_schema["properties"]
    assert properties["file"] == {
        "type": ["string", "object"],
        "description": 'what to send (a file, given by its handle: "art_...").',
    }
    assert 'its handle: "art_..."' in properties["more"]["description"]


@pytest.mark.parametrize("path", ["plan", "sandbox"])
async def test_a_tool_takes_handles_and_the_objects_that_have_them(runtime: Runtime, path: Any) -> None:
    code = "p = await draw()\nawait send(p, more=[p.artifact, p], also=None), await send(p['artifact'], also=p)"
    run = await runtime.execute_code(code, path=path)
    assert run.value == [["a.png: 24"] * 3, ["a.png: 24"] * 2], run.error
    assert len(run.artifacts) == 1


async def test_an_artifact_that_comes_back_keeps_its_handle(runtime: Runtime) -> None:
    run = await runtime.execute_code("p = await draw()\nq = await same(p)\np.artifact == q.artifact")
    assert run.value is True
    assert len(run.artifacts) == 1


async def test_plans_pass_handles_on_by_reference(runtime: Runtime) -> None:
    steps = [
        {"id": "p", "tool": "draw", "arguments": {}},
        {"id": "whole", "tool": "send", "arguments": {"file": "$ref:p", "more": ["$ref:p.artifact"]}},
        {"id": "each", "tool": "same", "for_each": ["$ref:p", "$ref:p.artifact"], "arguments": {"file": "$item"}},
    ]
    result = await runtime.execute_tool_plan({"steps": steps})
    assert result.ok, result.for_model()
    assert result.outputs["whole"] == ["a.png: 24"] * 2
    assert [each["artifact"] for each in result.outputs["each"]] == [result.artifacts[0].handle] * 2
    assert [each["artifact"] for each in result.to_dict()["artifacts"]] == [result.artifacts[0].handle]


GUESSED = ["art_" + "0" * 32, "art_1", "", "/etc/passwd"]


@pytest.mark.parametrize("handle", GUESSED)
async def test_a_guessed_handle_finds_nothing_in_a_program_a_plan_or_a_call(runtime: Runtime, handle: str) -> None:
    run = await runtime.execute_code(f"await send({handle!r})")
    assert run.error is not None
    assert NOT_HERE in run.error.message
    plan = await runtime.execute_tool_plan({"steps": [{"id": "s", "tool": "send", "arguments": {"file": handle}}]})
    assert plan.error is not None
    assert (plan.error.kind, plan.calls) == ("PlanRefused", [])
    assert NOT_HERE in plan.for_model()
    answer = await runtime.answer("send", {"file": {"artifact": handle}})
    assert answer.mistake
    assert NOT_HERE in answer.text


@pytest.mark.parametrize("given", [1, None, ["x"], {"name": "x"}, {"artifact": 1}])
async def test_what_is_no_handle_is_refused_with_what_to_write(runtime: Runtime, given: Any) -> None:
    answer = await runtime.answer("send", {"file": given} if given is not None else {})
    assert answer.mistake
    assert "handle of a file" in answer.text or "missing argument 'file'" in answer.text


async def test_each_conversation_has_handles_of_its_own(runtime: Runtime) -> None:
    one, other = runtime.conversation(direct="all"), runtime.conversation(direct="all")
    handle = (await one.answer("draw", {})).value["artifact"]
    assert (await one.answer("send", {"file": handle})).ok
    program = {"code": f"await send({handle!r})"}
    plan = {"steps": [{"id": "s", "tool": "send", "arguments": {"file": handle}}]}
    for name, arguments in (("send", {"file": handle}), ("execute_code", program), ("execute_tool_plan", plan)):
        assert (await one.answer(name, arguments)).ok, name
        for stranger in (other, runtime):
            assert NOT_HERE in (await stranger.answer(name, arguments)).text, name
    assert [each.handle for each in one.artifacts] == [handle]
    assert list(other.artifacts) == []


async def test_a_conversation_that_is_left_forgets_its_artifacts_and_results_keep_them(runtime: Runtime) -> None:
    async with runtime.conversation(session=True) as conversation:
        answer = await conversation.answer("execute_code", {"code": "p = await draw()"})
        again = await conversation.answer("execute_code", {"code": "await send(p)"})
        assert again.ok, again.text
        assert isinstance(answer.result, CodeResult)
        (kept,) = answer.result.artifacts
        held = runtime.artifacts.get(kept.handle)
        assert held is kept
    assert runtime.artifacts.get(kept.handle) is None
    assert kept.read() == PNG


async def test_a_closed_runtime_has_forgotten_everything() -> None:
    async with Runtime(TOOLS, sandbox=None) as runtime:
        run = await runtime.execute_code("await raw()")
        assert len(runtime.artifacts) == 1
    assert len(runtime.artifacts) == runtime.artifacts.kept_bytes == 0
    assert run.artifacts[0].read() == b"a,b\n1,2\n"


async def test_a_cached_result_with_a_handle_is_handed_to_nobody_else(runtime: Runtime) -> None:
    one, other = runtime.conversation(direct="all"), runtime.conversation(direct="all")
    handles = [(await each.answer("draw", {})).value["artifact"] for each in (one, one, other)]
    assert len(set(handles)) == 3
    assert made == ["a.png"] * 3


async def test_forty_artifacts_are_more_than_a_run_may_have_and_none_is_kept(runtime: Runtime) -> None:
    run = await runtime.execute_code(
        "try:\n    await many(40)\nexcept ToolError as e:\n    print(e)\nlen(await many(32))"
    )
    assert run.value == 32
    assert "a run may have 32 artifacts (max_artifacts); ask for less" in run.logs
    assert len(run.artifacts) == len(runtime.artifacts) == 32
    more = await runtime.execute_code("await many(32)\nawait raw()")
    assert more.error is not None
    assert "max_artifacts" in more.error.message


async def test_a_huge_result_is_refused_and_nothing_of_it_is_kept(runtime: Runtime) -> None:
    run = await runtime.execute_code("await many(2, 17 * 1024 * 1024)")
    assert run.error is not None
    assert "may have 33,554,432 in all (max_artifact_bytes); ask for less" in run.error.message
    assert runtime.artifacts.kept_bytes == 0
    small = await runtime.execute_code("await raw()", limits=Limits(max_artifact_bytes=7))
    assert small.error is not None
    assert "it has 8 bytes, and the artifacts of a run may have 7 in all" in small.error.message


async def test_a_result_that_breaks_its_contract_keeps_nothing(runtime: Runtime) -> None:
    run = await runtime.execute_code("await wrong()")
    assert run.error is not None
    assert "returned what it must not: result.pictures must be of type array" in run.error.message
    assert len(runtime.artifacts) == len(run.artifacts) == 0


async def test_texts_and_paths_stay_text(runtime: Runtime) -> None:
    async def paths() -> Any:
        return [Path("/etc/hostname"), "/etc/hostname", "art_1"]

    async with Runtime([paths], sandbox=None) as runtime:
        run = await runtime.execute_code("await paths()")
    assert run.value == ["/etc/hostname", "/etc/hostname", "art_1"]
    assert run.artifacts == []


@pytest.mark.parametrize("path", ["plan", "sandbox"])
async def test_an_input_may_be_an_artifact(runtime: Runtime, path: Any) -> None:
    earlier = (await runtime.execute_code("await raw()")).artifacts[0]
    own = Artifact.from_bytes(b"own", "own.txt")
    code = "[f.artifact for f in files], await send(files[0]), await send(files[1])"
    run = await runtime.execute_code(code, inputs={"files": [earlier, own]}, path=path)
    assert run.ok, run.error
    handles, first, second = run.value
    assert (handles[0], first, second) == (earlier.handle, ["artifact.txt: 8"], ["own.txt: 3"])
    assert run.artifacts == []
    with pytest.raises(ConfigurationError, match="'x' is not: a value of type bytes"):
        await runtime.execute_code("x", inputs={"x": b"bytes"})


async def test_a_retry_and_a_fallback_give_artifacts_too(runtime: Runtime) -> None:
    @tool(fallback="raw")
    async def breaks() -> bytes:
        raise ValueError

    async with Runtime([breaks, raw], sandbox=None) as runtime:
        run = await runtime.execute_code("await breaks()")
    assert [each.source for each in run.artifacts] == ["raw"]
    assert json.loads(json.dumps(run.to_dict()))["artifacts"] == [run.value]


async def test_a_picture_of_pillow_becomes_a_png() -> None:
    image = pytest.importorskip("PIL.Image")

    async def picture() -> image.Image:  # type: ignore[name-defined]
        return image.new("CMYK", (3, 2))

    async def pictures():  # type: ignore[no-untyped-def]
        one = image.new("RGBA", (1, 1))
        return {"twice": [one, one], "n": 1}

    async with Runtime([picture, pictures], sandbox=None) as runtime:
        run = await runtime.execute_code("await picture(), await pictures()")
    assert run.ok, run.error
    first, second = run.artifacts
    assert run.value[0]["artifact"] == first.handle
    assert [each["artifact"] for each in run.value[1]["twice"]] == [second.handle] * 2
    assert (first.media_type, first.name, first.read()[:8]) == ("image/png", "picture.png", PNG[:8])


ALONE = """
import asyncio, sys
from callgate import Runtime
async def a() -> bytes:
    return b""
async def main():
    async with Runtime([a], sandbox=None) as runtime:
        print((await runtime.execute_code("await a()")).ok)
asyncio.run(main())
print([each for each in ("PIL", "mcp", "numpy") if each in sys.modules])
"""


def test_pillow_is_not_imported_for_tools_without_pictures() -> None:
    out = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60, check=True)
    assert out.stdout == "True\n[]\n"


async def test_what_an_early_call_made_that_the_program_did_not_use_is_not_among_its_artifacts() -> None:
    began = anyio.Event()

    @tool(read_only=True)
    async def zero() -> int:
        await began.wait()
        return 0

    @tool(read_only=True)
    async def early(name: str) -> Artifact:
        began.set()
        return Artifact.from_bytes(PNG, name)

    async with Runtime([zero, early], sandbox=None) as runtime:
        run = await runtime.execute_code("n = await zero()\nm = 1 // n\np = await early('a.png')")
        assert run.error is not None
        assert ([each.tool for each in run.speculative], run.artifacts) == (["early"], [])
        used = await runtime.execute_code("n = await zero()\np = await early('a.png')")
        assert [each.name for each in used.artifacts] == ["a.png"]
