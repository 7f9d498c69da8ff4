"""A child goes on sharing its zygote's pages: see `callgate_guest.sharing`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from guest.driver import GuestProcess

_SCRIPT = """
import gc, json, sys, asyncio, csv, decimal, typing
from callgate_guest import sharing
gc.collect()
objects = gc.get_objects()
before = sharing.copied_pages(objects)
said, fillers = sharing.share()
left = sum(free for _, free in sharing._free_blocks())
gc.freeze()

# what lives on behaves as it did
made = [decimal.Decimal(1) / 3 for _ in range(1000)]
sys.modules["csv"].QUOTE_ALL += 0
names = {name: len(vars(module)) for name, module in sys.modules.items() if hasattr(module, "__dict__")}
for _ in range(3):
    cycle = [made]
    cycle.append(cycle)
    del cycle
    gc.collect()
asyncio.run(asyncio.sleep(0))
print(json.dumps({"before": before, "after": sharing.copied_pages(objects), "said": said, "left": left,
                  "fillers": len(fillers), "names": len(names)}))
"""


def _shared(script: str = _SCRIPT) -> dict[str, Any]:
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


def test_holes_are_filled_and_counts_are_not_written() -> None:
    shared = _shared()
    assert shared["before"] > 500
    assert shared["left"] < shared["fillers"] / 4
    if sys.version_info < (3, 12):
        assert "immortal objects need Python 3.12" in shared["said"]
    else:
        assert shared["after"] < shared["before"] / 20
        assert "immortal objects)" in shared["said"]


def test_a_build_without_memfd_create_shares_as_well() -> None:
    assert _shared(f"import os\nif hasattr(os, 'memfd_create'): del os.memfd_create\n{_SCRIPT}")["fillers"] > 500


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 has no immortal objects")
def test_a_build_that_writes_the_counts_of_immortal_objects_is_left_alone() -> None:
    script = "from callgate_guest import sharing; sharing._IMMORTAL = 1000\n" + _SCRIPT
    shared = _shared(script)
    assert "no immortal objects: Python" in shared["said"]
    assert shared["after"] > shared["before"] / 2


def test_a_program_that_needs_no_event_loop_has_none(guest: GuestProcess) -> None:
    loops = "import asyncio, gc\nsum(isinstance(each, asyncio.AbstractEventLoop) for each in gc.get_objects())"
    assert guest.run(loops).value == 0
    assert guest.run("import asyncio\nasyncio.get_running_loop() is asyncio.get_event_loop()").value is True
    assert guest.run(loops).value == 1
