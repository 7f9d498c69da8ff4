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
old = {id(each) >> 12 for each in gc.get_objects()}

def holes():  # pages of old objects that new ones lie on
    new = [bytes(size) for size in range(40, 2000, 24) for _ in range(8)]
    return len({id(each) >> 12 for each in new} & old)

before, holes_before = sharing.in_child(sharing.copied_pages)[0], sharing.in_child(holes)
said, fillers = sharing.share()
after, holes_after = sharing.in_child(sharing.copied_pages)[0], sharing.in_child(holes)
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
print(json.dumps({"before": before, "after": after, "said": said,
                  "fillers": len(fillers), "names": len(names), "holes": [holes_before, holes_after]}))
"""


def _shared(script: str = _SCRIPT) -> dict[str, Any]:
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


def test_holes_are_filled_and_counts_are_not_written() -> None:
    shared = _shared()
    assert shared["before"] > 500
    before, after = shared["holes"]
    assert after < before / 4
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


_MOVED = """
import json, sys
from callgate_guest import sharing

class Odd:  # reading `odd` cannot be specialised
    def __getattr__(self, name): return 1

called, others = [], []
for number in range(2000):
    names = {}
    body = f"return odd.one + {number} + sum(n for n in [one]) + (lambda: odd.two)()"
    exec(f"def f{number}(odd, one=1):\\n    {body}", names)
    (others if number % 10 else called).append(names[f"f{number}"])
run = lambda: [each(Odd()) for each in called]
first = [run() for _ in range(20)][0]
pages = lambda: len({id(each.__code__) >> 12 for each in called})
before = pages()
left = sharing.gather(run)
print(json.dumps({"before": before, "after": pages(), "same": run() == first,
                  "held": [each.__name__ for each in called] == [each.__code__.co_name for each in called]}))
"""


def test_code_that_every_run_writes_to_is_moved_together_and_does_the_same() -> None:
    moved = _shared(_MOVED)
    assert moved["same"]
    assert moved["held"]
    assert moved["after"] < moved["before"] / 2


_FORKED = """
import json, os
from callgate_guest.session import Session

to_guest, from_guest = os.pipe(), os.pipe()
code = "import asyncio\\n[asyncio.get_event_loop() is asyncio.get_running_loop(), asyncio.get_event_loop().holds_calls]"
params = {"code": code, "tools": [], "inputs": {}}
os.write(to_guest[1], json.dumps({"jsonrpc": "2.0", "method": "execute", "params": params, "id": 1}).encode() + b"\\n")
session = Session()
session.install()
if os.fork() == 0:
    session.serve(to_guest[0], from_guest[1], most=1)
    os._exit(0)
os.wait()
os.write(1, os.read(from_guest[0], 65536))
"""


def test_a_session_that_was_made_before_the_fork_gives_a_sync_program_its_own_loop() -> None:
    assert _shared(_FORKED)["result"] == {"value": [True, True]}


def test_a_program_that_needs_no_event_loop_has_none(guest: GuestProcess) -> None:
    loops = "import asyncio, gc\nsum(isinstance(each, asyncio.AbstractEventLoop) for each in gc.get_objects())"
    assert guest.run(loops).value == 0
    assert guest.run("import asyncio\nasyncio.get_running_loop() is asyncio.get_event_loop()").value is True
    assert guest.run(loops).value == 1
