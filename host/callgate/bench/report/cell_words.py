"""What is said of a cell, and of those beside it: figures with their units, and why there are none. Knows no layout."""

from __future__ import annotations

from collections.abc import Sequence

from callgate.bench.figures import Figure, seconds
from callgate.bench.results import Cell, Entry, Results

__all__ = ["CANNOT", "MEMORY", "confinements", "ended", "figures", "notes", "plainly", "reasons", "words_of"]

CANNOT = (
    "the contestant has no way to do the workload, or the input was too long for the model; not tried: the workload "
    "says why nobody could"
)
"""What this outcome means."""
MEMORY = (
    "measured in one round of its own without waits: model and tools answer at once there, and what would pile up "
    "while they wait is not in it"
)
"""What is to be known of peak memory."""


def plainly(text: str) -> str:
    """In one line, without characters that a terminal would act on."""
    return "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))


def ended(cell: Cell) -> str:
    """Its outcome, in a word or two."""
    return cell.outcome if cell.tried else "not tried"


def figures(cell: Cell) -> list[str]:
    """Ten figures: turns, tokens in and out, p50 of the wall time, its spread from the 10th to the 90th percentile,
    what of it was the model, tools, and own work, how many tools were at work at once, peak memory in MB.
    """
    if not cell.rounds or cell.outcome != "right":
        return ["–"] * 9 + [_memory(cell.peak_bytes)]
    turns, most = (_count(cell.median(name)) for name in ("turns", "concurrency"))
    taken, said = (_tokens(cell.median(name)) for name in ("input_tokens", "output_tokens"))
    wall = cell.figure("wall_seconds")
    parts = [seconds(cell.figure(f"{name}_seconds").p50) for name in ("model", "tool", "overhead")]
    return [turns, taken, said, seconds(wall.p50), _spread(wall), *parts, most, _memory(cell.peak_bytes)]


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 1_000_000 else f"{value / 1e6:.2f}M"


def _tokens(value: float) -> str:
    return _count(value) if value else "–"  # no request is without; the provider did not tell


def _spread(figure: Figure) -> str:
    """From the 10th to the 90th percentile; the unit is that of the p50 beside it, unless it is told."""
    if figure.count == 1:
        return "one round"
    low, high, middle = (seconds(value).split(" ") for value in (figure.p10, figure.p90, figure.p50))
    alike = low[1] == high[1] == middle[1]
    return f"{low[0]}–{high[0]}" if alike else f"{' '.join(low)}–{' '.join(high)}"


def _memory(size: int) -> str:
    return f"{size / 1e6:,.0f}" if size else "–"


def reasons(tried: Sequence[tuple[Entry, Cell]]) -> list[str]:
    """Why cells have no figures; those for the same reason together."""
    told: dict[str, list[str]] = {}
    for entry, cell in tried:
        if cell.outcome != "right":
            reason = f": {cell.reason}" if cell.reason and cell.outcome != "not measured" else ""
            told.setdefault(f"{ended(cell)}{reason}", []).append(entry.title)
    return [f"{'; '.join(names)} {said}" for said, names in told.items()]


def words_of(entry: Entry) -> str:
    """Whose texts and definitions of tools the model got."""
    if entry.failure:
        return "–"
    return "callgate's" if entry.ours or not entry.own_words else "its own"


def confinements(entries: Sequence[Entry]) -> str:
    """Who is confined by what, in a line; empty where nothing is known of it."""
    told: dict[str, list[str]] = {}
    for entry in entries:
        if entry.confined and not entry.failure:
            told.setdefault(entry.confined, []).append(entry.name)
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in told.items())


def notes(results: Results) -> list[str]:
    """What a reader has to know about contestants' rows, each note once; with workloads, where not for all."""
    told: list[str] = []
    for entry in results.entries:
        cells = [each for each in results.cells if each.contestant == entry.name and each.outcome != "not measured"]
        for note in dict.fromkeys(each.note for each in cells if each.note):
            where = [each.workload for each in cells if each.note == note]
            in_some = "" if len(where) == len(cells) else f" ({', '.join(where)})"
            told.append(f"{entry.title}{in_some}: {note}")
    return told
