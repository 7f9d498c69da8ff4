"""What a backend promises that has the verb `replaying`: its guests hash texts alike, and ordinary guests do not.

Skipped where a backend has no such verb.
"""

from __future__ import annotations

import pytest

from callgate.sandbox.backend import Backend, replaying

from .asking import ask
from .opening import OpensBackend

__all__ = ["Replays"]


class Replays(OpensBackend):
    """Guests for runs that can be replayed come from a backend of their own."""

    @pytest.fixture
    def replaying(self, backend: Backend) -> Backend:
        """The backend of such guests, not entered."""
        if not hasattr(backend, "replaying"):
            pytest.skip(f"{backend.name} has no method replaying")
        return replaying(backend)

    async def test_guests_that_replay_hash_texts_alike_and_others_do_not(
        self, backend: Backend, replaying: Backend
    ) -> None:
        found = []
        async with replaying:
            assert (replaying.name, replaying.description) == (backend.name, backend.description)
            for each in (replaying, replaying, backend):
                guest = await each.open(self.allowance)
                found.append((await ask(guest, "import sys\n[hash('probe'), sys.flags.hash_randomization]")).value)
                await guest.aclose()
        assert found[0] == found[1]
        assert found[0][0] != found[2][0]
        assert [each[1] for each in found] == [0, 0, 1]
        guest = await backend.open(self.allowance)  # leaving one leaves the other as it was
        assert (await ask(guest, "1 + 1")).value == 2
        await guest.aclose()
