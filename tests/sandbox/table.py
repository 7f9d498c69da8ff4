"""The conformance suite over every backend as one table: ``PYTHONPATH=tests python -m sandbox.table``.

Runs the suite (asyncio), and prints Markdown: a row for each test, a column for each backend. ``differs`` marks what a
backend's subclass of the suite says of itself (`callgate.testing.opening.OpensBackend`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BACKENDS = ["jail tier 1", "jail tier 2", "docker", "docker per tenant", "srt", "srt alone", "unsafe"]
"""As in `sandbox.conftest`, which pytest has to import first."""
SUITE = Path(__file__).with_name("test_conformance.py")
DIFFERS = {
    ("a program is confined", "srt alone"): "differs: may start processes and programs, make sockets that lead nowhere",
    ("many guests at once and nothing left", "docker per tenant"): "differs: one container for guest after guest",
}


class Table:
    """Collects how each test ended, as a plugin of pytest."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name, _, parameters = report.nodeid.rpartition("::")[2].partition("[")
        backend = next((each for each in sorted(BACKENDS, key=len, reverse=True) if each in parameters), "")
        test = name.removeprefix("test_").replace("_", " ")
        if not backend or (report.when != "call" and report.passed):
            return
        row = self.cells.setdefault(test, {})
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            row[backend] = f"refused: {reason.removeprefix('Skipped: ')}"
        elif report.failed:
            row[backend] = "FAILS"
        else:
            row.setdefault(backend, DIFFERS.get((test, backend), "passes"))

    def markdown(self) -> str:
        """The table; reasons are numbered below it."""
        reasons: list[str] = []
        lines = ["| | " + " | ".join(BACKENDS) + " |", "|---" * (len(BACKENDS) + 1) + "|"]
        for test, row in self.cells.items():
            cells = []
            for backend in BACKENDS:
                word, _, reason = row.get(backend, "not run").partition(": ")
                if reason and reason not in reasons:
                    reasons.append(reason)
                cells.append(f"{word} ({reasons.index(reason) + 1})" if reason else word)
            lines.append(f"| {test} | " + " | ".join(cells) + " |")
        return "\n".join([*lines, "", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))])


def main() -> int:
    table = Table()
    options = ["-q", "-p", "no:cacheprovider", "-m", "slow or not slow", "-k", "asyncio"]
    status = pytest.main([*options, str(SUITE)], plugins=[table])
    print(table.markdown())
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
