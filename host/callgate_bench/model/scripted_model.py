"""The scripted model: plays a workload's script in one of its forms, as the turns of a conversation. Knows no HTTP.

It receives what a model would see, and nothing else: the results of the calls that it made.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from callgate_bench.contestants.contestant import Opened
from callgate_bench.model.stand_in import Call as Made
from callgate_bench.model.stand_in import Script, Turn
from callgate_bench.model.stand_in.checks import Output
from callgate_bench.workloads.dialects import rewrite
from callgate_bench.workloads.workload import Call, ScriptFailed, Workload

__all__ = ["Playing"]


class Playing(Script):
    """The script of one conversation, at its current turn.

    Args:
        workload: what it is about.
        opened: what the contestant shows the model: the form, and where to put a plan or a program.
        number: of the conversation. It stands in each of its programs and plans, so that no contestant has seen them
            before: what it keeps of a program that it knows is not what is measured.

    Raises:
        ScriptFailed: the workload has no script in this form.
    """

    def __init__(self, workload: Workload, opened: Opened, number: int = 0) -> None:
        super().__init__()
        self._opened = opened
        self._own = f"conversation {number:04}"
        self._said = workload.said
        self._tools = [each.__name__ for each in workload.tools]
        self._first = [[Made(each.tool, each.arguments) for each in calls] for calls in opened.first]
        self._moves: Generator[Any, Any, str] = _script(workload, opened.form)()
        self._begun = False
        self._waiting: list[Call] = []
        self._collected: list[str] = []

    def play(self, turn: Turn) -> list[Output]:
        """The model's next outputs. Raises what the workload's script raises."""
        texts = [answer.text for answer in turn.answers]
        match self._opened.form:
            case "direct":  # one call a turn, of those that need not wait for each other
                self._collected += texts
                if not self._waiting:
                    outputs, self._collected = self._advanced(self._collected), []
                    if not isinstance(outputs[0], Made):
                        return outputs
                first, *self._waiting = self._waiting
                return [Made(first.tool, first.arguments)]
            case "direct-parallel":
                return self._advanced(texts)
            case _:
                return list(self._first.pop(0)) if self._first else self._advanced("\n".join(texts))

    def _advanced(self, results: list[str] | str) -> list[Output]:
        try:
            move = self._moves.send(results) if self._begun else next(self._moves)
        except StopIteration as ended:
            return [str(ended.value)]
        finally:
            self._begun = True
        if self._opened.form == "program":
            move = f"# {self._own}\n{rewrite(move, self._opened.dialect, self._tools).lstrip()}"
        if self._opened.form == "plan":
            move = {"goal": self._own, **move}
            if self._opened.answers and self._said is not None:
                move["answer"] = self._said
        if self._opened.form in ("plan", "program"):
            return [Made(self._opened.tool, {self._opened.argument: move})]
        if not move:
            raise ScriptFailed("it neither calls a tool nor answers")
        self._waiting = list(move)
        return [Made(each.tool, each.arguments) for each in move]


def _script(workload: Workload, form: str) -> Callable[[], Generator[Any, Any, str]]:
    scripts: dict[str, Any] = {"plan": workload.plans, "program": workload.programs}
    scripts |= dict.fromkeys(("direct", "direct-parallel"), workload.calls)
    if form not in scripts:
        raise ScriptFailed(f"no such form: {form!r}; there are {', '.join(scripts)}")
    script: Callable[[], Generator[Any, Any, str]] | None = scripts[form]
    if script is None:
        raise ScriptFailed(workload.why_no_plan if form == "plan" else workload.why_no_calls)
    return script
