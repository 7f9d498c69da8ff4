"""Who takes part: callgate's modes first, then the peers. Data, and nothing that runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from callgate_bench.results import Confined

__all__ = ["MODES", "PEERS", "Listed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """One contestant.

    Attributes:
        name: as `--peers` takes it.
        title: for people.
        mode: what the model hands over.
        about: what runs the model's program or plan, and what confines it.
        confined: the same in a word.
        module: what its process runs, with its name as the argument; without a dot, in `callgate_bench.contestants`.
        requirements: what pip has to install for it; empty where nothing.
        commands: programs that have to be on the machine.
        cannot: why it has no way to do any workload; empty where it has. It keeps its row, and nothing is run.
    """

    name: str
    title: str
    mode: Literal["direct", "plan", "code"]
    about: str
    confined: Confined = "host: nothing is executed"
    module: str = "callgate_modes"
    requirements: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    cannot: str = ""


MODES: tuple[Listed, ...] = (
    Listed(
        name="direct", title="direct calls, one a turn", mode="direct",
        about="the model calls the tools itself; each call is a turn",
    ),
    Listed(
        name="direct-parallel", title="direct calls, in parallel", mode="direct",
        about="the model calls the tools itself; calls that need not wait for each other share a turn",
    ),
    Listed(
        name="plan", title="execute_tool_plan", mode="plan",
        about="callgate's plan engine, on the host; nothing in a plan is code",
    ),
    Listed(
        name="code-jail", title="execute_code, jail", mode="code", confined="kernel",
        about="CPython in a fresh process that the kernel confines",
    ),
    Listed(
        name="code-docker", title="execute_code, docker", mode="code",
        confined="container", commands=("docker",), about="CPython in a fresh hardened container",
    ),
    Listed(
        name="code-fast", title="execute_code, fast path", mode="code",
        about="the program runs as a plan, on the host; none is executed",
    ),
    Listed(
        name="plan-answers", title="execute_tool_plan that answers", mode="plan",
        about="the plan ends the task with an answer of its own; the model looks again only where something failed",
    ),
    Listed(
        name="code-jail-answers", title="execute_code that answers, jail", mode="code", confined="kernel",
        about="the program ends the task with final_answer; the model looks again only where something failed",
    ),
    Listed(
        name="code-fast-answers", title="execute_code that answers, fast path", mode="code",
        about="the same, where the program runs as a plan, on the host",
    ),
)  # fmt: skip

PEERS: tuple[Listed, ...] = (
    Listed(
        name="monty", title="Monty", mode="code", confined="language", module="monty",
        requirements=("pydantic-monty>=1.0",),
        about="pydantic-monty: its own interpreter of a subset of Python, written in Rust, in a process of its own",
    ),
    Listed(
        name="pydantic-ai", title="pydantic-ai CodeMode", mode="code", confined="language", module="pydantic_ai_mode",
        requirements=("pydantic-ai-harness[code-mode]>=0.62",),
        about="an agent of pydantic-ai with the capability CodeMode; programs run in Monty",
    ),
    Listed(
        name="fastmcp", title="FastMCP code mode", mode="code", confined="language", module="fastmcp_mode",
        requirements=("fastmcp[code-mode]>=4.1",),
        about="an MCP server with the transform CodeMode, its client in the same process; programs run in Monty",
    ),
    Listed(
        name="smolagents", title="smolagents CodeAgent", mode="code", confined="none", module="smolagents_agent",
        requirements=("smolagents>=1.26",),
        about="smolagents' default executor walks the program's tree in the agent's own process, one tool call at a "
        "time; it is not a sandbox, as smolagents says itself",
    ),
    Listed(
        name="langgraph", title="LangGraph", mode="plan", confined="none", module="langgraph_graph",
        requirements=("langgraph>=1.0",),
        about="the plan, built into a graph with a node for every step; it runs in supersteps, and nothing confines it",
    ),
    Listed(
        name="dbos", title="DBOS on SQLite", mode="code", confined="none", module="dbos_workflow",
        requirements=("dbos>=3.4",),
        about="workflows whose steps are committed to SQLite; durable runs are measured beside it",
        cannot="it makes a developer's functions durable, and takes no program or plan from a model",
    ),
    Listed(
        name="bubblewrap", title="bubblewrap and Python", mode="code", confined="kernel", module="",
        about="a bare Python in namespaces of its own",
        cannot="it starts a process and has no tools: a program can use what it was started with, and print",
    ),
    Listed(
        name="docker", title="docker run", mode="code", confined="container", module="",
        about="a bare Python in a fresh container",
        cannot="it starts a container and has no tools: a program can use what it was started with, and print",
    ),
)  # fmt: skip
