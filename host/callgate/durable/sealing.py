"""Turns texts into the bytes that a database keeps, and back: as they are, or encrypted. The one file that imports
`cryptography`.

1. A value is encrypted with AES-256-GCM and a random nonce. Each run has a key of its own, derived from the store's, so
   that no key meets many nonces.
2. A value is bound to its run and its place (table, column, row): a value that was copied to another place does not
   open. An older value at its own place does; only a log outside of the file could tell.
3. What is derived from the store's key is derived with keyed BLAKE2b, and a purpose for each.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from callgate.errors import ConfigurationError, StoreFailed
from callgate.extras import how_to_install

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["Plain", "Sealed", "Sealing", "call_digest", "sealing_of"]

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_RUNS: Final = 1_024
"""Derived keys that are kept ready."""


def call_digest(tool: str, arguments_json: str, place: str = "", key: bytes = b"") -> bytes:
    """The digest of a `CallKey`, 32 bytes.

    Args:
        tool: its canonical name.
        arguments_json: canonical JSON of the arguments.
        place: of the step, in a plan.
        key: the store's `digest_key`. Without a key, anybody who can guess the arguments can check the guess.
    """
    hashed = hashlib.blake2b(key=key, digest_size=32, person=b"callgate-call")
    for part in (tool, place, arguments_json):
        text = part.encode("utf-8", "surrogatepass")
        hashed.update(len(text).to_bytes(8, "big"))
        hashed.update(text)
    return hashed.digest()


class Sealing(Protocol):
    """How values become bytes. `run` and `place` name where a value is kept; a value opens there alone."""

    digest_key: bytes
    """The key of `call_digest`."""
    encrypts: bool
    """Whether sealed values are others than the values."""

    def seal(self, value: bytes, run: str, place: str) -> bytes: ...

    def open(self, value: bytes, run: str, place: str) -> bytes:
        """Raises `StoreFailed` for a value that was sealed with another key or for another place."""


class Plain:
    """Keeps values as they are."""

    digest_key = b""
    encrypts = False

    def seal(self, value: bytes, run: str, place: str) -> bytes:
        return value

    def open(self, value: bytes, run: str, place: str) -> bytes:
        return value


class Sealed:
    """Encrypts values.

    Args:
        key: 32 bytes.

    Raises:
        ConfigurationError: `cryptography` is not installed.
    """

    encrypts = True

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise ConfigurationError(f"encryption_key needs cryptography: run {how_to_install('durable')}") from error

        def cipher(run: str) -> AESGCM:
            return AESGCM(_derived(key, b"values", run))

        self._invalid = InvalidTag
        self._cipher = lru_cache(_RUNS)(cipher)
        self.digest_key = _derived(key, b"digests")

    def seal(self, value: bytes, run: str, place: str) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher(run).encrypt(nonce, value, place.encode())

    def open(self, value: bytes, run: str, place: str) -> bytes:
        try:
            return self._cipher(run).decrypt(value[:_NONCE_BYTES], value[_NONCE_BYTES:], place.encode())
        except (self._invalid, ValueError):
            raise StoreFailed(
                f"{place} of run {run!r} cannot be decrypted: the file was changed by another program, or its values "
                "are of another encryption_key; restore a copy of the file"
            ) from None


def sealing_of(encryption_key: object) -> Sealing:
    """The sealing of a store.

    Raises:
        ConfigurationError: the key is not 32 bytes, or `cryptography` is not installed.
    """
    if encryption_key is None:
        return Plain()
    if not isinstance(encryption_key, bytes) or len(encryption_key) != KEY_BYTES:
        raise ConfigurationError(
            f"encryption_key must be {KEY_BYTES} random bytes, not a passphrase: make one with "
            f"secrets.token_bytes({KEY_BYTES}), and keep it apart from the file"
        )
    return Sealed(encryption_key)


def _derived(key: bytes, purpose: bytes, run: str = "") -> bytes:
    return hashlib.blake2b(run.encode("utf-8", "surrogatepass"), key=key, digest_size=32, person=purpose).digest()
