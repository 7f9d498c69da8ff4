"""Anthropic's Messages API: `POST /v1/messages`, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema_rs

from . import checks
from .api import Asked, CallResult, InputText, ModelTurn, StandIn, of_content, pieces, wire
from .checks import Call, Output, Refusal, Refused, Script, only, required
from .server import KEY, Event

TOOL = (
    "name", "description", "input_schema", "type", "cache_control", "allowed_callers", "defer_loading",
    "eager_input_streaming", "input_examples", "strict",
)  # fmt: skip
BLOCKS = ("text", "tool_use", "tool_result", "thinking", "redacted_thinking")
CHOICES = {"auto": "auto", "any": "required", "none": "none", "tool": "tool"}


class AnthropicMessages(StandIn):
    """The endpoint.

    Args:
        script: the model.
        count: the tokens of a text.
        context_tokens: input beyond this is refused; 0 for no limit.
        before_piece: for streams: called before each piece of a tool's input, with the text that was sent so far.
    """

    path = "/v1/messages"
    fields = (
        "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "stop_sequences", "temperature",
        "top_k", "top_p", "metadata", "thinking", "service_tier", "cache_control", "container", "output_config",
        "context_management",
    )  # fmt: skip

    def __init__(
        self, script: Script, *, before_piece: Callable[[str], None] = lambda written: None, **options: Any
    ) -> None:
        super().__init__(script, **options)
        self._before_piece = before_piece

    def authorize(self, headers: Mapping[str, str]) -> None:
        if KEY not in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer ")):
            raise Refused("invalid x-api-key", status=401, kind="authentication_error")
        if "anthropic-version" not in headers:
            raise Refused("anthropic-version: header is required")

    def read(self, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
        required(body, "max_tokens", int)
        if "context_management" in body and "context-management-" not in headers.get("anthropic-beta", ""):
            raise Refused("context_management: Extra inputs are not permitted")
        given = body.get("tools", [])
        tools = _tools(given)
        choice, parallel = _choice(body.get("tool_choice", {"type": "auto"}), tools)
        messages = required(body, "messages", list)
        shown = {tool["name"] for tool in given if not tool.get("defer_loading")}
        shown |= _shown(messages, tools)
        direct = {tool["name"] for tool in given if "direct" in tool.get("allowed_callers", ["direct"])}
        return Asked(
            conversation=list(self._conversation([each for each in messages if each.get("role") != "system"])),
            tools={name: schema for name, schema in tools.items() if name in shown & direct},
            descriptions={tool["name"]: tool.get("description", "") for tool in given},
            strict=[tool["name"] for tool in given if tool.get("strict")],
            choice=choice,
            parallel=parallel,
            schema=body.get("output_config", {}).get("format", {}).get("schema"),
            texts=[*of_content(body.get("system")), wire(given) if given else ""],
        )

    def refusal(self, refused: Refused) -> dict[str, Any]:
        error = {"type": refused.kind, "message": str(refused)}
        return {"type": "error", "error": error, "request_id": "req_stand_in"}

    def answer(self, body: dict[str, Any], outputs: list[Output], before: int, after: int) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        for each in outputs:
            if isinstance(each, Call):
                used = {"type": "tool_use", "id": self.call_id("toolu"), "name": each.name}
                content.append({**used, "input": dict(each.arguments), "caller": {"type": "direct"}})
            else:
                text = each.text if isinstance(each, Refusal) else each
                content.append({"type": "text", "text": text, "citations": None})
        reason = "tool_use" if any(isinstance(each, Call) for each in outputs) else "end_turn"
        return {
            "id": f"msg_{len(self.requests):024}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "refusal" if any(isinstance(each, Refusal) for each in outputs) else reason,
            "stop_sequence": None,
            "usage": {"input_tokens": before, "output_tokens": after},
        }

    def stream(self, body: dict[str, Any], answer: dict[str, Any]) -> Iterator[Event]:
        start = {**answer, "content": [], "stop_reason": None, "usage": {**answer["usage"], "output_tokens": 1}}
        yield {"type": "message_start", "message": start}
        yield {"type": "ping"}
        for index, block in enumerate(answer["content"]):
            is_text = block["type"] == "text"
            kind, name = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
            empty = {**block, "text": ""} if is_text else {**block, "input": {}}
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            text = block["text"] if is_text else json.dumps(block["input"])
            for begin, piece in pieces(text):
                if not is_text:
                    self._before_piece(text[:begin])
                yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, name: piece}}
            yield {"type": "content_block_stop", "index": index}
        delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": answer["usage"]["output_tokens"]}}
        yield {"type": "message_stop"}

    def _conversation(self, messages: list[dict[str, Any]]) -> Iterator[InputText | ModelTurn | CallResult]:
        if not messages or messages[0].get("role") != "user":
            raise Refused("messages: first message must use the user role")
        for position, message in enumerate(messages):
            only(f"messages.{position}", message, ("role", "content"))
            blocks = _blocks(message, position)
            if message["role"] == "assistant":
                used = [block for block in blocks if block["type"] == "tool_use"]
                texts = [text for block in used for text in (block["name"], wire(block["input"]))]
                yield ModelTurn({block["id"]: block["name"] for block in used}, of_content(blocks) + texts)
                continue
            results = [block for block in blocks if block["type"] == "tool_result"]
            if blocks[: len(results)] != results:
                raise Refused("calls without results after them: tool_result blocks stand first in a message")
            for block in results:
                yield CallResult(block["tool_use_id"], of_content(block.get("content")))
            yield InputText(of_content(blocks))
        if messages[-1]["role"] != "user":
            raise Refused("This model does not support assistant message prefill.")


def _tools(given: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
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
    return {tool["name"]: tool["input_schema"] for tool in given}


def _shown(messages: list[dict[str, Any]], tools: Mapping[str, Any]) -> set[str]:
    """Names of deferred tools that results of searches refer to, or that system messages add (pydantic-ai's way)."""
    blocks = [block for each in messages if isinstance(each.get("content"), list) for block in each["content"]]
    parts = [part for block in blocks if isinstance(block.get("content"), list) for part in block["content"]]
    names = {part["tool_name"] for part in parts if part["type"] == "tool_reference"}
    names |= {block["tool"]["name"] for block in blocks if block["type"] == "tool_addition"}
    for name in names - set(tools):
        raise Refused(f"messages: Tool reference {name!r} not found in available tools")
    return names


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
