"""Questions about the rules of Python, answered by plans: search, synthesis and validation tools over its reference.

A question is taken apart, tools are chosen for its parts, the plan runs side by side where it can, the model puts the
results into words with their sources, and a tool holds these words against the sections that they cite. The corpus is
the language reference of the Python that runs this, see [rules/](rules/__init__.py); retrieval is by `bm25s`.

It needs `pip install -e '.[agent]' bm25s` in a clone. The model is played. With `--model NAME` a real one answers
(`openai:NAME`, `anthropic:NAME`, `ollama:NAME`), and what it makes of the questions is printed instead of asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from callgate import ModelUnavailable, Runtime
from callgate.agent import (
    Decomposer,
    ExecutionContext,
    PlannedAnswer,
    PlannedAnswerer,
    PlannerSettings,
    ScriptedModel,
    ToolOrchestrator,
    ToolPlanner,
    ToolResult,
    ToolStep,
    model_named,
)
from callgate.agent.models.model import Model, Request, User
from needs import needs

with needs("agent", "bm25s"):
    from rules import search
    from rules.questions import QUESTIONS
    from rules.tools import TOOLS

SIMPLE = "What happens to the name bound by 'as' when an except clause ends?"
COMPARISON = "What is the difference between break and continue?"
MULTI_HOP = "Can a return in a finally clause discard an exception?"
AWAY = "Is a saved exception raised again after a finally clause?"
INSTRUCTIONS = "Quote the rule that decides, and keep to one or two sentences."

# what the played model says


def parts(kind: str, *texts: str) -> str:
    """It takes a question apart."""
    listed = [{"text": text, "kind": "lookup", "confidence": 0.9, "dependsOn": []} for text in texts]
    return json.dumps({"queryType": kind, "confidence": 0.9, "subQueries": listed})


def chain(reasoning: str, *choices: tuple[str, str, Mapping[str, Any]]) -> str:
    """It chooses tools."""
    listed = [
        {"subQuery": part, "tool": tool, "parameters": parameters, "confidence": 0.9}
        for part, tool, parameters in choices
    ]
    return json.dumps({"reasoning": reasoning, "toolChain": listed})


def saying(words: str, *topics: str) -> Any:
    """It answers, with the numbers under which it was told of the sections of these topics."""

    def turn(request: Request) -> str:
        last = request.messages[-1]
        assert isinstance(last, User)
        numbers = [re.findall(rf"^\[([0-9]+)\] .*, {topic}/", last.text, re.MULTILINE)[0] for topic in topics]
        return f"{words} [{', '.join(numbers)}]"

    return turn


BREAK, CONTINUE = "What does break do?", "What does continue do?"
CLAIM = "If the finally clause executes a return statement, the saved exception is discarded."
PLAYED = [
    # a simple question: one tool
    parts("simple", SIMPLE),
    chain("exact terms", (SIMPLE, "keyword_search", {"query": "except clause assigned target cleared"})),
    saying("When an exception has been assigned using as target, it is cleared at the end of the except clause", "try"),
    # a comparison: two searches side by side, then both are put together
    parts("comparison", BREAK, CONTINUE),
    chain(
        "one search for each statement, then the rules of both",
        (BREAK, "hybrid_search", {"query": "break statement terminates loop", "limit": 1}),
        (CONTINUE, "hybrid_search", {"query": "continue statement next cycle of loop", "limit": 1}),
        (
            CONTINUE,
            "collect_rules",
            {"question": "break continue loop", "passages": ["$ref:c0.results[0]", "$ref:c1.results[0]"]},
        ),
    ),
    saying("break terminates the nearest enclosing loop; continue continues with its next cycle", "break", "continue"),
    # several hops: search, read the section that was found, hold a claim against it
    parts("multi-hop", MULTI_HOP),
    chain(
        "find the clause, read it, and check what I believe of it",
        (MULTI_HOP, "hybrid_search", {"query": MULTI_HOP}),
        (MULTI_HOP, "get_section", {"section": "$ref:c0.results[0].section"}),
        (MULTI_HOP, "validate_answer", {"claims": [CLAIM], "sections": ["$ref:c1.section"]}),
    ),
    saying(f"Yes. {CLAIM}", "try"),
    # the first question again: plan and result are there, only the words are asked for
    saying("When an exception has been assigned using as target, it is cleared at the end of the except clause", "try"),
    # a question while the model is away for a moment: rules choose the tools, and the words are its own again
    ModelUnavailable("too many requests", status=429),
    saying("The saved exception is re-raised at the end of the finally clause", "try"),
]

# what happens


async def checked(orchestrator: ToolOrchestrator, answer: PlannedAnswer, words: str) -> ToolResult:
    """The words held against the sections that the answer cites: a step of its own, in the context of the plan."""
    assert answer.plan is not None
    assert answer.execution is not None
    assert answer.synthesis is not None
    cited = [answer.synthesis.sources[number - 1].location for number in answer.synthesis.cited]
    claims = [each for each in re.split(r"(?<=[.;])\s+", re.sub(r"\s*\[[0-9, ]+\]\.?", "", words)) if " " in each]
    known = {each.step_id: each for each in answer.execution.results}
    step = ToolStep(id="check", tool="validate_answer", parameters={"claims": claims, "sections": cited})
    return await orchestrator.execute_step(step, ExecutionContext(plan_id=answer.plan.id, previous_results=known))


def told(question: str, answer: PlannedAnswer, check: ToolResult) -> None:
    plan, execution, synthesis = answer.plan, answer.execution, answer.synthesis
    assert plan is not None
    assert execution is not None
    assert synthesis is not None
    stages = " -> ".join(" + ".join(step.tool for step in plan.steps if step.id in stage) for stage in plan.stages)
    cited = ", ".join(synthesis.sources[number - 1].location for number in synthesis.cited)
    calls = len(execution.plan_result.calls) if execution.plan_result else 0
    print(f"Q: {question}\n   {stages} ({plan.source}, {calls} calls)\nA: {answer.answer}")
    supported = check.data["valid"] if check.success else check.error
    print(f"   confidence {synthesis.confidence:.2f}; cites {cited or 'nothing'}; supported: {supported}\n")


def tools_of(answer: PlannedAnswer) -> list[list[str]]:
    """Names of the plan's tools, by stage."""
    assert answer.plan is not None
    names = {step.id: step.tool for step in answer.plan.steps}
    return [[names[id] for id in stage] for stage in answer.plan.stages]


async def online(model: Model, orchestrator: ToolOrchestrator, answerer: PlannedAnswerer) -> None:
    for question in (SIMPLE, COMPARISON, MULTI_HOP):
        answer = await answerer.answer(question)
        if answer.synthesis is None:
            print(f"Q: {question}\n   no answer: {answer.reason}\n")
        else:
            told(question, answer, await checked(orchestrator, answer, answer.answer))


async def played(model: ScriptedModel, orchestrator: ToolOrchestrator, answerer: PlannedAnswerer) -> None:
    simple = await answerer.answer(SIMPLE)
    comparison = await answerer.answer(COMPARISON)
    hops = await answerer.answer(MULTI_HOP)
    for question, answer in ((SIMPLE, simple), (COMPARISON, comparison), (MULTI_HOP, hops)):
        check = await checked(orchestrator, answer, answer.answer)
        told(question, answer, check)
        assert answer.ok, answer.reason
        assert check.data["valid"], check.data

    assert tools_of(simple) == [["keyword_search"]]
    assert tools_of(comparison) == [["hybrid_search", "hybrid_search"], ["collect_rules"]]
    assert tools_of(hops) == [["hybrid_search"], ["get_section"], ["validate_answer"]]
    assert hops.execution is not None
    assert hops.execution.results[2].data["valid"]

    made_up = "A return in a finally clause is ignored, and the interpreter prints a traceback to the log file."
    refused = await checked(orchestrator, hops, made_up)
    print(f"made up: {made_up}\n   missing from the sections: {', '.join(refused.data['claims'][0]['missing'])}\n")
    assert not refused.data["valid"]

    again = await answerer.answer(SIMPLE)
    told(SIMPLE, again, await checked(orchestrator, again, again.answer))
    assert again.plan is not None
    assert again.execution is not None
    assert again.plan.source == "cache"  # no model was asked
    assert all(each.cached for each in again.execution.results)  # and no tool was called
    assert again.answer == simple.answer

    away = await answerer.answer(AWAY)
    assert away.ok
    assert away.plan is not None
    assert away.plan.source == "fallback"
    told(AWAY, away, await checked(orchestrator, away, away.answer))
    assert len(model.requests) == len(PLAYED)


def retrieval() -> None:
    """How often the topic that answers is among the first three sections; the questions were written by hand."""
    for name, found in (("keyword", search.keyword), ("hybrid", search.hybrid)):
        right = sum(
            any(section.id.startswith(f"{topic}/") for section, _ in found(question, 3))
            for question, topic in QUESTIONS.items()
        )
        print(f"{name} search: {right} of {len(QUESTIONS)} questions have their topic among the first three sections")
        assert right >= len(QUESTIONS) - 2


async def main(name: str | None) -> None:
    settings = PlannerSettings.from_environment()
    script = ScriptedModel(PLAYED)
    model: Model = model_named(name) if name else script
    if name:
        settings = replace(settings, planning_seconds=60.0)
    async with Runtime(TOOLS, sandbox=None) as runtime:
        orchestrator = ToolOrchestrator(runtime, settings=settings)
        planner = ToolPlanner(runtime, model, decomposer=Decomposer(model), settings=settings)
        answerer = PlannedAnswerer(planner, orchestrator, model, instructions=INSTRUCTIONS)
        if name:
            await online(model, orchestrator, answerer)
        else:
            await played(script, orchestrator, answerer)
    await model.aclose()
    retrieval()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "--model", help="openai:NAME, anthropic:NAME or ollama:NAME; without it, the model is played"
    )
    asyncio.run(main(arguments.parse_args().model))
