"""``callgate audit``: checks an audit log, and shows what is in one."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import click

from callgate.runtime.audit.chain import MAX_LINE_BYTES, Keys, pieces_of
from callgate.runtime.audit.keys import read_key
from callgate.runtime.audit.verify import Verified, verify

from .options import shared
from .words import Exit, Stop, counted, emit, emit_json, one_line

__all__ = ["command"]

_HEAD = ("at", "writer", "kind", "run", "call", "tool")
_NOT_SHOWN = ("v", "n", "after", "ends", "mac", "caller")


@click.group("audit")
def command() -> None:
    """Audit logs, as Runtime(audit=FILE) and --audit FILE write them."""


@command.command("verify")
@click.argument("file", metavar="FILE")
@click.option("--key-file", metavar="FILE", help="The log's key. Default FILE.key, where FILE is the log.")
@click.option("--head", "heads", multiple=True, metavar="MAC",
              help="A head that was noted elsewhere: it must still be in the log. May be repeated.")  # fmt: skip
@shared("json")
def check(file: str, key_file: str | None, heads: tuple[str, ...], json: bool) -> int:
    """Find each line of FILE that was edited, dropped, moved or inserted.

    No file can promise its own end: who cuts off the last lines of a writer leaves no trace in it, unless a later line
    or a head noted elsewhere (--head) names them. Who has the key can write a new log.

    Exit codes: 0 nothing was changed, 1 something was, 2 usage.
    """
    with _opened(file) as stream:
        found = verify(stream, Keys(_key(file, key_file)))
    missing = [head for head in heads if head.lower() not in found.macs]
    if json:
        emit_json({**_as_json(found), "missing_heads": missing, "ok": found.ok and not missing})
    else:
        _show(found, missing)
    return Exit.OK if found.ok and not missing else Exit.FAILED


@command.command("show")
@click.argument("file", metavar="FILE")
@click.option("--run", metavar="ID", help="Only this run; the beginning of its id is enough.")
@click.option("--tool", metavar="NAME", help="Only calls of this tool.")
@shared("json")
def show(file: str, run: str | None, tool: str | None, json: bool) -> int:
    """Show the lines of FILE, one decision a line. It does not check them: see `callgate audit verify`.

    Exit codes: 0 shown, 2 usage.
    """
    with _opened(file) as stream:
        for fields in _lines(stream):
            if run is not None and not str(fields.get("run", "")).startswith(run):
                continue
            if tool is not None and fields.get("tool") != tool:
                continue
            emit_json(fields) if json else emit(_line(fields))
    return Exit.OK


def _opened(file: str) -> BinaryIO:
    try:
        if not stat.S_ISREG(Path(file).stat().st_mode):
            raise Stop(f"{file} is not a file", "name an audit log", Exit.USAGE)
        return Path(file).open("rb")
    except OSError as error:
        raise Stop(f"{file} cannot be read: {error.strerror}", "name an audit log", Exit.USAGE) from None


def _key(file: str, key_file: str | None) -> bytes:
    place = Path(key_file or f"{file}.key")
    try:
        return read_key(place)
    except OSError as error:
        tip = "name the key of this log with --key-file; only with it can lines be checked"
        raise Stop(f"the key {place} cannot be read: {error.strerror}", tip, Exit.USAGE) from None


def _as_json(found: Verified) -> dict[str, Any]:
    return {
        "lines": found.lines,
        "chains": [asdict(chain) for chain in found.chains.values()],
        "faults": [asdict(fault) for fault in found.faults],
        "more_faults": found.more_faults,
    }


def _show(found: Verified, missing: list[str]) -> None:
    for chain in found.chains.values():
        end = "closed" if chain.closed else "not closed: its process still writes, was killed, or its end was cut off"
        lost = f", {counted(chain.lost, 'line')} lost" if chain.lost else ""
        emit(f"chain {chain.writer}: {counted(chain.lines, 'line')}{lost}, {end}; head {chain.head}")
    for fault in found.faults:
        emit(f"line {fault.line}: {fault.message}")
    if found.more_faults:
        emit(f"... {counted(found.more_faults, 'more fault')}")
    for head in missing:
        emit(one_line(f"head {head} is not in it: lines at the end of a chain are missing", 200))
    if found.ok and not missing:
        emit(f"nothing was changed in {counted(found.lines, 'line')}; a cut-off end would not show without --head")


def _lines(stream: BinaryIO) -> Iterator[dict[str, Any]]:
    while row := stream.readline(MAX_LINE_BYTES):
        for _, data in pieces_of(row):  # a line may stand right behind one that was cut off
            try:
                fields = json.loads(data)
            except (ValueError, RecursionError):
                fields = None
            if not isinstance(fields, dict):
                fields = {"kind": "unreadable", "line": data[:200].decode("utf-8", "replace")}
            yield fields


def _line(fields: dict[str, Any]) -> str:
    """A line for people: when, which run and call, the decision, and what else is known."""
    run, call = str(fields.get("run", ""))[:12], fields.get("call")
    where = run if call is None else f"{run} #{call} {fields.get('tool')}"
    rest = {name: value for name, value in fields.items() if name not in _HEAD and name not in _NOT_SHOWN}
    said = " ".join(f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in rest.items())
    return one_line(f"{fields.get('at', '')} {fields.get('kind', '')} {where} {said}".replace("  ", " "), 1000)
