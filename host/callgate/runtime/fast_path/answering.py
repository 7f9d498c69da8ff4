"""The final answer of a graph. A program that ends with ``final_answer(value)`` is walked as if it ended with
``value``, which is then given as the answer, by the same call as in the sandbox."""

from __future__ import annotations

import ast
from typing import Final

import anyio

from callgate.errors import LimitReached, ToolError
from callgate.program.graph.walking.steps import ProgramFailed, Unsure, traceback_of
from callgate_guest.wire import FINAL_ANSWER, INVALID_PARAMS, cut

from .drive import GraphDrive

__all__ = ["answer_of", "give_answer"]

REJECTED: Final = "AnswerRejected"


def answer_of(tree: ast.Module) -> int | None:
    """Put the value in the place of the ``final_answer(value)`` with which a program ends. Returns the line of the
    call; None, and the tree is as it was, if the program does not end so."""
    match tree.body[-1:]:
        case [ast.Expr(ast.Call(ast.Name(id=name), [value], []) as call) as last] if name == FINAL_ANSWER:
            names = sum(isinstance(node, ast.Name) and node.id == FINAL_ANSWER for node in ast.walk(tree))
            if names > 1:  # the program uses the name for something else, too
                return None
            last.value = value
            return call.lineno
    return None


async def give_answer(drive: GraphDrive, line: int, left: float) -> None:
    """Give the value of a walk that has ended well as the answer; what is wrong with it becomes the walk's end.

    Args:
        drive: has ended.
        line: of the call.
        left: seconds of `wall_seconds`.
    """
    run, walker = drive.code_run, drive.walker
    if walker.done is None or drive.failure is not None:
        return
    if walker.done.value_repr is not None:
        walker.unsure = Unsure(line, "the answer is not JSON")
        return
    with anyio.move_on_after(max(left, 0)) as scope:
        try:
            await run.gate.call(FINAL_ANSWER, {"value": walker.done.value}, line=line)
        except ToolError as error:
            kind = REJECTED if error.code == INVALID_PARAMS else "ToolError"
            message = cut(error.message.removeprefix(f"tool {FINAL_ANSWER!r}: "))
            shown = traceback_of(run.code, [(line, "<module>")], kind, message)
            walker.failed = ProgramFailed(kind, message, line, shown, FINAL_ANSWER if kind == "ToolError" else None)
        except LimitReached as reached:
            drive.fail(reached)
    if scope.cancelled_caught:
        drive.fail(LimitReached("wall_seconds", run.limits.wall_seconds))
