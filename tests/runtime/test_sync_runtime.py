"""`SyncRuntime`: everything that a `Runtime` does, without ``await``, in whatever thread, beside whatever loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_type_hints

import anyio
import anyio.to_thread
import pytest
import trio

import callgate
from callgate import (
    Answer,
    ApprovalRequest,
    CallStarted,
    CodeResult,
    ConfigurationError,
    Conversation,
    Event,
    Limits,
    PlanApprovalRequest,
    Printed,
    Runtime,
    SandboxError,
    Session,
    SyncConversation,
    SyncRuntime,
    SyncSession,
    Tool,
    tool,
)
from callgate.runtime.answers import CallOptions
from callgate.runtime.sync.options import SyncCallOptions

SECONDS = 30
TENANT = contextvars.ContextVar("TENANT", default="nobody")


@tool(read_only=True)
def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


@tool(read_only=True)
async def tripled(x: int) -> int:
    """Three times as much, in the event loop."""
    await asyncio.sleep(0)
    return 3 * x


@tool(read_only=True)
def tenant() -> str:
    """Who asks."""
    return TENANT.get()


@tool
async def hang() -> None:
    """Never end."""
    await asyncio.Event().wait()


@pytest.fixture(scope="module")
def runtime() -> Iterator[SyncRuntime]:
    with SyncRuntime([double, tripled, tenant, hang], pool_size=2) as entered:
        yield entered


def value(result: CodeResult) -> Any:
    assert result.ok, result.error
    return result.value


# the same as a Runtime

ONLY_ASYNC = {"gate", "open_in", "redactor"}
"""What is for the inside of callgate, and for event loops."""
WITH_SESSION = {"answer", "handle", "stream_code"}
"""Methods that are written out: they take or give something sync."""
PAIRS: list[tuple[type, type]] = [(Runtime, SyncRuntime), (Session, SyncSession), (Conversation, SyncConversation)]


def public(kind: type) -> set[str]:
    names = {name for name in dir(kind) if not name.startswith("_")}
    if kind is Runtime:
        names |= {name for name in vars(Runtime(sandbox=None)) if not name.startswith("_")}
    if kind is Conversation:
        names |= {name for name in vars(Runtime(sandbox=None).conversation()) if not name.startswith("_")}
    return names


@pytest.mark.parametrize(("kind", "sync"), PAIRS)
def test_whatever_the_async_one_has_the_sync_one_has_too(kind: type, sync: type) -> None:
    there = {*dir(sync), *(vars(SyncRuntime(sandbox=None)) if sync is SyncRuntime else ()), "runtime"}
    missing = public(kind) - there - ONLY_ASYNC
    assert not missing, f"give {sync.__name__} these as well: name = waiting({kind.__name__}.name), or plain(...)"


@pytest.mark.parametrize(("kind", "sync"), PAIRS)
def test_every_method_takes_the_same_arguments_and_none_is_a_coroutine(kind: type, sync: type) -> None:
    for name in public(kind) & public(sync):
        method, waits = getattr(kind, name, None), getattr(sync, name, None)
        if not inspect.isfunction(method) or not inspect.isfunction(waits):
            continue
        assert not inspect.iscoroutinefunction(waits)
        if name not in WITH_SESSION:
            assert inspect.signature(waits).parameters == inspect.signature(method).parameters, name
        assert "async with" not in (waits.__doc__ or "")
        assert waits.__doc__, name


def test_what_is_written_out_takes_the_same_arguments_too() -> None:
    assert inspect.signature(SyncRuntime) == inspect.signature(Runtime)
    answers = inspect.signature(SyncRuntime.answer), inspect.signature(Runtime.answer)
    assert [*answers[0].parameters] == [*answers[1].parameters]
    assert SyncCallOptions.__annotations__.keys() == CallOptions.__annotations__.keys()
    assert SyncCallOptions.__optional_keys__ == CallOptions.__optional_keys__


# programs, plans, sessions


def test_programs_call_sync_tools_in_threads_and_async_tools_in_the_loop(runtime: SyncRuntime) -> None:
    assert value(runtime.execute_code("import sys\nawait double(2) + await tripled(x)", inputs={"x": 3})) == 13
    assert value(runtime.execute_code("await double(2) + await tripled(3)")) == 13, "on the fast path, too"


def test_a_failure_is_a_result_and_a_mistake_of_the_operator_is_raised_with_its_place(runtime: SyncRuntime) -> None:
    error = runtime.execute_code("1 / 0").error
    assert error is not None
    assert error.kind == "ZeroDivisionError"
    with pytest.raises(ConfigurationError, match="inputs must be JSON values") as raised:
        runtime.execute_code("1", inputs={"x": object()})
    files = [frame.filename for frame in traceback.extract_tb(raised.tb)]
    assert files[0] == __file__
    assert files[-1].endswith("callgate/runtime/run.py")


def test_a_tool_sees_the_context_variables_of_the_thread_that_runs_the_program(runtime: SyncRuntime) -> None:
    token = TENANT.set("ours")
    try:
        assert value(runtime.execute_code("import sys\nawait tenant()")) == "ours"
    finally:
        TENANT.reset(token)
    assert value(runtime.execute_code("import sys\nawait tenant()")) == "nobody"


def test_a_session_keeps_variables_until_its_block_is_left(runtime: SyncRuntime) -> None:
    session = runtime.session(limits=Limits(wall_seconds=SECONDS))
    with pytest.raises(ConfigurationError, match="enter the session first"):
        session.execute_code("1")
    with session:
        assert session.execute_code("x = 4").ok
        assert value(session.execute_code("x + 1")) == 5
        assert [session.alive] == [True]
        with pytest.raises(ConfigurationError, match="entered already"):
            session.__enter__()
    assert [session.alive] == [False]
    with pytest.raises(SandboxError, match="its block was left"):
        session.execute_code("x")


def test_a_plan_runs_and_is_checked_explained_and_estimated(runtime: SyncRuntime) -> None:
    plan = {"steps": [{"id": "a", "tool": "double", "arguments": {"x": 4}}], "output_steps": ["a"]}
    assert runtime.execute_tool_plan(plan).outputs == {"a": 8}
    assert runtime.stream_plan(iter([json.dumps(plan)])).outputs == {"a": 8}
    assert runtime.check_plan({"steps": [{"id": "a", "tool": "nix"}]})
    assert "double" in runtime.explain_plan(plan)
    assert runtime.estimate(plan).calls


def test_what_needs_no_open_runtime_needs_none() -> None:
    closed = SyncRuntime([double], sandbox=None)
    assert closed.check("dobule(1)")[0].code == "unknown-name"
    assert closed.tool_definitions("anthropic") == Runtime([double], sandbox=None).tool_definitions("anthropic")
    assert [found.tool.name for found in closed.search_tools("twice").found] == ["double"]
    assert "def double" in closed.stubs()
    assert closed.compile("await double(1)").plan


# models


def test_a_model_is_answered_in_a_session_and_in_a_conversation(runtime: SyncRuntime) -> None:
    with runtime.session() as session:
        assert runtime.answer("execute_code", {"code": "y = 7"}, session=session).ok
        assert runtime.handle("execute_code", {"code": "y"}, session=session) == "Value: 7"
    with pytest.raises(ConfigurationError, match="enter the session first"):
        runtime.answer("execute_code", {"code": "1"}, session=runtime.session())

    async def load(query: str) -> list[Tool]:
        return [double]

    with runtime.conversation(session=True, loader=load, direct=[]) as conversation:
        assert conversation.runtime is runtime
        assert conversation.answer("search_tools", {"query": "twice"}).tools_changed
        assert conversation.found == ("double",)
        assert conversation.handle("double", {"x": 2}) == "4"
        assert conversation.answer("execute_code", {"code": "z = 1"}).ok
        assert conversation.handle("execute_code", {"code": "z"}) == "Value: 1"
        state = conversation.state()
    plain = runtime.conversation(state=state, direct=[])
    assert plain.found == ("double",), "without loader and session it need not be entered"
    answer = plain.answer("double", {"x": 2})
    assert isinstance(answer, Answer)
    assert plain.tool_result("anthropic", answer, "1")["content"] == "4"


# streams


def test_events_come_while_the_program_runs_and_then_there_is_the_result(runtime: SyncRuntime) -> None:
    gate: queue.SimpleQueue[int] = queue.SimpleQueue()

    @tool
    def wait() -> int:
        """Wait for the listener."""
        return gate.get(timeout=SECONDS)

    with (
        SyncRuntime([wait], pool_size=1) as own,
        own.stream_code("print('a')\nx = await wait()\nprint(x)\nx") as stream,
    ):
        seen = []
        for event in stream:
            seen.append(event)
            if isinstance(event, CallStarted):
                gate.put(9)
    assert [event.text for event in seen if isinstance(event, Printed)] == ["a\n", "9\n"]
    assert stream.result is not None
    assert stream.result.value == 9
    assert [*stream] == []


ENDLESS = "import itertools\nfor number in itertools.count(): print(number, await double(number))"


def test_leaving_a_loop_over_events_early_cancels_the_run(runtime: SyncRuntime) -> None:
    for event in runtime.stream_code(ENDLESS):
        assert isinstance(event, Event)
        break
    with runtime.stream_code(ENDLESS) as stream:
        for _ in stream:
            break
    assert stream.result is None
    with pytest.raises(ConfigurationError, match="has begun already"):
        stream.__enter__()
    with runtime.session() as session:
        assert value(session.execute_code("1")) == 1


@pytest.mark.parametrize("reads", [True, False])
def test_a_stream_raises_the_mistakes_of_the_operator(runtime: SyncRuntime, reads: bool) -> None:
    with pytest.raises(ConfigurationError, match="the tool 'nix', which does not exist"):  # noqa: PT012, SIM117
        with runtime.stream_code("1", tools=["nix"]) as stream:
            while not reads and stream._call is not None and not stream._call.outcome.done():
                pass
            for _ in stream if reads else ():
                raise AssertionError("there is no event")


# threads and loops


def test_several_threads_use_one_runtime_at_once(runtime: SyncRuntime) -> None:
    together = threading.Barrier(6)

    @tool
    def meet() -> int:
        """Wait for the others."""
        return together.wait(SECONDS)

    with SyncRuntime([meet]) as own, ThreadPoolExecutor(6) as threads:
        runs = [threads.submit(own.execute_code, "import sys\nawait meet()") for _ in range(6)]
        assert sorted(value(run.result(SECONDS)) for run in runs) == [*range(6)]


@pytest.mark.parametrize("run", [asyncio.run, trio.run])
def test_it_works_inside_a_running_event_loop_as_in_a_notebook(run: Callable[..., Any]) -> None:
    async def cell() -> tuple[int, int]:
        with SyncRuntime([tripled], pool_size=1) as own, own.session() as session:
            return value(own.execute_code("await tripled(1)")), value(session.execute_code("await tripled(2)"))

    assert run(cell) == (3, 6) if run is trio.run else run(cell()) == (3, 6)


def test_in_a_notebook_it_is_opened_in_one_cell_and_closed_in_another() -> None:
    own = SyncRuntime(pool_size=0).open()
    assert value(own.execute_code("1 + 1")) == 2
    own.close()
    own.close()
    with pytest.raises(ConfigurationError, match="left already"):
        own.execute_code("1")


def test_a_sync_tool_may_run_a_program_of_the_same_runtime_and_an_async_one_is_told_why_not() -> None:
    told: list[str] = []

    @tool
    def outer() -> int:
        """Run another program."""
        return int(value(own.execute_code("await double(21)")))

    @tool
    async def stuck() -> str:
        """Try it in the loop."""
        for wait in (lambda: own.execute_code("1"), own.close):
            try:
                wait()
            except ConfigurationError as error:
                told.append(str(error))
        return "not stuck"

    def listener(event: Event) -> None:
        told.append(own.check("nix")[0].code)  # does not wait

    with SyncRuntime([outer, stuck, double], pool_size=1) as own:
        assert value(own.execute_code("import sys\nawait outer()")) == 42
        assert value(own.execute_code("print(await stuck())", on_event=listener)) is None
    assert [each[:39] for each in told].count("this would wait for itself: async tools") == 2
    assert "unknown-name" in told


def test_approvals_are_asked_in_a_worker_thread_one_at_a_time_and_so_may_read_from_a_person() -> None:
    asking, most, where = 0, 0, set()

    def approve(request: ApprovalRequest) -> bool:
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        where.add(threading.current_thread().name)
        threading.Event().wait(0.05)
        asking -= 1
        return bool(request.arguments["x"] != 2)

    async def approve_plan(request: PlanApprovalRequest) -> bool:
        where.add(threading.current_thread().name)
        return True

    @tool(requires_approval=True)
    def delete(x: int) -> int:
        """Delete something."""
        return x

    with SyncRuntime([delete], approve=approve, approve_plan=approve_plan, pool_size=1) as own:
        run = own.execute_code(
            "import asyncio\nawait asyncio.gather(*(delete(x) for x in (1, 2, 3)), return_exceptions=True)"
        )
        assert [call.status for call in run.calls].count("succeeded") == 2
        assert own.execute_tool_plan({"steps": [{"id": "a", "tool": "delete", "arguments": {"x": 1}}]}).ok
    assert most == 1
    assert "callgate" in where, "what is async is asked in the loop"
    assert len(where) > 1


# entering and leaving


def test_it_may_be_entered_again_and_says_when_it_is_not_open() -> None:
    own, before = SyncRuntime([double], pool_size=1), {*threading.enumerate()}
    with pytest.raises(ConfigurationError, match=r"enter the runtime first: with SyncRuntime\(...\) as runtime"):
        own.execute_code("1")
    for _ in range(2):
        with own:
            assert value(own.execute_code("import sys\nawait double(1)")) == 2
            with pytest.raises(ConfigurationError, match="entered already"):
                own.open()
    with pytest.raises(ConfigurationError, match="this runtime was left already; enter it again"):
        own.execute_code("1")
    assert not [each for each in {*threading.enumerate()} - before if each.name == "callgate"]


def test_a_runtime_that_cannot_be_entered_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(ConfigurationError, match="No module named 'nope_mod'"):
        SyncRuntime(preimport=["nope_mod"]).open()
    until = time.monotonic() + 10  # a worker of the loop ends a moment after it
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() <= before


@pytest.mark.parametrize("plan", [True, False])
def test_leaving_it_ends_what_other_threads_still_run_and_tells_them(plan: bool) -> None:
    begun = threading.Event()

    @tool
    def begin() -> None:
        """Say so."""
        begun.set()

    def run() -> object:
        if plan:
            steps = [{"id": "a", "tool": "begin"}, {"id": "b", "tool": "hang"}]
            return own.execute_tool_plan({"steps": steps})
        return own.execute_code("await begin()\nwhile True: pass")

    with ThreadPoolExecutor(1) as threads:
        with SyncRuntime([begin, hang], pool_size=1) as own:
            running = threads.submit(run)
            assert begun.wait(SECONDS)
        with pytest.raises(ConfigurationError, match="this runtime was left before the call had ended"):
            running.result(SECONDS)


UVLOOP = """
import uvloop
from callgate import SyncRuntime, tool

uvloop.install()

@tool
async def loop() -> str:
    "Where it runs."
    import asyncio
    return type(asyncio.get_running_loop()).__module__

with SyncRuntime([loop]) as runtime:
    print(runtime.execute_code("import sys\\nawait loop()").value)
"""


def test_leaving_it_ends_all_calls_together() -> None:
    began, ended, alone = threading.Barrier(3), [anyio.Event(), anyio.Event()], []

    @tool
    async def slow(number: int) -> None:
        """Ends when the other call has been cancelled, too."""
        try:
            await anyio.to_thread.run_sync(began.wait)
            await anyio.sleep_forever()
        finally:
            ended[number].set()
            with anyio.CancelScope(shield=True), anyio.move_on_after(SECONDS / 3) as scope:
                await ended[1 - number].wait()
            alone.append(scope.cancelled_caught)

    with ThreadPoolExecutor(2) as threads:
        with SyncRuntime([slow], sandbox=None) as own:
            calls = [threads.submit(own.answer, "slow", {"number": number}) for number in (0, 1)]
            began.wait(SECONDS)
        assert [type(call.exception(SECONDS)) for call in calls] == [ConfigurationError] * 2
    assert alone == [False, False]


def test_uvloop_is_its_event_loop_where_it_is_installed_as_such() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", UVLOOP], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert done.stdout == "uvloop\n"


def test_the_names_are_exported() -> None:
    assert {"SyncRuntime", "SyncSession", "SyncConversation"} <= {*callgate.__all__}
    assert get_type_hints(SyncRuntime.limits.fget)["return"] is Limits  # type: ignore[attr-defined]
