"""The recipe for smolagents, with the real package: what its programs may do, how they fail, and what lives on."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import smolagents
from smolagents import CodeAgent, LogLevel

from callgate import Allow, ApprovalRequest, Deny, Limits, ToolError
from docs.pages import blocks

pytestmark = pytest.mark.slow


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    return importlib.import_module("smolagents_executor")


class Greets(smolagents.Tool):  # type: ignore[misc]
    name = "greets"
    description = "Greets somebody."
    inputs = {  # noqa: RUF012
        "who": {"type": "string", "description": "The name."},
        "how": {"type": "any", "description": "The words.", "nullable": True},
    }
    output_type = "string"

    def forward(self, who: str, how: Any = None) -> str:
        if who == "nobody":
            raise ToolError("there is nobody to greet")
        return f"{how or 'hello'}, {who}"


@pytest.fixture
def made(recipe: Any) -> Iterator[Any]:
    """Makes an agent that plays programs."""
    agents: list[CodeAgent] = []

    def make(*programs: str, tools: Any = (), managed: Any = (), **options: Any) -> CodeAgent:
        model = recipe.Scripted(*[f"<code>\n{program}\n</code>" for program in programs])
        executor = recipe.CallgateExecutor(**options)
        agent = CodeAgent(
            [Greets(), *tools], model, executor=executor, managed_agents=list(managed), verbosity_level=LogLevel.OFF
        )
        agents.append(agent)
        return agent

    yield make
    for agent in agents:
        agent.cleanup()


def test_tools_are_called_as_smolagents_prompt_says(made: Any) -> None:
    program = "\n".join(
        (
            "def both(*names):",
            "    return [greets(name) for name in names]",
            "final_answer([both('ann', 'bo'), greets(who='cy', how='hi'), greets('di', None)])",
        )
    )
    assert made(program).run("go") == [["hello, ann", "hello, bo"], "hi, cy", "hello, di"]


def test_the_last_value_and_the_prints_are_the_observation(made: Any) -> None:
    agent = made("print('looking')\ngreets('ann')", "final_answer(1)")
    agent.run("go")
    said = agent.memory.steps[1].observations
    assert said == "Execution logs:\nlooking\nLast output from code snippet:\nhello, ann"


def test_nothing_runs_after_the_final_answer(made: Any) -> None:
    program = "for number in range(5):\n    if number == 2:\n        final_answer(answer=number)\n    print(number)"
    agent = made(program)
    assert agent.run("go") == 2
    assert agent.python_executor.state["_print_outputs"] == "0\n1\n"


def test_a_failure_keeps_the_prints_and_names_the_line(made: Any) -> None:
    agent = made("print('before')\ngreets('nobody')", "greets('ann')\n1 / 0", "final_answer('over')")
    assert agent.run("go") == "over"
    tool, own = agent.memory.steps[1:3]
    assert tool.observations == "Execution logs:\nbefore\n"
    assert "line 2" in tool.error.message
    assert tool.error.message.endswith("there is nobody to greet")
    assert "line 2" in own.error.message
    assert own.error.message.endswith("ZeroDivisionError: division by zero")


def test_a_program_can_neither_reach_the_network_nor_the_agents_process(made: Any) -> None:
    agent = made(
        "import socket\nsocket.create_connection(('127.0.0.1', 80), 1)", "import smolagents", "final_answer('over')"
    )
    agent.run("go")
    network, package = agent.memory.steps[1:3]
    assert "Error" in network.error.message
    assert "smolagents" in package.error.message


def test_variables_live_on_from_step_to_step_and_from_run_to_run(made: Any) -> None:
    agent = made("total = sum(table)", "final_answer(total)", "final_answer(total + 1)")
    assert agent.run("go", additional_args={"table": [1, 2, 3]}) == 6
    assert agent.run("go on", reset=False) == 7


def test_a_program_that_reaches_a_limit_ends_and_the_next_one_gets_a_new_process(made: Any) -> None:
    agent = made("x = 1\nwhile True: pass", "x", "final_answer(greets('ann'))", limits=Limits(wall_seconds=1))
    assert agent.run("go") == "hello, ann"
    limit, gone = agent.memory.steps[1:3]
    assert "wall_seconds" in limit.error.message
    assert "NameError: " in gone.error.message or "`x` is not defined" in gone.error.message


def test_another_agent_is_a_tool_like_any_other(made: Any, recipe: Any) -> None:
    model = recipe.Scripted("<code>\nfinal_answer('twelve')\n</code>")
    inner = CodeAgent(
        [], model, executor=recipe.CallgateExecutor(), name="counter", description="Counts.",
        verbosity_level=LogLevel.OFF, provide_run_summary=False,
    )  # fmt: skip
    with inner:
        assert "twelve" in made("final_answer(counter('How many?'))", managed=[inner]).run("go")


def test_the_snippet_of_the_page_runs(recipe: Any) -> None:
    model = recipe.Scripted("<code>\nfinal_answer(price_of('tea') + price_of('cup'))\n</code>")
    names = {**vars(recipe), "CodeAgent": CodeAgent, "Limits": Limits, "model": model}
    exec(blocks("frameworks", "py", heading="smolagents")[0], names)
    assert names["answer"] == 16.5


def test_options_of_the_runtime_hold(made: Any) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> Allow | Deny:
        asked.append(request)
        return Deny("not today")

    agent = made("greets('ann')", "final_answer(2)", approve=approve, ask=["greets"])
    agent.run("go")
    assert [each.arguments for each in asked] == [{"who": "ann"}]
    assert "not today" in agent.memory.steps[1].error.message
