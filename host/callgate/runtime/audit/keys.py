"""The key of an audit log: given, or kept in a file beside the log, which may be a link to where the key is kept."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from callgate.errors import ConfigurationError
from callgate.portable import BINARY

from .chain import KEY_BYTES

__all__ = ["key_of", "read_key"]

_HEX = re.compile(r"\s*([0-9a-fA-F]{32,128})\s*")


def key_of(path: Path) -> bytes:
    """The key in ``<path>.key``, which is made if neither it nor the log is there. Several processes get one key.

    Raises:
        ConfigurationError: the log is there and its key is not; its key is a link to nothing; the key cannot be read or
            written.
    """
    file = Path(f"{path}.key")
    try:
        if not file.exists():
            if file.is_symlink() or (path.exists() and path.stat().st_size):
                raise ConfigurationError(
                    f"the audit log {str(path)!r} has a key, and the key {str(file)!r} is missing: put the key back, "
                    "or make a link of that name to it, or pass it as AuditLog(path, key=...)"
                )
            _make(file)
        return read_key(file)
    except OSError as error:
        raise ConfigurationError(f"the key of the audit log, {str(file)!r}: {error.strerror}") from None


def _make(file: Path) -> None:
    beside = file.with_name(f".{file.name}-{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
    try:
        os.write(descriptor, f"{secrets.token_hex(KEY_BYTES)}\n".encode())
        os.fsync(descriptor)
        os.link(beside, file)
    except FileExistsError:  # another process was quicker
        pass
    finally:
        os.close(descriptor)
        os.unlink(beside)


def read_key(file: Path) -> bytes:
    """The key in a file, as hexadecimal digits. Raises `OSError`, `ConfigurationError`."""
    with file.open("rb") as stream:
        found = _HEX.fullmatch(stream.read(1000).decode("ascii", "replace"))
    if found is None or len(found[1]) % 2:
        raise ConfigurationError(f"{str(file)!r} is not the key of an audit log: it has 64 hexadecimal digits")
    return bytes.fromhex(found[1])
