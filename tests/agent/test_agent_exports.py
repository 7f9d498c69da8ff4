"""What `callgate.agent` exports, how long a name it is, and that asking for one costs no more than its module."""

from __future__ import annotations

import subprocess
import sys

import pytest

import callgate
import callgate.agent as agent

EXPORTED = [
    "Action", "Agent", "AgentConfig", "AgentResult", "AnthropicModel", "Budget", "Calls", "DecomposedQuery",
    "Decomposer", "ExecutionContext", "Experiment", "LearnedSelector", "ModelSelector", "Observation", "OpenAIModel",
    "PlannedAnswer", "PlannedAnswerer", "PlannerSettings", "ReActPlanner", "RecordingModel",
    "ReplayModel", "RuleSelector", "ScriptedModel", "SelectionMemory", "SelectionsFile", "SubQuery", "ToolExecution",
    "ToolOrchestrator", "ToolPlan", "ToolPlanner", "ToolResult", "ToolStep", "execution_context", "gateway_model",
    "model_named", "read_config", "synthesize",
]  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert sorted(agent.__all__) == EXPORTED
    for name in EXPORTED:
        exported = getattr(agent, name)
        assert exported.__name__ == name
        assert exported.__module__.startswith("callgate.agent.")


def test_a_star_import_gives_those_and_no_more() -> None:
    names: dict[str, object] = {}
    exec("from callgate.agent import *", names)
    assert sorted(set(names) - {"__builtins__"}) == EXPORTED


def test_they_can_be_found_by_looking() -> None:
    assert set(EXPORTED) <= set(dir(agent))
    assert callgate.Agent is agent.Agent


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'callgate.agent' has no attribute 'nothing_of_that_name'"):
        agent.nothing_of_that_name  # noqa: B018


def test_importing_it_imports_neither_an_sdk_nor_what_was_not_asked_for() -> None:
    program = (
        "import sys, callgate.agent as agent\n"
        "assert not [name for name in sys.modules if name.startswith('callgate.agent.')]\n"
        "for name in agent.__all__: getattr(agent, name)\n"
        "print(sorted({'openai', 'anthropic', 'yaml', 'scipy', 'genai_prices'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
