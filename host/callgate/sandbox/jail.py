"""The jail as a backend: chooses the tier, proves it before the first program, keeps one zygote and replaces it.

A tier counts as working when a child of it answers a program *and* that program, which tries to open a host file, to
make a socket and to start a process, is refused each time, *and* the kernel says of the child, from outside, that it
has no capability, no_new_privs and a seccomp filter.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace

import anyio
import anyio.to_thread

from callgate.errors import ConfigurationError, SandboxCrashed, SandboxError, SandboxUnavailable

from .backend import Allowance, Files, python_here
from .launching import ZygoteSettings
from .packages import checked
from .self_test import SELF_TEST_ALLOWANCE, check_from_outside, prove
from .staging import checked_folders, named_folders, remove_abandoned
from .zygote import JailedGuest, Zygote

__all__ = ["JailBackend"]

_RUNS_PER_ZYGOTE = 5000
_DESCRIPTIONS = {
    1: "jail, tier 1: own user, mount, pid, net, ipc, uts and cgroup namespaces, empty read-only root, "
    "Landlock, seccomp, rlimits",
    2: "jail, tier 2 (no namespaces here): Landlock, seccomp, rlimits, no capabilities; "
    "file names of the host can be probed with stat",
}
_NO_FILES = "the jail's tier 2 has no files: allow user namespaces for tier 1, or use sandbox='docker'"


class JailBackend:
    """Guests forked from a zygote and confined by the kernel.

    Args:
        tier: 1 or 2 to insist on it; ``None`` takes the strongest that passes its self-test.
        packages: a folder of packages that guests may import from, read-only; its lock, if it has one, is of this
            Python.
        preimport: modules imported ahead, for every guest.
        folders: folders of the host that guests may read, by their names below ``/input``. Only tier 1 has them.

    Raises:
        ConfigurationError: a folder has no name that it can have below ``/input``, or `tier` is 2.
    """

    name = "jail"
    python = python_here()

    def __init__(
        self,
        *,
        tier: int | None = None,
        packages: str | None = None,
        preimport: tuple[str, ...] = (),
        folders: Mapping[str, str | os.PathLike[str]] | None = None,
    ) -> None:
        self.packages = () if packages is None else checked(packages).shown
        """Names and versions of what is in `packages`, for models."""
        named = named_folders(folders or {})
        if named and tier == 2:
            raise ConfigurationError(f"folders: {_NO_FILES}")
        self._settings = ZygoteSettings(tier=tier or 1, packages=packages, preimport=preimport, folders=named)
        self._tiers = (tier,) if tier else (1,) if named else (1, 2)
        self._zygote: Zygote | None = None
        self._retired: set[Zygote] = set()
        self._replacing = anyio.Lock()
        self.tier = 0
        self.reasons: dict[int, str] = {}

    def replaying(self) -> JailBackend:
        """See `Backend`. Once this one is entered: of the same tier."""
        settings = self._settings
        other = JailBackend(
            tier=self.tier or (self._tiers[0] if len(self._tiers) == 1 else None), packages=settings.packages,
            preimport=settings.preimport, folders=dict(settings.folders),
        )  # fmt: skip
        other._settings = replace(other._settings, replays=True)
        return other

    @property
    def description(self) -> str:
        return _DESCRIPTIONS.get(self.tier, "jail, not started")

    @property
    def sharing(self) -> str:
        """How far guests share the zygote's memory."""
        return self._zygote.sharing if self._zygote else ""

    @property
    def no_files(self) -> str:
        """Why guests have no files."""
        return _NO_FILES if self.tier == 2 else ""

    @property
    def zygote_pid(self) -> int:
        """Process id of the current zygote; 0 if there is none."""
        return self._zygote.pid if self._zygote else 0

    async def __aenter__(self) -> JailBackend:
        if sys.platform != "linux":
            raise SandboxUnavailable("the jail needs Linux; on other systems, run callgate in a Linux virtual machine")
        self._replacing = anyio.Lock()  # a lock belongs to one event loop, and this may be entered again in another
        self._retired.clear()
        await anyio.to_thread.run_sync(remove_abandoned)
        if self._settings.folders:
            await anyio.to_thread.run_sync(checked_folders, dict(self._settings.folders))
        try:
            for tier in self._tiers:
                self._settings = replace(self._settings, tier=tier)
                try:
                    self._zygote = await self._proven_zygote()
                except SandboxError as error:
                    self.reasons[tier] = str(error)
                    continue
                self.tier = tier
                return self
            reasons = "; ".join(f"tier {tier}: {reason}" for tier, reason in self.reasons.items())
            raise SandboxUnavailable(
                f"the jail does not work on this machine ({reasons}). "
                "Allow user namespaces or Landlock: `callgate doctor` says which setting forbids them"
            )
        except BaseException:
            await self.__aexit__(*sys.exc_info())
            raise

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            for zygote in {self._zygote, *self._retired} - {None}:
                assert zygote is not None
                await zygote.close()
            self._zygote = None

    async def open(self, allowance: Allowance) -> JailedGuest:
        return await self._opened(allowance)

    async def open_with(self, allowance: Allowance, files: Files) -> JailedGuest:
        """A guest that finds the files below /input: see `Backend`.

        Raises:
            ConfigurationError: a file cannot be read, or its name is taken.
            SandboxError: it cannot be had.
        """
        if self.no_files:
            raise SandboxUnavailable(self.no_files)
        return await self._opened(allowance, files)

    async def _opened(self, allowance: Allowance, files: Files | None = None) -> JailedGuest:
        try:
            return await (await self._working_zygote()).spawn(allowance, files)
        except SandboxCrashed:
            if self._zygote is None or self._zygote.alive:
                raise
        return await (await self._working_zygote()).spawn(allowance, files)  # once more, with a new zygote

    async def _working_zygote(self) -> Zygote:
        zygote = self._zygote
        if zygote is None:
            raise SandboxCrashed("the jail is not running: it was not entered, or it was left")
        if not zygote.alive or zygote.spawned_in_all >= _RUNS_PER_ZYGOTE:
            zygote = await self._replace(zygote)
        return zygote

    async def _replace(self, worn: Zygote) -> Zygote:
        async with self._replacing:
            if self._zygote is not None and self._zygote is not worn and self._zygote.alive:
                return self._zygote
            fresh = Zygote(self._settings)
            await fresh.start()
            self._zygote = fresh
            self._retired.add(worn)
            for old in [each for each in self._retired if not each.alive or each.live_guests == 0]:
                self._retired.discard(old)
                await old.close()
            return fresh

    async def _proven_zygote(self) -> Zygote:
        zygote = Zygote(self._settings)
        await zygote.start()
        try:
            guest = await zygote.spawn(SELF_TEST_ALLOWANCE)
            await prove(guest, while_it_lives=lambda: check_from_outside(guest.pid))
        except BaseException:
            await zygote.close()
            raise
        return zygote
