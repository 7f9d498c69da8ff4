"""Programs whose way depends on the order of events, of timers, or of what sets hold."""

from __future__ import annotations

PROGRAMS: dict[str, str] = {
    "gather": """
import asyncio
await asyncio.gather(*[echo(n) for n in range(6)])
""",
    "as_completed": """
import asyncio
[await each for each in asyncio.as_completed([echo(n) for n in range(8)])]
""",
    "as_completed of coroutines": """
import asyncio
async def f(n):
    await asyncio.sleep(n / 300)
    return await echo(n)
[await each for each in asyncio.as_completed([f(n) for n in range(8)])]
""",
    "wait for the first": """
import asyncio
tasks = [asyncio.create_task(echo(n), name=str(n)) for n in range(8)]
out = []
while tasks:
    done, tasks = await asyncio.wait(tasks, return_when='FIRST_COMPLETED')
    out.append([t.get_name() for t in done] + ['left'] + [t.get_name() for t in tasks])
out
""",
    "wait with a timeout": """
import asyncio
tasks = [asyncio.create_task(echo(n), name=str(n)) for n in range(8)]
done, left = await asyncio.wait(tasks, timeout=0.005)
[[t.get_name() for t in done], [t.get_name() for t in left]]
""",
    "a task group that fails": """
import asyncio
out = []
async def one(n):
    try:
        await echo(n)
        if n == 3: await fail('no')
        await echo(-n)
    finally:
        out.append(n)
        print('end of', n)
try:
    async with asyncio.TaskGroup() as group:
        for n in range(6): group.create_task(one(n))
except* ToolError as error:
    out.append(str(error.exceptions[0]))
out
""",
    "wait_for": """
import asyncio
out = []
for n in range(8):
    try:
        out.append(await asyncio.wait_for(echo(n), 0.005))
    except TimeoutError:
        out.append('late')
out
""",
    "timeout": """
import asyncio
out = []
for n in range(8):
    try:
        async with asyncio.timeout(0.005):
            out.append(await echo(n))
    except TimeoutError:
        out.append('late')
out
""",
    "a semaphore": """
import asyncio
gate, out = asyncio.Semaphore(2), []
async def one(n):
    async with gate:
        out.append(await echo(n))
await asyncio.gather(*map(one, range(8)))
out
""",
    "a queue": """
import asyncio
queue, out = asyncio.Queue(), []
async def work(name):
    while True:
        n = await queue.get()
        out.append([name, await echo(n)])
        queue.task_done()
workers = [asyncio.create_task(work(n)) for n in range(3)]
for n in range(9): queue.put_nowait(n)
await queue.join()
out
""",
    "retries": """
import asyncio, random
out = []
async def one(n):
    for attempt in range(3):
        try:
            return await (echo if random.random() < 0.5 else fail)(str(n))
        except ToolError:
            await asyncio.sleep(0.01 * 2 ** attempt * random.random())
            out.append(n)
[await asyncio.gather(*map(one, range(5)), return_exceptions=False), out]
""",
    "all tasks": """
import asyncio
async def one(n):
    await asyncio.sleep(1)
    await echo(n)
made = [asyncio.create_task(one(n), name=f't{n}') for n in range(9)]
names = [t.get_name() for t in asyncio.all_tasks()]
await asyncio.wait(made)
names
""",
    "calls of plain functions": """
import time
def one(n):
    time.sleep(0.01)
    return [echo(n), time.time()]
later = echo('later')
[one(1), one(2), await later]
""",
    "asyncio.run": """
import asyncio
async def main(): return await asyncio.gather(echo(1), echo(2))
asyncio.run(main())
""",
    "a cancelled call": """
import asyncio
task = asyncio.create_task(echo(1))
await asyncio.sleep(0)
task.cancel()
other = asyncio.create_task(echo(2))
await asyncio.sleep(0.001)
other.cancel()
[str(await asyncio.gather(task, other, return_exceptions=True)), await echo(3)]
""",
    "a look with sleep(0)": """
import asyncio
task = asyncio.create_task(echo(1))
while not task.done(): await asyncio.sleep(0)
task.result()
""",
    "prints": """
import asyncio
async def one(n):
    print('a', n)
    await echo(n)
    print('b', n)
await asyncio.gather(*map(one, range(5)))
""",
    "sets": """
import asyncio
async def one(n): return await echo(n)
tasks = {asyncio.create_task(one(n), name=str(n)) for n in range(20)}
calls = {echo(n): n for n in range(5)}
some = {asyncio.gather(echo(n)): n for n in range(5)}
names = [t.get_name() for t in tasks]
out = [names, [calls[each] for each in set(calls)], [some[each] for each in set(some)], list({'a', 'b', 'c', (1, 'x')})]
await asyncio.wait(tasks)
for each in [*calls, *some]: await each
str(out)
""",
    "an error": """
import asyncio
async def one(n):
    await asyncio.sleep(0.001)
    raise ValueError(await echo(n))
await asyncio.gather(*map(one, range(3)))
""",
    "generators that are left open": """
import asyncio
out = []
async def numbers(n):
    try:
        while True:
            yield await echo(n)
    finally:
        print('closed', n)
held = [numbers(n) for n in range(9)]
for each in held: await anext(each)
""",
    "garbage": """
import asyncio, weakref
class Node: pass
async def one(n):
    node = Node()
    node.own = node
    weakref.finalize(node, print, 'gone', n)
    await echo(n)
for n in range(600): await one(n)
""",
}
