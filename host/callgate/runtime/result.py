"""The result of a program, with two views: for the model, and for people and programs. Runs nothing."""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from callgate.artifacts import Artifact
from callgate.cut import cut_middle
from callgate.limits import Limits
from callgate.program import Finding
from callgate.tools.names import READ_ARTIFACT

from .final_answer import FinalAnswer
from .gate.earlier import ForRepair
from .gate.records import CallRecord

if TYPE_CHECKING:
    from .model.providers import Provider
    from .redaction import Redaction

__all__ = [
    "NO_SANDBOX", "CodeResult", "Keep", "PrintMark", "RunError", "RunUsage", "calls_made", "cut", "files_made",
    "members", "plain", "shortened",
]  # fmt: skip

NO_SANDBOX = "none: the program ran as a plan, by the host's own evaluator"
"""`CodeResult.sandbox` of a program that ran on the host."""

Keep = Callable[[str, str], str]
"""Keeps a text under a name, for a model that can read on; returns the handle."""
_MOST_FILES = 32
"""Lines about files in the text for a model."""
MODEL_CHARACTERS = 16_000
"""Default length of `CodeResult.for_model` in characters: about 4,000 tokens."""


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run failed.

    Attributes:
        kind: the exception's class name in the program, or ``CheckFailed``, ``NotAGraph``, ``LimitReached``,
            ``ProtocolError``, ``GuestDied``, ``SandboxCrashed``.
        message: what happened.
        line: line of the program, if there is one.
        traceback: the program's own lines, as Python shows them; empty if there are none.
        limit: for ``LimitReached``: the field of `Limits`.
        tool: for a ``ToolError``: the tool.
    """

    kind: str
    message: str
    line: int | None = None
    traceback: str = ""
    limit: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class RunUsage:
    """Resources that a run used. Processor time and memory are the kernel's figures for the guest; ``None`` without
    them."""

    wall_seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    tool_calls: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PrintMark:
    """A place in the output of a program: when and where the program printed the text from here on.

    Attributes:
        seconds: from the start of the run.
        line: line of the program that printed; None where no line is known.
        offset: place of the text in `CodeResult.logs`, in characters.
        artifact: the handle of what the program displayed here; None for text.
    """

    seconds: float
    line: int | None
    offset: int
    artifact: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeResult:
    """The result of one program. A failed program still has every call it made and everything it printed."""

    ok: bool
    value: Any = None
    """JSON value of the last expression or the top-level `return`."""
    value_repr: str | None = None
    """Text of a value that is not JSON; `value` is then None."""
    logs: str = ""
    """Everything the program printed, standard error included."""
    error: RunError | None = None
    notes: list[str] = field(default_factory=list)
    """More facts about the end of the program: calls that it never awaited, tasks that were cancelled."""
    findings: list[Finding] = field(default_factory=list)
    """Findings of `check` before the run; with an error among them, nothing ran."""
    calls: list[CallRecord] = field(default_factory=list)
    """The calls that the program made, in the order in which they began."""
    final_answer: FinalAnswer | None = None
    """What the program gave to `final_answer`, if it was asked for an answer and ended well."""
    artifacts: list[Artifact] = field(default_factory=list)
    """What the program displayed, and the files that it left in ``/output``: see `Limits.max_artifacts`."""
    speculative: list[CallRecord] = field(default_factory=list)
    """Calls of read-only tools that began early, and that the program did not use: see `path`."""
    path: Literal["plan", "sandbox"] = "sandbox"
    """``plan``: the program was certain to be a graph of tool calls, and ran on the host; see `plan`."""
    plan_of_calls: Callable[[], dict[str, Any] | None] | None = field(default=None, repr=False, compare=False)
    """Writes `plan`."""
    sandbox: str = ""
    """Description of the sandbox, in one line."""
    usage: RunUsage = field(default_factory=RunUsage)
    truncated: tuple[str, ...] = ()
    """Names of the fields that a limit cut."""
    source: str = ""
    """The program, cut after `Limits.max_source_bytes` characters."""
    inputs: str = "{}"
    """The inputs as JSON text, cut after 4,096 characters."""
    prints: list[PrintMark] = field(default_factory=list)
    """When and where the program printed and displayed, in order. At most 1,000: later text belongs to the last one."""
    limits: Limits | None = None
    """The limits of the run; `usage` has what was used of them."""
    redactor: Callable[..., Any] | None = field(default=None, repr=False, compare=False)
    """Makes the redaction of this run's page, which knows its tools' secrets. None for a saved result."""
    for_repair: ForRepair = field(default_factory=ForRepair, repr=False, compare=False)
    """Lets a corrected program reuse the calls: see ``after`` of `Runtime.execute_code`."""

    @property
    def plan(self) -> dict[str, Any] | None:
        """The calls of a program with the path ``plan``, as a plan for `Runtime.execute_tool_plan`: one object for all
        reads. None above 1,000 calls."""
        return None if self.plan_of_calls is None else self.plan_of_calls()

    def to_dict(self) -> dict[str, Any]:
        """The whole result as JSON values. Values of the program and its calls are not copied."""
        artifacts = [each.to_json() for each in self.artifacts]
        answer = None if self.final_answer is None else json.loads(self.final_answer.json)
        known = members(self, "plan_of_calls", "redactor", "for_repair")
        return plain({**known, "artifacts": artifacts, "final_answer": answer, "plan": self.plan})

    def for_model(self, max_characters: int = MODEL_CHARACTERS, *, keep: Keep | None = None) -> str:
        """A short text for the model's context: the output, the value or the error, after a failure the calls, and the
        files and pictures.

        Longer text is cut in the middle, with the number of bytes left out; nothing is lost here: `logs` and `value`
        are whole.

        Args:
            max_characters: of the output, the value and the error together, about.
            keep: keeps what is cut, for a model that can read on.
        """
        parts: list[str] = []
        share = max_characters // 2
        if self.logs:
            parts.append(shortened(self.logs.rstrip("\n"), share, "output.txt", keep))
        if self.error is not None:
            parts.append(shortened(self._failure(), share, "error.txt", keep))
        elif self.final_answer is not None:
            parts.append(f"final_answer: {shortened(self.final_answer.text, share, 'answer.txt', keep)}")
        elif self.value_repr is not None:
            between = "\n" if "\n" in self.value_repr else " "  # a table keeps its columns
            parts.append(f"Value (not JSON):{between}{shortened(self.value_repr, share, 'value.txt', keep)}")
        elif isinstance(self.value, str):
            parts.append(f"Value: {shortened(self.value, share, 'value.txt', keep)}")
        elif self.value is not None:
            parts.append(f"Value: {shortened(_as_text(self.value), share, 'value.json', keep)}")
        elif not self.logs:
            parts.append("The program ended without printing anything and without a value.")
        warnings = [f"Note: {finding}" for finding in self.findings if finding.severity == "warning"]
        notes = [f"Note: {note}" for note in self.notes]
        text = "\n".join([*parts, *files_made(self.artifacts, "\n".join(parts)), *notes, *warnings[:10]])
        return text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent

    async def for_model_blocks(
        self, provider: Provider, max_characters: int = MODEL_CHARACTERS
    ) -> list[dict[str, Any]]:
        """The text of `for_model` and up to 4 pictures, as content blocks in the form of a provider.

        Args:
            provider: ``"anthropic"``, ``"openai"`` (Chat Completions, whose messages of the role ``tool`` take no
                pictures: put the blocks into one of the user), ``"openai-responses"`` or ``"mcp"``.
            max_characters: see `for_model`.
        """
        from .model.providers import blocks  # imported at first use: most results never need them
        from .pictures import pictures_of

        found = await pictures_of(self.artifacts)
        return blocks(provider, found.told(self.for_model(max_characters)), found.shown)

    def trace(self, title: str | None = None, redaction: Redaction | None = None) -> str:
        """Write the run as one self-contained HTML page.

        Args:
            title: instead of ``A program's run``.
            redaction: of all texts and values; by default the runtime's; `Redaction()` for a result that was saved.
        """
        from .trace.page import run_page

        return run_page(self, title, redaction)

    def save_trace(
        self, path: str | os.PathLike[str], title: str | None = None, redaction: Redaction | None = None
    ) -> Path:
        """Write the page of `trace` into a file, which is replaced, and return its path. Raises `OSError`.

        A large run takes up to a second or two: in a server, call this in a thread.
        """
        from .trace.page import saved

        return saved(self.trace(title, redaction), path)

    def _repr_html_(self) -> str:
        """The result in a notebook: its value, prints, pictures, and its calls in time; of a bounded size."""
        from .shown import code_html

        return code_html(self)

    def _repr_markdown_(self) -> str:
        from .shown import code_markdown

        return code_markdown(self)

    def _failure(self) -> str:
        assert self.error is not None
        error = self.error
        if error.kind == "CheckFailed" and self.findings:
            lines = [f"The program was not run: {error.message}"]
            if sum(finding.severity == "error" for finding in self.findings) == 1:
                return lines[0]
            lines += [f"- {finding}" for finding in self.findings if finding.severity == "error"][:50]
            return "\n".join(lines)
        text = error.traceback.rstrip("\n") or f"{error.kind}: {error.message}"
        if error.kind == "LimitReached" and error.traceback:
            text += f"\n{error.message}"
        text = f"The program failed.\n{text}"
        if self.calls:
            text += f"\nTool calls made before that: {calls_made(self.calls)}."
        return text


def members(result: Any, *without: str) -> dict[str, Any]:
    """The fields of a result by name; nothing is copied."""
    return {name: getattr(result, name) for name in _names(result.__class__) if name not in without}


@functools.cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def plain(given: dict[str, Any]) -> dict[str, Any]:
    """Turn the dataclasses among the fields of a result into dicts. Values of tools and programs are not copied."""
    made: dict[str, Any] = {}
    for name, value in given.items():
        listed = isinstance(value, (list, tuple))
        each = [members(one) if is_dataclass(one) else one for one in value] if listed else value
        made[name] = members(value) if is_dataclass(value) else each
    return made


def calls_made(calls: Iterable[CallRecord]) -> str:
    """Which tools were called, with which status, and how often."""
    counts = Counter((call.tool, call.status) for call in calls).most_common(20)
    return ", ".join(f"{tool} {status}" + (f" ×{n}" if n > 1 else "") for (tool, status), n in counts)


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # the decoder had more of the stack left
        return "(nested too deeply to be shown)"


def cut(text: str, characters: int, rest: str = "") -> str:
    """`text`, or its two ends with the number of omitted bytes, and `rest`, between them."""
    if len(text) <= characters:
        return text
    half = max(characters // 2, 1)
    left_out = len(text[half:-half].encode("utf-8", "replace"))
    size = len(text.encode("utf-8", "replace"))
    return f"{text[:half]}\n... {left_out} of {size} bytes left out{rest} ...\n{text[-half:]}"


def shortened(text: str, characters: int, name: str, keep: Keep | None) -> str:
    """`text`, or its two ends, and between them how to read on where it is kept.

    Args:
        text: of any length.
        characters: at most, about.
        name: of the artifact that has the whole text.
        keep: makes that artifact.
    """
    if keep is None or len(text) <= characters:
        return cut(text, characters)
    first = len(text[: max(characters // 2, 1)].encode("utf-8", "replace"))
    return cut(text, characters, f'; read on: {READ_ARTIFACT}("{keep(name, text)}", offset={first})')


def files_made(artifacts: Sequence[Artifact], text: str) -> list[str]:
    """A line for each artifact whose handle is not in the text yet."""
    new = [each for each in artifacts if each.handle not in text]
    if not new:
        return []
    lines = [
        f"- {cut_middle(each.name, 100)} ({each.media_type[:80]}, {each.size_bytes:,} bytes): {each.handle}"
        for each in new[:_MOST_FILES]
    ]
    more = len(new) - len(lines)
    return ["Files:", *lines, *([f"- ... {more} more"] if more else [])]
