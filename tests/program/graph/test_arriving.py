"""Ever longer beginnings of a program that is still being written, as flows."""

from __future__ import annotations

import random

import pytest

from callgate import Runtime
from callgate.program.graph.arriving import ArrivingProgram
from callgate.program.graph.compile import compile_program
from callgate.program.graph.flow import Flow, Site
from fast_path.catalogue import TOOLS as CATALOGUE
from fast_path.programs import THEMES, write
from program.graph.following import TOOLS

READ = 'x{} = await weather("a")\n'


def flows(source: str, size: int = 1) -> list[Flow]:
    """The flows of a text that grows by so many characters at a time."""
    arriving = ArrivingProgram(TOOLS)
    found = [arriving.read(source[:end]) for end in range(0, len(source) + size, size)]
    return [each for each in found if each is not None]


def lines(flow: Flow) -> list[int]:
    """The lines of its calls."""
    return [site.line for site in flow.sites]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (READ.format(1) + "y = 1\n" + READ.format(2), [[1], [1, 3]]),
        ("x = await weather(\n    'a'\n)\n", [[1]]),
        ('x = """\n' + READ.format(1) + '"""\n' + READ.format(2), [[], [4]]),
        ("x = 1 + \\\n  1\n" + READ.format(1), [[3]]),
        ("if 1:\n    " + READ.format(1) + "else:\n    " + READ.format(2) + "z = 1\n", [[2, 4]]),
        ("for n in [1]:\n    " + READ.format(1) + "\n# more\n", []),
        ("async def main():\n    " + READ.format(1) + "    y = 1\n    " + READ.format(2) + "\nawait main()\n",
         [[2], [2, 4]]),
        ("async def main():\n    for n in [1]:\n        " + READ.format(1) + "    y = 2\n", [[3]]),
        ("calls = weather('a')\n" + READ.format(1), [[1], [1, 2]]),
        (READ.format(1).replace("\n", "\r\n") + READ.format(2), [[1], [1, 2]]),
        ("x = 1; " + READ.format(1) + "y = 2", [[1]]),
    ],
)  # fmt: skip
def test_a_beginning_has_the_calls_of_whole_statements(source: str, found: list[list[int]]) -> None:
    assert [lines(flow) for flow in flows(source)] == found


@pytest.mark.parametrize(
    "other",
    ["while x1: pass", "try:\n    pass\nfinally:\n    pass", "import math", "weather = 1", "class A: pass", "del x1",
     "x = [1].sort()", "final_answer(1)"],
)  # fmt: skip
def test_a_beginning_ends_before_the_first_statement_that_is_not_part_of_a_graph(other: str) -> None:
    arriving = ArrivingProgram(TOOLS)
    source = READ.format(1) + READ.format(2) + f"{other}\n" + READ.format(3)
    found = [arriving.read(source[:end]) for end in range(len(source) + 1)]
    assert lines([each for each in found if each is not None][-1]) in ([1, 2], [])
    assert max(len(each.sites) for each in found if each is not None) == 2
    assert arriving.over
    assert arriving.read(source + READ.format(4)) is None


@pytest.mark.parametrize(
    "source",
    [READ.format(1) * 2_000, "x = (\n" + "1,\n" * 20_000, 'x = """\n' + "a\n" * 30_000, "x = [" * 90 + "\n" * 60_000,
     "async def main():\n" + f"    {READ.format(1)}" * 2_000, "x.a\n" * 300 + READ.format(1), "(" * 300 + "\n",
     "\n" + "x\n" * 30_000 + READ.format(1)],
)  # fmt: skip
def test_a_hostile_text_is_read_only_so_far(source: str) -> None:
    arriving = ArrivingProgram(TOOLS)
    for end in range(0, len(source), 16):
        arriving.read(source[:end])
    assert arriving._read <= 256 * 1024 + len(source)


def test_calls_have_the_same_places_in_a_beginning_as_in_the_whole_program() -> None:
    tools = (
        Runtime(CATALOGUE, sandbox=None).gate.open(caller="code", limits=Runtime(sandbox=None).limits).offer.graph_tools
    )
    compared = 0
    for theme in THEMES:
        for number in range(12):
            program = write(random.Random(f"{theme} {number}").randrange, theme)
            whole = compile_program(program.source, tools, inputs=program.inputs)
            if not isinstance(whole, Flow):
                continue
            arriving = ArrivingProgram(tools, program.inputs)
            text = program.source + "\n"
            for end in range(1, len(text) + 1):
                flow = arriving.read(text[:end])
                if flow is None or flow.function is not None:
                    continue
                assert list(map(told, flow.sites)) == list(map(told, whole.sites))[: len(flow.sites)], program.source
                compared += 1
    assert compared > 100


def told(site: Site) -> tuple[int, str, int, str]:
    return site.number, site.tool, site.line, site.text
