"""What docs/definitions.md shows is run, and prints what the page says; its tables name what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from callgate import Runtime, tool
from callgate.bench.model.stand_in import AnthropicMessages, Call, Move, OpenAIResponses, Script, Turn, serving
from callgate.bench.model.stand_in.server import KEY
from callgate.runtime.model.options import DefinitionOptions

PAGE = (Path(__file__).parents[2] / "docs" / "definitions.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_pages_programs_print_what_is_shown() -> None:
    source = "\n".join(text for kind, text in BLOCKS if kind == "python")
    shown = "".join(text for kind, text in BLOCKS if kind == "text")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == (shown, "")


def test_the_page_names_every_option() -> None:
    table = PAGE.split("| option | |\n", 1)[1].split("\n\n", 1)[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(DefinitionOptions.__annotations__)


@pytest.fixture
def anyio_backend() -> str:
    """The SDKs run on asyncio alone."""
    return "asyncio"


@tool(read_only=True)
async def query_sales(region: str) -> dict[str, int]:
    """Sales of a region, this year, in dollars."""
    return {"revenue": 150_000}


@tool
async def send_report(to: str, text: str) -> str:
    """Sends a report by mail."""
    return f"sent {len(text)} characters to {to}"


def runs_a_program(turn: Turn) -> Move:
    assert turn.user == "How was the west?"
    return Call("execute_code", {"code": "(await query_sales('west'))['revenue']"})


def sends_it(turn: Turn) -> Move:
    assert turn.answer == "Value: 150000"
    return [Call("send_report", {"to": "a@b.c", "text": "150000"}), Call("send_report", {"to": "a@b.c"})]


def concludes(turn: Turn) -> Move:
    sent, refused = turn.answers
    assert refused.text.startswith("Error: ")
    return sent.text


def loop(name: str) -> Callable[[Any, Runtime, str], Awaitable[str]]:
    """A function of the page, which stands in a block that starts nothing."""
    (_, first), *_ = [block for block in BLOCKS if "async def converse(" in block[1]]
    (_, second), *_ = [block for block in BLOCKS if "async def respond(" in block[1]]
    given: dict[str, Any] = {}
    exec(f"{first}\n{second}", given)
    found: Callable[[Any, Runtime, str], Awaitable[str]] = given[name]
    return found


@pytest.mark.anyio
async def test_the_pages_loop_on_messages_runs() -> None:
    pytest.importorskip("anthropic", reason="anthropic is not installed")
    from anthropic import AsyncAnthropic

    with serving(AnthropicMessages(Script(runs_a_program, sends_it, concludes))) as url:
        async with (
            AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client,
            Runtime([query_sales, send_report], sandbox=None) as runtime,
        ):
            said = await loop("converse")(client, runtime, "How was the west?")
    assert "sent 6 characters to a@b.c" in said


@pytest.mark.anyio
async def test_the_pages_loop_on_responses_runs() -> None:
    pytest.importorskip("openai", reason="openai is not installed")
    from openai import AsyncOpenAI

    with serving(OpenAIResponses(Script(runs_a_program, sends_it, concludes))) as url:
        async with (
            AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client,
            Runtime([query_sales, send_report], sandbox=None) as runtime,
        ):
            said = await loop("respond")(client, runtime, "How was the west?")
    assert "sent 6 characters to a@b.c" in said
