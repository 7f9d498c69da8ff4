"""Which sandbox: a name to a backend. `auto` takes the strongest that works and never one that isolates nothing."""

from __future__ import annotations

import os

from callgate.errors import ConfigurationError

from .backend import Backend
from .jail import JailBackend
from .unsafe import UnsafeBackend

__all__ = ["SANDBOXES", "make_backend"]

SANDBOXES = ("auto", "jail", "unsafe")
"""Names for `Runtime(sandbox=...)` and ``--sandbox``. ``auto`` is the jail: the strongest there is in this release."""


def make_backend(
    sandbox: str | Backend, *, packages: str | None = None, preimport: tuple[str, ...] = (), tier: int | None = None
) -> Backend:
    """The backend of that name, not yet started.

    Args:
        sandbox: a name of `SANDBOXES`, or a backend of one's own.
        packages: a site-packages folder that guests may import from.
        preimport: modules imported ahead for every guest.
        tier: insist on this tier of the jail.

    Raises:
        ConfigurationError: there is no sandbox of that name, or it cannot do what is asked.
    """
    if not isinstance(sandbox, str):
        return sandbox
    if tier not in (None, 1, 2):
        raise ConfigurationError(f"the jail has tier 1 and tier 2, not {tier!r}")
    if packages is not None and not os.path.isdir(packages):
        raise ConfigurationError(f"packages: there is no folder {packages!r}")
    if sandbox in ("auto", "jail"):
        return JailBackend(tier=tier, packages=packages, preimport=preimport)
    if sandbox == "unsafe":
        if packages or preimport:
            raise ConfigurationError(
                "sandbox='unsafe' has this interpreter's own packages; leave packages and preimport out"
            )
        return UnsafeBackend()
    raise ConfigurationError(f"there is no sandbox {sandbox!r}; there are: {', '.join(SANDBOXES)}")
