"""The texts about meta-tools that a model reads: when to use which of them, and when not. Pure.

Rules for the texts:

1. Each has at most 1,024 characters: OpenAI's Chat Completions refuse more.
2. The same tools and limits give the same bytes, so that a prompt cache survives.
3. A text names no meta-tool that the model does not have, no call that it cannot make, and no feature that programs do
   not have here.
4. Each has one example, with a real tool if one is simple enough.
5. Texts name only limits that a model can keep to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from callgate.limits import Limits
from callgate.runtime.result import MODEL_CHARACTERS

from .meta import MetaTool
from .samples import Chain, Sample

__all__ = ["MAX_TEXT", "Language", "Situation", "instructions", "text_of"]

MAX_TEXT = 1_024
"""Most characters of one description."""


Language = Literal["full", "restricted", "graphs"]
"""The language of programs: Python, Python with a language policy, or graphs of tool calls."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """What a model has, for the texts."""

    meta: Collection[str]
    """The model's meta-tools."""
    directly: bool
    """Whether the model can call some tools itself."""
    grows: bool
    """Whether tools that the model finds are added to its list."""
    session: bool
    """Whether programs see each other's variables."""
    listed: bool
    """Whether a description has the signatures of all tools for programs (for plans, without programs)."""
    shown: bool
    """Whether a search finds nothing new: every tool is listed like that, or has a definition of its own."""
    language: Language
    python: str
    """Version of the Python that runs programs, ``3.11``; empty if not known yet."""
    limits: Limits
    sample: Sample | None
    """For the example of a program."""
    plan_sample: Chain | None
    """For the example of a plan."""
    files: bool = False
    """Whether programs may have files: given ones in ``/input``, and those that they leave in ``/output``."""
    packages: tuple[str, ...] = ()
    """Names and versions of what programs can import besides the standard library; those to name first stand first."""
    answer: str = ""
    """``final_answer(value: Report)`` and the types in it, if a program or a plan may answer the task."""
    plan_as_text: bool = False
    """Whether a plan is one argument, which is JSON text."""

    def has(self, name: MetaTool) -> bool:
        """Whether the model has this meta-tool."""
        return name in self.meta

    @property
    def calls_itself(self) -> bool:
        """Whether the model has, or may get, tools that it calls without a program or a plan."""
        return self.directly or self.grows


def text_of(name: MetaTool, here: Situation) -> str:
    """The description of a meta-tool."""
    texts: dict[MetaTool, Callable[[Situation], str]] = {
        "search_tools": _search, "describe_tools": _describe, "execute_code": _code, "execute_tool_plan": _plan,
        "read_artifact": _read, "start_code": _start, "wait_run": _wait, "stop_run": _stop,
    }  # fmt: skip
    text = texts[name](here)
    if name == "execute_code" and here.language == "full":
        rules, example, program = text.rpartition(_EXAMPLE)
        text = f"{rules}{_installed(here.packages, MAX_TEXT - len(text))}{example}{program}"
    return text


def instructions(here: Situation) -> str:
    """How to choose among the tools: a few lines for the system prompt."""
    search, plan, code = here.has("search_tools"), here.has("execute_tool_plan"), here.has("execute_code")
    advice = [
        (
            search and not here.shown,
            "You are not shown every tool there is. Search with search_tools before you say that something cannot be "
            "done; search for what a tool does, not for the answer.",
        ),
        (
            here.calls_itself,
            f"One or two quick calls, or a call whose whole result you have to read: {_itself(here)}.",
        ),
        (plan, "Several calls that are known beforehand, with results passed on as they are: one execute_tool_plan."),
        (
            code,
            "Three or more calls, or loops, conditions, filters, sums: one program with execute_code. Its results stay "
            "out of this conversation; print only what you need.",
        ),
        (here.has("describe_tools"), "Do not guess what a tool takes or returns: describe_tools tells it."),
        (
            True,
            "An answer that says that something failed, or was not run, says why. Change that, then call again; do not "
            "repeat calls that succeeded.",
        ),
    ]
    return "\n- ".join(["How to use tools here:", *(line for holds, line in advice if holds)])


def _itself(here: Situation) -> str:
    """How to call a tool without a program or a plan."""
    return "call the tool itself" if here.directly else "find the tool, then call it itself"


def _search(here: Situation) -> str:
    program = "in your next" if here.language == "graphs" else "at once in a"
    ways = [
        (here.grows, "called like any other tool from your next turn on"),
        (here.has("execute_code"), f"called {program} program (execute_code)"),
        (here.has("execute_tool_plan"), "made steps of a plan (execute_tool_plan)"),
    ]
    then = ", or ".join(way for holds, way in ways if holds)
    when = (
        "There are more tools than you are shown: search before you say that something cannot be done, and before you "
        "guess a name."
    )
    if here.shown:
        listed_in = "execute_code" if here.has("execute_code") else "execute_tool_plan"
        listed = f"listed in {listed_in}" if here.listed else "in your list of tools"
        when = f"Every tool is {listed}: search only where that list does not help you."
    return (
        f"Find tools by what they do. {when}{f' What it finds can be {then}.' if then else ''}\n"
        "Write what the tool should do in two to five words, not the question that you want answered; for several "
        "steps, a list with one for each.\nAnswers with names, signatures and a line each, best first."
        f"{' What they leave open: describe_tools.' if here.has('describe_tools') else ''}\n"
        'Example: {"query": "create calendar event"}; as a pattern: {"query": "issue|ticket", "regex": true}'
    )


def _describe(here: Situation) -> str:
    name = here.sample.tool.name if here.sample is not None else _NO_NAME
    found = ", as search_tools gives them" if here.has("search_tools") else ""
    return (
        "Everything there is to know of some tools: each parameter with its type and meaning, what comes back, "
        "limitations, examples.\n"
        f"Give all the names at once{found}. Use it when a signature leaves open what to write or what comes back; not "
        "for tools whose parameters are plain.\n"
        f"Example: {json.dumps({'names': [name]}, ensure_ascii=False)}"
    )


_EXAMPLE = "Example:\n"
_PLAN_ANSWERS = '- answer ("CPU is ${ID.load}%", "$ref:ID") ends the task.\n'
_ANSWERS = "- {stub} ends the program and the task: call it once you have the answer.\n"
_MOST_PACKAGES = 20
_NO_NAME = "NAME_OF_TOOL"
_CAUGHT = "raises ToolError (no import); catch it to go on"
_LANGUAGES: dict[Language, tuple[str, str]] = {
    "full": ("{python}'s standard library; no network. display(x) shows a table or plot{files}.", _CAUGHT),
    "restricted": ("Part of {python}'s standard library; no dunder attributes.", _CAUGHT),
    "graphs": (
        "Calls, gather, for, if, sums, f-strings, json; no while, try, def, other imports.",
        "ends the program",
    ),
}
"""The features of programs, and the effect of a failed call."""


def _code(here: Situation) -> str:
    there, failed = _LANGUAGES[here.language]
    files = "; files: read /input, write /output" if here.files else ""
    there = there.format(python=f"Python {here.python}".strip(), files=files)
    instead = f" For one or two quick calls, {_itself(here)}." if here.calls_itself else ""
    if here.has("execute_tool_plan"):
        instead += " Fixed calls without logic: execute_tool_plan."
    kept = "Variables stay for the next program" if here.session else "Each program starts afresh"
    calls = f", {here.limits.max_tool_calls} calls" if here.limits.max_tool_calls <= 1_000 else ""
    unseen = ""
    if here.has("search_tools") and not here.listed:
        # a graph names its tools, so only the next program can call a tool that a search found
        first = "before you write the program" if here.language == "graphs" else _SEARCH_INSIDE
        unseen = f"- For tools not shown: search_tools, {first}.\n"
    return (
        "Run Python that calls tools. Only its prints and its last expression's value come back. Use it for three "
        f"or more calls, loops, filters and sums over results, and results too long to read.{instead}\n"
        "- Tools are async functions: await each call. asyncio.gather runs calls in parallel.\n"
        f"- Results are JSON values: r['id'] or r.id. A failed call {failed}.\n"
        f"- print() what you need: output beyond {MODEL_CHARACTERS // 2:,} characters is cut.\n"
        f"- {there} {kept}. At most {here.limits.wall_seconds:g} s{calls}.\n"
        f"{unseen}{_ANSWERS.format(stub=here.answer) if here.answer else ''}{_EXAMPLE}{_program(here.sample)}"
    )


def _installed(packages: tuple[str, ...], room: int) -> str:
    """A line that names packages: as many as there is room for."""
    for count in range(min(len(packages), _MOST_PACKAGES), 0, -1):
        more = f", {len(packages) - count} more" if count < len(packages) else ""
        line = f"- Installed: {', '.join(packages[:count])}{more}.\n"
        if len(line) <= room:
            return line
    return ""


_SEARCH_INSIDE = "also inside: await search_tools('what it does')"


def _program(sample: Sample | None) -> str:
    call, values, then = f"{_NO_NAME}(k)", ["a", "b"], "sum(len(r) for r in found)"
    if sample is not None:
        call, values = f"{sample.python}({sample.argument}=k)", list(sample.values)
        then = f"[{'str(r)[:80]' if sample.field is None else f'r.{sample.field}'} for r in found]"
    return f"import asyncio\nfound = await asyncio.gather(*({call} for k in {values!r}))\nprint({then})"


def _plan(here: Situation) -> str:
    code = " Logic in between: execute_code." if here.has("execute_code") else ""
    direct = f" One call: {_itself(here)}." if here.calls_itself else ""
    return (
        "Run a JSON plan of tool calls, in parallel: each begins once its inputs are there. "
        f"For calls that are known beforehand.{code}{direct}\n"
        '- "$ref:ID.items[0].name" is a part of the result of step ID, "$ref:ID" all of it; in text: ${ID.name}.\n'
        '- for_each: one call per item of a list or a reference; "$item" is the item.\n'
        "- A failed step skips those that need it. Only output_steps come back.\n"
        f"{_PLAN_ANSWERS if here.answer else ''}"
        f"{'The plan is one text. ' if here.plan_as_text else ''}Example: {_steps(here.plan_sample)}"
    )


def _read(here: Situation) -> str:
    return (
        "Read a file, or output that was too long to show, by its handle: text from a byte on, a part at a time. Where "
        "there is more, the answer says with which offset to read on. A picture is shown; of "
        "other files that are not text you get one line.\n"
        'Example: {"artifact": "art_...", "offset": 8000}'
    )


def _start(here: Situation) -> str:
    return (
        "Run a program in the background: for work that takes long, or while you do other things. Write it as for "
        f"execute_code.{' It starts afresh.' if here.session else ''} You get the id of the run at once, "
        "and its result with wait_run."
    )


def _wait(here: Situation) -> str:
    return (
        "Wait for a run that start_code began. Once it has ended you get what execute_code gives; until then how far "
        "it is, or what it waits for."
    )


def _stop(here: Situation) -> str:
    return "End a run that start_code began. What it has done stays done."


def _steps(chain: Chain | None) -> str:
    first, then, reference = (_NO_NAME, "ARG", "a"), (_NO_NAME, "ARG"), "$ref:a.FIELD"
    if chain is not None:
        first = (chain.first.tool.name, chain.first.argument, chain.first.values[0])
        then = (chain.then.tool.name, chain.then.argument)
        reference = "$ref:a" if chain.field is None else f"$ref:a.{chain.field}"
    steps = [
        {"id": "a", "tool": first[0], "arguments": {first[1]: first[2]}},
        {"id": "b", "tool": then[0], "arguments": {then[1]: reference}},
    ]
    return json.dumps({"steps": steps, "output_steps": ["b"]}, ensure_ascii=False, separators=(",", ":"))
