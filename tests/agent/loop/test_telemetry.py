"""Spans of an agent: one tree for a task, whatever its model does, and none stays open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest

from agent.loop.scripted_runs import THOUSAND, play, sandboxed, told
from callgate import Limits, Runtime, Secret, Telemetry, tool
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.models.model import Reply, Request, ToolCall, Usage
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.agent.orchestration.answering import PlannedAnswerer
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.planner import ToolPlanner
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.react.config import read_config
from callgate.agent.react.planner import ReActPlanner
from callgate.errors import ModelUnavailable
from callgate.runtime.gate.watching import Origin, origin
from otlp_collector import Providers, collecting

pytestmark = pytest.mark.anyio


@pytest.fixture
def providers() -> Iterator[Providers]:
    with collecting() as collected:
        yield collected


def telemetry(providers: Providers, **options: Any) -> Telemetry:
    return Telemetry(tracer_provider=providers.tracer, meter_provider=providers.meter, **options)


asked: list[Origin | None] = []


@tool(read_only=True)
async def weather(city: str) -> dict[str, int]:
    """Current weather."""
    asked.append(origin.get())
    return {"temp": len(city)}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_task_is_one_tree_with_usage_and_its_transcripts_id(
    providers: Providers, tmp_path: Path, stream: bool
) -> None:
    async with Runtime([weather], sandbox=None, telemetry=telemetry(providers)) as runtime:
        listener: dict[str, Any] = {"on_event": lambda event: None} if stream else {"stream": False}
        result, _ = await play(
            runtime, Calls(("weather", {"city": "Oslo"})), Say("4"), transcript=tmp_path / "t.jsonl", **listener
        )
    assert result.ok
    collected = providers.flush()
    task, chats = collected.one("invoke_agent callgate"), collected.named("chat scripted")
    assert not task.parent
    assert [each.parent for each in chats] == [task.id] * 2
    first = json.loads((tmp_path / "t.jsonl").read_text().splitlines()[0])
    assert first["id"]
    assert {first["id"]} == {each.attributes["gen_ai.conversation.id"] for each in (task, *chats)}
    assert [each.attributes["gen_ai.response.finish_reasons"] for each in chats] == [["tool_call"], ["stop"]]
    assert task.attributes["gen_ai.usage.input_tokens"] == result.usage.input_tokens
    assert task.attributes["callgate.task.outcome"] == "answered"
    assert all(("gen_ai.response.time_to_first_chunk" in each.attributes) == stream for each in chats)
    assert collected.metric("gen_ai.client.token.usage", gen_ai__token__type="input") == [2]
    for kind, spent in (("input", result.usage.input_tokens), ("output", result.usage.output_tokens)):
        assert collected.total("gen_ai.client.token.usage", gen_ai__token__type=kind) == spent > 0
    seconds = collected.total("gen_ai.client.operation.duration", gen_ai__operation__name="chat")
    assert 0 < seconds < collected.total("gen_ai.client.operation.duration", gen_ai__operation__name="invoke_agent")
    assert collected.metric("gen_ai.client.operation.duration", gen_ai__operation__name="chat") == [2]
    assert "Tokyo" not in str(collected.spans)


async def test_a_call_knows_the_task_the_turn_and_the_models_call_and_nothing_of_it_stays() -> None:
    asked.clear()
    call = ToolCall(id="call_7", name="weather", arguments={"city": "Oslo"})
    result, _ = await play([weather], Calls(call), Say("4"))
    assert asked == [Origin(task=result.events[0].id, turn=1, call="call_7")]  # type: ignore[union-attr]
    assert origin.get() is None


async def test_content_is_there_only_if_asked_for_and_redacted_and_bounded(providers: Providers) -> None:
    hostile = "\ud800" + "x" * 100_000
    options = telemetry(providers, include_content=True, redact=lambda text: text.replace("Tokyo", "[city]"))
    async with Runtime([weather], sandbox=None, telemetry=options) as runtime:
        await play(runtime, Calls(("weather", {"city": "Tokyo"})), Say(hostile), system="Speak of Tokyo.")
    collected = providers.flush()
    chats = collected.named("chat scripted")
    assert "Tokyo" not in str(collected.spans)
    messages = json.loads(chats[1].attributes["gen_ai.input.messages"])
    assert [each["role"] for each in messages] == ["user", "assistant", "tool"]
    assert messages[1]["parts"][0]["arguments"] == {"city": "[city]"}
    assert len(chats[1].attributes["gen_ai.output.messages"]) < 10_000
    assert "[city]" in chats[0].attributes["gen_ai.system_instructions"]


@tool
async def login(password: Annotated[str, Secret]) -> Annotated[str, Secret]:
    return "tok-83jf8"


async def test_a_secret_of_a_call_is_in_no_message_of_the_task(providers: Providers) -> None:
    program = {"code": "import math\nt = await login(password='hunter22')\nprint('got', t)"}
    options = telemetry(providers, include_content=True)
    async with sandboxed([login], telemetry=options) as runtime:
        result, model = await play(
            runtime,
            Calls(("login", {"password": "hunter22"}), text="I take hunter22."),
            Calls(("execute_code", program)),
            Say("It is tok-83jf8."),
        )
    assert "tok-83jf8" in result.answer
    assert "got tok-83jf8" in told(model.requests[2])[0]
    shown = repr(providers.flush().spans)
    assert "got [redacted]" in shown
    assert "It is [redacted]." in shown
    assert "tok-83jf8" not in shown
    assert "hunter22" not in shown


async def test_a_long_conversation_is_shown_from_its_end_within_bounds(providers: Providers) -> None:
    options = telemetry(providers, include_content=True)
    turns = [
        Calls(*(("weather", {"city": f"{turn} {n} {'é' * 2_000}"}) for n in range(40)), text="many") for turn in "ab"
    ]
    async with Runtime([weather], sandbox=None, telemetry=options) as runtime:
        result, _ = await play(runtime, *turns, Say("4"), task="What?" * 1_000)
    assert result.ok
    for span in providers.flush().named("chat scripted"):
        for text in (value for value in span.attributes.values() if isinstance(value, str)):
            assert len(text) <= 32_000
    messages = json.loads(span.attributes["gen_ai.input.messages"])
    assert [each["role"] for each in messages[-2:]] == ["assistant", "tool"]
    assert messages[-2]["parts"][0]["content"] == "many"
    assert len(messages[-1]["parts"]) == 40


async def test_a_models_error_and_a_spent_budget_are_said(providers: Providers) -> None:
    async with Runtime([weather], sandbox=None, telemetry=telemetry(providers)) as runtime:
        result, _ = await play(runtime, ModelUnavailable("it is away"))
        assert result.outcome == "unavailable"
        spent, _ = await play(runtime, *[Calls(("weather", {"city": "Oslo"}))] * 3, budget=Budget(turns=1))
        assert spent.outcome == "budget"
    collected = providers.flush()
    gone, over = collected.named("invoke_agent callgate")
    assert (gone.status, gone.attributes["error.type"]) == ("ERROR", "unavailable")
    assert (over.status, over.attributes["error.type"]) == ("ERROR", "budget")
    assert collected.named("chat scripted")[0].attributes["error.type"] == "ModelUnavailable"


async def test_no_span_of_a_cancelled_task_stays_open(providers: Providers) -> None:
    began = anyio.Event()

    async def slow(request: Any) -> Any:
        began.set()
        await anyio.sleep_forever()

    async with Runtime([weather], sandbox=None, telemetry=telemetry(providers)) as runtime:
        agent = Agent(ScriptedModel([slow]), runtime)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(agent.run, "Wait")
                await began.wait()
                group.cancel_scope.cancel()
    collected = providers.flush()
    assert collected.tree() == ["invoke_agent callgate", "invoke_agent callgate > chat scripted"]
    assert {each.attributes["error.type"] for each in collected.spans} == {"cancelled"}
    assert origin.get() is None


@pytest.mark.parametrize(
    ("how", "end"),
    [
        *((how, "cancelled") for how in ("sandbox", "plan", "steps", "direct")),
        pytest.param("sandbox", "budget", marks=pytest.mark.slow),
    ],
)
async def test_no_span_of_a_task_that_ends_in_the_middle_of_a_call_stays_open(
    providers: Providers, how: str, end: str
) -> None:
    began = anyio.Event()

    @tool
    async def waits() -> None:
        began.set()
        await anyio.sleep_forever()

    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "sandbox": ("execute_code", {"code": "import math\nawait waits()"}),
        "plan": ("execute_code", {"code": "await waits()"}),
        "steps": ("execute_tool_plan", {"steps": [{"id": "a", "tool": "waits"}]}),
        "direct": ("waits", {}),
    }
    async with sandboxed([waits], telemetry=telemetry(providers)) as runtime:
        budget = Budget(seconds=5) if end == "budget" else Budget()
        agent = Agent(ScriptedModel([Calls(calls[how]), "Done."]), runtime, budget=budget)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(agent.run, "Wait")
                await began.wait()
                if end == "cancelled":
                    group.cancel_scope.cancel()
        collected = providers.all_ended()
    task = collected.one("invoke_agent callgate")
    assert task.attributes["error.type"] == end
    waited = collected.one("execute_tool waits")
    assert waited.attributes["error.type"] == "unknown_outcome"
    run = collected.parent_of(waited)
    assert run is not None
    assert run is task or collected.parent_of(run) is task


async def test_a_guest_that_is_killed_leaves_no_span_of_its_task_open(providers: Providers) -> None:
    killed = "import asyncio, os, signal\nawait weather(city='x')\nos.kill(os.getpid(), signal.SIGKILL)"
    spent = "await weather(city='x')\nwhile True: pass"
    async with sandboxed([weather], telemetry=telemetry(providers), limits=Limits(cpu_seconds=1)) as runtime:
        result, _ = await play(
            runtime, Calls(("execute_code", {"code": killed})), Calls(("execute_code", {"code": spent})), Say("No.")
        )
        collected = providers.all_ended()
    assert result.ok
    first, second = collected.named("execute_tool execute_code")
    assert first.status == second.status == "ERROR"
    assert second.attributes["callgate.limit"] == "cpu_seconds"
    assert len(collected.named("execute_tool weather")) == 2


async def test_a_resumed_task_is_a_new_trace_of_the_same_conversation(providers: Providers) -> None:
    async with Runtime([weather], sandbox=None, telemetry=telemetry(providers)) as runtime:
        first, _ = await play(runtime, ModelUnavailable("it is away"))
        with anyio.fail_after(20):
            await Agent(ScriptedModel([Say("4")]), runtime).resume(first)
    one, two = providers.flush().named("invoke_agent callgate")
    assert one.trace != two.trace
    assert two.attributes["callgate.task.resumed"] is True
    assert one.attributes["gen_ai.conversation.id"] == two.attributes["gen_ai.conversation.id"]


async def test_programs_and_plans_stay_in_the_tasks_trace(providers: Providers) -> None:
    plan = {"steps": [{"id": "a", "tool": "weather", "arguments": {"city": "Oslo"}}]}
    async with sandboxed([weather], telemetry=telemetry(providers)) as runtime:
        asked.clear()
        result, _ = await play(
            runtime,
            Calls(("execute_code", {"code": "await weather(city='Oslo')"})),
            Calls(("execute_tool_plan", plan)),
            Say("4"),
        )
    assert result.ok
    assert [each and each.turn for each in asked] == [1, 2]
    assert len({each.trace for each in providers.flush().spans}) == 1


class Hostile(ScriptedModel):
    """A model whose endpoint says what it likes."""

    async def ask(self, request: Request, **more: Any) -> Reply:
        return replace(await super().ask(request, **more), model="\ud800\n" * 1_000_000)


def hostile_turns() -> Iterator[Any]:
    deep: Any = {}
    for _ in range(10_000):
        deep = {"a": deep}
    texts = ("\ud800\udfff", "a\x00b\x1b[31m\r\n\u202e", "é" * 10_000_000)
    for n, text in enumerate(texts):
        raises = f"print({n})\nraise ValueError({text!r})"
        yield Calls(ToolCall(id=text, name=text, arguments={text[:99]: text}), text=text)
        yield Calls(("weather", {"city": text}), ("execute_code", {"code": raises}))
        yield Calls(("execute_tool_plan", {"steps": [{"id": text, "tool": text, "arguments": {"a": text}}]}))
        yield Calls(ToolCall(id="", name="weather", fault=text, written=text))
    yield Calls(*(("weather", {"city": f"{n}"}) for n in range(5_000)))
    odd = Calls(("weather", deep), ("weather", {"city": float("nan")}), ("weather", {"city": 10**4000}))
    yield Say(calls=odd, usage=THOUSAND)
    yield Say("So", calls=Calls(("weather", {"city": "x"})), usage=Usage(input_tokens=10**40, output_tokens=-(10**40)))
    yield Say("\ud800" + "x" * 10_000_000)


@pytest.mark.sampled
@pytest.mark.parametrize("content", [True, False])
async def test_whatever_a_model_says_every_span_of_its_task_arrives_within_bounds(
    providers: Providers, caplog: pytest.LogCaptureFixture, content: bool
) -> None:
    model = Hostile(list(hostile_turns()))
    options = telemetry(providers, include_content=content)
    async with sandboxed([weather], telemetry=options) as runtime:
        with anyio.fail_after(120):
            result = await Agent(model, runtime).run("\ud800" + "é" * 900_000)
    assert len(model.requests) == len(list(hostile_turns())), result.reason
    collected = providers.all_ended()
    assert len(collected.named("chat scripted")) == len(model.requests)
    for span in collected.spans:
        assert len(span.name) <= 300
        assert span.name.isprintable()
        for name, value in span.attributes.items():
            most = 32_000 if "messages" in name or "system" in name else 8_192 if ".tool.call." in name else 256
            assert not isinstance(value, str) or len(value) <= most, name
    assert not [each for each in caplog.records if not each.name.startswith("callgate")]
    assert all(each.getMessage().isprintable() for each in caplog.records)
    assert collected.total("gen_ai.client.token.usage") < 10**14


CHAIN = json.dumps(
    {
        "reasoning": "one look",
        "toolChain": [{"subQuery": 0, "tool": "weather", "parameters": {"city": "Oslo"}, "confidence": 0.9}],
    }
)
"""A model's choice of tools, for the tool planner."""


def planned(runtime: Runtime, model: ScriptedModel) -> PlannedAnswerer:
    settings = PlannerSettings(planning_seconds=20)
    return PlannedAnswerer(ToolPlanner(runtime, model, settings=settings), ToolOrchestrator(runtime), model)


async def test_a_task_that_a_plan_answers_has_spans_of_the_planning_the_plan_and_the_answer(
    providers: Providers,
) -> None:
    async with Runtime([weather], sandbox=None, telemetry=telemetry(providers)) as runtime:
        model = ScriptedModel([CHAIN, "It is warm [1]."])
        with anyio.fail_after(20):
            result = await Agent(model, runtime, answerer=planned(runtime, model)).run("How warm is Oslo?")
    assert result.answer == "It is warm [1]."
    task, chat = "invoke_agent callgate", "invoke_agent callgate > chat scripted"
    plan = f"{task} > execute_tool execute_tool_plan"
    assert providers.all_ended().tree() == [task, chat, plan, f"{plan} > execute_tool weather", chat]


async def test_a_tool_planner_outside_of_an_agent_has_the_spans_of_its_plan_alone(providers: Providers) -> None:
    async with Runtime([weather], sandbox=None, telemetry=telemetry(providers)) as runtime:
        with anyio.fail_after(20):
            answered = await planned(runtime, ScriptedModel([CHAIN, "It is warm [1]."])).answer("How warm is Oslo?")
    assert answered.ok
    plan = "execute_tool execute_tool_plan"
    assert providers.all_ended().tree() == [plan, f"{plan} > execute_tool weather"]


REACT = """
spec:
  planner:
    type: ReActPlanner
    config:
      tool_descriptions: [{name: weather, description: Current weather., args: [city]}]
      system_prompt: You look at the sky.
resources:
  inference_gateways:
    - {name: llm, type: OpenAIGateway, config: {model: gpt-4o-mini}}
"""


async def test_a_react_planner_has_spans_in_an_agent_and_none_alone(providers: Providers) -> None:
    async with Runtime([weather], sandbox=None, telemetry=telemetry(providers)) as runtime:
        with anyio.fail_after(20):
            alone = ReActPlanner(read_config(REACT), ScriptedModel(["4"]), runtime.registry)
            assert await alone.plan("How warm is Oslo?", []) == "4"
            assert providers.flush().spans == []
            model = ScriptedModel([Calls(("weather", {"city": "Oslo"})), "4"])
            planner = ReActPlanner(read_config(REACT), model, runtime.registry)
            assert (await Agent(model, runtime, planner=planner).run("How warm is Oslo?")).ok
    task, chat = "invoke_agent callgate", "invoke_agent callgate > chat scripted"
    assert providers.all_ended().tree() == [task, chat, f"{task} > execute_tool weather", chat]


OLD_NAMES = {
    *(f"gen_ai.{name}" for name in ("system", "operation.name", "agent.name", "conversation.id", "output.type")),
    *(f"gen_ai.request.{name}" for name in ("model", "max_tokens", "temperature")),
    *(f"gen_ai.response.{name}" for name in ("model", "finish_reasons")),
    *(f"gen_ai.usage.{name}" for name in ("input_tokens", "output_tokens")),
    *(f"gen_ai.tool.{name}" for name in ("name", "type", "call.id")),
    "gen_ai.token.type",
}
"""The names of generative AI that version 1.36 of the conventions has, and that are used here."""
NEW_NAMES = (OLD_NAMES - {"gen_ai.system"}) | {
    *(f"gen_ai.{name}" for name in ("provider.name", "input.messages", "output.messages", "system_instructions")),
    *(f"gen_ai.tool.call.{name}" for name in ("arguments", "result")),
    *("gen_ai.request.stream", "gen_ai.response.time_to_first_chunk", "gen_ai.usage.cache_read.input_tokens"),
}


@pytest.mark.parametrize(("conventions", "known"), [("1.36", OLD_NAMES), ("1.41", NEW_NAMES)])
async def test_every_span_and_metric_of_a_task_has_names_of_the_chosen_conventions(
    providers: Providers, conventions: Any, known: set[str]
) -> None:
    usage = Usage(input_tokens=9, output_tokens=3, cached_input_tokens=4)
    options = telemetry(providers, conventions=conventions, include_content=True)
    async with Runtime([weather], sandbox=None, telemetry=options) as runtime:
        result, _ = await play(
            runtime,
            Calls(("execute_code", {"code": "await weather(city='Oslo')"})),
            Say("4", usage=usage),
            system="Be short.",
            temperature=0.5,
            max_output_tokens=100,
            on_event=lambda event: None,
        )
    assert result.ok
    collected = providers.all_ended()
    measured = [attributes for _, attributes, _ in collected.points]
    names = {name for attributes in [*(each.attributes for each in collected.spans), *measured] for name in attributes}
    assert {name for name in names if not name.startswith("callgate.")} - {"error.type"} <= known
    assert ("gen_ai.system" in names) != ("gen_ai.provider.name" in names)
    assert ("callgate.usage.cache_read.input_tokens" in names) == (conventions == "1.36")
    task, first, second = collected.one("invoke_agent callgate"), *collected.named("chat scripted")
    older = "gen_ai.system" if conventions == "1.36" else "gen_ai.provider.name"
    assert {each.attributes[older] for each in (task, first, second)} == {"openai"}
    shown = "callgate.output.messages" if conventions == "1.36" else "gen_ai.output.messages"
    assert "4" in second.attributes[shown]
    assert collected.schemas == {f"https://opentelemetry.io/schemas/{conventions}.0"}
