"""Search, enrich, summarise: three stages, and the second one's service is busy at times.

For some companies every other attempt fails, beginning with the first. So each round that tries again until it works
meets the same failures as the one before it, in the same process, and nothing has to be set back in between.
"""

from __future__ import annotations

import functools
import random
from typing import Any

from callgate_bench.workloads.pacing import wait
from callgate_bench.workloads.scripts import by_hand, one_plan, one_program, step
from callgate_bench.workloads.workload import Busy, Workload

__all__ = ["WORKLOAD"]

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


_PROGRAM = """
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

_TOOLS = (search_companies, enrich_company, summarise)
WORKLOAD = Workload(
    name="enrich",
    title="Search, enrich, summarise, with retries",
    about=(
        "Three stages; in the second, three of eight calls fail at first and have to be made again. With direct calls "
        "the records go through the model, which writes them out again for the third stage."
    ),
    data=(
        "Made up: eight companies. The search takes 200 ms, a record 80 to 240 ms (so does a failure), the summary "
        "300 ms, simulated."
    ),
    task=(
        "Search for 8 companies in wind energy, enrich each of them, have the records summarised, and answer with the "
        "summary's headline, word for word. Enriching fails at times; then call it again, up to three times."
    ),
    tools=_TOOLS,
    calls=by_hand(_PROGRAM, _TOOLS),
    plans=one_plan(
        step("search", "search_companies", query="wind energy", limit=8),
        step(
            "records", "enrich_company", for_each="$ref:search.hits", retry={"attempts": 3, "backoff_seconds": 0},
            company_id="$item.company_id",
        ),
        step("summary", "summarise", records="$ref:records"),
        outputs=("summary",),
        answer=lambda summary: str(summary["headline"]),
    ),
    programs=one_program(_PROGRAM),
    facts=("8 companies with 13806 employees, led by Kattegat Vind",),
    retries=frozenset({"enrich_company"}),
)  # fmt: skip
