"""JSON of a schema as a model's reply: the ways to ask for it. Knows no provider's form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

__all__ = ["ANSWER", "Form", "is_closed", "told"]

Form = Literal["", "json_schema", "json_object", "tool", "words"]
"""Not asked for; by the provider's structured output; by its JSON mode and in words; with a tool that has to be called
and whose arguments are the answer; in words alone."""
ANSWER = "answer"
"""Name of the schema, and of the tool whose arguments are the answer."""
_DEPTH = 50


def is_closed(schema: Any, depth: int = _DEPTH) -> bool:
    """Whether every object in the schema names all of its fields, requires them, and has no others. Only for such
    schemas do OpenAI and Anthropic hold the model to every word; an open object would be answered with an empty one."""
    if depth == 0:
        return False
    if isinstance(schema, list):
        return all(is_closed(each, depth - 1) for each in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        fields = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or not isinstance(fields, Mapping):
            return False
        if set(fields) - set(schema.get("required", ())):
            return False
        if not all(is_closed(each, depth - 1) for each in fields.values()):
            return False
    others = (value for name, value in schema.items() if name not in ("properties", "enum", "const", "default"))
    return all(is_closed(each, depth - 1) for each in others if isinstance(each, Mapping | list))


def told(system: str, schema: Mapping[str, Any]) -> str:
    """The system text, with the words that ask for JSON of the schema."""
    words = (
        "Answer with one JSON value and nothing else: no words before or after it, no code fence. It has to fit this "
        f"JSON Schema:\n{json.dumps(schema, ensure_ascii=False)}"
    )
    return f"{system}\n\n{words}" if system else words
