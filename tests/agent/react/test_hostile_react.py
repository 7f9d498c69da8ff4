"""What a hostile model or file tries on ReAct: texts and configurations that take seconds to read."""

from __future__ import annotations

import time

import pytest

from callgate.agent.models.model import NO_USAGE, Assistant, Reply
from callgate.agent.models.scripted import ScriptedModel
from callgate.agent.react.config import read_config
from callgate.agent.react.planner import ReActPlanner
from callgate.agent.react.text_calls import MAX_TEXT
from callgate.agent.react.yaml_text import MAX_TEXT_BYTES, yaml_values
from callgate.errors import ConfigurationError

CONFIG = """
spec:
  planner:
    type: ReActPlanner
    config:
      use_function_calling: false
      tool_descriptions:
""" + "".join(f"        - name: some_tool_of_a_kind_number_{n}\n" for n in range(128))


def test_thousands_of_calls_of_tools_that_are_not_there_are_answered_at_once() -> None:
    planner = ReActPlanner(read_config(CONFIG, {}), ScriptedModel([]))
    line = "Action: some_tool_of_a_kind_numbr_\n"
    reply = Reply(turn=Assistant(text=line * (MAX_TEXT // len(line))), ended="answered", usage=NO_USAGE)
    started = time.process_time()
    read = planner.read(reply)
    assert time.process_time() - started < 2
    assert len(read.turn.calls) == 256
    assert all("did you mean" in call.fault for call in read.turn.calls)


@pytest.mark.parametrize(
    "text",
    ["{" + "a," * (MAX_TEXT_BYTES // 2 - 2) + "}", "".join(f"k{n}: 1\n" for n in range(20_001)), "- 1\n" * 30_000],
)
def test_a_configuration_of_too_many_values_is_not_read_to_its_end(text: str) -> None:
    started = time.process_time()
    with pytest.raises(ConfigurationError, match="more than 10000 values"):
        yaml_values(text, "a.yaml")
    assert time.process_time() - started < 3
