"""``callgate agent``: a task, solved by a model that calls tools, with its work live."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import warnings
from typing import TYPE_CHECKING, Any

import click

from callgate import ConfigurationError, Runtime, SandboxError, SandboxUnavailable, event_loop
from callgate.sandbox.unsafe import UnsandboxedWarning

from .agent_options import Chosen, agent_options, chosen_from
from .agent_report import raised, report
from .ending import only_end
from .live import data_only, log_to_stderr
from .live_view import ApproverBelow
from .load import load_tools
from .mcp_option import Ask, ask_option, mcp_option, servers_from, with_servers
from .options import limit_options, limits_from, policy_option, sandbox_from, sandbox_options, tools_option
from .words import INTERRUPTED, NO_SANDBOX, Stop, say, tame

if TYPE_CHECKING:
    from callgate.agent.events import AgentEvent
    from callgate.agent.loop.result import AgentResult

    from .agent_live import AgentScreen

__all__ = ["command"]

_FORGOTTEN = ("task", "resume", "transcript")
"""Options that a resumption has no use for, or has otherwise."""


@click.command("agent", short_help="Solve a task with a model that calls tools.")
@click.argument("task", required=False)
@agent_options
@tools_option
@mcp_option
@ask_option
@click.option("-y", "--yes", is_flag=True, help="Approve every call of a tool that asks for approval.")
@click.option("-v", "--verbose", is_flag=True, help="Tell everything on stderr, a line each, instead of the live view.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as one JSON object on stdout.")
@sandbox_options
@policy_option
@limit_options
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    """Solve TASK, or - for stdin: a model calls the tools by itself, in plans or in programs, until it answers.

    The answer goes to stdout, its work to stderr. The model's key comes from the environment: OPENAI_API_KEY or
    ANTHROPIC_API_KEY. Limits below hold for each program and each plan; --max-turns and its like for the task.

    Exit codes: 0 answered, 1 not answered, 2 usage (the model's name and its key, too), 3 no sandbox works here, 4 the
    budget is spent, 130 interrupted.
    """
    limits = limits_from(options)
    chosen = chosen_from(options)
    sandbox = sandbox_from(options)
    ask = Ask(options["ask"], yes=options["yes"])
    log_to_stderr(options["verbose"])
    with data_only() as data:
        tools = ask.of(load_tools(options["tool_files"]))
        servers = servers_from(options["mcp_file"], ask)
        runtime_options = {
            "tools": tools,
            "limits": limits,
            "statistics": chosen.statistics,
            "policy": options.pop("policy"),
            **(sandbox if chosen.runs_programs else {"sandbox": None}),
        }
        work = _Work(chosen, runtime_options, servers, ask, options)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnsandboxedWarning)
                result = event_loop.run(work.run)
        except KeyboardInterrupt:
            only_end()
            turns = work.turns
            say(f"interrupted in turn {turns}" if turns else "interrupted", "bold red")
            _say_again(_again(context, chosen))
            status = INTERRUPTED
        except ConfigurationError as error:
            raise Stop(str(error), _tip(chosen)) from None
        except SandboxError as error:
            tip = "`callgate doctor` says what works on this machine and what to do; --mode plan needs none"
            raise Stop(str(error), tip, NO_SANDBOX) from None
        else:
            if work.lost:  # the answer is wanted all the same
                sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (for as long as the process lives)
            with contextlib.redirect_stdout(data):
                status = report(result, chosen, work.model_calls, as_json=options["as_json"])
            if not work.went_on:
                say(f"this task had ended before, as {result.outcome}; nothing was done", "dim")
            if result.outcome == "budget":
                _say_again(_again(context, chosen, raised(result, chosen)))
            elif result.outcome in ("unavailable", "rejected"):
                _say_again(_again(context, chosen))
    return status


class _Work:
    """One task, from the model to the result."""

    def __init__(
        self, chosen: Chosen, runtime_options: dict[str, Any], servers: Any, ask: Ask, options: dict[str, Any]
    ) -> None:
        self._chosen = chosen
        self._runtime_options = runtime_options
        self._servers = servers
        self._ask = ask
        self._options = options
        self._screen: AgentScreen | None = None
        self.went_on = False
        """Something happened, and not all of it before, where a transcript is resumed."""

    @property
    def turns(self) -> int:
        """Of the model, so far."""
        return 0 if self._screen is None else self._screen.under_way.turn

    @property
    def model_calls(self) -> int:
        """Replies of the model, a planner's included."""
        return 0 if self._screen is None else self._screen.lines.model_calls

    @property
    def lost(self) -> bool:
        """Nobody reads stderr any more."""
        return self._screen is not None and self._screen.lost

    async def run(self) -> AgentResult:
        """Solve it. Raises `ConfigurationError`, `SandboxError`."""
        from .agent_live import AgentScreen

        options = self._options
        screen = self._screen = AgentScreen(
            lines=not options["as_json"] or options["verbose"],
            verbose=options["verbose"],
            budget=self._chosen.budget(),
            asked_mode=self._chosen.mode,
        )
        terminal = sys.stdin.isatty() and not self._chosen.from_stdin
        approver = ApproverBelow(everything=options["yes"], terminal=terminal, screen=screen)
        runtime = Runtime(**self._runtime_options, approve=approver, pool_size=0)
        if self._runtime_options["sandbox"] == "unsafe":
            say("WARNING sandbox 'unsafe': nothing confines programs, they may do whatever you may do", "bold yellow")

        async def solve() -> AgentResult:
            try:
                return await self._solve(runtime, screen)
            except SandboxUnavailable as error:
                if self._chosen.mode != "auto" or self._runtime_options["sandbox"] != "auto":
                    raise
                say(f"WARNING programs are not offered, since no sandbox works here: {error}", "yellow")
            without = Runtime(**(self._runtime_options | {"sandbox": None}), approve=approver)
            return await self._solve(without, screen)

        return await with_servers(self._servers, runtime.registry, solve, ask=self._ask, warnings=options["verbose"])

    async def _solve(self, runtime: Runtime, screen: AgentScreen) -> AgentResult:
        from callgate.agent.loop.transcript import read_transcript

        from .agent_make import solve

        def tell(event: AgentEvent) -> None:
            self.went_on = True
            screen.tell(event)

        if self._chosen.resume is not None:
            screen.remember(line.event for line in read_transcript(self._chosen.resume))
        async with runtime:
            return await screen.during(lambda: solve(self._chosen, runtime, tell))


def _tip(chosen: Chosen) -> str:
    shows = "callgate agent --help shows what each option takes"
    if chosen.max_cost is not None and chosen.price is None:
        return f"--max-cost needs the model's price, --price IN,OUT says it; {shows}"
    return shows


# going on later


def _again(context: click.Context, chosen: Chosen, raised: tuple[str, ...] = ()) -> str:
    """The command line that goes on, with a bound of the budget `raised`; empty where there is no transcript."""
    if chosen.transcript is None:
        return ""
    words = [*context.command_path.split(), "--resume", str(chosen.transcript)]
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in _FORGOTTEN or context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        flag = max(parameter.opts, key=len)
        if flag in raised:
            continue
        for each in value if isinstance(value, (tuple, list)) else [value]:
            words += [flag] if each is True else [flag, _written(each)]
    return shlex.join([*words, *raised])


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _say_again(again: str) -> None:
    if again:
        print(tame(f"to go on: {again}"), file=sys.stderr, flush=True)
    else:
        say("nothing of it was kept; with --transcript FILE it can be resumed", "dim")
