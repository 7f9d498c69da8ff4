"""A reference written in another system's notation is refused before anything runs, and never sent as text.

Held at the public API: plans handed whole and streamed, programs on the fast path, and the plans and calls of shared
collections, none of which may be newly refused.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callgate import Runtime, Tool, tool

SHARED = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.anyio

IN_OTHER_NOTATIONS = {
    "{{s1.email}}": '"$ref:s1.email"',
    "{{ s1.email }}": '"$ref:s1.email"',
    "  {{s1.email}}\n": '"$ref:s1.email"',
    "{{{s1.email}}}": '"$ref:s1.email"',
    "{{steps.s1.output.email}}": '"$ref:s1.email"',
    "{{steps[0].output.email}}": '"$ref:s1.email"',
    "{{step1.email}}": '"$ref:s1.email"',
    "{{ s1.email | default('x') }}": '"$ref:s1.email"',
    "{{ s1['e mail'] }}": "\"$ref:s1['e mail']\"",
    "{{#s1.email#}}": '"$ref:s1.email"',
    "{{s1}}": '"$ref:s1"',
    "={{ $node['s1'].json.email }}": '"$ref:s1.email"',
    "{{ ti.xcom_pull(task_ids='s1')['email'] }}": '"$ref:s1.email"',
    "${{ steps.s1.outputs.email }}": '"$ref:s1.email"',
    "@{outputs('s1')?['email']}": '"$ref:s1.email"',
    "#{s1.email}": '"$ref:s1.email"',
    "$steps.s1.email": '"$ref:s1.email"',
    "$s1.email": '"$ref:s1.email"',
    "$s1": '"$ref:s1"',
    "$.s1.email": '"$ref:s1.email"',
    "$ref{s1.email}": '"$ref:s1.email"',
    "$(s1.email)": '"$ref:s1.email"',
    "{s1.email}": '"$ref:s1.email"',
    "{s1}": '"$ref:s1"',
    "<s1.email>": '"$ref:s1.email"',
    "<s1>": '"$ref:s1"',
    "<%= s1.email %>": '"$ref:s1.email"',
    "[[s1.email]]": '"$ref:s1.email"',
    "%s1.email%": '"$ref:s1.email"',
    "@s1.email": '"$ref:s1.email"',
    "#E1": '"$ref:s1"',
    "#E1.email": '"$ref:s1.email"',
    "#E1['email']": '"$ref:s1.email"',
    "@outputs('s1')": '"$ref:s1"',
    "@body('s1')": '"$ref:s1"',
    "{s1[email]}": '"$ref:s1.email"',
    "{{ $s1->email }}": '"$ref:s1.email"',
    "Dear {s1[name]}, hello": "${s1.name}",
    "{{steps.0.email}}": '"$ref:s1.email"',
    "$steps.0.email": '"$ref:s1.email"',
    "steps.0": '"$ref:s1"',
    "ref:s1": '"$ref:s1"',
    "{{refs.s1.email}}": '"$ref:s1.email"',
    "@{s1}": '"$ref:s1"',
    "%{s1}": '"$ref:s1"',
    "$['s1']": '"$ref:s1"',
    "#[s1.email]": '"$ref:s1.email"',
    "{{ ti.xcom_pull(task_ids=['s1']).email }}": '"$ref:s1.email"',
    "{{ s1 + 1 }}": "${s1}",
    "<node-0>": '"$ref:s1"',
    "steps[0].result.email": '"$ref:s1.email"',
    "steps.s1.email": '"$ref:s1.email"',
    "Dear {{s1.name}}, hello": "${s1.name}",
    "Dear {s1.name}, hello": "${s1.name}",
    "Dear ${{ steps.s1.outputs.name }}, hello": "${s1.name}",
    "${s1.name} <{{s1.email}}>": "${s1.email}",
}
"""Each with what is to be written instead."""

TEXTS = [
    "It costs $1", "$1", "$5.00", "100%", "%s of %d", "<b>", "<b>bold</b>", "a < b > c", "{}", "{{}}", "{name}",
    "{{name}}", "{{name.first}}", "Hello {{contact.FIRSTNAME}}", "{{ github.token }}", "{0} {1}",
    '{"a": {"b": 1}}',
    '{"s1": {"email": 1}}', "function () { return s1.email }", "s1.csv", "data.csv", "s1", "s1.email.com", "a@s1.com",
    "#[1]", "{{name + 1}}",
    "#general", "#s1", "#s1.active", "@s1", "@john.doe", "[[s1]]", "$(s1)", "$PATH", "steps", "step by step",
    "steps.json", "see s1.email", "#E7", "#fff", "<a@b.org>", "[s1](https://s1.com)", "$", "{", "}}", "%", "",
]  # fmt: skip
"""Texts with a step ``s1`` beside them that are texts."""


class Mail:
    """A tool with side effects, and one that only reads."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.looked = 0

    @property
    def tools(self) -> list[Tool]:
        @tool(read_only=True)
        async def find(name: str) -> dict[str, str]:
            """Finds a person."""
            self.looked += 1
            return {"email": "ann@example.org", "name": name}

        async def send(**arguments: Any) -> str:
            self.sent.append(arguments)
            return "sent"

        schema = {"type": "object", "properties": {"to": {}, "all": {}, "mail": {}}}
        return [find, Tool.from_schema("send", "Sends a mail.", schema, send)]


def plan_of(argument: Any) -> dict[str, Any]:
    return {
        "steps": [
            {"id": "s1", "tool": "find", "arguments": {"name": "Ann"}},
            {"id": "s2", "tool": "send", "arguments": {"to": argument}},
        ]
    }


@pytest.mark.parametrize("text", IN_OTHER_NOTATIONS)
async def test_a_reference_in_another_notation_is_refused_before_anything_runs(text: str) -> None:
    mail = Mail()
    async with Runtime(mail.tools, sandbox=None) as runtime:
        for argument, place in ((text, "to"), ([{"deep": text}], "to[0].deep")):
            result = await runtime.execute_tool_plan(plan_of(argument))
            assert (result.ok, result.steps, mail.looked, mail.sent) == (False, [], 0, [])
            (fault,) = result.faults
            assert (fault.code, fault.severity, fault.step) == ("looks-like-a-reference", "error", "s2")
            assert fault.place == f"steps[1].arguments.{place}"
            assert f"write {IN_OTHER_NOTATIONS[text]};" in fault.hint
            assert '{"$literal": ' in fault.hint
            assert fault.hint in result.for_model()


@pytest.mark.parametrize("text", IN_OTHER_NOTATIONS)
async def test_what_the_fault_says_to_write_is_right_and_literal_sends_the_text(text: str) -> None:
    mail = Mail()
    async with Runtime(mail.tools, sandbox=None) as runtime:
        written = IN_OTHER_NOTATIONS[text]
        assert runtime.check_plan(plan_of(json.loads(written) if written[0] == '"' else written)) == []
        result = await runtime.execute_tool_plan(plan_of({"$literal": text}))
        assert (result.ok, result.faults, mail.sent) == (True, [], [{"to": text}])


@pytest.mark.parametrize("text", TEXTS)
async def test_a_text_that_names_no_step_so_is_sent_as_it_is(text: str) -> None:
    mail = Mail()
    async with Runtime(mail.tools, sandbox=None) as runtime:
        result = await runtime.execute_tool_plan(plan_of(text))
        assert (result.ok, result.faults, mail.sent) == (True, [], [{"to": text}])


@pytest.mark.parametrize("text", ["<b>", "{b}", "{b:.2f}", "$b", "$b$"])
async def test_a_text_that_names_the_step_it_stands_in_is_no_reference(text: str) -> None:
    mail = Mail()
    async with Runtime(mail.tools, sandbox=None) as runtime:
        result = await runtime.execute_tool_plan({"steps": [{"id": "b", "tool": "send", "arguments": {"to": text}}]})
        assert (result.ok, mail.sent) == (True, [{"to": text}])
        assert all(fault.severity == "warning" for fault in result.faults)


async def test_two_dollar_signs_escape_a_form_in_braces() -> None:
    for written, sent in (
        ("$${s1.email}", "${s1.email}"),
        ("a $${{ steps.s1.outputs.x }}", "a ${{ steps.s1.outputs.x }}"),
    ):
        mail = Mail()
        async with Runtime(mail.tools, sandbox=None) as runtime:
            result = await runtime.execute_tool_plan(plan_of(written))
            assert (result.ok, mail.sent) == (True, [{"to": sent}])


async def test_numbers_and_items_are_references_where_there_is_such_a_step_or_item() -> None:
    mail = Mail()
    async with Runtime(mail.tools, sandbox=None) as runtime:

        def codes(*steps: dict[str, Any]) -> list[str]:
            return [fault.code for fault in runtime.check_plan({"steps": list(steps)}) if fault.severity == "error"]

        first = {"tool": "find", "arguments": {"name": "Ann"}}
        for text in ("$1", "{{1.email}}", "#E1"):
            second = {"tool": "send", "arguments": {"to": text}}
            assert codes({**first, "id": "1"}, {**second, "id": "2"}) == ["looks-like-a-reference"]
            assert codes(first, second) == ["looks-like-a-reference"]
        assert codes({**first, "id": "a"}, {"id": "b", "tool": "send", "arguments": {"to": "$1"}}) == []
        for text, refused in (("{{item.email}}", True), ("{item}", True), ("Dear {item.name}", True), ("{item", False)):
            mapped = {"id": "b", "tool": "send", "for_each": [{"email": "a"}], "arguments": {"to": text}}
            assert codes(mapped) == (["looks-like-a-reference"] if refused else [])
            assert codes({"id": "b", "tool": "send", "arguments": {"to": text}}) == []


async def test_conditions_and_lists_to_map_over_are_looked_at_and_keys_are_text() -> None:
    mail = Mail()
    async with Runtime(mail.tools, sandbox=None) as runtime:
        for option in ({"when": "{{s1.email}}"}, {"for_each": "{{s1.all}}"}, {"for_each": ["{{s1.email}}"]}):
            plan = plan_of("x")
            plan["steps"][1].update(option)
            assert [fault.code for fault in runtime.check_plan(plan)] == ["looks-like-a-reference"]
        result = await runtime.execute_tool_plan(plan_of({"{{s1.email}}": "$ref:s1.email"}))
        assert (result.ok, mail.sent) == (True, [{"to": {"{{s1.email}}": "ann@example.org"}}])
        assert [(fault.code, fault.severity) for fault in result.faults] == [("looks-like-a-reference", "warning")]


async def test_a_streamed_plan_is_refused_too() -> None:
    mail = Mail()

    async def chunks() -> AsyncIterator[str]:
        text = json.dumps(plan_of("{{s1.email}}"))
        for start in range(0, len(text), 7):
            yield text[start : start + 7]

    async with Runtime(mail.tools, sandbox=None) as runtime:
        result = await runtime.stream_plan(chunks())
        assert [fault.code for fault in result.faults] == ["looks-like-a-reference"]
        assert (result.ok, result.steps, mail.sent) == (False, [], [])


async def test_a_name_with_a_dot_is_text_and_noted_where_the_tool_has_that_field() -> None:
    schema = {"type": "object", "properties": {"email": {"type": "string"}}}
    mail = Mail()
    find = Tool.from_schema("find", "Finds.", {"type": "object"}, lambda **_: {"email": "x"}, output_schema=schema)
    async with Runtime([find, mail.tools[1]], sandbox=None) as runtime:
        noted = runtime.check_plan(plan_of("s1.email"))
        assert [(fault.code, fault.severity) for fault in noted] == [("looks-like-a-reference", "warning")]
        assert runtime.check_plan(plan_of("s1.csv")) == []


@pytest.mark.parametrize("text", [*IN_OTHER_NOTATIONS, *TEXTS, "$ref:s1.email", "${s1.email}", "$item"])
async def test_the_text_of_a_program_is_data_on_the_fast_path(text: str) -> None:
    mail = Mail()
    async with Runtime(mail.tools, sandbox=None, path="plan") as runtime:
        program = f"s1 = await find(name='Ann')\nawait send(to={text!r}, all=[{text!r}], mail=s1['email'])"
        result = await runtime.execute_code(program)
        assert result.ok, result.error
        assert mail.sent == [{"to": text, "all": [text], "mail": "ann@example.org"}]
        mail.sent.clear()
        result = await runtime.execute_code(
            "s1 = await find(name='Ann')\nawait send(to=given, mail=s1['email'])", inputs={"given": text}
        )
        assert result.ok, result.error
        assert mail.sent == [{"to": text, "mail": "ann@example.org"}]


def shared(name: str) -> list[dict[str, Any]]:
    path = SHARED / name
    if not path.is_file():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{path} has to be there in CI")
        pytest.skip(f"{path} is absent")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


async def test_no_plan_of_a_collection_is_refused_for_its_texts() -> None:
    plans = [each["plan"] for each in shared("plans/nestful.jsonl.gz")]
    names = {step["tool"] for plan in plans for step in plan["steps"]}
    tools = [Tool.from_schema(name, "A stub.", {"type": "object"}, lambda **_: None) for name in sorted(names)]
    async with Runtime(tools, sandbox=None) as runtime:
        refused = [
            str(fault)
            for plan in plans
            for fault in runtime.check_plan(plan)
            if fault.code == "looks-like-a-reference" and fault.severity == "error"
        ]
    assert len(plans) == 150
    assert refused == []


@pytest.mark.parametrize("name", ["bfcl_parallel", "bfcl_parallel_multiple"])
async def test_no_call_of_a_collection_is_refused_for_its_texts(name: str) -> None:
    requests = shared(f"calls/{name}.jsonl.gz")
    seen = 0
    for request in requests:
        calls = [(tool, arguments) for call in request["ground_truth"] for tool, arguments in call.items()]
        names = {each.replace(".", "_") for each, _ in calls}
        tools = [Tool.from_schema(each, "A stub.", {"type": "object"}, lambda **_: None) for each in sorted(names)]
        steps = [
            {"id": each, "tool": tool.replace(".", "_"), "arguments": {key: value[0] for key, value in given.items()}}
            for each, (tool, given) in zip("abcdefghijklmnop", calls, strict=False)
        ]
        seen += len(steps)
        assert Runtime(tools, sandbox=None).check_plan({"steps": steps}) == []
    assert seen > 400
