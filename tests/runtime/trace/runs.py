"""Runs for the tests of pages: made by hand, and hostile in every field."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from callgate.artifacts import Artifact
from callgate.limits import Limits
from callgate.program import Finding
from callgate.runtime.gate.records import CallRecord
from callgate.runtime.result import CodeResult, PrintMark, RunError, RunUsage

__all__ = ["HOSTILE_TEXTS", "PICTURE", "call", "hostile_program", "large_programs", "program"]

HOSTILE_TEXTS = (
    "<script>window.pwned = 1</script>",
    '"><img src=x onerror="window.pwned=1">',
    "' onmouseover='window.pwned=1",
    "</style></title><script>window.pwned=1</script>",
    "<!-- <svg onload=window.pwned=1>",
    "abc\u202egnp.exe\u2066\x00\x1b[31m",
    "\ud800 alone",
    "javascript:window.pwned=1",
    "<link rel=stylesheet href=http://192.0.2.1/x.css><iframe src=http://192.0.2.1/>",
    "W" * 5000,
)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PICTURE = (
    b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    + _chunk(b"IDAT", zlib.compress((b"\0" + b"\x28\x51\xc5" * 8) * 8))
    + _chunk(b"IEND", b"")
)


def call(id: int, start: float, took: float, line: int | None = None, **more: Any) -> CallRecord:
    """A call of a program."""
    given = {"arguments": {"city": "Oslo"}, "status": "succeeded", "attempts": 1, **more}
    return CallRecord(
        id=id, tool=given.pop("tool", "look_up"), caller="code", started_seconds=start, duration_seconds=took,
        line=line, **given,
    )  # fmt: skip


def program(source: str = "x = await look_up(city='Oslo')\nprint(x)\nx", **more: Any) -> CodeResult:
    """A program with one call and one print."""
    given: dict[str, Any] = {
        "ok": True, "value": {"temp": 4}, "source": source, "logs": "four degrees\n",
        "calls": [call(1, 0.1, 0.5, 1, result='{"temp":4}', result_bytes=10)],
        "prints": [PrintMark(0.7, 2, 0)], "usage": RunUsage(wall_seconds=1.0, tool_calls=1), "limits": Limits(),
    }  # fmt: skip
    return CodeResult(**{**given, **more})


def hostile_program(text: str) -> CodeResult:
    """A program with this text in every field."""
    return program(
        f"{text}\n{text!r}\n",
        ok=False,
        value={text: text},
        value_repr=text,
        logs=text,
        error=RunError(text, text, 1, text, None, text),
        notes=[text],
        findings=[Finding("syntax", 1, 1, text, text)],
        calls=[
            call(n, 0.1 * n, 0.2, n % 3 or None, tool=text, arguments={text: [text]}, result=text, result_bytes=9,
                 changed_arguments={text: text}, approval="changed", approved_by=text, fallback=text, fallback_call=1)
            for n in range(1, 9)
        ] + [call(9, 0.1, 0.1, 2, tool=text, status="failed", error=text)],
        speculative=[call(1, 0, 0.1, 1, tool=text)],
        artifacts=[
            Artifact(name=text, media_type=text, data=b"<svg onload=alert(1)>", handle=text, source=text),
            Artifact(name=text, media_type="image/png", data=PICTURE, handle=text, source=text),
        ],
        sandbox=text,
        path="plan",
        plan_of_calls=lambda: {text: text},
        inputs=f'{{"{text}',
        prints=[PrintMark(0.5, 1, 0), PrintMark(0.6, 2, 3, text)],
        truncated=(text,),
    )  # fmt: skip


def large_programs() -> dict[str, CodeResult]:
    """Programs that are as large as they can be, in one way each."""
    hostile, long = HOSTILE_TEXTS[0] * 200, "W" * 100_000
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    thousands = "\n".join(f"x{n} = look_up({n}, '{HOSTILE_TEXTS[1]}')" for n in range(5000))
    return {
        "10,000 calls": program(
            thousands,
            calls=[
                call(n, n * 0.001, 0.05, n % 5000 + 1, tool=f"tool {n % 50}{hostile}", arguments={"n": n, "t": hostile},
                     result=f'"{hostile}', result_bytes=9_000, status="failed" if n % 9 == 0 else "succeeded")
                for n in range(10_000)
            ],
        ),
        "5,000 lines": program(thousands, logs=long, prints=[PrintMark(n * 0.001, n, n) for n in range(1000)]),
        "100,000 characters in a line": program(
            f"x = '{long}'\n{long}", logs=long, value={long: long}, notes=[long],
            calls=[call(1, 0, 1, 1, tool=long[:256], arguments={long: long}, error=long, approved_by=long)],
        ),
        "deep": program(value=deep, calls=[call(1, 0, 1, 1, arguments={"a": deep}, result="[" * 4096, result_bytes=9)]),
        "wide": program(
            value=[[0] * 9] * 50_000, calls=[call(1, 0, 1, 1, arguments={f"k{n}": n for n in range(50_000)})],
        ),
    }  # fmt: skip
