"""Fields of a request that an endpoint may refuse, and that the request can do without. Knows no provider's form.

Models that reason take no `temperature`, gateways know no `stream_options`. Which endpoint takes what is in no list
that would stay true, so it is asked, and where its error names such a field the request is sent again without it.
Another error that has the name of one in it costs a request in vain, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["named_in"]

_READ = 10_000
"""Characters of an error."""
_OF_THE_VALUE = ("_max_value", "_min_value", "invalid_value", "invalid_type")
"""Ends of codes that say that the endpoint knows the field, and that the value is the caller's mistake."""


def named_in(error: Any, fields: Iterable[str]) -> str:
    """The first of these fields that an error says is refused; empty where it names none of them.

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
    try:
        words = (within if isinstance(within, str) else json.dumps(within, ensure_ascii=False))[:_READ]
    except (TypeError, ValueError, RecursionError):
        return ""
    return next((field for field in fields if re.search(rf"(?<!\w){field}(?!\w)", words)), "")
