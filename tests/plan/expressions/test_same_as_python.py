"""Generated expressions over generated JSON values: the evaluator answers what CPython answers, or refuses.

Generated sources are small, so the only refusals that may happen are those the values call for; they are counted
against a list, lest everything be refused and the test hold for nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callgate.plan.expressions.functions import FUNCTIONS as FUNCTION_TABLE
from callgate.plan.expressions.kinds import Record
from callgate.plan.expressions.methods import METHODS as METHOD_TABLE
from callgate_guest.records import Record as GuestRecord
from plan.expressions.reference import VALUES, by_python, by_us

REFUSALS = (
    "budget exceeded",
    "`%` on a text",
    "is a complex number",
    "which can be read only once",
    "the text of a",
    "an operator between",
    "is not supported",
    "a pair given as an iterator",
    "is used before it has a value",
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["a", "b", "1", ""]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "c", "count", "items"]), inner, max_size=4)
    ),
    max_leaves=8,
)
NAMES = {
    "a": JSON,
    "b": JSON,
    "c": JSON,
    "d": st.dictionaries(st.sampled_from(["a", "b"]), JSON),
    "e": st.lists(JSON, max_size=4),
}
CONSTANTS = [
    "0",
    "1",
    "2",
    "-1",
    "7",
    "0.5",
    "1e3",
    "''",
    "'a'",
    "'ab c'",
    "True",
    "None",
    "[]",
    "{}",
    "()",
    "10 ** 20",
]
NAMES_IN_SOURCES = [*NAMES, "x", "y", "missing"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "==", "<", "in", "not in", "and", "or"]
FUNCTIONS = [name for name, listed in FUNCTION_TABLE.items() if listed.takes_function != "first"]
METHODS = [name for name in METHOD_TABLE if name not in ("get", "join", "partition", "rpartition", "replace")]
METHODS_OF_ONE = [*METHOD_TABLE]
FORMATS = ["", "!r", "!s", "!a", ":>8", ":.2f", ":d", ":x", ":,", ":08.3", "!r:^12", ":%", ":e", ":q"]


PARTS: dict[str, list[str]] = {
    "BINARY": BINARY,
    "FUNCTION": FUNCTIONS,
    "METHOD": METHODS,
    "METHOD_OF_ONE": METHODS_OF_ONE,
    "FORMAT": FORMATS,
    "NAME": NAMES_IN_SOURCES,
    "UNARY": ["-", "+", "~", "not "],
    "COMPARE": ["<", "==", "in", ">=", "!="],
    "STEP": ["1", "-1", "2", "0"],
    "FIELD": ["a", "b", "zz"],
    "TWO": ["max", "min", "round", "int", "sum", "dict"],
    "ORDER": ["sorted", "max", "min"],
    "KEY": ["len", "str", "lambda x: x", "lambda x: -x", "lambda x: x.a"],
    "LAZY": ["map", "filter"],
    "FIRST": ["str", "len", "bool", "lambda x: x + 1", "str.upper", "None"],
    "EATER": ["sum", "list", "any", "max", "dict", "set", "''.join", "tuple", "sorted"],
}
TEMPLATES = """
(@E @BINARY @E)
(@E @BINARY @E)
(@E @COMPARE @E @COMPARE @E)
(@UNARY@E)
(@E if @E else @E)
@E[@E]
@E[@E:@E]
@E[::@STEP]
(@E).@FIELD
[@E, @E]
(@E, *@E)
{@E: @E, @E: @E}
{**@E, @E: @E}
{@E, @E}
{*@E, @E}
@FUNCTION(@E)
@FUNCTION(@E)
@TWO(@E, @E)
list(zip(@E, @E))
@ORDER(@E, key=@KEY)
list(@LAZY(@FIRST, @E))
(@E).@METHOD()
(@E).@METHOD_OF_ONE(@E)
(@E).replace(@E, @E)
f'{@NAME@FORMAT}|{@NAME}'
[@E for x in @E]
[@E for x in @E if @E]
[@E for x in @E for y in @E]
[@E for x, y in @E]
{@E for x in @E}
{@E: @E for x in @E}
@EATER(@E for x in @E)
(@E in map(lambda x: @E, @E))
""".strip().splitlines()
_BLANK = re.compile("@([A-Z_]+)")


@st.composite
def sources(draw: st.DrawFn, depth: int = 3) -> str:
    """The text of an expression, mostly senseless, always well-formed."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from([*CONSTANTS, *NAMES_IN_SOURCES]))
    template = draw(st.sampled_from(TEMPLATES))

    def fill(blank: re.Match[str]) -> str:
        part = blank.group(1)
        return draw(sources(depth=depth - 1)) if part == "E" else draw(st.sampled_from(PARTS[part]))

    return _BLANK.sub(fill, template)


@settings(suppress_health_check=list(HealthCheck))
@given(source=sources(), values=st.fixed_dictionaries(NAMES))
def test_a_generated_expression_is_cpythons(source: str, values: dict[str, Any]) -> None:
    ours = by_us(source, values)
    if ours[0] == "refused":
        assert any(words in ours[1] for words in REFUSALS), ours
    else:
        assert ours == by_python(source, values)


@settings(suppress_health_check=list(HealthCheck))
@given(source=sources())
def test_a_generated_expression_over_everyday_values_is_cpythons(source: str) -> None:
    own = {"a": "temp", "b": "xs", "c": "n", "d": "item", "e": "words"}
    values = {**VALUES, **{name: VALUES[meant] for name, meant in own.items()}}
    ours = by_us(source, values)
    if ours[0] != "refused":
        assert ours == by_python(source, values)


def test_what_python_calls_a_result_s_type_is_the_same() -> None:
    """Messages show the name, and from 3.14 on the module's: ``cannot use '...Record' as a set element``."""
    assert (Record.__module__, Record.__qualname__) == (GuestRecord.__module__, GuestRecord.__qualname__)


def test_most_of_the_generated_expressions_are_answered() -> None:
    outcomes: Counter[str] = Counter()

    @settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(source=sources(), values=st.fixed_dictionaries(NAMES))
    def count(source: str, values: dict[str, Any]) -> None:
        outcomes[by_us(source, values)[0]] += 1

    count()
    assert outcomes["value"] > 15
    assert outcomes["refused"] < 25
