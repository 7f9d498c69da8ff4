"""The network that is not there: what would open a connection fails as the kernel has it, in words that say why.

Confines nothing, the kernel does that (`jail`). Without it an error of the resolver reads like one that may pass, and a
program, or the model that wrote it, tries again.
"""

from __future__ import annotations

import errno
import functools
import socket
from collections.abc import Callable
from typing import Any

NO_NETWORK = "programs have no network, and trying again does not help: call a tool instead"

_FUNCTIONS = ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo")


def explain_its_absence() -> None:
    """Have the functions of `socket` say it, in this process and those forked from it."""
    for name in _FUNCTIONS:
        setattr(socket, name, _explained(getattr(socket, name)))
    socket.socket.__init__ = _explained(socket.socket.__init__)  # type: ignore[method-assign]


def _explained(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def explained(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except OSError as error:
            if isinstance(error, (socket.gaierror, socket.herror)) or error.errno in (errno.EPERM, errno.EACCES):
                error.args = (error.errno, NO_NETWORK)
                error.strerror = NO_NETWORK
            raise

    return explained
