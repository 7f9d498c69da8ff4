"""Never executed: a type checker reads it. What an operator writes must be well typed, and be of these types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_type

from callgate import (
    Allow,
    Answer,
    AnswerCheck,
    AnswerType,
    ApprovalRequest,
    Artifact,
    CallEnded,
    CallProgressed,
    CallRecord,
    CallStarted,
    CodeResult,
    Compilation,
    Conversation,
    Deny,
    Described,
    Displayed,
    Event,
    Finding,
    Found,
    Limits,
    NotAGraph,
    PlanFault,
    PlanResult,
    Printed,
    Registry,
    Retry,
    RunError,
    Runtime,
    RunUsage,
    SearchResult,
    Session,
    Source,
    StepEnded,
    StepResult,
    StepStarted,
    SyncConversation,
    SyncRuntime,
    SyncSession,
    Tool,
    ToolError,
    report_progress,
    tool,
)


@tool
async def plain(city: str) -> dict[str, int]:
    raise ToolError("no such city", data={"city": city}, retryable=True)


@tool(read_only=True, timeout_seconds=5, retry=Retry(attempts=2), cache_seconds=60)
def with_options(n: int = 1) -> int:
    return n


def undecorated(n: int) -> int:
    report_progress(1, total=2, message="half")
    return n


def not_negative(answer: int) -> None:
    if answer < 0:
        raise ValueError("it is at least 0")


CHECKS: list[AnswerCheck] = [not_negative]
assert_type(AnswerType(int, CHECKS).schema, dict[str, Any])


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0] for _ in texts]


async def embed_elsewhere(texts: Sequence[str]) -> list[tuple[float, ...]]:
    return [(1.0, 2.0) for _ in texts]


Runtime([plain], embed=embed)
assert_type(Runtime([plain], embed=embed_elsewhere).search_tools(["rain", "mail"], limit=3), SearchResult)


async def approve(request: ApprovalRequest) -> Allow | Deny:
    assert_type(request.tool, Tool)
    return Allow() if request.caller == "direct" else Deny("no")


def on_event(event: Event) -> None:
    if isinstance(event, Printed):
        assert_type(event.text, str)
    elif isinstance(event, CallStarted | CallEnded):
        assert_type(event.record, CallRecord)
    elif isinstance(event, Displayed):
        assert_type(event.artifact, Artifact)
    elif isinstance(event, CallProgressed):
        assert_type(event.progress, float)
    elif isinstance(event, StepStarted):
        assert_type(event.id, str)
    else:
        assert_type(event, StepEnded)
        assert_type(event.step, StepResult)


async def load(query: str) -> list[Tool]:
    return [plain]


def served(source: Source) -> Runtime:
    return Runtime(sources=[source])


async def use() -> None:
    assert_type(plain, Tool)
    assert_type(with_options, Tool)
    async with Runtime(
        [plain, with_options, undecorated], sandbox="auto", limits=Limits(wall_seconds=60), approve=approve
    ) as runtime:
        assert_type(runtime, Runtime)
        assert_type(runtime.registry, Registry)
        run = await runtime.execute_code("1", inputs={"x": 1}, tools=["plain"], on_event=on_event)
        assert_type(run, CodeResult)
        assert_type(run.ok, bool)
        assert_type(run.error, RunError | None)
        assert_type(run.calls, list[CallRecord])
        assert_type(run.speculative, list[CallRecord])
        assert_type(run.plan, dict[str, Any] | None)
        assert_type(run.usage, RunUsage)
        assert_type(run.for_model(), str)
        assert_type(run.to_dict(), dict[str, Any])
        async with runtime.session(limits=Limits()) as session:
            assert_type(session, Session)
            assert_type(await session.execute_code("1"), CodeResult)
        async with runtime.stream_code(iter(["1"])) as written:
            assert_type(written.result, CodeResult | None)
        async with runtime.stream_code("1") as stream:
            async for event in stream:
                on_event(event)
            assert_type(stream.result, CodeResult | None)
        assert_type(runtime.check("1"), list[Finding])
        compiled = runtime.compile("1", inputs={"x": 1}, tools=["plain"])
        assert_type(compiled, Compilation)
        assert_type(compiled.plan, dict[str, Any] | None)
        assert_type(compiled.reasons, list[NotAGraph])
        assert_type(compiled.step_lines, dict[str, int])
        assert_type(compiled.explain("mermaid"), str)
        assert_type(await runtime.execute_code("1", path="plan"), CodeResult)
        result = await runtime.execute_tool_plan({"steps": []}, tools=["plain"], on_event=on_event)
        assert_type(result, PlanResult)
        assert_type(result.outputs, dict[str, Any])
        assert_type(result.steps, list[StepResult])
        assert_type(result.explain("mermaid"), str)
        assert_type(await runtime.stream_plan(iter(["{}"])), PlanResult)
        assert_type(runtime.check_plan("{}"), list[PlanFault])
        assert_type(runtime.explain_plan("{}", "json"), str)
        assert_type(await runtime.handle("execute_code", {"code": "1"}), str)
        assert_type(runtime.tool_definitions("anthropic", direct="all", strict=True), list[dict[str, Any]])
        assert_type(runtime.tool_choice("openai", "required", parallel=False), dict[str, Any])
        assert_type(runtime.instructions(meta=["execute_code"]), str)
        assert_type(runtime.stubs(detail="signatures", names=["plain"]), str)
        answer = await runtime.answer("plain", '{"city": "Oslo"}', caller="code", tools=["plain"], on_event=on_event)
        assert_type(answer, Answer)
        assert_type(answer.text, str)
        assert_type(answer.ok, bool)
        assert_type(answer.found, tuple[str, ...])
        assert_type(answer.result, CodeResult | PlanResult | SearchResult | Described | None)
        assert_type(answer.structured(), dict[str, Any] | None)
        assert_type(runtime.tool_result("openai-responses", answer, "call_1"), dict[str, Any])
        found = runtime.search_tools("weather", limit=3)
        assert_type(found, SearchResult)
        assert_type(found.found, tuple[Found, ...])
        assert_type(runtime.describe_tools(["plain"]), Described)
        assert_type(runtime.find_by_capability("weather"), tuple[Tool, ...])
        async with runtime.conversation(loader=load, session=True, direct=["plain"]) as conversation:
            assert_type(conversation, Conversation)
            assert_type(await conversation.answer("search_tools", {"query": "x"}), Answer)
            assert_type(conversation.tool_definitions("mcp"), list[dict[str, Any]])
            assert_type(conversation.state(), dict[str, Any])
            assert_type(conversation.found, tuple[str, ...])


def use_without_await() -> None:
    with SyncRuntime(
        [plain, with_options, undecorated], sandbox="auto", limits=Limits(wall_seconds=60), approve=approve
    ) as runtime:
        assert_type(runtime, SyncRuntime)
        assert_type(runtime.runtime, Runtime)
        assert_type(runtime.registry, Registry)
        assert_type(runtime.execute_code("1", inputs={"x": 1}, tools=["plain"], on_event=on_event), CodeResult)
        with runtime.session(limits=Limits()) as session:
            assert_type(session, SyncSession)
            assert_type(session.alive, bool)
            assert_type(session.execute_code("1"), CodeResult)
            assert_type(runtime.answer("execute_code", {"code": "1"}, session=session), Answer)
        with runtime.stream_code("1") as stream:
            for event in stream:
                on_event(event)
            assert_type(stream.result, CodeResult | None)
        for event in runtime.stream_code("1"):
            on_event(event)
        assert_type(runtime.check("1"), list[Finding])
        assert_type(runtime.compile("1"), Compilation)
        assert_type(runtime.execute_tool_plan({"steps": []}, tools=["plain"], on_event=on_event), PlanResult)
        assert_type(runtime.stream_plan(iter(["{}"])), PlanResult)
        assert_type(runtime.check_plan("{}"), list[PlanFault])
        assert_type(runtime.explain_plan("{}", "json"), str)
        assert_type(runtime.handle("execute_code", {"code": "1"}), str)
        assert_type(runtime.tool_definitions("anthropic", direct="all", strict=True), list[dict[str, Any]])
        assert_type(runtime.tool_choice("openai", "required", parallel=False), dict[str, Any])
        assert_type(runtime.search_tools("weather", limit=3), SearchResult)
        assert_type(runtime.describe_tools(["plain"]), Described)
        with runtime.conversation(loader=load, session=True, direct=["plain"]) as conversation:
            assert_type(conversation, SyncConversation)
            assert_type(conversation.runtime, SyncRuntime)
            assert_type(conversation.answer("search_tools", {"query": "x"}, session=session), Answer)
            assert_type(conversation.tool_definitions("mcp"), list[dict[str, Any]])
            assert_type(conversation.state(), dict[str, Any])
            assert_type(conversation.found, tuple[str, ...])
    opened = SyncRuntime().open()
    assert_type(opened, SyncRuntime)
    opened.close()
    runtime.execute_code("1", limit=Limits())  # type: ignore[call-arg]
    SyncRuntime(tool=[plain])  # type: ignore[call-arg]
