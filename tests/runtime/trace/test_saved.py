"""Saved results: what `to_dict` wrote is read back with the same page, and anything else is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate.errors import ConfigurationError
from callgate.runtime.trace.page import run_page
from callgate.runtime.trace.saved import result_from
from runtime.timelines import CHAIN
from runtime.trace.runs import program


@pytest.mark.parametrize("result", [program(), CHAIN], ids=["program", "plan"])
def test_the_page_of_a_saved_result_is_that_of_the_result(result: Any) -> None:
    assert run_page(result_from(json.loads(json.dumps(result.to_dict())))) == run_page(result)


@pytest.mark.parametrize(
    "given", [{}, {"steps": 5, "ok": "?"}, {"ok": True, "value": 1, "calls": [7]}, {"ok": [], "value": 1, "calls": []}]
)
def test_what_is_no_saved_result_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="this is not a saved result"):
        result_from(given)
