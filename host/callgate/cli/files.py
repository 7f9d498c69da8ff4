"""Files of ``callgate run``: those that ``--file`` and ``--folder`` name, and those that a program made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from callgate.media import clean_name

from .words import Stop, counted, one_line, say

if TYPE_CHECKING:
    from callgate import Artifact

__all__ = ["files_from", "folder_to_fill", "folders_from", "save_or_name"]

_MOST_NAMED = 10


def files_from(given: Iterable[str]) -> dict[str, Path]:
    """``PATH`` and ``NAME=PATH`` pairs, by names below ``/input``. Raises `Stop`."""
    return _named(given, "--file", "file", Path.is_file)


def folders_from(given: Iterable[str]) -> dict[str, Path]:
    """As `files_from`, for folders."""
    return _named(given, "--folder", "folder", Path.is_dir)


def _named(given: Iterable[str], flag: str, what: str, is_there: Callable[[Path], bool]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for each in given:
        name, equals, path = each.partition("=")
        if not equals or is_there(Path(each)):  # a path may have a = in it
            name, path = os.path.basename(os.path.abspath(each)), each  # of a link its own name
        tip = f"write {flag} PATH, or {flag} NAME=PATH, for example {flag} data={path or 'PATH'}"
        if not is_there(Path(path)):
            raise Stop(f"{flag} {each}: there is no {what} {path!r}", tip)
        if not name or clean_name(name) != name:
            raise Stop(f"{flag} {each}: {name!r} is not a name below /input", tip)
        if name in found:
            raise Stop(f"{flag} {each}: two are called {name!r}", tip)
        found[name] = Path(path)
    return found


def folder_to_fill(given: str | None) -> Path | None:
    """The folder of ``--output-dir``. Raises `Stop` if it is no folder."""
    if given is not None and Path(given).exists() and not Path(given).is_dir():
        raise Stop(f"--output-dir {given} is not a folder", "name a folder, or one that is to be made")
    return None if given is None else Path(given)


def save_or_name(artifacts: Sequence[Artifact], folder: Path | None) -> str:
    """Save the files and say where, or say how to save them. Returns why some could not be saved; empty if all were."""
    if not artifacts:
        return ""
    if folder is None:
        names = ", ".join(_described(each) for each in artifacts[:_MOST_NAMED])
        more = f" and {len(artifacts) - _MOST_NAMED} more" if len(artifacts) > _MOST_NAMED else ""
        say(f"{counted(len(artifacts), 'file')}: {names}{more}; --output-dir DIR saves them", "dim")
        return ""
    unsaved = []
    for each in artifacts:
        try:
            path = each.save(folder)
        except OSError as fault:
            unsaved.append(f"{each.name} cannot be saved in {folder}: {fault.strerror or fault}")
            continue
        say(f"saved {one_line(str(path))} ({each.media_type}, {each.size_bytes:,} bytes)")
    return unsaved[0] + (f"; and {len(unsaved) - 1} more" if len(unsaved) > 1 else "") if unsaved else ""


def _described(artifact: Artifact) -> str:
    return f"{one_line(artifact.name, 100)} ({artifact.size_bytes:,} bytes)"
