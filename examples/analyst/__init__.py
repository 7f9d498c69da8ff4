"""The tools of the data analyst: a real database, SQLite in memory, with full-text search.

`users.sql` is its content, `agent.yaml` the planner's configuration, `recording.jsonl` what the played model said.
"""

from __future__ import annotations

import atexit
import sqlite3
import statistics
import threading
from pathlib import Path
from typing import Any, Literal

from callgate import ToolError, tool

__all__ = ["FOLDER", "TOOLS", "rows"]

FOLDER = Path(__file__).parent

_database = sqlite3.connect(":memory:", check_same_thread=False)
_database.row_factory = sqlite3.Row
_database.executescript((FOLDER / "users.sql").read_text(encoding="utf-8"))
_database.executescript(
    "CREATE VIRTUAL TABLE words USING fts5 (id UNINDEXED, text, tokenize = 'porter');"
    "INSERT INTO words SELECT id, 'user ' || name || ' ' || city || ' ' || plan || ' ' || status FROM users;"
    "PRAGMA query_only = true;"
)
atexit.register(_database.close)
_lock = threading.Lock()  # tools run in threads, and the connection is one


def rows(query: str, *values: Any) -> list[dict[str, Any]]:
    """What a query gives."""
    with _lock:
        return [dict(row) for row in _database.execute(query, values)]


@tool(read_only=True)
def search_database(query: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Searches users by words: of their name, city, plan, and whether they are active.

    Args:
        query: words that all have to be there.
        limit: most records to return.
    """
    words = " ".join(f'"{word.replace(chr(34), "")}"' for word in query.split())
    if not words:
        raise ToolError("the query is empty: give words to search for")
    found = "SELECT users.id, name FROM words JOIN users USING (id) WHERE text MATCH ? ORDER BY users.rowid LIMIT ?"
    return rows(found, words, 20 if limit is None else max(limit, 0))


@tool(read_only=True)
def get_record_details(record_id: str) -> dict[str, Any]:
    """A user with all that is known: city, plan, status, days and minutes."""
    found = rows("SELECT * FROM users WHERE id = ?", record_id)
    if not found:
        raise ToolError(f"there is no record {record_id[:40]!r}; search_database finds the ids that there are")
    spent = rows("SELECT day, minutes FROM sessions WHERE user_id = ? ORDER BY day", record_id)
    return {**found[0], "days": len(spent), "minutes": sum(each["minutes"] for each in spent)}


@tool(read_only=True)
def analyze_data(data: list[float], analysis_type: Literal["summary", "spread"]) -> dict[str, float]:
    """Statistics of numbers.

    Args:
        data: the numbers, at least two.
        analysis_type: ``summary`` for count, mean, median, least and most; ``spread`` for deviation and quartiles.
    """
    if len(data) < 2:
        raise ToolError("statistics need two numbers at least")
    if analysis_type == "summary":
        middle = {"mean": statistics.fmean(data), "median": statistics.median(data)}
        return {"count": len(data), **middle, "least": min(data), "most": max(data)}
    first, _, third = statistics.quantiles(data)
    return {"deviation": statistics.stdev(data), "first_quartile": first, "third_quartile": third}


@tool(read_only=True)
def list_tables() -> list[str]:
    """Names of the tables."""
    return ["users", "sessions"]


@tool(read_only=True)
def get_schema(table: Literal["users", "sessions"]) -> dict[str, str]:
    """Columns of a table and their types."""
    return {each["name"]: each["type"] for each in rows("SELECT name, type FROM pragma_table_info(?)", table)}


TOOLS = [search_database, get_record_details, analyze_data, list_tables, get_schema]
