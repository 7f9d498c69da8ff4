"""What a hostile model tries on ReAct: texts that take seconds to read."""

from __future__ import annotations

import time
from typing import Any

import pytest

from callgate.agent.models.model import NO_USAGE, Assistant, Reply
from callgate.agent.models.scripted import ScriptedModel
from callgate.agent.react.config import read_config
from callgate.agent.react.planner import ReActPlanner
from callgate.agent.react.text_calls import MAX_TEXT
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


def test_a_call_that_was_written_as_text_is_not_made_where_none_may_be() -> None:
    config = read_config(CONFIG.replace("false", "true"), {"OPENAI_TOOL_CHOICE": "none"})
    written = '{"name": "some_tool_of_a_kind_number_3", "arguments": {"a": 1}}'
    reply = ReActPlanner(config, ScriptedModel([])).read(Reply(turn=Assistant(text=written), ended="answered"))
    (call,) = reply.turn.calls
    assert (call.arguments, call.fault) == ({}, "no tool may be called here: answer in words")
    assert call.written == '{"a": 1}'


def test_thousands_of_inputs_whose_end_is_looked_for_are_read_at_once() -> None:
    planner = ReActPlanner(read_config(CONFIG, {}), ScriptedModel([]))
    pieces = ("Action: some_tool_of_a_kind_number_1\nAction Input: ", '["", "', '{"a": [', '[[[["\\\\", "')
    for piece in pieces[1:]:
        text = f"{pieces[0]}{piece}\n"
        reply = Reply(turn=Assistant(text=text * (MAX_TEXT // len(text))), ended="answered", usage=NO_USAGE)
        started = time.process_time()
        calls = planner.read(reply).turn.calls
        assert time.process_time() - started < 5
        assert all(call.fault for call in calls)


@pytest.mark.parametrize("wrong", ["agent.yaml", None, {"spec": {}}])
def test_a_planner_of_something_else_than_a_configuration_says_what_to_give(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"give what read_config\('agent.yaml'\) makes of the file"):
        ReActPlanner(wrong, ScriptedModel([]))
