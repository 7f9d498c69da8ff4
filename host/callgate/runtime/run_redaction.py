"""The redaction of one run: learns the run's secrets from arguments and results, and strikes them out wherever they
come back. Structure and keys stay; what cannot be looked through is redacted as a whole."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .known_secrets import MIN_SECRET_CHARACTERS, KnownSecrets
from .secret_keys import REDACTED

if TYPE_CHECKING:
    from callgate.tools import Registry, Tool
    from callgate.tools.secret import SecretPlace

    from .gate.events import Event
    from .gate.records import CallRecord
    from .plans.result import StepResult
    from .redaction import Redaction

__all__ = ["RunRedaction"]

_MAX_CHARACTERS: Final = 256 * 1024
"""Of a longer text or result, the beginning is shown."""
_MAX_WORD: Final = 1000
"""Characters of the last word of a beginning, which may be half a secret, and is left out."""
_MAX_MEMBERS: Final = 200_000
"""Members of one value that are looked at; what follows is redacted."""
_MAX_LEARNED_CHARACTERS: Final = 16_000_000
"""Of the texts among all arguments that are looked through for names of secrets after a run's end."""
_MAX_LEARNED: Final = 10_000
"""Calls of a run that are looked through for secrets after its end."""
_MAX_DEPTH: Final = 150
_Event = TypeVar("_Event", bound="Event")


class RunRedaction:
    """Redacts what is shown of one run, and remembers the run's secrets."""

    def __init__(self, redaction: Redaction, registry: Registry | None = None) -> None:
        self._redaction = redaction
        self._is_secret_key = redaction.is_secret_key
        self._registry = registry
        self._known = KnownSecrets()
        self._left = 0
        self._whole = False
        """Whether a part that cannot be looked through is an error."""

    def arguments(self, tool: Tool | None, arguments: Any) -> Any:
        """The arguments of a call, a redacted copy."""
        return self._redacted(arguments, None if tool is None else tool.secret_arguments)

    def without_secrets(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        """The arguments, redacted by schema and key alone. Raises `RecursionError`: see `Redaction.for_approval`."""
        self._left, self._whole = _MAX_MEMBERS, True
        return self._hidden(arguments, tool.secret_arguments, 0)

    def step_for_approval(self, step: Any) -> Any:
        """A step of a plan as JSON, for a person who decides about it: redacted by schema and key alone."""
        self._left, self._whole = _MAX_MEMBERS, True
        return self._hidden(step, None, 0)

    def result_value(self, tool: Tool | None, value: Any) -> Any:
        """A result as a JSON value, redacted."""
        return self._redacted(value, None if tool is None else tool.secret_result)

    def value(self, value: Any) -> Any:
        """A redacted copy of a JSON value that no schema describes: inputs, a plan, a saved result.

        Within it, an object with a ``tool`` is a call, a step or a record: its arguments and its result are those of
        that tool, if `run` got the registry.
        """
        return self._redacted(value, None)

    def plan(self, plan: Any) -> Any:
        """A redacted copy of a plan as a model gave it: a JSON value, or the text of one."""
        if isinstance(plan, str):
            try:
                return json.dumps(self.value(json.loads(plan)), ensure_ascii=False)
            except (ValueError, RecursionError):
                return self.text(plan)
        return self.value(plan)

    def result(self, tool: Tool | None, text: str) -> str:
        """A result as JSON text, redacted. Of a text that is cut off, or very long, the beginning is shown; it is whole
        JSON as well."""
        try:
            shown = self._redacted(self._read(text), None if tool is None else tool.secret_result)
            return json.dumps(shown, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (ValueError, RecursionError):
            return json.dumps(REDACTED)

    def text(self, text: str, most: int = _MAX_CHARACTERS, *, is_cut: bool = False) -> str:
        """A text that is not JSON, redacted: an error, a print, a model's words.

        Args:
            text: any text.
            most: characters of it that are shown.
            is_cut: whether it may be the beginning of a longer text, so that half a secret may stand at its end.
        """
        return self._text(text, most, is_cut=is_cut)

    def source(self, source: str, most: int = _MAX_CHARACTERS) -> str:
        """A Python program, redacted. It keeps its lines, and its variables with the names of secrets."""
        return self._text(source, most, is_program=True)

    def learn(self, calls: Iterable[CallRecord]) -> None:
        """Find the secrets of calls that have ended: they are redacted wherever they come back.

        What a schema or a key calls a secret is found in all arguments; what a text names (``password='...'``) in the
        first 16,000,000 characters.
        """
        room = _MAX_LEARNED_CHARACTERS
        for call in islice(calls, _MAX_LEARNED):
            tool = self.tool(call.tool)
            for arguments in (call.arguments, call.changed_arguments):
                self._left = _MAX_MEMBERS
                for text in _texts(self._hidden(arguments, None if tool is None else tool.secret_arguments, 0)):
                    if room <= 0:
                        break
                    self._redaction.named.struck(text[:room], self._known.learn)
                    room -= len(text)
            if call.result is not None and tool is not None and tool.secret_result is not None:
                self.result(tool, call.result)

    def record(self, record: CallRecord) -> CallRecord:
        """A redacted copy of a record."""
        from dataclasses import replace

        tool = self.tool(record.tool)
        changed: dict[str, Any] = {"arguments": self.arguments(tool, record.arguments)}
        if record.changed_arguments is not None:
            changed["changed_arguments"] = self.arguments(tool, record.changed_arguments)
        if record.error is not None:
            changed["error"] = self.text(record.error, is_cut=True)
        result = getattr(record, "result", None)
        if result is not None:
            changed["result"] = self.result(tool, result)
        return replace(record, **changed)

    def step(self, step: StepResult) -> StepResult:
        """A redacted copy of a step of a plan."""
        from dataclasses import replace

        tool = self.tool(step.tool)
        if step.items is not None and isinstance(step.arguments, list):  # of a `for_each`: one for each item
            arguments: Any = [self.arguments(tool, each) for each in step.arguments]
        else:
            arguments = self.arguments(tool, step.arguments)
        result = step.result_json
        if result is not None and step.items is not None:
            try:
                value = self._read(result)
            except (ValueError, RecursionError):  # of a saved result, which may be anything
                value = None
            parts = [self.result(tool, json.dumps(each)) for each in value] if isinstance(value, list) else None
            result = json.dumps(REDACTED) if parts is None else f"[{','.join(parts)}]"
        elif result is not None:
            result = self.result(tool, result)
        error = None if step.error is None else self.text(step.error, is_cut=True)
        warnings = tuple(map(self.text, step.warnings))
        return replace(step, arguments=arguments, result_json=result, error=error, warnings=warnings)

    def event(self, event: _Event) -> _Event:
        """A redacted copy of an event."""
        from dataclasses import replace

        from .gate.events import CallEnded, CallProgressed, CallStarted, Printed, StepEnded

        match event:
            case Printed(text=text):
                return replace(event, text=self.text(text))
            case CallProgressed(record=record, message=message):
                return replace(event, record=self.record(record), message=message and self.text(message, is_cut=True))
            case CallStarted(record=record) | CallEnded(record=record):
                return replace(event, record=self.record(record))
            case StepEnded(step=step):
                return replace(event, step=self.step(step))
            case _:
                return event

    def learn_from(self, other: RunRedaction) -> None:
        """Learn the secrets that the redaction of a run inside this one has seen."""
        self._known.learn_from(other._known)

    def tool(self, name: str) -> Tool | None:
        """The tool of that name; None if the registry has none."""
        if self._registry is None:
            return None
        known = self._registry.resolve(name)
        return None if known is None else self._registry.get(known)

    # one value

    def _redacted(self, value: Any, place: SecretPlace | None) -> Any:
        self._left = _MAX_MEMBERS
        hidden = self._hidden(value, place, 0)
        return self._shown(hidden)

    def _hidden(self, value: Any, place: SecretPlace | None, depth: int) -> Any:
        """A copy without the values whose schema or key says that they are secrets; these are learned."""
        self._left -= 1 if place is None else 1 + place.cost
        if place is not None and place.secret:
            return self._hide(value)
        if value is None or isinstance(value, (str, int, float)):
            return value
        if depth >= _MAX_DEPTH or self._left < 0:
            if self._whole:
                raise RecursionError("the value cannot be looked through")
            return REDACTED
        depth += 1
        if isinstance(value, Mapping):
            made: dict[str, Any] = {}
            called = self._called(value) if place is None and "tool" in value else None
            for key, each in value.items():
                name = str(key)
                if self._is_secret_key(name):
                    made[name] = self._hide(each)
                elif called is not None and name in called:
                    many = value.get("items") is not None and isinstance(each, list)  # of a `for_each`
                    parts = [self._hidden(part, called[name], depth) for part in (each if many else [each])]
                    made[name] = parts if many else parts[0]
                else:
                    made[name] = self._hidden(each, None if place is None else place.of_key(name), depth)
            return made
        if isinstance(value, (list, tuple)):
            if place is None:
                return [self._hidden(each, None, depth) for each in value]
            return [self._hidden(each, place.of_item(index), depth) for index, each in enumerate(value)]
        return value if self._whole else REDACTED  # not JSON: its own words may show anything

    def _called(self, value: Mapping[Any, Any]) -> dict[str, SecretPlace] | None:
        """The places of a call's members, where the object is a call of a known tool and has secrets."""
        tool = self.tool(value["tool"]) if isinstance(value["tool"], str) else None
        if tool is None:
            return None
        given, result = tool.secret_arguments, tool.secret_result
        places = {"arguments": given, "args": given, "changed_arguments": given, "result": result, "output": result}
        return {name: place for name, place in places.items() if place is not None}

    def _shown(self, value: Any) -> Any:
        """The copy without known secrets in texts, keys and numbers."""
        if isinstance(value, str):
            return value if value == REDACTED else self.text(value)
        if isinstance(value, dict):
            if not self._known:
                return {key: self._shown(each) for key, each in value.items()}
            made: dict[str, Any] = {}
            for key, each in value.items():
                name = self._known.struck(key)
                made[_other_than(made, name) if name != key else name] = self._shown(each)
            return made
        if isinstance(value, list):
            return [self._shown(each) for each in value]
        if value is None or isinstance(value, bool) or not (self._known or self._known.full):
            return value
        try:
            text = str(value)
        except ValueError:  # more digits than Python writes
            return REDACTED
        return REDACTED if text in self._known or (self._known.full and len(text) >= MIN_SECRET_CHARACTERS) else value

    def _hide(self, value: Any) -> Any:
        """Learn a secret value, and return what stands in its place."""
        todo, left = [value], _MAX_MEMBERS
        while todo and left and not self._known.full:
            left -= 1
            each = todo.pop()
            if isinstance(each, Mapping):
                todo += each.values()
            elif isinstance(each, (list, tuple)):
                todo += each
            elif isinstance(each, (str, int, float)) and not isinstance(each, bool):
                with contextlib.suppress(ValueError):  # a number of more digits than Python writes
                    self._known.learn(str(each))
        self._known.full |= bool(todo)
        return value if value is None else REDACTED

    # one text

    def _text(self, text: str, most: int, *, is_program: bool = False, is_cut: bool = False) -> str:
        is_cut |= len(text) > most
        text = self._beginning(text, most)
        text = self._redaction.named.struck(text, self._known.learn, is_program=is_program)
        if self._known.full and len(text) >= MIN_SECRET_CHARACTERS:
            return REDACTED
        return self._redaction.by_function(self._known.struck(text, keep_lines=is_program, is_cut=is_cut))

    def _beginning(self, text: str, most: int) -> str:
        """The text, or the whole words at the beginning of a long one."""
        if len(text) <= most:
            return text
        words = text[:most]
        blank = max(words.rfind(" ", -_MAX_WORD), words.rfind("\n", -_MAX_WORD))
        return words[: blank + 1] if blank >= 0 else words

    def _read(self, text: str) -> Any:
        """The value of a JSON text, or of the beginning of one."""
        if len(text) <= _MAX_CHARACTERS:
            with contextlib.suppress(ValueError):
                return json.loads(text)
        from pydantic_core import from_json

        beginning = self._known.without_half(text[:_MAX_CHARACTERS])
        return from_json(beginning.encode("utf-8", "replace"), allow_partial="trailing-strings")


def _other_than(taken: Collection[str], name: str) -> str:
    """The name, with a number if it is taken."""
    number, made = 1, name
    while made in taken:
        number += 1
        made = f"{name} {number}"
    return made


def _texts(value: Any) -> Iterator[str]:
    """The texts within a JSON value."""
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, (dict, list)):
            todo += each.values() if isinstance(each, dict) else each
