"""A server's schemas that cannot be used are replaced by open ones, and the warning says why."""

from __future__ import annotations

from typing import Any

import pytest

from callgate.mcp.client.imports import usable_input, usable_output

TWICE = {n: {"oneOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(20)}
BRANCHES = {"$defs": {**{str(n): level for n, level in TWICE.items()}, "20": {"type": "integer"}}}
ENDLESS = {"$defs": {"0": {"anyOf": [{"$ref": "#/$defs/0"}, {"$ref": "#/$defs/0"}]}}}


@pytest.mark.parametrize(
    ("definitions", "why"),
    [(BRANCHES, "branches too often: to check one value, more than 100000 keywords"),
     (ENDLESS, "refers to itself without going into the value")],
)  # fmt: skip
def test_one_that_would_take_for_ever(definitions: dict[str, Any], why: str) -> None:
    schema = definitions | {"properties": {"v": {"$ref": "#/$defs/0"}}}
    warnings: list[str] = []
    assert usable_input("t", schema, warnings.append).validate("t", {"v": "x"}) == {"v": "x"}
    contract, _ = usable_output("t", schema, warnings.append)
    assert contract.encode("t", {"v": "x"}) == '{"v":"x"}'
    assert warnings[0].startswith(f"the tool 't': the input schema {why}")
    assert warnings[0].endswith("; only the names and types of its parameters are used")
    assert warnings[1].startswith(f"the tool 't': the output schema {why}")
    assert warnings[1].endswith("; results are not checked")
