"""What a program reads of its machine, in a guest that replays: the time of its events, the randomness of its seed."""

from __future__ import annotations

from typing import Any

import pytest

from guest.replayed import START, replayed

CLOCKS = """
import calendar, datetime, email.utils, logging, time, uuid
from datetime import datetime as D
from time import time as now
def clocks():
    record = logging.makeLogRecord({})
    return [
        now(), time.time_ns() / 1e9, time.clock_gettime(time.CLOCK_REALTIME), D.now(datetime.UTC).timestamp(),
        D.now().replace(tzinfo=datetime.UTC).timestamp(), D.utcnow().replace(tzinfo=datetime.UTC).timestamp(),
        D.today().replace(tzinfo=datetime.UTC).timestamp(), email.utils.localtime().timestamp(), record.created,
    ]
def seconds():
    text = time.asctime() + time.ctime() + time.strftime(" %a %b %d %H:%M:%S %Y")
    return [calendar.timegm(each()) for each in (time.gmtime, time.localtime)], datetime.date.today().isoformat(), text
def steady():
    return [time.monotonic(), time.perf_counter(), time.monotonic_ns() / 1e9, time.clock_gettime(time.CLOCK_BOOTTIME)]
class Own(D):
    pass
"""


def test_all_clocks_show_the_time_of_the_last_event() -> None:
    found = replayed(
        CLOCKS + "first = clocks()\nbefore = steady()\nawait echo(1)\n[first, clocks(), before, steady(), seconds()]"
    )
    first, later, before, after, (stamps, date, text) = found.value
    at = found.events[0]["time"]
    assert first == [pytest.approx(START, abs=2e-6)] * 9
    assert later == [pytest.approx(at, abs=2e-6)] * 9
    assert [then - now for then, now in zip(after, before, strict=True)] == [pytest.approx(at - START, abs=2e-6)] * 4
    assert stamps == [int(at)] * 2
    assert date == "2023-11-14"
    assert text.count("Tue Nov 14 22:13:20 2023") == 3


def test_datetime_stays_the_class_that_it_is() -> None:
    code = "[type(Own.now(datetime.UTC)) is Own, isinstance(D.now(), datetime.datetime), D.__module__]"
    assert replayed(CLOCKS + code).value == [True, True, "datetime"]


def test_sleep_ends_with_an_event() -> None:
    found = replayed("import time\ntime.sleep(1.5)\ntime.sleep(0)\ntime.time()")
    assert (found.value, found.waits) == (START + 1.5, [START + 1.5])


@pytest.mark.parametrize("wrong", ["-1", "'1'", "float('nan')", "1e300"])
def test_a_wrong_sleep_raises_what_python_raises(wrong: str) -> None:
    found = replayed(
        f"import time\ntry: time.sleep({wrong})\nexcept (TypeError, ValueError, OverflowError) as e: r = str(e)\nr"
    )
    assert found.value
    assert not found.events


WAITS = {
    "an empty queue": "import queue\ntry:\n    queue.Queue().get(timeout=2)\nexcept queue.Empty:\n    pass",
    "an event": "import threading\nthreading.Event().wait(2)",
    "a semaphore": "import threading\nthreading.Semaphore(0).acquire(timeout=2)",
    "select": "import select\nselect.select([], [], [], 2)",
}


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_for_nobody_ends_with_an_event(name: str) -> None:
    found = replayed(f"{WAITS[name]}\nimport time\ntime.time()")
    assert (found.value, found.waits) == (START + 2, [START + 2])


RANDOM = {
    "random": "import random as r\n[r.random(), r.Random().random(), r.SystemRandom().random(), r.seed(), r.random()]",
    "urandom": "import os\n[os.urandom(4).hex(), os.getrandom(4).hex()]",
    "uuid": "import uuid\n[str(uuid.uuid1()), str(uuid.uuid4()), uuid.getnode()]",
    "secrets": "import secrets\n[secrets.token_hex(), secrets.choice(range(1000))]",
    "names of temporary files": "import tempfile\n[tempfile.mktemp(), tempfile.NamedTemporaryFile().name]",
    "hashes": "[hash('x'), hash(b'x'), list({str(n) for n in range(9)}), list({(str(n), n) for n in range(9)})]",
    "the process": "import os, resource as r\n[os.getpid(), os.getppid(), os.times(), os.getloadavg(), r.getrusage(0)]",
    "names of tasks": "import asyncio\nawait asyncio.sleep(0)\n"
    "[each.get_name() for each in (asyncio.current_task(), asyncio.create_task(echo(1)))]",
}


@pytest.mark.parametrize("name", RANDOM)
def test_two_runs_with_one_seed_see_the_same(name: str) -> None:
    assert replayed(RANDOM[name]).value == replayed(RANDOM[name]).value


def test_randomness_goes_on_and_does_not_repeat() -> None:
    made = "lambda: os.urandom(8), random.random, uuid.uuid4, uuid.uuid1"
    assert replayed(f"import os, random, uuid\n[len({{f() for _ in range(50)}}) for f in ({made})]").value == [50] * 4


FILES = """
import os, pathlib, tempfile
folder = tempfile.mkdtemp()
for name in "zebra", "ant", "mole":
    pathlib.Path(folder, name).write_text(name)
    await echo(name)
path = os.path.join(folder, "ant")
with os.scandir(folder) as entries:
    times = [entry.stat().st_mtime for entry in entries]
with open(path) as file:
    times += [os.fstat(file.fileno()).st_mtime_ns / 1e9, os.lstat(path).st_ctime, os.stat(path).st_atime]
times += [os.path.getmtime(path), pathlib.Path(path).stat().st_mtime]
walked = [sorted(names) == names for _, _, names in os.walk(folder)]
[times, os.listdir(folder), [each.name for each in pathlib.Path(folder).iterdir()], walked, os.stat(path).st_size]
"""


def test_files_have_the_time_of_the_start_and_folders_are_sorted() -> None:
    times, listed, iterated, walked, size = replayed(FILES).value
    assert set(times) == {START}
    assert listed == iterated == ["ant", "mole", "zebra"]
    assert walked == [True]
    assert size == 3


def test_a_loop_that_watches_the_clock_ends_with_a_hint() -> None:
    found = replayed("import time\nend = time.time() + 1\nwhile time.time() < end:\n    pass")
    assert found.ran.error is not None
    data: dict[str, Any] = found.ran.error["data"]
    assert data["line"] == 3
    assert "write `await asyncio.sleep(...)` instead of a loop that looks at the clock" in data["message"]


REFUSED = {
    "threading.Thread": "import threading\nthreading.Thread(target=print).start()",
    "_thread": "import _thread\n_thread.start_new_thread(print, ())",
    "to_thread": "import asyncio\nawait asyncio.to_thread(print)",
    "run_in_executor": "import asyncio\nawait asyncio.get_running_loop().run_in_executor(None, print)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_threads_are_refused_with_what_to_write(name: str) -> None:
    found = replayed(REFUSED[name])
    assert found.ran.error is not None
    message = found.ran.error["data"]["message"]
    assert message.startswith("can't start new thread: a run that can be replayed has no threads")
    assert message.endswith("use async functions with asyncio.gather or a TaskGroup")


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\nasync def main(): return 1\nasyncio.run(main())\nawait main()",
        "import asyncio\nasync def one(): return 1\nasync def outer(): return asyncio.run(one())\nasyncio.run(outer())",
        "from asyncio import run\nasync def main(): return 1\ndef plain(): return run(main(), debug=False)\nplain()\n"
        "async def outer(): return plain()\nawait outer()",
    ],
)
def test_asyncio_run_in_a_running_loop_says_what_cpython_says(code: str) -> None:
    error = replayed(code).ran.error
    assert error is not None
    assert error["data"]["message"] == "asyncio.run() cannot be called from a running event loop"
    assert error["data"]["kind"] == "RuntimeError"


@pytest.mark.parametrize("call", ["signal.alarm(1)", "signal.setitimer(signal.ITIMER_REAL, 1)"])
def test_timers_that_send_signals_are_refused(call: str) -> None:
    found = replayed(f"import signal\n{call}")
    assert found.ran.error is not None
    assert "use asyncio.timeout(...)" in found.ran.error["data"]["message"]


def test_a_process_can_send_itself_a_signal() -> None:
    code = "import os, signal\nout = []\nsignal.signal(signal.SIGUSR1, lambda *_: out.append(1))\n"
    assert replayed(code + "os.kill(os.getpid(), signal.SIGUSR1)\nout").value == [1]
