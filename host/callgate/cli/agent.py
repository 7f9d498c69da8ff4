"""``callgate agent``: a model solves a task by calling tools; its work is shown in lines on stderr."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callgate import ConfigurationError, SandboxUnavailable, event_loop
from callgate.cut import cut

from .commands import only_end
from .offer import Offer
from .options import Sandbox, Source, file_to_write, given_flags, limit_options, option, options, shared
from .pages import save_page
from .screen import Approver, Screen
from .words import Exit, Stop, data_only, emit, emit_json, explain, log_to_stderr, say

if TYPE_CHECKING:
    from callgate.agent.events import AgentEvent
    from callgate.agent.loop.result import AgentResult

    from .agent_lines import AgentLines

__all__ = ["command", "exit_code"]

_MOST_WORDS = 2_000


def _new_file(context: click.Context, parameter: click.Parameter, given: str | None) -> Path | None:
    """A file to write. It must not exist yet, except the recording of a resumed task."""
    if given is None:
        return None
    path, name = file_to_write(given), f"--{parameter.name}"
    if path.exists() and not (name == "--record" and context.params["resume"]):
        tip = (
            f"--resume {path} goes on with it; or name another file" if name == "--transcript" else "name another file"
        )
        raise Stop(f"{name} {path} is there already, and is not replaced", tip)
    return path


def _system(given: str | None) -> str:
    return Source.of(given[1:], "system prompt").code if given and given.startswith("@") else given or ""


def _strategic_plan(file: str | None) -> Any:
    if file is None:
        return None
    try:
        return json.loads(Source.of(file, "strategic plan").code)
    except (ValueError, RecursionError) as error:
        raise Stop(f"{file} is not JSON: {error}", "a strategic plan is any JSON value") from None


def _price(given: str | None) -> tuple[float, float] | None:
    if given is None:
        return None
    try:
        into, out = (float(part) for part in given.split(","))
    except ValueError:
        into = out = math.nan
    if not (0 <= into < math.inf and 0 <= out < math.inf):
        tip = "write dollars for a million tokens, in and out: --price 1.25,10"
        raise Stop(f"--price {given!r} is not a pair of numbers", tip)
    return into, out


class Agent:
    """Options that only the agent has."""

    model = option("--model", "-m", metavar="NAME")
    """claude-..., openai:NAME, anthropic:NAME, ollama:NAME, replay:FILE; any other name is OpenAI's. May be left out if
    --planner FILE.yaml names a gateway."""
    base_url = option(metavar="URL")
    """The model's endpoint, instead of the provider's own."""
    mode = option(type=click.Choice(["auto", "direct", "individual", "plan", "declarative", "code"]), default="auto")
    """How tools are called: by the model one by one (direct, or individual), in plans (plan, or declarative), in
    programs (code), or as the model chooses (auto). Default auto."""
    planner = option(metavar="tool|FILE.yaml")
    """Who plans: `tool` chooses tools, runs them in stages and puts the answer together; FILE.yaml is a ReActPlanner's
    configuration."""
    planning_seconds = option(type=float, metavar="S")
    """With --planner tool: seconds for the model to choose tools; then rules choose. Default 20."""
    tool_choice = option(metavar="auto|required|none|TOOL")
    """Whether the model must call a tool, and which, until it has called one. Default: OPENAI_TOOL_CHOICE, or auto."""
    system = option(metavar="TEXT|@FILE")
    """The system prompt."""
    strategic_plan = option(metavar="FILE.json")
    """The larger plan that the task is a step of."""
    max_turns = option(type=int, default=40, metavar="N")
    """Most replies of the model. Default 40."""
    max_tokens = option(type=int, metavar="N")
    """Most tokens of all requests and replies. Default: no bound."""
    max_cost = option(type=float, metavar="X")
    """Most US dollars. Default: no bound."""
    seconds = option(type=float, default=600.0, metavar="S")
    """Seconds for the task. Default 600."""
    price = option(metavar="IN,OUT")
    """US dollars for a million tokens of input, and of output."""
    discovery = option(type=click.Choice(["filter", "interrupt", "none"]), default="filter")
    """With many tools: show the tools that a search finds (filter, the default), show them to an agent made anew
    (interrupt), or show all from the beginning (none)."""
    transcript = option(metavar="FILE", callback=_new_file)
    """Write all events to FILE, a JSON object a line."""
    resume = option(metavar="FILE", is_eager=True)
    """Go on with the task of a transcript, and append to it."""
    record = option(metavar="FILE", callback=_new_file)
    """Keep the model's replies in FILE, for --model replay:FILE."""


@click.command("agent")
@click.argument("task", required=False)
@options(Agent)
@shared("statistics", "audit", "trace", "tools", "mcp", "ask", "yes", "verbose", "json", "policy")
@options(Sandbox)
@limit_options()
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    """Solve TASK, or - for stdin: a model calls the tools by itself, in plans or in programs, until it answers.

    The answer goes to stdout, its work to stderr. The model's key comes from the environment: OPENAI_API_KEY or
    ANTHROPIC_API_KEY. Limits below hold for each program and each plan; --max-turns and its like for the task.

    Exit codes: 0 answered, 1 not answered, 2 usage (the model's name and its key, too), 3 no sandbox works here, 4 the
    budget is spent, 130 interrupted.
    """
    _check(options)
    source = _task(options)
    read = {"system": _system, "strategic_plan": _strategic_plan, "price": _price}
    options |= {name: reading(options[name]) for name, reading in read.items()}
    log_to_stderr(options["verbose"])
    with data_only():
        work = _Work(source, Offer(options), options)
        try:
            result = event_loop.run(work.run)
        except KeyboardInterrupt:
            only_end()
            say(f"interrupted in turn {work.turn}" if work.turn else "interrupted", "bold red")
            _say_again(context)
            return Exit.INTERRUPTED
        except ConfigurationError as error:
            if options["max_cost"] is None or options["price"] is not None:
                raise
            tip = "where the model's price is not known, --max-cost needs --price IN,OUT"
            raise Stop(str(error), f"callgate agent --help shows what each option takes; {tip}") from None
    status = _report(result, options)
    if not work.went_on:
        say(f"this task had ended before, as {result.outcome}; nothing was done", "dim")
    if result.outcome == "budget":
        _say_again(context, _raised(result, options))
    elif result.outcome in ("unavailable", "rejected"):
        _say_again(context)
    return status


def _check(options: dict[str, Any]) -> None:
    """Refuse options that do not go together. Raises `Stop`."""
    planner, model, mode = options["planner"], options["model"], options["mode"]
    if planner not in (None, "tool") and not planner.lower().endswith((".yaml", ".yml")):
        raise Stop(f"--planner {planner!r} is neither `tool` nor a .yaml file", "write --planner tool, or name a file")
    if model is None and planner in (None, "tool"):
        raise Stop("there is no model", "name one: --model openai:NAME, anthropic:NAME, ollama:NAME, replay:FILE")
    if options["planning_seconds"] is not None and planner != "tool":
        raise Stop("--planning-seconds is for the tool planner", "add --planner tool, or leave it out")
    if planner in (None, "tool"):
        return
    gateway = f"into a gateway of {planner}"
    if options["tool_choice"] is not None:
        raise Stop("--tool-choice is not for a planner's file", f"write tool_choice {gateway}")
    if options["base_url"] is not None and model is None:
        raise Stop("--base-url is for --model, and there is none", f"name the model, or write base_url {gateway}")
    if mode not in ("auto", "direct", "individual"):
        raise Stop(f"a ReActPlanner calls tools one by one, and --mode is {mode}", "leave out --mode, or --planner")
    if options["discovery"] != "filter":
        raise Stop("a ReActPlanner has the tools of its file, and searches none", "leave out --discovery, or --planner")


def _task(options: dict[str, Any]) -> Source:
    """The task; empty if a transcript has it. Raises `Stop`."""
    task = options["task"]
    if options["resume"] is not None:
        options["resume"] = resume = Path(options["resume"])
        if task is not None:
            raise Stop("there are two tasks: the transcript has its own", "leave out the task, or --resume")
        if options["transcript"] is not None:
            raise Stop("--resume writes on in its own file", "leave out --transcript; copy the file to keep it")
        if not resume.is_file():
            raise Stop(f"{resume} cannot be read: there is no such file", "name the file that --transcript wrote")
        return Source("", "")
    if task is None:
        raise Stop("there is no task", "write it behind `callgate agent`, or '-' to read it from stdin")
    source = Source.of("-", "task") if task == "-" else Source("", task)
    if not source.code.strip():
        raise Stop("the task is empty", "say what is to be done")
    return source


class _Work:
    """One task, from the options to the result."""

    def __init__(self, source: Source, offer: Offer, options: dict[str, Any]) -> None:
        self._source = source
        self._offer = offer
        self._options = options
        self._lines: AgentLines | None = None
        self.went_on = False
        """Whether anything happened; not so if a resumed task had ended before."""

    @property
    def turn(self) -> int:
        """The model's current turn; 0 before the first."""
        return 0 if self._lines is None else self._lines.turn

    async def run(self) -> AgentResult:
        """Solve the task. Raises `ConfigurationError`, `SandboxError`."""
        options, mode = self._options, self._options["mode"]
        screen = Screen(lines=not options["json"] or options["verbose"])
        more: dict[str, Any] = {"approve": Approver(screen, yes=options["yes"], person=self._source.person)}
        if mode not in ("auto", "code") or options["planner"] not in (None, "tool"):
            more["sandbox"] = None  # this agent runs no programs
        try:
            return await self._solve(screen, more | {"pool_size": 0})
        except SandboxUnavailable as error:
            if mode != "auto" or options["sandbox"] != "auto":
                raise
            say(f"WARNING programs are not offered, since no sandbox works here: {error}", "yellow")
        return await self._solve(screen, more | {"sandbox": None})

    async def _solve(self, screen: Screen, more: dict[str, Any]) -> AgentResult:
        from callgate.agent.loop.redacted import RedactedEvents

        from .agent_lines import AgentLines, finished
        from .agent_make import solve

        options = self._options
        lines = self._lines = AgentLines(verbose=options["verbose"], asked_mode=options["mode"])

        def tell(event: AgentEvent) -> None:
            self.went_on = True
            screen.add(*lines.of(redacted.of(event)))

        async def solved() -> AgentResult:
            result = await solve(self._source.code, options, runtime, tell)
            if self.went_on:
                screen.add(finished(replace(result, reason=redacted.words(result.reason)), lines.fault))
            return result

        async with self._offer.opened(self._offer.runtime(**more), warnings=options["verbose"]) as runtime:
            redacted = RedactedEvents(runtime)
            return await screen.during(solved)


# the result

_STATUS = {"answered": Exit.OK, "budget": Exit.LIMIT, "rejected": Exit.USAGE}
"""Exit codes by outcome; any other outcome is a task without an answer."""
_WORDS = {
    "refused": ("the model refused", "say the task in other words, or name another model"),
    "empty": (
        "the model said nothing, again and again", "name another model; small ones do better with --mode direct",
    ),
    "cut": (
        "the model's replies were cut at its limit of tokens, again and again",
        "ask for less in one answer, or name another model",
    ),
    "stuck": (
        "the model went round in circles",
        "--verbose shows every call and every result; a tool's error should say what to do instead",
    ),
    "budget": ("the budget is spent", "raise it with {raise}, or ask for less"),
    "unavailable": ("the model's endpoint gives no answer", "try again later; --base-url names another endpoint"),
    "rejected": (
        "the model's endpoint will not take the request", "look at --model, at --base-url, and at the key in {key}",
    ),
    "too_long": (
        "the conversation is longer than the model takes",
        "offer fewer tools, let programs and plans keep results out of the conversation, or name another model",
    ),
    "rejected by replay": (
        "the recording does not fit",
        "give the task, the mode, the system prompt and the tools of the recording; --record FILE makes another",
    ),
    "unavailable by ollama": (
        "the model's endpoint gives no answer", "start it: ollama serve; --base-url names another endpoint",
    ),
}  # fmt: skip
"""By outcome: the texts of ERROR and TIP."""


def exit_code(outcome: str) -> int:
    """The exit code for a task with this outcome."""
    return _STATUS.get(outcome, Exit.FAILED)


def _report(result: AgentResult, options: dict[str, Any]) -> int:
    """Show the answer, or why there is none, and return the exit code. Raises `OutputLost`."""
    if options["json"]:
        emit_json(_whole(result))
    elif result.ok:
        emit(result.answer)
    written = save_page(result, options)
    if result.ok:
        return Exit.OK if written else Exit.FAILED
    if result.answer and not options["json"]:
        say("the unfinished answer:", "dim")
        say(cut(result.answer, _MOST_WORDS))
    model = options["model"] or ""
    outcome = result.outcome
    headline, tip = _WORDS.get(f"{outcome} by {model.partition(':')[0]}") or _WORDS.get(outcome, (outcome, ""))
    if result.reason.startswith(headline):
        headline = result.reason
    elif result.reason:
        headline = f"{headline}: {result.reason}"
    key = "ANTHROPIC_API_KEY" if model.startswith(("anthropic:", "claude")) else "OPENAI_API_KEY"
    explain(headline, tip.format_map({"raise": " ".join(_raised(result, options)), "key": key}))
    return exit_code(outcome)


def _raised(result: AgentResult, options: dict[str, Any]) -> tuple[str, str]:
    """The bound of the budget to raise, and its new value: twice what was allowed or spent."""
    tokens = result.usage.input_tokens + result.usage.output_tokens
    turns, most_tokens, most_cost = options["max_turns"], options["max_tokens"], options["max_cost"]
    if result.turns >= turns:
        return "--max-turns", f"{turns * 2}"
    if most_tokens is not None and tokens >= most_tokens * 0.9:
        return "--max-tokens", f"{max(most_tokens, tokens) * 2}"
    if most_cost is not None and result.cost is not None and result.cost >= most_cost * 0.9:
        return "--max-cost", f"{max(most_cost, result.cost) * 2:g}"
    return "--seconds", f"{max(options['seconds'], result.seconds) * 2:.10g}"


_WHOLE = ("ok", "outcome", "answer", "reason", "turns", "model_calls", "tool_calls", "cost", "seconds", "transcript")


def _whole(result: AgentResult) -> dict[str, Any]:
    """The result as JSON values; the conversation is in the transcript."""
    return {
        **{name: getattr(result, name) for name in _WHOLE},
        "usage": asdict(result.usage),
        "routes": [asdict(route) for route in result.routes],
        **{name: [*getattr(result, name)] for name in ("sources", "found", "runs")},
        "artifacts": [each.to_json() for each in result.artifacts],
    }


# going on later


def _say_again(context: click.Context, raised: tuple[str, ...] = ()) -> None:
    """Print the command line that goes on with the task, with the bound of the budget that was `raised`."""
    transcript = context.params["transcript"] or context.params["resume"]
    if transcript is None:
        say("the task was not kept; with --transcript FILE it can be resumed", "dim")
        return
    without = ("resume", "transcript", *(each.removeprefix("--").replace("-", "_") for each in raised[:1]))
    words = [*context.command_path.split(), "--resume", str(transcript), *given_flags(context, without), *raised]
    say(f"to go on: {shlex.join(words)}")
