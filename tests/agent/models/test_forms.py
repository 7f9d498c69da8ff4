"""Which schemas leave nothing open, so that a provider can hold a model to every word of them."""

from __future__ import annotations

from typing import Any

import pytest

from callgate.agent.models.forms import is_closed


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        ({"type": "string"}, True),
        ({"type": "object"}, False),
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, False),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}, True),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "array", "items": {"type": "object"}}},
                "required": ["a"],
                "additionalProperties": False,
            },
            False,
        ),
        ({"anyOf": [{"type": "null"}, {"type": "object"}]}, False),
        ({"$defs": {"a": {"type": "object"}}}, False),
        ({"enum": [{"type": "object"}]}, True),
    ],
)
def test_a_schema_is_closed_where_every_object_is(schema: dict[str, Any], closed: bool) -> None:
    assert is_closed(schema) is closed
