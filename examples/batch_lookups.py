"""Batch lookups: every time zone of Europe, one call each, from a plan of five steps.

`for_each` makes a call of every item, some at a time; `when` runs a step only if a result says so; `${...}` puts
results into text. The data are real: the time zones of the standard library.
"""

from __future__ import annotations

import asyncio
import datetime
import zoneinfo
from typing import Any

from callgate import Limits, Runtime, tool

DAY = "2026-07-01"
SENT: list[str] = []


def offset_of(zone: str, day: str) -> float:
    moment = datetime.datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=zoneinfo.ZoneInfo(zone))
    return (moment.utcoffset() or datetime.timedelta()).total_seconds() / 3600


@tool(read_only=True)
async def list_zones(area: str) -> dict[str, Any]:
    """The time zones of an area.

    Args:
        area: Europe, Asia, Africa, ...
    """
    zones = sorted(zone for zone in zoneinfo.available_timezones() if zone.startswith(f"{area}/"))
    return {"zones": zones, "count": len(zones)}


@tool(read_only=True)
async def utc_offset(zone: str, day: str) -> dict[str, Any]:
    """Hours that a time zone is ahead of UTC at noon of a day.

    Args:
        zone: an IANA time zone.
        day: an ISO date.
    """
    await asyncio.sleep(0.01)  # a service far away
    return {"zone": zone, "hours": offset_of(zone, day)}


@tool(read_only=True)
async def find_extremes(offsets: list[dict[str, Any]]) -> dict[str, Any]:
    """The zones that are furthest apart, and whether that is more than an hour.

    Args:
        offsets: as `utc_offset` gives them.
    """
    west, *_, east = sorted(offsets, key=lambda offset: (offset["hours"], offset["zone"]))
    apart = east["hours"] - west["hours"]
    return {"west": west, "east": east, "hours_apart": apart, "far": apart > 1, "near": apart <= 1}


@tool
async def send_note(text: str) -> int:
    """Send a note to the team; returns how many were sent.

    Args:
        text: one line.
    """
    SENT.append(text)
    return len(SENT)


PLAN = {
    "goal": "Can one meeting suit all of Europe?",
    "steps": [
        {"id": "all", "tool": "list_zones", "arguments": {"area": "Europe"}},
        {
            "id": "offsets",
            "tool": "utc_offset",
            "for_each": "$ref:all.zones",
            "arguments": {"zone": "$item", "day": DAY},
        },
        {"id": "extremes", "tool": "find_extremes", "arguments": {"offsets": "$ref:offsets"}},
        {
            "id": "warning",
            "tool": "send_note",
            "when": "$ref:extremes.far",
            "arguments": {
                "text": "${extremes.west.zone} and ${extremes.east.zone} are ${extremes.hours_apart} hours apart"
            },
        },
        {
            "id": "good_news",
            "tool": "send_note",
            "when": "$ref:extremes.near",
            "arguments": {"text": "${all.count} zones, within an hour of each other"},
        },
    ],
    "output_steps": ["extremes"],
}


async def main() -> None:
    tools = [list_zones, utc_offset, find_extremes, send_note]
    async with Runtime(tools, sandbox=None, limits=Limits(max_concurrent_calls=16)) as runtime:
        run = await runtime.execute_tool_plan(PLAN)
    assert run.ok, run.for_model()

    # the same, asked of the standard library directly
    truth = {zone: offset_of(zone, DAY) for zone in zoneinfo.available_timezones() if zone.startswith("Europe/")}
    offsets = run.step("offsets")
    assert offsets.items == len(truth) >= 50
    assert [(each["zone"], each["hours"]) for each in offsets.result] == sorted(truth.items())
    apart = max(truth.values()) - min(truth.values())
    assert run.outputs["extremes"]["hours_apart"] == apart > 1

    # the condition of one note is true, that of the other is not
    assert run.step("warning").status == "succeeded"
    assert run.step("good_news").status == "skipped"
    assert len(SENT) == 1
    assert f"are {apart} hours apart" in SENT[0]

    print(f"{len(run.calls)} calls in {run.usage.wall_seconds * 1000:.0f} ms; sent: {SENT[0]}")
    print("--- the model reads")
    print(run.for_model())


if __name__ == "__main__":
    asyncio.run(main())
