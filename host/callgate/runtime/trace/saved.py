"""Reads results back from the JSON of `to_dict`, for their pages. A field of another form is refused."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from callgate.artifacts import Artifact
from callgate.errors import ConfigurationError
from callgate.runtime.plans.result import PlanResult
from callgate.runtime.result import CodeResult

__all__ = ["result_from"]

_MOST_ARTIFACTS = 1000


def result_from(given: Mapping[str, Any]) -> CodeResult | PlanResult:
    """The result that `to_dict` wrote. The bytes of its artifacts are not in it.

    Args:
        given: JSON values; fields that are not known are ignored, and missing ones have their defaults.

    Raises:
        ConfigurationError: this is not a saved result.
    """
    is_plan = "steps" in given
    if not is_plan and not {"ok", "value", "calls"} <= given.keys():
        raise ConfigurationError("this is not a saved result: it has no steps, and no value with calls")
    fields = {name: _whole(value) for name, value in given.items() if name not in ("redactor", "for_repair")}
    artifacts = [_artifact(each) for each in _list(fields.pop("artifacts", []))[:_MOST_ARTIFACTS]]
    if is_plan:
        steps = [each if isinstance(each, dict) else {} for each in _list(fields["steps"])]
        fields["steps"] = [{**each, "result_json": _text(each.get("result"))} for each in steps]
    else:
        plan = fields.pop("plan", None)
        fields["plan_of_calls"] = None if not isinstance(plan, dict) else lambda: plan
    try:
        result: CodeResult | PlanResult = _adapters()[is_plan].validate_python(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:100]
        raise ConfigurationError(f"this is not a saved result: {where}: {first['msg'][:200]}") from None
    result.artifacts.extend(artifacts)
    return result


@functools.cache
def _adapters() -> dict[bool, TypeAdapter[Any]]:
    return {True: TypeAdapter(PlanResult), False: TypeAdapter(CodeResult)}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(value: Any) -> Any:
    """A JSON value without halves of surrogate pairs, which no text for pydantic may have."""
    try:
        return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (RecursionError, ValueError, TypeError):
        return None


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _artifact(given: Any) -> Artifact:
    known = given if isinstance(given, dict) else {}
    name, kind, handle = (str(known.get(key, ""))[:1000] for key in ("name", "media_type", "artifact"))
    size = known.get("bytes")
    about = f" ({kind}, {size:,} bytes)" if isinstance(size, int) else ""
    return Artifact(name=f"{name}{about}: not in the saved result", media_type=kind, data=b"", handle=handle)
