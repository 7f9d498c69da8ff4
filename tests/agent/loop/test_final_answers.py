"""When an answer of a program or a plan ends the task, and when the model looks at it again."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from agent.loop.answers import JSON, PLAN, PROGRAM, ROME, ROME_OF_W, TOOLS, Weather, not_oslo, send, weather
from agent.loop.scripted_runs import of, play, sandboxed, told
from callgate import Deny, Runtime, ToolError, tool
from callgate.agent.events import Answered
from callgate.agent.models.model import ToolCall
from callgate.agent.models.scripted import Calls

pytestmark = pytest.mark.anyio

AGAIN = {
    "the program failed": "final_answer(await weather('Rome'))if 0 else 1/0",
    "it failed after the answer": "try:\n    final_answer(await weather('Rome'))\nfinally:\n    1/0",
    "a call failed": "try:\n    await weather('Atlantis')\nexcept ToolError:\n    final_answer(await weather('Rome'))",
    "a call was denied": "try:\n    await buy('Rome')\nexcept ToolError:\n    final_answer(await weather('Rome'))",
    "an outcome is unknown": "import asyncio\ntry:\n    await asyncio.wait_for(lose('it'), 0.2)\n"
    "except TimeoutError:\n    final_answer(await weather('Rome'))",
    "the check failed": "final_answer({'city': 'Oslo', 'degrees': 1})",
    "it does not fit": "final_answer({'city': 'Oslo'})",
    "it is too long": "final_answer({'city': 'R' * 50_000, 'degrees': 1})",
}


@pytest.mark.parametrize("why", AGAIN)
async def test_the_model_looks_again_where(why: str) -> None:
    program = Calls(("execute_code", {"code": AGAIN[why]}))
    async with sandboxed(TOOLS, approve=lambda request: Deny("no")) as runtime:
        options: Any = {"output_type": Weather, "answer_checks": [not_oslo], "one_turn": "offer"}
        result, model = await play(runtime, program, JSON, mode="code", **options)
    assert (result.turns, result.output, result.answered_by) == (2, ROME, "model")
    assert [event.by for event in of(result, Answered)] == ["model"]
    if why in ("a call failed", "a call was denied", "an outcome is unknown", "it is too long"):
        assert "That answer did not end the task: " in told(model.requests[1])[0]
        assert "final_answer: " in told(model.requests[1])[0]


@tool(read_only=True, timeout_seconds=0.1)
async def slow(city: str) -> str:
    """Takes long."""
    await anyio.sleep_forever()
    return city


FAULTY = {
    "failed": "weather('Atlantis')",
    "denied": "buy('Rome')",
    "refused": "weather(city=['Rome'])",
    "timed out": "slow('Rome')",
    "unknown": "asyncio.wait_for(lose('it'), 0.2)",
}
LEFT = {
    "caught": "try:\n    await {call}\nexcept Exception:\n    pass\n",
    "gathered": "await asyncio.gather(weather('Rome'), {call}, return_exceptions=True)\n",
    "as completed": "for each in asyncio.as_completed([{call}, weather('Rome')]):\n    try:\n        await each\n"
    "    except Exception:\n        pass\n",
    "waited for": "async def f():\n    return await {call}\nt = asyncio.create_task(f())\nawait asyncio.wait([t])\n"
    "t.exception()\n",
    "tried again": "for _ in range(2):\n    try:\n        await {call}\n    except Exception:\n"
    "        await weather('Rome')\n",
}


@pytest.mark.sampled
@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("faulty", FAULTY)
async def test_no_answer_is_committed_after_a_call_that_failed_however_the_program_took_it(
    faulty: str, left: str
) -> None:
    code = f"import asyncio\n{LEFT[left].format(call=FAULTY[faulty])}final_answer(await weather('Rome'))"
    async with sandboxed([*TOOLS, slow], approve=lambda request: Deny("no")) as runtime:
        result, _ = await play(
            runtime, Calls(("execute_code", {"code": code})), JSON, mode="code", output_type=Weather, one_turn="offer"
        )
    assert (result.turns, result.answered_by) == (2, "model")
    statuses = {call["status"] for call in result.runs[0]["calls"]}
    assert faulty.replace(" ", "_").replace("unknown", "unknown_outcome") in statuses


async def test_the_model_looks_again_where_other_calls_stand_in_the_turn_or_a_needed_step_failed() -> None:
    both = Calls(*PROGRAM.calls, ("weather", {"city": "Oslo"}))
    step = {"id": "w", "tool": "weather", "arguments": {"city": "Atlantis"}}
    failed = Calls(("execute_tool_plan", {"steps": [step], "answer": {"$ref": "w"}}))
    async with sandboxed(TOOLS) as runtime:
        result, _ = await play(runtime, both, failed, JSON, mode="auto", output_type=Weather, one_turn="offer")
    assert (result.turns, result.answered_by) == (3, "model")


async def test_a_plan_answers_only_where_no_step_failed_also_one_that_made_no_call() -> None:
    steps = [
        {"id": "w", "tool": "weather", "arguments": {"city": "Rome"}},
        {"id": "b", "tool": "lose", "arguments": {"what": "$item"}, "for_each": "$ref:w.city"},
    ]
    plan = Calls(("execute_tool_plan", {"steps": steps, "answer": {"$ref": "w"}}))
    async with sandboxed(TOOLS) as runtime:
        result, model = await play(runtime, plan, JSON, mode="plan", output_type=Weather, one_turn="offer")
    assert (result.turns, result.answered_by) == (2, "model")
    assert "a step failed" in told(model.requests[1])[0]


@tool(timeout_seconds=0.1, fallback="weather")
async def book(city: str) -> Weather:
    """Never answers, and may have done its work."""
    await anyio.sleep_forever()
    return ROME


def step(id: str, tool: str = "weather", city: Any = "Rome", **more: Any) -> dict[str, Any]:
    return {"id": id, "tool": tool, "arguments": {"what" if tool == "buy" else "city": city}, **more}


NOT_BY_PLAN = {
    "a step that the answer needs was skipped": ([step("a"), step("w", when={"$expr": "a.degrees > 50"})], ROME_OF_W),
    "a step behind a skipped one": ([step("a", when={"$expr": "1 > 2"}), step("w", city="$ref:a.city")], ROME_OF_W),
    "a step that the answer needs failed": ([step("w", city="Atlantis")], ROME_OF_W),
    "another step failed": ([step("w"), step("b", city="Atlantis")], ROME_OF_W),
    "one item of a step failed": ([step("w"), step("b", city="$item", for_each=["Rome", "Atlantis"])], ROME_OF_W),
    "a call was denied": ([step("w"), step("b", "buy")], ROME_OF_W),
    "a call timed out": ([step("w"), step("b", "slow")], ROME_OF_W),
    "an outcome is unknown, though a fallback helped": ([step("w", "book")], ROME_OF_W),
    "a check failed": ([step("w", city="Oslo")], ROME_OF_W),
    "it does not fit": ([step("w")], {"city": "$ref:w.city", "degrees": "$ref:w.city"}),
    "it is too long": ([step("w")], {"city": "R" * 50_000, "degrees": 1}),
}


@pytest.mark.parametrize("why", NOT_BY_PLAN)
async def test_the_model_looks_again_at_a_plan_where(why: str) -> None:
    steps, answer = NOT_BY_PLAN[why]
    plan = Calls(("execute_tool_plan", {"steps": steps, "answer": answer}))
    options: Any = {"output_type": Weather, "answer_checks": [not_oslo], "one_turn": "offer"}
    async with Runtime([*TOOLS, slow, book], sandbox=None, approve=lambda request: Deny("no")) as runtime:
        result, model = await play(runtime, plan, JSON, mode="plan", **options)
    assert (result.turns, result.output, result.answered_by) == (2, ROME, "model")
    assert [event.by for event in of(result, Answered)] == ["model"]
    gave = why not in (
        "a step that the answer needs was skipped",
        "a step behind a skipped one",
        "a step that the answer needs failed",
        "a check failed",
        "it does not fit",
    )
    assert ("That answer did not end the task: " in told(model.requests[1])[0]) == gave


async def test_a_program_whose_call_has_an_unknown_outcome_does_not_end_the_task_though_a_fallback_helped() -> None:
    program = Calls(("execute_code", {"code": "final_answer(await book('Rome'))"}))
    async with Runtime([*TOOLS, book], sandbox=None) as runtime:
        result, model = await play(runtime, program, JSON, mode="code", output_type=Weather, one_turn="offer")
    assert (result.turns, result.answered_by) == (2, "model")
    assert "the call of book has the status unknown_outcome" in told(model.requests[1])[0]


BESIDE: dict[str, Any] = {
    "another answer": PROGRAM.calls[0],
    "a call that cannot be read": ToolCall(id="b", name="weather", arguments={}, fault="it is not JSON"),
    "a call of no tool": ("nothing", {}),
    "a call beyond the most of a turn": [("weather", {"city": str(n)}) for n in range(70)],
}


@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("turn", [PROGRAM, PLAN], ids=["program", "plan"])
async def test_an_answer_beside_any_other_call_does_not_end_the_task(turn: Calls, beside: Any) -> None:
    calls = [*turn.calls, *(beside if isinstance(beside, list) else [beside])]
    async with Runtime(TOOLS, sandbox=None) as runtime:
        mode = "code" if turn is PROGRAM else "plan"
        result, model = await play(runtime, Calls(*calls), JSON, mode=mode, output_type=Weather, one_turn="offer")
    assert (result.turns, result.answered_by) == (2, "model")
    assert "there were other calls in the same turn" in told(model.requests[1])[0]


ON = {
    "a thread": "import threading\nt = threading.Thread(target=lambda: {answer})\nt.start()\nt.join()\n{more}",
    "to_thread": "import asyncio\ntry:\n    await asyncio.to_thread(lambda: {answer})\n"
    "except BaseException:\n    pass\n{more}",
    "a bare except": "try:\n    {answer}\nexcept:\n    pass\n{more}",
    "except BaseException": "try:\n    {answer}\nexcept BaseException:\n    {more}",
    "finally": "try:\n    {answer}\nfinally:\n    {more}",
    "__del__": "class C:\n    def __del__(self):\n        {answer}\nc = C()\ndel c\n{more}",
    "a plain function": "def f():\n    send('Rome')\ntry:\n    {answer}\nfinally:\n    f()",
    "another answer": "try:\n    {answer}\nexcept:\n    pass\n{more}\n{answer}",
}


@pytest.mark.parametrize("way", ON)
async def test_the_model_looks_again_where_the_program_went_on_after_its_answer_with_an_effect(way: str) -> None:
    code = ON[way].format(answer=f"final_answer({JSON})", more="await send('Rome')")
    async with sandboxed([*TOOLS, send]) as runtime:
        result, model = await play(
            runtime, Calls(("execute_code", {"code": code})), JSON, mode="code", output_type=Weather, one_turn="offer"
        )
    assert (result.turns, result.output, result.answered_by) == (2, ROME, "model")
    assert "the program went on after its answer: it called send. " in told(model.requests[1])[0]


STOPPED = {
    "reads": "try:\n    {answer}\nfinally:\n    await weather('Rome')",
    "what was issued before": "import asyncio\nt = asyncio.create_task(send('Rome'))\nawait asyncio.sleep(0)\n{answer}",
    "a call that nobody awaited": "call = send('Rome')\n{answer}",
    "answers": "try:\n    {answer}\nexcept BaseException:\n    {answer}",
    "a fallback of what was issued before": "call = first('Rome')\n{answer}",
}


@pytest.mark.parametrize("way", STOPPED)
async def test_calls_that_only_read_or_were_issued_before_the_answer_do_not_count_as_going_on(way: str) -> None:
    @tool(fallback="send")
    async def first(what: str) -> str:
        """Fails, after the answer was given."""
        with anyio.fail_after(10):
            await given.wait()
        raise ToolError("no")

    async def note(answer: Weather) -> None:
        given.set()

    given = anyio.Event()
    code = STOPPED[way].format(answer=f"final_answer({JSON})")
    options: Any = {"output_type": Weather, "one_turn": "offer", "answer_checks": [note]}
    async with sandboxed([*TOOLS, send, first]) as runtime:
        result, _ = await play(runtime, Calls(("execute_code", {"code": code})), mode="code", **options)
    assert (result.turns, result.output, result.answered_by) == (1, ROME, "program")


async def test_calls_that_the_program_gave_up_and_fallbacks_end_the_task_all_the_same() -> None:
    @tool(read_only=True)
    async def slow() -> int:
        """Slow."""
        await anyio.sleep(10)
        return 1

    @tool(read_only=True, fallback="weather")
    async def first(city: str) -> Weather:
        """Fails."""
        raise ToolError("no")

    code = "import asyncio\ntry:\n    await asyncio.wait_for(slow(), 0.1)\nexcept TimeoutError:\n    pass\n"
    program = Calls(("execute_code", {"code": code + "final_answer(await first('Rome'))"}))
    async with sandboxed([weather, slow, first]) as runtime:
        result, _ = await play(runtime, program, mode="code", output_type=Weather, one_turn="offer")
    assert (result.turns, result.output) == (1, ROME)
