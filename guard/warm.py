"""A process that has imported pytest and third parties, but nothing of callgate, and forks for each run of tests.

Started as ``python warm.py COPY``, where COPY holds sources and tests. A line of JSON comes in, ``{"tests": [...],
"seconds": 60}``, and one goes out: ``{"killer": test or null, "status": pytest's, or null where it ended or hung}``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import hypothesis
import pytest

WARM = "anyio._backends._asyncio anyio.pytest_plugin asyncio click docstring_parser hypothesis hypothesis.strategies"
WARM += " ijson jsonschema_rs pydantic rapidfuzz re2 RestrictedPython snowballstemmer unittest.mock"
CPU_SECONDS = 60
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "timeout=40", "--no-header", "--tb=no"]
OPTIONS += ["--hypothesis-profile=guard", "-k", "not trio", "-W", "ignore::pytest.PytestAssertRewriteWarning"]


class Killer:
    """Remembers the test, or the file, that failed first."""

    name: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.name = self.name or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.name = self.name or report.nodeid


def run(tests: list[str], answer: int) -> None:
    """In the fork: run the tests until one fails, and write which."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(quiet, descriptor)
    # nobody reads the smallest example of a failure; and each run draws the same ones
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    lenient = list(hypothesis.HealthCheck)
    hypothesis.settings.register_profile(
        "guard", phases=phases, database=None, derandomize=True, deadline=None, suppress_health_check=lenient
    )
    hypothesis.settings.load_profile("guard")
    killer = Killer()
    status = int(pytest.main([*OPTIONS, *tests], plugins=[killer]))
    os.write(answer, json.dumps({"killer": killer.name, "status": status}).encode())
    os._exit(0)


def answered(tests: list[str], seconds: float) -> dict[str, Any]:
    """Fork, run, and clear away what the tests left."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(ours)
            run(tests, theirs)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(theirs)
    ready, _, _ = select.select([ours], [], [], seconds)
    said = os.read(ours, 1 << 16) if ready else b""
    os.close(ours)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return dict(json.loads(said)) if said else {"killer": None, "status": None}


def main(copy: str) -> None:
    roots = [f"{copy}/host", f"{copy}/sandbox_image"]
    sys.path[:] = [*roots, *(each for each in sys.path[1:] if Path(each).name not in ("host", "sandbox_image"))]
    os.environ["PYTHONPATH"] = ":".join(roots)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    os.chdir(copy)
    for name in WARM.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert not any(name.startswith("callgate") for name in sys.modules)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(answered(asked["tests"], asked["seconds"])), flush=True)


main(sys.argv[1])
