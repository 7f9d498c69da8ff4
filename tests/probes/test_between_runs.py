"""P80 to P82: a run leaves nothing that the next can see, and nothing that goes on."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import pytest

from callgate import Limits
from pace import stretched
from probes.harness import Jail, control
from probes.processes import eventually

PATCH = """
import asyncio, builtins, decimal, json, locale, os, re, sys, typing, warnings
json.dumps = json.loads = lambda *a, **k: "patched"
builtins.len = lambda x: 99
builtins.probe_was_here = True
sys.setrecursionlimit(77777)
sys.probe_was_here = True
os.getcwd = lambda: "patched"
warnings.simplefilter("error")
decimal.getcontext().prec = 3
sys.path.append("/patched")
sys.modules["probe_module"] = sys
asyncio.probe_was_here = True
re._cache.clear() if hasattr(re, "_cache") else None
import threading, atexit
threading.Thread.probe_was_here = True
"""
LOOK = """
import asyncio, builtins, decimal, json, os, sys, threading, warnings
got = [json.loads("[1]") == [1], builtins.len([]) == 0, hasattr(builtins, "probe_was_here"), sys.getrecursionlimit() != 77777, hasattr(sys, "probe_was_here"),
       os.getcwd() != "patched", decimal.getcontext().prec == 28, "/patched" in sys.path, "probe_module" in sys.modules, hasattr(asyncio, "probe_was_here"),
       hasattr(threading.Thread, "probe_was_here"), any(each[0] == "error" for each in warnings.filters), "leftover" in globals()]
"""
PRISTINE = [True, True, False, True, False, True, True, False, False, False, False, False, False]


def test_p80_what_one_run_patches_the_next_does_not_see(jail: Jail) -> None:
    assert jail.probe(LOOK) == PRISTINE
    for _ in range(3):
        assert jail.run(f"leftover = 1\n{PATCH}").ok
        assert jail.probe(LOOK) == PRISTINE
    # printing the control's outcome needs a json that is whole again
    outside = control(f"import json\nwhole = json.dumps\nleftover = 1\n{PATCH}\n{LOOK}\njson.dumps = whole")
    assert outside == [not each for each in PRISTINE]


LEAVE = """
import asyncio, atexit, os, signal, threading, time
os.environ["LEFT"] = "1"
os.umask(0o111)
signal.signal(signal.SIGUSR1, lambda *_: None)
atexit.register(print, "left behind")
threading.Thread(target=time.sleep, args=(99,), daemon=True, name="left-behind").start()
try:
    open("/tmp/left", "w").write("x")
    os.mkdir("/tmp/left-folder")
    os.chdir("/tmp/left-folder")
except OSError:
    os.chdir("/dev" if os.path.isdir("/dev") else "/")
task = asyncio.ensure_future(asyncio.sleep(99))
"""
FIND = """
import asyncio, os, signal, threading
mask = os.umask(0)
os.umask(mask)
try:
    files = os.listdir("/tmp")
except OSError:
    files = []
got = ["LEFT" in os.environ, mask == 0o111, signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL, [t.name for t in threading.enumerate() if t.name == "left-behind"],
       [name for name in files if name.startswith("left")], os.getcwd()]
"""


def test_p81_what_one_run_leaves_the_next_does_not_find(jail: Jail) -> None:
    clean = [False, False, False, [], [], jail.kind.folder]
    assert jail.probe(FIND) == clean
    for _ in range(3):
        result = jail.run(LEAVE)
        assert result.ok, result.error
        assert "left behind" not in result.logs
        assert jail.probe(FIND) == clean
    within = (
        LEAVE.replace("/tmp/left", "left")
        .replace('print, "left behind"', "int")
        .replace("task = asyncio.ensure_future(asyncio.sleep(99))", "")
    )
    assert control(f"import tempfile\nos.chdir(tempfile.mkdtemp())\n{within}\n{FIND}")[:4] == [
        True,
        True,
        True,
        ["left-behind"],
    ]


@pytest.mark.parametrize("how", [
    "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
    "import threading\ndef spin():\n    while True: pass\nfor _ in range(4): threading.Thread(target=spin, daemon=True).start()",
    "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)\nsignal.signal(signal.SIGALRM, lambda *_: None)",
    "import asyncio\nasyncio.get_running_loop().call_later(99, print)\nawait asyncio.sleep(0)", "import atexit, time\natexit.register(time.sleep, 99)",
    "import signal\nfor each in range(1, 65):\n    try: signal.signal(each, signal.SIG_IGN)\n    except (OSError, ValueError): pass",
    "class Late:\n    def __del__(self):\n        while True: pass\nlate = Late()", "import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()",
    "import asyncio\nasync def stay():\n    while True:\n        try: await asyncio.sleep(9)\n        except BaseException: pass\nt = asyncio.create_task(stay())\nawait asyncio.sleep(0)",
])  # fmt: skip
def test_p82_nothing_of_a_run_goes_on(jail: Jail, how: str) -> None:
    with jail.leaves_nothing():
        jail.settled()
        before = len(jail.seats.everything())
        result = jail.run(how, limits=Limits(wall_seconds=0.6))
        assert result.ok or (result.error is not None and result.error.limit == "wall_seconds"), result.error
        took = eventually(lambda: len(jail.seats.everything()) <= before, "its process is gone")
        assert took < stretched(jail.kind.gone_seconds)


def test_p82_the_control_leaves_a_process_behind() -> None:
    snippet = """
import subprocess, sys
left = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, start_new_session=True)
got = left.poll() is None
left.stdin.close()
left.wait()
"""
    assert control(snippet) is True
