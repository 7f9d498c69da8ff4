"""Programs as models write them, by shape: sequences, loops, concurrency, functions and classes. `programs` has all."""

SHAPES = r"""
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
"""
