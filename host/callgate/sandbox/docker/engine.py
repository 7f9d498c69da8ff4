"""The one door to a Docker engine: the docker SDK, called from threads, its errors turned into ours with a remedy.

Knows the SDK and what engines answer; knows nothing of guests, pools or images. Nothing else imports ``docker``.

1. The SDK blocks, so each call runs in a worker thread and has a timeout (`TIMEOUT_SECONDS` between two bytes of an
   answer). A call that was begun is not abandoned when a scope is cancelled: its result is awaited. asyncio's own
   cancellation does stop the wait, so a call that makes something stores the id in the thread itself.
2. A refusal of the engine is `EngineRefused`, with the HTTP status; a missing engine is `EngineUnreachable`.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from callgate.errors import ConfigurationError, SandboxError, SandboxUnavailable
from callgate.extras import how_to_install

__all__ = ["TIMEOUT_SECONDS", "Engine", "EngineRefused", "EngineUnreachable", "attach", "late", "within"]

TIMEOUT_SECONDS = 30
_CONNECT_SECONDS = 5.0
_THREADS = 16
_CONNECTIONS = 4
"""Connections kept for later calls. The SDK finds them by the whole address of a call, so few are used again."""
_OLDEST_API = "1.41"
"""API of engine 20.10, the first that knows cgroup v2."""
_NEWEST_API = "1.44"
"""API that the SDK was written for; the oldest that engine 29 speaks."""
_SYSTEM_SOCKET = "unix:///var/run/docker.sock"
_T = TypeVar("_T")


def within(seconds: float, function: Callable[..., _T], *arguments: object) -> _T:
    """Call `function` in a thread of its own and return what it returns, or raise what it raises.

    The thread is a daemon, and so is every thread that it starts: a peer that never answers holds up neither the caller
    nor the end of the process. (On asyncio, anyio's own worker threads are not daemons.)

    Raises:
        TimeoutError: `function` is not done after `seconds`. It goes on, and its result is lost.
    """
    outcome: Future[_T] = Future()

    def work() -> None:
        try:
            outcome.set_result(function(*arguments))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, name="callgate, asking", daemon=True).start()
    return outcome.result(seconds)


class EngineUnreachable(SandboxUnavailable):
    """No engine answers; the message says what was tried and what to do."""


class EngineRefused(SandboxError):
    """The engine answered with an error.

    Attributes:
        status: the HTTP status, e.g. 404 if there is no such container or image.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Engine:
    """One Docker engine. Made with `connect`, ended with `close`.

    Attributes:
        host: where it listens, e.g. ``unix:///var/run/docker.sock``.
    """

    def __init__(self, api: Any, host: str) -> None:
        self._api = api
        self.host = host
        self._threads = anyio.CapacityLimiter(_THREADS)

    @classmethod
    async def connect(cls, docker_host: str | None = None) -> Engine:
        """Reach the engine at `docker_host`, or the one that the docker command would use: ``DOCKER_HOST``, the current
        docker context, the system's socket, a rootless engine's.

        Raises:
            EngineUnreachable: none answers, or the docker SDK is not installed.
            ConfigurationError: `docker_host` is not a usable address.
        """
        api, host = await anyio.to_thread.run_sync(_client, docker_host)
        engine = cls(api, host)
        await anyio.to_thread.run_sync(_translated, host, _negotiate, api, host)
        return engine

    async def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the SDK's ``APIClient`` in a thread. Waits for its end even if cancelled.

        Raises:
            EngineUnreachable: the engine has gone away.
            EngineRefused: it answered with an error.
        """
        return await self.call_with(lambda api: getattr(api, method)(*arguments, **options))

    async def call_within(self, seconds: float, method: str, *arguments: Any, **options: Any) -> Any:
        """Like `call`, with a limit of time: for requests that do no harm if they take effect later.

        Raises:
            EngineUnreachable: no answer within `seconds`, or the engine has gone away.
            EngineRefused: it answered with an error.
        """

        def work(api: Any) -> Any:
            try:
                return within(seconds, lambda: getattr(api, method)(*arguments, **options))
            except TimeoutError:
                raise EngineUnreachable(late(f"the Docker engine at {self.host}", seconds)) from None

        return await self.call_with(work)

    async def stream(self, method: str, *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        """The items of an SDK method that returns an iterator, each fetched in a thread. Raises as `call`."""
        items = iter(await self.call(method, *arguments, **options))
        end = object()
        while True:
            item = await anyio.to_thread.run_sync(
                lambda: _translated(self.host, next, items, end), limiter=self._threads, abandon_on_cancel=True
            )
            if item is end:
                return
            yield item

    async def call_with(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call `function` with the SDK's client and `arguments`, as `call` does."""
        with anyio.CancelScope(shield=True):
            result = await anyio.to_thread.run_sync(
                lambda: _translated(self.host, function, self._api, *arguments), limiter=self._threads
            )
        await anyio.lowlevel.checkpoint_if_cancelled()
        return result

    async def close(self) -> None:
        """Close the kept connections."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._api.close)


def _client(docker_host: str | None) -> tuple[Any, str]:
    if sys.platform == "win32":
        raise EngineUnreachable(
            "containers need an event loop that waits for pipes, which Windows does not have: run callgate in WSL 2, "
            "and turn on its integration in Docker Desktop"
        )
    try:
        import docker
        import docker.errors
        import docker.utils
    except ImportError:
        raise EngineUnreachable(
            f"the docker SDK is not installed: {how_to_install('docker')}; or use sandbox='jail'"
        ) from None
    options: dict[str, Any] = {}
    try:
        if docker_host is None and not os.environ.get("DOCKER_HOST"):
            options.update(docker.ContextAPI.kwargs_from_context())
            options["base_url"] = _local_socket(options.get("base_url", _SYSTEM_SOCKET))
        else:
            options.update(docker.utils.kwargs_from_env())
            if docker_host is not None:
                options["base_url"] = docker_host
    except docker.errors.DockerException as error:
        raise ConfigurationError(f"the docker context or environment cannot be used: {error}") from error
    host = str(options["base_url"])
    if host.startswith("ssh://"):
        raise ConfigurationError(
            f"docker_host {host!r}: callgate does not speak ssh itself; forward the socket "
            "(ssh -NL /tmp/docker.sock:/var/run/docker.sock HOST) and name docker_host='unix:///tmp/docker.sock'"
        )
    try:
        # with no version named, the SDK asks the engine for it here, and with no limit of time
        api = docker.APIClient(**options, version=_OLDEST_API, timeout=TIMEOUT_SECONDS, num_pools=_CONNECTIONS)
    except docker.errors.DockerException as error:
        raise ConfigurationError(
            f"docker_host {host!r} cannot be used: {error}; write unix:///path/docker.sock or tcp://host:port"
        ) from error
    # or REQUESTS_CA_BUNDLE outranks the engine's own authority, and a proxy for the web is asked for the engine
    api.trust_env = False
    return api, host


def _local_socket(found: str) -> str:
    """`found`, or a rootless engine's socket where that is the one there is."""
    rootless = os.path.join(os.environ.get("XDG_RUNTIME_DIR", "/nowhere"), "docker.sock")
    if found == _SYSTEM_SOCKET and not os.path.exists(found.removeprefix("unix://")) and os.path.exists(rootless):
        return f"unix://{rootless}"
    return found


def _negotiate(api: Any, host: str) -> None:
    """Speak the newest version of the API that both sides know."""
    _knock(host)
    try:
        theirs = str(within(_CONNECT_SECONDS, lambda: api.version(api_version=False))["ApiVersion"])
        too_old = _parts(theirs) < _parts(_OLDEST_API)
    except TimeoutError:
        raise EngineUnreachable(late(f"the Docker engine at {host}", _CONNECT_SECONDS)) from None
    except (ValueError, TypeError, LookupError) as error:
        raise EngineUnreachable(f"what answers at {host} is not a Docker engine: {error!r}") from error
    if too_old:
        raise EngineUnreachable(f"the Docker engine at {host} is too old (API {theirs}): use 20.10 or newer")
    api._version = min(theirs, _NEWEST_API, key=_parts)


def _knock(host: str) -> None:
    """Raise `OSError` if nothing listens: the SDK raises, too, but leaves its socket to the garbage collector."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.settimeout(_CONNECT_SECONDS)
            knocking.connect("/" + host.removeprefix("unix://").lstrip("/"))


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def attach(api: Any, container: str) -> socket.socket:
    """The container's stdin, stdout and stderr as one socket that does not block; the caller closes it.

    Attach before `start`: an engine keeps no earlier output. For `Engine.call_with`.
    """
    given = api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    if isinstance(given, ssl.SSLSocket):
        given.setblocking(False)
        return given
    response = given._response
    # a descriptor of our own: the SDK's is closed when its response is collected
    own = socket.socket(fileno=os.dup(given.fileno()))
    response.close()
    own.setblocking(False)
    return own


def _translated(host: str, function: Callable[..., _T], *arguments: Any, **options: Any) -> _T:
    """Call `function`, and turn an error of the SDK into one of ours."""
    import docker.errors
    import requests.exceptions
    import urllib3.exceptions

    try:
        return function(*arguments, **options)
    except docker.errors.APIError as error:
        status = error.response.status_code if error.response is not None else 0
        raise EngineRefused(str(error.explanation or error), status) from error
    except requests.exceptions.Timeout as error:
        raise EngineUnreachable(late(f"the Docker engine at {host}", TIMEOUT_SECONDS)) from error
    except (docker.errors.DockerException, urllib3.exceptions.HTTPError, OSError) as error:
        raise EngineUnreachable(_why(host, error)) from error


def late(engine: str, seconds: float) -> str:
    """Error text for an engine that does not answer."""
    return (
        f"{engine} did not answer within {seconds:g} s: it hangs or is overloaded; "
        "restart it (systemctl restart docker), or name another (docker_host=, --docker-host)"
    )


_ON_LINUX = "apt install docker.io; systemctl start docker"
_INSTALL = _ON_LINUX if sys.platform == "linux" else "Docker Desktop: https://docs.docker.com/desktop/"
_NOT_ALLOWED = (
    "this user may not use the Docker engine at {host}: add the user to the group docker "
    "(sudo usermod -aG docker $USER, then log in again), or use a rootless engine"
)
_GONE = "the Docker engine at {host} went away: start it again (systemctl start docker)"
_REMEDIES = {
    errno.ENOENT: "no Docker engine listens at {host} (there is no such socket): install and start Docker "
    f"({_INSTALL}), or name another engine (docker_host=, --docker-host)",
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.ECONNREFUSED: "the Docker engine at {host} is not running: start it (systemctl start docker), and see that "
    "it listens at this address",
    errno.EPIPE: _GONE,
    errno.ECONNRESET: _GONE,
}


def _why(host: str, error: BaseException) -> str:
    """Why no engine answers at `host`, by the error of the operating system behind `error`, and what to do."""
    behind = list(_behind(error))
    if any(isinstance(each, ssl.SSLError) for each in behind):
        return (
            f"the Docker engine at {host} and this client do not accept each other's certificates ({error}): "
            "DOCKER_CERT_PATH is the folder of ca.pem, cert.pem and key.pem that belong to this engine"
        )
    number = next((each.errno for each in behind if isinstance(each, OSError) and each.errno), 0)
    if "RemoteDisconnected" in repr(error):
        number = number or errno.EPIPE
    return _REMEDIES.get(number, "the Docker engine at {host} cannot be reached: {error}").format(
        host=host, error=error
    )


def _behind(error: BaseException) -> Iterator[BaseException]:
    """`error` and its causes, the nearest first."""
    todo: list[Any] = [error]
    for _ in range(30):
        if not todo:
            return
        each = todo.pop(0)
        if isinstance(each, BaseException):
            yield each
            todo += [*each.args, each.__cause__, each.__context__, getattr(each, "reason", None)]
