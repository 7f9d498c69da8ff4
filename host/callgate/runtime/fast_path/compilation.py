"""`Compilation`, the result of `Runtime.compile`: the plan or the first calls of a program on the fast path."""

from __future__ import annotations

import json
from typing import Any, Final

from callgate.limits import Limits
from callgate.plan.compile import CompiledPlan, Offering, read_plan
from callgate.plan.explain import ExplainFormat, explain, explained
from callgate.plan.expressions import Budget
from callgate.program.graph.reasons import NotAGraph
from callgate.program.graph.walking.ghost import Ghost, Offered
from callgate.program.graph.writing import Written, write_plan
from callgate.runtime.run import CodeRun

from .walker import GraphProgram

__all__ = ["Compilation"]

_FOLLOWS: Final = "Prints, everything between the calls, and the value are computed in the order of the program."
_SHOWN: Final = 20
"""Calls that begin at once, at most."""
_STEPS: Final = 100_000


class Compilation:
    """A program as the fast path sees it. Made by `Runtime.compile`.

    Attributes:
        source: the program.
        ok: whether the program is certain to be a graph of tool calls, and so takes the fast path.
        plan: its calls as a plan (JSON values) for `Runtime.execute_tool_plan`. None if the program is not a graph, or
            if its calls are known only while it runs.
        step_lines: the line of the program that each step comes from.
        no_plan: for a graph without a plan, the first part that a plan cannot express.
        first_calls: for a graph without a plan, the calls that begin at once, at most 20, each as
            ``{"tool": ..., "arguments": ..., "line": ...}``.
        reasons: why the program is not a graph, each with its line; empty for a graph.
    """

    def __init__(self, run: CodeRun, found: GraphProgram | list[NotAGraph]) -> None:
        self.source = run.code
        self.ok: bool = not isinstance(found, list)
        self.plan: dict[str, Any] | None = None
        self.step_lines: dict[str, int] = {}
        self.no_plan: NotAGraph | None = None
        self.first_calls: list[dict[str, Any]] = []
        self.reasons: list[NotAGraph] = found if isinstance(found, list) else []
        self._texts: dict[str, str] = {}
        self._compiled: CompiledPlan | None = None
        if isinstance(found, list):
            return
        inputs: dict[str, Any] = json.loads(run.inputs)
        written = write_plan(found.flow, inputs)
        self.no_plan = self._take(run, found, written) if isinstance(written, Written) else written
        if self.no_plan is not None:
            self.first_calls = _first_calls(found, inputs)

    def _take(self, run: CodeRun, program: GraphProgram, written: Written) -> NotAGraph | None:
        plan = {"steps": written.steps}
        if written.steps:
            offering = Offering(run.offer.by_name, lambda name: f"there is no tool {name!r}", writes_text=False)
            reading = read_plan(json.loads(json.dumps(plan)), offering, Limits())
            if reading.plan is None:
                fault = reading.errors[0]
                line = written.lines.get(fault.step or "", 1)
                text = next((site.text for site in program.flow.sites if site.line == line), "the program")
                return NotAGraph(line, text, fault.message, fault.hint)
            self._compiled = reading.plan
        self.plan, self.step_lines = plan, written.lines
        self._texts = {step["id"]: step["description"] for step in written.steps}
        return None

    def explain(self, form: ExplainFormat = "text") -> str:
        """Write the plan in words, as JSON or as a Mermaid flowchart.

        For a graph without a plan: the calls that begin at once. For other programs: the reasons, one a line.
        """
        if not self.ok:
            return "\n".join(map(str, self.reasons))
        if self.no_plan is not None and form == "text":
            return "\n".join(
                [f"It takes the fast path, and no plan shows it: {self.no_plan}.", *self._at_once(), _FOLLOWS]
            )
        text = explain([] if self._compiled is None else explained(self._compiled), form)
        if form != "text":
            return text
        lines = []
        for line in text.split("\n") if self.step_lines else ():
            lines.append(line)
            step = line.strip().partition(":")[0]
            if line.startswith("  ") and not line.startswith("   ") and step in self._texts:
                lines.append(f"      {self._texts[step]}")
        return "\n".join([*lines, _FOLLOWS if lines else f"No calls. {_FOLLOWS}"])

    def _at_once(self) -> list[str]:
        if not self.first_calls:
            return ["No call begins before the program gets there."]
        shown = [
            f"  line {call['line']}: {call['tool']} {json.dumps(call['arguments'], ensure_ascii=False)}"
            for call in self.first_calls
        ]
        return ["Begins at once:", *shown]

    def __repr__(self) -> str:
        if not self.ok:
            return f"<Compilation: no graph: {self.reasons[0]}>"
        return (
            f"<Compilation: no plan: {self.no_plan}>"
            if self.no_plan
            else f"<Compilation: {len(self.step_lines)} steps>"
        )


def _first_calls(program: GraphProgram, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    ghost = Ghost(program.flow, inputs, Budget(steps=_STEPS), {}, (), None, program.is_lazy)
    calls: list[dict[str, Any]] = []
    for step in ghost.look():
        if isinstance(step, Offered):
            calls.append({"tool": step.site.tool, "arguments": step.arguments, "line": step.site.line})
        if len(calls) == _SHOWN:
            break
    return calls
