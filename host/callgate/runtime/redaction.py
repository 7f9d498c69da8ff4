"""Redaction: what stays out of spans, audit logs, transcripts, pages, and what people see of events.

A value is redacted because its schema says that it is a secret, because of its key, because it equals a secret of the
same run, or because the operator's function says so. In its place stands `REDACTED`, so that nobody takes it for the
value. Programs, tools, models and `on_event` get values.

1. `Redaction` is what the operator says. `RunRedaction` is one run: it learns the run's secrets from arguments and
   results, and strikes them out wherever they come back.
2. Structure and keys stay. null stays: it is the lack of a secret.
3. Where something cannot be looked through (nested too deeply, too large, a function that fails), it is redacted as a
   whole. Nothing here raises.
4. A secret is found as it is, and as JSON and Python escape it; not in another encoding (Base64, a hash, in reverse).
   Redaction keeps secrets out of what people read by mistake. It does not stop a program that wants to show one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .secret_keys import SECRET_KEYS, key_test

if TYPE_CHECKING:
    from callgate.tools import Registry, Tool
    from callgate.tools.secret import SecretPlace

    from .gate.events import Event
    from .gate.records import CallRecord
    from .plans.result import StepResult

__all__ = ["REDACTED", "SECRET_KEYS", "Redaction", "RunRedaction"]

logger = logging.getLogger("callgate")

REDACTED: Final = "[redacted]"
"""Stands in the place of a value that was redacted."""
MIN_SECRET_CHARACTERS: Final = 4
"""A shorter secret is redacted in its own place and not searched for elsewhere: it would be found in every text."""
MAX_SECRETS: Final = 500
"""Secrets of one run that are searched for."""
_MAX_SECRET_CHARACTERS: Final = 16 * 1024
"""Of one secret that is searched for: of a longer one, its beginning."""
_MAX_RESULT_CHARACTERS: Final = 256 * 1024
"""Of a longer result, the beginning is shown."""
_BEGUN: Final = 64
"""Characters of a secret that are enough to see its beginning where a text is cut off."""
_MAX_MEMBERS: Final = 200_000
"""Members of one value that are looked at; what follows is redacted."""
_MAX_DEPTH: Final = 150
_PLAIN: Final = frozenset({"true", "false", "null", "none", "undefined"})
"""Texts that say that there is no secret."""

_TRIPLE = r'"""[\s\S]*?(?:"""|\Z)|' + r"'''[\s\S]*?(?:'''|\Z)"
_QUOTED = r'"(?:[^"\\\n]|\\[\s\S])*(?:"|\n|\Z)|' + r"'(?:[^'\\\n]|\\[\s\S])*(?:'|\n|\Z)"
_NAMED: Final = re.compile(
    rf"(?P<key>(?<![\w.-])[A-Za-z_][\w.-]{{0,80}})[\"']?\]?\s{{0,3}}(?::|==?)\s{{0,3}}[bBrRfFuU]{{0,2}}"
    rf"(?P<quoted>{_TRIPLE}|{_QUOTED})"
    r"|[?&](?P<field>[\w.-]{1,80})=(?P<plain>[^&\s\"'#<>]+)"
    r"|\b(?:[Bb]earer|[Bb]asic) (?P<scheme>[\w.~+/-]{8,}=*)"
    r"|://[^\s/@:\"']{0,200}:(?P<user>[^\s/@\"']{1,1000})@"
)
"""A name with a quoted text (Python, JSON, YAML), a field of a URL, an Authorization header, a URL's password."""
_HINTS: Final = ("=", ":", "earer ", "asic ")

_Event = TypeVar("_Event", bound="Event")


class Redaction:
    """What to redact, beside what schemas say.

    Args:
        keys: names of arguments, fields and headers whose values are redacted, besides `SECRET_KEYS`. A key matches if
            it ends with the words of a name, in any case and spelling: ``api_key`` matches ``X-Api-Key``.
        redact: receives each text and returns what may be shown. If it fails, the text is redacted as a whole.
        default_keys: whether `SECRET_KEYS` count.
    """

    def __init__(
        self,
        keys: Collection[str] = (),
        redact: Callable[[str], str] | None = None,
        *,
        default_keys: bool = True,
    ) -> None:
        self.keys = frozenset([keys] if isinstance(keys, str) else keys) | (
            SECRET_KEYS if default_keys else frozenset()
        )
        self.redact = redact
        self.is_secret_key = key_test(self.keys)
        self._has_failed = False

    def run(self, registry: Registry | None = None) -> RunRedaction:
        """The redaction of one run.

        Args:
            registry: has the tools of the calls in records and events.
        """
        return RunRedaction(self, registry)

    def arguments(self, tool: Tool | None, arguments: Any) -> Any:
        """The arguments of a call, a redacted copy; by their keys alone if the run does not have the tool."""
        return self.run().arguments(tool, arguments)

    def result(self, tool: Tool | None, text: str) -> str:
        """A result as JSON text, redacted."""
        return self.run().result(tool, text)

    def text(self, text: str) -> str:
        """A text that is not JSON, redacted: an error, a print, a model's words."""
        return self.run().text(text)

    def for_approval(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments for a person who decides about the call: without the values that the tool's schema or their own
        key calls secrets, and nothing else is left out. A program must not be able to hide a text by what it says.

        Raises:
            RecursionError: they are nested too deeply, or too many, to be looked through.
        """
        shown = self.run().without_secrets(tool, arguments)
        assert isinstance(shown, dict)
        return shown

    def event(self, event: _Event, registry: Registry | None = None) -> _Event:
        """A redacted copy of an event, for a listener that shows it. For a whole run: `run`, then its `event`."""
        return self.run(registry).event(event)

    def by_function(self, text: str) -> str:
        """The text as the operator's function returns it."""
        if self.redact is None:
            return text
        try:
            made: object = self.redact(text)
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                logger.exception("the redact function failed; the text is redacted as a whole (logged once)")
            return REDACTED
        return made if isinstance(made, str) else REDACTED


def redactor_of(own: Redaction, registry: Registry) -> Callable[[Redaction | None], RunRedaction]:
    """Makes the redaction of a result's page, with the runtime's own rules unless others are given."""
    return lambda given: (own if given is None else given).run(registry)


class RunRedaction:
    """Redacts what is shown of one run, and remembers the run's secrets."""

    def __init__(self, redaction: Redaction, registry: Registry | None = None) -> None:
        self._redaction = redaction
        self._is_secret_key = redaction.is_secret_key
        self._registry = registry
        self._secrets: set[str] = set()
        self._forms: list[str] = []
        """The spellings of the secrets, the longest first."""
        self._left = 0
        self._whole = False
        """Whether a part that cannot be looked through is an error."""

    def arguments(self, tool: Tool | None, arguments: Any) -> Any:
        """The arguments of a call, a redacted copy."""
        return self._redacted(arguments, None if tool is None else tool.secret_arguments)

    def learn(self, tool: Tool | None, arguments: Any) -> Any:
        """Find the secrets that the tool's schema or a key calls so, for the texts that come. Returns the arguments
        without them."""
        self._left = _MAX_MEMBERS
        return self._hidden(arguments, None if tool is None else tool.secret_arguments, 0)

    def without_secrets(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        """The arguments, redacted by schema and key alone. Raises `RecursionError`: see `Redaction.for_approval`."""
        self._left, self._whole = _MAX_MEMBERS, True
        return self._hidden(arguments, tool.secret_arguments, 0)

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

    def text(self, text: str) -> str:
        """A text that is not JSON, redacted: a program, an error, a print, a model's words."""
        if any(hint in text for hint in _HINTS):
            text = _NAMED.sub(self._named, text)
        return self._redaction.by_function(self._struck(text))

    def record(self, record: CallRecord) -> CallRecord:
        """A redacted copy of a record."""
        from dataclasses import replace

        tool = self.tool(record.tool)
        changed: dict[str, Any] = {"arguments": self.arguments(tool, record.arguments)}
        if record.changed_arguments is not None:
            changed["changed_arguments"] = self.arguments(tool, record.changed_arguments)
        if record.error is not None:
            changed["error"] = self.text(record.error)
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
        error = None if step.error is None else self.text(step.error)
        return replace(step, arguments=arguments, result_json=result, error=error)

    def event(self, event: _Event) -> _Event:
        """A redacted copy of an event."""
        from dataclasses import replace

        from .gate.events import CallEnded, CallProgressed, CallStarted, Printed, StepEnded

        match event:
            case Printed(text=text):
                return replace(event, text=self.text(text))
            case CallProgressed(record=record, message=message):
                return replace(event, record=self.record(record), message=message and self.text(message))
            case CallStarted(record=record) | CallEnded(record=record):
                return replace(event, record=self.record(record))
            case StepEnded(step=step):
                return replace(event, step=self.step(step))
            case _:
                return event

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
            if not self._forms:
                return {key: self._shown(each) for key, each in value.items()}
            made: dict[str, Any] = {}
            for key, each in value.items():
                name = self._struck(key)
                made[_other_than(made, name) if name != key else name] = self._shown(each)
            return made
        if isinstance(value, list):
            return [self._shown(each) for each in value]
        if value is None or isinstance(value, bool) or not self._secrets:
            return value
        try:
            return REDACTED if str(value) in self._secrets else value
        except ValueError:  # more digits than Python writes
            return REDACTED

    def _hide(self, value: Any) -> Any:
        """Learn a secret value, and return what stands in its place."""
        todo, left = [value], MAX_SECRETS
        while todo and left:
            left -= 1
            each = todo.pop()
            if isinstance(each, Mapping):
                todo += list(each.values())[:left]
            elif isinstance(each, (list, tuple)):
                todo += each[:left]
            elif isinstance(each, (str, int, float)) and not isinstance(each, bool):
                with contextlib.suppress(ValueError):  # a number of more digits than Python writes
                    self._learn(str(each))
        return value if value is None else REDACTED

    def _learn(self, secret: str) -> None:
        secret = secret[:_MAX_SECRET_CHARACTERS]
        if len(secret.strip()) < MIN_SECRET_CHARACTERS or secret in self._secrets or secret.casefold() in _PLAIN:
            return
        if secret in REDACTED or len(self._secrets) >= MAX_SECRETS:
            return
        self._secrets.add(secret)
        written = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
        self._forms = sorted({*self._forms, *written}, key=len, reverse=True)

    # one text

    def _struck(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, REDACTED)
        return text

    def _named(self, found: re.Match[str]) -> str:
        """A name and its text, without the text if the name is that of a secret."""
        name = found["key"] or found["field"]
        if name is not None and not self._is_secret_key(name):
            return found[0]
        group = found.lastgroup or "quoted"
        text = found[group]
        if group != "quoted":
            self._learn(text)
            return found[0].replace(text, REDACTED)
        mark = text[:3] if text[:3] in ('"""', "'''") else text[0]
        secret = text[len(mark) :].removesuffix(mark).removesuffix("\n")
        if secret in ("", REDACTED):
            return found[0]
        self._learn(secret)
        with contextlib.suppress(ValueError):
            if mark == '"' and "\\" in secret:
                self._learn(json.loads(f'"{secret}"'))
        begin = found.start("quoted") - found.start() + len(mark)
        return found[0][:begin] + REDACTED + found[0][begin + len(secret) :]

    def _read(self, text: str) -> Any:
        """The value of a JSON text, or of the beginning of one."""
        if len(text) <= _MAX_RESULT_CHARACTERS:
            with contextlib.suppress(ValueError):
                return json.loads(text)
        from pydantic_core import from_json

        beginning = text[:_MAX_RESULT_CHARACTERS]
        for form in self._forms:  # a secret may be cut off as well
            begun = beginning.find(form[:_BEGUN], max(len(beginning) - len(form), 0)) if len(form) > _BEGUN else -1
            if begun < 0:
                kept = next((n for n in range(min(len(form) - 1, _BEGUN), 2, -1) if beginning.endswith(form[:n])), 0)
                begun = len(beginning) - kept
            beginning = beginning[:begun]
        return from_json(beginning.encode("utf-8", "replace"), allow_partial="trailing-strings")


def _other_than(taken: Collection[str], name: str) -> str:
    """The name, with a number if it is taken."""
    number, made = 1, name
    while made in taken:
        number += 1
        made = f"{name} {number}"
    return made
