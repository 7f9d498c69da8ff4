"""A chain that needs judgement between its steps: whom to ask next, and what, is said in plain sentences.

The scripted model reads as far as it must: it drops the sentences that clear somebody, and looks whom the rest names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Any

from callgate_bench.workloads.pacing import wait
from callgate_bench.workloads.scripts import marked, output, read
from callgate_bench.workloads.workload import Call, ScriptFailed, Workload

__all__ = ["WORKLOAD"]

_DASHBOARDS = {
    "checkout": (
        "Checkout's own work takes 40 ms, as ever. Of the 6.2 s that a customer waits, nearly all goes by in calls to "
        "payments. Inventory and sessions answer as usual."
    ),
    "payments": (
        "Latency of payments looks normal for the requests that come through. But one in four fails since 14:05, with "
        "all attempts that follow."
    ),
    "ledger": "Ledger is busy with sequential scans since 14:00. Its pool of connections is full. The network is fine.",
    "inventory": "All is normal.",
    "sessions": "All is normal. A short peak at 13:20 was the nightly copy, run late.",
}
_LOGS = {
    "checkout": "Many lines of the kind: gave up waiting after three attempts. Nothing else stands out.",
    "payments": (
        "Card networks: not a single refusal above the usual. Most of the failures end in: ledger did not book the "
        "entry within 5 s. A few old warnings on certificates, not related. The team of ledger writes that it rolled "
        "out several changes at noon and after."
    ),
    "ledger": "Statement cancelled after 5 s, over and over, always the look-up of entries by account.",
    "inventory": "Nothing since the start of the day.",
    "sessions": "Nothing since the start of the day.",
}
_CHANGES = {
    "checkout": "No change this week.",
    "payments": "CHG-4809, Monday: a new translation of the receipt.",
    "ledger": (
        "CHG-4817, 12:10: wording of the monthly statement, not related to booking. CHG-4821, 13:58: dropped the index "
        "on entries by account, which was thought to be unused. CHG-4830, 16:00: a larger pool of connections, planned "
        "and not yet done."
    ),
    "inventory": "No change this week.",
    "sessions": "CHG-4802, Tuesday: cookies live for a day longer.",
}
_CHANGE = {
    "CHG-4802": "Way back: none wanted. Ask Lea Brunner.",
    "CHG-4809": "Texts only. No way back is needed. Ask Tomas Horvat.",
    "CHG-4817": "Texts only. No way back is needed. Ask Tomas Horvat.",
    "CHG-4821": "Way back: build the index again, about three minutes, without downtime. Ask Ines Duarte.",
    "CHG-4830": "Not begun. Ask Mikko Laine.",
}
_CLEARED = re.compile(r"as ever|as usual|normal|\bfine\b|\bnot (?:a|related|yet)\b|planned", re.IGNORECASE)


async def read_alert() -> dict[str, Any]:
    """The alert that is open, in an engineer's words.

    Gives {"text": str}.
    """
    await wait(0.05, 0.05)
    return {"text": "Customers of checkout wait very long for their receipt, and some leave. It began around 14:00."}


async def read_dashboard(service: str) -> dict[str, Any]:
    """What the panels of a service show, latency above all, in an engineer's words.

    Gives {"text": str}.

    Args:
        service: checkout, payments, ledger, inventory or sessions.
    """
    await wait(0.1, 0.2, service)
    return {"text": _DASHBOARDS[service]}


async def read_logs(service: str) -> dict[str, Any]:
    """What the logs of a service say about failures, in an engineer's words.

    Gives {"text": str}.

    Args:
        service: checkout, payments, ledger, inventory or sessions.
    """
    await wait(0.15, 0.3, service)
    return {"text": _LOGS[service]}


async def list_changes(service: str) -> dict[str, Any]:
    """The latest changes of a service, in its team's words.

    Gives {"text": str}.

    Args:
        service: checkout, payments, ledger, inventory or sessions.
    """
    await wait(0.05, 0.1, service)
    return {"text": _CHANGES[service]}


async def read_change(change: str) -> dict[str, Any]:
    """How a change can be taken back, and whom to ask.

    Gives {"text": str}.

    Args:
        change: its number, such as CHG-1234.
    """
    await wait(0.05, 0.05)
    return {"text": _CHANGE[change]}


def _thinking() -> Generator[Call, str, str]:
    """Gives one call after the other, is sent the text of each, and returns the answer."""
    text = yield Call("read_alert")
    service = ""
    for _ in range(10):
        matter = " ".join(each for each in re.split(r"(?<=\.) ", text) if not _CLEARED.search(each))
        if change := re.search(r"CHG-\d+", matter):
            about = yield Call("read_change", {"change": change[0]})
            whom = re.search(r"Ask ([^.]+)\.", about)
            if whom is None:
                raise ScriptFailed(f"nobody to ask: {about[:300]}")
            return f"{change[0]} of {service}; ask {whom[1]}"
        named = re.findall(r"\b(checkout|payments|ledger|inventory|sessions)\b", matter)
        service = next((each for each in named if each != service), service)
        if re.search(r"rolled out|\bchanges?\b", matter):
            text = yield Call("list_changes", {"service": service})
        elif re.search(r"\bfails?\b|\berrors?\b", matter):
            text = yield Call("read_logs", {"service": service})
        else:
            text = yield Call("read_dashboard", {"service": service})
    raise ScriptFailed(f"it led nowhere: {text[:300]}")


def _script(written: Callable[[Call], Any], told: Callable[[Any], str]) -> Callable[[], Generator[Any, Any, str]]:
    """The script that writes each call in a form, and reads what came back."""

    def script() -> Generator[Any, Any, str]:
        thinking = _thinking()
        try:
            call = next(thinking)
            while True:
                call = thinking.send(told((yield written(call))))
        except StopIteration as done:
            return str(done.value)

    return script


def _plan(call: Call) -> dict[str, Any]:
    return {"steps": [{"id": "note", "tool": call.tool, "arguments": dict(call.arguments)}], "output_steps": ["note"]}


def _program(call: Call) -> str:
    arguments = ", ".join(f'{name}="{value}"' for name, value in call.arguments.items())
    return f"note = await {call.tool}({arguments})\nf\"note: {{note['text']}}\"\n"


def _read(texts: list[str]) -> str:
    return str(read(texts[0])["text"])


WORKLOAD = Workload(
    name="judgement",
    title="Judgement between the steps",
    about=(
        "What to ask next is said in plain sentences, so the model has to come back after every call. Plans and "
        "programs save no turn here, and cost more tokens: direct calls should win."
    ),
    data="Made up: an incident in five services, told in engineers' words. The tools take 50 to 300 ms, simulated.",
    task=(
        "There is an open alert. Find the change that caused it: begin with the alert, and go on to whatever the texts "
        "point to (logs where requests fail, dashboards where they are slow, changes where a rollout is to blame). "
        "Answer with the number of that change alone, its service, and the full name of the person to ask."
    ),
    tools=(read_alert, read_dashboard, read_logs, list_changes, read_change),
    calls=_script(lambda call: [call], _read),
    plans=_script(_plan, lambda text: str(output(text, "note")["text"])),
    programs=_script(_program, lambda text: marked(text, "note")),
    facts=("CHG-4821", "ledger", "Ines Duarte"),
    never=(*(each for each in _CHANGE if each != "CHG-4821"), "Lea Brunner", "Tomas Horvat", "Mikko Laine"),
    note="The scripted model finds its way by a few words of each text; it stands for one that reads.",
)
