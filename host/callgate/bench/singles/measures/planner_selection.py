"""Whether the planner selects the right tools: by rules, without a model; whether a model that chooses is shown them;
and, where one is named, with a real model.

A selection is right where the tools that are called are the gold ones, no more and no fewer. What they are called with
is not judged here.

The model is named by the environment: ``CALLGATE_BENCH_PLANNER`` as `model_named` takes it (``openai:NAME``,
``replay:FILE``), its endpoint by the SDK's own variables; with ``CALLGATE_BENCH_RECORDING=FILE`` its replies are
written to that file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from callgate import Registry, Runtime
from callgate.agent.learning.intervals import wilson
from callgate.agent.models.model import Delta, Model, Reply
from callgate.agent.models.model import Request as Asking
from callgate.agent.models.named import model_named
from callgate.agent.models.recording import RecordingModel
from callgate.agent.planning.selector import MAX_SHOWN_TOOLS, ModelSelector, RuleSelector
from callgate.agent.planning.tool_plan import DecomposedQuery, Selection, Selector, SubQuery
from callgate.bench.rows import Row
from callgate.bench.singles.context import Bench
from callgate.bench.singles.gold import Request, register
from callgate.bench.singles.played import requests_of, share
from callgate.bench.singles.tool_sets import SETS, read_set
from callgate.errors import CallgateError
from callgate.tools.registry import ToolInfo

from .planner import no_data, target

__all__ = ["model", "rules"]

MODEL = "CALLGATE_BENCH_PLANNER"
RECORDING = "CALLGATE_BENCH_RECORDING"
_FILE = ("bfcl_parallel_multiple",)
_MODEL_REQUESTS = 60
_MODEL_TOKENS = 300
_MODEL_SECONDS = 60.0
_OFFERED = 6


@dataclass(slots=True)
class _Count:
    """Selections held against the gold tools."""

    asked: int = 0
    right: int = 0
    none: int = 0
    by_rules: int = 0
    chosen: int = 0
    chosen_right: int = 0
    gold: int = 0

    def take(self, selection: Selection, gold: set[str]) -> None:
        tools = {choice.tool for choice in selection.chain}
        self.asked += 1
        self.right += tools == gold
        self.none += not tools
        self.by_rules += selection.source == "fallback" and bool(tools)
        self.chosen += len(tools)
        self.chosen_right += len(tools & gold)
        self.gold += len(gold)

    @property
    def share(self) -> float:
        return self.right / self.asked if self.asked else 0.0

    def __str__(self) -> str:
        low, high = wilson(self.right, self.asked)
        precision = f"{self.chosen_right / self.chosen:.0%}" if self.chosen else "none"
        return (
            f"{self.share:.1%} right ({self.right} of {self.asked}; {low:.0%} to {high:.0%}); of the tools chosen "
            f"{precision} are gold ones, of the gold ones {self.chosen_right / self.gold:.0%} are chosen; nothing "
            f"chosen for {self.none}"
        )


def _by_sentence(query: str) -> DecomposedQuery:
    """The query in parts, as a rule takes it apart that knows no language: at the ends of sentences and at 'and'."""
    texts = [query]
    for mark in (". ", "? ", "; ", ", and ", " and "):
        texts = [piece for text in texts for piece in text.split(mark)]
    parts = [text.strip(" .?,;") for text in texts if len(text.split()) > 2][:12]
    return DecomposedQuery(query=query, sub_queries=tuple(SubQuery(text=part) for part in parts or [query]))


def _whole(query: str) -> DecomposedQuery:
    return DecomposedQuery(query=query, sub_queries=(SubQuery(text=query),))


async def _counted(
    requests: Sequence[Request],
    selector_of: Callable[[Runtime], Selector],
    apart: Callable[[str], DecomposedQuery],
    offered: Mapping[str, Sequence[Request]],
) -> _Count:
    """Each request with its own functions, and those of the others in `offered`."""
    count = _Count()
    for request in requests:
        registry = Registry()
        names = register(request, registry, _nothing, read_only=True)
        for other in offered.get(request.id, ()):
            register(other, registry, _nothing, read_only=True)
        async with Runtime(registry, sandbox=None) as runtime:
            infos = [registry.info(name) for name in registry.names()]
            selection = await selector_of(runtime).select(apart(request.query), infos)
        count.take(selection, {names[call.function] for call in request.calls})
    return count


def _nothing(name: str, arguments: object) -> None:
    pass


def _others(requests: Sequence[Request]) -> dict[str, list[Request]]:
    """For each request, others whose functions are offered, too, so that some six tools are there, drawn by its id."""
    found: dict[str, list[Request]] = {}
    for request in requests:
        known, size = [], len(request.functions)
        for n in range(len(requests)):
            other = requests[int(share(request.id, n) * len(requests))]
            if size >= _OFFERED:
                break
            if other.id != request.id and other not in known:
                known.append(other)
                size += len(other.functions)
        found[request.id] = known
    return found


async def rules(bench: Bench) -> list[Row]:
    """No model: the rules that choose where none does; and what the tool search shows a model."""
    requests = requests_of(bench.calls, _FILE, most=bench.sizes.runs)
    if not requests:
        return no_data("planner-selection", "right selections", bench.calls)
    rows = []
    for apart, words in ((_whole, "the query as one part"), (_by_sentence, "taken apart at sentences and at 'and'")):
        count = await _counted(requests, RuleSelector, apart, {})
        rows.append(
            target(
                "planner-selection", f"right selections by rules alone: BFCL parallel_multiple, {words}", str(count),
                count.share, 0.9, "≥ 90 %", numbers={"right": count.right, "asked": count.asked},
                note="no model; rules choose only where the arguments are certain, too, which with BFCL's functions "
                "they seldom are",
            )
        )  # fmt: skip
    everything = sum({c.function for c in each.calls} == {f["name"] for f in each.functions} for each in requests)
    rows.append(
        Row(
            key="planner-selection", measure="to compare: choosing every tool that BFCL parallel_multiple offers",
            measured=f"{everything / len(requests):.1%} right ({everything} of {len(requests)})",
            note="2 to 4 functions are offered, and mostly all are needed: the set says little of a selector",
        )
    )  # fmt: skip
    return rows + _shown(bench)


def _shown(bench: Bench) -> list[Row]:
    """Catalogues too large for a prompt: how often all gold tools are among those that the model is shown."""
    rows = []
    for beginning in SETS:
        found = read_set(bench.calls.parent / "toolsearch", beginning)
        if found is None:
            rows += no_data("planner-selection", "tools shown to a model", bench.calls.parent / "toolsearch")
            continue
        runtime = Runtime(found.tools(), sandbox=None)
        every = max(1, len(found.queries) // (10 * bench.sizes.runs))
        queries = found.queries[::every]
        first = shown = 0
        for query in queries:
            names = [each.tool.name for each in runtime.search_tools(query.text[:2000], limit=MAX_SHOWN_TOOLS).found]
            first += bool(names) and set(query.relevant) == {names[0]}
            shown += set(query.relevant) <= set(names)
        rows.append(
            target(
                "planner-selection",
                f"{found.name}, {len(found.texts):,} tools: all gold tools are among the {MAX_SHOWN_TOOLS} that a "
                "model is shown",
                f"{shown / len(queries):.1%} of {len(queries)} queries; the first tool that is found is the right "
                f"answer to {first / len(queries):.1%}",
                shown / len(queries), 0.9, "≥ 90 %", numbers={"shown": shown, "first": first, "asked": len(queries)},
                note="no model: no selection among these tools can be right more often than the first figure says",
            )
        )  # fmt: skip
    return rows


async def model(bench: Bench) -> list[Row]:
    """A real model, asked through `ModelSelector`: schema-constrained, asked again once where its answer has faults."""
    key, measure = "planner-model", "right selections by a model"
    named = os.environ.get(MODEL, "")
    requests = requests_of(bench.calls, _FILE, most=min(_MODEL_REQUESTS, bench.sizes.runs))
    if not named:
        return [Row(key=key, measure=measure, measured=f"not measured: name a model in {MODEL}")]
    if not requests:
        return no_data(key, measure, bench.calls)
    asked: Model = model_named(named)
    if os.environ.get(RECORDING):
        asked = RecordingModel(asked, Path(os.environ[RECORDING]))
    short = _Short(asked)
    try:
        offered = _others(requests)
        count = await _counted(requests, lambda runtime: _Patient(ModelSelector(short, runtime)), _whole, offered)
    finally:
        await asked.aclose()
    return [
        target(
            key, f"{measure}: {asked.name}, BFCL parallel_multiple, some {_OFFERED} functions offered", str(count),
            count.share, 0.9, "≥ 90 %", numbers={"right": count.right, "asked": count.asked},
            note=f"the figure of this model, not of planning as such; an answer has {_MODEL_TOKENS} tokens and "
            f"{_MODEL_SECONDS:g} s, asked again included; rules chose instead {count.by_rules} times",
        )
    ]  # fmt: skip


class _Short:
    """A model whose answers are bounded, so that one that goes on and on is measured, too."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = model.name
        self.provider = model.provider

    async def ask(self, request: Asking, *, on_delta: Callable[[Delta], None] | None = None) -> Reply:
        return await self._model.ask(replace(request, max_output_tokens=_MODEL_TOKENS), on_delta=on_delta)

    async def aclose(self) -> None:
        await self._model.aclose()


class _Patient:
    """A selector whose model may fail, or take too long: that is a selection of nothing."""

    def __init__(self, selector: ModelSelector) -> None:
        self._selector = selector

    @property
    def name(self) -> str:
        return self._selector.name

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        with anyio.move_on_after(_MODEL_SECONDS):
            try:
                return await self._selector.select(query, tools)
            except CallgateError as error:
                return Selection(chain=(), faults=(str(error),))
        return Selection(chain=(), faults=("no answer in time",))
