"""Runs pytest with the given arguments. Where up to five tests fail, runs these once more, each alone, and says which
passed then: `python tests/again.py -m alone`.

Only for tests that judge time, where a busy machine fails what is sound. Of other tests a failure that does not come
again is most likely a race, which is a fault: they are run by pytest itself. Ends with 0 if nothing failed twice.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

MOST = 5
"""Tests that are run once more; where more fail, something is broken."""
SOME_FAILED = 1
"""Exit status of pytest."""


def main(*arguments: str) -> int:
    """Returns the exit status."""
    pytest = [sys.executable, "-m", "pytest"]
    with tempfile.TemporaryDirectory() as folder:
        cache = ["-o", f"cache_dir={folder}"]
        status = subprocess.run([*pytest, *cache, *arguments]).returncode
        noted = Path(folder, "v", "cache", "lastfailed")
        failed = list(json.loads(noted.read_text())) if noted.exists() else []
    if status != SOME_FAILED or not 0 < len(failed) <= MOST:
        return status
    profile = arguments.index("--hypothesis-profile") if "--hypothesis-profile" in arguments else len(arguments)
    alone = [*pytest, "-p", "no:cacheprovider", *arguments[profile : profile + 2]]
    twice = [test for test in failed if subprocess.run([*alone, test]).returncode]
    for test in failed:
        print(f"{'failed twice' if test in twice else 'failed once, and passed alone'}: {test}")
    return SOME_FAILED if twice else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
