"""Power failures: cuts the log of a database to what its processes had synced to the disk.

A library that is loaded before libc notes the size of each file of the database at each ``fsync`` (`synced.c`, built
with the machine's C compiler). What was written later than that is cut off, which is the worst that a power failure
does to a file that only grows. The database itself grows only when the log is copied into it; that does not happen in
runs as short as these, but at the orderly end of a process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["can_fail", "fail", "recorded", "sizes"]

LOG = "runs.db-wal"


def can_fail() -> bool:
    """Whether this machine has a C compiler."""
    return shutil.which("cc") is not None


def recorded(folder: Path) -> dict[str, str]:
    """Environment of a process whose syncs are noted. The library is built beside the folder, once."""
    library = folder.parent / "synced.so"
    if not library.exists():
        source = Path(__file__).with_name("synced.c")
        part = library.with_suffix(f".{os.getpid()}")  # another process of the campaign may build it, too
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(part), str(source), "-ldl"], check=True)
        part.replace(library)
    return {"LD_PRELOAD": str(library), "KILL_SYNCED": str(folder / "synced")}


def sizes(folder: Path) -> Mapping[str, int]:
    """Sizes of the files of the database now."""
    return {file.name: file.stat().st_size for file in folder.glob("runs.db*")}


def fail(folder: Path, before: Mapping[str, int]) -> None:
    """Cut the log to what was synced since `before`, when the process was started."""
    synced = before.get(LOG, 0)
    notes = folder / "synced"
    for line in notes.read_text().splitlines() if notes.exists() else ():
        size, _, path = line.partition(" ")
        if Path(path).name == LOG:
            synced = int(size)
    notes.unlink(missing_ok=True)
    if (folder / LOG).exists() and (folder / LOG).stat().st_size > synced:
        os.truncate(folder / LOG, synced)
