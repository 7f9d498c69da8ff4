"""Conversations with the model of a run: with the scripted one, each registered at its endpoint, or with a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace

from callgate.bench.contestants.seat import Opened, Turn
from callgate.bench.model.conversation import Conversation, Talk, converse
from callgate.bench.model.endpoint import Endpoint
from callgate.bench.model.model_client import Wire
from callgate.bench.model.scripted_endpoint import ModelServerFailed, ScriptedEndpoint, model_server
from callgate.bench.workloads.workload import Call, Workload

__all__ = ["RealModel", "ScriptedModel", "talking"]

_SCRIPT = "the model refused: "
_MOST_TURNS = 400
_TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptedModel:
    """The scripted model.

    Attributes:
        turn_seconds: what it takes for a turn.
        token_seconds: and for each token that it gives.
        context_tokens: its context; more is refused.
    """

    turn_seconds: float
    token_seconds: float
    context_tokens: int = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RealModel:
    """A real one; its key is in the environment (`endpoint.KEYS`).

    Attributes:
        name: as its endpoint knows it.
        base_url: empty for the provider's own.
    """

    name: str
    base_url: str = ""


@asynccontextmanager
async def talking(wire: Wire, model: ScriptedModel | RealModel) -> AsyncIterator[Talk]:
    """What `contest.comparison.compare` holds its conversations with. A scripted endpoint that dies is begun again.

    Args:
        wire: whose format goes over HTTP.
        model: who answers.

    Raises:
        EndpointMissing: the SDK is not installed, or there is no key.
        ModelServerFailed: the scripted endpoint did not start.
    """
    if isinstance(model, RealModel):
        async with Endpoint.real(wire, base_url=model.base_url, timeout_seconds=_TIMEOUT_SECONDS) as endpoint:

            async def talk(
                workload: Workload,
                opened: Opened,
                act: Callable[[Sequence[Call]], Awaitable[Turn]],
                *,
                waits: bool,
            ) -> Conversation:
                client = endpoint.model(model.name)
                return await converse(client, task=workload.task, opened=opened, act=act, most_turns=_MOST_TURNS)

            yield talk
        return
    async with AsyncExitStack() as stack:

        async def begun() -> tuple[ScriptedEndpoint, Endpoint]:
            server = await stack.enter_async_context(model_server())
            return server, await stack.enter_async_context(Endpoint.scripted(wire, server.address))

        server, endpoint = await begun()

        async def scripted(
            workload: Workload, opened: Opened, act: Callable[[Sequence[Call]], Awaitable[Turn]], *, waits: bool
        ) -> Conversation:
            nonlocal server, endpoint
            waited = model if waits else replace(model, turn_seconds=0.0, token_seconds=0.0)
            try:
                try:
                    name = await server.register(workload.name, opened, **asdict(waited))
                except ModelServerFailed:
                    if not await server.has_ended():
                        raise
                    server, endpoint = await begun()
                    name = await server.register(workload.name, opened, **asdict(waited))
            except ModelServerFailed as failed:
                return Conversation(reason=str(failed))
            client = endpoint.model(name)
            talked = await converse(client, task=workload.task, opened=opened, act=act, most_turns=_MOST_TURNS)
            talked.reason = talked.reason.removeprefix(_SCRIPT)  # a script that cannot go on says so by a refusal
            return talked

        yield scripted
