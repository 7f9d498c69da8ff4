"""Programs as models write them, by form: ways to name and call a tool, imports, syntax. `programs` has all."""

FORMS = r'''
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
