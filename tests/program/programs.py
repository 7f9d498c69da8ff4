"""Programs as models write them, all of them valid, and the tools they call. Used by the tests of this folder."""

from __future__ import annotations

from callgate.program import ToolShape

TOOLS = [
    ToolShape("get_weather", ("city", "units"), frozenset({"city"})),
    ToolShape("query_sales", ("region",), frozenset({"region"})),
    ToolShape("send_report", ("title", "body", "name"), frozenset({"title", "body"})),
    ToolShape("list_files", (), frozenset()),
    ToolShape("search", ("query",), frozenset({"query"}), accepts_any=True),
    ToolShape("get_user", ("user_id",), frozenset({"user_id"})),
    ToolShape("spotify_play", ("artist", "duration"), frozenset({"artist", "duration"}), aliases=("spotify.play",)),
]

_TEXT = r'''
print((await get_weather("Oslo"))["temp"])
---
w = await get_weather("Oslo", units="metric")
print(w.temp)
---
weather = await get_weather(city="Oslo")
f"It is {weather['temp']} degrees"
---
import asyncio
cities = ["Oslo", "Paris", "Tokyo"]
results = await asyncio.gather(*[get_weather(c) for c in cities])
for city, w in zip(cities, results):
    print(f"{city}: {w['temp']}")
---
import asyncio
results = await asyncio.gather(*(get_weather(c) for c in ["a", "b"]), return_exceptions=True)
ok = [r for r in results if not isinstance(r, Exception)]
len(ok)
---
import asyncio
a, b = await asyncio.gather(get_weather("Oslo"), query_sales("west"))
print(a, b)
---
import asyncio

async def main():
    w = await get_weather("Oslo")
    return w["temp"]

print(await main())
---
import asyncio

async def main():
    results = await asyncio.gather(get_weather("Oslo"), get_weather("Paris"))
    print(results)

if __name__ == "__main__":
    asyncio.run(main())
---
import asyncio
async with asyncio.TaskGroup() as group:
    tasks = {city: group.create_task(get_weather(city)) for city in ("Oslo", "Paris")}
print({city: task.result()["temp"] for city, task in tasks.items()})
---
import asyncio
async def one(region):
    return await query_sales(region)
tasks = [asyncio.create_task(one(r)) for r in ("west", "east")]
for done in asyncio.as_completed(tasks):
    print(await done)
---
import asyncio
task = asyncio.create_task(get_weather("Oslo"))
await asyncio.sleep(0.1)
print(await task)
---
import asyncio
try:
    w = await asyncio.wait_for(get_weather("Oslo"), timeout=5)
except asyncio.TimeoutError:
    w = None
w
---
import asyncio
first = get_weather("Oslo")
second = get_weather("Paris")
print(await first, await second)
---
import asyncio
pending = [get_weather(c) for c in ("Oslo", "Paris")]
done = await asyncio.gather(*pending)
print(done)
---
import asyncio
coro = asyncio.gather(get_weather("Oslo"), get_weather("Paris"))
results = await coro
print(results[0]["temp"])
---
call = get_weather("Oslo")
call = await call
print(call["temp"])
---
try:
    rows = await query_sales("west")
except ToolError as error:
    print(error.tool, error.code, error.data, error.retryable)
    rows = []
print(len(rows))
---
try:
    rows = await query_sales("nowhere")
except (ToolError, ValueError) as e:
    print(f"failed: {e}")
else:
    print(rows)
finally:
    print("done")
---
def total(region):
    rows = query_sales(region)
    return sum(row["amount"] for row in rows)
print(total("west"))
---
def report(title):
    send_report(title, "body")
report("x")
---
def average(values):
    return sum(values) / len(values) if values else 0

rows = await query_sales("west")
print(average([r["amount"] for r in rows]))
---
from dataclasses import dataclass, field

@dataclass
class Sale:
    region: str
    amount: float = 0.0
    tags: list[str] = field(default_factory=list)

    @property
    def big(self) -> bool:
        return self.amount > 1000

sales = [Sale(**row) for row in await query_sales("west")]
print(sum(s.amount for s in sales if s.big))
---
class Collector:
    limit = 10

    def __init__(self):
        self.rows = []

    def __repr__(self):
        return f"Collector({len(self.rows)})"

    async def add(self, region):
        self.rows += await query_sales(region)
        return self

collector = Collector()
await collector.add("west")
print(collector)
---
class Base:
    registry = {}
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Base.registry[cls.__name__] = cls
class Child(Base):
    pass
print(list(Base.registry))
---
w = await get_weather("Oslo")
match w:
    case {"temp": temp, "sky": str(sky), **rest} if temp > 20:
        print(temp, sky, rest)
    case {"temp": (int() | float()) as temp}:
        print(temp)
    case [first, *others]:
        print(first, others)
    case _:
        print("unknown")
---
def numbers(n):
    for i in range(n):
        yield i * i
print(list(numbers(5)))
---
async def pages():
    for region in ("west", "east"):
        yield await query_sales(region)

async for page in pages():
    print(len(page))
---
async def pages():
    for region in ("west", "east"):
        yield await query_sales(region)
total = [row async for page in pages() for row in page]
total
---
import functools

def logged(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        print("calling", function.__name__)
        return await function(*args, **kwargs)
    return wrapper

@logged
async def sales(region):
    return await query_sales(region)

print(await sales("west"))
---
rows = await query_sales("west")
rows.sort(key=lambda row: row["amount"], reverse=True)
top = sorted(rows, key=lambda r: (-r["amount"], r["name"]))[:3]
return top
---
w = await get_weather("Oslo")
if w["temp"] > 20:
    return "warm"
return "cold"
---
for region in ("west", "east"):
    rows = await query_sales(region)
    if not rows:
        continue
    if len(rows) > 100:
        return region
---
from tools import get_weather
print(await get_weather("Oslo"))
---
from tools import get_weather as weather, query_sales
print(await weather("Oslo"), await query_sales("west"))
---
import tools
print(await tools.get_weather("Oslo"))
---
print(await tools.get_weather(city="Oslo"))
---
result = await tool_call("get_weather", city="Oslo")
sent = await tool_call("send_report", title="t", body="b", name="n")
print(result, sent)
---
name = "get_weather"
print(await tool_call(name, **{"city": "Oslo"}))
---
print(await tool_call("spotify.play", artist="A", duration=20))
---
arguments = {"city": "Oslo"}
print(await get_weather(**arguments))
---
arguments = ["Oslo", "metric"]
print(await get_weather(*arguments))
---
print(await send_report("t", *["b"]), await send_report("t", **{"body": "b"}))
---
print(await search("x", anything=1, limit=5))
---
import json
data = json.loads('{"a": 1}')
print(json.dumps(data, indent=2))
---
import asyncio, json, math
from collections import Counter, defaultdict
from datetime import datetime, timedelta
groups = defaultdict(list)
for row in await query_sales("west"):
    groups[row["kind"]].append(row)
print({k: len(v) for k, v in groups.items()}, Counter(groups), math.pi, datetime.now() - timedelta(days=1))
---
counter = 0
def bump():
    global counter
    counter += 1
bump()
print(counter)
---
def outer():
    count = 0
    def inner():
        nonlocal count
        count += 1
        return count
    return inner
print(outer()())
---
def set_up():
    global config
    config = {"a": 1}
set_up()
print(config)
---
def first():
    return second()
def second():
    return LATER
LATER = 3
print(first())
---
if (n := len(await query_sales("west"))) > 10:
    print(n)
print([y := 1, y ** 2])
---
print([(last := x) for x in range(3)], last)
---
import asyncio
semaphore = asyncio.Semaphore(5)
async def limited(city):
    async with semaphore:
        return await get_weather(city)
print(await asyncio.gather(*map(limited, ["Oslo", "Paris"])))
---
import asyncio
print(await asyncio.gather(*map(get_weather, ["Oslo", "Paris"])))
---
results = {}
for city in ["Oslo", "Paris"]:
    try:
        results[city] = (await get_weather(city))["temp"]
    except ToolError:
        results[city] = None
    except Exception as e:
        results[city] = str(e)
results
---
temps = [(await get_weather(c))["temp"] for c in ("Oslo", "Paris")]
max(temps)
---
temps = {c: (await get_weather(c))["temp"] for c in ("Oslo", "Paris")}
best = max(temps, key=temps.get)
print(best)
---
total = sum([(await get_weather(c))["temp"] for c in ("Oslo", "Paris")])
print(f"{total:.2f} {total!r:>10}")
---
with open("/tmp/x.txt", "w") as f:
    f.write("hello")
print(open("/tmp/x.txt").read())
---
import contextlib
@contextlib.contextmanager
def step(name):
    print("start", name)
    try:
        yield
    finally:
        print("end", name)
with step("a"), step("b") as s:
    pass
---
import concurrent.futures
with concurrent.futures.ThreadPoolExecutor() as pool:
    results = list(pool.map(get_weather, ["Oslo", "Paris"]))
print(results)
---
import threading
def work():
    print(get_weather("Oslo")["temp"])
thread = threading.Thread(target=work)
thread.start()
thread.join()
---
def get_weather(city):
    return {"temp": 1}
print(get_weather("Oslo")["temp"])
---
search = "text"
print(search[0], len(search))
---
tools = ["hammer", "saw"]
print(tools.index("saw"))
---
from typing import Any, Optional
def pick(items: list[Any], default: Optional[str] = None) -> Any:
    return items[0] if items else default
print(pick([]))
---
try:
    raise ExceptionGroup("x", [ValueError("a"), TypeError("b")])
except* ValueError as group:
    print(group.exceptions)
except* TypeError:
    pass
---
try:
    previous
except NameError:
    previous = []
print(previous)
---
if "rows" not in globals():
    rows = await query_sales("west")
print(rows)
---
exec("hidden = 1")
print(hidden)
---
from math import *
print(sqrt(2), floor(2.5))
---
import os.path
import xml.etree.ElementTree as ET
print(os.path.join("a", "b"), ET)
---
a, (b, *c), d["x"], e.y = 1, (2, 3), 4, 5
d = e = None
print(a, b, c)
---
x: int = 5
y: "list[int]"
print(x)
---
for i in range(3):
    pass
else:
    print(i)
while True:
    break
---
i = 10
while i:
    i -= 1
    if i == 5: continue
del i
---
assert (await get_weather("Oslo"))["temp"] > 0, "cold"
---
values = [1, 2, 3]
print(*values, sep=", ")
print(max(*values), dict(a=1, **{"b": 2}))
first, *rest = values
---
print("a" "b" if values_exist else "c") if (values_exist := True) else None
---
matrix = [[i * j for j in range(3)] for i in range(3)]
flat = [cell for row in matrix for cell in row if cell]
print(flat, {i for i in flat}, {k: v for k, v in enumerate(flat)}, sum(x for x in flat))
---
print("%s is %d" % ("Oslo", 3), "{} {name}".format(1, name="x"), rb"\d", r"\d+")
---
import re
print(re.findall(r"\d+", "a1b22"), "\d")
---
class Node:
    def __init__(self, value, children=()):
        self.value, self.children = value, children
    def walk(self):
        yield self
        for child in self.children:
            yield from child.walk()
print([n.value for n in Node(1, [Node(2)]).walk()])
---
class Color:
    RED = 1
    ALL = [RED, 2]
    names = {k: v for k, v in zip("ab", ALL)}
print(Color.ALL)
---
async def notify():
    await send_report("t", "b")
import asyncio
background = asyncio.create_task(notify())
await background
---
import asyncio
w, s = get_weather("Oslo"), query_sales("west")
await asyncio.wait([asyncio.ensure_future(w), asyncio.ensure_future(s)])
---
job = get_weather("Oslo")
job.add_done_callback(lambda j: print("done"))
print(job.done(), await job)
---
cached = None
call = cached or get_weather("Oslo")
print(await call)
---
fetch = lambda city: get_weather(city)
print((await fetch("Oslo"))["temp"])
---
async def fetch(city):
    return get_weather(city)
print(await (await fetch("Oslo")))
---
def run_all(calls):
    return [query_sales(c)["total"] for c in calls]
print(run_all(["west"]))
---
def agen(values):
    return (await query_sales(v) for v in values)
async for row in agen([]):
    print(row)
---
lines = """
def not_code(): return undefined_name
get_weather("x")
"""
print(lines)
---
# -*- coding: utf-8 -*-
naïve = "Zürich"
print(naïve, (await get_weather("Zürich"))["temp"])
---
pass
'''

PROGRAMS = _TEXT.split("---\n")
