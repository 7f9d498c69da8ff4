"""Programs and their plans, both run: the same calls, with the same arguments, as often."""

from __future__ import annotations

from typing import Any

import pytest

from callgate.program.graph.planning.schedule import schedule
from callgate.program.graph.reasons import Refusal
from program.graph.scheduling import TOOLS, calls_of_the_plan, calls_of_the_program, flow_of, planned
from program.graph.test_schedule import PLANS
from runtime.conftest import opened

pytestmark = pytest.mark.anyio

INPUTS: dict[str, Any] = {"rows": [{"city": "Oslo", "n": 1}, {"city": "Rome", "n": 2}], "top": 2}

_TEXT = r"""
for row in rows[:top]:
    w = await get(row['city'], row['n'])
    for key, n in w.by_day.items():
        f = await find(f'{key}{n}', n)
        g = await find(f, len(w.near))
---
cities = {}
for c in await find('all'):
    cities[c] = (await get(c)).temp
await save(cities)
---
import asyncio
tasks = []
for row in rows:
    if row['n'] > 1:
        tasks.append(get(row['city']))
a, b = await asyncio.gather(get('x'), find('y'))
found = await asyncio.gather(*tasks)
await save([found, a, b])
---
names = sorted({row['city'] for row in rows})
lengths = {name: len(await find(name)) for name in names}
await save(lengths, name=max(names, key=lambda name: lengths[name]))
---
best = None
for row in rows:
    if best is None or row['n'] > best['n']:
        best = row
x = await get('Oslo') if top > 1 else None
y = await find('q') and await find('r')
---
table = [[n, str(n)] for n in range(top)]
for n, text in table:
    await save((n, {text: n}))
---
text = '''a'b"c\n'''
w = await get(text)
await save(f'{w.city}: {text.upper():>9} {w.temp!r}')
---
sep = '\n'
w = await get('Oslo')
await save(f"{sep.join(w.near)} and {sep}")
---
if top > 5:
    for row in rows:
        await save(row)
else:
    for row in rows:
        await save(row['n'])
---
item = await find('item')
index = [item for item in item]
for item in index:
    steps = await get(item)
---
xs = []
for a in 'ab':
    ys = []
    for b in 'cd':
        ys.append(a + b)
    xs.append(await find(ys))
await save(xs)
---
seen = set()
for c in ['Oslo', 'Rome', 'Oslo']:
    seen.add((await get(c)).city)
await save(sorted(seen))
---
for c in ['Oslo']:
    a = await get(c)
    b = await get(c, 2)
    d = await get(c, 3)
    e = await get(c, 4)
    f = await get(c, 5)
    g = await get(c, 6)
    h = await find([a.temp, b.temp, d.temp, e.temp, f.temp, g.temp, c])
---
w = await get('Oslo')
if w.temp > 3:
    near = w.near
else:
    near = []
for n in near:
    await get(n)
---
if await find('x', 0):
    await save(1)
else:
    await save(2)
if not await find('x', 1):
    await save(3)
await get('end')
"""
PROGRAMS = [*(source for source, _ in PLANS.values()), *(each.strip() for each in _TEXT.split("---"))]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def test_the_plan_makes_the_calls_of_the_program() -> None:
    async with opened(*TOOLS) as runtime:
        for source in PROGRAMS:
            inputs = {name: value for name, value in INPUTS.items() if name in source}
            expected = await calls_of_the_program(runtime, source, inputs)
            assert await calls_of_the_plan(planned(source, inputs)) == expected, source


def test_most_of_what_programs_do_is_no_reason() -> None:
    for source in PROGRAMS:
        try:
            schedule(flow_of(source, INPUTS), INPUTS)
        except Refusal as refused:
            raise AssertionError(f"{refused}\n{source}") from None
