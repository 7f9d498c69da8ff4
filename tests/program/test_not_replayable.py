"""Threads and timers that send signals are found before a run that can be replayed; nothing else is."""

from __future__ import annotations

import pytest

from callgate.program import Finding, check_program

STARTS_A_THREAD = {
    "threading.Thread": "import threading\nthreading.Thread(target=print)",
    "threading.Timer": "from threading import Timer as T\nT(1, print)",
    "asyncio.to_thread": "import asyncio\nawait asyncio.to_thread(print)",
    "concurrent.futures.ThreadPoolExecutor": "import concurrent.futures as cf\nwith cf.ThreadPoolExecutor() as p: pass",
    "concurrent.futures.ProcessPoolExecutor": "import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()",
    "multiprocessing.Process": "from multiprocessing import Process\nProcess(target=print)",
    "_thread.start_new_thread": "import _thread\n_thread.start_new_thread(print, ())",
    "run_in_executor": "import asyncio\nawait asyncio.get_running_loop().run_in_executor(None, print)",
}
FINE = {
    "a lock": "import threading\nthreading.Lock()",
    "a class of that name": "class Thread: pass\nThread()",
    "the name of another module": "from asyncio import Timeout as Thread\nThread",
    "a name that is bound twice": "from threading import Thread\nThread = print\nThread()",
    "async code": "import asyncio\nawait asyncio.sleep(1)",
}


def found(source: str, *, replays: bool = True) -> list[Finding]:
    return [each for each in check_program(source, (), replays=replays) if each.code == "not-replayable"]


@pytest.mark.parametrize("name", STARTS_A_THREAD)
def test_what_starts_a_thread_is_found(name: str) -> None:
    (finding,) = found(STARTS_A_THREAD[name])
    assert finding.message == f"{name} starts a thread, and a run that can be replayed has none"
    assert finding.severity == "error"


def test_a_timer_that_sends_a_signal_is_found() -> None:
    (finding,) = found("import signal\nsignal.alarm(1)")
    assert finding.hint == "use `async with asyncio.timeout(...)`"


@pytest.mark.parametrize("name", FINE)
def test_nothing_is_found_in(name: str) -> None:
    assert not found(FINE[name])


def test_an_error_that_the_program_may_catch_is_a_warning() -> None:
    source = "import threading\ntry:\n    threading.Thread(target=print).start()\nexcept RuntimeError:\n    pass"
    (finding,) = found(source)
    assert finding.severity == "warning"


@pytest.mark.parametrize("name", STARTS_A_THREAD)
def test_other_runs_have_threads(name: str) -> None:
    assert not found(STARTS_A_THREAD[name], replays=False)
