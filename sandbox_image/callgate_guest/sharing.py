"""Memory that a fresh child goes on sharing with its zygote: fewer pages are written to, so fewer are copied.

A child of ``fork`` shares every page until one side writes to it. Each first write costs a fault and a copy of 4 KiB,
and these copies are most of what a short run costs. A zygote avoids two kinds of writes before it forks:

1. **Holes.** pymalloc places new objects into blocks that are free among old ones, so a child's first objects would be
   spread over pages of the zygote. `fill_holes` occupies these blocks; a child's objects lie together on new pages.
2. **Reference counts.** Since CPython 3.12 the count of an *immortal* object (PEP 683) is never written.
   `make_immortal` gives all live objects that count. The zygote and its children keep these objects until they end.

Both happen once, in a process with one thread, after everything is imported and rehearsed. A frame's count is left
alone. Python without a GIL counts in another way and is left alone; so is a version whose counts do not behave as
`_IMMORTAL` expects, which is tried on objects of this module's own first.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import resource
import sys
import types
from typing import Any

_IMMORTAL = 3 << 30 if sys.version_info >= (3, 14) else (1 << 32) - 1
"""The low half of an immortal object's count: Include/refcount.h of 3.14, Include/object.h of 3.12 and 3.13."""
_IS_IMMORTAL = 1 << 31
"""This bit of the low half says that a count is immortal."""
_BLOCKS = re.compile(rb"^ *\d+ +(\d+) +\d+ +\d+ +(\d+) *$", re.MULTILINE)
"""A line of ``sys._debugmallocstats``: size class in bytes, pools, blocks in use, free blocks of the pools in use."""
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
    objects = gc.get_objects()
    pages = len({id(each) >> 12 for each in objects})
    said = f"a child that uses all objects copies {copied_pages(objects)} of {pages} pages ({counts})"
    del objects
    fillers += fill_holes()  # the work above has left new holes
    return said, fillers


def fill_holes() -> list[object]:
    """Allocate every free block of the pools that are in use. Returns what holds them."""
    fillers: list[object] = []
    for size, free in _free_blocks():
        if size == 16:
            fillers.extend(object() for _ in range(free))
        elif size == 32:
            fillers.extend((1 << 30) + number for number in range(free))
        else:
            fillers.extend(bytes(size - _BYTES_HEADER) for _ in range(free))
    return fillers


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
    found: dict[int, None] = {}
    left = gc.get_objects()
    own = {id(found), id(left)}
    while left:
        each = left.pop()
        if id(each) in found or id(each) in own or isinstance(each, types.FrameType):
            continue
        found[id(each)] = None
        left.extend(gc.get_referents(each))
    made = 0
    for address in found:
        place = count(address)
        if not place.value & _IS_IMMORTAL:
            place.value = _IMMORTAL
            made += 1
    return made


def copied_pages(objects: list[object]) -> int:
    """Pages that a child copies when it takes a reference to each of `objects`; -1 if the child could not say.

    The kernel counts them: a copy is a minor fault of the child (getrusage(2), ``ru_minflt``).
    """
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in objects:
                pass
            os.write(writing, str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before).encode())
        finally:
            os._exit(0)
    os.close(writing)
    faults = os.read(reading, 64)
    os.close(reading)
    os.waitpid(child, 0)
    return int(faults or -1)
