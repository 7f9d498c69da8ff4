"""``callgate bench``: workloads through every mode and peer, and single things measured; a table, a file and a page."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .words import FAILED, INTERRUPTED, OK, Stop, page, say

if TYPE_CHECKING:
    from callgate.bench.results import Results
    from callgate.bench.whole_run import Asked

__all__ = ["command"]

_FILE = click.Path(path_type=Path, dir_okay=False)
_OLD_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_TOLD = (
    "quick",
    "only",
    "modes",
    "peers",
    "rounds",
    "wire",
    "model",
    "turn_seconds",
    "token_seconds",
    "context_tokens",
)
"""Options that the results name; the others are paths of this machine."""
_WIDTH = 140


@click.command("bench", short_help="Measure every mode beside its peers, on this machine.")
@click.option("--quick", is_flag=True, help="Fewer rounds, a faster model: some minutes instead of three quarters of an hour.")  # fmt: skip  # noqa: E501
@click.option("--only", multiple=True, metavar="NAME", help="This workload or measurement; may be repeated.")
@click.option("--modes", default="all", metavar="NAMES", help="callgate's modes, with commas between. Default: all.")
@click.option(
    "--peers", default="all", metavar="NAMES",
    help="Peers, with commas between, `all` or `none`; each is installed once, in its own environment. Default: all.",
)  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 1000), help="How often each workload.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default="callgate-bench", show_default=True,
    help="The folder for results.json, its schema, report.html and report.md.",
)  # fmt: skip
@click.option(
    "--compare", type=_OLD_FILE, metavar="OLD.json",
    help="Hold this run against an older results.json, by ratios to a yardstick; exit code 1 where something is worse.",
)  # fmt: skip
@click.option("--from", "source", type=_OLD_FILE, metavar="FILE", help="Measure nothing: table and pages of a results.json.")  # fmt: skip  # noqa: E501
@click.option("--wire", type=click.Choice(["openai", "anthropic"]), default="openai", show_default=True,
              help="The format that is spoken with the model.")  # fmt: skip
@click.option(
    "--model", metavar="NAME",
    help="A real model instead of the scripted one. Its key comes from OPENAI_API_KEY or ANTHROPIC_API_KEY, and it has its price.",  # noqa: E501
)  # fmt: skip
@click.option("--base-url", metavar="URL", help="The address of the real model, where it is not the provider's own.")
@click.option("--turn-seconds", type=click.FloatRange(0, 60), help="What the scripted model takes for a turn.")
@click.option(
    "--token-seconds", type=click.FloatRange(0, 1), help="What it takes besides for each token that it gives."
)
@click.option("--context-tokens", type=click.IntRange(1000), default=200_000, show_default=True,
              help="The scripted model's context; it refuses more.")  # fmt: skip
@click.option("--calls", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="DIR",
              help="The folder with BFCL's calls, for `share`, `definitions` and `search`.")  # fmt: skip
@click.option("--markdown", type=_FILE, metavar="FILE", help="Write the page of the documentation to FILE, too.")
def command(**options: Any) -> int:
    """Run the same workloads through every mode and every peer that installs, and measure single things, in one run.

    The model is a script behind a real HTTP endpoint, unless --model names a real one. What is simulated is labelled.
    Interrupted, it keeps what was measured.
    """
    older = _read(options["compare"]) if options["compare"] is not None else None
    if options["source"] is not None:
        results, status = _read(options["source"]), OK
    else:
        _must_be_installed(options)
        results, status = _measured(_asked(options), options["out"])
    _show(results, options)
    if older is not None:
        return _compared(older, results) or status
    return status


def _read(path: Path) -> Results:
    from callgate.bench.report.results_json import UnreadableResults, read

    try:
        return read(path)
    except UnreadableResults as error:
        raise Stop(str(error), "name a results.json that callgate bench has written") from None


def _asked(options: dict[str, Any]) -> Asked:
    from callgate.bench.contestants.listed import MODES, PEERS
    from callgate.bench.model.talks import RealModel, ScriptedModel
    from callgate.bench.singles.measures import MEASURES
    from callgate.bench.whole_run import FULL_RUN, QUICK_RUN
    from callgate.bench.workloads import WORKLOADS

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
    only = _known("--only", options["only"], [*WORKLOADS, *MEASURES])
    changes: dict[str, Any] = {
        "pace": pace,
        "workloads": tuple(name for name in WORKLOADS if name in only or not only),
        "measures": tuple(name for name in MEASURES if name in only or not only),
        "modes": _chosen("--modes", options["modes"], [each.name for each in MODES]),
        "peers": _chosen("--peers", options["peers"], [each.name for each in PEERS]),
        "wire": options["wire"],
        "model": model,
        "command": _command(),
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


def _command() -> str:
    """The command line, without the paths of this machine."""
    context = click.get_current_context()
    words = ["callgate", "bench"]
    for name in _TOLD:
        if context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        value, option = context.params[name], f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        else:
            for each in value if isinstance(value, tuple) else (value,):
                words += [option, str(each)]
    return shlex.join(words)


def _must_be_installed(options: dict[str, Any]) -> None:
    wanted = {options["wire"]} | (set() if options["model"] else {"rs_bpe"})
    missing = sorted(name for name in wanted if find_spec(name) is None)
    if missing:
        raise Stop(f"the comparison needs {' and '.join(missing)}", "pip install 'callgate[bench]'")


def _measured(asked: Asked, out: Path) -> tuple[Results, int]:
    from callgate.bench import whole_run
    from callgate.bench.model.endpoint import EndpointMissing
    from callgate.bench.model.scripted_endpoint import ModelServerFailed
    from callgate.bench.report.results_json import write

    _folder(out)
    results = whole_run.begin(asked)
    started = time.monotonic()

    def saved() -> None:
        write(results, out / "results.json")

    status = OK
    with _progress() as told, _terminated_is_interrupted():
        try:
            whole_run.run(asked, results, told, saved)
        except (EndpointMissing, ModelServerFailed) as error:
            raise Stop(str(error), "callgate bench --help says what a model needs") from None
        except KeyboardInterrupt:
            results.interrupted = f"interrupted after {time.monotonic() - started:.0f} s; the rest was not measured"
            status = INTERRUPTED
            saved()
    return results, status


@contextlib.contextmanager
def _terminated_is_interrupted() -> Iterator[None]:
    """What was measured is kept on SIGTERM, too."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt) if threading.current_thread() is threading.main_thread() else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Where the run is: one line that changes on a terminal, else a line for each thing, rounds left out."""
    if sys.stderr.isatty():
        with page(sys.stderr).status("starting ...") as status:
            yield lambda doing: status.update(doing)
        return
    before = ""

    def tell(doing: str) -> None:
        nonlocal before
        thing = doing.partition(", round ")[0]
        if thing != before:
            before = thing
            say(thing)

    yield tell


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Stop(f"{out} cannot be made: {error.strerror}", "name another folder: --out DIR") from None
    return out


def _show(results: Results, options: dict[str, Any]) -> None:
    from callgate.bench.report.markdown import markdown
    from callgate.bench.report.page import render
    from callgate.bench.report.results_json import write, write_schema
    from callgate.bench.report.terminal import show

    out = _folder(options["out"])
    pages = {out / "report.html": render(results), out / "report.md": markdown(results)}
    if options["markdown"] is not None:
        pages[options["markdown"]] = pages[out / "report.md"]
    try:
        write(results, out / "results.json")
        write_schema(out / "results.schema.json")
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Stop(f"{error.filename} cannot be written: {error.strerror}", "name another folder: --out DIR") from None
    console = page(sys.stdout)
    console.soft_wrap = False  # tables have columns
    if not console.is_terminal:
        console.width = _WIDTH
    show(results, console)
    say(f"wrote {out / 'results.json'}, report.html and report.md")


def _compared(older: Results, results: Results) -> int:
    from callgate.bench.report.compare import compare

    comparison = compare(older, results)
    say(comparison.text())
    return FAILED if comparison.worse else OK
