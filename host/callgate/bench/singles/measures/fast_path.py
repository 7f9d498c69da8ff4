"""Programs that are graphs: code to result, reads that need not wait for each other, and how many programs are such."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from callgate.bench.figures import Figure
from callgate.bench.peers.process import PeerFailed
from callgate.bench.rows import Row, Verdict, against
from callgate.bench.singles.context import Bench, BenchFailed, calm, execute, opened
from callgate.bench.singles.gold import SHAPES, programs, read_requests, register
from callgate.runtime import Runtime
from callgate.tools import Registry

__all__ = ["Share", "fast", "reads", "share", "shares"]

_MOST = 0.5
_JUDGED = 3
"""Calls of the program that has a target."""
_READS, _READ_SECONDS = 10, 0.1
_NEW = "each has another comment at its end"

PROGRAMS = {
    1: "reading = await tick(n=1)\nprint(reading)\n",
    3: (
        "oslo = await tick(n=4)\nlima = await tick(n=19)\ncairo = await tick(n=31)\n"
        'print(f"Oslo {oslo}, Lima {lima}, Cairo {cairo}")\nmax(oslo, lima, cairo)\n'
    ),
    20: (
        "import asyncio\n\nreadings = await asyncio.gather(*[tick(n=n) for n in range(20)])\n"
        "print(sum(readings) / len(readings))\n"
    ),
    1000: (
        "readings = []\nfor n in range(1000):\n    readings.append(await tick(n=n))\n"
        "print(sum(readings) / len(readings))\n"
    ),
}
"""By the number of calls: what Monty, the sandbox and the fast path run, the same text."""

INDEPENDENT = (
    "".join(f"page_{page} = await pause(seconds={_READ_SECONDS})\n" for page in range(_READS))
    + f"print({' + '.join(f'page_{page}' for page in range(_READS))})\n"
)


@dataclass(slots=True)
class _Contest:
    """Seconds of everyone who runs a program of so many calls, in turns."""

    calls: int
    known: list[float] = field(default_factory=list)
    """On the fast path, the program run before: its compiled form is at hand."""
    new: list[float] = field(default_factory=list)
    """On the fast path, the text seen for the first time."""
    sandbox: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    peer_failed: str = ""

    async def turn(self, bench: Bench, runtime: Runtime, number: int) -> None:
        """Each of them once. All rest before they run, as in the other measurements."""
        code = PROGRAMS[self.calls]
        self.known.append(await _took(runtime, code, "plan"))
        self.new.append(await _took(runtime, f"{code}# {number}\n", "plan"))
        self.sandbox.append(await _took(runtime, code, "sandbox"))
        if not self.peer_failed:
            await calm(runtime)
            try:
                self.peer += (await bench.monty.ask("run", code=code))["seconds"]
            except PeerFailed as error:
                self.peer_failed = str(error)

    def rows(self, peer: str, note: str) -> Iterator[Row]:
        """The fast path twice, then the sandbox, all beside the peer."""
        calls = "1 call" if self.calls == 1 else f"{self.calls:,} calls"
        most = _MOST if self.calls == _JUDGED else None
        for what, ours, judged, remark in (
            (f"fast path, {calls}, code to result: a program seen before", self.known, most, ""),
            (f"fast path, {calls}, code to result: a program never seen", self.new, most, _NEW),
            (f"the same {calls} in the sandbox, pool warm", self.sandbox, None, note),
        ):
            yield against(
                "fast", what, ours, peer=peer, theirs=self.peer, most=judged, failed=self.peer_failed, note=remark
            )


async def _took(runtime: Runtime, code: str, path: Literal["plan", "sandbox"]) -> float:
    """Seconds from code to result. What users get is measured: the program takes the fast path because it can."""
    await calm(runtime)
    took, result = await execute(runtime, code, path="auto" if path == "plan" else path)
    if result.path != path:
        raise BenchFailed(f"it ran in the {result.path}: {code}")
    return took


async def fast(bench: Bench) -> list[Row]:
    """Programs with few calls and with many, code to result: fast path, sandbox and Monty in turns."""
    rows: list[Row] = []
    async with opened() as runtime:
        for calls, code in PROGRAMS.items():
            contest = _Contest(calls)
            await execute(runtime, code, path="auto")
            for number in range(bench.sizes.runs if calls < 1000 else bench.sizes.gathers):
                await contest.turn(bench, runtime, number)
            rows += contest.rows(bench.monty.name, await _stops(bench, calls))
    return rows


async def _stops(bench: Bench, calls: int) -> str:
    """Where the peer's own limits would have ended the program; empty if they would not."""
    try:
        ended = await bench.monty.ask("limited", code=PROGRAMS[calls])
    except PeerFailed:
        return ""
    if not ended["error"]:
        return ""
    return (
        f"by default {bench.monty.name} refuses it after {ended['calls']} calls ({ended['error']}); here its "
        "max_suspensions is raised"
    )


async def reads(bench: Bench) -> list[Row]:
    """Reads that are written one after the other and need nothing of each other, beside the sandbox."""
    ours: list[float] = []
    sandbox: list[float] = []
    async with opened() as runtime:
        for _ in range(bench.sizes.early_runs):
            ours.append(await _took(runtime, INDEPENDENT, "plan"))
            sandbox.append(await _took(runtime, INDEPENDENT, "sandbox"))
    most = 1.1 * _READ_SECONDS + 0.005
    row = against(
        "reads", f"{_READS} independent reads of {_READ_SECONDS:g} s, written one after the other, code to result",
        ours, peer="the sandbox", theirs=sandbox,
    )  # fmt: skip
    verdict: Verdict = "met" if Figure.of(ours).p50 <= most else "missed"
    return [Row(**{**row.to_dict(), "target": f"≤ {most * 1e3:.0f} ms", "verdict": verdict})]


@dataclass(slots=True)
class Share:
    """How many programs of one shape take the fast path, of one file of requests."""

    file: str
    shape: str
    programs: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    """The first reason, by the request's id."""

    def __str__(self) -> str:
        taken = self.programs - len(self.refused)
        return f"{taken} of {self.programs} ({100 * taken / self.programs:.4g} %)"


def shares(folder: Path, *, read_only: bool = True) -> list[Share]:
    """Compile the programs of all requests in `folder`, in every shape; runs none.

    Args:
        folder: has the collection's files, ``*.jsonl.gz``.
        read_only: what the functions say of themselves.
    """
    counted: dict[tuple[str, str], Share] = {}
    for path in sorted(folder.glob("*.jsonl.gz")):
        file = path.name.removesuffix(".jsonl.gz")
        for request in read_requests(path):
            registry = Registry()
            known = register(request, registry, lambda name, arguments: None, read_only=read_only)
            runtime = Runtime(registry, sandbox=None)
            names = {function: registry.callable_names()[known[function]] for function in known}
            for shape, code in programs(request, names).items():
                each = counted.setdefault((file, shape), Share(file, shape))
                each.programs += 1
                compilation = runtime.compile(code)
                if not compilation.ok:
                    each.refused[request.id] = compilation.reasons[0].message
    return list(counted.values())


async def share(bench: Bench) -> list[Row]:
    """Of the gold calls of real requests, written as programs: how many take the fast path."""
    counted = shares(bench.calls)
    if not counted:
        measured = f"not measured: no requests in {bench.calls}"
        return [Row(key="share", measure="programs that take the fast path", measured=measured)]
    of_all = sum(each.programs for each in counted)
    rows = [
        Row(
            key="share",
            measure=f"programs that take the fast path: BFCL's gold calls, {shape}",
            measured="; ".join(f"{each.file}: {each}" for each in counted if each.shape == shape),
            numbers={"shares": [asdict(each) for each in counted if each.shape == shape]},
        )
        for shape in dict.fromkeys(each.shape for each in counted)
    ]
    refused = sum(len(each.refused) for each in counted)
    told = Row(
        key="share",
        measure="those that do not, and why",
        measured=f"{refused:,} of {of_all:,} programs",
        note="; ".join(_refusals(counted)),
    )
    return [*rows, told]


def _refusals(counted: list[Share]) -> list[str]:
    """Each request that has one, with its shapes unless it is all of them."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in counted:
        for request, why in each.refused.items():
            reasons.setdefault((request, why), []).append(each.shape)
    return [
        f"{request}{'' if len(shapes) == len(SHAPES) else ' ' + ', '.join(shapes)}: {why}"
        for (request, why), shapes in reasons.items()
    ]
