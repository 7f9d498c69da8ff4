"""``callgate bench``: runs the comparison, which lives in `callgate_bench`, beside the runtime.

Only this file knows `callgate_bench`, and imports it when the command runs: the runtime's wheel does not have it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callgate.cut import cut
from callgate.event_loop import ENDINGS
from callgate.extras import how_to_clone, how_to_install

from .options import given_flags, option, options
from .words import Exit, Stop, page, progress, say

if TYPE_CHECKING:
    from callgate_bench.results import Results
    from callgate_bench.whole_run import Asked

__all__ = ["command"]

_FILE = click.Path(path_type=Path, dir_okay=False)
_OLD_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_ALL_WORKLOADS = "workloads"
_PATHS = ("out", "compare", "source", "base_url", "calls", "markdown")
"""Options that the results leave out: paths of this machine, and an address that may hold a password."""
_WIDTH = 140
_REASON_CHARACTERS = 400
_MODEL_TIP = "callgate bench --help says what a model needs"
_RESULTS, _PAGE, _MARKDOWN = "results.json", "report.html", "report.md"


class Measured:
    """Options of a measurement."""

    quick = option(is_flag=True)
    """Fewer rounds, a faster model: some minutes instead of three quarters of an hour."""
    only = option(multiple=True, metavar="NAME")
    """This workload or measurement, or all `workloads`; may be repeated."""
    modes = option(default="all", metavar="NAMES")
    """callgate's modes, with commas between. Default: all."""
    peers = option(default="all", metavar="NAMES")
    """Peers, with commas between, `all` or `none`; each is installed once, in its own environment. Default: all."""
    rounds = option(type=click.IntRange(1, 1000))
    """Rounds of each workload, however long they take."""
    cell_seconds = option(type=click.FloatRange(0))
    """No further round of a workload that would take longer."""
    out = option(type=_FOLDER, default="callgate-bench", show_default=True)
    """The folder for results.json, report.html and report.md."""
    compare = option(type=_OLD_FILE, metavar="OLD.json")
    """Compare this run with an older results.json, by ratios to a yardstick; exit code 1 where something is worse."""
    source = option("--from", type=_OLD_FILE, metavar="FILE")
    """Measure nothing: table and pages of a results.json."""
    wire = option(type=click.Choice(["openai", "anthropic"]), default="openai", show_default=True)
    """The format that is spoken with the model."""
    model = option(metavar="NAME")
    """A real model instead of the scripted one. Its key comes from OPENAI_API_KEY or ANTHROPIC_API_KEY, and its calls
    cost money."""
    base_url = option(metavar="URL")
    """The address of the real model, where it is not the provider's own."""
    turn_seconds = option(type=click.FloatRange(0, 60))
    """Seconds that the scripted model takes for a turn."""
    token_seconds = option(type=click.FloatRange(0, 1))
    """Seconds that it takes for each token of its replies."""
    context_tokens = option(type=click.IntRange(1000), default=200_000, show_default=True)
    """Context of the scripted model, which refuses longer input."""
    calls = option(type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="DIR")
    """The folder of BFCL's calls; the data of `search` lie beside it."""
    markdown = option(type=_FILE, metavar="FILE")
    """Put the summary into FILE, below its line `<!-- callgate bench writes what follows -->`."""


@click.command("bench")
@options(Measured)
def command(**options: Any) -> int:
    """Run the same workloads through every mode and every peer that installs, and measure single things, in one run.

    The model is a script behind a real HTTP endpoint, unless --model names a real one. What is simulated is labelled.
    Interrupted, it keeps what was measured.
    """
    if find_spec("callgate_bench") is None:
        raise Stop("the comparison is not in callgate's wheel: it runs from a clone", how_to_clone())
    if find_spec("jinja2") is None:
        raise Stop("the comparison needs jinja2", how_to_install("bench"))
    older = _read(options["compare"]) if options["compare"] is not None else None
    status: int = Exit.OK
    if options["source"] is not None:
        results = _read(options["source"])
    else:
        asked = _asked(options)
        _model_must_be_there(asked)
        _must_be_writable(options)
        results, status = _measured(asked, options["out"])
    _show(results, options)
    if older is not None:
        return status or _compared(older, results)
    return status


def _read(path: Path) -> Results:
    from callgate_bench.results import UnreadableResults, read

    try:
        return read(path)
    except UnreadableResults as error:
        raise Stop(str(error), "name a results.json that callgate bench has written") from None


def _asked(options: dict[str, Any]) -> Asked:
    from callgate_bench.contestants.listed import MODES, PEERS
    from callgate_bench.model.talks import RealModel, ScriptedModel
    from callgate_bench.singles.measures import MEASURES
    from callgate_bench.whole_run import FULL_RUN, QUICK_RUN
    from callgate_bench.workloads import WORKLOADS

    base = QUICK_RUN if options["quick"] else FULL_RUN
    pace, model = base.pace, base.model
    if options["model"]:
        model = RealModel(name=options["model"], base_url=options["base_url"] or "")
        pace = dataclasses.replace(pace, rounds=1, scripted=False)
    elif options["base_url"]:
        raise Stop("--base-url is a real model's address, and there is no --model", "name the model: --model NAME")
    else:
        assert isinstance(model, ScriptedModel)
        named = ("turn_seconds", "token_seconds", "context_tokens")
        given = {name: options[name] for name in named if options[name] is not None}
        model = dataclasses.replace(model, **given)
    if options["rounds"]:
        pace = dataclasses.replace(pace, rounds=options["rounds"], cell_seconds=float("inf"))
    if options["cell_seconds"] is not None:
        pace = dataclasses.replace(pace, cell_seconds=options["cell_seconds"])
    only = set(_known("--only", options["only"], [*WORKLOADS, *MEASURES, _ALL_WORKLOADS]))
    if _ALL_WORKLOADS in only:
        only |= set(WORKLOADS)
    changes: dict[str, Any] = {
        "pace": pace,
        "workloads": tuple(name for name in WORKLOADS if name in only or not only),
        "measures": tuple(name for name in MEASURES if name in only or not only),
        "modes": _chosen("--modes", options["modes"], [each.name for each in MODES]),
        "peers": _chosen("--peers", options["peers"], [each.name for each in PEERS]),
        "wire": options["wire"],
        "model": model,
        "command": shlex.join(["callgate", "bench", *given_flags(click.get_current_context(), _PATHS)]),
    }
    if options["calls"] is not None:
        changes["calls"] = options["calls"]
    return dataclasses.replace(base, **changes)


def _chosen(option: str, given: str, known: list[str]) -> tuple[str, ...]:
    if given in ("all", "none"):
        return tuple(known) if given == "all" else ()
    wanted = _known(option, [each.strip() for each in given.split(",") if each.strip()], known)
    return tuple(name for name in known if name in wanted)


def _known(option: str, given: Collection[str], known: list[str]) -> Collection[str]:
    from callgate.tools.faults import did_you_mean

    for name in given:
        if name not in known:
            raise Stop(f"{option}: there is no {name!r}{did_you_mean(name, known)}", f"there are: {', '.join(known)}")
    return given


def _model_must_be_there(asked: Asked) -> None:
    """Check that the model of the workloads can be used. Raises `Stop`."""
    from callgate_bench.model.talks import KEYS, RealModel

    if not asked.workloads:
        return
    real = isinstance(asked.model, RealModel)
    missing = sorted(name for name in {asked.wire} | (set() if real else {"splintr"}) if find_spec(name) is None)
    if missing:
        raise Stop(f"the comparison needs {' and '.join(missing)}", how_to_install("bench"))
    if real and not os.environ.get(KEYS[asked.wire]):
        raise Stop(f"there is no key for the {asked.wire} endpoint: set {KEYS[asked.wire]}", _MODEL_TIP)


def _must_be_writable(options: dict[str, Any]) -> None:
    """Check that the results can be written, before an hour is spent. Raises `Stop`."""
    out, markdown = _folder(options["out"]), options["markdown"]
    folders = {"--out DIR": out} | ({} if markdown is None else {"--markdown FILE": markdown.parent})
    for flag, folder in folders.items():
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"callgate")
        except OSError as error:
            raise Stop(f"{folder} cannot be written: {error.strerror}", f"name another folder: {flag}") from None
    for name in (_RESULTS, _PAGE, _MARKDOWN):
        if (out / name).is_dir():
            raise Stop(f"{out / name} is a folder", "name another folder: --out DIR")


def _measured(asked: Asked, out: Path) -> tuple[Results, int]:
    """Measure. However the run ends, earlier measurements are kept."""
    from callgate_bench import whole_run
    from callgate_bench.model.talks import EndpointMissing
    from callgate_bench.results import write

    results = whole_run.begin(asked)
    started = time.monotonic()

    def saved() -> None:
        with contextlib.suppress(OSError):  # only at the end is this an error
            write(results, out / _RESULTS)

    _end_as_by_ctrl_c()
    try:
        with progress("starting ...") as tell:
            whole_run.run(asked, results, tell if sys.stderr.isatty() else _each_once(tell), saved)
        return results, Exit.OK
    except EndpointMissing as error:
        if results.cells or results.rows:
            raise
        raise Stop(str(error), _MODEL_TIP) from None
    except KeyboardInterrupt:
        for number in ENDINGS:
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C loses nothing
        why, status = "interrupted", Exit.INTERRUPTED
    except (Exception, BaseExceptionGroup) as error:
        say("".join(traceback.format_exception(error)).rstrip())
        why, status = cut(f"ended by {type(error).__name__}: {error}", _REASON_CHARACTERS), Exit.FAILED
    results.interrupted = f"{why} after {time.monotonic() - started:.0f} s; the rest was not measured"
    saved()
    return results, status


def _end_as_by_ctrl_c() -> None:
    """Make the other signals of `ENDINGS` do what Ctrl-C does; an ignored signal stays ignored (`nohup`)."""

    def interrupt(*_: object) -> None:
        if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    for number in ENDINGS[1:]:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)


def _each_once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """For a stderr that is not a terminal: a line for each workload and measurement, none for rounds."""
    before = ""

    def tell_once(doing: str) -> None:
        nonlocal before
        thing = doing.partition(", round ")[0]
        if thing != before:
            before = thing
            tell(thing)

    return tell_once


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Stop(f"{out} cannot be made: {error.strerror}", "name another folder: --out DIR") from None
    return out


def _show(results: Results, options: dict[str, Any]) -> None:
    from callgate_bench.report.drawn import inserted, markdown, show
    from callgate_bench.report.drawn import page as html
    from callgate_bench.report.view import view
    from callgate_bench.results import write

    out, seen = _folder(options["out"]), view(results)
    fault, path = "", out / _RESULTS
    try:
        write(results, path)
        pages = {out / _PAGE: html(seen), out / _MARKDOWN: markdown(seen)}
        path = options["markdown"]
        if path is not None:
            pages[path] = inserted(path.read_text(encoding="utf-8") if path.exists() else "", seen)
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        fault = f"{path} cannot be written: {error.strerror}"
    console = page(sys.stdout)
    console.soft_wrap = False  # tables have columns
    if not console.is_terminal:
        console.width = _WIDTH
    show(seen, console)
    if fault:  # the tables are all that is left of the run
        raise Stop(fault, "make room, or name another folder: --out DIR")
    say(f"wrote {out / _RESULTS}, {_PAGE} and {_MARKDOWN}")


def _compared(older: Results, results: Results) -> int:
    from callgate_bench.report.compare import compare

    comparison = compare(older, results)
    say(comparison.text())
    return Exit.FAILED if comparison.of("worse") else Exit.OK
