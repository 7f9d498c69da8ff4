"""Serving the host: one ``execute`` request after the other, until the wire is closed.

A guest that serves one run and a guest that is a session are the same: names live on in one namespace between programs.
"""

from __future__ import annotations

import asyncio
import builtins
import json
import linecache
import math
import mmap
import os
import sys
import threading
import types
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import Any

from . import asking, figures, final_answer
from .display import Display
from .figures import PYPLOT
from .link import Link, encode
from .loops import Loops
from .nursery import Nursery, join_threads
from .output import Output
from .program import VALUE, Program, describe, safe_repr, value_of
from .tool_calls import FUNCTION, KINDS, GivenTools, ToolError, call_by_name
from .wire import CANCELLED, ENDING, PRINT, PROGRAM_FAILED, PROGRAM_NAME


class TooManyThreads(RuntimeError):
    """The kernel lets this program have no more threads."""

    __module__ = "builtins"


_THREAD_STARTERS = {
    name: getattr(threading, name)
    for name in ("_start_new_thread", "_start_joinable_thread")  # the second since Python 3.13
    if hasattr(threading, name)
}


_THREAD_BYTES = 2 << 20
"""Memory that a new thread may need before its first line runs: a pymalloc arena (1 MiB), a stack of frames, small
parts."""


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
    """State that lives as long as the guest: the namespace, the event loop, the wire.

    Made and installed before a guest is forked, it lies in memory that guests share.
    """

    def __init__(self) -> None:
        self.link = Link()
        self._module = types.ModuleType("__main__")
        self._namespace = self._module.__dict__
        self._given_tools = GivenTools(self.link, self._namespace)
        self._count = 0
        self._main: asyncio.Task[Any] | None = None
        self._nursery = Nursery(self.link)
        self._loops = Loops(self.link, self._nursery)
        self._outputs = (Output(self._print, 1, self.link.line), Output(self._print, 2, self.link.line))
        self.link.before_write = self._flush
        self.link.on_cancel = self._cancel

    def close(self) -> None:
        """Close the event loop and the wire."""
        self._loops.close()
        self.link.close()

    def install(self) -> None:
        """Give this process's programs the outputs, tools and event loop of this session."""
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = self._outputs  # type: ignore[misc, assignment]
        sys.modules["__main__"] = self._module
        sys.modules["tools"] = self._given_tools.module
        for kind in (ToolError, *KINDS.values()):
            setattr(builtins, kind.__name__, kind)
        builtins.tool_call = call_by_name(self.link)  # type: ignore[attr-defined]
        builtins.tools = self._given_tools.module  # type: ignore[attr-defined]
        builtins.display = self._show  # type: ignore[attr-defined]
        figures.on_show = self._show_figures
        asking.give(FUNCTION)
        asking.hide_own_frames()
        self._loops.install()
        for name, start in _THREAD_STARTERS.items():
            setattr(threading, name, _guarded(start))

    def serve(self, incoming: int, outgoing: int, *, most: float = math.inf) -> None:
        """Answer requests until the host closes the wire, or `most` requests. See `Link.attach`."""
        self.link.attach(incoming, outgoing)
        # after the fork: this makes the collector track the namespace, and `gc.freeze` would hide it from programs
        self._namespace["__builtins__"] = builtins
        asyncio.set_event_loop(None)  # as `install` does: since Python 3.12 a fork undoes it, and asyncio makes a loop
        while most > 0 and (request := self.link.next_request()) is not None:
            most -= 1
            number = request["id"]
            try:
                body = '"result":{' + self._execute(request["params"], number) + "}"
            except BaseException as error:
                failure = {"code": PROGRAM_FAILED, "message": "the program failed", "data": describe(error)}
                del error
                body = '"error":' + _encode_failure(failure)
            self.link.reply(number, body)

    def _execute(self, params: dict[str, Any], number: Any) -> str:
        self._count += 1
        if "replay" in params:
            from . import replaying  # few guests need it

            replaying.begin(self.link, self._loops, params["replay"], number)
        self._given_tools.bind(params["tools"], params.get("namespaces", {}), params.get("docs"))
        self._namespace.update(params["inputs"])
        final_answer.offer(self.link, offered=params.get("answers", False))
        name = PROGRAM_NAME if self._count == 1 else f"<program-{self._count}>"
        self.link.program = name
        program = Program(params["code"], name)
        self._namespace.pop(VALUE, None)  # of a program that failed after it
        keeps = params.get("keeps", False)
        if "most" in params:
            self.link.most_bytes = params["most"]
        nursery = self._nursery
        nursery.begin()
        try:
            self._run(program)
            self._finish()
            error = nursery.unseen(keeps=keeps)
        except BaseException:
            self._abandon()
            raise
        finally:
            if PYPLOT in sys.modules:
                self._show_figures()
            self.link.forget_all({"code": CANCELLED, "message": "the program that made this call has ended"})
        if error is not None:
            raise error
        notes = {"dropped": nursery.dropped, "failed": nursery.failed, "waiting": nursery.waiting}
        more = f',"notes":{json.dumps(notes)}' if any(notes.values()) else ""
        try:
            return value_of(self._namespace, self._value_text) + more
        except BaseException:
            nursery.forget()  # else the next program is blamed for the calls that this value holds
            raise

    # the event loop, and the end of a program: see `nursery`

    def _run(self, program: Program) -> None:
        try:
            value = types.FunctionType(program.code, self._namespace)()
            if program.is_async:
                self._loops.own.run_until_complete(self._main_of(value, program))
            elif program.returns:
                self._namespace[VALUE] = value
        except SystemExit as leave:
            if leave.code not in (None, 0):
                raise
            if self._nursery.busy(self._loops.open):
                self._loops.own.run_until_complete(self._nursery.leave(self._send_value))
        finally:
            self._main = None

    async def _main_of(self, main: Coroutine[Any, Any, Any], program: Program) -> None:
        self._main = asyncio.current_task()
        try:
            value = await main
            if program.returns:
                self._namespace[VALUE] = value
            await self._nursery.end(self._send_value)
        except BaseException:
            await self._nursery.stop()
            raise

    def _send_value(self) -> None:
        """Send the value of a program that waits for its calls: the host uses it if they never end."""
        try:
            body = value_of({VALUE: self._namespace.get(VALUE)}, safe_repr)
        except TypeError:  # it holds a call; the reply will say so
            body = '"value":null'
        self.link.tell(ENDING, body)

    def _finish(self) -> None:
        while True:
            if self._nursery.busy(self._loops.open):
                self._loops.own.run_until_complete(self._nursery.end(self._send_value))
            join_threads()
            if not self._nursery.busy(self._loops.open):
                return

    def _abandon(self) -> None:
        """The program has failed: stop its tasks."""
        loop = self._loops.open
        if loop is not None and asyncio.all_tasks(loop):
            loop.run_until_complete(self._nursery.stop())
        join_threads()
        self._nursery.forget()

    def _cancel(self) -> None:
        if self._main is not None:
            self._loops.own.call_soon_threadsafe(self._main.cancel)

    # what the program shows, and prints

    @cached_property
    def _display(self) -> Display:
        """Made when a program first shows anything: few do."""
        return Display(self.link, self._outputs[0], self._flush)

    def _show(self, *values: Any, **_: Any) -> None:
        """Show values: pictures, figures and tables as such, any other value as text."""
        self._display.show(*values)

    def _show_figures(self) -> None:
        self._display.show_figures()

    def _value_text(self, value: Any) -> str:
        return self._display.value_text(value)

    def _print(self, text: str, line: int) -> None:
        self.link.notify(PRINT, {"text": text, "line": line} if line else {"text": text})

    def _flush(self) -> None:
        for output in self._outputs:
            output.flush()


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


PLAIN = "1 + 1"
GATHERS = "import asyncio\n[x for x in await asyncio.gather(asyncio.sleep(0))]"
CALLS = """
import os
async def fetch(n):
    call = (rehearsals.first if n else rehearsal)(n)
    os.write(wire, b'{"jsonrpc":"2.0","result":{"n":[1,2.5,"x",null]},"id":1}\\n')
    return (await call).n
print(f"{len(await fetch(1))}")
0
"""


def rehearse(*programs: str) -> None:
    """Run programs on a wire of this process's own. What that installs has ended: install a session afterwards.

    CPython specialises code as it runs and fills caches, which writes to memory. Done in the zygote, children share
    the result; done in a child, that child has its pages before its program comes.
    """
    from_host, to_guest = os.pipe()
    from_guest, to_host = os.pipe()
    offered = {"tools": ["rehearsal  n"], "namespaces": {"rehearsals": "first=rehearsal"}}
    for number, code in enumerate(programs):
        params = {"code": code, **offered, "inputs": {"wire": to_guest}, "most": 1 << 16}
        request = {"jsonrpc": "2.0", "method": "execute", "params": params, "id": number}
        os.write(to_guest, json.dumps(request).encode() + b"\n")
    session = Session()
    session.install()
    session.serve(from_host, to_host, most=len(programs))
    reply = os.read(from_guest, 1 << 16)
    session.close()
    os.close(to_guest)
    os.close(from_guest)
    sys.modules.pop("tools.rehearsals")
    linecache.cache.clear()
    if reply.count(b'"value":') != len(programs):
        raise RuntimeError(f"the rehearsal failed: {reply.decode()[:500]}")
