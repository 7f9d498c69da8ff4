"""No program on the fast path and no expression of a plan keeps the event loop from its next turn for longer than 100 ms
of the process's processor time, or takes more than `memory_bytes` plus 64 MiB of the host.

One table of attacks, each run as a program and as the `$expr` of a plan, and expressions that Hypothesis puts together
of large operands. What each comes to is not the subject here: a value or a refusal in words, but soon.
"""

# ruff: noqa: E501 (hostile expressions, a line each)

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from callgate import Runtime
from guard.attacks import AHEAD, PROGRAMS, as_expression, as_program, check, plan_of, rows_of_attacks, warm_runtime

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(params=["asyncio"])  # the evaluator is the same on both
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@pytest.fixture
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    async with warm_runtime() as entered:
        yield entered


@pytest.mark.parametrize("attack", rows_of_attacks())
async def test_no_program_holds_the_event_loop_or_fills_the_host(runtime: Runtime, attack: str) -> None:
    await check(runtime, as_program(attack))


@pytest.mark.parametrize("attack", rows_of_attacks())
async def test_no_expression_of_a_plan_holds_the_event_loop_or_fills_the_host(runtime: Runtime, attack: str) -> None:
    await check(runtime, plan_of(as_expression(attack)))


@pytest.mark.parametrize("name", PROGRAMS)
async def test_no_statement_holds_the_event_loop_or_fills_the_host(runtime: Runtime, name: str) -> None:
    await check(runtime, PROGRAMS[name])


@pytest.mark.parametrize("attack", rows_of_attacks())
async def test_nothing_that_is_looked_at_ahead_does(runtime: Runtime, attack: str) -> None:
    await check(runtime, f"_u = await nap()\n{as_program(attack)}\nawait echo(1)")


@pytest.mark.parametrize("name", AHEAD)
async def test_no_unknown_value_does(runtime: Runtime, name: str) -> None:
    await check(runtime, AHEAD[name])


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        ("len([1 for i in range(9) if int('f' * 5000, 16) in {1: 2}])", "integer_bits is 16,384"),
        ("0x" + "f" * 5000, "an integer of 20,000 bits is too long"),
        ("len(list(zip(*([[1]] * 1550000))))", "takes too much"),
        ("len({i * (2 ** 61 - 1) for i in range(60)})", "clashes is 16"),
    ],
)
async def test_what_would_hold_it_is_refused_in_words(runtime: Runtime, attack: str, words: str) -> None:
    result = await runtime.execute_tool_plan(plan_of(attack))
    assert not result.ok
    assert words in result.for_model()
    program = await runtime.execute_code(attack)
    assert program.error is not None
    assert program.error.kind == "NotAGraph"  # with a sandbox, it goes there


# generated

COUNTS = st.sampled_from(["0", "1", "3", "100", "1000", "16000", "60000", "1000000", "10 ** 9"])
ATOMS = [
    "1",
    "-1",
    "2.5",
    "1.2345678901234567e-300",
    "1e300",
    "'a'",
    "'ä'",
    "'\\x01'",
    "' '",
    "None",
    "True",
    "[]",
    "{}",
    "()",
]
LARGE = [
    "{a} * {n}", "[{a}] * {n}", "({a},) * {n}", "{{{a}: {b}}}", "{{'k': {a}}}", "[{a}, {b}]", "({a}, {b})", "2 ** {n}",
    "10 ** {n}", "int('f' * {n}, 16)", "int('7' * {n}, 8)", "'9' * {n}", "'ab' * {n}", "range({n})", "str({a})",
    "json.dumps({a})", "[i for i in range({n})]", "[[i] for i in range({n})]", "[{a} for i in range({n})]",
    "{{i: {a} for i in range({n})}}", "{{i * (2 ** 61 - 1) for i in range({n})}}", "[str(i) for i in range({n})]",
    "list({a})", "tuple({a})", "set({a})", "sorted({a})", "list(zip({a}, {b}))", "list(enumerate({a}))", "1 << {n}",
    "list(map(str, {a}))", "[*{a}, *{b}]", "{{**{a}, **{b}}}", "'-'.join({a})", "({a}).split()", "({a}).split('a')",
]  # fmt: skip
WORK = [
    "{a} == {b}", "{a} < {b}", "{a} in {b}", "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} // {b}", "{a} | {b}",
    "{a} & {b}", "{a} ^ {b}", "{a} ** {b}", "{a} >> {b}", "{a} << {b}", "{a}[{b}]", "{a}[{b}:]", "{a}[::-1]", "-{a}", "not {a}",
    "({a}).count({b})", "({a}).index({b})", "({a}).get({b})", "({a}).find({b})", "({a}).rfind({b})", "({a}).replace({b}, {c})",
    "({a}).rsplit({b})", "({a}).strip({b})", "({a}).startswith({b})", "({a}).join({b})", "({a}).upper()", "({a}).title()",
    "({a}).splitlines()", "({a}).center({b})", "({a}).partition({b})", "list(({a}).items())", "({a}).copy()", "({a}).zfill({b})",
    "max({a})", "min({a}, {b})", "max(*{a})", "sum({a})", "sum({a}, {b})", "sorted({a}, key=lambda v: {b})", "len({a})",
    "len(list(zip(*{a})))", "any({a})", "all({a})", "abs({a})", "round({a}, {b})", "round({a})", "float({a})", "int({a})",
    "str({a})", "f'{{{a}}}'", "f'{{{a}!r:>{n}}}'", "f'{{{a}:.{n}f}}'", "f'{{{a}:,}}'", "json.dumps({a})", "json.dumps({a}, indent=2)",
    "json.loads({a})", "dict({a})", "set({a})", "list(map(lambda v: v == {b}, {a}))", "list(filter(None, {a}))",
    "min({a}, key=lambda v: {b})", "list(reversed({a}))", "{{{a}}}", "{{{a}: {b}}}", "{a} if {b} else {c}", "bool({a})", "{a}",
]  # fmt: skip


def _filled(templates: list[str], parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda template, a, b, c, n: template.format(a=a, b=b, c=c, n=n),
        st.sampled_from(templates),
        parts,
        parts,
        parts,
        COUNTS,
    )


@st.composite
def attacks(draw: st.DrawFn) -> str:
    """Bindings of large values, and something done to them, perhaps again and again."""
    names = ["x", "y", "z"][: draw(st.integers(1, 3))]
    known: list[str] = []
    bound: list[str] = []
    for name in names:
        parts = st.sampled_from([*ATOMS, *known])
        bound.append(f"{name} = {draw(_filled(LARGE, _filled(LARGE, parts) | parts))}")
        known.append(name)
    parts = st.sampled_from([*known, *known, *known, *ATOMS])
    work = draw(_filled(WORK, parts) | _filled(WORK, _filled(LARGE, parts) | parts))
    if draw(st.booleans()):
        work = f"len([{work} for i in range({draw(COUNTS)})])"
    return "; ".join([*bound, work])


@settings(
    max_examples=settings().max_examples // 8,  # each takes a second or two
    database=None,
    phases=[Phase.generate],  # what explains and shrinks traces each line, and is slow
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(attack=attacks())
async def test_nothing_that_is_put_together_of_large_values_does_either(runtime: Runtime, attack: str) -> None:
    await check(runtime, as_program(attack))
    await check(runtime, plan_of(as_expression(attack)))
