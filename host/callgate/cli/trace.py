"""``callgate trace``: the page of an agent's transcript, or of a result that a command printed with ``--json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from callgate.errors import ConfigurationError

from .options import option, options, page_to_write
from .pages import write_page
from .words import Exit, Stop, data_only, emit

__all__ = ["command"]

_MOST_BYTES = 1024 * 1024 * 1024
_TIP = "name a transcript of `callgate agent --transcript`, or what `callgate run --json` or `plan --json` printed"


class Trace:
    """Options of this command."""

    output = option("--output", "-o", metavar="OUT.html", callback=page_to_write)
    """Write the page to OUT.html, which is replaced. Default: print it on stdout."""
    title = option(metavar="TEXT")
    """The page's heading. Default: the task, or the plan's goal."""
    json = option(is_flag=True)
    """FILE is a saved result: the JSON of `callgate run --json`, `callgate plan --json`, or of to_dict()."""


@click.command("trace")
@click.argument("file")
@options(Trace)
def command(file: str, **options: Any) -> int:
    """Write the page of FILE: of an agent's transcript, or of a saved result, which is one JSON object.

    Values of keys that name secrets are redacted. Exit codes: 0 ok, 1 the page cannot be written, 2 usage.
    """
    with data_only() as data:
        page = _saved_result(file, options["title"]) if options["json"] else _page(file, options["title"])
        if options["output"] is None:
            emit(page.removesuffix("\n"), data)
            return Exit.OK
    return Exit.OK if write_page(page, options["output"]) else Exit.FAILED


def _page(file: str, title: str | None) -> str:
    """The page of a file that may be either. Raises `Stop`."""
    if _is_transcript(file):
        from callgate.agent.loop.page import agent_page
        from callgate.agent.loop.transcript import read_transcript

        return agent_page([line.event for line in read_transcript(file)], title)
    return _saved_result(file, title)


def _is_transcript(file: str) -> bool:
    """Whether its first line is one of a transcript."""
    try:
        with open(file, "rb") as opened:
            first = json.loads(opened.readline(64 * 1024 * 1024))
    except OSError as error:
        raise Stop(f"{file} cannot be read: {error.strerror}", _TIP) from None
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"v", "at", "kind"} <= first.keys()


def _saved_result(file: str, title: str | None) -> str:
    """The page of a saved result. Raises `Stop`."""
    from callgate.runtime.trace.page import run_page
    from callgate.runtime.trace.saved import result_from

    try:
        path = Path(file)
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            raise Stop(f"{file} has more than {_MOST_BYTES} bytes", _TIP)
        given: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise Stop(f"{file} cannot be read: {error.strerror}", _TIP) from None
    except (ValueError, RecursionError) as error:
        raise Stop(f"{file} is not JSON: {str(error)[:200]}", _TIP) from None
    if not isinstance(given, Mapping):
        raise Stop(f"{file} is not a saved result: it is not an object", _TIP)
    try:
        return run_page(result_from(given), title)
    except ConfigurationError as error:
        raise Stop(f"{file}: {error}", _TIP) from None
