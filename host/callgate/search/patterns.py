"""Regular expressions over tools, in linear time. The only file that imports google-re2.

A pattern comes from a model, and Python's own `re` takes exponential time on some patterns. re2 has no look-around and
no back-references, and refuses them. Case does not matter.

Knows patterns and text, no tools.
"""

from __future__ import annotations

from callgate.errors import InvalidArguments

__all__ = ["MAX_PATTERN_CHARACTERS", "Pattern"]

MAX_PATTERN_CHARACTERS = 200
"""Most characters of a pattern, as in other tool searches."""
_MAX_MEMORY_BYTES = 1 << 20
"""Most memory of a compiled pattern: `(\\pL{100}){9}` wants more, and is refused."""


class Pattern:
    """A compiled pattern.

    Args:
        text: at most 200 characters of re2's syntax.

    Raises:
        InvalidArguments: the text is empty, too long, too large when compiled, or not a pattern.
    """

    def __init__(self, text: str) -> None:
        if not text:
            raise InvalidArguments("the regular expression is empty; write e.g. 'weather|forecast'")
        if len(text) > MAX_PATTERN_CHARACTERS:
            raise InvalidArguments(
                f"the regular expression has {len(text)} characters, at most {MAX_PATTERN_CHARACTERS} are allowed; "
                "shorten it, or search with plain words (regex=False)"
            )
        import re2  # imported only for patterns

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
        """Whether the pattern matches somewhere in the text, which is UTF-8."""
        return self._search(text) is not None
