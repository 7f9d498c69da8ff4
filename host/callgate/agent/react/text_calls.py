"""Calls that a model wrote as text, read. Knows the ways in which models write them; calls nothing.

The form that a model is asked for, one turn:

    Thought: why
    Action: search_database
    Action Input: {"query": "active users"}

or, at the end, ``Final Answer: ...``. What comes of everything else:

| the model writes | what it is |
|---|---|
| several pairs of Action and Action Input | as many calls, in their order |
| an Observation of its own | nothing behind it counts: no tool said it |
| a Final Answer behind an Action | the calls are made, and it has to answer again with what they say |
| an Action without an Action Input | a call without arguments |
| half a JSON, no JSON | a call with a fault |
| plain text for a tool with one argument | that argument |
| a Python dict | as if it were JSON |
| a JSON object that names a tool and its arguments, and nothing else | a call |
| only a Thought, or an Action Input without an Action | a fault that says what is missing |
| prose | the answer |
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callgate.agent.models.model import ToolCall, arguments_of
from callgate.runtime.model.decoding import CUT_OFF, is_cut_off

__all__ = ["MAX_TEXT", "NO_ACTION", "Written", "read_text", "written_calls"]

MAX_TEXT = 200_000
"""Characters of a turn that are read for calls."""
NO_ACTION = "Action"
"""What stands for the tool in a call that no tool was named for."""

_MARK = re.compile(
    r"^[ \t]*+[*_#>`-]*+[ \t]*+(Thought|Action[ \t]Input|Action|Observation|Final[ \t]Answer)[*_]*+[ \t]*+"
    r"(?:\d{1,3})?+[*_]*+[ \t]*+:[*_]*+",
    re.IGNORECASE | re.MULTILINE,
)
_FENCE = re.compile(r"```[a-zA-Z]*+\s*+")
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_IN_WORDS = re.compile(r"Calling tool: ([\w.-]{1,64}) with args: (\{.*\})[ \t]*")
_NAME = re.compile(r"[\w.-]{1,64}")
_NO_TOOL = frozenset({"none", "n/a", "null", "no action"})
_ANSWERS = frozenset({"final answer", "final_answer", "finish"})
_NAMES = ("name", "tool", "tool_name", "action", "function")
_ARGUMENTS = ("arguments", "args", "parameters", "action_input", "tool_input", "tool_args", "input")
_MAX_LITERAL = 20_000
_MAX_WRITTEN = 20_000

_decoder = json.JSONDecoder()


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What a turn comes to.

    Attributes:
        calls: in their order; empty where it answers.
        answer: its answer; empty where it calls.
        kept: the text that belongs to the conversation: without what it made up.
    """

    calls: tuple[ToolCall, ...] = ()
    answer: str = ""
    kept: str = ""


def read_text(text: str, known: Mapping[str, Mapping[str, Any]]) -> Written:
    """What a turn in the text form comes to.

    Args:
        text: of the model.
        known: schemas of the arguments of the tools that it has, by name.
    """
    if len(text) > MAX_TEXT:
        return _format_fault(f"the reply has more than {MAX_TEXT:,} characters: write less", text[:_MAX_WRITTEN])
    marks = list(_MARK.finditer(text))
    if not marks:
        calls = written_calls(text, known)
        return Written(calls=calls, kept=text.strip()) if calls else Written(answer=text.strip(), kept=text.strip())
    reading = _Reading(known)
    end = len(text)
    for place, mark in enumerate(marks):
        below = text[mark.end() : marks[place + 1].start() if place + 1 < len(marks) else len(text)]
        kind = " ".join(mark[1].lower().split())
        if kind == "observation":
            end = mark.start()
            break
        if kind == "final answer":
            if not reading.begun:
                return Written(answer=text[mark.end() :].strip(), kept=text.strip())
            end = mark.start()
            break
        if kind == "action":
            reading.action(below)
        elif kind == "action input":
            reading.input(below)
    kept = text[:end].strip()
    if reading.answer:
        return Written(answer=reading.answer, kept=kept)
    calls = reading.calls()
    if calls:
        return Written(calls=calls, kept=kept)
    return _format_fault("there is neither an Action nor a Final Answer", kept)


def _format_fault(problem: str, kept: str) -> Written:
    fault = f"{problem}. Write an Action and an Action Input, or, if you know the answer, a Final Answer"
    call = ToolCall(id=_id(0), name=NO_ACTION, fault=fault, written=kept[:_MAX_WRITTEN])
    return Written(calls=(call,), kept=kept)


def _id(place: int) -> str:
    return f"written_{place}"


class _Reading:
    """Collects the actions of one turn."""

    def __init__(self, known: Mapping[str, Mapping[str, Any]]) -> None:
        self._known = known
        self._actions: list[list[str]] = []
        self._stray = False
        self.answer = ""

    @property
    def begun(self) -> bool:
        return bool(self._actions)

    def action(self, below: str) -> None:
        self._actions.append([below.strip()])

    def input(self, below: str) -> None:
        if not self._actions or len(self._actions[-1]) > 1:
            self._stray = True
            return
        self._actions[-1].append(below.strip())
        if self._actions[-1][0].casefold().strip("*`\"' .") in _ANSWERS:
            self.answer = _bare(below)

    def calls(self) -> tuple[ToolCall, ...]:
        found: list[ToolCall] = []
        for action in self._actions:
            found.extend(self._read(action, len(found)))
        if self._stray:
            fault = "an Action Input stands there without its own Action"
            found.append(ToolCall(id=_id(len(found)), name=NO_ACTION, fault=fault))
        return tuple(found)

    def _read(self, action: list[str], place: int) -> list[ToolCall]:
        if len(action) == 1 and (whole := _objects(action[0], self._known, place)):
            return whole
        first = next((line for line in action[0].splitlines() if line.strip()), "")
        name = first.strip().strip("*`\"'").rstrip(".").removesuffix("()").strip("*`\"'")
        if len(action) == 1 and name.casefold() in _NO_TOOL:
            return []
        if name not in self._known and not _NAME.fullmatch(name):
            fault = "an Action is the name of one tool alone; its arguments are the Action Input, a JSON object"
            return [ToolCall(id=_id(place), name=name[:64] or NO_ACTION, fault=fault, written=first[:_MAX_WRITTEN])]
        given = action[1] if len(action) > 1 else ""
        arguments, fault = _arguments(given, self._known.get(name, {}))
        return [
            ToolCall(
                id=_id(place),
                name=name,
                arguments=arguments,
                fault=fault,
                written=given[:_MAX_WRITTEN] if fault else "",
            )
        ]


def _bare(text: str) -> str:
    """Text without the fence or the quotes of code around it."""
    text = text.strip()
    fenced = _FENCE.match(text)
    return (text[fenced.end() :] if fenced else text).strip("` \t\r\n")


def _arguments(text: str, schema: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Arguments as they were written, or what is wrong with them."""
    text = _bare(text)
    if not text or text.casefold() in _NO_TOOL:
        return {}, ""
    if not text.startswith(("{", "[")):
        return _only_argument(text, schema)
    try:
        _, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        if (literal := _literal(text)) is not None:
            return literal, ""
        arguments, fault = arguments_of(text)
        return arguments, f"{fault}; {CUT_OFF}" if is_cut_off(text) else fault
    if "{" in text[end:]:
        return {}, "there are several objects behind one Action Input: write an Action and an Action Input for each"
    return arguments_of(text[:end])


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
    """The calls that a text is, and is nothing else: of models that write a call where they should make it.

    Read are JSON objects such as ``{"name": ..., "arguments": {...}}``, alone, in a list, in a fence of code, or
    between ``<tool_call>`` tags; and ``Calling tool: NAME with args: {...}``, a line for each. Every one has to name a
    tool that the model has. Otherwise there are none.
    """
    text = text.strip()
    if len(text) > MAX_TEXT or not text.startswith(("{", "[", "`", "<", "C")):
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
        calls = _objects(piece, known, len(found))
        if not calls:
            return ()
        found.extend(calls)
    return tuple(found)


def _objects(text: str, known: Mapping[str, Mapping[str, Any]], place: int) -> list[ToolCall]:
    """The calls that a JSON text holds; none where it is anything else."""
    try:
        value = json.loads(_bare(text))
    except (ValueError, RecursionError):
        return []
    found: list[ToolCall] = []
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, dict):
            return []
        function = each.get("function")
        told: dict[str, Any] = function if isinstance(function, dict) else each
        name = next((told[key] for key in _NAMES if isinstance(told.get(key), str)), None)
        given = next((told[key] for key in _ARGUMENTS if key in told), None)
        if name not in known or given is None:
            return []
        arguments, fault = arguments_of(given if isinstance(given, str) else json.dumps(given))
        found.append(
            ToolCall(
                id=_id(place + len(found)),
                name=str(name),
                arguments=arguments,
                fault=fault,
                written=str(given)[:_MAX_WRITTEN] if fault else "",
            )
        )
    return found
