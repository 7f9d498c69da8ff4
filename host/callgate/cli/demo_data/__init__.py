"""The demo's tools: countries and cities of the European Union, answered from a SQLite database in memory.

The data are real: see `README.md` in this folder for their source and licence.
"""

from __future__ import annotations

import csv
import sqlite3
from dataclasses import dataclass
from importlib import resources

from callgate import Tool, ToolError, tool

__all__ = ["City", "Country", "ask_for_text", "tools"]


@dataclass(frozen=True)
class Country:
    """A country, as GeoNames knows it."""

    code: str
    name: str
    capital: str
    area_km2: int
    population: int
    neighbours: str


@dataclass(frozen=True)
class City:
    """A populated place, as GeoNames knows it."""

    name: str
    population: int
    latitude: float
    longitude: float
    timezone: str


def ask_for_text(name: str) -> str:
    """The text of a file in this folder."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def tools() -> list[Tool]:
    """The demo's three tools, on a database of their own."""
    database = _database()

    @tool(read_only=True)
    async def list_countries() -> list[str]:
        """Two-letter codes of the countries of the European Union."""
        return [row["code"] for row in database.execute("SELECT code FROM countries ORDER BY code")]

    @tool(read_only=True)
    async def get_country(code: str) -> Country:
        """Name, capital, area and population of a country.

        Args:
            code: its two-letter code.
        """
        row = database.execute("SELECT * FROM countries WHERE code = ?", (code,)).fetchone()
        if row is None:
            raise ToolError(f"there is no country {code!r} in the European Union")
        return Country(*row)

    @tool(read_only=True)
    async def get_cities(country: str, limit: int = 20) -> list[City]:
        """The largest cities of a country, largest first.

        Args:
            country: its two-letter code.
            limit: how many, at most 20.
        """
        columns = "name, population, latitude, longitude, timezone"
        query = f"SELECT {columns} FROM cities WHERE country = ? ORDER BY population DESC, name LIMIT ?"
        return [City(*row) for row in database.execute(query, (country, min(limit, 20)))]

    return [list_countries, get_country, get_cities]


def _database() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    database.execute("CREATE TABLE countries (code, name, capital, area_km2 INTEGER, population INTEGER, neighbours)")
    database.execute("CREATE TABLE cities (country, name, population INTEGER, latitude REAL, longitude REAL, timezone)")
    for table in ("countries", "cities"):
        header, *rows = csv.reader(ask_for_text(f"{table}.csv").splitlines())
        database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(header))})", rows)
    return database
