"""Memory that a fresh child goes on sharing with its zygote: fewer pages are written to, so fewer are copied.

A child of ``fork`` shares every page until one side writes to it. Each first write costs a fault and a copy of 4 KiB,
and these copies are most of what a short run costs. A zygote avoids three kinds of writes before it forks:

1. **Holes.** pymalloc and malloc place new objects into blocks that are free among old ones, so a child's first objects
   would be spread over pages of the zygote. `fill_holes` occupies these blocks; a child's objects lie together on new
   pages.
2. **Reference counts.** Since CPython 3.12 the count of an *immortal* object (PEP 683) is never written.
   `make_immortal` gives all live objects that count. The zygote and its children keep these objects until they end.
3. **Code.** The interpreter counts, in a function's code, how often an instruction could not be specialised. `gather`
   moves the code that does this in every run, from all over the memory, to pages of its own.

All happen once, in a process with one thread, after everything is imported. What they need while they work is made in a
child where that is possible: pages that the zygote has used once are copied at every fork. A frame's count is left
alone. Python without a GIL counts in another way and is left alone; so is a version whose counts do not behave as
`_IMMORTAL` expects, which is tried on objects of this module's own first.
"""

from __future__ import annotations

import array
import ctypes
import gc
import json
import os
import re
import resource
import sys
import types
from collections.abc import Callable
from typing import Any

_IMMORTAL = 3 << 30 if sys.version_info >= (3, 14) else (1 << 32) - 1
"""The low half of an immortal object's count: Include/refcount.h of 3.14, Include/object.h of 3.12 and 3.13."""
_IS_IMMORTAL = 1 << 31
"""This bit of the low half says that a count is immortal."""
_BLOCKS = re.compile(rb"^ *\d+ +(\d+) +\d+ +\d+ +(\d+) *$", re.MULTILINE)
"""A line of ``sys._debugmallocstats``: size class in bytes, pools, blocks in use, free blocks of the pools in use."""
_PROBE_BYTES = 120_000
"""More than a hole of the heap is likely to have, and less than malloc takes from the kernel (128 KiB): lies at the
top."""
_NEAR_BYTES = 1 << 20
"""The end of the heap is no further from the probe."""
_CHUNKS = (65536, 32768, 16384, 8192, 4096, 2048, *range(1024, 16, -16))
"""Sizes to allocate, in bytes: a chunk of malloc is a multiple of 16."""
_BYTES_HEADER = sys.getsizeof(b"")


def share() -> tuple[str, list[object]]:
    """Keep this process's pages shared with the children that it forks from now on.

    Returns:
        What was reached, for `callgate doctor`; and objects that have to live as long as this process.
    """
    gc.collect()
    fillers = fill_holes()
    count = ctypes.c_uint32.from_address
    if sys.version_info < (3, 12):
        counts = "immortal objects need Python 3.12"
    elif hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled():
        counts = "no immortal objects: this Python has no GIL"
    elif not _counts_stay(count):
        counts = f"no immortal objects: Python {sys.version.split()[0]} writes their counts"
    else:
        counts = f"{make_immortal(count):,} immortal objects"
    copied, pages = in_child(copied_pages)
    said = f"a child that uses all objects copies {copied} of {pages} pages ({counts})"
    fillers += fill_holes()  # the work above has left new holes
    return said, fillers


def fill_holes() -> list[object]:
    """Allocate the free blocks of pymalloc's pools and of glibc's heap. Returns the objects in pymalloc's blocks."""
    fillers: list[object] = []
    for size, free in _free_blocks():
        if size == 16:
            fillers.extend(object() for _ in range(free))
        elif size == 32:
            fillers.extend((1 << 30) + number for number in range(free))
        else:
            fillers.extend(bytes(size - _BYTES_HEADER) for _ in range(free))
    _fill_malloc()
    return fillers


def _fill_malloc() -> None:
    """Allocate the free chunks of glibc's heap that lie below its top, for good."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return
    malloc, free, sbrk = libc.malloc, libc.free, libc.sbrk
    malloc.restype = sbrk.restype = ctypes.c_void_p
    free.argtypes, sbrk.argtypes = (ctypes.c_void_p,), (ctypes.c_ssize_t,)
    free(top := malloc(_PROBE_BYTES))
    if not 0 < sbrk(0) - top < _NEAR_BYTES:  # it lies elsewhere: nothing says where the heap ends
        return
    for size in _CHUNKS:
        while (address := malloc(size)) < top:
            pass
        free(address)


def gather(run: Callable[[], object]) -> list[object]:
    """Move the code that a child of this process writes to when it calls `run`, together; rehearse again afterwards.

    Returns objects that have to live as long as this process.
    """
    functions: list[Any] = [each for each in gc.get_objects() if isinstance(each, types.FunctionType)]
    before = array.array("q", (hash(each.__code__._co_code_adaptive) for each in functions))

    def written() -> list[int]:
        run()
        now = (hash(each.__code__._co_code_adaptive) for each in functions)
        return [number for number, (old, new) in enumerate(zip(before, now, strict=True)) if old != new]

    numbers = in_child(written)
    moved: dict[int, tuple[Any, Any]] = {}
    left = fill_holes()
    for function in map(functions.__getitem__, numbers):
        code = function.__code__
        # the old code stays, or the next copy would take its place
        function.__code__ = moved.setdefault(id(code), (code.replace(), code))[0]
    return [*left, *moved.values()]


def _free_blocks() -> list[tuple[int, int]]:
    """Size class in bytes, and free blocks of that size: `sys._debugmallocstats` writes them to descriptor 2 only."""
    reading, writing = os.pipe()  # many builds of Python have no `os.memfd_create`
    os.set_blocking(writing, False)  # statistics that fill a pipe are cut
    before = os.dup(2)
    try:
        os.dup2(writing, 2)
        sys._debugmallocstats()
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(writing)
    with open(reading, "rb") as statistics:
        return [(int(size), int(free)) for size, free in _BLOCKS.findall(statistics.read())]


def _counts_stay(count: Any) -> bool:
    """Whether this build leaves an immortal count alone, tried on a few fresh objects."""
    samples: list[Any] = [bytes(100), [None], (object(),), {"a": 1}]
    for each in samples:
        count(id(each)).value = _IMMORTAL
    held = [[*samples] for _ in range(8)]
    more = [count(id(each)).value for each in samples]
    held.clear()
    less = [count(id(each)).value for each in samples]
    return more == less == [_IMMORTAL] * len(samples)


def make_immortal(count: Any) -> int:
    """Give everything alive the immortal count, but for frames. Returns how many objects were given it."""
    made = 0
    left = gc.get_objects()
    while left:
        each = left.pop()
        place = count(id(each))
        if place.value & _IS_IMMORTAL or isinstance(each, types.FrameType):
            continue
        place.value = _IMMORTAL
        made += 1
        left.extend(gc.get_referents(each))
        if isinstance(each, types.CodeType):  # the collector knows no code
            left += (each.co_consts, each.co_names, each.co_name, each.co_qualname, each.co_filename)
            left += (each.co_linetable, each.co_exceptiontable)
    return made


def copied_pages() -> tuple[int, int]:
    """In a child: pages that it copies when it takes a reference to each object of its parent, and pages of these.

    The kernel counts them: a copy is a minor fault (getrusage(2), ``ru_minflt``).
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    objects = gc.get_objects()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return max(0, faults - (sys.getsizeof(objects) >> 12)), len({id(each) >> 12 for each in objects})


def in_child(work: Callable[[], Any]) -> Any:
    """Call `work` in a child of this process; return its value, which is JSON. Raises `RuntimeError` if it fails."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            text = json.dumps(work())
            with open(writing, "w") as pipe:
                pipe.write(text)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if not text:
        raise RuntimeError("a rehearsal failed in a child of the zygote")
    return json.loads(text)
