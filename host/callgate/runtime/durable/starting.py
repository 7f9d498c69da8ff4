"""What a caller starts, as a run that a store can keep: checked, with everything that is needed to run it again."""

from __future__ import annotations

import base64
import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import anyio.to_thread

from callgate.durable.store import StoredRun
from callgate.errors import ConfigurationError
from callgate.runtime.result import members

from .journal import OnUnknown

if TYPE_CHECKING:
    from callgate.limits import Limits
    from callgate.runtime.plans.run import PlanRun
    from callgate.runtime.run import CodeRun

    from .host import RunsHost

__all__ = ["WEEK_SECONDS", "json_text", "must_be_the_same", "new_run"]

WEEK_SECONDS: Final = 7 * 24 * 3600.0
_MAX_FILES_BYTES: Final = 11 * 1024 * 1024
"""Bytes of all files of one run, which the store keeps as text."""


async def new_run(
    host: RunsHost,
    given: str | Mapping[str, Any],
    *,
    inputs: Mapping[str, Any] | None,
    files: Mapping[str, Any] | None,
    key: str | None,
    tools: Sequence[str] | None,
    limits: Limits | None,
    on_unknown: OnUnknown,
    approval_seconds: float,
    asks_later: bool,
    belongs_to: str,
) -> StoredRun:
    """A new run of a program or a plan. Arguments: see `Runs.start` and `Runs.of`.

    Raises:
        ConfigurationError: an argument is not valid, or cannot be kept.
    """
    if on_unknown not in ("attention", "raise"):
        raise ConfigurationError(f'on_unknown is "attention" or "raise", not {on_unknown!r}')
    if not 0 < approval_seconds < float("inf"):
        raise ConfigurationError(f"approval_seconds must be above 0 and finite, not {approval_seconds!r}")
    if key is not None and not 0 < len(key) <= 200:
        raise ConfigurationError("key is a text of 1 to 200 characters, or None")
    runtime, is_plan = host.runtime, isinstance(given, Mapping)
    kept_files: dict[str, str] = {}
    kept_inputs = None
    if is_plan:
        if inputs or files:
            raise ConfigurationError("inputs and files are for programs; a plan has its values in its text")
        plan = runtime._plan(tools, limits)
        text = json_text(given, "the plan")
        offered = await _tools_of_plan(plan, text)
    else:
        run, _ = runtime._new_run(cast(str, given), inputs=inputs, tools=tools, limits=limits, files=files)
        text, kept_inputs = run.code, json.loads(run.inputs)
        offered = _tools_of_program(run)
        if files:
            kept_files = await anyio.to_thread.run_sync(_read, run.files)
    options = {
        "inputs": kept_inputs,
        "files": kept_files,
        "tools": None if tools is None else sorted(tools),
        "limits": None if limits is None else members(limits),
        "on_unknown": on_unknown,
        "approval_seconds": approval_seconds,
        "asks_later": asks_later,
        "offered": offered,
    }
    now = time.time()
    return StoredRun(
        id=f"run_{secrets.token_urlsafe(18)}", key=key, belongs_to=belongs_to, kind="plan" if is_plan else "code",
        text=text, options=json.dumps(options), environment=host.environment(), seed=secrets.token_bytes(32),
        created=now, changed=now,
    )  # fmt: skip


def _tools_of_program(run: CodeRun) -> list[str]:
    """The tools without which the program cannot go on: those that it names. Of a program that only a sandbox can
    parse: those whose names are words of it."""
    offer = run.offer
    if not offer.tools:
        return []
    from callgate.program.findings import Finding
    from callgate.program.survey import survey
    from callgate.program.syntax import parse_program
    from callgate.program.tool_names import ToolNames

    tree = parse_program(run.code, max_source_bytes=run.limits.max_source_bytes)
    if isinstance(tree, Finding):
        named = set(re.findall(r"\w+", run.code))
    else:
        seen = survey(tree)
        named = ToolNames(seen, offer.shapes, run.known, offer.namespaces, offer.resolve).mentioned(seen)
    return [tool.name for tool in offer.tools if offer.called[tool.name] in named]


async def _tools_of_plan(plan: PlanRun, text: str) -> list[str]:
    """The tools of the plan's steps, and their fallbacks."""
    model = (await plan.read_aside(text)).model
    named: set[str] = set()
    for step in () if model is None else model.steps:
        named.add(plan.gate.offer.canonical(step.tool))
        if step.fallback is not None:
            named.add(plan.gate.offer.canonical(step.fallback.tool))
    return [tool.name for tool in plan.gate.offer.tools if tool.name in named]


def must_be_the_same(known: StoredRun, new: StoredRun) -> None:
    """Raise `ConfigurationError` if a key was used for something else."""
    before, now = json.loads(known.options), json.loads(new.options)
    other = [f"other {name}" for name in ("inputs", "files") if before[name] != now[name]]
    if (known.kind, known.text) != (new.kind, new.text):
        other.insert(0, "another text")
    if other:
        raise ConfigurationError(
            f"the key {new.key!r} is that of run {known.id}, which has {other[0]}: a key stands for one job; "
            "use another key"
        )


def json_text(value: Any, what: str) -> str:
    """A value as JSON. Raises `ConfigurationError`, in which `what` names the value."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{what} must be JSON: {error}") from None


def _read(files: Mapping[str, Any]) -> dict[str, str]:
    """The contents of files, as text. Raises `ConfigurationError` if they are too large."""
    texts: dict[str, str] = {}
    total = 0
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.read_bytes()
        total += len(data)
        if total > _MAX_FILES_BYTES:
            raise ConfigurationError(
                f"files: a durable run keeps copies of its files, {_MAX_FILES_BYTES:,} bytes in all, and {name!r} is "
                "beyond that: put it into a folder, Runtime(folders=...)"
            )
        texts[name] = base64.b64encode(data).decode()
    return texts
