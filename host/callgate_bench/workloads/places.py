"""Cities and countries of the European Union as GeoNames knows them (https://www.geonames.org, CC BY 4.0), and weather.

The files are those of `callgate demo`. Read once, when first asked for. The weather is made up.
"""

from __future__ import annotations

import csv
import functools
import random
from pathlib import Path
from typing import Any

__all__ = ["SOURCE", "cities", "countries", "weather_in"]

SOURCE = "GeoNames (CC BY 4.0)"
_FOLDER = Path(__file__).resolve().parents[2] / "callgate" / "cli" / "demo_data"
_SKIES = ("clear", "few clouds", "cloudy", "rain")


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
