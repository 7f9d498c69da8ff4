"""Tools that the tests of tool search look for, and what they ask of a result."""

from __future__ import annotations

from typing import Any

import pytest

from callgate.errors import InvalidArguments
from callgate.runtime.discovery.found import SearchResult
from callgate.runtime.discovery.search import ToolSearch
from callgate.tools import Tool, tool


@tool(read_only=True, category="travel", capabilities=["forecast", "Weather"])
async def get_weather(city: str, unit: str = "C") -> dict[str, Any]:
    """Current weather in a city.

    Args:
        city: its name, in English.
        unit: C or F.
    """
    return {}


@tool(capabilities=["sales"])
async def query_sales(region: str) -> list[float]:
    """Revenue of a region, by month."""
    return []


@tool(allowed_callers=["plan"])
async def send_invoice(customer: str, amount: float) -> str:
    """Send an invoice by e-mail."""
    return ""


def of_server(server: str, name: str, description: str, **options: Any) -> Tool:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    return Tool.from_schema(f"{server}_{name}", description, schema, print, server=server, server_tool=name, **options)


GITHUB = [
    of_server("github", "createIssue", "Opens an issue in a repository."),
    of_server("github", "list-pull-requests", "All pull requests."),
    of_server("jira", "createIssue", "Opens a ticket."),
]


def names(result: SearchResult) -> list[str]:
    return [each.tool.name for each in result.found]


def refusal(search: ToolSearch, query: Any, **options: Any) -> str:
    with pytest.raises(InvalidArguments) as error:
        search.find(query, **options)
    return error.value.message
