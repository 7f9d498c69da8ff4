"""Who takes part: callgate's modes first, then the peers. Data, and nothing that runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from callgate.bench.results import Confined

__all__ = ["MODES", "PEERS", "Listed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """One contestant.

    Attributes:
        name: as `--peers` takes it.
        title: for people.
        mode: what the model hands over.
        module: what its process runs; without a dot, within `callgate.bench.contestants`.
        arguments: for that process.
        about: what runs the model's program or plan, and what confines it.
        confined: the same in a word.
        requirements: what pip has to install for it; empty where nothing.
        commands: programs that have to be on the machine.
        cannot: why it has no way to do any workload; empty where it has. It keeps its row, and nothing is run.
    """

    name: str
    title: str
    mode: Literal["direct", "plan", "code"]
    module: str
    about: str
    arguments: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    cannot: str = ""
    confined: Confined = ""


def _mode(
    name: str, title: str, mode: Literal["direct", "plan", "code"], about: str,
    confined: Confined = "host: nothing is executed",
) -> Listed:  # fmt: skip
    return Listed(
        name=name, title=title, mode=mode, module="callgate_modes", about=about, confined=confined, arguments=(name,),
        commands=("docker",) if name == "code-docker" else (),
    )  # fmt: skip


MODES: tuple[Listed, ...] = (
    _mode("direct", "direct calls, one a turn", "direct", "the model calls the tools itself; each call is a turn"),
    _mode(
        "direct-parallel", "direct calls, in parallel", "direct",
        "the model calls the tools itself; calls that need not wait for each other share a turn",
    ),
    _mode("plan", "execute_tool_plan", "plan", "callgate's plan engine, on the host; nothing in a plan is code"),
    _mode("code-jail", "execute_code, jail", "code", "CPython in a fresh process that the kernel confines", "kernel"),
    _mode("code-docker", "execute_code, docker", "code", "CPython in a fresh hardened container", "container"),
    _mode("code-fast", "execute_code, fast path", "code", "the program runs as a plan, on the host; none is executed"),
)  # fmt: skip

PEERS: tuple[Listed, ...] = (
    Listed(
        name="monty",
        title="Monty",
        mode="code",
        confined="language",
        module="monty_code",
        requirements=("pydantic-monty>=1.0",),
        about="pydantic-monty: its own interpreter of a subset of Python, written in Rust, in a process of its own",
    ),
    Listed(
        name="pydantic-ai",
        title="pydantic-ai CodeMode",
        mode="code",
        confined="language",
        module="pydantic_ai_code",
        requirements=("pydantic-ai-harness[code-mode]>=0.62",),
        about="an agent of pydantic-ai with the capability CodeMode; programs run in Monty",
    ),
    Listed(
        name="fastmcp",
        title="FastMCP code mode",
        mode="code",
        confined="language",
        module="fastmcp_code",
        requirements=("fastmcp[code-mode]>=4.1",),
        about="an MCP server with the transform CodeMode, its client in the same process; programs run in Monty",
    ),
    Listed(
        name="smolagents",
        title="smolagents CodeAgent",
        mode="code",
        confined="none",
        module="smolagents_code",
        requirements=("smolagents>=1.26",),
        about=(
            "smolagents' default executor walks the program's tree in the agent's own process, one tool call at a "
            "time; it is no sandbox, as smolagents says itself"
        ),
    ),
    Listed(
        name="utcp",
        title="UTCP code mode",
        mode="code",
        confined="language",
        module="utcp_code",
        requirements=("code-mode>=1.1", "utcp>=1.1.2,<1.2"),  # with utcp 1.2, code-mode 1.1.0 cannot be instantiated
        about="code-mode, as published: RestrictedPython in a thread of the agent's own process; tool calls block",
    ),
    Listed(
        name="utcp-guarded",
        title="UTCP code mode, guards added",
        mode="code",
        confined="language",
        module="utcp_code",
        arguments=("guarded",),
        requirements=("code-mode>=1.1", "utcp>=1.1.2,<1.2"),
        about=(
            "the same, with the guards of RestrictedPython that loops and a['b'] need, and the package lacks; "
            "added by the harness"
        ),
    ),
    Listed(
        name="langgraph",
        title="LangGraph",
        mode="plan",
        confined="none",
        module="langgraph_plan",
        requirements=("langgraph>=1.0",),
        about=(
            "the plan, built into a graph: a node for every step, `Send` for `for_each`; it runs in supersteps, and "
            "nothing confines it"
        ),
    ),
    Listed(
        name="llmcompiler",
        title="LLMCompiler's scheduler",
        mode="plan",
        confined="host: nothing is executed",
        module="llmcompiler_plan",
        requirements=("llmcompiler>=2.0",),
        about=(
            "the task fetching unit of llmcompiler on PyPI, in threads; it is not by the authors of the paper, who "
            "publish no package"
        ),
    ),
    Listed(
        name="llm-sandbox",
        title="llm-sandbox",
        mode="code",
        confined="container",
        module="",
        about="runs a program in a container of its own, or in one that is kept",
        cannot=(
            "it runs programs and has no tools: its callbacks stream what a program prints, and none lets a program "
            "call a function of the host and wait for the answer (0.3.46)"
        ),
    ),
    Listed(
        name="bubblewrap",
        title="bubblewrap and Python",
        mode="code",
        confined="kernel",
        module="",
        about="a bare Python in namespaces of its own",
        cannot="it starts a process and has no tools: a program can use what it was started with, and print",
    ),
    Listed(
        name="docker",
        title="docker run",
        mode="code",
        confined="container",
        module="",
        about="a bare Python in a fresh container",
        cannot="it starts a container and has no tools: a program can use what it was started with, and print",
    ),
)
