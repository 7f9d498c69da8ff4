"""A plan can be shown before it runs, and allowed, changed or denied; until then nothing is called.

Held at the public API, for plans of a host and of a model, whole and streamed; and at the real command, at a terminal.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import Allow, ApprovalRequest, ConfigurationError, Deny, Limits, PlanApprovalRequest, Runtime, Tool, tool
from cli.command import Command

PLAN = {
    "goal": "write to Ann",
    "steps": [
        {"id": "who", "tool": "find", "arguments": {"name": "Ann"}},
        {"id": "mail", "tool": "send", "arguments": {"to": "$ref:who.email"}},
    ],
    "output_steps": ["mail"],
}


class Mail:
    """A tool that only reads and one with side effects, and what they were called with."""

    def __init__(self, **send: Any) -> None:
        self.called: list[tuple[str, str]] = []
        self._send = send

    @property
    def tools(self) -> list[Tool]:
        @tool(read_only=True)
        async def find(name: str) -> dict[str, str]:
            """Finds a person."""
            self.called.append(("find", name))
            return {"email": f"{name.lower()}@example.org"}

        @tool(**self._send)
        async def send(to: str) -> str:
            """Sends a mail."""
            self.called.append(("send", to))
            return f"sent to {to}"

        return [find, send]


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [Allow(), True], ids=str)
@pytest.mark.parametrize("waits", [False, True])
async def test_the_explained_plan_is_shown_and_runs_once_it_is_allowed(answer: Any, waits: bool) -> None:
    mail, shown = Mail(), list[PlanApprovalRequest]()

    def plain(request: PlanApprovalRequest) -> Any:
        assert mail.called == []
        shown.append(request)
        return answer

    async def waiting(request: PlanApprovalRequest) -> Any:
        await anyio.lowlevel.checkpoint()
        return plain(request)

    async with Runtime(mail.tools, sandbox=None) as runtime:
        result = await runtime.execute_tool_plan(PLAN, approve_plan=waiting if waits else plain)
        assert result.ok, result.error
        assert (result.outputs, result.changed) == ({"mail": "sent to ann@example.org"}, False)
        (request,) = shown
        assert request.plan == PLAN
        assert request.explain() == runtime.explain_plan(PLAN)
        assert json.loads(request.explain("json"))["steps"][1]["needs"] == ["who"]
        assert request.explain("mermaid").startswith("flowchart")
        assert request.warnings == ()


@pytest.mark.anyio
async def test_a_changed_plan_is_checked_afresh_and_runs_instead() -> None:
    mail = Mail()
    asked = 0

    def change(request: PlanApprovalRequest) -> Allow:
        nonlocal asked
        asked += 1
        request.plan["steps"][0]["arguments"]["name"] = "Bob"
        return Allow(request.plan)

    async with Runtime(mail.tools, sandbox=None, approve_plan=change) as runtime:
        result = await runtime.execute_tool_plan(PLAN)
        assert mail.called == [("find", "Bob"), ("send", "bob@example.org")]
        assert (result.ok, result.changed, asked) == (True, True, 1)
        assert result.plan is not None
        assert result.plan["steps"][0]["arguments"] == {"name": "Bob"}
        assert "the plan was changed before it was allowed" in result.for_model()
        assert PLAN["steps"][0]["arguments"] == {"name": "Ann"}  # type: ignore[index]


@pytest.mark.anyio
async def test_a_changed_plan_with_faults_is_not_run_and_not_the_models_mistake() -> None:
    mail = Mail()
    async with Runtime(mail.tools, sandbox=None) as runtime:

        def change(request: PlanApprovalRequest) -> Allow:
            return Allow({"steps": [{"id": "a", "tool": "sned", "arguments": {}}]})

        result = await runtime.execute_tool_plan(PLAN, approve_plan=change)
        assert (result.ok, result.steps, mail.called) == (False, [], [])
        assert [fault.code for fault in result.faults] == ["unknown-tool"]
        assert "The plan was changed before it was allowed, and the changed plan has 1 fault." in result.for_model()


@pytest.mark.anyio
async def test_the_model_is_told_why_its_plan_was_denied() -> None:
    mail = Mail()

    async def deny(request: PlanApprovalRequest) -> Deny:
        return Deny("Ann has left the company")

    async with Runtime(mail.tools, sandbox=None, approve_plan=deny) as runtime:
        answer = await runtime.answer("execute_tool_plan", PLAN)
        assert answer.text == "The plan was not run: it was denied: Ann has left the company"
        assert (answer.ok, answer.mistake, mail.called) == (False, False, [])
        assert await runtime.conversation().handle("execute_tool_plan", PLAN) == answer.text
        result = await runtime.execute_tool_plan(PLAN, approve_plan=lambda request: False)
        assert result.error is not None
        assert (result.error.kind, result.error.message) == ("PlanDenied", "The plan was not run: it was denied")
        assert (result.steps, result.calls, mail.called) == ([], [], [])


def raises(request: PlanApprovalRequest) -> Any:
    raise RuntimeError("a secret of the host")


@pytest.mark.anyio
@pytest.mark.parametrize("approve", [raises, lambda request: None, lambda request: "yes", lambda request: 1])
async def test_whatever_goes_wrong_in_asking_is_a_no(approve: Callable[[PlanApprovalRequest], Any]) -> None:
    mail = Mail()
    async with Runtime(mail.tools, sandbox=None) as runtime:
        result = await runtime.execute_tool_plan(PLAN, approve_plan=approve)
        assert (result.ok, result.calls, mail.called) == (False, [], [])
        assert result.for_model() == "The plan was not run: it was denied: the approval could not be obtained"


@pytest.mark.anyio
async def test_what_is_cancelled_while_somebody_is_asked_makes_no_call() -> None:
    mail, asked = Mail(), anyio.Event()

    async def never(request: PlanApprovalRequest) -> bool:
        asked.set()
        await anyio.sleep_forever()
        return True

    async with Runtime(mail.tools, sandbox=None, approve_plan=never) as runtime:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(runtime.execute_tool_plan, PLAN)
                await asked.wait()
                tasks.cancel_scope.cancel()
    assert mail.called == []


@pytest.mark.anyio
async def test_a_plan_with_faults_is_refused_before_anybody_is_asked() -> None:
    asked: list[Any] = []

    def approve(request: PlanApprovalRequest) -> bool:
        asked.append(request)
        return True

    async with Runtime(Mail().tools, sandbox=None, approve_plan=approve) as runtime:
        result = await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "nothing", "arguments": {}}]})
        assert (result.ok, asked) == (False, [])
        assert runtime.check_plan(PLAN) == []
        runtime.explain_plan(PLAN)
        assert asked == []


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [True, False])
async def test_nothing_of_a_streamed_plan_begins_before_it_is_allowed(answer: bool) -> None:
    mail = Mail()

    async def chunks() -> AsyncIterator[str]:
        text = json.dumps(PLAN)
        for start in range(0, len(text), 5):
            yield text[start : start + 5]
            await anyio.lowlevel.checkpoint()

    async def approve(request: PlanApprovalRequest) -> bool:
        await anyio.wait_all_tasks_blocked()
        assert mail.called == []
        return answer

    async with Runtime(mail.tools, sandbox=None) as runtime:
        result = await runtime.stream_plan(chunks(), approve_plan=approve)
        assert result.ok is answer
        assert len(mail.called) == (2 if answer else 0)


@pytest.mark.anyio
async def test_calls_that_ask_are_asked_about_all_the_same() -> None:
    mail, asked = Mail(requires_approval=True), list[str]()

    async def approve(request: ApprovalRequest) -> Deny:
        asked.append(request.tool.name)
        return Deny("not today")

    async with Runtime(mail.tools, sandbox=None, approve=approve, approve_plan=lambda request: True) as runtime:
        result = await runtime.execute_tool_plan(PLAN)
        assert (asked, mail.called) == (["send"], [("find", "Ann")])
        assert "not today" in str(result.error)


@pytest.mark.anyio
async def test_what_cannot_be_asked_is_refused_when_it_is_said() -> None:
    with pytest.raises(ConfigurationError, match="approve_plan is a function of a PlanApprovalRequest"):
        Runtime([], sandbox=None, approve_plan=True)  # type: ignore[arg-type]
    async with Runtime(Mail().tools, sandbox=None) as runtime:
        with pytest.raises(ConfigurationError, match="approve_plan is a function"):
            await runtime.execute_tool_plan(PLAN, approve_plan="yes")  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_the_time_of_the_question_is_not_the_plans() -> None:
    mail = Mail()

    async def approve(request: PlanApprovalRequest) -> bool:
        await anyio.sleep(0.6)
        return True

    async with Runtime(mail.tools, sandbox=None, limits=Limits(wall_seconds=0.5), approve_plan=approve) as runtime:
        assert (await runtime.execute_tool_plan(PLAN)).ok


# the command

TOOLS = '''
from callgate import tool


@tool
async def note(text: str) -> str:
    """Write it down."""
    with open("notes.txt", "a") as file:
        file.write(text + "\\n")
    return text
'''


@pytest.fixture
def cli(tmp_path: Path) -> Command:
    (tmp_path / "tools.py").write_text(TOOLS)
    plan = {"steps": [{"id": "one", "tool": "note", "arguments": {"text": "first"}}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return Command(tmp_path, kept | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}, forks=True)


def notes(cli: Command) -> str:
    file = cli.folder / "notes.txt"
    return file.read_text() if file.exists() else ""


ASKED = ("plan", "--tools", "tools.py", "--ask", "plan.json")


@pytest.mark.parametrize(("typed", "status", "written"), [("y\n", 0, "first\n"), ("\n", 1, ""), ("n\n", 1, "")])
def test_the_command_shows_the_plan_and_asks(cli: Command, typed: str, status: int, written: str) -> None:
    with cli.terminal(*ASKED) as terminal:
        seen = terminal.read_until("Run this plan? [y/N/e, e edits it] ")
        assert 'one: note(text="first")' in seen
        assert notes(cli) == ""
        terminal.type(typed)
        seen = terminal.read_all()
        assert terminal.wait() == status
    assert notes(cli) == written
    assert ("the person at the terminal said no" in seen) is (status == 1)


def test_a_plan_that_is_edited_is_checked_and_shown_again(cli: Command) -> None:
    """The first edit breaks the plan, the second one mends it."""
    editor = cli.folder / "edit.sh"
    editor.write_text(
        "#!/bin/sh\n"
        "if [ -e once ]; then sed -i s/noet/note/ $1; else sed -i 's/first/second/; s/note/noet/' $1; touch once; fi\n"
    )
    editor.chmod(0o755)
    with cli.terminal(*ASKED, environment={"EDITOR": str(editor), "VISUAL": ""}) as terminal:
        terminal.read_until("Run this plan? [y/N/e, e edits it] ")
        terminal.type("e\n")
        seen = terminal.read_until("Run this plan? [N/e, e edits it again] ")
        assert "there is no tool 'noet'" in seen
        terminal.type("e\n")
        seen = terminal.read_until("[N/e, e edits it again] e\r\n")
        # what is typed before the question does not count, and the first question is among what was seen
        terminal.read_until('one: note(text="second")\r\nRun this plan? [y/N/e, e edits it] ')
        terminal.type("y\n")
        terminal.read_all()
        assert terminal.wait() == 0
    assert notes(cli) == "second\n"


def test_ctrl_c_at_the_question_runs_nothing(cli: Command) -> None:
    with cli.terminal(*ASKED) as terminal:
        terminal.read_until("Run this plan?")
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_all()
        assert terminal.wait() == 130
    assert notes(cli) == ""


@pytest.mark.parametrize("arguments", [ASKED, ("plan", "plan.json", "--tools", "tools.py", "--ask")], ids=str)
def test_without_a_terminal_the_answer_is_no(cli: Command, arguments: tuple[str, ...]) -> None:
    done = cli(*arguments, stdin="y\n")
    assert (done.status, done.out, notes(cli)) == (1, "", "")
    assert "there is no terminal to ask on" in done.error


def test_ask_with_a_tool_still_asks_about_its_calls(cli: Command) -> None:
    done = cli("plan", "--ask", "note", "plan.json", "--tools", "tools.py")
    assert (done.status, notes(cli)) == (1, "")
    assert "the operator can approve every call with --yes" in done.error
    done = cli("plan", "plan.json", "--tools", "tools.py", "--ask", "--yes")
    assert (done.status, done.error) == (2, "--yes approves what --ask wants to be asked about")
