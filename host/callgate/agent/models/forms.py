"""Ways to ask for JSON of a schema, and fields of a request that an endpoint may refuse. Knows no provider's form.

Models that reason take no `temperature`, gateways know no `stream_options`, servers know no `response_format`. No list
of which endpoint takes what would stay true. So the endpoint is asked; where its error names a field, or refuses a way
to ask for JSON, the request is sent again without that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

__all__ = ["ANSWER", "Form", "is_closed", "named_in", "with_schema"]

Form = Literal["", "json_schema", "json_object", "tool", "words"]
"""Not asked for; by the provider's structured output; by its JSON mode and in words; with a tool that has to be called
and whose arguments are the answer; in words alone."""
ANSWER = "answer"
"""Name of the schema, and of the tool whose arguments are the answer."""
_READ = 10_000
"""Characters of an error that are read."""
_OF_THE_VALUE = ("_max_value", "_min_value", "invalid_value", "invalid_type")
"""Ends of codes that say that the endpoint knows the field, and that the value is the caller's mistake."""


def is_closed(schema: Any, depth: int = 50) -> bool:
    """Whether every object in the schema names all of its fields, requires them, and has no others. Only for such
    schemas do OpenAI and Anthropic hold the model to every word; an open object would be answered with an empty one."""
    if depth == 0:
        return False
    if isinstance(schema, list):
        return all(is_closed(each, depth - 1) for each in schema)
    if not isinstance(schema, Mapping):
        return True
    fields = schema.get("properties", {})
    is_object = schema.get("type") == "object" or "properties" in schema
    if is_object and (schema.get("additionalProperties") is not False or set(fields) - set(schema.get("required", ()))):
        return False
    others = [value for name, value in schema.items() if name not in ("properties", "enum", "const", "default")]
    return all(is_closed(each, depth - 1) for each in (*fields.values(), *others))


def with_schema(system: str, schema: Mapping[str, Any]) -> str:
    """The system text, with words that ask for JSON of the schema."""
    words = (
        "Answer with one JSON value and nothing else: no words before or after it, no code fence. It has to fit this "
        f"JSON Schema:\n{json.dumps(schema, ensure_ascii=False)}"
    )
    return f"{system}\n\n{words}" if system else words


def named_in(error: Any, fields: Iterable[str]) -> str:
    """The first of these fields that an error names as refused; empty where it names none of them.

    Another error that contains the name of a field costs one request in vain, and nothing else.

    Args:
        error: the body of the HTTP response, as JSON. Its `param` counts where it has one, as at OpenAI; else its
            words and its places (``loc``), as at Anthropic, Mistral, LiteLLM, vLLM.
        fields: of the request.
    """
    within = error.get("error", error) if isinstance(error, Mapping) else error
    if isinstance(within, Mapping):
        if str(within.get("code")).endswith(_OF_THE_VALUE):
            return ""
        if isinstance(param := within.get("param"), str) and param:
            return next((field for field in fields if param == field or param.endswith(f".{field}")), "")
    words = (within if isinstance(within, str) else json.dumps(within, ensure_ascii=False, default=str))[:_READ]
    return next((field for field in fields if re.search(rf"(?<!\w){field}(?!\w)", words)), "")
