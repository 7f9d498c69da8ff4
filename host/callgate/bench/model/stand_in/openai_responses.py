"""OpenAI's Responses API: `POST /v1/responses`. Whole answers only: `stream` is refused.

Answers are kept, as the service keeps them, so that a request may go on from `previous_response_id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import checks
from .checks import Refused, only, required
from .model import Answer, Call, Refusal, Said, Script, Turn
from .openai_tools import FUNCTION, bearer, choice_of, function_tools, refusal
from .usage import Count, by_characters, of_content, total, wire

BODY = (
    "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "previous_response_id", "store",
    "temperature", "top_p", "max_output_tokens", "max_tool_calls", "metadata", "include", "reasoning", "text",
    "truncation", "stream", "user", "service_tier", "prompt_cache_key", "prompt_cache_retention", "conversation",
    "prompt", "top_logprobs", "safety_identifier", "background",
)  # fmt: skip
TOOL = ("type", *FUNCTION, "allowed_callers", "defer_loading", "output_schema")
ITEMS = ("message", "function_call", "function_call_output")


class OpenAIResponses:
    """The endpoint.

    Args:
        script: the model.
        count: the tokens of a text.
    """

    path = "/v1/responses"

    def __init__(self, script: Script, *, count: Count = by_characters) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        """Every request that was answered."""
        self._kept: dict[str, list[dict[str, Any]]] = {}
        self._count = count
        self._calls = 0

    def reply(self, headers: Mapping[str, str], body: dict[str, Any]) -> dict[str, Any]:
        bearer(headers)
        only("body", body, BODY)
        required(body, "model", str)
        if body.get("stream"):
            raise Refused("stream: this stand-in does not stream")
        given = body.get("tools") or []
        for position, tool in enumerate(given):
            if tool.get("type") != "function":
                raise Refused(f"tools[{position}]: the stand-in knows no tool of type {tool.get('type')!r}")
            if "parameters" not in tool or "strict" not in tool:
                raise Refused(f"Missing required parameter: 'tools[{position}].parameters' or '.strict'.")
        tools, strict = function_tools(given, "tools[{}]", TOOL)
        choice = choice_of(body.get("tool_choice") or "auto", tools, nested=False)
        items = self._before(body.get("previous_response_id")) + _items(body.get("input", []))
        said = self.script.play(_turn(items, given, tools))
        parallel = body.get("parallel_tool_calls")
        checks.calls(said, tools, choice=choice, parallel=parallel is not False, strict=strict)
        self.requests.append(body)
        return self._response(body, items, said)

    def refusal(self, refused: Refused) -> dict[str, Any]:
        return refusal(refused)

    def _before(self, previous: str | None) -> list[dict[str, Any]]:
        if previous is None:
            return []
        if previous not in self._kept:
            raise Refused(f"Previous response with id {previous!r} not found.")
        return self._kept[previous]

    def _response(self, body: dict[str, Any], items: list[dict[str, Any]], said: list[Said]) -> dict[str, Any]:
        name = f"resp_{len(self.requests):024}"
        output = [self._item(each, f"{len(self.requests)}_{position}") for position, each in enumerate(said)]
        if body.get("store") is not False:
            self._kept[name] = items + output
        given = [body.get("instructions") or "", wire(body["tools"]) if body.get("tools") else ""]
        before = total([*given, *_texts(items)], self._count)
        after = total(_texts(output), self._count)
        return {
            "id": name,
            "object": "response",
            "created_at": 1_700_000_000 + len(self.requests),
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "metadata": {},
            "model": body["model"],
            "output": output,
            "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
            "previous_response_id": body.get("previous_response_id"),
            "temperature": 1.0,
            "top_p": 1.0,
            "tool_choice": body.get("tool_choice") or "auto",
            "tools": body.get("tools") or [],
            "usage": {
                "input_tokens": before,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": after,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": before + after,
            },
        }

    def _item(self, each: Said, name: str) -> dict[str, Any]:
        if not isinstance(each, Call):
            part: dict[str, Any] = {"type": "output_text", "text": each, "annotations": [], "logprobs": []}
            if isinstance(each, Refusal):
                part = {"type": "refusal", "refusal": each.text}
            return {
                "type": "message",
                "id": f"msg_{name}",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        self._calls += 1
        return {
            "type": "function_call",
            "id": f"fc_{name}",
            "call_id": f"call_{self._calls:024}",
            "name": each.name,
            "arguments": wire(dict(each.arguments)),
            "status": "completed",
        }


def _items(given: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    items = [{"type": "message", **each} for each in given]
    for each in items:
        if each["type"] not in ITEMS:
            raise Refused(f"the stand-in knows no item of type {each['type']!r}")
    return items


def _turn(items: list[dict[str, Any]], given: list[dict[str, Any]], tools: dict[str, dict[str, Any]]) -> Turn:
    """One turn of the model is what stands between two things that it was given."""
    made: dict[str, str] = {}
    got: dict[str, str] = {}
    latest: dict[str, str] = {}
    turns = 0
    speaking = False
    user = ""
    for each in items:
        by_model = each["type"] == "function_call" or each.get("role") == "assistant"
        if by_model and not speaking:
            turns += 1
            latest = {}
        speaking = by_model
        if each["type"] == "function_call":
            made[each["call_id"]] = latest[each["call_id"]] = each["name"]
        elif each["type"] == "function_call_output":
            if each.get("call_id") not in made:
                raise Refused(f"No tool call found for function call output with call_id {each.get('call_id')}.")
            got[each["call_id"]] = _text(each["output"])
        elif each.get("role") == "user":
            user = _text(each["content"])
    missing = [each for each in made if each not in got]
    if missing:
        raise Refused(f"No tool output found for function call {missing[0]}.")
    answers = tuple(Answer(name, got[each]) for each, name in latest.items())
    descriptions = {tool["name"]: tool.get("description") or "" for tool in given}
    return Turn(turns, user, tools, descriptions, answers)


def _texts(items: list[dict[str, Any]]) -> Iterator[str]:
    """What is counted of what was given and said."""
    for item in items:
        if item["type"] == "function_call":
            yield from (item["name"], item["arguments"])
        elif item["type"] == "function_call_output":
            yield from of_content(item["output"])
        else:
            yield from of_content(item["content"])


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
