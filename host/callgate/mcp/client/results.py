"""A server's answer to a call, as a value for a program.

1. `isError` is a `ToolError` with the server's text as its message.
2. `structuredContent`, if there is some, is the value. If the tool has an output schema and the server sent no
   structured content, its text is the value if it is JSON: servers from before structured output send that.
3. Otherwise one text is the value: a JSON object or array is parsed, any other text stays as it is. ``"007"`` and
   ``"12345678901234567890"`` are texts. No content is None, several blocks are a list.
4. Images, audio, and embedded resources become artifacts of the caller; their handles take their places, and the result
   is neither cached nor shared. Handles and links that come
   beside structured content are listed under its key ``artifacts``, for which `imports` makes room in closed objects.
   If the value has no room for this key, `unplaced` receives them: nothing is dropped silently.
5. A link to a resource stays a link: ``{"uri", "name", "media_type"}``; `McpServers.read_resource` follows it.
6. `on_answer` receives the answer itself, for tools that are passed through.

Knows answers; makes no call.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from callgate.artifacts import Artifact, Shelf, keeper_of_call
from callgate.errors import ToolError
from callgate.mcp.verbatim import Sent, on_answer
from callgate.runtime.gate.cache import depends_on_the_caller
from callgate.tools.annotations import UntypedResult
from callgate.tools.decoding import strict_json
from callgate.tools.encoding import NotJson, compact_json
from callgate.tools.json_schema import SchemaResult

from .status import one_line

__all__ = ["Answer", "kept_resource"]

MAX_INLINE_CHARACTERS = 16 * 1024
"""Of a resource's text; of a longer one a program gets the handle alone."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Reads the answers of one tool."""

    artifacts: Shelf
    """Keeps images, audio and files outside of calls."""
    server: str
    tool: str
    """The server's own name of the tool."""
    contract: SchemaResult | UntypedResult
    """The value must fit this contract."""
    unwrap: bool
    """Whether the contract is for the value under ``result``: FastMCP wraps values that are not objects."""
    unplaced: Callable[[str, str], None]
    """Receives the name of the tool, and in one line the handles and links for which the value has no room."""

    def value(self, result: CallToolResult) -> Any:
        """The value; raises `ToolError` for an error, and for an answer that cannot be read."""
        value = self._value(result)
        if (listener := on_answer.get()) is not None:
            listener(Sent(result, value))
        return value

    def _value(self, result: CallToolResult) -> Any:
        blocks = [self._block(each) for each in result.content]
        if result.is_error:
            raise ToolError(_message(blocks), data=result.structured_content)
        structured = result.structured_content
        if structured is not None or "structured_content" in result.model_fields_set:
            if self.unwrap and isinstance(structured, dict) and set(structured) == {"result"}:
                structured = structured["result"]
            return self._beside(structured, result.content, blocks)
        if self.contract.schema is not None:
            return self._from_text(result.content, blocks)
        if not blocks:
            return None
        return blocks[0] if len(blocks) == 1 else blocks

    def _block(self, block: ContentBlock) -> Any:
        match block:
            case TextContent():
                return _parsed(block.text)
            case ImageContent() | AudioContent():
                source = f"{self.server}.{self.tool}"
                return _kept(Artifact.sent(_bytes(block.data), block.mime_type or "", source), self.artifacts)
            case EmbeddedResource():
                return kept_resource(block.resource, self.artifacts, f"{self.server}.{self.tool}")
            case ResourceLink():
                link = {"uri": block.uri, "name": block.name, "media_type": block.mime_type}
                return {key: value for key, value in link.items() if value is not None}

    def _beside(self, value: Any, content: Sequence[ContentBlock], blocks: list[Any]) -> Any:
        """The value with the blocks beside it, except texts, which say the same in other words."""
        beside = [each for block, each in zip(content, blocks, strict=True) if not isinstance(block, TextContent)]
        if not beside:
            return value
        if isinstance(value, dict) and "artifacts" not in value:
            with contextlib.suppress(ToolError):  # the contract has no room for the key
                self.contract.encode(self.tool, joined := {**value, "artifacts": beside})
                return joined
        self.unplaced(self.tool, one_line(", ".join(map(_compact, beside)), 200))
        return value

    def _from_text(self, content: Sequence[ContentBlock], blocks: list[Any]) -> Any:
        texts = [each for block, each in zip(content, blocks, strict=True) if isinstance(block, TextContent)]
        if len(texts) == 1 and (self.unwrap or isinstance(texts[0], (dict, list))):
            return self._beside(texts[0], content, blocks)
        raise ToolError(
            f"the server {self.server!r} promised structured content and sent none: {_message(blocks)[:500]}"
        )


def kept_resource(
    resource: TextResourceContents | BlobResourceContents, artifacts: Shelf, source: str
) -> dict[str, Any]:
    """Keep a resource; returns its handle, with the text itself if it is short.

    Args:
        resource: as the server sent it.
        artifacts: keeps it outside of calls.
        source: the server, or its tool.
    """
    if isinstance(resource, BlobResourceContents):
        data = _bytes(resource.blob)
    else:
        data = resource.text.encode(errors="replace")
    seen = _kept(Artifact.sent(data, resource.mime_type or "", source, resource.uri), artifacts)
    if isinstance(resource, TextResourceContents) and len(resource.text) <= MAX_INLINE_CHARACTERS:
        seen["text"] = resource.text
    return seen


def _kept(artifact: Artifact, artifacts: Shelf) -> dict[str, Any]:
    """Keep it for the caller of the call under way, if there is one; returns its handle."""
    keeper = keeper_of_call.get()
    if keeper is None:
        return artifacts.add(artifact).to_json()
    depends_on_the_caller()
    return keeper.keep(artifact).to_json()


def _parsed(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return strict_json(text)
    except (ValueError, RecursionError):
        return text


def _bytes(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=False)
    except (binascii.Error, ValueError):
        raise ToolError("the server sent an image or a file whose base64 cannot be read") from None


def _message(blocks: list[Any]) -> str:
    texts = [each if isinstance(each, str) else _compact(each) for each in blocks]
    return "\n".join(text for text in texts if text.strip()) or "the tool failed and did not say why"


def _compact(value: Any) -> str:
    try:
        return compact_json(value)
    except NotJson:
        return ""
