"""The measurements of single things, beside their targets, and who took part."""

from __future__ import annotations

from collections.abc import Sequence

from callgate.bench.report.beside_peers import confinement
from callgate.bench.report.cell_words import words_of
from callgate.bench.results import Results
from callgate.bench.rows import Row

from .markup import Child, Element, el, foreign, table
from .overview import grouped

__all__ = ["contestants", "single"]

_VERDICTS = {
    "met": ("✓ met", "good"),
    "missed": ("✗ missed", "bad"),
    "open": ("? open", "warn"),
    "for information": ("for information", "muted"),
}
_MODES = {"direct": "calls", "plan": "a plan", "code": "a program"}


def single(rows: Sequence[Row]) -> Element:
    """The section."""
    judged = [row for row in rows if row.verdict != "for information"]
    counts = [(sum(row.verdict == word for row in judged), word) for word in ("met", "missed", "open")]
    told = ", ".join(f"{count} {word}" for count, word in counts if count)
    said = f"Of {len(judged)} targets: {told}." if judged else "No row has a target."
    heads = [el("th", "Measure", scope="col", class_="text first measure")]
    heads += [el("th", name, scope="col", class_="text narrow") for name in ("Measured", "Target")]
    heads += [el("th", "Verdict", scope="col", class_="text"), el("th", "Ratio", scope="col")]
    heads += [el("th", name, scope="col", class_="notes") for name in ("Peer", "Remarks")]
    return el(
        "section",
        el("h2", "Single measurements"),
        el(
            "p",
            f"{said} Durations are p50, then p99, then from p10 to p90. A ratio is callgate's time over the peer's: "
            "below 1, callgate is faster. Open: the peer failed or was not there.",
        ),
        table("Single measurements", heads, el("tbody", *(_row(row) for row in rows)), class_="single"),
        id="single",
    )


def _row(row: Row) -> Element:
    word, class_ = _VERDICTS[row.verdict]
    share = "" if row.ratio is None else f"{row.ratio:.2f} ×" if row.ratio >= 0.1 else f"{row.ratio:.3f} ×"
    return el(
        "tr",
        el("th", foreign(row.measure), scope="row", class_="first measure"),
        *(el("td", foreign(said), class_="text narrow") for said in (row.measured, row.target)),
        el("td", el("span", word, class_=class_), class_="text number"),
        el("td", share, class_="number"),
        *(el("td", foreign(said), class_="notes") for said in (row.peer, row.note)),
    )


def contestants(results: Results) -> Element:
    """Who took part, and who did not."""
    heads = [el("th", "Contestant", scope="col", class_="text first")]
    heads += [
        el("th", name, scope="col", class_="text narrow")
        for name in ("The model gives", "Confined by", "Words for the model", "Version")
    ]
    heads += [el("th", name, scope="col", class_="notes") for name in ("What runs it, and what confines it", "Part")]
    bodies = []
    for name, members in grouped(results.entries):
        rows = [el("tr", el("th", name, scope="rowgroup", colspan=len(heads)), class_="group")]
        for entry in members:
            part: list[Child] = [el("span", "✓ took part", class_="good")]
            if entry.failure:
                part = [el("span", "✗ took no part", class_="bad"), ": ", foreign(entry.failure)]
            rows.append(
                el(
                    "tr",
                    el("th", foreign(entry.title), el("span", entry.name, class_="sub"), scope="row", class_="first"),
                    el("td", _MODES[entry.mode], class_="text"),
                    el("td", confinement(entry), class_="text"),
                    el("td", words_of(entry), class_="text"),
                    el("td", entry.version or "unknown", class_="text"),
                    el("td", foreign(entry.about), class_="notes"),
                    el("td", *part, class_="notes"),
                )
            )
        bodies.append(el("tbody", *rows))
    out = [entry.title for entry in results.entries if entry.failure]
    told = [el("p", "Took no part: ", foreign(", ".join(out)), ".")] if out else []
    return el("section", el("h2", "Contestants"), *told, table("Contestants", heads, *bodies, class_="who"),
              id="contestants")  # fmt: skip
