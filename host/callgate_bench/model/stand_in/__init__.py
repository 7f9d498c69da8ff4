"""Local stand-ins for the providers' HTTP APIs: their real wire formats, with a scripted model behind.

What they check is what the services check: keys and headers, the tools array, the tool choice, that every tool call has
its result and every result its call. A request that the service would refuse gets the service's kind of refusal.

What they are not: a model. A script plays it: one function for each turn, which is given the tools that were sent and
the results of the calls that it made, and can see nothing else. Tokens are counted as four characters each, where no
tokenizer is given; `api` says what is counted, and what is not.

    api.py                  what the endpoints have in common, and what is counted as tokens
    anthropic_messages.py   POST /v1/messages, whole and streamed
    openai.py               POST /v1/chat/completions, whole and streamed; POST /v1/responses
    checks.py               the script, and what all services ask of tools
    server.py               HTTP on the loopback
    faults.py               how endpoints misbehave
"""

from __future__ import annotations

from .anthropic_messages import AnthropicMessages
from .checks import Answer, Call, Move, Refusal, Script, Turn
from .openai import OpenAIChat, OpenAIResponses
from .server import serving

__all__ = [
    "Answer", "AnthropicMessages", "Call", "Move", "OpenAIChat", "OpenAIResponses", "Refusal", "Script", "Turn",
    "serving",
]  # fmt: skip
