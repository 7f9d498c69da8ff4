"""How the command line's process ends where something of it still runs. Knows no command."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

from .words import INTERRUPTED

__all__ = ["leave_threads_behind", "only_end"]

_THREADS_END_WITHIN_SECONDS = 0.5
_WORDS_TAKE_SECONDS = 5.0


def only_end() -> None:
    """Ctrl-C was heard: another one gets in nobody's way, and the rest, a few words, has a few seconds.

    Whoever should take the words may not: a write to a full pipe, and waiting for one, cannot be interrupted.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end = threading.Timer(_WORDS_TAKE_SECONDS, os._exit, (INTERRUPTED,))
    end.daemon = True
    end.start()


def leave_threads_behind(status: int) -> None:
    """End the process where a sync tool that was given up still runs in a thread: Python would wait for it.

    Args:
        status: the exit code. stdout has been flushed.
    """
    ours = threading.current_thread()
    deadline = time.monotonic() + _THREADS_END_WITHIN_SECONDS
    with contextlib.suppress(KeyboardInterrupt):  # impatient: then now
        for thread in threading.enumerate():
            if thread is not ours and not thread.daemon:
                thread.join(max(deadline - time.monotonic(), 0))
                if thread.is_alive():
                    break
        else:
            return
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(status)
