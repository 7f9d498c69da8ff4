"""Gold calls of 400 real requests, written as programs in four shapes: nearly all are graphs, and each gives the same
on both paths."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import Runtime
from callgate.runtime import CodeResult
from callgate.tools import Registry
from callgate.tools.encoding import compact_json
from program.graph.bfcl import SHAPES, Request, Share, programs, read_requests, register, shares
from runtime.conftest import opened

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "calls"
EVERY = 7
"""Of the requests, every so manieth is a sample that runs: 58 of them."""

SHADOWS = {
    "parallel_137": "the name of a function of Python's gets another meaning",
}
"""Requests with an argument of that name, which the loop over tuples takes for its variable's."""
UNFIT = {"parallel_multiple_21", "parallel_multiple_26", "parallel_multiple_94"}
"""Requests with a gold call that does not fit the function's own schema: they fail on both paths."""
REFUSED = {(id, "looped over tuples"): why for id, why in SHADOWS.items()}
"""The programs that are no graphs."""


@pytest.fixture(scope="module")
def folder() -> Path:
    if not FOLDER.is_dir():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{FOLDER} has to be there in CI")
        pytest.skip(f"the function collections are not in {FOLDER}")
    return FOLDER


@pytest.fixture(scope="module")
def files(folder: Path) -> list[list[Request]]:
    return [read_requests(path) for path in sorted(folder.glob("*.jsonl.gz"))]


def table(counted: list[Share]) -> str:
    """What is printed where the test fails, and with ``pytest -s``."""
    lines = [f"{each.file:24}{each.shape:28}{each}" for each in counted]
    refused = [f"    {each.shape}: {id}: {why}" for each in counted for id, why in each.refused.items()]
    return "\n".join(["", *lines, *refused])


@pytest.mark.parametrize("read_only", [True, False], ids=["reads", "writes"])
def test_the_share_of_programs_that_are_graphs(folder: Path, read_only: bool) -> None:
    counted = shares(folder, read_only=read_only)
    print(table(counted))
    assert {(each.file, each.shape) for each in counted} == {
        (file, shape) for file in ("bfcl_parallel", "bfcl_parallel_multiple") for shape in SHAPES
    }
    assert all(each.programs == 200 for each in counted)
    refused = {(id, each.shape): why for each in counted for id, why in each.refused.items()}
    assert set(refused) == set(REFUSED)
    assert [why for place, why in REFUSED.items() if why not in refused[place]] == []


class Echo:
    """The tools of requests in one registry; each gives back what it was called with."""

    def __init__(self, requests: list[Request]) -> None:
        self.registry = Registry()
        self.requests = requests
        self._known = [
            register(request, self.registry, self._answer, read_only=number % 2 == 0)
            for number, request in enumerate(requests)
        ]

    def _answer(self, function: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"function": function, "given": arguments, "size": len(arguments)}

    def programs(self) -> Iterator[tuple[Request, dict[str, str], str, str]]:
        """Each request with its tools' names by function, the shape, and the program."""
        names = self.registry.callable_names()
        for request, known in zip(self.requests, self._known, strict=True):
            for shape, code in programs(request, {each: names[known[each]] for each in known}).items():
                yield request, known, shape, code


def gold(request: Request, known: dict[str, str]) -> list[str]:
    """The calls that answer a request, as the runtime records them, in order."""
    return [f"{known[call.function]} {compact_json(call.arguments)}" for call in request.calls]


def made(result: CodeResult) -> list[str]:
    """The calls that a program made, in order."""
    return [f"{call.tool} {compact_json(call.arguments)}" for call in result.calls]


def came_to(result: CodeResult) -> dict[str, Any]:
    """What two runs of one program must agree in; the order of calls apart, which only writes have."""
    return {
        "ok": result.ok,
        "value": json.dumps(result.value),
        "value_repr": result.value_repr,
        "logs": result.logs,
        "error": result.error and (result.error.kind, result.error.message, result.error.line, result.error.tool),
        "calls": Counter(made(result)),
    }


def test_all_that_are_graphs_make_the_gold_calls_and_no_others(files: list[list[Request]]) -> None:
    anyio.run(make_gold_calls, Echo([each for file in files for each in file]))


async def make_gold_calls(echo: Echo) -> None:
    async with Runtime(echo.registry, sandbox=None) as runtime:
        for request, known, shape, code in echo.programs():
            if (request.id, shape) in REFUSED or request.id in UNFIT:
                continue
            with anyio.fail_after(20):
                result = await runtime.execute_code(code, path="plan")
            assert (result.path, result.ok, result.speculative) == ("plan", True, []), (result.error, code)
            assert made(result) == gold(request, known), code


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the values are the loop's no more than the programs are
async def test_a_sample_gives_the_same_on_both_paths(files: list[list[Request]]) -> None:
    requests = [each for file in files for each in file[::EVERY]]
    assert len(requests) == 58
    echo = Echo(requests)
    async with opened(*echo.registry, pool_size=2) as runtime:
        for number, (request, _, shape, code) in enumerate(echo.programs()):
            with anyio.fail_after(20):
                result = await runtime.execute_code(code)
                other = await runtime.execute_code(code, path="sandbox")
            assert result.path == ("sandbox" if (request.id, shape) in REFUSED else "plan")
            assert came_to(result) == came_to(other), code
            if number // len(SHAPES) % 2:
                assert made(result) == made(other), code
            assert result.ok == (request.id not in UNFIT)
