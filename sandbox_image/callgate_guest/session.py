"""Serving the host: one ``execute`` request after the other, until the wire is closed.

A guest that serves one run and a guest that is a session are the same: names live on in one namespace between programs.
"""

from __future__ import annotations

import asyncio
import builtins
import contextvars
import json
import linecache
import mmap
import os
import sys
import threading
import types
from collections.abc import Callable, Coroutine
from typing import Any

from .calls import Offered, ToolError, call_by_name
from .link import Link, encode
from .output import Output
from .program import VALUE, Program, describe, value_of
from .wire import CANCELLED, PRINT, PROGRAM_FAILED, PROGRAM_NAME


class TooManyThreads(RuntimeError):
    """The kernel lets this program have no more threads."""


TooManyThreads.__module__ = "builtins"

_THREAD_STARTERS = {
    name: getattr(threading, name)
    for name in ("_start_new_thread", "_start_joinable_thread")  # the second since Python 3.13
    if hasattr(threading, name)
}


_THREAD_BYTES = 2 << 20
"""What a new thread may need before its first line runs: a pymalloc arena (1 MiB), a stack of frames, small change."""


def _guarded(start: Any) -> Callable[..., Any]:
    def start_thread(*arguments: Any, **options: Any) -> Any:
        # CPython's Thread.start waits for ever for a thread that finds no memory for its first frame
        try:
            mmap.mmap(-1, _THREAD_BYTES, flags=mmap.MAP_PRIVATE).close()
        except OSError:
            raise MemoryError("no memory for another thread") from None
        try:
            return start(*arguments, **options)
        except RuntimeError as error:
            raise TooManyThreads(f"{error}: the limit max_processes is reached") from None

    return start_thread


class Session:
    """State that lives as long as the guest: the namespace, the event loop, the wire."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.link = Link(incoming, outgoing)
        self._module = types.ModuleType("__main__")
        self._namespace = self._module.__dict__
        self._namespace["__builtins__"] = builtins
        self._offered = Offered(self.link, self._namespace)
        self._count = 0
        self._main: asyncio.Task[Any] | None = None
        self._loop = asyncio.new_event_loop()
        self._outputs = (Output(self._print, 1), Output(self._print, 2))
        self.link.before_write = self._flush
        self.link.on_cancel = self._cancel

    def close(self) -> None:
        """Close the event loop and the wire."""
        self._loop.close()
        self.link.close()

    def serve(self, *, once: bool = False) -> None:
        """Answer requests until the host closes the wire, or one request."""
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = self._outputs  # type: ignore[misc, assignment]
        sys.modules["__main__"] = self._module
        sys.modules["tools"] = self._offered.module
        builtins.ToolError = ToolError  # type: ignore[attr-defined]
        builtins.tool_call = call_by_name(self.link)  # type: ignore[attr-defined]
        builtins.tools = self._offered.module  # type: ignore[attr-defined]
        asyncio.run = self._run_anywhere
        for name, start in _THREAD_STARTERS.items():
            setattr(threading, name, _guarded(start))
        while (request := self.link.next_request()) is not None:
            number = request["id"]
            try:
                body = '"result":{' + self._execute(request["params"]) + "}"
            except BaseException as error:
                failure = {"code": PROGRAM_FAILED, "message": "the program failed", "data": describe(error)}
                del error
                body = '"error":' + _encode_failure(failure)
            self.link.reply(number, body)
            if once:
                break

    def _execute(self, params: dict[str, Any]) -> str:
        self._count += 1
        self._offered.bind(params["tools"], params.get("namespaces", {}))
        self._namespace.update(params["inputs"])
        name = PROGRAM_NAME if self._count == 1 else f"<program-{self._count}>"
        program = Program(params["code"], name)
        self._namespace.pop(VALUE, None)  # of a program that failed after it
        try:
            value = types.FunctionType(program.code, self._namespace)()
            if program.is_async:
                value = self._run_main(value)
            if program.returns:
                self._namespace[VALUE] = value
        except SystemExit as leave:
            if leave.code not in (None, 0):
                raise
        finally:
            self._settle()
        return value_of(self._namespace)

    # the event loop

    def _run_main(self, main: Coroutine[Any, Any, Any]) -> Any:
        async def run() -> Any:
            self._main = asyncio.current_task()
            try:
                return await main
            finally:
                await self._end_tasks()

        try:
            return self._loop.run_until_complete(run())
        finally:
            self._main = None

    def _cancel(self) -> None:
        if self._main is not None:
            self._loop.call_soon_threadsafe(self._main.cancel)

    def _run_anywhere(self, main: Coroutine[Any, Any, Any], **options: Any) -> Any:
        """``asyncio.run``, which programs also call where a loop is running already: then on a thread of its own."""
        if asyncio._get_running_loop() is None:
            return _asyncio_run(main, **options)
        outcome: list[Any] = []
        context = contextvars.copy_context()

        def work() -> None:
            try:
                outcome.extend((True, _asyncio_run(main, **options)))
            except BaseException as error:
                outcome.extend((False, error))

        thread = threading.Thread(target=context.run, args=(work,))
        thread.start()
        thread.join()
        if outcome[0]:
            return outcome[1]
        raise outcome[1]

    def _settle(self) -> None:
        """What CPython does at the end of a program: wait for its threads. Calls that nobody waits for are given up."""
        if asyncio.all_tasks(self._loop):  # a task raised SystemExit, which stops the loop at once
            self._loop.run_until_complete(self._end_tasks())
        futures = sys.modules.get("concurrent.futures.thread")
        pooled = getattr(futures, "_threads_queues", {})
        here = threading.current_thread()
        for thread in threading.enumerate():
            if thread is not here and not thread.daemon and thread not in pooled:
                thread.join()
        self.link.forget_all({"code": CANCELLED, "message": "the program that made this call has ended"})

    async def _end_tasks(self) -> None:
        """What `asyncio.run` does at its end: cancel the tasks that are left, close the asynchronous generators."""
        await asyncio.sleep(0)  # a generator that was just dropped starts a task to close itself
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.gather(*left, return_exceptions=True)
        generators = list(getattr(self._loop, "_asyncgens", ()))
        await asyncio.gather(*(generator.aclose() for generator in generators), return_exceptions=True)

    # what the program prints

    def _print(self, text: str) -> None:
        self.link.notify(PRINT, {"text": text})

    def _flush(self) -> None:
        for output in self._outputs:
            output.flush()


_asyncio_run: Callable[..., Any] = asyncio.run


def _encode_failure(failure: dict[str, Any]) -> str:
    try:
        return encode(failure)
    except (TypeError, ValueError, RecursionError):  # the program put something odd into a ToolError
        data = failure["data"]
        return encode({**failure, "data": {key: data[key] for key in ("kind", "message", "line", "traceback")}})


def take_the_wire() -> tuple[int, int]:
    """Move the wire away from fd 0 and 1: stdin becomes empty, and what is written to stdout goes to stderr."""
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return incoming, outgoing


_REHEARSAL = """
import asyncio, os
async def fetch(n):
    call = (rehearsals.first if n else rehearsal)(n)
    os.write(wire, b'{"jsonrpc":"2.0","result":{"n":[1,2.5,"x",null]},"id":1}\\n')
    return (await call).n
print(f"{len(await fetch(1))}")
[x for x in await asyncio.gather(asyncio.sleep(0))]
"""


def rehearse() -> None:
    """Serve one run on a wire of this process's own, and leave no trace.

    CPython specialises code as it runs and fills caches, which writes to memory. Done in the zygote, children share
    the result; done in a child, that child has its pages before its program comes.
    """
    from_host, to_guest = os.pipe()
    from_guest, to_host = os.pipe()
    outputs, main = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__), sys.modules["__main__"]
    offered = {"tools": ["rehearsal  n"], "namespaces": {"rehearsals": "first=rehearsal"}}
    params = {"code": _REHEARSAL, **offered, "inputs": {"wire": to_guest}}
    request = {"jsonrpc": "2.0", "method": "execute", "params": params, "id": 0}
    os.write(to_guest, json.dumps(request).encode() + b"\n")
    session = Session(from_host, to_host)
    session.serve(once=True)
    reply = os.read(from_guest, 1 << 16)
    session.close()
    os.close(to_guest)
    os.close(from_guest)
    sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = outputs  # type: ignore[misc]
    sys.modules["__main__"] = main
    del sys.modules["tools"], sys.modules["tools.rehearsals"]
    linecache.cache.clear()
    if b'"value":[null]' not in reply:
        raise RuntimeError(f"the rehearsal failed: {reply.decode()[:500]}")
