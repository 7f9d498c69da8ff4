"""Facts for the examples, as files, so that they need no package: cities of the world, and public holidays of 2026.

`README.md` in this folder names the sources and their licences.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CITIES", "HOLIDAYS_2026", "City"]

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class City:
    """A city of at least 500,000 people, as GeoNames knows it."""

    name: str
    country: str
    """Its two-letter code."""
    population: int
    latitude: float
    longitude: float
    timezone: str


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


CITIES = [
    City(
        name=row["name"],
        country=row["country"],
        population=int(row["population"]),
        latitude=float(row["latitude"]),
        longitude=float(row["longitude"]),
        timezone=row["timezone"],
    )
    for row in _rows("cities.csv")
]

HOLIDAYS_2026 = {row["country"]: row["days"].split() for row in _rows("holidays_2026.csv")}
"""ISO dates of the public holidays of forty countries, by the country's two-letter code."""
