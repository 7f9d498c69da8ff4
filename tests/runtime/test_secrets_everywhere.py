"""A secret that a call was given is in no audit log, page or event, however the program or a tool wrote it down."""

from __future__ import annotations

import html
import json
import tempfile
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, quote_plus

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgate import AuditLog, Event, Printed, Runtime, Secret, ToolError, tool

KEPT_BYTES = 4096
"""Of a result in a record."""
AUDITED = 8192
"""Characters of a text in an audit log."""


@tool
async def keep(phrase: Annotated[str, Secret]) -> dict[str, str]:
    """Answers with the spellings of a secret, as a server does whose results are JSON within JSON."""
    go = json.dumps(phrase).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    spelled = [phrase, json.dumps(phrase), json.dumps(phrase, ensure_ascii=False), repr(phrase), go, quote(phrase)]
    return {str(number): f"said: {spelling}!" for number, spelling in enumerate([*spelled, quote_plus(phrase)])}


@tool
async def fail(phrase: Annotated[str, Secret]) -> None:
    """Says in its error what it was given."""
    raise ToolError(f"wrong: {phrase!r}, {json.dumps(json.dumps([phrase]))}, and {'x' * 3000} {phrase} {'y' * 5000}")


@tool
async def pad(phrase: Annotated[str, Secret], before: int) -> str:
    """A long answer with the secret in it."""
    return "x" * before + phrase + "y" * 9000


PROGRAM = """
answer = await keep(phrase=PHRASE)
print(answer)
print(PHRASE)
await fail(phrase=PHRASE)
"""


def shown_of(runtime: Runtime, events: list[Event]) -> str:
    run = runtime.redaction.run(runtime.registry)
    shown = map(run.event, events)
    return "\n".join(each.text if isinstance(each, Printed) else str(each) for each in shown)


async def everything(program: str, folder: Path) -> dict[str, str]:
    """What people see of a program: the audit log, the page, the events."""
    events: list[Event] = []
    log = AuditLog(folder / "audit.jsonl", include_content=True)
    async with Runtime([keep, fail, pad], sandbox=None, audit=log) as runtime:
        result = await runtime.execute_code(program, path="plan", on_event=events.append)
        assert result.calls, result.error
        return {
            "audit": log.path.read_text(),
            "page": html.unescape(result.trace()),
            "events": shown_of(runtime, events),
        }


def texts_of(shown: dict[str, str]) -> list[str]:
    """The texts, and those in the lines of the log."""

    def inner(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [text for each in value.values() for text in inner(each)]
        return [value] if isinstance(value, str) else []

    return [*shown.values(), *(text for line in shown["audit"].splitlines() for text in inner(json.loads(line)))]


@settings(max_examples=15, deadline=None)
@given(st.text("QZ\"'\\\n/&<>é +%", min_size=2, max_size=20).map(lambda text: f"QZQZ{text}ZQ"))
def test_no_spelling_of_a_secret_is_shown(secret: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shown = anyio.run(everything, PROGRAM.replace("PHRASE", repr(secret)), Path(folder))
    for text in texts_of(shown):
        assert "QZQZ" not in text
    for text in shown.values():
        assert "[redacted]" in text


@pytest.mark.parametrize("cut", [KEPT_BYTES, AUDITED])
@pytest.mark.parametrize("kept", [4, 10, 19])
def test_no_half_of_a_secret_is_left_where_a_result_or_a_program_is_cut(cut: int, kept: int, tmp_path: Path) -> None:
    secret = "QZQZ-0123456789-QZQZ"
    source = f"answer = await pad(phrase={secret!r}, before={cut - kept - 1})\n"
    source += "#" * (cut - kept - len(source) - len("\nnote = '")) + f"\nnote = '{secret}'\n" * 3 + "answer\n"
    assert source[:cut].endswith(f"note = '{secret[:kept]}")
    for text in texts_of(anyio.run(everything, source, tmp_path)):
        assert "QZQZ" not in text
        assert "-01234" not in text
