"""Expressions that ask for more time or memory than there is are refused before the work is done.

The bounds on memory are of what Python allocates while the expression is parsed and evaluated.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from callgate.plan.expressions import Budget, BudgetExceeded, ExpressionError, parse_expression

MOST_BYTES = 64 * 1024 * 1024

HUGE: dict[str, Any] = {
    "numbers": list(range(200_000)),
    "floats": [i / 7 for i in range(200_000)],
    "words": [f"word {i}" for i in range(100_000)],
    "long": "a" * 1_000_000,
    "wide": "日" * 1_000_000,
    "spaces": "a " * 500_000,
    "alike": ["a" * 100_000 + str(i) for i in range(100)],
    "rows": [{"id": i, "tags": ["a", "b"]} for i in range(50_000)],
    "table": {f"key {i}": i for i in range(100_000)},
    "pairs": [[i, i] for i in range(50_000)],
    "t": (-1, -2),  # both hash to -2, and so do tuples of them
    "bomb": [[[[[[["x"] * 50] * 50] * 50] * 50] * 50] * 50] * 50,
    "other_bomb": [[[[[[["x"] * 50] * 50] * 50] * 50] * 50] * 50] * 50,
}

REFUSED = """
10 ** 10 ** 10
-10 ** 10 ** 10
(-10) ** 10 ** 10
2 ** 100000 * 2 ** 100000
2 ** 16385
7 ** 7 ** 7 ** 7
1 << 10 ** 9
1 << (1 << 100)
1 << 16384
[2 ** 8000 * 2 ** 8000 for i in range(10000)]
[2 ** 16000 + i for i in range(100000)]
[b + i for b in [2 ** 16000] for i in range(50000)]
[-b for b in [2 ** 16000] for i in range(50000)]
[~b for b in [2 ** 16000] for i in range(50000)]
[b & -1 for b in [2 ** 16000] for i in range(50000)]
[b | 1 for b in [2 ** 16000] for i in range(50000)]
[b >> 1 for b in [2 ** 16000] for i in range(50000)]
[1 << 16000 for i in range(50000)]
[b // 1 for b in [2 ** 16000] for i in range(50000)]
[b % (b + 1) for b in [2 ** 16000] for i in range(50000)]
[b * 1 for b in [2 ** 16000] for i in range(50000)]
[abs(-b) for b in [2 ** 16000] for i in range(50000)]
[round(b) for b in [2 ** 16000] for i in range(50000)]
[sum([b, 1]) for b in [2 ** 16000] for i in range(50000)]
[str(b) for b in [2 ** 14000] for i in range(50000)]
[f'{b:b}' for b in [2 ** 16000] for i in range(50000)]
[int('9' * 4000) for i in range(50000)]
round(5, -10 ** 10)
round(5, -10 ** 6)
'a' * 10 ** 10
10 ** 10 * 'a'
'a' * 2 ** 40 * 2 ** 40
[0] * 10 ** 9
(0,) * 10 ** 9
[[0] * 10 ** 4] * 10 ** 4 * 10 ** 4
[[0] * 1000 for i in range(100000)]
['a' * 1000 for i in range(100000)]
['a' * 1000 + 'b' for i in range(100000)]
[s + s for s in ['a' * 100000] for i in range(1000)]
[[0] * 1000 + [1] for i in range(100000)]
''.join(['a' * 100000] * 1000)
('a' * 100000).join('b' * 1000)
', '.join(str(x) for x in range(10 ** 12))
[','.join(words) for i in range(1000)]
sum([[0] * 1000] * 1000, [])
sum([(0,) * 1000] * 1000, ())
sum(([0] * 1000 for i in range(1000)), [])
('a' * 1000).replace('a', 'b' * 1000).replace('b', 'c' * 1000)
long.replace('a', 'b' * 1000)
long.replace('', 'b' * 1000)
[long.replace('b', 'c') for i in range(1000)]
'a'.center(10 ** 10)
'a'.ljust(10 ** 10)
'a'.rjust(10 ** 9, '日')
'a'.zfill(10 ** 10)
f'{1:1000000000}'
f'{1:>1000000000}'
f'{"a":1000000000}'
f'{"a":日>1000000000}'
f'{1.5:.1000000000f}'
f'{1.5:1000000000.1000000000f}'
f'{1:{10 ** 9}}'
f'{1:{"9" * 9}}'
f'{1:0{"1" * 5000}}'
f'{1:٩٩٩٩٩٩٩٩٩}'
[f'{1:100000}' for i in range(10000)]
[f'{long}{long}' for i in range(1000)]
list(range(10 ** 12))
tuple(range(10 ** 12))
set(range(10 ** 12))
sum(range(10 ** 12))
sum(range(10 ** 30))
max(range(10 ** 12))
min(range(10 ** 12), key=lambda x: x)
sorted(range(10 ** 12))
any(x < 0 for x in range(10 ** 12))
any(range(0)) or all(range(1, 10 ** 12))
dict(enumerate(range(10 ** 12)))
list(zip(range(10 ** 12), range(10 ** 12)))
list(enumerate(range(10 ** 12)))
list(map(lambda x: x, range(10 ** 12)))
list(map(str, range(10 ** 12)))
list(filter(None, range(10 ** 12)))
list(filter(lambda x: False, range(10 ** 12)))
list(reversed(range(10 ** 12)))
[*range(10 ** 12)]
(*range(10 ** 12), 1)
{*range(10 ** 12)}
max(*range(10 ** 12))
len([*zip(range(10 ** 12))])
-1 in range(10 ** 12) or 1.5 in range(10 ** 12)
'a' in range(10 ** 12)
-1 in map(lambda x: x, range(10 ** 12))
-1 in zip(range(10 ** 12))
-1 in reversed(range(10 ** 12))
[x for x in range(10 ** 12)]
{x for x in range(10 ** 12)}
{x: x for x in range(10 ** 12)}
[x for x in range(10 ** 12) if False]
[0 for a in range(10 ** 6) for b in range(10 ** 6)]
[[x for x in range(1000)] for y in range(1000)]
[x for a in [range(10 ** 9)] for x in a if x < 0]
[[y for y in range(10 ** 6)] for x in [1]]
[0 for a in range(100) for b in range(100) for c in range(100) for d in range(100)]
list(zip(*[range(10 ** 9)] * 10000))
sorted(numbers)
sorted(numbers, key=lambda x: -x)
sorted(words)
[sorted(words) for i in range(10)]
sorted(alike * 10)
sorted([[s] for s in alike] * 10)
max(alike * 1000)
min([s] for s in alike * 1000)
[x in numbers for x in numbers]
[-1 in numbers for i in range(1000)]
['x' in words for i in range(1000)]
[numbers.count(1) for i in range(1000)]
[numbers.index(199999) for i in range(1000)]
[numbers == floats for i in range(1000)]
[numbers == numbers[:] for i in range(1000)]
[rows == rows[:] for i in range(1000)]
[table == {**table} for i in range(1000)]
[table.keys() == {**table}.keys() for i in range(1000)]
[sum(floats) for i in range(1000)]
[max(floats) for i in range(1000)]
[any(pairs) and all(pairs) for i in range(1000)]
[len(set(words)) for i in range(1000)]
[len(list(numbers)) for i in range(1000)]
[numbers[1:] for i in range(1000)]
[long[1:] for i in range(1000)]
[numbers[::-1] for i in range(1000)]
[{**table} for i in range(100)]
[table | table for i in range(100)]
[table.copy() for i in range(100)]
[dict(table) for i in range(100)]
[dict(pairs) for i in range(100)]
[list(table.items()) for i in range(100)]
[list(wide) for i in range(10)]
[set(wide + 'a') for i in range(100)]
[long.upper() for i in range(100)]
[wide.title() for i in range(10)]
[long.swapcase() for i in range(3)]
[long.title() for i in range(3)]
[long.capitalize() for i in range(3)]
[long.isalpha() for i in range(100)]
[long.split('b') for i in range(100)]
spaces.split()
spaces.split(' ')
spaces.rsplit(' ')
spaces.replace(' ', '\\n').splitlines()
[long.count('ab') for i in range(1000)]
[long.find('aab') for i in range(1000)]
['aab' in long for i in range(1000)]
[('a' * 29999).find('b' + 'a' * 98) for i in range(1000)]
[('a' * 29999).count('a' * 50 + 'b') for i in range(1000)]
long.rfind('b' + 'a' * 500000)
long.rsplit('b' + 'a' * 500000)
long.rpartition('b' + 'a' * 500000)
long.strip('b' * 100000)
(long * 10).lstrip('bcdefghijk' * 100000 + 'a')
[long.strip() for i in range(100)]
[long.partition('b') for i in range(100)]
[long.startswith((long,) * 1000) for i in range(1000)]
[long == long[:-1] + 'b' for i in range(1000)]
[long < long for i in range(100000)]
[{long: 1}[long] for i in range(100000)]
bomb == other_bomb
bomb < other_bomb
bomb in [other_bomb]
[other_bomb].index(bomb)
[other_bomb].count(bomb)
str(bomb)
f'{bomb}'
f'{bomb!r}'
f'{bomb!a}'
json.dumps(bomb)
json.dumps(bomb, indent=1)
sorted([bomb, other_bomb])
max(bomb, other_bomb)
{}[tuple(tuple(x) for x in [['a' * 100000] * 1000] * 1000)]
{(1, (('a' * 100000,) * 1000,) * 1000): 1}
{}[('a' * 100000,) * 1000]
[{}.get(x, 1) for x in [(('a' * 100000,) * 100,)] for i in range(10000)]
[{1: 2}['a' * 100000:] for x in []] + [{}[(('a' * 100000,) * 1000,) * 1000:]]
[1].index(['a' * 100000] * 1000)
float('9' * 10 ** 7)
int('9' * 10 ** 7)
[float('9' * 100000) for i in range(1000)]
json.loads('[' * 10 ** 6)
json.loads('[],' * 10 ** 6)
json.loads('[' + '[],' * 10 ** 6 + '1]')
json.loads('{"a":' * 100000)
json.dumps([0] * 1000, indent=10 ** 9)
json.dumps([0] * 1000, indent='x' * 10 ** 6)
json.dumps([0] * 1000, separators=('x' * 10 ** 6, ':'))
json.dumps(numbers * 4)
json.dumps(wide + wide)
[json.dumps(words[:5000]) for i in range(1000)]
{k * (2 ** 61 - 1) for k in range(100000)}
{k * (2 ** 61 - 1): 1 for k in range(100000)}
set(k * (2 ** 61 - 1) for k in range(100000))
set([k * (2 ** 61 - 1) for k in range(3000)])
dict((k * (2 ** 61 - 1), 1) for k in range(100000))
{(k * (2 ** 61 - 1),) for k in range(100000)}
{(a, b, c, d, e, f, g, h) for a in t for b in t for c in t for d in t for e in t for f in t for g in t for h in t}
[s | s for s in [{k * (2 ** 61 - 1) for k in range(300)}] for i in range(10000)]
[s == {*s} for s in [{k * (2 ** 61 - 1) for k in range(300)}] for i in range(10000)]
[{*s} for s in [{k * (2 ** 61 - 1) for k in range(300)}] for i in range(10000)]
"""


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES, f"{peak:,} bytes"


@pytest.mark.parametrize("source", REFUSED.strip().splitlines())
def test_what_costs_too_much_is_not_begun(source: str) -> None:
    with little_memory(), pytest.raises(BudgetExceeded) as exceeded:
        parse_expression(source).evaluate(HUGE)
    budget, allowed = exceeded.value.budget, exceeded.value.allowed
    bounds = {"steps": 100_000, "bytes": 16 * 1024 * 1024, "integer_bits": 16_384, "clashes": 16, "depth": 200}
    assert bounds[budget] == allowed
    assert str(exceeded.value) == f"budget exceeded: {budget} is {allowed:,}"


@pytest.mark.alone
@pytest.mark.parametrize("source", ["str(many)", "f'{many}'", "json.dumps(many)", "[1].index(many)"])
def test_a_text_that_a_list_holds_a_thousand_times_is_not_read_a_thousand_times(source: str) -> None:
    expression = parse_expression(source)
    began = time.process_time()
    with pytest.raises(BudgetExceeded, match="steps is"):
        expression.evaluate({"many": [HUGE["long"]] * 1000})
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("str(2 ** 16000)", "ValueError"),
        ("f'{2 ** 16000}'", "ValueError"),
        ("int('9' * 10 ** 6)", "ValueError"),
        ("2 ** 16000 / 1", "OverflowError"),
        ("1e300 ** 1000", "OverflowError"),
        ("10.0 ** 10 ** 5", "OverflowError"),
        ("'a' * 2 ** 64", "OverflowError"),
        ("[0] * 2 ** 64", "OverflowError"),
        ("len(range(10 ** 30))", "OverflowError"),
        ("f'{1:99999999999999999999}'", "ValueError"),
        ("1 << -1", "ValueError"),
        ("json.loads('[' * 100)", "JSONDecodeError"),
    ],
)
def test_where_python_itself_refuses_at_once_its_error_stands(source: str, kind: str) -> None:
    with little_memory(), pytest.raises(ExpressionError) as error:
        parse_expression(source).evaluate(HUGE)
    assert error.value.kind == kind


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("0 << 10 ** 9", 0),
        ("1 ** 10 ** 10", 1),
        ("(-1) ** (10 ** 10 + 1)", -1),
        ("0 ** 10 ** 10", 0),
        ("10 ** -10 ** 10", 0.0),
        ("'' * 10 ** 10", ""),
        ("[] * 10 ** 10", []),
        ("'a' * -10 ** 10", ""),
        ("10 ** 11 in range(10 ** 12)", True),
        ("range(10 ** 12)[-1]", 10**12 - 1),
        ("len(range(10 ** 12)[5:])", 10**12 - 5),
        ("[*range(10 ** 12)[:3]]", [0, 1, 2]),
        ("min(range(10 ** 12)[:3])", 0),
        ("any(range(10 ** 12))", True),
        ("len(([0] * 500_000).copy())", 500_000),
        ("5 in map(lambda x: x, range(10 ** 12))", True),
        ("[a for a, b in zip(range(10 ** 12), 'ab')]", [0, 1]),
        ("dict(enumerate('ab'))", {0: "a", 1: "b"}),
    ],
)
def test_what_only_looks_costly_is_done(source: str, value: object) -> None:
    with little_memory():
        assert parse_expression(source).evaluate({}) == value


def test_a_deep_value_is_refused_where_c_code_would_recurse() -> None:
    deep: list[Any] = []
    other: list[Any] = []
    for _ in range(100_000):
        deep, other = [deep], [other]
    values = {"deep": deep, "other": other}
    for source in (
        "deep == other", "deep < other", "deep in [other]", "str(deep)", "f'{deep}'", "json.dumps(deep)",
        "json.dumps(deep, indent=1)", "sorted([deep, other])", "max(deep, other)", "[other].index(deep)",
        "{(1, tuple(deep))}",
    ):  # fmt: skip
        with pytest.raises(BudgetExceeded) as exceeded:
            parse_expression(source).evaluate(values)
        assert (exceeded.value.budget, exceeded.value.allowed) == ("depth", 200)
    assert parse_expression("deep[0][0] is None").evaluate(values) is False


def test_the_deepest_expressions_are_evaluated() -> None:
    for source, value in (
        ("[x for x in " * 40 + "'a'" + "]" * 40, ["a"]),
        ("(" * 90 + "1" + " + 1)" * 90, 91),
        ("list(" * 45 + "'a'" + ")" * 45, ["a"]),
        ("sorted('a', key=lambda x: " * 24 + "1" + ")" * 24, ["a"]),
        ("[" * 90 + "]" * 90, None),
    ):
        found = parse_expression(source).evaluate({})
        assert value is None or found == value


def test_a_smaller_budget_is_exceeded_sooner_and_a_larger_one_later() -> None:
    expression = parse_expression("[x for x in range(100)]")
    assert len(expression.evaluate({}, Budget(steps=1000))) == 100
    with pytest.raises(BudgetExceeded, match="steps is 50"):
        expression.evaluate({}, Budget(steps=50))
    with pytest.raises(BudgetExceeded, match="bytes is 100"):
        expression.evaluate({}, Budget(bytes=100))
    with pytest.raises(BudgetExceeded, match="integer_bits is 64"):
        parse_expression("2 ** 64").evaluate({}, Budget(integer_bits=64))
    assert len(parse_expression("[0] * 10 ** 7").evaluate({}, Budget(steps=10**6, bytes=10**8))) == 10**7
