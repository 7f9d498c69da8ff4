"""The names of spans, attributes and metrics: one table for each version of the conventions. Imports nothing of ours.

OpenTelemetry's conventions for generative AI are still in development:
https://opentelemetry.io/docs/specs/semconv/gen-ai/. A name that they change is changed here, and nowhere else.
Whatever they have no name for is called ``callgate.*``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

__all__ = ["LATEST", "SECONDS", "TABLES", "TOKENS", "Conventions", "Names"]

Conventions = Literal["1.36", "1.41"]
LATEST: Final[Conventions] = "1.41"

SECONDS: Final = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Advised bounds of histograms of durations."""
TOKENS: Final = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
"""Advised bounds of histograms of tokens; from the conventions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """One version's names."""

    schema_url: str

    # GenAI: attributes
    operation: str = "gen_ai.operation.name"
    provider: str = "gen_ai.provider.name"
    agent: str = "gen_ai.agent.name"
    conversation: str = "gen_ai.conversation.id"
    request_model: str = "gen_ai.request.model"
    request_tokens: str = "gen_ai.request.max_tokens"
    request_temperature: str = "gen_ai.request.temperature"
    request_stream: str = "gen_ai.request.stream"
    output_type: str = "gen_ai.output.type"
    system: str = "gen_ai.system_instructions"
    first_chunk: str = "gen_ai.response.time_to_first_chunk"
    cached_tokens: str = "gen_ai.usage.cache_read.input_tokens"
    response_model: str = "gen_ai.response.model"
    finish_reasons: str = "gen_ai.response.finish_reasons"
    input_tokens: str = "gen_ai.usage.input_tokens"
    output_tokens: str = "gen_ai.usage.output_tokens"
    input_messages: str = "gen_ai.input.messages"
    output_messages: str = "gen_ai.output.messages"
    token_type: str = "gen_ai.token.type"
    tool: str = "gen_ai.tool.name"
    tool_type: str = "gen_ai.tool.type"
    call_id: str = "gen_ai.tool.call.id"
    call_arguments: str = "gen_ai.tool.call.arguments"
    call_result: str = "gen_ai.tool.call.result"
    error_type: str = "error.type"

    # GenAI: operations, which begin the names of spans, and metrics
    execute_tool: str = "execute_tool"
    invoke_agent: str = "invoke_agent"
    chat: str = "chat"
    token_usage: str = "gen_ai.client.token.usage"
    chat_duration: str = "gen_ai.client.operation.duration"

    # ours: attributes
    run_id: str = "callgate.run.id"
    path: str = "callgate.path"
    caller: str = "callgate.caller"
    call_number: str = "callgate.call.number"
    attempts: str = "callgate.attempts"
    estimated: str = "callgate.usage.estimated"
    mode: str = "callgate.task.mode"
    resumed: str = "callgate.task.resumed"
    cost: str = "callgate.task.cost"
    turns: str = "callgate.task.turns"
    task_calls: str = "callgate.task.tool_calls"
    outcome: str = "callgate.task.outcome"
    cached: str = "callgate.cached"
    reused: str = "callgate.reused"
    queued: str = "callgate.queued_seconds"
    approval: str = "callgate.approval"
    approved_by: str = "callgate.approved_by"
    speculative: str = "callgate.speculative"
    fallback: str = "callgate.fallback"
    step: str = "callgate.step"
    item: str = "callgate.item"
    task: str = "callgate.task"
    turn: str = "callgate.turn"
    client: str = "callgate.client"
    sandbox: str = "callgate.sandbox"
    limit: str = "callgate.limit"
    notes: str = "callgate.notes"
    tool_calls: str = "callgate.tool_calls"
    unused_calls: str = "callgate.speculative_unused"
    artifacts: str = "callgate.artifacts"
    cpu_seconds: str = "callgate.cpu_seconds"
    peak_memory: str = "callgate.peak_memory_bytes"
    steps: str = "callgate.steps"
    state: str = "callgate.state"

    # ours: metrics
    call_duration: str = "callgate.call.duration"
    call_queued: str = "callgate.call.queued"
    run_duration: str = "callgate.run.duration"
    guests: str = "callgate.guests"
    pool_misses: str = "callgate.guests.misses"


_NOW: Final = Names(schema_url="https://opentelemetry.io/schemas/1.41.0")
TABLES: Final[dict[Conventions, Names]] = {
    "1.41": _NOW,
    "1.36": replace(
        _NOW,
        schema_url="https://opentelemetry.io/schemas/1.36.0",
        provider="gen_ai.system",
        call_arguments="callgate.call.arguments",
        call_result="callgate.call.result",
        input_messages="callgate.input.messages",
        output_messages="callgate.output.messages",
        system="callgate.system_instructions",
        request_stream="callgate.request.stream",
        first_chunk="callgate.response.time_to_first_chunk",
        cached_tokens="callgate.usage.cache_read.input_tokens",
    ),
}
