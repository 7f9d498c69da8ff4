"""What programs display becomes artifacts and events, in every sandbox, and within the limits."""

from __future__ import annotations

import struct
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from callgate import Displayed, Event, Limits, Printed, Runtime, tool
from guard.hostile_guest import WIRE
from runtime.conftest import opened
from sandbox.docker.images import have_engine_and_image

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n"
PICTURE = """
class Picture:
    def __init__(self, data=b""):
        self.data = data
    def _repr_png_(self):
        return b"\\x89PNG\\r\\n\\x1a\\n" + self.data
class Page:
    def __init__(self, text):
        self.text = text
    def _repr_html_(self):
        return self.text
"""


@pytest.fixture(scope="module", params=["tier 1", "tier 2", "docker", "unsafe"])
async def runtime(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[Runtime]:
    options: dict[str, Any] = {"sandbox": request.param}
    if request.param.startswith("tier"):
        options = {"tier": int(request.param[-1])}
    if request.param == "docker":
        await have_engine_and_image()
    async with opened(pool_size=1, **options) as entered:
        yield entered


@pytest.mark.filterwarnings("ignore:sandbox='unsafe'")
async def test_what_is_displayed_is_an_artifact_and_an_event_in_its_place(runtime: Runtime) -> None:
    events: list[Event] = []
    code = f"{PICTURE}print('a')\ndisplay(Picture(b'1'), Page('<b>é</b>'))\nprint('b')\nPicture(b'2')"
    run = await runtime.execute_code(code, on_event=events.append)
    assert run.ok, run.error
    assert run.logs == "a\n[picture 1: picture-1.png]\n[page 1: page-1.html]\nb\n"
    assert (run.value, run.value_repr) == (None, "[picture 2: picture-2.png]")
    assert [(each.name, each.media_type, each.data, each.source) for each in run.artifacts] == [
        ("picture-1.png", "image/png", PNG + b"1", "program"),
        ("page-1.html", "text/html", "<b>é</b>".encode(), "program"),
        ("picture-2.png", "image/png", PNG + b"2", "program"),
    ]
    assert all(each.handle.startswith("art_") for each in run.artifacts)
    shown = [each.artifact for each in events if isinstance(each, Displayed)]
    assert shown == run.artifacts
    order = "".join(each.text if isinstance(each, Printed) else "#" for each in events)
    assert order == "a\n[picture 1: picture-1.png]\n#[page 1: page-1.html]\n#b\n#"


@pytest.mark.filterwarnings("ignore:sandbox='unsafe'")
async def test_calls_prints_and_what_is_displayed_have_their_lines_in_every_sandbox(runtime: Runtime) -> None:
    code = f"{PICTURE}print('a')\nx = await echo(3)\ndisplay(Picture(b'1'))\nprint(x)"
    run = await runtime.execute_code(code, path="sandbox")
    (picture,) = run.artifacts
    first = PICTURE.count("\n") + 1
    assert [(call.line, call.result) for call in run.calls] == [(first + 1, "3")]
    assert [(mark.line, mark.artifact) for mark in run.prints] == [
        (first, None), (first + 2, None), (first + 2, picture.handle), (first + 3, None),
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore:sandbox='unsafe'")
async def test_what_was_displayed_before_a_failure_and_before_a_limit_is_there(runtime: Runtime) -> None:
    failed = await runtime.execute_code(f"{PICTURE}display(Picture())\n1 / 0")
    assert failed.error is not None
    assert failed.error.kind == "ZeroDivisionError"
    assert [each.name for each in failed.artifacts] == ["picture-1.png"]
    code = f"{PICTURE}display(Picture())\nclass X:\n    def _repr_png_(self):\n        while True: pass\ndisplay(X())"
    hung = await runtime.execute_code(code, limits=Limits(wall_seconds=3))
    assert hung.error is not None
    assert hung.error.limit == "wall_seconds"
    assert hung.logs == "[picture 1: picture-1.png]\n"
    assert len(hung.artifacts) == 1


async def test_the_limits_of_artifacts_leave_out_what_does_not_fit_and_end_nothing() -> None:
    async with opened(pool_size=1) as runtime:
        limits = Limits(max_artifacts=3, max_artifact_bytes=100_000)
        code = f"{PICTURE}for n in (1, 99_000, 2_000, 2, 3, *range(40)):\n    display(Picture(bytes(n)))\n'the end'"
        run = await runtime.execute_code(code, limits=limits)
        assert (run.ok, run.value) == (True, "the end")
        assert [each.name for each in run.artifacts] == ["picture-1.png", "picture-2.png", "picture-4.png"]
        assert run.notes[0].startswith("picture-3.png was not kept: it has 2,008 bytes")
        assert run.notes[1] == "picture-5.png was not kept: a run may have 3 artifacts (max_artifacts)"
        assert run.notes[-1] == "32 more artifacts were not kept"
        assert len(run.notes) == 11


async def test_files_that_are_not_kept_are_counted_behind_the_notes_on_what_was_shown() -> None:
    async with opened(pool_size=1) as runtime:
        code = f"{PICTURE}display(*[Picture()] * 20)\nimport os\nos.symlink('a', 'b')\nopen('c', 'w').close()"
        run = await runtime.execute_code(code, limits=Limits(max_artifacts=5))
        assert (len(run.artifacts), len(run.notes)) == (5, 11)
        assert run.notes[-1] == "7 more artifacts were not kept"


async def test_a_message_that_is_too_large_for_the_limit_is_words_and_not_the_end_of_the_run() -> None:
    async with opened(pool_size=1) as runtime:
        limits = Limits(max_message_bytes=100_000)
        run = await runtime.execute_code(
            f"{PICTURE}display(Picture(bytes(74_000)), Picture(bytes(75_000)))\n1", limits=limits
        )
        assert (run.ok, run.value) == (True, 1)
        assert [each.size_bytes for each in run.artifacts] == [74_008]
        assert "[picture 2 is left out: it has 75,008 bytes, and a message takes 100,000 at most" in run.logs


def bomb(width: int, height: int) -> bytes:
    """A PNG of one colour, small as a file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return PNG + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1_000_000), 9)) + chunk(b"IEND", b"")


async def test_a_picture_of_ten_thousand_million_pixels_and_a_zip_called_png_are_bytes_like_others() -> None:
    async with opened(pool_size=1) as runtime:
        inputs = {"data": bomb(100_000, 100_000).hex()}
        code = f"{PICTURE}class Zip:\n    def _repr_png_(self): return b'PK\\x03\\x04' + bytes(1000)\n"
        run = await runtime.execute_code(f"{code}display(Zip(), Picture(bytes.fromhex(data)[8:]))\n1", inputs=inputs)
        assert run.ok
        assert [each.media_type for each in run.artifacts] == ["image/png"]
        assert run.logs.startswith("[image/png of Zip does not begin as such a picture does]\n<")


SCRIPT = "<script>alert(1)</script>"


async def test_pages_and_drawings_with_scripts_are_artifacts_of_their_types() -> None:
    async with opened(pool_size=1) as runtime:
        drawing = f"<!-- -->\\n<svg xmlns='http://www.w3.org/2000/svg'>{SCRIPT}</svg>"
        code = f'{PICTURE}class Drawing:\n    def _repr_svg_(self): return "{drawing}"\n'
        run = await runtime.execute_code(f'{code}display(Page("{SCRIPT}"), Drawing())')
        assert [(each.name, each.media_type) for each in run.artifacts] == [
            ("page-1.html", "text/html"), ("picture-1.svg", "image/svg+xml"),
        ]  # fmt: skip
        assert SCRIPT not in run.for_model()


async def test_a_guest_that_lies_about_names_and_types_gets_clean_ones() -> None:
    async with opened(pool_size=1) as runtime:
        message = (
            'b\'{"jsonrpc":"2.0","method":"rpc.display","params":{"name":"../../etc/\\\\u202ea\\\\n.png",'
            '"media_type":"image/png","data":"aGVsbG8="}}\\n\''
        )
        run = await runtime.execute_code(f"{WIRE}send({message})\n1", check=False)
        (artifact,) = run.artifacts
        assert (artifact.name, artifact.media_type, artifact.data) == ("etc/_a_.png", "text/plain", b"hello")
        wrong = await runtime.execute_code(f"{WIRE}send({message.replace('aGVsbG8=', 'a')})\n1", check=False)
        assert wrong.error is not None
        assert wrong.error.kind == "ProtocolError"
        assert "not base64" in wrong.error.message


async def test_the_programs_of_a_session_show_what_is_new_and_count_on() -> None:
    async with opened(pool_size=1) as runtime, runtime.session() as session:
        first = await session.execute_code(f"{PICTURE}display(Picture(b'1'))")
        second = await session.execute_code("1 + 1")
        third = await session.execute_code("display(Picture(b'3'))")
        assert [each.name for each in first.artifacts] == ["picture-1.png"]
        assert (second.value, second.artifacts) == (2, [])
        assert [(each.name, each.data) for each in third.artifacts] == [("picture-2.png", PNG + b"3")]


async def test_a_stream_has_pictures_in_their_place() -> None:
    async with opened(pool_size=1) as runtime:
        async with runtime.stream_code(f"{PICTURE}print('a')\ndisplay(Picture())\nprint('b')") as stream:
            kinds = [type(event).__name__ async for event in stream]
        assert kinds == ["Printed", "Printed", "Displayed", "Printed"]


@tool
async def display(x: int) -> int:
    """A tool of that name."""
    return x + 1


async def test_display_is_a_name_that_check_knows_and_that_tools_and_programs_may_take() -> None:
    async with opened(display, pool_size=1) as runtime:
        run = await runtime.execute_code("await display(1)")
        assert run.value == 2
        assert not runtime.check("display = 1\nprint(display)")
    async with opened(pool_size=1, policy="restricted") as runtime:
        assert not runtime.check("display(1)")
        assert [finding.hint for finding in runtime.check("dispaly(1)")] == ["did you mean `display`?"]
        run = await runtime.execute_code("display(1)")
        assert (run.ok, run.logs, run.path) == (True, "1\n", "sandbox")
        assert (await runtime.execute_code("display + 1", inputs={"display": 1})).value == 2


async def test_without_a_sandbox_display_is_refused_with_words() -> None:
    async with Runtime([], sandbox=None) as runtime:
        run = await runtime.execute_code("display(1)")
        assert run.error is not None
        assert run.error.kind == "NotAGraph"
        assert "display" in run.error.message
