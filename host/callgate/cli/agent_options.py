"""The options of ``callgate agent``, and what they say together. Imports nothing of the agent but names."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .source import Source
from .words import Stop

if TYPE_CHECKING:
    from callgate.agent.loop.budget import Budget

__all__ = ["Chosen", "agent_options", "chosen_from"]

_Command = TypeVar("_Command", bound=Callable[..., Any])

MODES = ("auto", "direct", "individual", "plan", "declarative", "code")
_TURNS, _SECONDS = 40, 600.0

_OPTIONS = (
    click.option(
        "--model", "-m", metavar="NAME",
        help="claude-..., openai:NAME, anthropic:NAME, ollama:NAME, replay:FILE; any other name is OpenAI's. It may be "
        "left out where --planner FILE.yaml names a gateway.",
    ),
    click.option("--base-url", metavar="URL", help="The model's endpoint, instead of the provider's own."),
    click.option(
        "--mode", type=click.Choice(MODES), default="auto",
        help="How tools are called: by the model one by one (direct, or individual), in plans (plan, or declarative), "
        "in programs (code), or whichever fits. Default auto.",
    ),
    click.option(
        "--planner", metavar="tool|FILE.yaml",
        help="Who plans: `tool` chooses tools, runs them in stages and puts the answer together; FILE.yaml is a "
        "ReActPlanner's configuration.",
    ),
    click.option(
        "--planning-seconds", type=float, metavar="S",
        help="With --planner tool: so long the model has to choose tools; then rules choose. Default 20.",
    ),
    click.option(
        "--tool-choice", metavar="auto|required|none|TOOL",
        help="Whether the model has to call a tool, and which, until it has. Default: OPENAI_TOOL_CHOICE, or auto.",
    ),
    click.option("--system", metavar="TEXT|@FILE", help="The system prompt."),
    click.option("--strategic-plan", metavar="FILE.json", help="The larger plan that the task is a step of."),
    click.option("--max-turns", type=int, default=_TURNS, metavar="N", help=f"Replies of the model. Default {_TURNS}."),
    click.option("--max-tokens", type=int, metavar="N", help="Tokens of all requests and replies. Default: no bound."),
    click.option("--max-cost", type=float, metavar="X", help="US dollars. Default: no bound."),
    click.option(
        "--seconds", type=float, default=_SECONDS, metavar="S", help=f"Seconds for the task. Default {_SECONDS:g}."
    ),
    click.option("--price", metavar="IN,OUT", help="US dollars for a million tokens of input, and of output."),
    click.option(
        "--discovery", type=click.Choice(["filter", "interrupt", "none"]), default="filter",
        help="With many tools: those that a search finds are shown (filter, the default), shown to an agent made anew "
        "(interrupt), or all are shown from the beginning (none).",
    ),
    click.option("--transcript", metavar="FILE", help="Write everything that happens to FILE, a JSON object a line."),
    click.option("--resume", metavar="FILE", help="Go on with the task of a transcript, and write on there."),
    click.option(
        "--statistics", metavar="FILE",
        help="Keep in FILE how long tools take and how often they fail, and what came of the tool planner's choices.",
    ),
    click.option("--record", metavar="FILE", help="Keep the model's replies in FILE, for --model replay:FILE."),
)  # fmt: skip


def agent_options(command: _Command) -> _Command:
    """Add the flags that are the agent's own."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """What was asked for, looked at.

    Attributes:
        task: empty where a transcript is resumed.
        from_stdin: the task came from there, and nobody can answer questions.
        model: None for that of the planner's configuration.
        planner: ``tool``, the configuration's file, or None.
        transcript: where it is written; with `resume` the same file.
        tool_choice: None for that of the environment.
        price: dollars for a million tokens, in and out.
    """

    task: str
    from_stdin: bool
    model: str | None
    base_url: str | None
    mode: str
    planner: str | None
    planning_seconds: float | None
    tool_choice: str | None
    system: str
    strategic_plan: Any
    max_turns: int
    max_tokens: int | None
    max_cost: float | None
    seconds: float
    price: tuple[float, float] | None
    discovery: str
    statistics: str | None
    transcript: Path | None
    resume: Path | None
    record: Path | None

    @property
    def runs_programs(self) -> bool:
        """Whether there may be programs, which need a sandbox."""
        return self.mode in ("code", "auto") and self.planner in (None, "tool")

    def budget(self) -> Budget:
        """What may be spent."""
        from callgate.agent.loop.budget import Budget

        return Budget(turns=self.max_turns, tokens=self.max_tokens, cost=self.max_cost, seconds=self.seconds)


def chosen_from(options: dict[str, Any]) -> Chosen:
    """Take the agent's own out of a command's options. Raises `Stop` for what cannot be."""
    for name in ("max_turns", "max_tokens", "max_cost", "seconds", "planning_seconds"):
        value = options[name]
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise Stop(f"--{name.replace('_', '-')} must be above 0, not {value}", "every budget is a number above 0")
    planner = _planner(options.pop("planner"))
    if options["model"] is None and planner in (None, "tool"):
        raise Stop("there is no model", "name one: --model openai:NAME, anthropic:NAME, ollama:NAME, replay:FILE")
    if options["planning_seconds"] is not None and planner != "tool":
        raise Stop("--planning-seconds is for the tool planner", "add --planner tool, or leave it out")
    if planner not in (None, "tool"):
        _check_beside(planner, options)
    resume = _path(options.pop("resume"))
    task = options.pop("task")
    from_stdin = task == "-"
    if resume is not None:
        if task is not None:
            raise Stop("there are two tasks: the transcript has its own", "leave out the task, or --resume")
        if options["transcript"] is not None:
            raise Stop("--resume writes on in its own file", "leave out --transcript; copy the file to keep it")
        if not resume.is_file():
            raise Stop(f"{resume} cannot be read: there is no such file", "name the file that --transcript wrote")
        task = ""
    elif task is None:
        raise Stop("there is no task", "write it behind `callgate agent`, or '-' to read it from stdin")
    elif from_stdin:
        task = Source.of("-", "task").code
    if resume is None and not task.strip():
        raise Stop("the task is empty", "say what is to be done")
    transcript = _new_file(options, "transcript") or resume
    return Chosen(
        task=task,
        from_stdin=from_stdin,
        planner=planner,
        system=_system(options.pop("system")),
        strategic_plan=_json_of(options.pop("strategic_plan")),
        price=_price(options.pop("price")),
        transcript=transcript,
        resume=resume,
        record=_new_file(options, "record", goes_on=resume is not None),
        **{name: options.pop(name) for name in _AS_THEY_ARE},
    )


def _check_beside(planner: str, options: dict[str, Any]) -> None:
    """Refuse what has no effect beside a planner's configuration."""
    if options["tool_choice"] is not None:
        raise Stop("--tool-choice is not for a planner's file", f"write tool_choice into a gateway of {planner}")
    if options["base_url"] is not None and options["model"] is None:
        raise Stop(
            "--base-url is for --model, and there is none",
            f"name the model, or write base_url into a gateway of {planner}",
        )
    if options["mode"] not in ("auto", "direct", "individual"):
        raise Stop(
            f"a ReActPlanner calls tools one by one, and --mode is {options['mode']}", "leave out --mode, or --planner"
        )
    if options["discovery"] != "filter":
        raise Stop("a ReActPlanner has the tools of its file, and searches none", "leave out --discovery, or --planner")


_AS_THEY_ARE = (
    "model", "base_url", "mode", "max_turns", "max_tokens", "max_cost", "seconds", "planning_seconds", "tool_choice",
    "discovery", "statistics",
)  # fmt: skip


def _path(given: str | None) -> Path | None:
    return None if given is None else Path(given)


def _new_file(options: dict[str, Any], name: str, *, goes_on: bool = False) -> Path | None:
    """A file that is to be written. It is not there yet, unless what is there goes on."""
    path = _path(options.pop(name))
    if path is None:
        return None
    if not path.parent.is_dir():
        raise Stop(
            f"--{name} {path} cannot be written: there is no folder {path.parent}", "make it first, or name another"
        )
    if path.is_dir():
        raise Stop(f"--{name} {path} cannot be written: it is a folder", "name a file")
    if path.exists() and not goes_on:
        tip = f"--resume {path} goes on with it; or name another file" if name == "transcript" else "name another file"
        raise Stop(f"--{name} {path} is there already, and is not replaced", tip)
    return path


def _planner(given: str | None) -> str | None:
    if given is None or given == "tool":
        return given
    if not given.lower().endswith((".yaml", ".yml")):
        raise Stop(f"--planner {given!r} is neither `tool` nor a .yaml file", "write --planner tool, or name a file")
    return given


def _system(given: str | None) -> str:
    if given is None or not given.startswith("@"):
        return given or ""
    return Source.of(given[1:], "system prompt").code


def _json_of(file: str | None) -> Any:
    if file is None:
        return None
    try:
        return json.loads(Source.of(file, "strategic plan").code)
    except (ValueError, RecursionError) as error:
        raise Stop(f"{file} is no JSON: {error}", "a strategic plan is any JSON value") from None


def _price(given: str | None) -> tuple[float, float] | None:
    if given is None:
        return None
    try:
        into, out = (float(part) for part in given.split(","))
    except ValueError:
        into = out = math.nan
    if not (0 <= into < math.inf and 0 <= out < math.inf):
        raise Stop(
            f"--price {given!r} is no pair of numbers",
            "write dollars for a million tokens, in and out: --price 1.25,10",
        )
    return into, out
