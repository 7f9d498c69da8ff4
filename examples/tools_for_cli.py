"""Tools for the command line: `callgate run --tools examples/tools_for_cli.py ...`.

Real data from the standard library alone: time zones, and the calendar.
"""

from __future__ import annotations

import calendar
import datetime
import zoneinfo

from callgate import ToolError, tool

NOTES: dict[str, str] = {}


@tool(read_only=True)
def utc_offset(zone: str, day: str) -> float:
    """Hours that a time zone is ahead of UTC at noon of a day.

    Args:
        zone: an IANA time zone, such as Europe/Oslo.
        day: an ISO date.
    """
    try:
        moment = datetime.datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=zoneinfo.ZoneInfo(zone))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise ToolError(f"no such zone or day: {error}") from None
    offset = moment.utcoffset()
    assert offset is not None
    return offset.total_seconds() / 3600


@tool(read_only=True)
def days_in_month(year: int, month: int) -> int:
    """How many days a month has.

    Args:
        year: the year.
        month: 1 to 12.
    """
    if not 1 <= month <= 12:
        raise ToolError(f"there is no month {month}")
    return calendar.monthrange(year, month)[1]


@tool(destructive=True, requires_approval=True)
def forget_notes(topic: str) -> int:
    """Delete the notes on a topic; returns how many there were.

    Args:
        topic: what they are about.
    """
    return 0 if NOTES.pop(topic, None) is None else 1


if __name__ == "__main__":
    print("These are tools for the command line: callgate tools --tools examples/tools_for_cli.py")
