"""``callgate runs``: shows the runs that are kept in a file, and writes into it what people decide about them.

Only ``resume`` runs anything. What is decided reaches the process that serves the run within a second.
"""

from __future__ import annotations

import getpass
import json
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, get_args

import anyio
import click

from callgate import Runtime, event_loop
from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import RunStatus
from callgate.runtime.durable.pending import PendingCall, pending_calls
from callgate.runtime.durable.runs import Run, Runs

from .kept_runs import found, opened, refusals_told
from .options import Sandbox, encryption_key, limit_options, option, options, shared
from .runs_view import call_text_of, page_of, question, question_json, run_json, run_line
from .words import Exit, Stop, counted, data_only, emit, emit_json, log_to_stderr, say

__all__ = ["command"]

_MOST_LISTED = 50
_ENDS_WITHIN_SECONDS = 5.0
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_NOT_HERE = {"output_dir": None, "trace": None, "for_model": False, "timeline": False}
"""Options of `callgate run` and `callgate plan` that `resume` does not have."""
_Work = Callable[[Runs, SqliteStore], Awaitable[int]]


class Kept:
    """Where the runs are."""

    durable = option(metavar="FILE")
    """The file that keeps the runs, of `callgate run`, `callgate serve` or Runtime(durable=FILE)."""
    encryption_key_file = option(metavar="FILE")
    """A file with the key of the runs, 64 hexadecimal digits, where they are encrypted."""


class Decide:
    """Options of a decision."""

    by = option(metavar="NAME")
    """Who decides, as you say: nobody checks it. Default: your name on this machine."""
    arguments = option(metavar="JSON")
    """Call the tool with these arguments instead: an object. The tool's schema checks them when the run goes on."""
    reason = option(metavar="TEXT")
    """Why not: the program reads it."""


class Settle:
    """What became of a call. One of these."""

    happened = option(metavar="JSON")
    """The call was done, with this result."""
    again = option(is_flag=True)
    """The call was not done: make it."""
    fail = option(metavar="TEXT")
    """The call fails in the program, with these words."""


class List:
    """Which runs."""

    status = option(type=click.Choice(get_args(RunStatus)))
    """Only runs with this status."""
    most = option(type=click.IntRange(1, 1_000), default=_MOST_LISTED, show_default=True, metavar="N")
    """Most runs to list."""
    before = option(metavar="ID")
    """Go on after this run, the last of the page before."""


class Prune:
    """Which runs to delete."""

    older_than = option(required=True, metavar="TIME")
    """Runs that ended longer ago than that: 30d, 12h, 90m."""


@click.group("runs")
@options(Kept)
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Runs that are kept in a file: `callgate runs --durable FILE COMMAND`. ID is the id of a run, or its key; CALL is
    the name of a call, or its beginning, and may be left out where there is one.

    Exit codes: 0 done, 1 it was decided before, the file cannot be used, or the resumed program failed, 2 usage.
    """
    context.obj = given


@command.command("list")
@options(List)
@shared("json")
@click.pass_obj
def listed(file: dict[str, Any], /, **given: Any) -> int:
    """List runs, the newest first. A line has id, status, age, key, and what the run waits for or why it failed."""

    async def work(runs: Runs, store: SqliteStore) -> int:
        rows = await store.list(status=given["status"], most=given["most"], before=given["before"])
        if given["json"]:
            emit_json([run_json(row) for row in rows])
            return Exit.OK
        for row in rows:
            emit(run_line(row))
        total = await store.count(status=given["status"])
        more = f"; older ones: list --before {rows[-1].id}" if len(rows) == given["most"] and total > len(rows) else ""
        say(f"{len(rows)} of {counted(total, 'run')}{more}")
        return Exit.OK

    return _run(file, work)


@command.command("show")
@click.argument("run", metavar="ID")
@shared("json")
@click.pass_obj
def show(file: dict[str, Any], run: str, json: bool) -> int:
    """Show one run. Its program, its calls and what became of them, who approved what, and its result.

    Values of keys that name secrets are redacted. Nobody has checked the names of those who approved.
    """

    async def work(runs: Runs, store: SqliteStore) -> int:
        history = await store.load((await found(runs, run)).id)
        if json:
            emit_json(run_json(history.run, history))
        else:
            emit("\n".join(page_of(history)))
        return Exit.OK

    return _run(file, work)


@command.command("pending")
@shared("json")
@click.pass_obj
def pending(file: dict[str, Any], json: bool) -> int:
    """List the calls that wait for an approval. The oldest comes first; arguments are shown whole, but for secrets."""

    async def work(runs: Runs, store: SqliteStore) -> int:
        asked = await runs.pending()
        if json:
            emit_json([question_json(each) for each in asked])
            return Exit.OK
        for each in asked:
            emit(question(each))
        say(f"{counted(len(asked), 'call')} {'waits' if len(asked) == 1 else 'wait'} for approval")
        return Exit.OK

    return _run(file, work)


@command.command("approve")
@click.argument("run", metavar="ID")
@click.argument("call", required=False)
@options(Decide, "by", "arguments")
@click.pass_obj
def approve(file: dict[str, Any], run: str, call: str | None, by: str | None, arguments: str | None) -> int:
    """Let a call be made that waits for an approval. The run then goes on in the process that serves the file."""
    tip = 'write {"NAME": VALUE}, with all arguments of the call'
    edited = None if arguments is None else _json("--arguments", arguments, tip)
    if edited is not None and not isinstance(edited, dict):
        raise Stop(f"--arguments {arguments!r} is not an object", tip)

    async def work(runs: Runs, store: SqliteStore) -> int:
        asked = await _asked(file, runs, store, run, call)
        await runs.approve(asked.run, asked.call, by=_name(by), arguments=edited)
        return _said(file, "approved", asked, "with other arguments" if edited is not None else "")

    return _run(file, work)


@command.command("deny")
@click.argument("run", metavar="ID")
@click.argument("call", required=False)
@options(Decide, "by", "reason")
@click.pass_obj
def deny(file: dict[str, Any], run: str, call: str | None, by: str | None, reason: str | None) -> int:
    """Refuse a call that waits for an approval. It raises ApprovalDenied in the program, which may catch it."""

    async def work(runs: Runs, store: SqliteStore) -> int:
        asked = await _asked(file, runs, store, run, call)
        await runs.deny(asked.run, asked.call, by=_name(by), reason=reason or "")
        return _said(file, "denied", asked)

    return _run(file, work)


@command.command("settle")
@click.argument("run", metavar="ID")
@click.argument("call", required=False)
@options(Settle)
@click.pass_obj
def settle(
    file: dict[str, Any], run: str, call: str | None, happened: str | None, again: bool, fail: str | None
) -> int:
    """Say what became of a call whose outcome is unknown. It was at work when its process ended: find out first."""
    if (happened is not None) + again + (fail is not None) != 1:
        raise Stop(
            "settle takes one of --happened, --again and --fail", "callgate runs settle --help says what each means"
        )
    how: dict[str, Any] = {"again": True} if again else {"fail": fail}
    if happened is not None:
        how = {"happened": _json("--happened", happened)}

    async def work(runs: Runs, store: SqliteStore) -> int:
        known = await found(runs, run)
        chosen = _chosen(file, known, await runs.unsettled(known.id), call, "whose outcome is unknown")
        await runs.settle(known.id, chosen.call, **how)
        return _said(file, "settled", chosen)

    return _run(file, work)


@command.command("cancel")
@click.argument("run", metavar="ID")
@click.pass_obj
def cancel(file: dict[str, Any], run: str) -> int:
    """End a run for good. Calls that are under way are cancelled; what is done stays done."""

    async def work(runs: Runs, store: SqliteStore) -> int:
        known = await found(runs, run)
        await runs.cancel(known.id)
        ending = await runs.resume(known.id)  # a run that no process is at ends here
        with anyio.move_on_after(_ENDS_WITHIN_SECONDS):
            await ending.rest()
        say(f"cancelled run {known.id}")
        return Exit.OK

    return _run(file, work)


@command.command("resume")
@click.argument("run", metavar="ID")
@shared("tools", "mcp", "ask", "yes")
@options(Sandbox)
@shared("policy", "verbose", "json")
@limit_options()
@click.pass_obj
def resume(file: dict[str, Any], /, run: str, **given: Any) -> int:
    """Go on with a run in this process. Give the tools that it was started with. Not needed where a process serves the
    file.

    Its value is printed as by `callgate run`; so are the exit codes.
    """
    from .offer import Offer
    from .running import resume_run

    log_to_stderr(given["verbose"])
    with data_only() as data, refusals_told(file):
        return event_loop.run(resume_run, Offer(given), data, run, {**_NOT_HERE, **given, **_durable(file)})


@command.command("prune")
@options(Prune)
@click.pass_obj
def prune(file: dict[str, Any], older_than: str) -> int:
    """Delete runs that have ended, with their calls and results."""
    match = re.fullmatch(r"([0-9]{1,9})([smhdw])", older_than)
    if match is None:
        raise Stop(f"--older-than {older_than!r} is not a time", "write a number and s, m, h, d or w, for example 30d")
    seconds = int(match[1]) * _SECONDS[match[2]]

    async def work(runs: Runs, store: SqliteStore) -> int:
        say(f"deleted {counted(await runs.prune(ended_before=time.time() - seconds), 'run')}")
        return Exit.OK

    return _run(file, work)


# inside


def _durable(file: dict[str, Any]) -> dict[str, Any]:
    """The options of the group, with the key. Raises `Stop` if they name no file with runs."""
    if file["durable"] is None:
        raise Stop("there is no file with runs", "name it before the command: callgate runs --durable FILE list")
    if not Path(file["durable"]).exists():
        tip = "`callgate run --durable FILE` and `callgate serve --durable FILE` make one"
        raise Stop(f"there is no file {file['durable']}", tip)
    return {**file, "encryption_key": encryption_key(file)}


def _run(file: dict[str, Any], work: _Work) -> int:
    options = _durable(file)
    log_to_stderr()

    async def opened_and_done() -> int:
        async with Runtime((), sandbox=None) as runtime, opened(options, runtime) as (runs, store):
            return await work(runs, store)

    with refusals_told(options):
        return event_loop.run(opened_and_done)


def _json(flag: str, text: str, tip: str = "") -> Any:
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        tip = tip or f"text needs its quotes: {flag} '{json.dumps(text, ensure_ascii=False)}'"
        raise Stop(f"{flag} {text[:200]!r} is not JSON", tip) from None


def _not_json(text: str) -> Any:
    raise ValueError(text)


def _name(by: str | None) -> str:
    """Who decides: as given, else the name of the user on this machine."""
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise Stop("your name on this machine is not known", "say who decides: --by NAME") from None


async def _asked(file: dict[str, Any], runs: Runs, store: SqliteStore, run: str, call: str | None) -> PendingCall:
    """The call that a person decides about; one that was decided before, where no other fits."""
    known = await found(runs, run)
    asked = await runs.pending(run=known.id)
    decided = pending_calls((await store.load(known.id)).approvals)
    there = [each for each in asked if each.call.startswith((call or "").lower())]
    return _chosen(file, known, asked if there or not decided else decided, call, "that waits for approval")


def _chosen(file: dict[str, Any], run: Run[Any], calls: Any, name: str | None, what: str) -> PendingCall:
    """The call with this name, or whose name begins so; without a name the only one. Raises `Stop`."""
    fitting: list[PendingCall] = [each for each in calls if each.call.startswith((name or "").lower())]
    if len(fitting) == 1:
        return fitting[0]
    listed = "; ".join(f"{each.call} {call_text_of(each)}" for each in (fitting or list(calls))[:10])
    if not calls:
        command = f"callgate runs --durable {file['durable']}"
        tip = f"`{command} show {run.id}` shows its calls"
        if run.status == "running":  # also of a process that was killed: the next one finds out
            tip += f"; if its process was killed, `{command} resume {run.id}` with its --tools finds what is unknown"
        raise Stop(f"run {run.id} has no call {what}; its status is {run.status}", tip)
    if not fitting:
        raise Stop(f"run {run.id} has no call {name!r} {what}", f"name one of these: {listed}")
    raise Stop(
        f"run {run.id} has {len(fitting)} calls {what.replace('waits', 'wait', 1)}", f"name one of these: {listed}"
    )


def _said(file: dict[str, Any], verb: str, call: PendingCall, more: str = "") -> int:
    say(f"{verb} {call_text_of(call)} of run {call.run}{f' {more}' if more else ''}")
    resume = f"callgate runs --durable {file['durable']} resume {call.run}, with its --tools"
    say(f"the process that serves the file goes on with the run; if there is none: {resume}", "dim")
    return Exit.OK
