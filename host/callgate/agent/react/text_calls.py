"""Reads calls that a model wrote as text. Knows the ways in which models write them; calls nothing.

The form that a model is asked for, one turn:

    Thought: why
    Action: search_database
    Action Input: {"query": "active users"}

or, at the end, ``Final Answer: ...``. Everything else is read so:

| the model writes | what it is |
|---|---|
| several pairs of Action and Action Input | as many calls, in their order |
| an Observation of its own | everything behind it is ignored, since no tool wrote it |
| a Final Answer behind an Action | the calls are made, and it has to answer again with what they say |
| an Action without an Action Input | a call without arguments |
| half a JSON, no JSON | a call with a fault; so is each one behind it, since it may be a part of what has no end |
| the words of the form inside of an Action Input's JSON | text: they begin nothing |
| arguments under the name of the tool, or behind another word (``Input:``, ``Arguments:``) | the Action Input |
| plain text for a tool with one argument | that argument |
| a Python dict | as if it were JSON |
| a JSON object that names a tool and its arguments, and nothing else | a call |
| only a Thought, or an Action Input without an Action | a fault that says what is missing |
| ``<think>...</think>`` at the beginning | ignored: it is a thought |
| prose | the answer |
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callgate.agent.models.model import ToolCall, arguments_of
from callgate.agent.models.thoughts import without_thoughts
from callgate.runtime.model.decoding import CUT_OFF, is_cut_off

from .actions import faulty

__all__ = ["MAX_TEXT", "NO_ACTION", "Written", "read_text", "says_action", "written_calls"]

MAX_TEXT = 200_000
"""Characters of a turn that are read for calls."""
NO_ACTION = "Action"
"""What stands for the tool in a call that no tool was named for."""

_MARK = re.compile(
    r"^[ \t]*+[*_#>`-]*+[ \t]*+(Thought|Action[ \t_]Input|Action|Observation|Final[ \t_]Answer)[*_]*+[ \t]*+"
    r"(?:\d{1,3})?+[*_]*+[ \t]*+[:\uff1a][*_]*+",
    re.IGNORECASE | re.MULTILINE,
)
_LABEL = re.compile(
    r"[*_`]*+(?:(?:Tool|Action)[ \t_])?(?:Input|Arg(?:ument)?s|Param(?:eter)?s)[*_`]*+[ \t]*+[:\uff1a][*_`]*+", re.I
)
_FENCE = re.compile(r"```[a-zA-Z]*+\s*+")
_OPENING = re.compile(r"\s*+(?:```[a-zA-Z]*+\s*+)?+`?+(?=[{\[])")
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_IN_WORDS = re.compile(r"Calling tool: ([\w.-]{1,64}) with args: (\{.*\})[ \t]*")
_NAME = re.compile(r"[\w.-]{1,64}")
_NO_TOOL = re.compile(r"(?:none|n/?a|null|no (?:action|tool)s?)(?:[ ,.;:(].*+)?+", re.IGNORECASE)
_NOTHING = frozenset({"none", "n/a", "null", "no action"})
_ANSWERS = frozenset({"final answer", "final_answer", "finish"})
_NAMES = ("name", "tool", "tool_name", "action", "function")
_ARGUMENTS = ("arguments", "args", "parameters", "action_input", "tool_input", "tool_args", "input")
_MAX_LITERAL = 20_000
_MAX_WRITTEN = 20_000

_MOST_CALLS = 256
"""Calls that are read from one text, and Action Inputs whose end is looked for."""

_decoder = json.JSONDecoder(strict=False)
"""Takes line breaks in texts, which models forget to escape: it can mean nothing else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """The calls or the answer of a turn.

    Attributes:
        calls: in their order; empty where it answers.
        answer: its answer; empty where it calls.
        kept: the text that belongs to the conversation: without what it made up.
    """

    calls: tuple[ToolCall, ...] = ()
    answer: str = ""
    kept: str = ""


def read_text(text: str, known: Mapping[str, Mapping[str, Any]]) -> Written:
    """The calls or the answer of a turn in the text form.

    Args:
        text: of the model.
        known: schemas of the arguments of the tools that it has, by name.
    """
    if len(text) > MAX_TEXT:
        return _format_fault(f"the reply has more than {MAX_TEXT:,} characters: write less", text[:_MAX_WRITTEN])
    text = without_thoughts(text)
    marks = _marks(text)
    if not marks:
        if (final := _final(text)) is not None:
            return Written(answer=final, kept=text.strip())
        calls = written_calls(text, known)
        return Written(calls=calls, kept=text.strip()) if calls else Written(answer=text.strip(), kept=text.strip())
    actions: list[_Action] = []
    stray, end, begun = False, len(text), 0
    for place, mark in enumerate(marks):
        below = text[mark.end() : marks[place + 1].start() if place + 1 < len(marks) else len(text)].strip()
        answer: str | None = None
        kind = _kind(mark)
        begun = begun if kind == "action input" else mark.start()
        match kind:
            case "action":
                if (answer := _final(below)) is None:
                    actions.append(_Action(below, known))
            case "action input" if not actions or actions[-1].given is not None:
                stray = True
            case "action input" if actions[-1].is_answer:
                del actions[-1]
                answer = _bare(below)
            case "action input":
                actions[-1].given = below
            case "final answer":
                answer = text[mark.end() :].strip()
        if answer is not None and all(action.is_none for action in actions):
            return Written(answer=answer, kept=text.strip())
        if answer is not None or kind == "observation":
            end = begun
            break
    kept = text[:end].strip()
    calls = _calls(actions, stray)
    if calls:
        return Written(calls=calls, kept=kept)
    return _format_fault("there is neither an Action nor a Final Answer", kept)


def _calls(actions: Sequence[_Action], stray: bool) -> tuple[ToolCall, ...]:
    """The calls of the actions of a turn; `stray`: an Action Input stands there without its own Action."""
    found: list[ToolCall] = []
    for action in actions[:_MOST_CALLS]:
        found.extend(action.calls(stray))
    for place, call in enumerate(found):
        if call.fault and call.written.lstrip("` \t\r\n").startswith(("{", "[")):
            behind = "it was not made: the Action Input before it cannot be read, and this may be a part of it"
            found[place + 1 :] = [faulty(each, behind) for each in found[place + 1 :]]
            break
    if stray:
        fault = "an Action Input stands there without its own Action"
        found.append(ToolCall(id="", name=NO_ACTION, fault=fault))
    return tuple(found)


def _kind(mark: re.Match[str]) -> str:
    return mark[1].lower().replace("_", " ").replace("\t", " ")


def _marks(text: str) -> list[re.Match[str]]:
    """Where the words of the form stand; inside of an Action Input's JSON they are text like any other."""
    found: list[re.Match[str]] = []
    inside = looks = 0
    for mark in _MARK.finditer(text):
        if mark.start() < inside:
            continue
        found.append(mark)
        opening = _OPENING.match(text, mark.end()) if _kind(mark) == "action input" else None
        if opening is not None and looks < _MOST_CALLS:
            looks += 1
            with contextlib.suppress(ValueError, RecursionError):
                _, inside = _decoder.raw_decode(text, opening.end())
    return found


def says_action(text: str) -> bool:
    """Whether a text has an Action, in the form."""
    return any(_kind(mark) == "action" for mark in _MARK.finditer(text))


def _final(text: str) -> str | None:
    """The answer of a JSON object whose action is the final answer, and nothing else; None where it is none."""
    try:
        value = _decoder.decode(_bare(text))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or str(value.get("action", "")).casefold() not in _ANSWERS:
        return None
    answer = next((value[key] for key in _ARGUMENTS if key in value), "")
    return answer.strip() if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _format_fault(problem: str, kept: str) -> Written:
    fault = f"{problem}. Write an Action and an Action Input, or, if you know the answer, a Final Answer"
    call = ToolCall(id="", name=NO_ACTION, fault=fault, written=kept[:_MAX_WRITTEN])
    return Written(calls=(call,), kept=kept)


@dataclass(slots=True)
class _Action:
    """An Action of the turn.

    Attributes:
        below: what stands behind the word, as far as the next one.
        known: schemas of the arguments by tool.
        given: its Action Input; None where it has none.
    """

    below: str
    known: Mapping[str, Mapping[str, Any]]
    given: str | None = None

    @property
    def name(self) -> str:
        """The name of the tool."""
        return _first(self.below).strip().strip("*`\"'").rstrip(".").removesuffix("()").strip("*`\"'")

    @property
    def is_none(self) -> bool:
        """Whether the Action says that nothing is to be called."""
        if self.name in self.known or not _NO_TOOL.fullmatch(self.name):
            return False
        given = _bare(self.given or "")
        return given in ("", "{}") or given.casefold() in _NOTHING

    @property
    def is_answer(self) -> bool:
        """Whether the Action is the final answer instead of a tool."""
        return self.below not in self.known and self.below.casefold().strip("*`\"' .") in _ANSWERS

    def calls(self, stray: bool) -> list[ToolCall]:
        """The calls of this Action, in most cases one."""
        if self.given is None and (whole := _objects(self.below, self.known)):
            return whole
        if self.is_none:
            return []
        name = self.name
        if name not in self.known and not _NAME.fullmatch(name):
            fault = "an Action is the name of one tool alone; its arguments are the Action Input, a JSON object"
            written = _first(self.below)[:_MAX_WRITTEN]
            return [ToolCall(id="", name=name[:64] or NO_ACTION, fault=fault, written=written)]
        given = _under(self.below) if self.given is None else self.given
        arguments: dict[str, Any] = {}
        if given is None or (stray and self.given is None):
            fault = "its arguments do not stand behind an Action Input of its own: write that under the Action"
        else:
            arguments, fault = _arguments(given, self.known.get(name, {}))
        written = (given or self.below)[:_MAX_WRITTEN] if fault else ""
        return [ToolCall(id="", name=name, arguments=arguments, fault=fault, written=written)]


def _first(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def _under(text: str) -> str | None:
    """The arguments that stand under the name of a tool, empty where there are none; None where that is not clear."""
    below = text.lstrip().partition("\n")[2].strip()
    label = _LABEL.match(below)
    given = below[label.end() :].strip() if label else below
    if label or given.startswith(("{", "[", "```")):
        return given
    return None if "{" in below else ""


def _bare(text: str) -> str:
    """Text without the fence or the quotes of code around it."""
    text = text.strip()
    fenced = _FENCE.match(text)
    return (text[fenced.end() :] if fenced else text).strip("` \t\r\n")


def _arguments(text: str, schema: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Arguments as they were written, and their fault, which is empty for right ones."""
    text = _bare(text)
    if not text or text.casefold() in _NOTHING:
        return {}, ""
    if not text.startswith(("{", "[")):
        return _only_argument(text, schema)
    try:
        value, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        if (literal := _literal(text)) is not None:
            return literal, ""
        arguments, fault = arguments_of(text)
        return arguments, f"{fault}; {CUT_OFF}" if is_cut_off(text) else fault
    if "{" in text[end:]:
        return {}, "there are several objects behind one Action Input: write an Action and an Action Input for each"
    arguments, fault = arguments_of(text[:end])
    if fault and isinstance(value, dict):
        with contextlib.suppress(ValueError, RecursionError):
            return arguments_of(json.dumps(value, allow_nan=False))
    return arguments, fault


def _only_argument(text: str, schema: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Plain text as the argument of a tool that has just one."""
    properties = schema.get("properties") or {}
    if len(properties) == 1:
        ((name, below),) = properties.items()
        if isinstance(below, Mapping) and below.get("type") == "string":
            value, fault = arguments_of(f'{{"v": {text}}}') if text.startswith('"') else ({}, "")
            return {name: value["v"] if value and not fault else text}, ""
        arguments, fault = arguments_of(f'{{"v": {text}}}')
        if not fault and len(arguments) == 1 and "v" in arguments:
            return {name: arguments["v"]}, ""
    example = ", ".join(f'"{name}": ...' for name in list(properties)[:5])
    return {}, f"an Action Input is a JSON object: {{{example}}}"


def _literal(text: str) -> dict[str, Any] | None:
    """A dict as Python writes it: ``{'query': 'x', 'all': True}``."""
    if len(text) > _MAX_LITERAL:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
        if not isinstance(value, dict):
            return None
        arguments, fault = arguments_of(json.dumps(value, allow_nan=False))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return None if fault else arguments


def written_calls(text: str, known: Mapping[str, Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    """The calls of a text that consists of calls alone: some models write a call instead of making it.

    Read are JSON objects such as ``{"name": ..., "arguments": {...}}``, alone, in a list, in a fence of code, or
    between ``<tool_call>`` tags; and ``Calling tool: NAME with args: {...}``, a line for each. Every one has to name a
    tool that the model has. Otherwise there are none.
    """
    text = without_thoughts(text).strip() if len(text) <= MAX_TEXT else ""
    if not text.startswith(("{", "[", "`", "<", "C")):
        return ()
    if text.startswith("Calling"):
        lines = [_IN_WORDS.fullmatch(line) for line in text.splitlines() if line.strip()]
        pieces = [json.dumps({"name": m[1], "arguments": m[2]}) for m in lines if m is not None]
        if len(pieces) < len(lines):
            return ()
    elif text.startswith("<tool_call>"):
        if _TAGGED.sub("", text).strip():
            return ()
        pieces = _TAGGED.findall(text)
    else:
        pieces = [text]
    found: list[ToolCall] = []
    for piece in pieces:
        calls = _objects(piece, known)
        if not calls:
            return ()
        found.extend(calls)
    return tuple(found)


def _objects(text: str, known: Mapping[str, Mapping[str, Any]]) -> list[ToolCall]:
    """The calls in a JSON text; empty for any other text."""
    try:
        value = json.loads(_bare(text))
    except (ValueError, RecursionError):
        return []
    found: list[ToolCall] = []
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, dict):
            return []
        function = each.get("function")
        call: dict[str, Any] = function if isinstance(function, dict) else each
        name = next((call[key] for key in _NAMES if isinstance(call.get(key), str)), None)
        given = next((call[key] for key in _ARGUMENTS if key in call), None)
        if name not in known or given is None:
            return []
        arguments, fault = arguments_of(given if isinstance(given, str) else json.dumps(given))
        written = str(given)[:_MAX_WRITTEN] if fault else ""
        found.append(ToolCall(id="", name=str(name), arguments=arguments, fault=fault, written=written))
    return found
