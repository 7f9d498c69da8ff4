"""pydantic-ai's model of Anthropic's Messages, for gateways that do not count: usage may be missing or null."""

from __future__ import annotations

from typing import Any

from anthropic.types.beta import BetaMessageDeltaUsage, BetaUsage
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicStreamedResponse

__all__ = ["AnthropicMessages"]


class AnthropicMessages(AnthropicModel):
    """pydantic-ai's `AnthropicModel` that accepts replies without usage."""

    def _process_response(self, response: Any, *rest: Any, **named: Any) -> ModelResponse:
        response.usage = response.usage or BetaUsage(input_tokens=0, output_tokens=0)
        return super()._process_response(response, *rest, **named)

    async def _process_streamed_response(self, *given: Any, **named: Any) -> AnthropicStreamedResponse:
        stream = await super()._process_streamed_response(*given, **named)
        map_event: Any = stream._map_event

        def counted(event: Any) -> Any:
            if event.type == "message_start" and event.message is not None:
                event.message.usage = event.message.usage or BetaUsage(input_tokens=0, output_tokens=0)
            elif event.type == "message_delta":
                event.usage = event.usage or BetaMessageDeltaUsage(output_tokens=0)
            return map_event(event)

        stream._map_event = counted  # type: ignore[method-assign]
        return stream
