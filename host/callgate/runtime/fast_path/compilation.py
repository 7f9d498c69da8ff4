"""What `Runtime.compile` gives: the plan that a program is, to be read by people and programs, or why it is none."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from callgate.plan.explain import ExplainFormat, explain, explained
from callgate.program.graph.reasons import NotAGraph

from .looking import GraphProgram

__all__ = ["Compilation"]

_FOLLOWS = "Prints, everything between the calls, and the value are computed in the order of the program."


class Compilation:
    """A program as a plan, or the reasons why it is none. Made by `Runtime.compile`.

    Attributes:
        source: the program.
        ok: whether it is certain to be a graph of tool calls.
        plan: its calls as a plan, JSON values: what `Runtime.execute_tool_plan` takes. None where it is no graph.
        step_lines: the line of the program that each step comes from.
        reasons: why it is no graph, each with its line; empty where it is one.
    """

    def __init__(self, source: str, found: GraphProgram | list[NotAGraph]) -> None:
        self.source = source
        self._program = found if isinstance(found, GraphProgram) else None
        self.ok: bool = self._program is not None
        self.plan: dict[str, Any] | None = None if self._program is None else deepcopy(self._program.plan)
        self.step_lines: dict[str, int] = {} if self._program is None else dict(self._program.lines)
        self.reasons: list[NotAGraph] = found if isinstance(found, list) else []

    def explain(self, form: ExplainFormat = "text") -> str:
        """The plan in words, as JSON or as a Mermaid flowchart; for a program that is none, the reasons, one a line."""
        if self._program is None:
            return "\n".join(map(str, self.reasons))
        compiled = self._program.compiled
        steps = [] if compiled is None else explained(compiled)
        text = explain(steps, form)
        if form != "text":
            return text
        lines = []
        places = {f"  {step.id}: {step.tool}(": self._program.sites[number] for number, step in enumerate(steps)}
        for line in text.split("\n") if steps else ():
            lines.append(line)
            place = places.get(line.partition("(")[0] + "(")
            if place is not None:
                lines.append(f"      line {place.line}: {place.text}")
        return "\n".join([*lines, _FOLLOWS if lines else f"No calls. {_FOLLOWS}"])

    def __repr__(self) -> str:
        told = f"{len(self.step_lines)} steps" if self.ok else f"no graph: {self.reasons[0]}"
        return f"<Compilation: {told}>"
