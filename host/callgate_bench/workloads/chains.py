"""Chains: each step needs what the one before it gave. One needs no thought, one tries again, one needs judgement.

For some companies every other attempt to enrich fails, beginning with the first. So each round that tries again until
it works meets the same failures as the one before it, in the same process, and nothing has to be set back in between.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Generator
from typing import Any

from callgate_bench.workloads.scripts import marked, of_program, output, read, step
from callgate_bench.workloads.services import wait
from callgate_bench.workloads.workload import Busy, Call, ScriptFailed, Workload

__all__ = ["enrich", "judgement", "monitoring"]

_METRICS = {
    "compute": {"cpu_usage": 72.5, "memory_usage": 60.9, "load_per_core": 3.1},
    "network": {"packet_loss": 2.6, "retransmits": 0.8},
}
_ALERTS = {"cpu_usage": 80.0, "memory_usage": 75.0, "load_per_core": 4.0, "packet_loss": 1.0, "retransmits": 2.0}
_CURRENT = {name: value for category in _METRICS.values() for name, value in category.items()}


@functools.cache
def _samples(name: str) -> list[float]:
    chance = random.Random(f"metric {name}")
    current = _CURRENT[name]
    return [round(current * chance.uniform(0.7, 1.15), 1) for _ in range(59)] + [current]


async def list_metrics(category: str) -> dict[str, Any]:
    """The metrics of a category.

    Gives {"metrics": [{"name": str, "unit": str}]}.

    Args:
        category: compute or network.
    """
    await wait(0.08, 0.08)
    return {"metrics": [{"name": name, "unit": "percent"} for name in _METRICS[category]]}


async def query_metric(name: str) -> dict[str, Any]:
    """The last hour of a metric.

    Gives {"name": str, "unit": str, "current": float, "samples": [float]}, oldest sample first.

    Args:
        name: as list_metrics names it.
    """
    await wait(0.15, 0.15)
    samples = _samples(name)
    return {"name": name, "unit": "percent", "current": samples[-1], "samples": samples}


async def check_threshold(metric_name: str, value: float) -> dict[str, Any]:
    """Hold a value against the alert threshold of a metric.

    Gives {"metric": str, "threshold": float, "exceeded": bool}.

    Args:
        metric_name: as list_metrics names it.
        value: in the metric's unit.
    """
    await wait(0.06, 0.06)
    return {"metric": metric_name, "threshold": _ALERTS[metric_name], "exceeded": value > _ALERTS[metric_name]}


_MONITORING = """
metrics = (await list_metrics(category="compute"))["metrics"]
metric = await query_metric(name=metrics[0]["name"])
check = await check_threshold(metric_name=metric["name"], value=metric["current"])
state = "ALERT" if check["exceeded"] else "OK"
f"answer: {metric['name']} is at {metric['current']} %: {state}"
"""


_NAMES = (
    "Nordlys Energi", "Vento Atlantico", "Windkraft Harz", "Aeolia Power", "Brisa Renovables", "Baltic Wind",
    "Zephyr Dynamics", "Kattegat Vind",
)  # fmt: skip
_COUNTRIES = ("Norway", "Portugal", "Germany", "Greece", "Spain", "Poland", "Ireland", "Denmark")
_IDS = tuple(f"c-{number}" for number in range(3101, 3101 + 7 * len(_NAMES), 7))
_OFTEN_BUSY = frozenset({_IDS[1], _IDS[4], _IDS[5]})
_failed_last: set[str] = set()


@functools.cache
def _company(company_id: str) -> dict[str, Any]:
    chance = random.Random(f"company {company_id}")
    position = _IDS.index(company_id)
    return {
        "company_id": company_id,
        "name": _NAMES[position],
        "country": _COUNTRIES[position],
        "founded": chance.randint(1979, 2019),
        "employees": chance.randint(40, 2_400),
        "revenue_million_euros": round(chance.uniform(4, 320), 1),
    }


async def search_companies(query: str, limit: int) -> dict[str, Any]:
    """Search companies by what they do.

    Gives {"hits": [{"company_id": str, "name": str}]}.

    Args:
        query: words.
        limit: the most hits.
    """
    await wait(0.2, 0.2, query)
    hits = [{"company_id": company, "name": name} for company, name in zip(_IDS, _NAMES, strict=True)]
    return {"hits": hits[:limit]}


async def enrich_company(company_id: str) -> dict[str, Any]:
    """What is known of a company.

    Gives {"company_id": str, "name": str, "country": str, "founded": int, "employees": int,
    "revenue_million_euros": float}. The service is busy at times, and the call fails; the same call may then do
    well.

    Args:
        company_id: as search_companies gives it.
    """
    await wait(0.08, 0.24, company_id)
    if company_id in _OFTEN_BUSY and company_id not in _failed_last:
        _failed_last.add(company_id)
        raise Busy("503 the enrichment service is busy; call again")
    _failed_last.discard(company_id)
    return _company(company_id)


async def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """A market brief over companies.

    Gives {"headline": str, "employees": int, "median_founded": int, "countries": int}.

    Args:
        records: whole, as enrich_company gives them.
    """
    await wait(0.3, 0.3)
    employees = sum(record["employees"] for record in records)
    largest = max(records, key=lambda record: int(record["revenue_million_euros"] * 10))
    return {
        "headline": f"{len(records)} companies with {employees} employees, led by {largest['name']}",
        "employees": employees,
        "median_founded": sorted(record["founded"] for record in records)[len(records) // 2],
        "countries": len({record["country"] for record in records}),
    }


_ENRICH = """
import asyncio

async def enriched(company_id):
    record, failures = None, 0
    while record is None and failures < 3:
        try:
            record = await enrich_company(company_id=company_id)
        except Exception:
            failures += 1
    return record

hits = (await search_companies(query="wind energy", limit=8))["hits"]
records = await asyncio.gather(*(enriched(hit["company_id"]) for hit in hits))
summary = await summarise(records=records)
f"answer: {summary['headline']}"
"""


_TEXTS = {
    "dashboard": {
        "checkout": (
            "Checkout's own work takes 40 ms, as ever. Of the 6.2 s that a customer waits, nearly all goes by in calls "
            "to payments. Inventory and sessions answer as usual."
        ),
        "payments": (
            "Latency of payments looks normal for the requests that come through. But one in four fails since 14:05, "
            "with all attempts that follow."
        ),
        "ledger": (
            "Ledger is busy with sequential scans since 14:00. Its pool of connections is full. The network is fine."
        ),
    },
    "logs": {
        "checkout": "Many lines of the kind: gave up waiting after three attempts. Nothing else stands out.",
        "payments": (
            "Card networks: not a single refusal above the usual. Most of the failures end in: ledger did not book the "
            "entry within 5 s. A few old warnings on certificates, not related. The team of ledger writes that it "
            "rolled out several changes at noon and after."
        ),
        "ledger": "Statement cancelled after 5 s, over and over, always the look-up of entries by account.",
    },
    "changes": {
        "payments": "CHG-4809, Monday: a new translation of the receipt.",
        "ledger": (
            "CHG-4817, 12:10: wording of the monthly statement, not related to booking. CHG-4821, 13:58: dropped the "
            "index on entries by account, which was thought to be unused. CHG-4830, 16:00: a larger pool of "
            "connections, planned and not yet done."
        ),
    },
    "change": {
        "CHG-4809": "Texts only. No way back is needed. Ask Tomas Horvat.",
        "CHG-4817": "Texts only. No way back is needed. Ask Tomas Horvat.",
        "CHG-4821": "Way back: build the index again, about three minutes, without downtime. Ask Ines Duarte.",
        "CHG-4830": "Not begun. Ask Mikko Laine.",
    },
}
"""An incident, in engineers' words."""
_READ = (
    ("read_alert", "", r"Customers of (\w+) wait"),
    ("read_dashboard", "service", r"in calls to (\w+)"),
    ("read_dashboard", "service", r"Latency of (\w+) looks normal"),
    ("read_logs", "service", r"failures end in: (\w+) did not"),
    ("list_changes", "service", r"(CHG-\d+), 13:58"),
    ("read_change", "change", r"Ask ([\w ]+)\."),
)
"""What the scripted model calls, with what it found before, and what it finds in the text."""


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
    return {"text": _TEXTS["dashboard"].get(service, "All is normal.")}


async def read_logs(service: str) -> dict[str, Any]:
    """What the logs of a service say about failures, in an engineer's words.

    Gives {"text": str}.

    Args:
        service: checkout, payments, ledger, inventory or sessions.
    """
    await wait(0.15, 0.3, service)
    return {"text": _TEXTS["logs"].get(service, "Nothing since the start of the day.")}


async def list_changes(service: str) -> dict[str, Any]:
    """The latest changes of a service, in its team's words.

    Gives {"text": str}.

    Args:
        service: checkout, payments, ledger, inventory or sessions.
    """
    await wait(0.05, 0.1, service)
    return {"text": _TEXTS["changes"].get(service, "No change this week.")}


async def read_change(change: str) -> dict[str, Any]:
    """How a change can be taken back, and whom to ask.

    Gives {"text": str}.

    Args:
        change: its number, such as CHG-1234.
    """
    await wait(0.05, 0.05)
    return {"text": _TEXTS["change"][change]}


def _reading(written: Callable[[Call], Any], text_of: Callable[[Any], str]) -> Callable[[], Generator[Any, Any, str]]:
    """The script that writes each call in a form, and reads what came back as far as it must."""

    def script() -> Generator[Any, Any, str]:
        found = [""]
        for tool, argument, words in _READ:
            text = text_of((yield written(Call(tool, {argument: found[-1]} if argument else {}))))
            seen = re.search(words, text)
            if seen is None:
                raise ScriptFailed(f"it led nowhere: {text[:300]}")
            found.append(seen[1])
        return f"{found[-2]} of {found[-3]}; ask {found[-1]}"

    return script


def _plan(call: Call) -> dict[str, Any]:
    return {"steps": [{"id": "note", "tool": call.tool, "arguments": dict(call.arguments)}], "output_steps": ["note"]}


def _program(call: Call) -> str:
    arguments = ", ".join(f'{name}="{value}"' for name, value in call.arguments.items())
    return f"note = await {call.tool}({arguments})\nf\"note: {{note['text']}}\"\n"


@of_program(
    _MONITORING,
    tools=(list_metrics, query_metric, check_threshold),
    task="List the compute metrics, query the first one, and check its current value against its alert threshold. "
    "Answer with ALERT or OK, in this form: METRIC is at 0.0 %: OK",
    answer="cpu_usage is at 72.5 %: OK",
    steps=(
        step("list", "list_metrics", category="compute"),
        step("query", "query_metric", name="$ref:list.metrics[0].name"),
        step("check", "check_threshold", metric_name="$ref:query.name", value="$ref:query.current"),
    ),
    outputs=("query", "check"),
    said={"$expr": "f\"{query.name} is at {query.current} %: {'ALERT' if check.exceeded else 'OK'}\""},
)
def monitoring(query: Any, check: Any) -> str:
    """Monitoring chain.

    Three calls in a chain: each needs what the one before it gave, and none needs thought. The five metrics are made
    up. The tools take 60, 80 and 150 ms, simulated.
    """
    return f"{query['name']} is at {query['current']} %: {'ALERT' if check['exceeded'] else 'OK'}"


@of_program(
    _ENRICH,
    tools=(search_companies, enrich_company, summarise),
    task="Search for 8 companies in wind energy, enrich each of them, and have the records summarised. Enriching "
    "fails at times; then call it again, up to three times. Answer with the summary's headline, word for word.",
    answer="8 companies with 13806 employees, led by Kattegat Vind",
    steps=(
        step("search", "search_companies", query="wind energy", limit=8),
        step(
            "records",
            "enrich_company",
            for_each="$ref:search.hits",
            retry={"attempts": 3, "backoff_seconds": 0},
            company_id="$item.company_id",
        ),
        step("summary", "summarise", records="$ref:records"),
    ),
    outputs=("summary",),
    said="$ref:summary.headline",
    retries=frozenset({"enrich_company"}),
)
def enrich(summary: Any) -> str:
    """Search, enrich, summarise, with retries.

    Three stages; in the second, three of eight calls fail at first and have to be made again. With direct calls the
    records go through the model, which writes them out again for the third stage. The companies are made up. The search
    takes 200 ms, a record 80 to 240 ms (so does a failure), the summary 300 ms, simulated.
    """
    return f"{summary['headline']}"


judgement = Workload(
    name="judgement",
    title="Judgement between the steps",
    about=(
        "What to ask next is said in plain sentences, so the model has to come back after every call. Plans and "
        "programs save no turn here, and cost more tokens: direct calls should win. The incident is made up. The "
        "tools take 50 to 300 ms, simulated. The scripted model finds its way by a few words of each text; it "
        "stands for one that reads."
    ),
    task=(
        "There is an open alert. Find the change that caused it: begin with the alert, and go on to whatever the "
        "texts point to (logs where requests fail, dashboards where they are slow, changes where a rollout is to "
        "blame). Answer with that change, its service, and the full name of the person to ask, in this form: "
        "CHG-0000 of SERVICE; ask NAME"
    ),
    answer="CHG-4821 of ledger; ask Ines Duarte",
    tools=(read_alert, read_dashboard, read_logs, list_changes, read_change),
    calls=_reading(lambda call: [call], lambda texts: str(read(texts[0])["text"])),
    plans=_reading(_plan, lambda text: str(output(text, "note")["text"])),
    programs=_reading(_program, lambda text: marked(text, "note")),
)
