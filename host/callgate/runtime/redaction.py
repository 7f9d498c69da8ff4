"""Redaction: what stays out of spans, audit logs, transcripts, pages, and what people see of events.

A value is redacted because its schema says that it is a secret, because of its key, because it equals a secret of the
same run, or because the operator's function says so. In its place stands `REDACTED`, so that nobody takes it for the
value. Programs, tools, models and `on_event` get values.

1. `Redaction` is what the operator says. `RunRedaction` is one run: it learns the run's secrets from arguments and
   results, and strikes them out wherever they come back.
2. Structure and keys stay. null stays: it is the lack of a secret.
3. Where something cannot be looked through (nested too deeply, too large, a function that fails), it is redacted as a
   whole. Nothing here raises.
4. Redact, then cut: a secret that a cut halves is not found any more. Of a text that is cut already, a half at its end
   is found.
5. Redaction keeps secrets out of what people read by mistake. It does not stop a program that wants to show one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from .secret_keys import REDACTED, SECRET_KEYS, key_test

if TYPE_CHECKING:  # imported when something is redacted: most runtimes show nobody anything
    from callgate.tools import Registry, Tool

    from .gate.events import Event
    from .named_secrets import NamedSecrets
    from .run_redaction import RunRedaction

__all__ = ["REDACTED", "SECRET_KEYS", "Redaction", "Redactor"]

logger = logging.getLogger("callgate")

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
        self._has_failed = False

    @cached_property
    def is_secret_key(self) -> Callable[[str], bool]:
        """Whether a key is that of a secret."""
        return key_test(self.keys)

    @cached_property
    def named(self) -> NamedSecrets:
        """Finds what stands under such names in texts."""
        from .named_secrets import NamedSecrets

        return NamedSecrets(self.keys, self.is_secret_key)

    def run(self, registry: Registry | None = None) -> RunRedaction:
        """The redaction of one run.

        Args:
            registry: has the tools of the calls in records and events.
        """
        from .run_redaction import RunRedaction

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


class Redactor:
    """Makes the redaction of a result's page, with the runtime's own rules unless others are given. It knows the
    secrets that the redaction `seen` has seen.

    A pickled result is a saved one: it has none, since tools and functions stay where they are.
    """

    def __init__(self, own: Redaction, registry: Registry, seen: RunRedaction | None = None) -> None:
        self._own = own
        self._registry = registry
        self._seen = seen

    def __call__(self, given: Redaction | None = None) -> RunRedaction:
        made = (self._own if given is None else given).run(self._registry)
        if self._seen is not None:
            made.learn_from(self._seen)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()

    def __copy__(self) -> Redactor:
        return self

    def __deepcopy__(self, _: Any) -> Redactor:
        return self
