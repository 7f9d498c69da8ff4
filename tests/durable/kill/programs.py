"""The programs and plans that are killed: see `world` for their tools.

Each ends with ``close``, an effect whose argument is the tickets of everything that was handled, in the order in which
it was handled. The value of a program is the list of its facts, in the same order: ``[tool, arguments, ticket]`` says
that the program asked this, and got the answer with that ticket. `judging` holds both against the ledger. Arguments
named ``seen`` and ``position`` join one call to another one: they differ from run to run, and never within a run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["PROGRAMS", "Program"]

Path = Literal["plan", "fast path", "both paths", "guest"]


@dataclass(frozen=True)
class Program:
    """One program or plan.

    Attributes:
        path: who runs it; with ``both paths``, the host does until it is not sure any more, and then a guest.
        text: its text, a plan's as JSON.
        ends_well: whether its result is ok.
        options: further options of `Runtime.start`.
    """

    path: Path
    text: str
    ends_well: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def given(self) -> Any:
        """What `Runtime.start` takes."""
        return json.loads(self.text) if self.path == "plan" else self.text


def _plan(*steps: dict[str, Any], closing: list[str], ends_well: bool = True) -> Program:
    """A plan with a last step that closes the books on the tickets that the references lead to."""
    tickets = " ".join("${" + each + "}" for each in closing)
    last = {"id": "end", "tool": "close", "arguments": {"tickets": tickets}}
    return Program("plan", json.dumps({"steps": [*steps, last]}), ends_well)


def _step(id: str, tool: str, more: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    return {"id": id, "tool": tool, "arguments": arguments, **(more or {})}


_LIST = {"$expr": "' '.join([each.ticket for each in all])"}


def _each(tool: str, count: int) -> Program:
    """A call for each of many items, all at once."""
    mapped = _step("all", tool, {"for_each": list(range(1, count + 1))}, item="$item")
    end = {"id": "end", "tool": "close", "arguments": {"tickets": _LIST}}
    return Program("plan", json.dumps({"steps": [mapped, end]}))


_PLANS = {
    "plan_chain": _plan(
        _step("a", "measure", item=1),
        _step("b", "charge", item=1, seen="$ref:a.ticket"),
        _step("c", "upsert", item=2, seen="$ref:b.ticket"),
        _step("d", "stamp", item=3, seen="$ref:c.ticket"),
        closing=["a.ticket", "b.ticket", "c.ticket", "d.ticket"],
    ),
    "plan_charges": _each("charge", 12),
    "plan_pushes": _each("push", 8),
    "plan_diamond": _plan(
        _step("a", "measure", item=1),
        _step("b", "measure", item=1),
        _step("c", "charge", item=1, seen="$ref:a.ticket"),
        _step("d", "upsert", item=1, seen="$ref:b.ticket"),
        _step("e", "charge", {"after": ["c", "d"]}, item=2, seen={"$expr": "c.ticket + d.ticket"}),
        _step("f", "charge", {"when": {"$expr": "a.value >= 0"}}, item=3, seen="$ref:a.ticket"),
        closing=["a.ticket", "b.ticket", "c.ticket", "d.ticket", "e.ticket", "f.ticket"],
    ),
    "plan_failures": _plan(
        _step("a", "break_", item=1),
        _step("b", "charge", {"after": ["a"]}, item=1),
        _step("c", "charge", {"depends_on": ["a"]}, item=2),
        _step("d", "flaky", {"fallback": "look", "retry": False}, item=1, attempt=0),
        _step("e", "charge", item=3, seen="$ref:d.ticket"),
        closing=["b.ticket", "d.ticket", "e.ticket"],
        ends_well=False,
    ),
    "plan_approvals": _plan(
        _step("a", "measure", item=1),
        _step("b", "refund", item=1, seen="$ref:a.ticket"),
        _step("c", "refund", item=2),
        _step("d", "refund", item=3),
        _step("e", "charge", {"after": ["d"]}, item=4, seen="$ref:b.ticket"),
        closing=["a.ticket", "b.ticket", "c.ticket", "e.ticket"],
        ends_well=False,
    ),
}

_FAST = {
    "fast_charges": """
a = await measure(item=1)
b = await charge(item=1, seen=a.ticket)
c = await measure(item=2)
d = await charge(item=2, seen=c.ticket)
e = await stamp(item=3, seen=d.ticket)
print(f"charged {b.item} and {d.item}")
await close(tickets=f"{a.ticket} {b.ticket} {c.ticket} {d.ticket} {e.ticket}")
[["measure", {"item": 1}, a.ticket], ["charge", {"item": 1, "seen": a.ticket}, b.ticket],
 ["measure", {"item": 2}, c.ticket], ["charge", {"item": 2, "seen": c.ticket}, d.ticket],
 ["stamp", {"item": 3, "seen": d.ticket}, e.ticket]]
""",
    "fast_alike": """
a = await measure(item=1)
b = await measure(item=1)
c = await charge(item=1)
d = await charge(item=1)
e = await upsert(item=1, seen=a.ticket)
f = await upsert(item=1, seen=b.ticket)
await close(tickets=f"{a.ticket} {b.ticket} {c.ticket} {d.ticket} {e.ticket} {f.ticket}")
[["measure", {"item": 1}, a.ticket], ["measure", {"item": 1}, b.ticket], ["charge", {"item": 1}, c.ticket],
 ["charge", {"item": 1}, d.ticket], ["upsert", {"item": 1, "seen": a.ticket}, e.ticket],
 ["upsert", {"item": 1, "seen": b.ticket}, f.ticket]]
""",
    "fast_gather": """
import asyncio
a, b, c = await asyncio.gather(measure(item=1), charge(item=2), push(item=3))
d, e = await asyncio.gather(charge(item=4, seen=a.ticket), upsert(item=5, seen=b.ticket))
print("handled", d.item, e.item)
await close(tickets=f"{a.ticket} {b.ticket} {c.ticket} {d.ticket} {e.ticket}")
[["measure", {"item": 1}, a.ticket], ["charge", {"item": 2}, b.ticket], ["push", {"item": 3}, c.ticket],
 ["charge", {"item": 4, "seen": a.ticket}, d.ticket], ["upsert", {"item": 5, "seen": b.ticket}, e.ticket]]
""",
    "fast_approvals": """
a = await measure(item=1)
b = await refund(item=1, seen=a.ticket)
c = await charge(item=1, seen=b.ticket)
d = await refund(item=2, seen=c.ticket)
print("refunded", d.item)
await close(tickets=f"{a.ticket} {b.ticket} {c.ticket} {d.ticket}")
[["measure", {"item": 1}, a.ticket], ["refund", {"item": 1, "seen": a.ticket}, b.ticket],
 ["charge", {"item": 1, "seen": b.ticket}, c.ticket], ["refund", {"item": 2, "seen": c.ticket}, d.ticket]]
""",
    "fast_leaves": """
a = await measure(item=1)
b = await charge(item=1, seen=a.ticket)
c = await upsert(item=2, seen=b.ticket)
print("charged", b.item)
total = sum([i * 2 for i in range(300_000)])
d = await charge(item=3, seen=c.ticket)
print("charged", d.item)
await close(tickets=f"{a.ticket} {b.ticket} {c.ticket} {d.ticket}")
[["measure", {"item": 1}, a.ticket], ["charge", {"item": 1, "seen": a.ticket}, b.ticket],
 ["upsert", {"item": 2, "seen": b.ticket}, c.ticket], ["charge", {"item": 3, "seen": c.ticket}, d.ticket]]
""",
}

_PRELUDE = """
import asyncio, time, random, uuid

facts = []

def note(tool, answer, **arguments):
    facts.append([tool, arguments, answer["ticket"]])
    print(tool, arguments["item"])
    return answer

"""
_END = """
await close(tickets=" ".join(fact[2] for fact in facts))
facts
"""

_GUESTS = {
    "guest_as_completed": """
async def handle(item):
    return item, await measure(item=item)

for position, each in enumerate(asyncio.as_completed([handle(item) for item in range(12)])):
    item, got = await each
    note("measure", got, item=item)
    note("charge", await charge(item=item, seen=got.ticket, position=position),
         item=item, seen=got.ticket, position=position)
""",
    "guest_queue": """
queue = asyncio.Queue()
for item in range(9):
    queue.put_nowait(item)

async def worker():
    while not queue.empty():
        item = queue.get_nowait()
        got = note("measure", await measure(item=item), item=item)
        position = len(facts)
        note("charge", await charge(item=item, seen=got.ticket, position=position),
             item=item, seen=got.ticket, position=position)

await asyncio.gather(worker(), worker(), worker())
""",
    "guest_tasks": """
async def handle(item):
    got = note("measure", await measure(item=item), item=item)
    if item % 2:
        note("stamp", await stamp(item=item, seen=got.ticket), item=item, seen=got.ticket)
    else:
        note("upsert", await upsert(item=item, seen=got.ticket), item=item, seen=got.ticket)
    position = len(facts)
    note("charge", await charge(item=item, position=position), item=item, position=position)

async with asyncio.TaskGroup() as group:
    for item in range(6):
        group.create_task(handle(item))
""",
    "guest_retries": """
async def handle(item):
    for attempt in range(3):
        try:
            got = await flaky(item=item, attempt=attempt)
        except ToolError:
            await asyncio.sleep(0.003 * (item + 1))
        else:
            note("flaky", got, item=item, attempt=attempt)
            position = len(facts)
            return note("charge", await charge(item=item, seen=got.ticket, position=position),
                        item=item, seen=got.ticket, position=position)

await asyncio.gather(*[handle(item) for item in range(6)])
""",
    "guest_sync": """
def handle(item):
    got = note("measure", measure(item=item), item=item)
    time.sleep(0.004)
    at = int(time.time() * 1000) % 100_000
    note("charge", charge(item=item, seen=got.ticket, position=at), item=item, seen=got.ticket, position=at)

for item in range(4):
    handle(item)
note("push", await push(item=9), item=9)
""",
    "guest_approvals": """
async def handle(item):
    got = note("measure", await measure(item=item), item=item)
    try:
        note("refund", await refund(item=item, seen=got.ticket), item=item, seen=got.ticket)
    except ToolError as error:
        print("no refund of", item, type(error).__name__)
        position = len(facts)
        note("charge", await charge(item=item, position=position), item=item, position=position)

await asyncio.gather(*[handle(item) for item in range(1, 5)])
note("refund", await refund(item=7), item=7)
""",
    "guest_timers": """
async def handle(item):
    got = note("measure", await measure(item=item), item=item)
    try:
        async with asyncio.timeout(0.005):
            await slow(item=item)
    except TimeoutError:
        position = len(facts)
        note("charge", await charge(item=item, seen=got.ticket, position=position),
             item=item, seen=got.ticket, position=position)
        return item

waiting = {asyncio.create_task(handle(item)) for item in range(5)}
while waiting:
    done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for item in [task.result() for task in done]:
        position = len(facts)
        note("upsert", await upsert(item=item, position=position), item=item, position=position)
""",
    "guest_chance": """
two = asyncio.Semaphore(2)
items = list(range(8))
random.shuffle(items)

async def handle(item):
    async with two:
        got = note("measure", await measure(item=item), item=item)
        name = f"{uuid.uuid4()} {random.random()} {got.ticket} {hash(str(item))}"
        note("charge", await charge(item=item, seen=name), item=item, seen=name)

await asyncio.gather(*[handle(item) for item in items])
""",
    "guest_alike": """
gone = asyncio.ensure_future(charge(item=1))
gone.cancel()
for each in asyncio.as_completed([charge(item=1) for _ in range(5)]):
    note("charge", await each, item=1)
    gone = asyncio.ensure_future(upsert(item=1))
    gone.cancel()
    note("measure", await measure(item=1), item=1)
    note("upsert", await upsert(item=1), item=1)
""",
    "guest_stores": """
for item in range(20):
    got = note("measure", await measure(item=item), item=item)
    note("upsert", await upsert(item=item, seen=got.ticket), item=item, seen=got.ticket)
""",
    "guest_catches": """
async def handle(item):
    try:
        await break_(item=item)
    except ToolError:
        position = len(facts)
        note("charge", await charge(item=item, position=position), item=item, position=position)
        raise

results = await asyncio.gather(*[handle(item) for item in range(5)], return_exceptions=True)
print([type(result).__name__ for result in results])
""",
    "guest_unknown": """
async def handle(item):
    position = len(facts)
    try:
        paid = await charge(item=item, position=position)
    except ToolError as error:
        paid = await was_charged(item=item)
        if paid.ticket is None:
            paid = await charge(item=item, position=position, seen="again")
    note("charge", paid, item=item)

for item in range(5):
    await handle(item)

async def close(tickets, close=close):
    try:
        await close(tickets=tickets)
    except ToolError:
        if (await was_closed()).ticket is None:
            await close(tickets=tickets)
""",
}

PROGRAMS = {
    **_PLANS,
    **{
        name: Program("both paths" if name == "fast_leaves" else "fast path", text.strip())
        for name, text in _FAST.items()
    },
    **{
        name: Program(
            "guest",
            f"{_PRELUDE.strip()}\n\n{text.strip()}\n{_END.strip()}",
            options={"on_unknown": "raise"} if name == "guest_unknown" else {},
        )
        for name, text in _GUESTS.items()
    },
}
"""By name."""
