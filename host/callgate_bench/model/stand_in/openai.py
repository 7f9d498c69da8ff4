"""OpenAI's two APIs: Chat Completions, `POST /v1/chat/completions`, whole and streamed; and Responses,
`POST /v1/responses`, whole. Responses are kept, so that a request may go on from `previous_response_id`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import checks
from .api import Asked, CallResult, InputText, ModelTurn, StandIn, of_content, pieces, wire
from .checks import Call, Output, Refusal, Refused, Script, only, required
from .server import KEY, Event

_FUNCTION = ("name", "description", "parameters", "strict")
_RESPONSES_TOOL = ("type", *_FUNCTION, "allowed_callers", "defer_loading", "output_schema")
_CREATED = 1_700_000_000


class _OpenAI(StandIn):
    """What the two APIs share. Messages of a chat are read as the items of Responses."""

    def authorize(self, headers: Mapping[str, str]) -> None:
        if headers.get("authorization") != f"Bearer {KEY}":
            raise Refused("Incorrect API key provided.", status=401, code="invalid_api_key")

    def refusal(self, refused: Refused) -> dict[str, Any]:
        named = {"type": refused.kind, "param": refused.param or None, "code": refused.code or None}
        return {"error": {"message": str(refused), **named}}

    def too_long(self, tokens: int, most: int) -> Refused:
        return Refused(
            f"Input tokens exceed the configured limit of {most} tokens. Your messages resulted in {tokens} tokens. "
            "Please reduce the length of the messages.",
            code="context_length_exceeded",
            param="messages",
        )


class OpenAIChat(_OpenAI):
    """The endpoint of Chat Completions."""

    path = "/v1/chat/completions"
    fields = (
        "model", "messages", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "n", "stop",
        "stream", "max_completion_tokens", "max_tokens", "metadata", "store", "seed", "user", "response_format",
        "reasoning_effort", "service_tier", "prompt_cache_key", "verbosity", "stream_options",
    )  # fmt: skip

    def read(self, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
        if "stream_options" in body and not body.get("stream"):
            raise Refused("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
        given = body.get("tools", [])
        for position, tool in enumerate(given):
            only(f"tools[{position}]", tool, ("type", "function"))
        if "parallel_tool_calls" in body and not given:
            raise Refused("parallel_tool_calls is only allowed when 'tools' are specified.")
        functions = [tool.get("function", {}) for tool in given]
        tools = _function_tools(functions, "tools[{}].function", _FUNCTION)
        items = list(_items(required(body, "messages", list)))
        return _asked(body, functions, tools, items, schema=_schema(body.get("response_format")))

    def answer(self, body: dict[str, Any], outputs: list[Output], before: int, after: int) -> dict[str, Any]:
        text = "\n".join(each for each in outputs if isinstance(each, str))
        refused = "\n".join(each.text for each in outputs if isinstance(each, Refusal))
        message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": refused or None}
        message["annotations"] = []
        calls = []
        for each in outputs:
            if isinstance(each, Call):
                function = {"name": each.name, "arguments": wire(dict(each.arguments))}
                calls.append({"id": self.call_id("call"), "type": "function", "function": function})
        if calls:
            message["tool_calls"] = calls
        finish = "tool_calls" if calls else "stop"
        return {
            "id": f"chatcmpl-{len(self.requests):024}",
            "object": "chat.completion",
            "created": _CREATED + len(self.requests),
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
            "usage": {"prompt_tokens": before, "completion_tokens": after, "total_tokens": before + after},
        }

    def stream(self, body: dict[str, Any], answer: dict[str, Any]) -> Iterator[Event]:
        (choice,), usage = answer["choices"], answer["usage"]
        with_usage = (body.get("stream_options") or {}).get("include_usage", False)
        head = {"object": "chat.completion.chunk", **{name: answer[name] for name in ("id", "created", "model")}}
        head |= {"usage": None} if with_usage else {}

        def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
            return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

        yield chunk({"role": "assistant", "content": "", "refusal": None})
        message = choice["message"]
        for name in ("content", "refusal"):
            for _, piece in pieces(message[name] or ""):
                yield chunk({name: piece})
        for index, call in enumerate(message.get("tool_calls", ())):
            function = call["function"]
            begun = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
            yield chunk({"tool_calls": [begun]})
            for _, piece in pieces(function["arguments"]):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, choice["finish_reason"])
        if with_usage:
            yield {**head, "choices": [], "usage": usage}
        yield "[DONE]"


class OpenAIResponses(_OpenAI):
    """The endpoint of Responses."""

    path = "/v1/responses"
    fields = (
        "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "previous_response_id",
        "store", "temperature", "top_p", "max_output_tokens", "max_tool_calls", "metadata", "include", "reasoning",
        "text", "truncation", "stream", "user", "service_tier", "prompt_cache_key", "prompt_cache_retention",
        "conversation", "prompt", "top_logprobs", "safety_identifier", "background",
    )  # fmt: skip
    at_once = False

    def __init__(self, script: Script, **options: Any) -> None:
        super().__init__(script, **options)
        self._kept: dict[str | None, list[dict[str, Any]]] = {None: []}

    def read(self, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
        if body.get("stream"):
            raise Refused("stream: this stand-in does not stream")
        given = body.get("tools") or []
        for position, tool in enumerate(given):
            if tool.get("type") != "function":
                raise Refused(f"tools[{position}]: the stand-in knows no tool of type {tool.get('type')!r}")
            if "parameters" not in tool or "strict" not in tool:
                raise Refused(f"Missing required parameter: 'tools[{position}].parameters' or '.strict'.")
        return _asked(body, given, _function_tools(given, "tools[{}]", _RESPONSES_TOOL), self._items(body))

    def answer(self, body: dict[str, Any], outputs: list[Output], before: int, after: int) -> dict[str, Any]:
        name = f"resp_{len(self.requests):024}"
        output = [self._item(each, f"{len(self.requests)}_{position}") for position, each in enumerate(outputs)]
        if body.get("store") is not False:
            self._kept[name] = self._items(body) + output
        return {
            "id": name,
            "object": "response",
            "created_at": _CREATED + len(self.requests),
            "status": "completed",
            "model": body["model"],
            "output": output,
            "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
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

    def _items(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The conversation: that of the response before, and what the request adds."""
        before = body.get("previous_response_id")
        if before not in self._kept:
            raise Refused(f"Previous response with id {before!r} not found.")
        given = body.get("input", [])
        given = [{"role": "user", "content": given}] if isinstance(given, str) else given
        items = [{"type": "message", **each} for each in given]
        for each in items:
            if each["type"] not in ("message", "function_call", "function_call_output"):
                raise Refused(f"the stand-in knows no item of type {each['type']!r}")
        return self._kept[before] + items

    def _item(self, item: Output, name: str) -> dict[str, Any]:
        if isinstance(item, Call):
            call = {"type": "function_call", "id": f"fc_{name}", "call_id": self.call_id("call"), "name": item.name}
            return {**call, "arguments": wire(dict(item.arguments)), "status": "completed"}
        part: dict[str, Any] = {"type": "output_text", "text": item, "annotations": [], "logprobs": []}
        if isinstance(item, Refusal):
            part = {"type": "refusal", "refusal": item.text}
        message = {"type": "message", "id": f"msg_{name}", "role": "assistant", "status": "completed"}
        return {**message, "content": [part]}


def _function_tools(given: list[dict[str, Any]], where: str, known: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The schemas of function tools by name."""
    for position, function in enumerate(given):
        only(where.format(position), function, known)
        schema = function.get("parameters", {"type": "object", "properties": {}})
        name, strict = function.get("name"), bool(function.get("strict"))
        checks.input_schema(f"Invalid schema for function {name!r}", schema, strict=strict)
    checks.names("tools", [function.get("name", "") for function in given], r"[a-zA-Z0-9_-]{1,64}")
    return {each["name"]: each.get("parameters", {"type": "object"}) for each in given}


def _asked(
    body: dict[str, Any],
    functions: list[dict[str, Any]],
    tools: dict[str, dict[str, Any]],
    items: list[dict[str, Any]],
    schema: dict[str, Any] | None = None,
) -> Asked:
    return Asked(
        conversation=list(_conversation(items)),
        tools=tools,
        descriptions={each["name"]: each.get("description") or "" for each in functions},
        strict=[each["name"] for each in functions if each.get("strict")],
        choice=_choice(body.get("tool_choice") or "auto", tools),
        parallel=body.get("parallel_tool_calls") is not False,
        schema=schema,
        texts=[body.get("instructions") or "", wire(body["tools"]) if body.get("tools") else ""],
    )


def _choice(given: Any, tools: Mapping[str, Any]) -> str:
    """``auto``, ``none``, ``required``, or the name of the one tool."""
    if isinstance(given, str):
        if given not in ("auto", "none", "required"):
            raise Refused(f"Invalid value: {given!r}. Supported values are: 'none', 'auto', and 'required'.")
        chosen = given
    else:
        chosen = given.get("function", given).get("name")
        if given.get("type") != "function" or chosen not in tools:
            raise Refused(f"Tool choice {given!r} not found in 'tools' parameter.")
    if chosen not in ("none", "auto") and not tools:
        raise Refused("'tool_choice' is only allowed when 'tools' are specified.")
    return chosen


def _schema(form: dict[str, Any] | None) -> dict[str, Any] | None:
    """The schema that the text of a chat has to fit."""
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


def _items(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A chat, as items of Responses."""
    for position, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            yield {"type": "function_call_output", "call_id": message.get("tool_call_id", ""), "output": content}
        elif role in ("user", "assistant", "system", "developer"):
            calls = message.get("tool_calls") or []
            if role == "assistant" and not (calls or content):
                raise Refused(f"messages[{position}]: content or tool_calls must be set for an assistant message")
            yield {"type": "message", "role": role, "content": content}
            for call in calls:
                yield {"type": "function_call", "call_id": call["id"], **call["function"]}
        else:
            raise Refused(f"Invalid value: {role!r}. Supported values are: 'system', 'assistant', 'user', 'tool'.")


def _conversation(items: list[dict[str, Any]]) -> Iterator[InputText | ModelTurn | CallResult]:
    """The messages of a request. Everything of the model between two inputs is one turn."""
    turn: ModelTurn | None = None
    for each in [*items, {"type": "end"}]:
        if each["type"] == "function_call" or each.get("role") == "assistant":
            turn = turn or ModelTurn()
            turn.texts.extend(of_content(each.get("content")))
            if each["type"] == "function_call":
                turn.calls[each["call_id"]] = each["name"]
                turn.texts.extend((each["name"], each["arguments"]))
            continue
        if turn is not None:
            yield turn
            turn = None
        if each["type"] == "function_call_output":
            yield CallResult(each.get("call_id", ""), of_content(each["output"]))
        elif each["type"] == "message":
            yield InputText(of_content(each.get("content")), system=each["role"] != "user")
