"""Regular expressions over tools, in linear time. The one file that imports google-re2.

A pattern comes from a model, and Python's own `re` takes exponential time on some. re2 has no look-around and no
back-references; it says so, and so do we. Upper and lower case are the same.

Knows patterns and text, no tools.
"""

from __future__ import annotations

from callgate.errors import InvalidArguments

__all__ = ["MAX_PATTERN_CHARACTERS", "Pattern"]

MAX_PATTERN_CHARACTERS = 200
"""As other tool searches allow; nobody looks for a tool with more."""
_MAX_MEMORY_BYTES = 1 << 20
"""Of the compiled pattern: `(\\pL{100}){9}` asks for more, and is refused."""


class Pattern:
    """A compiled pattern.

    Args:
        text: at most 200 characters of re2's syntax.

    Raises:
        InvalidArguments: it is empty, too long, too large when compiled, or no pattern.
    """

    def __init__(self, text: str) -> None:
        if not text:
            raise InvalidArguments("the regular expression is empty; write e.g. 'weather|forecast'")
        if len(text) > MAX_PATTERN_CHARACTERS:
            raise InvalidArguments(
                f"the regular expression has {len(text)} characters, at most {MAX_PATTERN_CHARACTERS} are allowed; "
                "shorten it, or search with plain words (regex=False)"
            )
        import re2  # for those who search by patterns

        options = re2.Options()
        options.max_mem = _MAX_MEMORY_BYTES
        options.log_errors = False
        options.case_sensitive = False
        try:
            self._search = re2.compile(text.encode(), options).search
        except UnicodeEncodeError:
            raise InvalidArguments("the regular expression is not valid text") from None
        except re2.error as error:
            why = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
            raise InvalidArguments(
                f"the regular expression cannot be used: {why[:200]} (re2's syntax, without look-around and "
                "back-references); or search with plain words (regex=False)"
            ) from None

    def found_in(self, text: bytes) -> bool:
        """Whether it matches somewhere in the text, which is UTF-8."""
        return self._search(text) is not None
