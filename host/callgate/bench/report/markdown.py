"""A run as the page of the documentation. Formats results; measures nothing.

What contestants wrote (reasons, notes, versions) goes out as plain characters, whatever they mean in Markdown.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from callgate.bench.figures import Figure, seconds
from callgate.bench.report.beside_peers import confinement
from callgate.bench.report.cell_words import CANNOT, MEMORY, ended, figures, notes, reasons, words_of
from callgate.bench.report.headline import headline
from callgate.bench.report.held import FEW, LEAST, LEAST_COUNTED, LEAST_OF_FEW
from callgate.bench.report.single_rows import HOW, rows_markdown, rows_title
from callgate.bench.report.verdicts import verdict, verdicts
from callgate.bench.results import Results, Task

__all__ = ["markdown"]

_MODES = {"direct": "calls", "plan": "a plan", "code": "a program"}
_PART = (
    "contestant", "name", "the model hands over", "confined by", "words for the model", "what runs it", "version", "",
)  # fmt: skip
_READING = """\
- **wall** is the p50 over the rounds of a cell, from the user's task to the model's last word; beside it the range from
  the 10th to the 90th percentile, in the same unit. It is the sum of the next three.
- **model** is waiting for the model's endpoint. **tools** is the time in which one of the workload's tools at least was
  at work. **own work** is all the rest: what the contestant's runtime itself took, in its own process.
- **tokens** are those of all requests of a round and of all answers. {tokens}
- **at once** is the most tools that were at work at the same time. **peak** is the most memory that the contestant's
  processes took together (Pss), in MB; a container's is added. It is {memory}.
- Contestants take turns, round by round. A verdict is made of the ratios of rounds that ran next to each other: their
  median. Where the spread of these ratios, from the 10th to the 90th percentile, has 1 in it, it is called no
  difference; so is a difference in time below {least:g} % ({few:g} % with less than {rounds} rounds), and one in
  tokens, which are counted exactly, below {counted:g} %. A cell whose answer was wrong once has no figures and no part
  in a verdict.
- Of callgate's modes the one with the least wall time is held against the better way of calling directly. Beside peers,
  like is held against like: plans; programs in a sandbox (of the kernel, a container, or the language); programs
  without one. Of each kind it is the fastest of callgate's modes and the fastest peer, by wall time, which has the
  model's part in it: peers differ in how many turns they take. "Tools and own work alone" leaves the model out.
- **right**: every round's answer was. **wrong**: one was not. **failed**: it raised, hung or died, or the model could
  not go on. **cannot**: {cannot}.
"""
_COUNTED = """\
They were counted with {tokenizer} in what came over
  the wire: the system text, all messages, calls and results, and the definitions of tools as JSON. What a provider adds
  is not counted: nobody outside knows it. Prompt caching is not simulated; with it, what is sent again costs less."""
_WIRES = {"openai": "OpenAI", "anthropic": "Anthropic"}
_SIMULATED = """\
- The scripted model makes no mistakes. A real one does: it writes programs that fail, plans that are refused and calls
  with wrong arguments, each of which costs turns; it may also choose another way to do the task.
- The model's time is a wait for each turn and for each output token. Whoever has a faster or a slower model gets other
  ratios: the fewer turns a mode takes, the more it gains from a slow one. Own work does not depend on it.
- Tools wait as their workload says. Real ones vary, fail, and are limited in number.
"""
_ALWAYS = """\
- One machine, one run. Other work on it shows in the spread and in the load; separate runs differ more than rounds.
- The workloads are tasks that were chosen here. Where direct calls should win, the workload says so.
"""


def markdown(results: Results) -> str:
    """The whole page, with a final newline.

    Args:
        results: of one run; a page of an interrupted one says that it was.
    """
    parts = [_head(results)]
    if results.tasks:
        parts += [_verdicts(results), _reading(results)]
        parts += ["## Workloads", *(part for task in results.tasks for part in _workload(results, task))]
        parts.append(_contestants(results))
    if results.rows:
        parts += ["## Single things", HOW.strip(), "\n".join(rows_markdown(results.rows)).strip()]
    parts += ["## Limits", _limits(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(results: Results) -> str:
    command = f"`{results.command.replace('`', '')}`" if results.command else "`callgate bench`"
    lines = [
        f"# {'Benchmarks' if results.tasks else rows_title(results.rows)}",
        "",
        "Written by `callgate bench` from the `results.json` of one run; change the harness, not this page.",
        "",
        f"- Made {results.made}: {results.sizes}, by {command}.",
        f"- Measured on: {_plain(results.machine)}.",
        f"- Load average before: {results.load}; after: {results.load_after or 'unknown'}.",
    ]
    if results.sandbox:
        lines.append(f"- Sandbox: {_plain(results.sandbox)}.")
    if results.yardstick.seconds:
        figure = Figure.of(results.yardstick.seconds)
        told = f"{seconds(figure.p50)} ({seconds(figure.p10)} to {seconds(figure.p90)}), {figure.count} times"
        lines.append(f"- Yardstick, work that knows nothing of callgate, during the run: {told}.")
    lines += _model(results)
    if results.interrupted:
        lines += ["", f"**The run was interrupted: {_plain(results.interrupted)}.** What is here was measured before."]
    return "\n".join(lines)


def _model(results: Results) -> list[str]:
    model = results.model
    if model is None:
        return []
    wire = _plain(_WIRES.get(model.wire, model.wire))
    if not model.simulated:
        return [f"- The model is real: {_plain(model.name)}, {wire}'s format, {_plain(model.endpoint)}."]
    waits = f"{_some(model.turn_seconds)} for each turn and {_some(model.token_seconds)} for each output token"
    return [
        f"- **The model is simulated**: a script answers over HTTP in {wire}'s format, and waits {waits}. "
        f"Its context has {model.context_tokens:,} tokens; what does not fit is refused."
    ]


def _verdicts(results: Results) -> str:
    titles = {task.name: task.title for task in results.tasks}
    lines = ["## What came of it", "", *(f"- {_plain(each)}" for each in headline(results).sentences), ""]
    rows = [(titles[each.workload], each.text, _sentences(each.peer_texts)) for each in verdicts(results)]
    return "\n".join([*lines, *_table(("workload", "beside direct calls", "beside peers"), rows)])


def _reading(results: Results) -> str:
    model = results.model
    tokens = "They are the provider's own figures."
    if model is not None and model.simulated:
        tokens = _COUNTED.format(tokenizer=_plain(model.tokenizer))
    reading = _READING.format(
        tokens=tokens, least=100 * LEAST, few=100 * LEAST_OF_FEW, rounds=FEW, counted=100 * LEAST_COUNTED,
        cannot=CANNOT, memory=MEMORY,
    )  # fmt: skip
    return f"## How to read it\n\n{_filled(reading)}"


def _workload(results: Results, task: Task) -> Iterator[str]:
    pairs = [(entry, results.cell(task.name, entry.name)) for entry in results.entries]
    tried = [(entry, cell) for entry, cell in pairs if cell is not None]
    found = [(entry, cell) for entry, cell in tried if cell.outcome != "not measured"]
    yield f"### {_plain(task.title)}"
    yield f"`{task.name}`. {_plain(task.about)} Data: {_plain(task.data)}"
    if task.note:
        yield _plain(task.note)
    if found:
        said = verdict(results, task.name)
        yield f"**{_plain(said.text)}.**"
        if said.peer_texts:
            yield "\n".join(f"- Beside peers, {_plain(each)}." for each in said.peer_texts)
        simulated = " (simulated)" if results.model is not None and results.model.simulated else ""
        headings = (
            "contestant", "outcome", "turns", "tokens in", "out", "wall", "10 to 90 %", f"model{simulated}", "tools",
            "own work", "at once", "peak MB",
        )  # fmt: skip
        rows = [(entry.title, ended(cell), *figures(cell)) for entry, cell in found]
        yield "\n".join(_table(headings, rows, right=len(headings) - 2))
    told = reasons(tried)
    if told:
        yield "\n".join(f"- {_plain(each)}" for each in told)


def _contestants(results: Results) -> str:
    lines = ["## Who took part", ""]
    rows = [
        (
            entry.title, f"{entry.name}", _MODES[entry.mode], confinement(entry), words_of(entry), entry.about,
            entry.version,
            f"took no part: {entry.failure}" if entry.failure else "",
        )
        for entry in results.entries
    ]  # fmt: skip
    lines += _table(_PART, rows)
    told = [f"- {_plain(each)}" for each in notes(results)]
    return "\n".join([*lines, "", *told] if told else lines)


def _limits(results: Results) -> str:
    simulated = results.model is not None and results.model.simulated
    return ((_SIMULATED if simulated else "") + (_ALWAYS if results.tasks else _ALWAYS.partition("\n")[0])).strip()


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: int = 0) -> list[str]:
    """Lines of a table; the last `right` columns hold figures."""
    left = len(headings) - right
    lines = [f"| {' | '.join(headings)} |", f"|{'---|' * left}{'---:|' * right}"]
    return lines + [f"| {' | '.join(_plain(each) for each in row)} |" for row in rows]


def _plain(text: str) -> str:
    """In one line, and without what Markdown or HTML would read as a mark."""
    line = "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))
    return re.sub(r"([\\|`*\[\]#~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", line).replace("&", "&amp;").replace("<", "&lt;")


def _filled(bullets: str) -> str:
    """Its lines of one length: what stands in them differs."""
    told = (" ".join(each.split()) for each in re.split(r"^- ", bullets, flags=re.MULTILINE) if each.strip())
    how = textwrap.TextWrapper(120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(how.fill(each) for each in told)


def _sentences(texts: Sequence[str]) -> str:
    return " ".join(f"{each[:1].upper()}{each[1:]}." for each in texts)


def _some(value: float) -> str:
    return seconds(value) if value > 0 else "no time"
