"""OpenAI's Chat Completions API: `POST /v1/chat/completions`, whole and streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import checks
from .checks import Refused, only, required
from .model import Answer, Call, Refusal, Said, Script, Turn
from .openai_tools import bearer, choice_of, function_tools, refusal
from .server import Answered, Event
from .usage import Count, by_characters, of_content, total, wire

BODY = (
    "model", "messages", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "n", "stop", "stream",
    "max_completion_tokens", "max_tokens", "metadata", "store", "seed", "user", "response_format", "reasoning_effort",
    "service_tier", "prompt_cache_key", "verbosity", "stream_options",
)  # fmt: skip
PIECE = 24
"""Characters of a piece of a stream."""


class OpenAIChat:
    """The endpoint.

    Args:
        script: the model.
        count: the tokens of a text.
        context_tokens: input beyond this is refused; 0 for no limit.
    """

    path = "/v1/chat/completions"

    def __init__(self, script: Script, *, count: Count = by_characters, context_tokens: int = 0) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        """Every request that was answered."""
        self._count = count
        self._context_tokens = context_tokens
        self._calls = 0

    def reply(self, headers: Mapping[str, str], body: dict[str, Any]) -> Answered:
        bearer(headers)
        only("body", body, BODY)
        required(body, "model", str)
        if "stream_options" in body and not body.get("stream"):
            raise Refused("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
        given = body.get("tools", [])
        for position, tool in enumerate(given):
            only(f"tools[{position}]", tool, ("type", "function"))
        tools, strict = function_tools([tool.get("function", {}) for tool in given], "tools[{}].function")
        choice = choice_of(body.get("tool_choice", "auto"), tools, nested=True)
        if "parallel_tool_calls" in body and not given:
            raise Refused("parallel_tool_calls is only allowed when 'tools' are specified.")
        schema = _schema(body.get("response_format"))
        messages = required(body, "messages", list)
        turn = _turn(messages, given, tools)
        before = total(_texts(messages, given), self._count)
        self._within_context(before)
        said = self.script.play(turn)
        checks.calls(said, tools, choice=choice, parallel=body.get("parallel_tool_calls", True), strict=strict)
        checks.output(said, schema)
        self.requests.append(body)
        completion = self._completion(body, said, before)
        with_usage = (body.get("stream_options") or {}).get("include_usage", False)
        return _stream(completion, with_usage=with_usage) if body.get("stream") else completion

    def refusal(self, refused: Refused) -> dict[str, Any]:
        return refusal(refused)

    def _within_context(self, tokens: int) -> None:
        if 0 < self._context_tokens < tokens:
            raise Refused(
                f"Input tokens exceed the configured limit of {self._context_tokens} tokens. Your messages resulted in "
                f"{tokens} tokens. Please reduce the length of the messages.",
                code="context_length_exceeded",
                param="messages",
            )

    def _completion(self, body: dict[str, Any], said: list[Said], before: int) -> dict[str, Any]:
        text = "\n".join(each for each in said if isinstance(each, str))
        refused = "\n".join(each.text for each in said if isinstance(each, Refusal))
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text or None,
            "refusal": refused or None,
            "annotations": [],
        }
        calls = []
        for each in said:
            if isinstance(each, Call):
                self._calls += 1
                function = {"name": each.name, "arguments": wire(dict(each.arguments))}
                calls.append({"id": f"call_{self._calls:024}", "type": "function", "function": function})
        if calls:
            message["tool_calls"] = calls
        after = total([refused, *_texts([message], [])], self._count)
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": "tool_calls" if calls else "stop",
        }
        return {
            "id": f"chatcmpl-{len(self.requests):024}",
            "object": "chat.completion",
            "created": 1_700_000_000 + len(self.requests),
            "model": body["model"],
            "choices": [choice],
            "usage": {"prompt_tokens": before, "completion_tokens": after, "total_tokens": before + after},
            "service_tier": "default",
            "system_fingerprint": "fp_stand_in",
        }


def _schema(form: dict[str, Any] | None) -> dict[str, Any] | None:
    """The schema that the text has to fit."""
    if form is None or form.get("type") == "text":
        return None
    if form.get("type") != "json_schema":
        raise Refused("response_format.type: the stand-in knows text and json_schema", param="response_format")
    named = required(form, "json_schema", dict)
    only("response_format.json_schema", named, ("name", "description", "schema", "strict"))
    checks.names("response_format.json_schema", [named.get("name", "")], r"[a-zA-Z0-9_-]{1,64}")
    schema: dict[str, Any] = named["schema"]
    checks.input_schema("response_format.json_schema.schema", schema, strict=bool(named.get("strict")))
    return schema


def _stream(completion: dict[str, Any], *, with_usage: bool) -> Iterator[Event]:
    """The events; usage comes in one of its own, with no choice in it."""
    (choice,), usage = completion["choices"], completion["usage"]
    same = ("id", "created", "model", "service_tier", "system_fingerprint")
    head = {"object": "chat.completion.chunk", **{name: completion[name] for name in same}}
    head |= {"usage": None} if with_usage else {}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    message = choice["message"]
    for field in ("content", "refusal"):
        text = message[field] or ""
        for begin in range(0, len(text), PIECE):
            yield chunk({field: text[begin : begin + PIECE]})
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield chunk({"tool_calls": [{**call, "index": index, "function": {"name": function["name"], "arguments": ""}}]})
        for begin in range(0, len(function["arguments"]), PIECE):
            piece = {"arguments": function["arguments"][begin : begin + PIECE]}
            yield chunk({"tool_calls": [{"index": index, "function": piece}]})
    yield chunk({}, choice["finish_reason"])
    if with_usage:
        yield {**head, "choices": [], "usage": usage}
    yield "[DONE]"


def _turn(messages: list[dict[str, Any]], given: list[dict[str, Any]], tools: dict[str, dict[str, Any]]) -> Turn:
    waiting: dict[str, str] = {}
    got: dict[str, str] = {}
    answers: tuple[Answer, ...] = ()
    turns = 0
    user = ""
    for position, message in enumerate([*messages, {"role": "end"}]):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                raise Refused(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'."
                )
            got[message["tool_call_id"]] = _text(message["content"])
            continue
        missing = [each for each in waiting if each not in got]
        if missing:
            raise Refused(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(missing)}"
            )
        if waiting:
            answers = tuple(Answer(name, got[each]) for each, name in waiting.items())
        if role == "end":
            break
        waiting, got = {}, {}
        match role:
            case "assistant":
                waiting = {call["id"]: call["function"]["name"] for call in message.get("tool_calls") or []}
                if not waiting and not message.get("content"):
                    raise Refused(f"messages[{position}]: content or tool_calls must be set for an assistant message")
                turns += 1
            case "user":
                user = _text(message["content"])
            case "system" | "developer":
                pass
            case _:
                raise Refused(f"Invalid value: {role!r}. Supported values are: 'system', 'assistant', 'user', 'tool'.")
    descriptions = {tool["function"]["name"]: tool["function"].get("description", "") for tool in given}
    return Turn(turns, user, tools, descriptions, answers)


def _texts(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Iterator[str]:
    """What is counted of messages, and of the definitions of tools."""
    yield wire(tools) if tools else ""
    for message in messages:
        yield from of_content(message.get("content"))
        for call in message.get("tool_calls") or ():
            yield from (call["function"]["name"], call["function"]["arguments"])


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
