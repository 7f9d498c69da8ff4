"""The services behind the workloads' tools: simulated waits with a common factor, real places, made-up weather.

Cities and countries of the European Union are those of GeoNames (https://www.geonames.org, CC BY 4.0); the files are
those of `callgate demo`, read when first asked for.
"""

from __future__ import annotations

import asyncio
import csv
import functools
import random
import time
import zlib
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

__all__ = ["at_once", "cities", "countries", "pace", "seconds_for", "wait", "weather_in"]

_FOLDER = Path(__file__).resolve().parents[2] / "callgate" / "cli" / "demo_data"
_SKIES = ("clear", "few clouds", "cloudy", "rain")


class _Pace:
    factor = 1.0


def pace(factor: float) -> None:
    """Make every simulated wait of this process `factor` times as long; 0 for none at all.

    Raises:
        ValueError: it is less than 0, or no number.
    """
    if not factor >= 0:
        raise ValueError(f"the factor of the waits must be at least 0, not {factor!r}")
    _Pace.factor = factor


async def wait(least: float, most: float, *arguments: object) -> None:
    """Wait as a service does: between `least` and `most` seconds, see `seconds_for`, times the factor.

    In a thread without an event loop it blocks, as a synchronous tool does, so that peers whose tools are such need no
    loop: see `at_once`.
    """
    if not _Pace.factor:
        return
    seconds = seconds_for(least, most, *arguments) * _Pace.factor
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        time.sleep(seconds)  # noqa: ASYNC251 (it is said to)
    else:
        await asyncio.sleep(seconds)


def at_once(called: Awaitable[Any]) -> Any:
    """What a workload's tool gives, in this thread, which has no event loop.

    Args:
        called: a call of the tool.

    Raises:
        RuntimeError: it waits for something else than its pace.
    """
    steps = called.__await__()
    try:
        next(steps)
    except StopIteration as ended:
        return ended.value
    raise RuntimeError("the tool waits for an event loop, and there is none in this thread")


def seconds_for(least: float, most: float, *arguments: object) -> float:
    """How long a service takes: between `least` and `most` seconds, the same for the same `arguments` each time."""
    share = zlib.crc32(repr(arguments).encode()) / 0xFFFFFFFF
    return least + (most - least) * share


@functools.cache
def countries() -> dict[str, dict[str, Any]]:
    """Code, name and capital of each country, by code."""
    return {row["code"]: {key: row[key] for key in ("code", "name", "capital")} for row in _rows("countries.csv")}


@functools.cache
def cities() -> tuple[dict[str, Any], ...]:
    """Name, country, population, latitude and longitude of the largest cities of each country."""
    numbers = {"population": int, "latitude": float, "longitude": float}
    return tuple(
        {"name": row["name"], "country": row["country"], **{name: kind(row[name]) for name, kind in numbers.items()}}
        for row in _rows("cities.csv")
    )


def weather_in(city: str) -> dict[str, Any]:
    """A day in June in a city: warmer towards the south, the rest by chance, and always the same.

    Raises:
        ValueError: there is no such city.
    """
    place = next((each for each in cities() if each["name"] == city), None)
    if place is None:
        raise ValueError(f"there is no city {city!r}")
    chance = random.Random(f"weather {city}")
    sky = chance.choice(_SKIES)
    return {
        "city": city,
        "latitude": place["latitude"],
        "longitude": place["longitude"],
        "temperature_c": round(46.0 - 0.47 * place["latitude"] + chance.uniform(-3, 3), 1),
        "humidity_percent": chance.randint(35, 90),
        "wind_kmh": chance.randint(3, 35),
        "rain_mm": round(chance.uniform(6, 18), 1) if sky == "rain" else 0.0,
        "sky": sky,
    }


def _rows(name: str) -> list[dict[str, str]]:
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
