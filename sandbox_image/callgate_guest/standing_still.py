"""What a program reads of its machine, the same in each replay: clocks, randomness, ids, times and order of files.

Replaces functions in modules. Confines nothing: what a program reaches in another way, by a C library for instance,
is the machine's own.

1. All clocks show the time of the last event, and `time.sleep` waits for one.
2. Randomness comes from the seed of the run.
3. Threads are refused, here in words and by the kernel for certain; so are the signals of timers.

It looks for the functions once, when it is imported: in a zygote, ahead of all guests.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import datetime
import gc
import hashlib
import logging
import os
import random
import resource
import select
import signal
import sys
import tempfile
import threading
import time
import types
import uuid
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

_STEADY = 10_000.0
"""What `time.monotonic` shows at the start of a run."""
_MOST_SECONDS = 1e9
_MOST_READS = 1_000_000
_PID, _PARENT = 2, 1
_NODE = 0x0200_0000_0001  # locally administered (RFC 9562, 6.10)
_CLOCK = (
    "the clock was read 1,000,000 times and stands still: in a run that can be replayed, time goes on only while the "
    "program waits; write `await asyncio.sleep(...)` instead of a loop that looks at the clock"
)
_THREADS = (
    "can't start new thread: a run that can be replayed has no threads, since they never run in the same order twice; "
    "use async functions with asyncio.gather or a TaskGroup"
)
_SIGNALS = "a run that can be replayed has no timers that send signals: use asyncio.timeout(...)"


class Clock:
    """The time of the last event. `start` is the first, in seconds since 1970."""

    def __init__(self, start: float) -> None:
        self.start = start
        self._now = start
        self._reads = 0

    def set(self, now: float) -> None:
        self._now = now
        self._reads = 0

    def now(self) -> float:
        """Seconds since 1970."""
        self._reads += 1
        if self._reads > _MOST_READS:
            raise RuntimeError(_CLOCK)
        return self._now

    def steady(self) -> float:
        """What `time.monotonic` and event loops show."""
        return self._now - self.start + _STEADY

    def since_1970(self, steady: float) -> float:
        return steady - _STEADY + self.start


def _random_bytes(seed: bytes) -> Callable[[int], bytes]:
    numbers = count()

    def take(size: int) -> bytes:
        if size < 0:
            raise ValueError("negative argument not allowed")
        return hashlib.shake_256(seed + next(numbers).to_bytes(8, "big")).digest(size)

    return take


def _clocks(clock: Clock, pull: Callable[[float | None], None]) -> dict[Any, Any]:
    gmtime, ctime, strftime, asctime = time.gmtime, time.ctime, time.strftime, time.asctime
    wait, time_sleep = select.select, time.sleep

    def now() -> float:
        return clock.now()

    def steady() -> float:
        return now() - clock.start + _STEADY

    def spent() -> float:
        return now() - clock.start

    def in_ns(seconds: Callable[[], float]) -> Callable[[], int]:
        return lambda: int(seconds() * 1_000_000) * 1_000

    def by_id(number: int) -> float:
        return now() if number == time.CLOCK_REALTIME else steady()

    def sleep(seconds: Any, /) -> None:
        if not isinstance(seconds, (int, float)) or not 0 <= seconds <= _MOST_SECONDS:
            time_sleep(seconds)  # which says what is wrong
            return
        until = now() + seconds
        while clock.now() < until:
            pull(until)

    def select_(rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None, /) -> Any:
        if timeout is None or rlist or wlist or xlist:
            return wait(rlist, wlist, xlist, timeout)
        sleep(timeout)
        return [], [], []

    def at(function: Any) -> Any:
        return lambda seconds=None, /: function(now() if seconds is None else seconds)

    return {
        time.time: now, time.time_ns: in_ns(now),
        time.monotonic: steady, time.monotonic_ns: in_ns(steady),
        time.perf_counter: steady, time.perf_counter_ns: in_ns(steady),
        time.process_time: spent, time.process_time_ns: in_ns(spent),
        time.thread_time: spent, time.thread_time_ns: in_ns(spent),
        time.clock_gettime: by_id, time.clock_gettime_ns: lambda number: in_ns(lambda: by_id(number))(),
        time.sleep: sleep, select.select: select_,
        time.gmtime: at(gmtime), time.localtime: at(time.localtime), time.ctime: at(ctime),
        time.asctime: lambda moment=None, /: asctime(gmtime(now()) if moment is None else moment),
        time.strftime: lambda form, moment=None, /: strftime(form, gmtime(now()) if moment is None else moment),
    }  # fmt: skip


def _files(moment: float) -> dict[Any, Any]:
    """Functions that tell of files: their times are `moment`, folders are sorted."""
    times = dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), moment)
    times |= dict.fromkeys(("st_atime_ns", "st_mtime_ns", "st_ctime_ns"), int(moment * 1_000_000) * 1_000)
    listdir, scandir = os.listdir, os.scandir

    def dated(function: Any) -> Any:
        def stat(*arguments: Any, **options: Any) -> os.stat_result:
            found = function(*arguments, **options)
            more = {name: getattr(found, name) for name in ("st_blksize", "st_blocks", "st_rdev")}
            return os.stat_result((*found[:7], *[int(moment)] * 3), more | times)

        return stat

    class Scan:
        """What `os.scandir` returns."""

        def __init__(self, path: Any = ".") -> None:
            with scandir(path) as entries:
                self._entries = iter(sorted(entries, key=lambda entry: entry.name))

        def __iter__(self) -> Iterator[os.DirEntry[Any]]:
            return self._entries

        def __next__(self) -> os.DirEntry[Any]:
            return next(self._entries)

        def __enter__(self) -> Iterator[os.DirEntry[Any]]:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def close(self) -> None:
            self._entries = iter(())

    return {
        os.stat: dated(os.stat), os.lstat: dated(os.lstat), os.fstat: dated(os.fstat),
        os.DirEntry.stat: dated(os.DirEntry.stat),
        os.listdir: lambda path=".": sorted(listdir(path)), os.scandir: Scan,
    }  # fmt: skip


def _refused(words: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError(words)

    return refuse


_STARTERS = [
    vars(module)[name]
    for module in (_thread, threading)
    for name in vars(module)
    if name.lstrip("_") in ("start_new_thread", "start_new", "start_joinable_thread")
]


def _others(clock: Clock, take: Callable[[int], bytes]) -> dict[Any, Any]:
    kill, true_pid = os.kill, os.getpid()
    return {
        os.urandom: lambda size, /: take(size), os.getrandom: lambda size, flags=0: take(size),
        os.getpid: lambda: _PID, os.getppid: lambda: _PARENT,
        os.kill: lambda pid, number, /: kill(true_pid if pid == _PID else pid, number),
        os.times: lambda: os.times_result((0.0, 0.0, 0.0, 0.0, clock.now() - clock.start)),
        os.getloadavg: lambda: (0.0, 0.0, 0.0),
        resource.getrusage: lambda who, /: resource.struct_rusage((0.0, 0.0, *[0] * 14)),
        **dict.fromkeys((signal.setitimer, signal.alarm), _refused(_SIGNALS)),
        **dict.fromkeys(_STARTERS, _refused(_THREADS)),
    }  # fmt: skip


_condition_wait: Any = threading.Condition.wait


def _wait_for_nobody(self: threading.Condition, timeout: float | None = None) -> bool:
    """`Condition.wait`, and with it those of `Event`, `Semaphore` and `Queue`: no other thread can notify."""
    if timeout is None:
        return bool(_condition_wait(self))
    time.sleep(max(timeout, 0))
    return False


def _set_methods(kind: type, **methods: Any) -> None:
    """Replace methods of a type that is written in C: its name, its identity and its subclasses stay."""
    gc.get_referents(kind.__dict__)[0].update(methods)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _set_datetime(clock: Clock) -> None:
    """`date.today` and `datetime.today` ask `time.time`."""

    def now(cls: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return cls.fromtimestamp(clock.now(), tz)

    def utcnow(cls: type[datetime.datetime]) -> datetime.datetime:
        return cls.fromtimestamp(clock.now(), datetime.UTC).replace(tzinfo=None)

    _set_methods(datetime.datetime, now=classmethod(now), utcnow=classmethod(utcnow))


def _set_random(take: Callable[[int], bytes]) -> None:
    seeded = random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        seeded(self, int.from_bytes(take(32), "big") if a is None else a, version)

    random.Random.seed = seed  # type: ignore[method-assign]
    random.seed = random._inst.seed
    random.seed()
    tempfile._name_sequence = None  # type: ignore[attr-defined]
    uuid._generate_time_safe = uuid._UuidCreate = None  # type: ignore[attr-defined]
    uuid._node = _NODE  # type: ignore[attr-defined]
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(random.getrandbits(32))


_KEPT = ("posix", "_frozen_importlib_external")
"""Modules that keep the machine's functions, for imports: a file of bytecode goes by the true time of its source."""


def _replacements(clock: Clock, take: Callable[[int], bytes], pull: Callable[[float | None], None]) -> dict[Any, Any]:
    """What stands in for a function, by the function."""
    return {**_clocks(clock, pull), **_files(clock.start), **_others(clock, take)}


def _places() -> dict[Any, list[tuple[dict[str, Any], str]]]:
    """Where modules have the functions that `begin` replaces."""
    found: dict[Any, list[tuple[dict[str, Any], str]]] = {
        function: [] for function in _replacements(Clock(0.0), bytes, lambda _: None)
    }
    wanted = {id(function): places for function, places in found.items()}
    for module in list(sys.modules.values()):
        name = getattr(module, "__name__", "")
        if type(module) is types.ModuleType and name not in _KEPT and not name.startswith(__package__):
            names = vars(module)
            if wanted.keys() & set(map(id, names.values())):  # many times as fast as the loop
                for key, value in names.items():
                    if id(value) in wanted:
                        wanted[id(value)].append((names, key))
    return found


_PLACES = _places()


def begin(clock: Clock, seed: bytes, pull: Callable[[float | None], None]) -> None:
    """Make this process one whose programs read the same in each replay.

    Args:
        clock: of the events.
        seed: of the run.
        pull: takes the next event.
    """
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))  # the kernel starts no thread any more, and never will
    take = _random_bytes(seed)
    replacements = _replacements(clock, take, pull)
    for function, instead in replacements.items():
        instead.__name__ = function.__name__
        for place, name in _PLACES[function]:
            place[name] = instead
        for features in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if function in features:
                features.add(instead)
    _set_methods(os.DirEntry, stat=replacements[os.DirEntry.stat])
    _set_datetime(clock)
    _set_random(take)
    threading.Condition.wait = _wait_for_nobody  # type: ignore[method-assign]
    started = clock.start if isinstance(logging._startTime, float) else time.time_ns()  # type: ignore[attr-defined]
    logging._startTime = started  # type: ignore[attr-defined]
