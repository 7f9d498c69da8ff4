"""Comprehensions, generators and lambdas give what CPython gives, down to the moment a variable is read."""

from __future__ import annotations

import pytest

from plan.expressions.reference import VALUES, by_python, by_us

SOURCES = """
[x for x in xs]
[x * n for x in xs if x > 1]
[x for x in xs if x > 1 if x < 3]
[x for x in text if x in 'aeiou']
[(i, j) for i in range(3) for j in range(i)]
[j for i in [[1, 2], [3]] for j in i if j != 2]
[[x * y for y in xs] for x in xs]
[[x for x in range(x)] for x in xs]
[x for x in [x for x in xs]]
[n for n in range(n)]
[k for k in item]
[f'{k}={v}' for k, v in item.items()]
[a + b for a, b in zip(xs, xs)]
[a + c for (a, (b, c)) in [(1, (2, 3))]]
[a for [a, b] in ['ab', 'cd']]
[a for a, in [[1], [2]]]
[a + b + c + d + e + f for a, b, c, d, e, f in ['abcdef']]
[a for a, b in [1]]
[a for a, b in [(1,)]]
[a for a, b in [(1, 2, 3)]]
[a for a, b, c, d in ['abc']]
[b for a, b in item]
[a for a, b in item]
[r.name for r in rows if r.tags]
[r.missing for r in rows]
[r['value'] / (r.value - 1) for r in rows]
[x for x in n]
[x for x in none]
[y for x in xs for y in x]
{x % 2 for x in xs}
{x: x * x for x in xs}
{k: v for k, v in item.items() if k != 'id'}
{r.name: r for r in rows}
{k.upper(): [v] for k, v in zip(words, xs)}
{[]: 1 for x in xs}
{[x] for x in xs}
{x: 1 / (x - 1) for x in xs}
sum(x for x in xs)
sum(x * y for x in xs for y in xs if x != y)
max((r.value, r.name) for r in rows)
any(x > 2 for x in xs)
list(list(y + k for y in xs) for k in [1, 2])
list(zip(*(map(lambda y: y * k, xs) for k in [1, 2])))
[f for f in [map(lambda y: y * k, xs) for k in [1, 2]] for f in f]
list(zip(*[list(a + b for a in xs for b in xs) for k in [1, 2]]))
list(map(lambda x: [x for x in range(x)], xs))
list(map(lambda row: sorted(row.tags, key=lambda tag: (row.name, tag)), rows))
sorted(xs, key=lambda n: -n)
sorted(xs, key=lambda x: x * n)
[sorted(xs, key=lambda x: x * k) for k in [1, -1]]
[x for x in {3, 1, 2}]
[x for x in enumerate(words, 1)]
[x for x in reversed(xs)]
[x for x in item.items()]
[w.title() for w in words if w.startswith('f') or len(w) > 4]
3 in list(x for x in xs)
2 in map(lambda x: x - 1, xs)
[1] in map(lambda x: [x], xs)
'a' in filter(None, mixed)
"""


@pytest.mark.parametrize("source", SOURCES.strip().splitlines())
def test_a_comprehension_is_cpythons(source: str) -> None:
    expected = by_python(source, VALUES)
    assert by_us(source, VALUES) == expected


def test_two_generators_of_one_text_do_not_share_their_variables() -> None:
    # each has two `for`: the first's variable must survive while the other generator runs
    source = "list(zip(*map(lambda k: (a * k + b for a in xs for b in xs), [1, 10])))"
    assert by_us(source, VALUES)[0] == "refused"  # a generator is only an argument of a call
    source = "list(zip(*map(lambda k: filter(None, (a * k + b for a in xs for b in xs)), [1, 10])))"
    assert by_us(source, VALUES) == by_python(source, VALUES)
