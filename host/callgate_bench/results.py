"""What a run of the harness found, and `results.json`, which has it: written and read. Measures nothing.

A *cell* is one workload done by one contestant. A *round* is one time that this was done, from the user's task to the
model's last word. Every duration is in seconds. The reader ignores fields that it does not know, so that other versions
may have more; a change of what a field means raises `SCHEMA_VERSION`.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from callgate_bench.figures import Figure, Row, percentile

__all__ = [
    "MAX_BYTES", "Cell", "Confined", "Entry", "ModelUsed", "Outcome", "Results", "Round", "Task", "UnreadableResults",
    "Yardstick", "read", "write",
]  # fmt: skip

SCHEMA_VERSION = 1
MAX_BYTES = 32 * 1024 * 1024
"""A longer file is refused. A full run writes about one megabyte."""

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]

Outcome = Literal["right", "wrong", "failed", "cannot", "not measured"]
"""``wrong``: the answer is not right in one round at least. ``failed``: it raised, hung, died, or the model could not
go on. ``cannot``: it has no way to do this, or the input was too long for the model, or nobody tried (`Cell.tried`).
``not measured``: the run was interrupted before."""

Confined = Literal["kernel", "container", "language", "none", "host: nothing is executed", ""]
"""What confines a program or plan, by what its authors offer for that. ``kernel``: a process with few rights.
``container``: a container of any engine. ``language``: an interpreter, or a Python, that knows no more. ``none``:
nothing, or its authors say that it is not a sandbox. ``host: nothing is executed``: it is data, which the host reads.
Empty: unknown, in results that were written before there was this field."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelUsed:
    """The model that all contestants had.

    Attributes:
        simulated: a script behind the endpoint played it.
        name: for people.
        wire: ``openai`` or ``anthropic``: whose format went over HTTP.
        endpoint: its address; empty for the simulated one.
        turn_seconds: simulated wait of every turn; 0 for a real one, as the next two.
        token_seconds: simulated wait for each output token.
        context_tokens: input beyond this is refused.
        tokenizer: what counted the tokens; ``the provider's`` for a real one.
    """

    simulated: bool
    name: str
    wire: str
    endpoint: str = ""
    turn_seconds: Seconds = 0.0
    token_seconds: Seconds = 0.0
    context_tokens: Count = 0
    tokenizer: str = "the provider's"


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A workload, as a reader has to know it."""

    name: str
    title: str
    about: str
    task: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A contestant.

    Attributes:
        name: e.g. ``code-jail``, ``smolagents``; as `--peers` takes it.
        title: for people.
        mode: ``direct``, ``plan`` or ``code``: what the model hands over.
        ours: one of callgate's modes.
        about: what runs the model's program or plan, and what confines it.
        version: of its package.
        failure: why it took no part, where it did not; its cells are then missing.
        confined: what confines the program or plan.
        own_words: the model got its own texts and definitions; False where it has none and these were callgate's.
    """

    name: str
    title: str
    mode: Literal["direct", "plan", "code"]
    ours: bool
    about: str
    version: str = ""
    failure: str = ""
    confined: Confined = ""
    own_words: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One time.

    Attributes:
        wall_seconds: the sum of the next three.
        model_seconds: waiting for the model's endpoint.
        tool_seconds: in which one of the workload's tools at least was at work.
        overhead_seconds: all the rest: what the runtime itself took.
        turns: requests to the model.
        calls: of the workload's tools.
        input_tokens: of all requests.
        output_tokens: of all answers.
        concurrency: the most tools at work at the same time.
    """

    wall_seconds: Seconds
    model_seconds: Seconds
    tool_seconds: Seconds
    overhead_seconds: Seconds
    turns: Count
    calls: Count
    input_tokens: Count
    output_tokens: Count
    concurrency: Count


@dataclass(kw_only=True, slots=True)
class Cell:
    """One workload, done by one contestant.

    Attributes:
        workload: its name.
        contestant: its name.
        outcome: how it ended.
        reason: why it did not end well, for people.
        rounds: those that ended right, in their order; rounds of the same position in other cells ran next to them.
        answer: the model's last words in the last round, shortened.
        note: for the row.
        tried: False where the workload says that nobody could do it in this mode, and nothing was run.
    """

    workload: str
    contestant: str
    outcome: Outcome
    reason: str = ""
    rounds: list[Round] = field(default_factory=list)
    answer: str = ""
    note: str = ""
    tried: bool = True

    @property
    def ended(self) -> str:
        """The outcome in a word or two; ``not tried`` where nobody could have done it."""
        return self.outcome if self.tried else "not tried"

    def figure(self, name: str) -> Figure:
        """p50 and spread of a field of the rounds; there must be one round at least."""
        return Figure.of([getattr(each, name) for each in self.rounds])

    def median(self, name: str) -> float:
        """p50 of a field of the rounds, of those values that occurred; there must be one round at least."""
        return percentile(sorted(getattr(each, name) for each in self.rounds), 0.5)


@dataclass(kw_only=True, slots=True)
class Yardstick:
    """Work that knows nothing of callgate, done again and again during the run; see `yardstick`.

    Attributes:
        seconds: of each time.
    """

    seconds: list[Seconds] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class Results:
    """Everything.

    Attributes:
        made: when it began, in UTC, ISO 8601.
        sizes: ``full run``, ``quick run``.
        command: the command line that made it.
        machine: kind, cores, Python, versions.
        load: averages over 1, 5 and 15 minutes, before.
        load_after: the same, at the end.
        sandbox: what confined callgate's programs.
        interrupted: why the run ended before its end; empty where it did not.
        rows: the measurements of single things, from `singles.measures`.
    """

    made: str
    sizes: str
    command: str
    machine: str
    load: str
    sandbox: str
    model: ModelUsed | None = None
    load_after: str = ""
    interrupted: str = ""
    tasks: list[Task] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    yardstick: Yardstick = field(default_factory=Yardstick)
    schema_version: int = SCHEMA_VERSION

    def cell(self, workload: str, contestant: str) -> Cell | None:
        """The cell of these two, if there is one."""
        found = (each for each in self.cells if (each.workload, each.contestant) == (workload, contestant))
        return next(found, None)


_ADAPTER = pydantic.TypeAdapter(Results)


class UnreadableResults(Exception):
    """A file is not a run of callgate bench; the text says which file and why."""


def write(results: Results, path: Path) -> None:
    """Write a run to a file, whole or not at all: a reader sees the file before or the file after.

    NaN and infinity become null, characters that UTF-8 cannot hold become question marks.

    Args:
        results: a run, also one that is not over.
        path: is replaced. Its folder has to exist.

    Raises:
        OSError: the file cannot be written. What was there is still there.
    """
    text = json.dumps(_finite(asdict(results)), indent=1, ensure_ascii=False, allow_nan=False, default=str)
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_bytes(text.encode("utf-8", "replace") + b"\n")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def read(path: Path) -> Results:
    """A run from a file.

    Raises:
        UnreadableResults: it is not there, too large, not JSON, of another version, or not a run.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise UnreadableResults(f"{path} is longer than {MAX_BYTES:,} bytes: no run of callgate bench wrote it")
        data = json.loads(text)
        version = data.get("schema_version") if isinstance(data, dict) else None
        if type(version) is not int or version != SCHEMA_VERSION:
            raise UnreadableResults(
                f"{path} has schema_version {str(version)[:40]}, this callgate reads {SCHEMA_VERSION}: "
                "run callgate bench again with this version, or compare with the one that wrote it"
            )
        return _ADAPTER.validate_json(text, strict=True)
    except OSError as error:
        raise UnreadableResults(f"{path} cannot be read: {error.strerror or error}") from None
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise UnreadableResults(f"{path} is not a run of callgate bench: {where}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableResults(f"{path} is not JSON: {str(error)[:200]}") from None


def _finite(value: Any) -> Any:
    """`value` with null for NaN and infinity."""
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
