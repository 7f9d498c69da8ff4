"""``auto``: the sandbox for callers that name none. Knows the order and tries each in turn; knows no kernel, no engine.

The rule on Linux, the first that works:

1. The **jail, tier 1**. The kernel boundary of a container, started in milliseconds, with no daemon and no image.
2. **docker**, where an engine answers within `DOCKER_SECONDS`, limits memory and processes, has seccomp on, and has the
   image, built for this callgate. Nothing is built or pulled, and no engine is started: the operator does that.
3. The **jail, tier 2**: no namespaces.
4. None: `SandboxUnavailable`, with the reason of each and what to do. Never ``unsafe``.

On macOS: docker, then **srt**, if its self-test passes. On Windows: docker. On Linux srt is never taken by itself: the
jail confines more there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from callgate.errors import SandboxCrashed, SandboxError, SandboxUnavailable

from .backend import Allowance, Backend, Files, Guest, python_here, replaying

__all__ = ["DOCKER_SECONDS", "AutoBackend", "Candidate"]

DOCKER_SECONDS = 2.0
"""Longest wait of ``auto`` for all answers of a Docker engine."""

_NOT_RUNNING = "the sandbox is not running: it was not entered, or it was left"

_WAYS = {
    "darwin": "Either install Docker Desktop (https://docs.docker.com/desktop/), then `pip install 'callgate[docker]'` "
    "and `callgate image build`; or `npm install -g @anthropic-ai/sandbox-runtime` and "
    "`brew install ripgrep`",
    "win32": "To have one, run callgate in WSL 2 (`wsl --install`), which is Linux and has all sandboxes, also with "
    "the engine of Docker Desktop (https://docs.docker.com/desktop/features/wsl/)",
}
"""How to have a sandbox where there is no jail."""

Candidate = Callable[[], Awaitable[Backend]]
"""Makes a backend that is not entered. Raises `SandboxError` if entering is pointless; the message says what to do."""


class AutoBackend:
    """The first of several backends that works. The choice is made when `AutoBackend` is entered.

    Args:
        preimport: modules imported ahead, for every guest.
        packages: a folder of packages that guests may import from, on other systems than Linux: see `make_backend`.
        folders: folders that guests may read, by their names below ``/input``, on other systems than Linux.
        system: the operating system, as `sys.platform` names it.
        candidates: names and the makers of the backends, strongest first; ``None`` takes those of the rule above.

    After a mistake of the operator (`ConfigurationError`) no other backend is tried: entering raises the error.

    Attributes:
        chosen: the backend that was taken; ``None`` before entering and after leaving.
        reasons: why the backends before it were not taken, by name.
    """

    def __init__(
        self,
        *,
        preimport: tuple[str, ...] = (),
        packages: str | None = None,
        folders: Mapping[str, str | os.PathLike[str]] | None = None,
        candidates: Mapping[str, Candidate] | None = None,
        system: str = sys.platform,
    ) -> None:
        by_rule = _by_the_rule(system, preimport, packages, folders)
        self._candidates = by_rule if candidates is None else candidates
        self._ways = _WAYS.get(system, "`callgate doctor` tries each and says which setting forbids it")
        self.chosen: Backend | None = None
        self.reasons: dict[str, str] = {}

    def replaying(self) -> Backend:
        """See `Backend`. Only of the chosen backend."""
        if self.chosen is None:
            raise SandboxCrashed(_NOT_RUNNING)
        return replaying(self.chosen)

    @property
    def name(self) -> str:
        """Name of the chosen backend; ``auto`` before the choice."""
        return "auto" if self.chosen is None else self.chosen.name

    @property
    def description(self) -> str:
        return "auto, not started" if self.chosen is None else self.chosen.description

    @property
    def python(self) -> str:
        """Version of Python in the guests. Before the choice: this process's own, which the jail, tried first, has."""
        return python_here() if self.chosen is None else getattr(self.chosen, "python", "")

    @property
    def packages(self) -> tuple[str, ...]:
        """Names and versions of packages that guests may import."""
        return () if self.chosen is None else getattr(self.chosen, "packages", ())

    @property
    def no_files(self) -> str:
        """Why guests have no files: the chosen backend's reason."""
        return "" if self.chosen is None else str(getattr(self.chosen, "no_files", f"{self.name} has no files"))

    async def __aenter__(self) -> AutoBackend:
        for name, make in self._candidates.items():
            backend = None
            try:
                backend = await make()
                await backend.__aenter__()
            except SandboxError as error:
                self.reasons[name] = _reason(backend, error)
            else:
                self.chosen = backend
                return self
        reasons = ". ".join(f"{name}: {reason}" for name, reason in self.reasons.items())
        raise SandboxUnavailable(f"no sandbox works on this machine. {reasons}. {self._ways}")

    async def __aexit__(self, *error: object) -> None:
        backend, self.chosen = self.chosen, None
        if backend is not None:
            await backend.__aexit__(*error)

    async def open(self, allowance: Allowance) -> Guest:
        """A guest of the chosen backend; raises what that backend raises."""
        if self.chosen is None:
            raise SandboxCrashed(_NOT_RUNNING)
        return await self.chosen.open(allowance)

    async def open_with(self, allowance: Allowance, files: Files) -> Guest:
        """A guest of the chosen backend that has files; raises what that backend raises."""
        guest: Guest = await self.chosen.open_with(allowance, files)  # type: ignore[union-attr]  # `no_files` was asked
        return guest


def _by_the_rule(
    system: str, preimport: tuple[str, ...], packages: str | None, folders: Mapping[str, str | os.PathLike[str]] | None
) -> dict[str, Candidate]:
    """What ``auto`` tries on a system, as `sys.platform` names it."""

    async def jail(tier: int) -> Backend:
        from .jail import JailBackend

        return JailBackend(tier=tier, preimport=preimport)

    async def docker() -> Backend:
        # imported here: where tier 1 works, none of these modules is needed
        from .docker.backend import DockerBackend
        from .docker.doctor import must_be_ready

        await must_be_ready(DOCKER_SECONDS)
        return DockerBackend(preimport=preimport, packages=packages, folders=folders)

    async def srt() -> Backend:
        from .srt.backend import SrtBackend

        if folders:
            raise SandboxUnavailable(SrtBackend.no_files)
        return SrtBackend(packages=packages, preimport=preimport)

    if system == "linux":
        return {"jail, tier 1": partial(jail, 1), "docker": docker, "jail, tier 2": partial(jail, 2)}
    return {"docker": docker, "srt": srt} if system == "darwin" else {"docker": docker}


def _reason(backend: Backend | None, error: SandboxError) -> str:
    reasons: Mapping[int, str] = getattr(backend, "reasons", {})  # the jail's, by tier
    return "; ".join(reasons.values()) or str(error)
