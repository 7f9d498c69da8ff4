"""The way back: what failed, read from answers of a real runtime, and when a form gives way to the one below."""

from __future__ import annotations

from typing import Any

import pytest

from callgate import Runtime, ToolError, tool
from callgate.agent.routing.way_back import (
    BELOW,
    DIRECT_PATIENCE,
    FailureKind,
    Form,
    failure_of,
    form_of,
    words_for,
    worn_out,
)
from callgate.errors import SandboxUnavailable

pytestmark = pytest.mark.anyio


@tool(read_only=True)
async def query_metric(name: str) -> dict[str, Any]:
    """The current value of a metric."""
    return {"name": name, "current": 72.5}


@tool(read_only=True)
async def check_threshold(value: float) -> dict[str, bool]:
    """Whether a value is above the threshold."""
    return {"exceeded": value > 80}


@tool
async def broken(name: str) -> str:
    """Fails."""
    raise ToolError(f"{name} is down")


BAD_REFERENCE = [
    {"id": "q", "tool": "query_metric", "arguments": {"name": "cpu"}},
    {"id": "c", "tool": "check_threshold", "arguments": {"value": "$ref:q.name"}},
]


@pytest.mark.parametrize(
    ("name", "arguments", "form", "kind"),
    [
        ("execute_tool_plan", "Here is my plan: first", "plan", "refused"),
        ("execute_tool_plan", {"steps": [{"id": "a", "tool": "qery_metric"}]}, "plan", "refused"),
        ("execute_tool_plan", {"steps": BAD_REFERENCE}, "plan", "failed"),
        (
            "execute_tool_plan",
            {"steps": [{"id": "b", "tool": "broken", "arguments": {"name": "cpu"}}]},
            "plan", "tool",
        ),
        ("execute_code", {"code": "x = ("}, "code", "refused"),
        ("execute_code", {"code": "import os\nos.listdir('/')"}, "code", "sandbox"),
        ("query_metric", {"nmae": "cpu"}, "direct", "refused"),
        ("no_such_tool", {}, "direct", "refused"),
        ("broken", {"name": "cpu"}, "direct", "tool"),
        ("query_metric", {"name": "cpu"}, "direct", None),
    ],
)  # fmt: skip
async def test_what_failed_is_read_from_the_answer(name: str, arguments: Any, form: str, kind: str | None) -> None:
    async with Runtime([query_metric, check_threshold, broken], sandbox=None) as runtime:
        assert failure_of(await runtime.answer(name, arguments)) == kind
    assert form_of(name) == form
    assert failure_of(SandboxUnavailable("no user namespaces")) == "sandbox"


@pytest.mark.parametrize(
    ("form", "kind", "patience"),
    [
        ("code", "refused", 3), ("code", "failed", 3), ("code", "limit", 2), ("code", "sandbox", 1),
        ("plan", "refused", 3), ("plan", "failed", 3), ("plan", "limit", 2),
        ("direct", "refused", DIRECT_PATIENCE),
    ],
)  # fmt: skip
def test_a_model_may_correct_itself_and_then_the_form_below_takes_over(
    form: Form, kind: FailureKind, patience: int
) -> None:
    assert worn_out(form, {kind: range(patience - 1)}) is None
    assert worn_out(form, {kind: range(patience), "tool": range(1000)}) == kind
    assert worn_out(form, {"tool": range(1000)}) is None  # not the form's fault
    assert BELOW.get(form) == {"code": "plan", "plan": "direct"}.get(form)


def test_a_model_that_cannot_write_references_is_told_to_call_the_tools_itself() -> None:
    assert words_for("plan", "failed") == (
        "Plans are no longer offered: execute_tool_plan failed. Call the tools yourself, one after the other, and use "
        "what each of them gives for the next."
    )
