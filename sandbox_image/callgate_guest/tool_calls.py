"""Calling the host's tools from a program: the functions a program sees, and the call in flight.

1. A call starts when it is written down. In async code the caller gets a `ToolCall` to await, and the request leaves
   when the program next waits for anything: see `link`. In a plain function or a thread the request leaves at once, and
   the caller gets the result, after blocking for it.
2. A `ToolCall` is a coroutine to asyncio (`gather`, `create_task`, `wait_for`, `TaskGroup` take it), and an error to
   everything else: using one as a value says to await it.
3. A failed call raises `ToolError`; it is never returned as data.
"""

from __future__ import annotations

import asyncio
import difflib
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE, iscoroutine
from itertools import repeat
from sys import _getframe, modules  # a program may replace them in `sys`
from typing import Any

from .explain import note_wait
from .json_forms import NotJson
from .link import Link
from .records import HiddenField
from .wire import CANCEL, CANCELLED, DESCRIBE_TOOLS, ERRORS, TOOL_FAILED

_ASYNC = CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE
_INLINE = frozenset({"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>", "<lambda>"})


class ToolError(Exception):
    """A tool call failed.

    Attributes:
        tool: name of the tool. code: JSON-RPC error code. data: details as JSON, or None.
        retryable: whether the same call may succeed later. message: what happened.
    """

    def __init__(
        self, message: str = "", *, tool: str | None = None, code: int = TOOL_FAILED, data: Any = None,
        retryable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self._number: int | None = None
        """Number of the failed call; None for an error that the program made."""
        self._place: tuple[types.CodeType, int] | None = None
        """Place of the call: the code, and the instruction in it."""
        self.message = message
        self.tool = tool
        self.code = code
        self.data = data
        self.retryable = retryable


ToolError.__module__ = "builtins"
KINDS: dict[int, Any] = {code: type(name, (ToolError,), {"__module__": "builtins"}) for code, name in ERRORS.items()}


class ToolCall:
    """One call in flight. Await it."""

    __slots__ = (
        "__weakref__", "_error", "_generators", "_link", "_number", "_place", "_tool", "_value", "_waiters", "blocks",
        "done", "home",
    )  # fmt: skip

    def __init__(self, link: Link, tool: str, arguments: dict[str, Any], *, blocks: bool) -> None:
        self._link = link
        self._tool = tool
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._generators: dict[asyncio.Task[Any] | None, Generator[Any, Any, Any]] = {}
        self._error: dict[str, Any] | None = None
        self._value: Any = None
        self._place: tuple[types.CodeType, int] | None = None
        self.blocks = blocks
        """A thread or a plain function waits for the call: see `nursery`."""
        self.done = False
        self.home = asyncio._get_running_loop()
        """The loop that runs the caller; None at a top level that runs beside the loop."""
        try:
            holds = not blocks and (self.home is None or getattr(self.home, "holds_calls", False))
            self._number = link.request(tool, arguments, self, holds=holds)
        except (TypeError, ValueError, RecursionError) as error:
            raise _not_json(tool, arguments, error) from None

    def resolve(self, message: dict[str, Any]) -> None:
        self._error = message.get("error")
        self._value = message.get("result")
        self.done = True
        for loop, future in self._waiters:
            if asyncio._get_running_loop() is loop:
                _wake(future)
            else:
                try:
                    loop.call_soon_threadsafe(_wake, future)
                except RuntimeError:  # the loop is closed, so nothing waits in it
                    continue
        self._waiters.clear()

    def result(self) -> Any:
        if self._error is None:
            return self._value
        raise self.error()

    @property
    def failed(self) -> bool:
        """Whether the call has ended with an error."""
        return self._error is not None

    def error(self) -> ToolError:
        """The error of a failed call."""
        answer = self._error
        assert answer is not None
        data = answer.get("data") or {}
        tool, retryable = data.get("tool", self._tool), data.get("retryable", False)
        code, kind = answer["code"], KINDS.get(answer["code"], ToolError)
        error: ToolError = kind(answer["message"], tool=tool, code=code, data=data.get("data"), retryable=retryable)
        error._number, error._place = self._number, self._place
        return error

    def made(self) -> ToolCall:
        """Return this call to async code, which has to await it."""
        frame = _getframe(2)
        self._place = frame.f_code, frame.f_lasti
        self._link.unawaited[self._number] = self
        return self

    def block(self) -> Any:
        self._link.wait(self)
        if not self.done:
            raise ToolError("the host is gone", tool=self._tool, code=CANCELLED)
        return self.result()

    # the coroutine protocol

    def __await__(self) -> Generator[Any, Any, Any]:
        self._link.unawaited.pop(self._number, None)
        if not self.done:
            loop = asyncio._get_running_loop()
            if loop is None:
                raise RuntimeError("no running event loop")
            future = loop.create_future()
            self._waiters.append((loop, future))
            self._link.watch(loop)
            if self.done:  # another thread read the reply meanwhile
                _wake(future)  # type: ignore[unreachable]
            try:
                yield from future
            except BaseException:
                if not self.done:
                    self._waiters = [waiter for waiter in self._waiters if waiter[1] is not future]
                    if not self._waiters:  # nobody else awaits the same call
                        self._cancel()
                raise
        return self.result()

    def _cancel(self) -> None:
        if asyncio._get_running_loop() in self._link.ending:  # its task is cancelled because the program is over
            return
        self._error = {"code": CANCELLED, "message": "the program gave this call up"}
        self.done = True
        if not self._link.withdraw(self._number):
            self._link.forget(self._number)
            self._link.notify(CANCEL, {"id": self._number})

    # a task drives it by `send`; several may, each with a generator of its own

    def send(self, value: Any) -> Any:
        return self._step(lambda generator: generator.send(value))

    def throw(self, *error: Any) -> Any:
        self._leave()
        return self._step(lambda generator: generator.throw(*error))

    def _step(self, step: Callable[[Generator[Any, Any, Any]], Any]) -> Any:
        task = None if asyncio._get_running_loop() is None else asyncio.current_task()
        generator = self._generators.get(task)
        if generator is None:
            generator = self._generators[task] = self.__await__()
        try:
            return step(generator)
        except BaseException:
            self._generators.pop(task, None)
            raise

    def _leave(self) -> None:
        """A task cancels the call before its first step; one that waits already does so in `__await__`."""
        link = self._link
        if asyncio._get_running_loop() in link.ending:
            return
        if link.unawaited.pop(self._number, None) is not None and not self.done:
            self._cancel()

    def close(self) -> None:
        self._leave()
        for generator in list(self._generators.values()):
            generator.close()
        self._generators.clear()

    def __repr__(self) -> str:
        return f"<call of {self._tool}, not awaited>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "cr_", "gi_", "_asyncio")):
            raise AttributeError(name)
        raise self._not_awaited()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ToolCall):
            return self is other
        raise self._not_awaited()

    __hash__ = object.__hash__

    def _not_awaited(self) -> TypeError:
        hint = _WHERE_NO_AWAIT.get(_innermost(), f"write `await {self._tool}(...)`")
        return TypeError(f"the call of {self._tool} was not awaited: {hint}")


_WHERE_NO_AWAIT = {
    "<lambda>": "a lambda cannot await, so get the results first, in a list, and use that",
    "<genexpr>": "write a list, `[...]`, instead of the generator, and await the call in it",
}


def _innermost() -> str:
    """The name of the function of the program that is running."""
    frame: types.FrameType | None = _getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith("<program"):
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_name


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _refuse(self: ToolCall, *_: Any) -> Any:
    raise self._not_awaited()


_USES_OF_A_VALUE = """
    str format bool len iter getitem setitem delitem contains int float index complex call enter exit lt le gt
    ge add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow divmod rdivmod and rand
    or ror xor rxor lshift rshift matmul neg pos abs invert round bytes aiter aenter aexit reversed
"""
for _name in _USES_OF_A_VALUE.split():
    setattr(ToolCall, f"__{_name}__", _refuse)

Coroutine.register(ToolCall)
# the name that Python's own errors show: "Object of type ... is not JSON serializable"
ToolCall.__name__ = ToolCall.__qualname__ = "tool call (not awaited: write await in front of it)"


def _not_json(tool: str, arguments: dict[str, Any], error: Exception) -> Exception:
    """A clear error for arguments that cannot cross the wire."""
    if isinstance(error, NotJson):
        value = error.value
        if isinstance(value, ToolCall):
            return value._not_awaited()
        if isinstance(value, HiddenField):
            return value.misused()
        if iscoroutine(value) or asyncio.isfuture(value):
            return TypeError(f"{tool} was given something that was not awaited: write `await` in front of it")
        return TypeError(f"the arguments of {tool} must be JSON values: {error}")
    if isinstance(error, RecursionError):
        return ValueError(f"the arguments of {tool} are nested too deeply for JSON")
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"the arguments of {tool} must be JSON values: {error}")


def called_from_async() -> bool:
    """Whether the program's code two frames up is async code: a coroutine, or the top level of a program."""
    frame: types.FrameType | None = _getframe(2)
    while frame is not None:
        code = frame.f_code
        if code.co_flags & _ASYNC:
            return True
        if code.co_name in _INLINE:
            frame = frame.f_back
            continue
        return code.co_name == "<module>" and code.co_filename.startswith("<program")
    return False


def _function() -> types.CodeType:
    """The code of every function that a program calls. `entry`, in its closure, is the tool: see `GivenTools.bind`."""
    entry: str | list[str] = ""
    link: Any = None

    def call(*positional: Any, **arguments: Any) -> Any:
        """A tool of the host. `describe_tools` tells what it does."""
        name, tool, *parameters = entry.split(" ") if isinstance(entry, str) else entry
        tool = tool or name
        if positional:
            parameters = [each.removesuffix("=") for each in parameters]
            if tool == DESCRIBE_TOOLS and not isinstance(positional[0], (list, tuple)):
                positional = (list(positional),)
            if len(positional) > len(parameters):
                raise TypeError(
                    f"{name}() takes {len(parameters)} positional arguments but {len(positional)} were given; "
                    f"its parameters are: {', '.join(parameters) or 'none'}"
                )
            for parameter, value in zip(parameters, positional, strict=False):
                if parameter in arguments:
                    raise TypeError(f"{name}() got multiple values for argument {parameter!r}")
                arguments[parameter] = value
        blocks = not called_from_async()
        started = ToolCall(link, tool, arguments, blocks=blocks)
        return _blocked(started) if blocks else started.made()

    # `inspect` and `asyncio` take it for a function to await; without the opcode for it the flag makes no coroutine
    return call.__code__.replace(co_flags=call.__code__.co_flags | CO_COROUTINE)


def _blocked(started: ToolCall) -> Any:
    """The result of a call in a plain function. Notes that the function has waited, for an error that awaits its
    result."""
    note_wait(_getframe(2).f_code.co_name, started._tool)
    return started.block()


FUNCTION = _function()
_GLOBALS = {**globals(), "__name__": "tools"}


class GivenTools:
    """The module `tools`, and the functions and namespaces of the tools, as variables of a session's programs.

    There may be thousands, and a program uses few: no line of Python is run for each of them.
    """

    def __init__(self, link: Link, variables: dict[str, Any]) -> None:
        self.module = _module("tools", "", dict)
        self._own = self.module.__dict__
        self._link = types.CellType(link)
        self._variables = variables
        self._last: Any = None

    def bind(self, tools: list[str | list[str]], namespaces: dict[str, str], docs: list[str] | None = None) -> None:
        """Give the next program its tools. Those of earlier ones stay, for the host to refuse, and so do variables.

        Args:
            tools: words, in one text if they can be: name, name on the wire (empty where it is the same), parameters,
                with ``=`` behind those that may be left out.
            namespaces: ``"member=name"``, several in a text; ``member`` alone where the name is ``namespace_member``.
            docs: the docstrings of the tools, in their order; None where they are too many.
        """
        if (tools, namespaces, docs) == self._last:
            return
        self._last = tools, namespaces, docs
        names = [tool.partition(" ")[0] if type(tool) is str else tool[0] for tool in tools]
        closures = zip(map(types.CellType, tools), repeat(self._link))
        made = map(types.FunctionType, repeat(FUNCTION), repeat(_GLOBALS), names, repeat(None), closures)
        given: dict[str, Any] = dict(zip(names, made, strict=True))
        deque(map(setattr, given.values(), repeat("__qualname__"), given), 0)
        if docs is not None:
            deque(map(setattr, given.values(), repeat("__doc__"), docs), 0)
        for name in filter(None, namespaces):
            members = partial(_members, name, namespaces[name], self._own)
            given[name] = modules[f"tools.{name}"] = _module(f"tools.{name}", f" in {name}", members)
        for name in given.keys() & self._variables.keys():
            if self._variables[name] is self._own.get(name):
                del self._variables[name]
        self._own.update(given)
        self._own.update(_members("", namespaces.get("", ""), self._own))  # short names for some
        self._variables.update({**given, **self._variables})


def _members(namespace: str, words: str, functions: dict[str, Any]) -> dict[str, Any]:
    pairs = (word.partition("=") for word in words.split())
    return {member: functions[name or f"{namespace}_{member}"] for member, _, name in pairs}


def _module(name: str, where: str, members: Callable[[], dict[str, Any]]) -> types.ModuleType:
    """A module of tools, which gets its members when one is first asked for."""
    module = types.ModuleType(name, "Tools of the host.")

    def get(name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        module.__dict__.update(given := members())
        if name in given:
            return given[name]
        near = difflib.get_close_matches(name, [each for each in module.__dict__ if not each.startswith("__")], 1)
        raise AttributeError(f"there is no tool {name!r}{where}" + (f"; did you mean {near[0]!r}?" if near else ""))

    module.__dict__.update(__getattr__=get, __dir__=lambda: sorted({*module.__dict__, *members()}))
    return module


def call_by_name(link: Link) -> Callable[..., Any]:
    """``tool_call(name, /, **arguments)``: any tool by the name it has on the host."""

    def tool_call(name: str, /, **arguments: Any) -> Any:
        if not isinstance(name, str):
            raise TypeError(f"tool_call() takes the tool's name first, not {type(name).__name__}")
        blocks = not called_from_async()
        started = ToolCall(link, name, arguments, blocks=blocks)
        return _blocked(started) if blocks else started.made()

    return tool_call
