"""Programs that look for a way to tell two runs apart, by name. Each ends by itself and prints what it found.

`ATTACKS` have to be the same again. `OPEN` are those that need not: the table of docs/durable.md names them.
"""

from __future__ import annotations

__all__ = ["ATTACKS", "OPEN"]

_TWO = "import asyncio\na, b = await asyncio.gather(count('a'), count('b'))\n"

ATTACKS = {
    # clocks and times
    "clocks of the module time": """
import time
def all_of_them():
    return [time.time(), time.time_ns(), time.monotonic(), time.monotonic_ns(), time.perf_counter(),
        time.perf_counter_ns(), time.process_time(), time.process_time_ns(), time.thread_time(), time.thread_time_ns()]
print(all_of_them(), await count('a'))
print(all_of_them())
""",
    "clocks by their numbers": """
import time
ids = [name for name in dir(time) if name.startswith('CLOCK_')]
print([(name, time.clock_gettime(getattr(time, name)), time.clock_gettime_ns(getattr(time, name))) for name in ids])
await read(1)
print([(name, time.clock_gettime(getattr(time, name))) for name in ids])
""",
    "clocks imported by name": """
from time import time as now, monotonic, perf_counter as tick, sleep as pause
from time import strftime, localtime, gmtime, ctime, asctime
print(now(), monotonic(), tick())
await count('a')
pause(0.25)
print(now(), monotonic(), tick(), strftime('%c %Z'), localtime(), gmtime(), ctime(), asctime())
""",
    "a stop watch": """
import time
start = time.perf_counter()
await read(1)
sum(range(100_000))
print('took', time.perf_counter() - start, time.process_time())
""",
    "datetime under another name": """
from datetime import datetime as D, date as Day, timezone
import datetime
class Stamp(D):
    pass
print(D.now(), D.utcnow(), D.today(), D.now(timezone.utc), Day.today(), Stamp.now(), type(Stamp.now()).__name__)
await count('a')
print(D.now().astimezone(), datetime.datetime.now() - D(2020, 1, 1), D.fromtimestamp(0), D.now().isoformat())
print(isinstance(D.now(), D), type(D.now()) is D, Day.today().isocalendar())
""",
    "dates of the mail package": """
import email.utils, email.message
print(email.utils.localtime(), email.utils.formatdate(), email.utils.make_msgid(domain='x.org'), await count('a'))
""",
    "time zones": """
import time, datetime, zoneinfo, os
print(time.tzname, time.timezone, time.daylight, os.environ.get('TZ'))
print(datetime.datetime.now(zoneinfo.ZoneInfo('Europe/Oslo')).isoformat(), await count('a'))
""",
    "records of a log": """
import logging, sys
form = '%(asctime)s %(relativeCreated)d %(created)f %(process)d %(threadName)s %(message)s'
logging.basicConfig(stream=sys.stdout, format=form)
logging.warning('before')
await count('a')
logging.warning('after')
""",
    "a calendar, and a timeout of sched": """
import sched, time, calendar
def say(what):
    print(what, time.monotonic(), read(1))
def plain():
    plan = sched.scheduler()
    plan.enter(0.2, 1, say, ('late',)); plan.enter(0.1, 1, say, ('early',)); plan.enter(0.1, 0, say, ('first',))
    plan.run()
plain()
print(calendar.timegm(time.gmtime()))
""",
    "HTTP cookies and dates": """
import http.cookiejar, email.utils, wsgiref.handlers
print(http.cookiejar.time2isoz(), http.cookiejar.time2netscape(), email.utils.formatdate(usegmt=True), await count('a'))
""",
    "the clock in a random seed": """
import random, time
other = random.Random(time.time_ns())
print(other.random(), random.Random().random(), random.Random(await count('a')).random())
""",
    # randomness
    "every source of chance": """
import random, secrets, uuid, os
print(random.random(), random.SystemRandom().random(), random.SystemRandom().sample(range(99), 3), secrets.token_hex())
await count('a')
print(uuid.uuid4(), uuid.uuid1(), os.urandom(8), secrets.choice('abcdef'), secrets.randbelow(10**9))
print(os.getrandom(4), random.getstate()[1][:3], uuid.getnode())
""",
    "chance by other names": """
from os import urandom
from random import random, shuffle, SystemRandom, Random, _urandom
from uuid import uuid4
from secrets import token_bytes, SystemRandom as S
found = list(range(9)); shuffle(found)
print(urandom(3), random(), found, SystemRandom().getrandbits(64), Random().random())
print(_urandom(3), uuid4(), token_bytes(3), S().random())
print(await count('a'), random())
""",
    "salts of crypt and bcrypt": """
import hashlib, os, hmac
salt = os.urandom(16)
print(hashlib.scrypt(b'x', salt=salt, n=2, r=1, p=1).hex(), await count('a'))
print(hmac.new(salt, b'x', 'sha256').hexdigest())
""",
    # hashes, sets and order
    "hashes": """
import decimal, datetime, fractions
print(hash('x'), hash(b'x'), hash(1.5), hash((1, 'a')), hash(frozenset('abc')), hash(datetime.date(2020, 1, 1)))
print({'one', 'two', 'three', 'four'}, set('some text'), {b'a', b'b', b'c'}, await count('a'))
""",
    "sets of types and functions": """
print([each.__name__ for each in {int, str, float, dict, list, set, bytes, ValueError, KeyError}], await count('a'))
""",
    "what tasks are there": """
import asyncio
async def wait_for_it(i):
    return await count(str(i))
tasks = {asyncio.create_task(wait_for_it(i), name=f'task {i}') for i in range(8)}
print([each.get_name() for each in tasks], [each.get_name() for each in asyncio.all_tasks()])
done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
print([each.get_name() for each in done], [each.get_name() for each in pending], [each.get_name() for each in tasks])
done, pending = await asyncio.wait(tasks)
print([each.get_name() for each in done], len(pending))
""",
    "names of tasks that nobody named": """
import asyncio
async def work():
    return asyncio.current_task().get_name(), await count('a')
print(await asyncio.gather(work(), work(), asyncio.create_task(work())), asyncio.current_task().get_name())
""",
    "a dictionary of calls": """
import asyncio
calls = {count('a'): 'a', count('b'): 'b', read(3): 'c'}
print([calls[each] for each in calls], [calls[each] for each in {*calls}])
for each in {*calls}:
    print(calls[each], await each)
""",
    "sets of coroutines that are awaited": """
import asyncio
async def step(i):
    return i, await count(str(i))
print([await each for each in [step(1), step(2)]], await asyncio.gather(*[step(3), step(4), step(5)]))
""",
    "futures in a set": """
import asyncio
loop = asyncio.get_running_loop()
futures = {loop.create_future(): i for i in range(6)}
for each in set(futures):
    each.add_done_callback(lambda future: print('done', futures[future], future.result()))
for each in set(futures):
    each.set_result(await count('f'))
await asyncio.sleep(0)
""",
    "weak sets of tasks": """
import asyncio, weakref
async def work(i):
    return await count(str(i))
tasks = [asyncio.create_task(work(i), name=str(i)) for i in range(6)]
weak = weakref.WeakSet(tasks)
print([each.get_name() for each in weak], await asyncio.gather(*weak))
""",
    # garbage
    "finalizers that print": """
import gc
class Loud:
    def __init__(self, name): self.name = name; self.me = self
    def __del__(self): print('gone', self.name)
for i in range(2000):
    Loud(i) if i % 500 == 0 else None
    [{'x': [j]} for j in range(30)]
    if i % 700 == 0:
        await count('a')
print(gc.collect() >= 0)
""",
    "finalizers that make calls": """
import gc
class Calls:
    def __init__(self): self.me = self
    def __del__(self): print('gone', count('del'))
def plain():
    for i in range(3):
        Calls()
    gc.collect()
plain()
print(await count('a'))
""",
    "weak references with callbacks": """
import weakref, gc
class Node: pass
def made(i):
    a, b = Node(), Node()
    a.b, b.a = b, a
    weakref.finalize(a, print, 'final', i)
    return weakref.ref(b, lambda _: print('weak', i))
kept = [made(i) for i in range(5)]
await count('a')
gc.collect()
print([each() for each in kept], await count('b'))
""",
    "counts of the collector": """
import gc, sys
print(gc.isenabled(), sys.getrefcount([]), gc.get_threshold())
""",
    "cycles that many events leave": """
import asyncio, weakref
class Node: pass
live = []
def cycle(i):
    node = Node(); node.me = node
    live.append(weakref.ref(node, lambda _: print('collected', i)))
for i in range(40):
    cycle(i)
    await read(i)
print(sum(each() is not None for each in live))
""",
    "async generators left open": """
import asyncio, gc
async def numbers():
    try:
        for i in range(5):
            yield await count('n')
    finally:
        print('closed', await count('closed'))
async for each in numbers():
    print(each)
    break
print(await read(1))
await asyncio.sleep(0.01)
gc.collect()
print(await read(2))
""",
    "exceptions that nobody retrieved": """
import asyncio
async def fails(i):
    await count('f')
    raise ValueError(i)
tasks = [asyncio.create_task(fails(i), name=f'failing {i}') for i in range(3)]
await asyncio.sleep(0.01)
await asyncio.wait(tasks)
del tasks
print(await read(1))
""",
    # the loop
    "timers that tie": """
import asyncio, time
loop = asyncio.get_running_loop()
found = []
for i in range(20):
    loop.call_later(0.01, found.append, i)
at = loop.time() + 0.01
for i in range(20, 40):
    loop.call_at(at, found.append, i)
await asyncio.gather(*(asyncio.sleep(0.01, i) for i in range(5)), count('a'), read(1))
await asyncio.sleep(0.02)
print(found, loop.time() - at)
""",
    "a sleep within a callback": """
import asyncio, time
loop = asyncio.get_running_loop()
def blocks(i):
    time.sleep(0.01)
    print('blocked', i, loop.time())
for i in range(3):
    loop.call_later(0.005 * i, blocks, i)
print(await asyncio.gather(count('a'), asyncio.sleep(0.02), count('b')), loop.time())
""",
    "timers that are cancelled": """
import asyncio
loop = asyncio.get_running_loop()
timers = [loop.call_later(0.001 * i, print, 'fired', i) for i in range(200)]
for each in timers[::2] + timers[10:]:
    each.cancel()
print(await asyncio.gather(asyncio.sleep(0.02), count('a'), read(1)))
print(len(loop._scheduled) < 300, timers[3].when() - timers[1].when())
""",
    "timers of the past": """
import asyncio
loop = asyncio.get_running_loop()
loop.call_at(loop.time() - 5, print, 'past')
loop.call_later(-1, print, 'negative')
loop.call_later(0, print, 'zero')
print(await count('a'))
await asyncio.sleep(-1)
print('end')
""",
    "a far timer beside calls": """
import asyncio
far = asyncio.create_task(asyncio.sleep(10**6, 'far'))
print(await count('a'), await count('b'), far.done())
print(await far, asyncio.get_running_loop().time() > 10**6)
""",
    "asyncio.run from sync code": """
import asyncio, time
async def main():
    print(await asyncio.gather(count('a'), asyncio.sleep(0.1, 'slept'), read(2)))
    return asyncio.get_running_loop().time() > 0
def plain():
    print(count('plain'))
asyncio.run(main())
plain()
asyncio.run(main())
print(time.time())
""",
    "a loop of its own": """
import asyncio
async def main(i):
    await asyncio.sleep(0.01 * i)
    return i, await count('own')
def plain():
    loop = asyncio.new_event_loop()
    print(loop.run_until_complete(main(1)), count('between'), loop.run_until_complete(asyncio.wait_for(main(2), 5)))
    loop.close()
    with asyncio.Runner() as runner:
        print(runner.run(main(3)), runner.run(main(4)))
plain()
""",
    "a call that blocks within async code": """
import asyncio
def plain(i):
    return count(f'plain {i}')
async def one(i):
    got = plain(i)
    await asyncio.sleep(0.001)
    return got, await read(i)
print(await asyncio.gather(*(one(i) for i in range(4))))
""",
    "tasks that begin at once": """
import asyncio, sys
if sys.version_info >= (3, 12):
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
async def work(i):
    print('begins', i)
    got = await count(str(i))
    print('goes on', i, got)
    return got
async with asyncio.TaskGroup() as group:
    tasks = [group.create_task(work(i), name=str(i)) for i in range(5)]
print([each.get_name() for each in asyncio.all_tasks()], [each.result() for each in tasks])
""",
    "a group that fails": """
import asyncio
async def work(i):
    try:
        await asyncio.sleep(0.001 * i)
        if i == 3:
            raise ValueError(await count('bad'))
        return await asyncio.sleep(9)
    except asyncio.CancelledError:
        print('cancelled', i, await read(i))
        raise
    finally:
        print('finally', i)
try:
    async with asyncio.TaskGroup() as group:
        for i in range(6):
            group.create_task(work(i))
except* ValueError as errors:
    print(errors.exceptions)
""",
    "context variables": """
import asyncio, contextvars
name = contextvars.ContextVar('name', default='?')
async def work(i):
    name.set(i)
    await read(i)
    asyncio.get_running_loop().call_soon(lambda: print('callback', name.get()))
    return name.get(), await count('c')
print(await asyncio.gather(*(work(i) for i in range(4))), name.get(), len(contextvars.copy_context()))
await asyncio.sleep(0)
""",
    "cancellation while a call is on its way": """
import asyncio
async def work(i):
    try:
        return await count(f'w{i}')
    except asyncio.CancelledError:
        print('cancelled', i)
        return await read(i)
tasks = [asyncio.create_task(work(i)) for i in range(6)]
await asyncio.sleep(0)
tasks[0].cancel()
await read(9)
tasks[1].cancel(); tasks[2].cancel()
await asyncio.sleep(0.001)
tasks[3].cancel()
print(await asyncio.gather(*tasks, return_exceptions=True))
""",
    "calls that nobody awaits": """
import asyncio
kept = [count('kept'), read(1)]
dropped = count('dropped')
asyncio.create_task(asyncio.sleep(0.01))
print(await read(2))
""",
    "an error in the end": _TWO + "raise ValueError(a + b)",
    "an exit": _TWO + "print(a, b)\nraise SystemExit(0)",
    "a group of errors": _TWO + "raise ExceptionGroup('both', [ValueError(a), KeyError(b)])",
    "a value that is no JSON": _TWO + "{1: {2, 3}, 'x': (a, b)}.items()",
    "selectors and sockets": """
import selectors, socket, select, os, asyncio
a, b = socket.socketpair()
b.send(b'x')
print(select.select([a], [], [], 1)[0] == [a], a.recv(1))
read_end, write_end = os.pipe()
os.write(write_end, b'y')
with selectors.DefaultSelector() as found:
    found.register(read_end, selectors.EVENT_READ)
    print([key.fileobj == read_end for key, _ in found.select(1)], await count('a'))
loop = asyncio.get_running_loop()
loop.add_reader(read_end, lambda: print('read', os.read(read_end, 9)) or loop.remove_reader(read_end))
await read(1)
await asyncio.sleep(0.01)
""",
    "a wait of select": """
import select, time
start = time.monotonic()
print(select.select([], [], [], 0.05), time.monotonic() - start >= 0, select.poll().poll(20), await count('a'))
""",
    "interval timers": """
import signal, time
def rings(*_):
    print('rings')
signal.signal(signal.SIGALRM, rings)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.005)
except Exception as error:
    print('refused', type(error).__name__)
total = 0
for i in range(1_000_000):
    total += i
try:
    signal.alarm(1)
    signal.alarm(0)
except Exception as error:
    print('refused', type(error).__name__)
print(total, await count('a'))
""",
    "a signal of its own": """
import signal, os
signal.signal(signal.SIGUSR1, lambda *_: print('signal'))
os.kill(os.getpid(), signal.SIGUSR1)
print(await count('a'))
""",
    # the process and its machine
    "the process": """
import os, sys, socket, getpass
print(os.getpid(), os.getppid(), os.getuid(), os.getcwd(), sys.argv, os.cpu_count() > 0)
print(sorted(os.environ.items()), sys.flags, socket.gethostname(), await count('a'))
""",
    "what the process used": """
import os, resource, time
sum(range(10**5))
print(os.times(), resource.getrusage(resource.RUSAGE_SELF).ru_utime, time.process_time())
print(resource.getrusage(resource.RUSAGE_SELF), await count('a'))
""",
    "the load of the machine": """
import os
try:
    print(os.getloadavg())
except OSError as error:
    print(type(error).__name__)
print(await count('a'))
""",
    "the kernel's files": """
found = []
for name in ('self/stat', 'uptime', 'loadavg', 'self/status', 'self/maps', 'meminfo'):
    try:
        found.append(len(open(f'/proc/{name}').read()))
    except OSError as error:
        found.append(type(error).__name__)
print(found, await count('a'))
""",
    "files and their times": """
import os, pathlib, tempfile, time
with open('mine.txt', 'w') as file:
    file.write('x')
entries = [os.stat('mine.txt'), os.lstat('mine.txt'), pathlib.Path('mine.txt').stat(), next(os.scandir('.')).stat()]
print([(each.st_mtime, each.st_atime_ns, each.st_ctime) for each in entries], os.path.getmtime('mine.txt'))
await count('a')
os.utime('mine.txt')
with open('mine.txt') as file:
    print(os.fstat(file.fileno()).st_mtime, os.path.getctime('mine.txt'), pathlib.Path('mine.txt').stat().st_mtime_ns)
""",
    "more of a file's facts": """
import os
open('mine.txt', 'w').close()
found = os.stat('mine.txt')
print(found.st_size, found.st_mode, found.st_uid, found.st_nlink, await count('a'))
""",
    "names of temporary files": """
import tempfile, os
fd, name = tempfile.mkstemp()
print(os.path.basename(name), os.path.basename(tempfile.mkdtemp()), await count('a'))
with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
    print(os.path.basename(file.name), os.path.basename(folder))
""",
    "the order of a folder": """
import os, glob, pathlib
os.makedirs('many', exist_ok=True)
for i in range(40):
    open(f'many/{i * 7919 % 101}.txt', 'w').close()
print(os.listdir('many'), [each.name for each in os.scandir('many')], glob.glob('many/*'))
print(glob.glob('*', root_dir='many'))
print(list(os.walk('many')), [each.name for each in pathlib.Path('many').iterdir()], await count('a'))
""",
    "archives": """
import io, zipfile, tarfile, gzip, hashlib
data = io.BytesIO()
with zipfile.ZipFile(data, 'w') as archive:
    archive.writestr('a.txt', 'x')
print(hashlib.sha256(data.getvalue()).hexdigest(), hashlib.sha256(gzip.compress(b'x')).hexdigest(), await count('a'))
open('b.txt', 'w').write('y')
data = io.BytesIO()
with tarfile.open(fileobj=data, mode='w') as archive:
    archive.add('b.txt')
with zipfile.ZipFile(data2 := io.BytesIO(), 'w') as archive:
    archive.write('b.txt')
print(hashlib.sha256(data.getvalue()).hexdigest(), hashlib.sha256(data2.getvalue()).hexdigest())
""",
    "databases": """
try:
    import sqlite3
except ImportError:
    print('none')
else:
    db = sqlite3.connect(':memory:')
    db.executescript('create table t(x); insert into t values (1), (2), (3)')
    print(db.execute('select x from t order by x').fetchall(), await count('a'))
""",
    "pickles and copies": """
import pickle, copy, json, hashlib
value = {'a': {1, 2, 3}, 'b': ['x', ('y',)]}
print(hashlib.sha256(pickle.dumps(value)).hexdigest(), copy.deepcopy(value) == value)
print(json.dumps(value['b']), await count('a'))
""",
    "tracebacks": """
import traceback, asyncio
async def fails(i):
    await count('a')
    raise ValueError(i)
for each in await asyncio.gather(fails(1), fails(2), return_exceptions=True):
    traceback.print_exception(each)
print(''.join(traceback.format_stack()))
""",
    "sizes and recursion": """
import sys
def deep(n):
    try:
        return deep(n + 1)
    except RecursionError:
        return n
print(sys.getrecursionlimit(), deep(0) > 500, sys.getsizeof([1, 2]), sys.maxsize, await count('a'))
""",
    "modules imported late": """
import importlib, sys
for name in ('fractions', 'statistics', 'queue', 'sched', 'tempfile', 'uuid', 'random', 'secrets', 'email.utils'):
    module = importlib.import_module(name)
await count('a')
import uuid as u, random as r, tempfile as t, statistics as s
print(u.uuid4(), r.random(), next(t._get_candidate_names()), s.NormalDist().samples(2))
""",
    "random seeded by the program": """
import random
random.seed(5)
print(random.random(), await count('a'), random.random())
random.seed()
print(random.random())
""",
    "a busy loop that yields": """
import asyncio, time
end = time.monotonic() + 0.05
turns = 0
while time.monotonic() < end:
    await asyncio.sleep(0.01)
    turns += 1
print(turns > 0, await count('a'))
""",
    "prints in pieces": """
import sys, asyncio
async def says(i):
    for part in 'abc':
        print(part, i, end=' ')
        sys.stderr.write('e')
        sys.stdout.flush()
        await read(i)
await asyncio.gather(says(1), says(2))
print('x' * 10000)
""",
    "displayed values": """
display({'a': await count('a')})
display([1, 2, await read(1)])
print(await count('b'))
""",
    "what warns": """
import warnings, asyncio
async def never(): pass
left = never()
del left
warnings.warn('so')
print(await count('a'))
""",
    "functools and caches": """
import functools
@functools.cache
def once(x): return print('once', x) or x
print(once(1), once(1), once.cache_info(), await count('a'))
""",
    "queues with a time limit": """
import asyncio, queue
waiting = asyncio.Queue()
async def puts():
    await asyncio.sleep(0.01)
    await waiting.put(await count('q'))
task = asyncio.create_task(puts())
for _ in range(6):
    try:
        print('got', await asyncio.wait_for(waiting.get(), 0.004))
        break
    except TimeoutError:
        print('nothing yet')
await task
plain = queue.Queue()
try:
    plain.get(timeout=0.01)
except queue.Empty:
    print('empty')
""",
    "locks with a time limit": """
import threading, time
lock = threading.Lock()
lock.acquire()
print(lock.acquire(timeout=0.01), threading.Event().wait(0.01), threading.Condition(lock).wait(0.01), await count('a'))
""",
    "finalizers that wait while garbage is collected": """
import time, gc
class Waits:
    def __init__(self, i): self.me, self.i = self, i
    def __del__(self): time.sleep(0.01); print('gone', self.i, call())
def call():
    return count('del')
for i in range(270):
    Waits(i) if i % 90 == 0 else None
    await read(i)
""",
    "an event loop in debug mode": """
import asyncio, time, logging, sys
logging.basicConfig(stream=sys.stdout)
loop = asyncio.get_running_loop()
loop.set_debug(True)
def slow():
    time.sleep(0.3)
loop.call_soon(slow)
print(await count('a'), await asyncio.gather(read(1), asyncio.sleep(0.1)))
""",
    "many turns that wait for a task": """
import asyncio
task = asyncio.create_task(count('a'))
timer = asyncio.create_task(asyncio.sleep(0.01))
turns = 0
while not (task.done() and timer.done()):
    turns += 1
    await asyncio.sleep(0)
print(turns, task.result())
""",
    "a loop that looks at the clock": """
import time
end = time.time() + 0.01
while time.time() < end:
    pass
""",
    "texts of tasks and futures": """
import asyncio
async def work():
    return await count('a')
task = asyncio.create_task(work())
call = read(1)
await asyncio.sleep(0)
print(task, asyncio.get_running_loop().create_future(), asyncio.gather(task, asyncio.sleep(0)))
print(await task, await call, task)
""",
    "a loop within a loop": """
import asyncio
async def main():
    return await count('a')
try:
    print(asyncio.run(main()))
except RuntimeError as error:
    print(error)
print(await count('b'))
""",
    "processes": """
import os, subprocess, multiprocessing
for start in (os.fork, lambda: subprocess.run(['true']), lambda: multiprocessing.Process(target=print).start()):
    try:
        start()
    except Exception as error:
        print(type(error).__name__)
print(await count('a'))
""",
    "threads by other doors": """
import _thread, asyncio, faulthandler, sys, threading
from concurrent.futures import ThreadPoolExecutor
def attempt(start):
    try:
        start()
    except Exception as error:
        print(type(error).__name__, str(error)[:40])
attempt(lambda: _thread.start_new_thread(print, ()))
attempt(lambda: threading.Thread(target=print).start())
attempt(lambda: ThreadPoolExecutor().submit(print))
attempt(lambda: asyncio.get_running_loop().run_in_executor(None, print))
attempt(lambda: faulthandler.dump_traceback_later(0.01, file=sys.__stderr__))
print(await count('a'))
""",
    "host names, users and folders of the machine": """
import os, pathlib, platform, sys, sysconfig
print(platform.node(), platform.python_version(), pathlib.Path.cwd(), os.listdir('.'), sys.executable, sys.path)
print(os.path.expanduser('~'), sysconfig.get_platform(), await count('a'))
""",
    "generators of chance in numpy": """
try:
    import numpy
except ImportError:
    print('none')
else:
    print(numpy.random.rand(2), numpy.random.default_rng().random(2))
print(await count('a'))
""",
    "names of threads": """
import threading, _thread
mine = threading.current_thread()
print(mine.name, threading.active_count(), threading.main_thread() is mine, await count('a'))
""",
}  # fmt: skip

OPEN = {
    "an address, as in `<object object at 0x7f...>`": """
class Thing: pass
print(Thing(), lambda: 1, await count('a'))
""",
    "`id(...)`": "print(id(object()), id(count), await count('a'))",
    "`hash(...)` of a function, a coroutine, or an object of your own class": """
class Thing: pass
print(hash(Thing()), hash(lambda: 1), await count('a'))
""",
    "the order of a set of these": """
class Thing:
    def __init__(self, i): self.i = i
print([each.i for each in {Thing(i) for i in range(200)}], await count('a'))
""",
    "`/dev/urandom`, opened as a file": "print(open('/dev/urandom', 'rb').read(8), await count('a'))",
    "clocks and randomness of C libraries: `ssl.RAND_bytes`, `now` in SQLite, `numpy.datetime64('now')`": """
import sqlite3, ssl
db = sqlite3.connect(':memory:')
print(db.execute("select julianday('now'), random()").fetchall(), ssl.RAND_bytes(8).hex(), await count('a'))
""",
    "how much memory there is: `gc.get_count()`, `sys.getallocatedblocks()`, `tracemalloc`": """
import gc, sys
print(gc.get_count(), sys.getallocatedblocks(), len(gc.get_objects()), await count('a'))
""",
    "where output of `os.write(1, ...)` and of C libraries stands among the prints": """
import os, sys
print('a')
os.write(1, b'b\\n')
print('c')
await count('a')
os.write(2, b'd\\n')
print('e')
await count('a')
print('g')
""",
    "`threading.get_ident()`, `%(thread)d` of `logging`": """
import threading
print(threading.get_ident(), await count('a'))
""",
}
"""What need not be the same: the words of the table."""
