"""Every kind of node gives what CPython gives: value, type of every part, error, message."""

from __future__ import annotations

import pytest

from plan.expressions.reference import VALUES, by_python, by_us

VALUE = """
1
1.5
'a' "b"
True
None
0x_ff
10 ** 400
[]
[1, 'a', None]
[*xs, 4, *text]
(1,)
()
(*xs, 1)
{1, 2, 1}
{*xs, *words, 9}
{}
{'a': 1, 'b': n}
{1: 'a', True: 'b', 1.0: 'c'}
{**item, 'id': 2, **{'z': 1}}
{**{}}
n
temp
temp['oslo']
temp['oslo'].c
temp.paris.f
temp['oslo'].c * 9 / 5 + 32
rows[0].name
rows[-1]['title']
rows[0].title
rows[1:]
rows[::-1][0].name
text[4:9]
text[:-4:2]
text[n]
xs[-1]
xs[True]
range(10)[2:8:3]
(1, 2, 3)[1:]
n + m
n - m
n * m
n / m
n // m
n % m
n ** 3
n ** m
2 ** 0.5
big * big
big // 3
big % 1000
-big >> 3
n & 3
n | 8
n ^ 2
n << 70
n >> 1
yes + yes
half * 2
half ** -2
1e308 * 10
xs + [1]
xs * 2
2 * xs
xs * -1
text + '!'
'ab' * 3
'ab' * 0
'' * 10 ** 6
(1,) + (2,)
(1,) * 2
{1, 2} | {3}
{1, 2} & {2}
{1, 2} - {2}
{1, 2} ^ {2, 3}
item | {'id': 3}
{'a': 1} | item
item.keys() & temp.keys()
item.keys() - {'id'}
{'id'} | item.keys()
+n
-n
~n
not n
not empty
-True
n and m
empty or 'default'
none or 0 or ''
n and empty and 1/0
n == 7
n != 7
n < m
m <= n
n > 6 > 5
1 < n < 5
1 < 0 < 1/0
text == 'x'
text < word
xs == [3, 1, 2, 3]
xs < [3, 2]
xs != (3, 1, 2, 3)
item == {'id': 'i1', 'count': 2, 'items': [1, 2]}
item == {'id': 'i1', 'count': 2, 'items': [1, 3]}
rows == rows
[item] == [temp]
{1, 2} == {2, 1}
{1} < {1, 2}
item.keys() == {'id', 'count', 'items'}
item.items() == item.items()
item.keys() < temp.keys()
1 == 1.0
1 == True
float('nan') == float('nan')
[float('nan')] == [float('nan')]
none is None
n is not None
yes is True
3 in xs
'fox' in text
'' in ''
'a' not in item
'id' in item
'id' in item.keys()
2 in item.values()
('id', 'i1') in item.items()
[1] in mixed
{'k': 1} in mixed
rows[0] in rows
2 in {1, 2}
(1, 2) in {(1, 2)}
5 in range(10)
5.0 in range(10)
'a' in range(10)
10 ** 30 in range(10 ** 31)
1 if n else 2
1/0 if not n else 'ok'
f''
f'a{n}b'
f'{n}'
f'{text!r:>30}'
f'{word!a}'
f'{none!s}|{xs}|{item}'
f'{n:05d} {half:.3f} {half:%} {big:,} {n:#x} {n:b} {-n:+} {text:.3} {text:<25}|'
f'{n:{n}} {half:{n}.{2}f}'
f'{text:日^30}'
f'{{}}'
f'{n=}'
f'{half:e} {1e100:f} {10**20:g} {True:d} {True}'
f'{(1, 2)} { {1} } { {"a": 1} }'
f'{range(3)}'
f'{item.keys()}'
"""

ERROR = """
missing
temp.rome
temp['rome']
temp.oslo.c.d
item['count']['x']
text.c
n.c
none.c
xs.name
{'a': 1}.a
dict(item).id
{}.x
[0][1]
xs['a']
xs[1.5]
xs[none]
text['a']
n[0]
none['a']
{1}[0]
item[[]]
item[{}]
item[{1}]
item[1, []]
item[1:2]
xs['a':]
xs[::0]
text[::0]
n / 0
n // 0
n % 0
half % 0
0 ** -1
0.0 ** -1
1e308 ** 2
10.0 ** 400
n + text
text + n
xs + (1,)
xs + 1
none + 1
item + 1
1 - item
xs - xs
text * 1.5
text * text
text - 'a'
item * 2
n | 'a'
half & 1
1 << -1
1 >> -1
half << 1
'a' << 1
item | 1
item | [1]
{1} | [1]
{1} - 1
xs ** 2
-text
~half
+xs
n < text
none < none
xs < 1
xs < (1,)
[1, 'a'] < [1, 2]
item < item
{1} < [1]
1 in 1
1 in 'a'
1 in none
[] in item
[] in {1}
{1: 2} in {1}
{[]}
{1, {}}
{[]: 1}
{[]: 1, 'a': 1/0}
{(1, []): 2}
[*n]
(*n, 1)
{*n}
{*xs, 1, []}
{**n}
{**xs}
f'{xs:5}'
f'{none:d}'
f'{item:5}'
f'{text:d}'
f'{n:s}'
f'{n:.3}'
f'{n:q}'
f'{half:d}'
f'{10**400:f}'
f'{n:99999999999999999999}'
str(2 ** 16000)
f'{2 ** 16000}'
2 ** 5000.0
'a' * 10 ** 30
1 < 'a' < 2
"""


@pytest.mark.parametrize("source", VALUE.strip().splitlines())
def test_a_value_is_cpythons(source: str) -> None:
    expected = by_python(source, VALUES)
    assert expected[0] == "value", expected
    assert by_us(source, VALUES) == expected


@pytest.mark.parametrize("source", ERROR.strip().splitlines())
def test_an_error_is_cpythons(source: str) -> None:
    expected = by_python(source, VALUES)
    assert expected[0] == "error", expected
    assert by_us(source, VALUES) == expected
