"""What generated programs are made of, as data: helpers, awaitables, and blocks of statements. Draws nothing.

In a template ``@job`` stands for something to await, ``@jobs`` for a list of such, ``@coro`` for a coroutine,
``@tasks`` for a list of named tasks, ``@delay`` for seconds, ``@n`` for a small number, ``@word`` for a short text,
``¤`` for the number of the block, and a line ``@block`` for further blocks. Where several events are possible at one
moment, the templates print what came first: an order that is not replayed shows in the logs.
"""

from __future__ import annotations

__all__ = ["BLOCKS", "COROUTINES", "DELAYS", "ENDS", "HELPERS", "JOBS", "SYNC_BLOCKS", "WORDS"]

DELAYS = ("0.001", "0", "0.002", "0.002", "0.01", "0.5", "3")
"""Many are equal, so that timers tie."""
WORDS = ("'a'", "'b'", "'c'", "'日'")

JOBS = (
    "count(@word)",
    "read(@n)",
    "flaky(@n)",
    "put(@word, @n)",
    "@coro",
    "@coro",
    "asyncio.shield(step(@n))",
)
"""Whatever can be awaited."""

COROUTINES = (
    "step(@n)",
    "asyncio.sleep(@delay, @n)",
    "retry(@n)",
    "careful(@n)",
    "both(@n)",
    "chain(@n)",
    "limited(@job)",
    "asyncio.wait_for(@job, @delay)",
    "asyncio.wait_for(step(@n), @delay)",
    "first(@job, @job)",
    "late(@n, @delay)",
    "guarded(@n)",
    "drain(@n)",
    "held(@n)",
    "beside(@n)",
    "with_timeout(@n, @delay)",
)

HELPERS = {
    "step": """
async def step(i):
    a = await count('s')
    await asyncio.sleep(i % 3 / 1000)
    print('step', i, a)
    return [i, a]
""",
    "retry": """
async def retry(i):
    for attempt in range(4):
        try:
            return await flaky(i)
        except ToolError as error:
            print('failed', i, attempt, error)
            await asyncio.sleep(0.01 * 2 ** attempt * (1 + random.random()))
    return 'gave up'
""",
    "careful": """
async def careful(i):
    try:
        return await read(i)
    except asyncio.CancelledError:
        print('cancelled', i)
        if i % 2:
            return 'cancelled'
        raise
    finally:
        print('finally', i, await count('f'))
""",
    "both": """
async def both(i):
    tasks = [asyncio.create_task(read(i)), asyncio.create_task(step(i))]
    return await asyncio.gather(*tasks, return_exceptions=i > 1)
""",
    "chain": """
async def chain(i):
    total = 0
    for each in range(i):
        total += await count('chain')
        print('chain', i, each, total)
    return total
""",
    "limited": """
semaphore = asyncio.Semaphore(2)
async def limited(work):
    async with semaphore:
        got = await work
        print('limited', got)
        return got
""",
    "first": """
async def first(*works):
    tasks = {asyncio.ensure_future(work) for work in works}
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for each in pending:
        each.cancel()
    ended = await asyncio.gather(*pending, return_exceptions=True)
    print('first', [each.exception() or each.result() for each in done], ended)
    return len(done)
""",
    "late": """
async def late(i, delay):
    await asyncio.sleep(delay)
    print('late', i, await read(i))
    return i
""",
    "guarded": """
lock = asyncio.Lock()
async def guarded(i):
    async with lock:
        before = await read(i)
        print('guarded', i, before, await put('lock', i))
    return before
""",
    "several": """
async def several(n):
    for i in range(n):
        yield await count('several')
        await asyncio.sleep(0.001)
""",
    "drain": """
async def drain(n):
    found = []
    async for each in several(n):
        found.append(each)
        if each % 4 == 3:
            break
    return found
""",
    "stamp": """
def stamp():
    now = datetime.datetime.now().isoformat()
    return [time.time(), time.monotonic(), time.perf_counter_ns(), now, time.strftime('%X')]
""",
    "plainly": """
def plainly(i):
    got = count('sync')
    time.sleep(i % 3 / 1000)
    print('plainly', i, got)
    return got
""",
    "held": """
@contextlib.asynccontextmanager
async def holding(i):
    print('enter', i, await put('hold', i))
    try:
        yield i
    finally:
        print('leave', i, await count('hold'))
async def held(i):
    async with holding(i) as each:
        return await read(each)
""",
    "beside": """
local = contextvars.ContextVar('local', default='none')
async def inner():
    before = local.get()
    got = await count('local')
    return before, local.get(), got
async def beside(i):
    local.set(str(i))
    task = asyncio.create_task(inner())
    local.set('later')
    return await task
""",
    "with_timeout": """
async def with_timeout(i, delay):
    try:
        async with asyncio.timeout(delay):
            got = await read(i)
            await asyncio.sleep(0.002)
            print('in time', i, await count('t'))
            return got
    except TimeoutError:
        print('too late', i)
        return None
""",
    "told": """
def told(task):
    if task.cancelled():
        print('told', task.get_name(), 'cancelled')
    else:
        print('told', task.get_name(), task.exception() or task.result())
""",
}
"""Functions and objects of a program, by the name that uses them."""

BLOCKS = (
    "print(await @job)",
    "print(await asyncio.gather(*@jobs))",
    "print(await asyncio.gather(*@jobs, return_exceptions=True))",
    """
for each in asyncio.as_completed(@jobs):
    try:
        print('came', await each)
    except (ToolError, TimeoutError) as error:
        print('failed', error)
""",
    """
for each in asyncio.as_completed(@jobs):
    got = await each
    print('handled', got, await put('handled', str(got)))
""",
    """
try:
    for each in asyncio.as_completed(@jobs, timeout=@delay):
        print('came', await each)
except (ToolError, TimeoutError) as error:
    print('ended', type(error).__name__, error)
""",
    """
pending¤ = set(@tasks)
while pending¤:
    done¤, pending¤ = await asyncio.wait(pending¤, return_when=asyncio.FIRST_COMPLETED)
    for each in done¤:
        told(each)
        await count('handled')
""",
    """
done¤, pending¤ = await asyncio.wait(@tasks, timeout=@delay)
print([each.get_name() for each in done¤], [each.get_name() for each in pending¤])
for each in pending¤:
    each.cancel()
print(await asyncio.gather(*done¤, *pending¤, return_exceptions=True))
""",
    """
done¤, pending¤ = await asyncio.wait(@tasks, return_when=asyncio.FIRST_EXCEPTION)
for each in [*done¤, *pending¤]:
    print(each.get_name(), each in done¤)
    each.add_done_callback(told)
    each.cancel()
await asyncio.sleep(@delay)
""",
    """
try:
    async with asyncio.TaskGroup() as group¤:
        tasks¤ = [group¤.create_task(each, name=str(i)) for i, each in enumerate(@coros)]
    print([each.result() for each in tasks¤])
except* ToolError as errors:
    print('group', [str(each) for each in errors.exceptions])
except* TimeoutError as errors:
    print('late', len(errors.exceptions))
print([each.get_name() for each in tasks¤ if each.cancelled()])
""",
    """
try:
    print('in time', await asyncio.wait_for(@job, @delay))
except TimeoutError:
    print('too late')
except ToolError as error:
    print('failed', error.message)
""",
    """
try:
    async with asyncio.timeout(@delay) as timeout¤:
        @block
        await asyncio.sleep(@delay)
except TimeoutError:
    print('over', timeout¤.expired())
""",
    """
queue¤ = asyncio.Queue(@n)
async def work¤(name):
    while True:
        item = await queue¤.get()
        try:
            print(name, item, await read(item))
        finally:
            queue¤.task_done()
workers¤ = [asyncio.create_task(work¤(each), name=each) for each in ('x', 'y', 'z')]
for item in range(4):
    await queue¤.put(item)
await queue¤.join()
for each in workers¤:
    each.cancel()
print(await asyncio.gather(*workers¤, return_exceptions=True))
""",
    """
event¤ = asyncio.Event()
async def waits¤(i):
    await event¤.wait()
    print('woken', i, await count('woken'))
waiting¤ = {asyncio.create_task(waits¤(i)) for i in range(3)}
await @job
event¤.set()
for each in waiting¤:
    await each
""",
    """
condition¤ = asyncio.Condition()
ready¤ = []
async def consumes¤(i):
    async with condition¤:
        await condition¤.wait_for(lambda: ready¤)
        print('consumes', i, ready¤.pop())
async def produces¤(i):
    got = await count('made')
    async with condition¤:
        ready¤.append((i, got))
        condition¤.notify(1 + i % 2)
print(await asyncio.gather(*(consumes¤(i) for i in range(3)), *(produces¤(i) for i in range(3))))
""",
    """
background¤ = set()
for i, each in enumerate(@coros):
    task¤ = asyncio.create_task(each, name=f'background {i}')
    background¤.add(task¤)
    task¤.add_done_callback(told)
    task¤.add_done_callback(background¤.discard)
await asyncio.sleep(@delay)
print(sorted(each.get_name() for each in background¤), [each.get_name() for each in background¤])
""",
    """
tasks¤ = @tasks
await asyncio.sleep(@delay)
tasks¤[@n % len(tasks¤)].cancel()
print(await asyncio.gather(*tasks¤, return_exceptions=True))
""",
    """
loop¤ = asyncio.get_running_loop()
future¤ = loop¤.create_future()
def done¤(i):
    print('called', i, loop¤.time())
    if not future¤.done() and i == 2:
        future¤.set_result(i)
for i in (3, 1, 2, 0):
    loop¤.call_later(@delay, done¤, i)
loop¤.call_at(loop¤.time() + @delay, done¤, 2)
loop¤.call_soon(done¤, 'soon')
print(await future¤, await @job)
""",
    "print(stamp(), await @job)\nprint(stamp())",
    "print(random.random(), random.randint(0, 99), uuid.uuid4(), secrets.token_hex(4), os.urandom(3).hex())",
    "order¤ = list(range(6))\nrandom.shuffle(order¤)\nprint(order¤, random.SystemRandom().random(), uuid.uuid1())",
    "print({'aa', 'bb', 'cc', str(await count('set'))}, frozenset(str(each) for each in range(9)))",
    "print([each.get_name() for each in asyncio.all_tasks()])",
    """
start¤ = time.perf_counter()
got¤ = await asyncio.gather(*@jobs, return_exceptions=True)
print('took', time.perf_counter() - start¤, got¤)
""",
    """
for i in range(@n):
    @block
""",
    """
async def more¤():
    @block
print(await asyncio.gather(more¤(), @job, more¤(), return_exceptions=True))
""",
    """
if await count('if') % 2:
    @block
else:
    @block
""",
    """
try:
    @block
except ToolError as error:
    print('caught', error.tool, error.message)
""",
    "print(plainly(@n))",
    "asyncio.get_running_loop().call_soon(lambda: print('soon', plainly(@n)))\nawait asyncio.sleep(@delay)",
    "time.sleep(@delay)\nprint('slept', time.monotonic())",
    """
try:
    print([each async for each in several(@n)])
finally:
    print('several', stamp()[1])
""",
    """
barrier¤ = asyncio.Barrier(3)
async def meets¤(i):
    await late(i, @delay)
    print('meets', i, await barrier¤.wait(), await count('met'))
await asyncio.gather(*(meets¤(i) for i in range(3)))
""",
    """
async def fails¤(i):
    await asyncio.sleep(@delay)
    raise ValueError(f'{i} {await count("v")}')
lost¤ = asyncio.create_task(fails¤(@n))
await asyncio.wait([lost¤, asyncio.create_task(read(@n))], return_when=asyncio.FIRST_COMPLETED)
lost¤.cancel()
""",
    """
priority¤ = asyncio.PriorityQueue()
async def fills¤(i):
    priority¤.put_nowait((await count('p') % 3, i))
filling¤ = [asyncio.ensure_future(fills¤(i)) for i in range(3)]
for _ in filling¤:
    print('next', await priority¤.get())
""",
    """
async with contextlib.AsyncExitStack() as stack¤:
    for i in range(@n):
        stack¤.push_async_callback(put, 'exit', i)
    print('inside', await @job)
""",
    """
def leave¤(i):
    node = types.SimpleNamespace()
    node.me = node
    weakref.finalize(node, print, 'collected', i).atexit = False
for i in range(400):
    leave¤(i)
print('left', await @job)
""",
    "left¤ = count(@word)",
    "asyncio.create_task(@coro).add_done_callback(told)",
    "spun¤ = 0\nwhile spun¤ < 5:\n    spun¤ += 1\n    await asyncio.sleep(0)\nprint('spun', await @job)",
    """
polled¤ = asyncio.create_task(@coro)
while not polled¤.done():
    await asyncio.sleep(0.001)
    print('.', end='')
print(polled¤.exception() or polled¤.result())
""",
    """
waits¤ = asyncio.wait_for(asyncio.shield(chain(@n)), @delay)
print(await asyncio.gather(asyncio.shield(step(@n)), waits¤, return_exceptions=True))
""",
)  # fmt: skip
"""Statements within async code."""

SYNC_BLOCKS = (
    "print(count(@word))",
    "print(plainly(@n))",
    "time.sleep(@delay)\nprint(time.time())",
    "print([read(i) for i in range(@n)])",
    "try:\n    print(flaky(@n))\nexcept ToolError as error:\n    print('failed', error)",
    "print(stamp(), random.random())",
    "print({'aa', 'bb', str(count('set'))})",
)
"""Statements within a plain function, in which calls block."""

ENDS = ("", "stamp()", "await @job", "[await count('end'), random.random()]", "await asyncio.gather(*@jobs)")
"""Last lines: the value."""
