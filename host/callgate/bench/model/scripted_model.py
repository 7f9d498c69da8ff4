"""The scripted model: plays a workload's script in one of its forms, as the turns of a conversation. Knows no HTTP.

It is given what a model would see, and nothing else: the results of the calls that it made. A script that fails, or
that does what no model can do, does not raise here: the model then refuses to go on, and its words are the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from callgate.bench.model.stand_in import Call as Made
from callgate.bench.model.stand_in import Refusal, Script, Turn
from callgate.bench.model.stand_in.model import Said
from callgate.bench.workloads.workload import Call, ScriptFailed, Workload

__all__ = ["FAILED", "Form", "Order", "Playing", "Rewrite", "WrongOrder", "order_of"]

Form = Literal["direct", "direct-parallel", "plan", "program"]
"""What the model gives: calls, one a turn or all at once that need not wait; a plan; a program."""
Rewrite = Callable[[str, str, Sequence[str]], str]
"""A program in another dialect: the program, the dialect's name, the names of the tools. See `workloads.dialects`."""

FAILED = "the script cannot go on: "
"""What the model's last words begin with, where its script has failed."""


class WrongOrder(Exception):
    """A conversation cannot be registered so; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """A conversation, as it is registered.

    Attributes:
        workload: its name.
        form: what the model gives.
        tool: the name of the tool that takes the plan or the program.
        argument: the name of its argument.
        dialect: how programs are written.
        turn_seconds: the simulated wait of every turn.
        token_seconds: the simulated wait for each output token.
        context_tokens: input beyond this is refused; 0 for no limit.
        first: turns that come before the first plan or program, such as searches for tools; each is a list of calls,
            ``{"tool", "arguments"}``. What comes back for them is shown to the model, and changes nothing that it does.
    """

    workload: str
    form: Form
    tool: str = ""
    argument: str = ""
    dialect: str = "callgate"
    turn_seconds: float = 0.0
    token_seconds: float = 0.0
    context_tokens: int = 0
    first: Sequence[Sequence[Mapping[str, Any]]] = ()


def order_of(given: Mapping[str, Any], workloads: Mapping[str, Workload]) -> Order:
    """Reads an order.

    Args:
        given: JSON values.
        workloads: those that there are.

    Raises:
        WrongOrder: a name that is not known, a value of another type or below zero, a form that this workload lacks.
    """
    unknown = sorted(set(given) - set(Order.__slots__))
    if unknown:
        raise WrongOrder(f"no such field: {unknown[0]}; there are {', '.join(Order.__slots__)}")
    for name in ("workload", "form", "tool", "argument", "dialect"):
        if not isinstance(given.get(name, ""), str):
            raise WrongOrder(f"{name} has to be text")
    for name in ("turn_seconds", "token_seconds", "context_tokens"):
        kinds = (int,) if name == "context_tokens" else (int, float)
        value = given.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value < 1e9:
            raise WrongOrder(f"{name} has to be a number, 0 or more: {value!r}")
    if given.get("workload") not in workloads:
        raise WrongOrder(f"no such workload: {given.get('workload')!r}; there are {', '.join(sorted(workloads))}")
    if given.get("form") not in get_args(Form):
        raise WrongOrder(f"no such form: {given.get('form')!r}; there are {', '.join(get_args(Form))}")
    order = Order(**given)
    _check_first(order)
    if order.form in ("plan", "program") and not (order.tool and order.argument):
        raise WrongOrder(f"a {order.form} needs `tool` and `argument`: where the model is to put it")
    if order.form == "plan" and workloads[order.workload].plans is None:
        raise WrongOrder(f"{order.workload} has no plan: {workloads[order.workload].why_no_plan}")
    if order.form.startswith("direct") and workloads[order.workload].calls is None:
        raise WrongOrder(f"{order.workload} has no calls: {workloads[order.workload].why_no_calls}")
    return order


def _check_first(order: Order) -> None:
    """Raises `WrongOrder`."""
    turns = order.first
    if turns and order.form not in ("plan", "program"):
        raise WrongOrder(
            f"first: a model that calls tools itself has no turns before that, and this one is {order.form}"
        )
    if not isinstance(turns, list | tuple) or not all(isinstance(calls, list | tuple) and calls for calls in turns):
        raise WrongOrder("first has to be a list of lists of calls")
    for call in (call for calls in turns for call in calls):
        if not (
            isinstance(call, dict) and isinstance(call.get("tool"), str) and isinstance(call.get("arguments"), dict)
        ):
            raise WrongOrder(f'first: a call is {{"tool": text, "arguments": object}}, not {call!r}')


class Playing(Script):
    """One conversation's script, at the turn where it stands.

    A request that is sent once more gets the same words once more.

    Args:
        workload: what it is about.
        order: the form it takes.
        rewrite: makes programs those of another dialect.
        number: of the conversation. It stands in each of its programs and plans, so that no contestant has seen them
            before: what it keeps of a program that it knows is not what is measured.
    """

    def __init__(self, workload: Workload, order: Order, rewrite: Rewrite, number: int = 0) -> None:
        super().__init__()
        self.spoken = 0
        """Its turns so far."""
        self._order = order
        self._rewrite = rewrite
        self._own = f"conversation {number:04}"
        self._tools = [each.__name__ for each in workload.tools]
        self._first = [[Made(call["tool"], call["arguments"]) for call in calls] for calls in order.first]
        self._moves: Generator[Any, Any, str] = _script(workload, order)()
        self._begun = False
        self._waiting: list[Call] = []
        self._collected: list[str] = []
        self._last: list[Said] = []

    def play(self, turn: Turn) -> list[Said]:
        """What the model does now; never raises."""
        if turn.number == self.spoken - 1:
            return self._last
        try:
            if turn.number != self.spoken:
                raise ScriptFailed(f"it is at turn {self.spoken}, and is asked for turn {turn.number}")
            self._last = self._next([answer.text for answer in turn.answers])
        except Exception as error:
            self._last = _failed(error)
        self.spoken = turn.number + 1
        return self._last

    def fail(self, error: Exception) -> None:
        """What it did last, no model could have done: it refuses instead, when it is asked once more."""
        self._last = _failed(error)

    def _next(self, texts: list[str]) -> list[Said]:
        if self._order.form == "direct":
            return self._one(texts)
        if self._order.form == "direct-parallel":
            return self._advanced(texts)
        if self._first:
            return list(self._first.pop(0))
        return self._advanced("\n".join(texts))

    def _one(self, texts: list[str]) -> list[Said]:
        self._collected += texts
        if not self._waiting:
            said = self._advanced(self._collected)
            self._collected = []
            if not isinstance(said[0], Made):
                return said
        first, *self._waiting = self._waiting
        return [Made(first.tool, first.arguments)]

    def _advanced(self, results: list[str] | str) -> list[Said]:
        try:
            move = self._moves.send(results) if self._begun else next(self._moves)
        except StopIteration as ended:
            return [str(ended.value)]
        finally:
            self._begun = True
        return self._said(move)

    def _said(self, move: Any) -> list[Said]:
        if self._order.form == "program":
            move = f"# {self._own}\n{self._rewrite(move, self._order.dialect, self._tools).lstrip()}"
        if self._order.form == "plan":
            move = {"goal": self._own, **move}
        if self._order.form in ("plan", "program"):
            return [Made(self._order.tool, {self._order.argument: move})]
        if not move:
            raise ScriptFailed("it neither calls a tool nor answers")
        self._waiting = list(move)
        return [Made(each.tool, each.arguments) for each in move]


def _script(workload: Workload, order: Order) -> Callable[[], Generator[Any, Any, str]]:
    if order.form == "plan":
        assert workload.plans is not None, "order_of has seen to it"
        return workload.plans
    if order.form == "program":
        return workload.programs
    assert workload.calls is not None, "order_of has seen to it"
    return workload.calls


def _failed(error: Exception) -> list[Said]:
    reason = str(error) if isinstance(error, ScriptFailed) else f"{type(error).__name__}: {error}"
    return [Refusal(FAILED + reason)]
