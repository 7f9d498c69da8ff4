"""Names under which secrets stand: of arguments, fields, headers, and of variables in texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Final

__all__ = ["REDACTED", "SECRET_KEYS", "joined", "key_test"]

REDACTED: Final = "[redacted]"
"""Stands in the place of a value that was redacted."""
SECRET_KEYS: Final = frozenset(
    {
        "access_key", "access_token", "api_key", "auth", "auth_token", "authorization", "bearer", "client_secret",
        "connection_string", "cookie", "cookies", "credential", "credentials", "credit_card", "csrf", "cvv", "id_token",
        "jwt", "one_time_code", "otp", "passcode", "passphrase", "passwd", "password", "passwords", "pgpassword",
        "pin_code", "private_key", "proxy_authorization", "pwd", "refresh_token", "secret", "secret_key", "secrets",
        "session_token", "set_cookie", "signing_key", "ssn", "token",
    }
)  # fmt: skip
"""The keys that are redacted unless the operator says otherwise."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+|[^\W_]")
_LONGEST: Final = 200
"""Characters of a key, from its end, that are read: the last words decide."""


def joined(key: str) -> str:
    """The words of a key as one, as tests compare it."""
    return "".join(_WORD.findall(key)).casefold()


def key_test(keys: Collection[str]) -> Callable[[str], bool]:
    """A test whether a key is one of these, or ends with the words of one: ``DB-Password``, ``githubToken``.

    Case, ``-``, ``_``, dots and spaces make no difference. ``token_count`` and ``max_tokens`` do not end with
    ``token``.
    """
    wanted = frozenset(map(joined, keys)) - {""}

    @lru_cache(maxsize=1_024)
    def of_short(key: str) -> bool:
        words = [word.casefold() for word in _WORD.findall(key)]
        ending = ""
        for word in reversed(words):
            ending = word + ending
            if ending in wanted:
                return True
        return False

    return lambda key: of_short(key if len(key) <= _LONGEST else key[-_LONGEST:])
