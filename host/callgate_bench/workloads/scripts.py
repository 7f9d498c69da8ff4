"""Scripts of a model that makes no mistakes: of calls, of plans and of programs.

A script is a generator that gives what the model says in a turn, is sent what came back, and returns the model's last
words. It sees nothing but those texts, so an answer is right only if the tools, and what ran them, were.

Most workloads have one program. `of_program` makes the script of direct calls from it: the model does in its head what
the program computes, and makes the program's calls itself, those that the program awaits together in one turn.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import json
import re
import types
from collections.abc import Callable, Generator, Sequence
from typing import Any

from callgate_bench.workloads.workload import Call, CallScript, Function, ScriptFailed, Workload

__all__ = ["marked", "of_program", "output", "read", "step"]


def of_program(
    program: str,
    *,
    tools: tuple[Function, ...],
    steps: Sequence[dict[str, Any]] = (),
    outputs: Sequence[str] = (),
    by_hand: bool = True,
    said: Any = None,
    **fields: Any,
) -> Callable[[Callable[..., Any]], Workload]:
    """Make a workload of a function that gives the model's last words from the values of a plan's outputs.

    Its model writes one program, or one plan, or makes the program's calls itself. The function's name is the
    workload's; its docstring has the title in the first line, and after an empty line what the workload is about.

    Args:
        program: the program.
        tools: of the workload.
        steps: of the plan; see `step`. None for a workload without a plan.
        outputs: the plan's output steps.
        by_hand: whether a model could make the calls.
        said: the plan's own answer, where it can give one.
        fields: the other fields of the workload.
    """

    def programs() -> Generator[str, str, str]:
        return marked((yield program))

    def made(last_words: Callable[..., Any]) -> Workload:
        def plans() -> Generator[dict[str, Any], str, str]:
            text = yield {"steps": list(steps), "output_steps": list(outputs)}
            return str(last_words(*(output(text, each) for each in outputs)))

        title, _, about = (inspect.getdoc(last_words) or "").partition("\n\n")
        return Workload(
            name=last_words.__name__.replace("_", "-"),
            title=title.rstrip("."),
            about=" ".join(about.split()),
            tools=tools,
            calls=_by_hand(program, tools) if by_hand else None,
            plans=plans if steps else None,
            programs=programs,
            said=said,
            **fields,
        )

    return made


def step(id: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A step of a plan. `for_each` and `retry` are the step's own, all other names are arguments of the tool."""
    own: dict[str, Any] = {name: arguments.pop(name) for name in ("for_each", "retry") if name in arguments}
    return {"id": id, "tool": tool, **own, "arguments": arguments}


def _by_hand(program: str, tools: Sequence[Function]) -> CallScript:
    """The script of a model that makes the calls of a program itself."""
    tree = ast.parse(program.replace("import asyncio\n", ""))
    last = tree.body[-1]
    assert isinstance(last, ast.Expr), "a program ends with the expression of its answer"
    tree.body[-1] = ast.Assign([ast.Name("said", ast.Store())], last.value)
    code = compile(ast.fix_missing_locations(tree), "<by hand>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    def script() -> Generator[list[Call], list[str], str]:
        names: dict[str, Any] = {each.__name__: functools.partial(_call, each.__name__) for each in tools}
        names["asyncio"] = types.SimpleNamespace(gather=_gather)
        yield from eval(code, names).__await__()
        return marked(names["said"])

    return script


_Asking = Generator[list[Call], list[str], Any]


@types.coroutine
def _call(name: str, /, **arguments: Any) -> _Asking:
    (text,) = yield [Call(name, arguments)]
    return read(text)


@types.coroutine
def _gather(*coroutines: _Asking) -> _Asking:
    """Run coroutines in step: the next calls of all of them make one turn."""
    results: list[Any] = [None] * len(coroutines)
    sent: dict[int, Any] = dict.fromkeys(range(len(coroutines)))
    while sent:
        asked: dict[int, list[Call]] = {}
        for number, texts in sent.items():
            try:
                asked[number] = coroutines[number].send(texts)
            except StopIteration as ended:
                results[number] = ended.value
        back = iter((yield list(itertools.chain(*asked.values())))) if asked else iter(())
        sent = {number: list(itertools.islice(back, len(calls))) for number, calls in asked.items()}
    return results


def read(text: str) -> Any:
    """A tool's result, from its text.

    Raises:
        ScriptFailed: the text is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError:
        raise ScriptFailed(f"a result that is not JSON: {text[:300]}") from None


def marked(text: str, mark: str = "answer") -> str:
    """The text after ``answer:``, or another mark, in a program's output, to the end of the line.

    Raises:
        ScriptFailed: there is none.
    """
    found = re.search(rf"{mark}: (?!{{)([^\n\"]*)", text)  # a brace: an error shows the line of an f-string
    if found is None:
        raise ScriptFailed(f"no {mark} came back: {text[:300]}")
    return found[1].rstrip("'")


def output(text: str, step: str) -> Any:
    """An output of a plan: the JSON that follows the step's id and a colon at the beginning of a line.

    Raises:
        ScriptFailed: there is none, or it is not JSON.
    """
    found = re.search(rf"^{re.escape(step)}: (.*)$", text, re.MULTILINE)
    if found is None:
        raise ScriptFailed(f"no output of {step} came back: {text[:300]}")
    return read(found[1])
