"""Pages show no secret: what a tool's schema or the runtime's own rules call one is not in the HTML."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Annotated, Any

import pydantic
import pytest

from callgate import CodeResult, PlanResult, Redaction, Runtime, Secret, ToolError, tool
from callgate.runtime.trace.markup import Sheet

pytestmark = pytest.mark.anyio
PHRASE, PIN, KEY, ISSUED = "open sesame", "pin-4711", "key-8ab3", "issued-55"


@tool(read_only=True)
def unlock(door: str, phrase: Annotated[str, Secret], pin: pydantic.SecretStr, api_key: str) -> dict[str, str]:
    """Unlock a door."""
    if door == "jammed":
        raise ToolError(f"{phrase} does not open it")
    return {"door": door, "said": phrase, "pin": pin.get_secret_value()}


class Issued(pydantic.BaseModel):
    ticket: Annotated[str, Secret]


@tool(read_only=True)
def issue(holder: str) -> Issued:
    """Issue a ticket."""
    return Issued(ticket=ISSUED)


def arguments(door: str) -> dict[str, str]:
    return {"door": door, "phrase": PHRASE, "pin": PIN, "api_key": KEY}


def program(door: str) -> str:
    given = arguments(door)
    return "\n".join([
        f"words = {given!r}",
        f'opened = await unlock(door="{door}", phrase="{PHRASE}", pin="{PIN}", api_key="{KEY}")',
        "ticket = await issue(holder='Ann')",
        "print(opened['said'], ticket['ticket'])",
        "[opened, ticket]",
    ])  # fmt: skip


def has_none(page: str) -> None:
    for secret in (PHRASE, PIN, KEY, ISSUED):
        assert secret not in page, secret
    assert "[redacted]" in page


@pytest.mark.filterwarnings("ignore::callgate.sandbox.unsafe.UnsandboxedWarning")
@pytest.mark.parametrize("path", ["plan", pytest.param("sandbox", marks=pytest.mark.slow)])
@pytest.mark.parametrize("door", ["front", "jammed"])
async def test_a_programs_page_has_no_secret_in_arguments_results_prints_source_and_errors(
    door: str, path: Any
) -> None:
    async with Runtime([unlock, issue], sandbox=None if path == "plan" else "unsafe") as runtime:
        result = await runtime.execute_code(program(door), path=path)
    assert result.ok is (door == "front"), result.error
    if result.ok:
        assert (PHRASE in result.logs, result.value[1]) == (True, {"ticket": ISSUED})  # the caller has the values
    page = result.trace()
    has_none(page)
    assert door in page


@pytest.mark.parametrize("door", ["front", "jammed"])
async def test_a_plans_page_has_no_secret_in_its_steps_outputs_plan_and_errors(door: str) -> None:
    steps = [
        {"id": "open", "tool": "unlock", "arguments": arguments(door)},
        {"id": "ticket", "tool": "issue", "arguments": {"holder": "Ann"}},
    ]
    async with Runtime([unlock, issue], sandbox=None) as runtime:
        result = await runtime.execute_tool_plan({"steps": steps, "output_steps": ["open", "ticket"]})
    assert result.ok is (door == "front"), result
    has_none(result.trace())


async def test_the_page_of_a_plan_that_was_streamed_keeps_the_rules_of_its_runtime() -> None:
    plan = {"steps": [{"id": "a", "tool": "unlock", "arguments": arguments("front")}]}
    async with Runtime([unlock], sandbox=None) as runtime:
        result = await runtime.stream_plan([json.dumps(plan)])
    assert result.ok
    has_none(result.trace())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::callgate.sandbox.unsafe.UnsandboxedWarning")
async def test_the_page_of_a_sessions_program_keeps_the_rules_of_its_runtime() -> None:
    async with Runtime([unlock, issue], sandbox="unsafe") as runtime, runtime.session() as session:
        result = await session.execute_code(program("front"))
    assert result.ok, result.error
    has_none(result.trace())


async def test_a_secret_too_short_to_search_for_is_still_redacted_in_its_own_place() -> None:
    async with Runtime([unlock], sandbox=None) as runtime:
        short = {**arguments("front"), "phrase": "§§"}
        done = await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "unlock", "arguments": short}]})
    assert '"phrase": "§§"' not in done.trace().replace("&quot;", '"').split("the plan that ran")[0]


async def test_a_page_keeps_the_rules_of_its_runtime_unless_others_are_given() -> None:
    hides = Redaction(redact=lambda text: text.replace("Ann", "A."))
    async with Runtime([issue], sandbox=None, redaction=hides) as runtime:
        result = await runtime.execute_code("await issue(holder='Ann')", path="plan")
    assert "Ann" not in result.trace()
    other = result.trace(redaction=Redaction())
    assert "Ann" in other
    assert ISSUED not in other  # the tools' schemas count with any rules


async def test_the_secrets_of_a_run_are_known_to_its_page_and_are_not_a_part_of_its_saved_result() -> None:
    async with Runtime([issue], sandbox=None) as runtime:
        code: CodeResult = await runtime.execute_code("await issue(holder='Ann')", path="plan")
        plan: PlanResult = await runtime.execute_tool_plan(
            {"steps": [{"id": "a", "tool": "issue", "arguments": {"holder": "Ann"}}]}
        )
    for copied in (copy.copy(plan), copy.deepcopy(plan), copy.deepcopy(code)):
        assert ISSUED not in copied.trace()
    assert pickle.loads(pickle.dumps(plan)).to_dict() == plan.to_dict()
    assert pickle.loads(pickle.dumps(plan)).redactor is None  # it is a saved result: its functions stay here
    assert "redactor" not in code.to_dict()
    assert "redactor" not in plan.to_dict()
    assert "redactor" not in repr(code)


def test_whatever_a_page_writes_is_redacted_first() -> None:
    sheet = Sheet()
    sheet.redaction.arguments(None, {"password": PHRASE})
    value = {"said": PHRASE, "api_key": KEY}
    for written in (
        sheet.text(f"it is {PHRASE}"),
        sheet.line(f"it is {PHRASE}"),
        sheet.value(value),
        sheet.brief(value, 100),
        sheet.json(json.dumps(value)),
    ):
        has_none(written)


async def test_a_page_has_no_secret_of_a_programs_inputs() -> None:
    async with Runtime([issue], sandbox=None) as runtime:
        inputs = {"api_key": KEY, "holder": "Ann"}
        result = await runtime.execute_code("await issue(holder=holder)", inputs=inputs, path="plan")
    assert KEY in result.inputs
    has_none(result.trace())
