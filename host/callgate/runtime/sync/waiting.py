"""Makes sync methods of async ones, with their arguments, types and docstrings, so that the two cannot differ."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from .loop_thread import LoopThread

__all__ = ["Waiting", "arguments_of", "giving", "plain", "waiting"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S")


class Waiting:
    """An async object, used from threads that wait for it."""

    _inner: Any

    def _thread(self) -> LoopThread:
        """The thread in which the object is open. Raises `ConfigurationError` if it is not open."""
        raise NotImplementedError

    def _is_open(self) -> bool:
        raise NotImplementedError

    def _read(self, function: Callable[[], _R]) -> _R:
        """Call a function that does not wait: between two steps of the loop, or here if there is no loop."""
        return self._thread().do(function) if self._is_open() else function()


def waiting(method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]]) -> Callable[Concatenate[Any, _P], _R]:
    """The sync form of an async method."""

    def wait(self: Waiting, /, *args: _P.args, **options: _P.kwargs) -> _R:
        return self._thread().wait(lambda: method(self._inner, *args, **options))

    return _as(method, wait)


def plain(method: Callable[Concatenate[Any, _P], _R]) -> Callable[Concatenate[Any, _P], _R]:
    """A method that waits for nothing, and so needs no open runtime."""
    return giving(lambda _, made: made, method)


def giving(
    wrap: Callable[[Any, _R], _S], method: Callable[Concatenate[Any, _P], _R]
) -> Callable[Concatenate[Any, _P], _S]:
    """A method that waits for nothing, and whose result is wrapped: ``wrap(self, result)``."""

    def give(self: Waiting, /, *args: _P.args, **options: _P.kwargs) -> _S:
        return wrap(self, self._read(lambda: method(self._inner, *args, **options)))

    return _as(method, give)


def arguments_of(
    method: Callable[Concatenate[Any, _P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, _P], None]]:
    """Give a method the arguments of another one."""
    return lambda function: _as(method, function)


def _as(method: Callable[..., Any], function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function with the name, the signature and the docstring of the method."""
    like: Callable[_P, _R] = functools.wraps(method)(function)
    like.__doc__ = (method.__doc__ or "").replace("async with", "with").replace("async for", "for")
    return like
