"""From source to flow, or to the reasons why not, whatever the source."""

from __future__ import annotations

import itertools
import time

import pytest

from callgate.plan.expressions.trees import walked
from callgate.program.findings import Finding
from callgate.program.graph.compile import MOST_SOURCE_BYTES, Flow, NotAGraph, compile_program, is_silent
from callgate.program.syntax import compiler_warning, parse_program
from program.graph.following import TOOLS


def reasons_of(source: str) -> list[str]:
    compiled = compile_program(source, TOOLS)
    assert isinstance(compiled, list), compiled
    return [str(each) for each in compiled]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "1['12']",
            "line 1: the program: the compiler says: 'int' object is not subscriptable; perhaps you missed a comma?",
        ),
        ("x = 1\nx is 'a'", "`is` compares only with None, True or False"),
        ("x = (1", "line 1: the program: '(' was never closed"),
        ("x = 1\0", "NUL"),
        ("x = '\ud800'", "half of a surrogate pair"),
        ("(" * 100_000, "at most 65,536 are allowed"),
        ("x = " + "(" * 1000 + ")" * 1000, "too many nested parentheses"),
        ("x = " + "-" * 10_000 + "1", "nests"),
        ("x = 1" + " - 1" * 400, "line 1: an expression: the expression nests deeper than 100 levels"),
        ("x = " + "+".join(["1"] * 5000), "nests"),
        ("x = 1\n" * 100_000, "at most 65,536 are allowed"),
        ("round(1, ndigits=1, ndigits=2)", "the keyword `ndigits` is given twice"),
    ],
)
def test_what_cannot_be_a_graph_has_a_reason(source: str, words: str) -> None:
    assert any(words in reason for reason in reasons_of(source)), reasons_of(source)


PARTS = [
    "1", "1.5", "'a'", "f'{a}'", "None", "...", "(1, 2)", "[1]", "{1}", "{'k': 1}", "(i for i in a)", "a", "a.b", "len",
]  # fmt: skip
FORMS = [
    "{0}({1})", "{0}[{1}]", "{0}[{1}:]", "{0} is {1}", "{0} is not {1}", "{0} == {1}", "{0} + {1}", "{0} % {1}",
    "{0}.b({1})", "{0}.b[{1}]", "{0}()[{1}]", "f'{{{0}}}' '{1}'", "-{0}", "not {0}", "len({0}, x={1}, x={1})",
    "{0}if 1else {1}", "len(__debug__={0})", "[{0} for i in {1}]", "x = {0}, {1}", "x += {0}", "if {0}:\n    {1}",
    "for i in {0}:\n    {1}", "await len({0})", "return {0}", "assert ({0}, {1})", "'\\d'[{0}]", "len(*{0}, **{1})",
    "*{0}, {1}", "len(__\uff44ebug__={0})",
]  # fmt: skip


def test_the_compiler_is_asked_wherever_it_has_something_to_say() -> None:
    asked = silent = 0
    for form, first, second in itertools.product(FORMS, PARTS, PARTS):
        source = form.format(first, second)
        tree = parse_program(source)
        if isinstance(tree, Finding):
            continue
        if is_silent(walked(tree), source):
            assert compiler_warning(tree, source) is None, source
            silent += 1
        asked += 1
    assert silent > asked / 3


def test_a_longer_program_is_not_looked_at() -> None:
    assert isinstance(compile_program("#" * MOST_SOURCE_BYTES, TOOLS), Flow)
    told = compile_program("#" * (MOST_SOURCE_BYTES + 1), TOOLS)
    assert isinstance(told, list)
    assert isinstance(told[0], NotAGraph)


def test_a_byte_order_mark_and_other_line_ends_are_read() -> None:
    compiled = compile_program("\ufeffa = await weather('Oslo')\r\nprint(a.temp)\r\n", TOOLS)
    assert isinstance(compiled, Flow)
    assert [(site.tool, site.line) for site in compiled.sites] == [("weather", 1)]


@pytest.mark.alone
def test_long_differences_are_read_in_bounded_time() -> None:
    started = time.process_time()
    reasons_of("a = 1\n" + ("x = a" + " - a" * 200 + "\n") * 20)
    assert time.process_time() - started < 0.3  # 0.04 s on the machine it was written on, 0.7 s by looking at each anew
