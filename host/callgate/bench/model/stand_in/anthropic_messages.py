"""Anthropic's Messages API: `POST /v1/messages`.

Of its betas it knows one: a message of role ``system`` in the middle of a conversation may add tools that were sent
deferred (``mid-conversation-tool-changes``), which pydantic-ai uses for tools that become visible.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema_rs

from . import checks
from .checks import Refused, only, required
from .model import Answer, Call, Refusal, Said, Script, Turn
from .server import KEY, Answered, Event
from .usage import Count, by_characters, of_content, total, wire

BODY = (
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "stop_sequences", "temperature",
    "top_k", "top_p", "metadata", "thinking", "service_tier", "cache_control", "container", "output_config",
)  # fmt: skip
TOOL = (
    "name", "description", "input_schema", "type", "cache_control", "allowed_callers", "defer_loading",
    "eager_input_streaming", "input_examples", "strict",
)  # fmt: skip
BLOCKS = ("text", "tool_use", "tool_result", "thinking", "redacted_thinking")
CHOICES = {"auto": "auto", "any": "required", "none": "none", "tool": "tool"}
TOOL_CHANGES = "mid-conversation-tool-changes-2026-07-01"
PIECE = 24
"""Characters of a piece of a stream."""


class AnthropicMessages:
    """The endpoint.

    Args:
        script: the model.
        count: the tokens of a text.
        context_tokens: input beyond this is refused; 0 for no limit.
        before_piece: for streams: called before each piece of a tool's input, with the text that was sent so far.
    """

    path = "/v1/messages"

    def __init__(
        self,
        script: Script,
        *,
        count: Count = by_characters,
        context_tokens: int = 0,
        before_piece: Callable[[str], None] | None = None,
    ) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        """Every request that was answered."""
        self._count = count
        self._context_tokens = context_tokens
        self._before_piece = before_piece
        self._calls = 0

    def reply(self, headers: Mapping[str, str], body: dict[str, Any]) -> Answered:
        if KEY not in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer ")):
            raise Refused("invalid x-api-key", status=401, kind="authentication_error")
        if "anthropic-version" not in headers:
            raise Refused("anthropic-version: header is required")
        only("body", body, BODY)
        required(body, "model", str)
        required(body, "max_tokens", int)
        tools, strict = _tools(body.get("tools", []))
        choice, parallel = _choice(body.get("tool_choice", {"type": "auto"}), tools)
        messages = required(body, "messages", list)
        added = _added(messages, tools, TOOL_CHANGES in headers.get("anthropic-beta", ""))
        visible = {name: tools[name] for name in _visible(body.get("tools", [])) | added}
        turn = _turn([each for each in messages if each.get("role") != "system"], body, visible)
        before = total(_texts(messages, body), self._count)
        if 0 < self._context_tokens < before:
            raise Refused(f"prompt is too long: {before} tokens > {self._context_tokens} maximum")
        said = self.script.play(turn)
        checks.calls(said, visible, choice=choice, parallel=parallel, strict=strict)
        checks.output(said, body.get("output_config", {}).get("format", {}).get("schema"))
        self.requests.append(body)
        message = self._message(body, said, before)
        return self._stream(message) if body.get("stream") else message

    def refusal(self, refused: Refused) -> dict[str, Any]:
        return {
            "type": "error",
            "error": {"type": refused.kind, "message": str(refused)},
            "request_id": "req_stand_in",
        }

    def _message(self, body: dict[str, Any], said: list[Said], before: int) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        for each in said:
            if not isinstance(each, Call):
                text = each.text if isinstance(each, Refusal) else each
                content.append({"type": "text", "text": text, "citations": None})
                continue
            self._calls += 1
            content.append(
                {
                    "type": "tool_use",
                    "id": f"toolu_{self._calls:024}",
                    "name": each.name,
                    "input": dict(each.arguments),
                    "caller": {"type": "direct"},
                }
            )
        reason = "tool_use" if any(isinstance(each, Call) for each in said) else "end_turn"
        reason = "refusal" if any(isinstance(each, Refusal) for each in said) else reason
        return {
            "id": f"msg_{len(self.requests):024}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": before,
                "output_tokens": total(_texts([{"content": content}], {}), self._count),
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "service_tier": "standard",
            },
        }

    def _stream(self, message: dict[str, Any]) -> Iterator[Event]:
        start = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
        yield {"type": "message_start", "message": start}
        yield {"type": "ping"}
        for index, block in enumerate(message["content"]):
            kind, field, text = (
                ("text_delta", "text", block["text"])
                if block["type"] == "text"
                else ("input_json_delta", "partial_json", json.dumps(block["input"]))
            )
            empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            for begin in range(0, len(text), PIECE):
                if kind == "input_json_delta" and self._before_piece is not None:
                    self._before_piece(text[:begin])
                delta = {"type": kind, field: text[begin : begin + PIECE]}
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        usage = {"output_tokens": message["usage"]["output_tokens"]}
        yield {"type": "message_delta", "delta": delta, "usage": usage}
        yield {"type": "message_stop"}


def _tools(given: list[dict[str, Any]]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    for position, tool in enumerate(given):
        where = f"tools.{position}.custom"
        only(where, tool, TOOL)
        schema: dict[str, Any] = tool.get("input_schema", {})
        checks.input_schema(f"{where}.input_schema", schema, strict=bool(tool.get("strict")))
        for word in ("oneOf", "allOf", "anyOf"):
            if word in schema:
                raise Refused(f"{where}.input_schema: input_schema does not support {word} at the top level")
        checks.names(f"{where}.input_schema.properties", list(schema.get("properties", {})), r"[a-zA-Z0-9_.-]{1,64}")
        for example in tool.get("input_examples", []):
            if not jsonschema_rs.is_valid(schema, example):
                raise Refused(f"{where}.input_examples: an example does not fit input_schema: {example}")
    checks.names("tools", [tool.get("name", "") for tool in given], r"[a-zA-Z0-9_-]{1,128}")
    if given and all(tool.get("defer_loading") for tool in given):
        raise Refused("At least one tool must have defer_loading=false.")
    schemas = {tool["name"]: tool["input_schema"] for tool in given}
    return schemas, [tool["name"] for tool in given if tool.get("strict")]


def _visible(given: list[dict[str, Any]]) -> set[str]:
    """Names of the tools that the model is shown from the start, and may call itself."""
    direct = [tool for tool in given if "direct" in tool.get("allowed_callers", ["direct"])]
    return {tool["name"] for tool in direct if not tool.get("defer_loading")}


def _added(messages: list[dict[str, Any]], tools: Mapping[str, Any], beta: bool) -> set[str]:
    """Names of deferred tools that results of searches refer to, or that system messages have added."""
    added = {
        part.get("tool_name")
        for message in messages
        for block in (message["content"] if message.get("role") == "user" else ())
        if isinstance(block, dict) and isinstance(block.get("content"), list)
        for part in block["content"]
        if part["type"] == "tool_reference"
    }
    for name in added - set(tools):
        raise Refused(f"Tool reference {name!r} not found in available tools")
    for position, message in enumerate(messages):
        if message.get("role") != "system":
            continue
        if position == 0 or messages[position - 1].get("role") == "assistant":
            raise Refused(f"messages.{position}: a system message has to follow a user message")
        content = message["content"]
        for block in [] if isinstance(content, str) else content:
            if block["type"] == "tool_addition":
                if not beta:
                    raise Refused(f"messages.{position}: tool_addition needs the header anthropic-beta: {TOOL_CHANGES}")
                if block["tool"]["name"] not in tools:
                    raise Refused(f"messages.{position}: Tool reference {block['tool']['name']!r} not found in tools")
                added.add(block["tool"]["name"])
            elif block["type"] != "text":
                raise Refused(f"messages.{position}: the stand-in knows no block of type {block['type']!r} here")
    return added


def _choice(given: dict[str, Any], tools: Mapping[str, Any]) -> tuple[str, bool]:
    only("tool_choice", given, ("type", "name", "disable_parallel_tool_use"))
    kind = given.get("type")
    if kind not in CHOICES:
        raise Refused(f"tool_choice: Input tag {kind!r} does not match any of the expected tags: {sorted(CHOICES)}")
    if kind in ("any", "tool") and not tools:
        raise Refused("tool_choice may only be specified while providing tools.")
    if kind == "tool" and given.get("name") not in tools:
        raise Refused(f"Tool {given.get('name')!r} not found in provided tools")
    if kind == "none" and "disable_parallel_tool_use" in given:
        raise Refused("tool_choice.none.disable_parallel_tool_use: Extra inputs are not permitted")
    chosen: str = given["name"] if kind == "tool" else CHOICES[kind]
    return chosen, not given.get("disable_parallel_tool_use", False)


def _turn(messages: list[dict[str, Any]], body: dict[str, Any], tools: dict[str, dict[str, Any]]) -> Turn:
    if not messages or messages[0].get("role") != "user":
        raise Refused("messages: first message must use the user role")
    answers: tuple[Answer, ...] = ()
    waiting: dict[str, str] = {}
    turns = 0
    user = ""
    for position, message in enumerate(messages):
        only(f"messages.{position}", message, ("role", "content"))
        blocks = _blocks(message, position)
        results = [block for block in blocks if block["type"] == "tool_result"]
        if message["role"] == "assistant":
            if waiting:
                raise _unanswered(position - 1, waiting)
            waiting = {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}
            turns += 1
            continue
        strange = [result["tool_use_id"] for result in results if result.get("tool_use_id") not in waiting]
        if strange:
            raise Refused(
                f"messages.{position}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {strange[0]}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        missing = {each: name for each, name in waiting.items() if each not in {r["tool_use_id"] for r in results}}
        if missing or blocks[: len(results)] != results:
            raise _unanswered(position - 1, missing or waiting)
        by_id = {result["tool_use_id"]: _text(result.get("content", "")) for result in results}
        answers = tuple(Answer(name, by_id[each]) for each, name in waiting.items())
        waiting = {}
        user = " ".join(block["text"] for block in blocks if block["type"] == "text") or user
    if messages[-1]["role"] != "user":
        raise Refused("This model does not support assistant message prefill.")
    descriptions = {tool["name"]: tool.get("description", "") for tool in body.get("tools", [])}
    return Turn(turns, user, tools, descriptions, answers)


def _unanswered(position: int, waiting: Mapping[str, str]) -> Refused:
    return Refused(
        f"messages.{position}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(waiting)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
        "message."
    )


def _blocks(message: dict[str, Any], position: int) -> list[dict[str, Any]]:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if message.get("role") not in ("user", "assistant") or not isinstance(blocks, list) or not blocks:
        raise Refused(f"messages.{position}: role has to be user or assistant, and content text or blocks")
    for block in blocks:
        if block.get("type") not in BLOCKS:
            raise Refused(f"messages.{position}: the stand-in knows no block of type {block.get('type')!r}")
        if block["type"] == "text" and not block["text"].strip():
            raise Refused(f"messages.{position}: text content blocks must be non-empty")
    return blocks


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _texts(messages: list[dict[str, Any]], body: Mapping[str, Any]) -> Iterator[str]:
    """What is counted of messages, of the system text, and of the definitions of tools."""
    yield from of_content(body.get("system"))
    yield wire(body["tools"]) if body.get("tools") else ""
    for message in messages:
        content = message["content"]
        yield from of_content(content)
        for block in () if isinstance(content, str) else content:
            if block["type"] == "tool_use":
                yield from (block["name"], wire(block["input"]))
            elif block["type"] == "tool_result":
                yield from of_content(block.get("content"))
