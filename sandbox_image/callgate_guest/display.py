"""What a program shows: text among its prints, which the model reads, and a rich form, which becomes an artifact.

1. The forms of a value in their order: a figure's picture, `_repr_mimebundle_`, `_repr_png_`, `_repr_jpeg_`,
   `_repr_svg_`, `_repr_html_`, `_repr_markdown_`. The first form that the value really has is sent.
2. A method that raises, or returns something else than it promises, costs one line of words; the next form is tried.
3. Nothing is imported here. A table of pandas is known by its type, and is cut to a bounded size.
"""

from __future__ import annotations

import base64
import contextlib
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple

from . import figures
from .link import Link, encode
from .output import Output
from .program import safe_repr
from .records import HiddenField
from .tool_calls import ToolCall
from .wire import DISPLAY, cut

_TABLE_CHARACTERS = 8_000
_REASON_CHARACTERS = 200
_TABLES = ("DataFrame", "Series", "Index")
_TABLE_OPTIONS = (
    "display.max_rows", 60, "display.min_rows", 20, "display.max_columns", 20, "display.max_colwidth", 50,
    "display.width", 160, "display.large_repr", "truncate",
)  # fmt: skip
_MESSAGE = 300
"""Bytes of a message around what it carries, at most."""


class _Form(NamedTuple):
    method: str
    media_type: str
    word: str
    """What the form is, for people; also the first part of its name."""
    extension: str
    magic: bytes = b""
    """First bytes of a form that is bytes; forms without it are text."""


_PNG = _Form("_repr_png_", "image/png", "picture", "png", b"\x89PNG\r\n\x1a\n")
_FORMS = (
    _PNG,
    _Form("_repr_jpeg_", "image/jpeg", "picture", "jpg", b"\xff\xd8\xff"),
    _Form("_repr_svg_", "image/svg+xml", "picture", "svg"),
    _Form("_repr_html_", "text/html", "page", "html"),
    _Form("_repr_markdown_", "text/markdown", "text", "md"),
)


class _Wrong(Exception):
    """A form is not what it promises to be."""


class Display:
    """Shows the values of a session's programs.

    Args:
        link: the wire.
        output: prints the text.
        flush: sends what has been printed, to any output.
    """

    def __init__(self, link: Link, output: Output, flush: Callable[[], None]) -> None:
        self._link = link
        self._output = output
        self._flush = flush
        self._numbers = {form.word: count(1) for form in _FORMS}
        self._figures = figures.Shown()

    def show(self, *values: Any) -> None:
        """Show values, each on lines of its own. Raises `TypeError` for a call that was not awaited."""
        for value in values:
            if type(value) is ToolCall:
                raise value._not_awaited()
            if type(value) is HiddenField:
                raise value.misused()
            self._show(value)

    def show_figures(self) -> None:
        """Show the open figures of matplotlib, and close them. Raises nothing."""
        for figure in figures.take_open():
            self._show(figure)

    def value_text(self, value: Any) -> str:
        """Show the value of a program, which is not JSON. Returns its text."""
        known = self._figures.line_of(value)
        if known is not None:
            return known
        text, message = self._made(value)
        self._send(message)
        return text

    def _show(self, value: Any) -> None:
        text, message = self._made(value)
        self._output.write("\n" * self._output.in_line + f"{text}\n")
        self._send(message)

    def _send(self, message: str) -> None:
        if message:
            self._flush()
            line = self._link.line()
            self._link.notify(DISPLAY, f'{message[:-1]},"line":{line}}}' if line else message)

    def _made(self, value: Any) -> tuple[str, str]:
        """The text of a value, and its rich form as the JSON text of a message; empty if it has none."""
        try:
            with _bounded(value):
                text, message = self._text_and_message(value)
        except BaseException as error:  # of a value that is made to break this
            text, message = f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>", ""
        if figures.is_figure(value):
            self._figures.note(value, text)
        return text, message

    def _text_and_message(self, value: Any) -> tuple[str, str]:
        if isinstance(value, str):
            return cut(value), ""
        words: list[str] = []
        for form, content in _forms_of(value, words):
            number = next(self._numbers[form.word])
            name = f"{form.word}-{number}.{form.extension}"
            line = f"[{form.word} {number}: {name}]"
            message, left = self._message(form, name, content)
            if left:
                words.append(f"[{form.word} {number} is left out: {left}]")
                line = ""
            if form.word != "picture":
                text = content if form.extension == "md" else _text_of(value)
                if text or not line:
                    line = cut(text, _TABLE_CHARACTERS)
            return "\n".join([*words, *filter(None, [line])]), message
        return "\n".join([*words, _text_of(value) or cut(safe_repr(value))]), ""

    def _message(self, form: _Form, name: str, content: bytes | str) -> tuple[str, str]:
        """The message of a form; or, of one that is too large, why it is left out."""
        message, room = "", self._link.most_bytes - _MESSAGE
        if isinstance(content, str):
            if len(content) < room:
                message = encode({"media_type": form.media_type, "name": name, "text": content})
        elif len(content) * 4 // 3 < room:
            data = base64.b64encode(content).decode("ascii")
            message = encode({"media_type": form.media_type, "name": name, "data": data})
        if message and len(message) < room:
            return message, ""
        most = f"a message takes {self._link.most_bytes:,} at most (max_message_bytes)"
        return "", f"it has {len(content):,} bytes, and {most}"


def _forms_of(value: Any, words: list[str]) -> Iterator[tuple[_Form, Any]]:
    """The forms of a value, the best first. Of those that it has not, `words` get the reason."""
    if figures.is_figure(value):
        content = _asked("the figure", figures.png, value, words=words)
        if content is not None:
            yield _PNG, content
        return
    given = _called(value, "_repr_mimebundle_", words)
    bundle = given if isinstance(given, dict) else {}
    for form in _FORMS:
        content = bundle.get(form.media_type)
        if content is None:
            content = _called(value, form.method, words)
        if content is None:
            continue
        checked = _asked(f"{form.media_type} of {type(value).__name__}", _checked, form, content, words=words)
        if checked is not None:
            yield form, checked


def _called(value: Any, name: str, words: list[str]) -> Any:
    """What that method of a value returns; None if its type has none: an object may answer to any name."""
    method = getattr(type(value), name, None)
    return None if method is None else _asked(f"{name}() of {type(value).__name__}", method, value, words=words)


def _asked(what: str, method: Callable[..., Any], *arguments: Any, words: list[str]) -> Any:
    """What a method returns, without metadata; None if it fails, and then words say why."""
    try:
        given = method(*arguments)
        return given[0] if isinstance(given, tuple) and len(given) == 2 else given
    except BaseException as error:
        reason = "" if isinstance(error, _Wrong) else f"raised {type(error).__name__}: "
        with contextlib.suppress(BaseException):
            reason += " ".join(str(error)[:_REASON_CHARACTERS].split())
        words.append(f"[{what} {reason.rstrip(': ')}]")
        return None


def _checked(form: _Form, content: Any) -> bytes | str:
    """The content of a form. Raises `_Wrong`."""
    if not form.magic:
        if not isinstance(content, str):
            raise _Wrong(f"is {type(content).__name__}, not text")
        return content
    if isinstance(content, str):
        try:
            content = base64.b64decode(content, validate=True)
        except ValueError:
            raise _Wrong("is text, not bytes") from None
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise _Wrong(f"is {type(content).__name__}, not bytes")
    picture = bytes(content)
    if not picture.startswith(form.magic):
        raise _Wrong("does not begin as such a picture does")
    return picture


def _text_of(value: Any) -> str:
    """The text of a value; empty if it says no more than its type."""
    return "" if getattr(type(value), "__repr__", None) is object.__repr__ else cut(safe_repr(value))


def _bounded(value: Any) -> contextlib.AbstractContextManager[Any]:
    """While a table of pandas shows itself: it is cut to a bounded size, whatever the program's options say."""
    for base in type(value).__mro__:
        if base.__name__ in _TABLES and base.__module__.partition(".")[0] == "pandas":
            context: contextlib.AbstractContextManager[Any] = sys.modules["pandas"].option_context(*_TABLE_OPTIONS)
            return context
    return contextlib.nullcontext()
