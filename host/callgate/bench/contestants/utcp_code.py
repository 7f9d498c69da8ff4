"""UTCP's code mode: ``python -m callgate.bench.contestants.utcp_code [guarded]``. It imports utcp and utcp_code_mode.

Its tools are called over a protocol: HTTP, a command line, MCP. None calls a function, so the workload's tools come by
a protocol of our own, through its interface for such plug-ins, within this process: the least that a call can cost
there. The model is shown the template that the package offers for it, and the interfaces of the tools, which it would
otherwise spend a turn on.

A program runs in a thread of this process, compiled by RestrictedPython; a tool call blocks it, so one tool is at work
at a time. RestrictedPython turns loops, items and unpacking into calls of guards, which its user has to supply; 1.1.0
supplies those for attributes and `print` alone. With ``guarded`` the others are added here, as RestrictedPython's
documentation has them, and a few builtins, so that there is something to measure.
"""

from __future__ import annotations

import asyncio
import builtins
import inspect
import json
import operator
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from callgate.bench.contestants.seat import Meter, Opened, Steered, Turn, answered, cannot_or
from callgate.bench.serving import serve
from callgate.bench.workloads import WORKLOADS
from callgate.bench.workloads.workload import Function

try:
    from RestrictedPython.Eval import default_guarded_getitem, default_guarded_getiter  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from RestrictedPython.Guards import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        full_write_guard,
        guarded_iter_unpack_sequence,
        guarded_unpack_sequence,
    )
    from utcp.data.call_template import CallTemplate  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from utcp.data.register_manual_response import RegisterManualResult  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from utcp.data.tool import Tool  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from utcp.data.utcp_manual import UtcpManual  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from utcp.interfaces.communication_protocol import CommunicationProtocol  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from utcp.interfaces.serializer import Serializer  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from utcp.plugins.discovery import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        register_call_template,
        register_communication_protocol,
    )
    from utcp.python_specific_tooling.tool_decorator import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        generate_input_schema,
        generate_output_schema,
    )
    from utcp_code_mode import CodeModeUtcpClient  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ImportError:  # an optional peer: the harness asks first
    sys.exit("code-mode is not installed")

__all__ = ["Utcp"]

_PROTOCOL = "function"
_MANUAL = "tools"
"""Programs call the tools as attributes of this name."""


_AS_IT_IS = (
    "its tools are functions within its process; it gives RestrictedPython no guards, so a program with a loop, "
    "a comprehension or a['b'] fails"
)
_MENDED = "its tools are functions within its process; the harness added the guards of RestrictedPython that it lacks"


class FunctionTemplate(CallTemplate):  # type: ignore[misc]
    """How to call a tool: its name says it all."""

    call_template_type: str = _PROTOCOL


class _Templates(Serializer[FunctionTemplate]):  # type: ignore[misc]
    def to_dict(self, obj: FunctionTemplate) -> dict[str, Any]:
        values: dict[str, Any] = obj.model_dump()
        return values

    def validate_dict(self, obj: dict[str, Any]) -> FunctionTemplate:
        return FunctionTemplate(**obj)


class _Functions(CommunicationProtocol):  # type: ignore[misc]
    """Calls functions of this process."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions

    async def register_manual(self, caller: Any, manual_call_template: Any) -> Any:
        tools = [
            Tool(
                name=name,
                description=inspect.getdoc(function) or "",
                tool_call_template=FunctionTemplate(name=name),
                inputs=generate_input_schema(function, None, None),
                outputs=generate_output_schema(function, None, None),
            )
            for name, function in self._functions.items()
        ]
        manual = UtcpManual(tools=tools)
        return RegisterManualResult(manual_call_template=manual_call_template, manual=manual, success=True, errors=[])

    async def deregister_manual(self, caller: Any, manual_call_template: Any) -> None:
        return None

    async def call_tool(self, caller: Any, tool_name: str, tool_args: dict[str, Any], tool_call_template: Any) -> Any:
        return await self._functions[tool_name.removeprefix(f"{_MANUAL}.")](**tool_args)

    async def call_tool_streaming(
        self, caller: Any, tool_name: str, tool_args: dict[str, Any], tool_call_template: Any
    ) -> AsyncGenerator[Any, None]:
        yield await self.call_tool(caller, tool_name, tool_args, tool_call_template)


class Guarded(CodeModeUtcpClient):  # type: ignore[misc]
    """The client, and what its programs need for loops, items, unpacking and writing to what they made."""

    async def _create_execution_context(self, tools: list[Any], logs: list[str] | None = None) -> dict[str, Any]:
        context: dict[str, Any] = await super()._create_execution_context(tools, logs)
        context["__builtins__"].update({name: getattr(builtins, name) for name in _BUILTINS})
        return context | _GUARDS


def _in_place(symbol: str, value: Any, other: Any) -> Any:
    return _OPERATORS[symbol](value, other)


_BUILTINS = ("all", "any", "dict", "list", "set", "tuple")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv, "//=": operator.ifloordiv,
    "%=": operator.imod, "**=": operator.ipow, "|=": operator.ior, "&=": operator.iand, "^=": operator.ixor,
}  # fmt: skip
_GUARDS: dict[str, Any] = {
    "_getitem_": default_guarded_getitem,
    "_getiter_": default_guarded_getiter,
    "_iter_unpack_sequence_": guarded_iter_unpack_sequence,
    "_unpack_sequence_": guarded_unpack_sequence,
    "_write_": full_write_guard,
    "_inplacevar_": _in_place,
    "__metaclass__": type,
    "__name__": "program",
}


class Utcp(Steered):
    """The functions that may be asked for: see `seat.Contestant`.

    Args:
        guarded: give programs the guards that the package leaves out.
    """

    def __init__(self, *, guarded: bool = False) -> None:
        self._meter = Meter()
        self._guarded = guarded
        self._client: Any = None
        register_call_template(_PROTOCOL, _Templates())

    async def open(self, workload: str, paced: float = 1.0, scripted: bool = True) -> dict[str, Any]:
        """A client with the tools of the workload."""
        self.steer(paced, scripted)
        tools = {each.__name__: self._meter.metered(each) for each in WORKLOADS[workload].tools}
        register_communication_protocol(_PROTOCOL, _Functions(tools), override=True)
        self._client = await (Guarded if self._guarded else CodeModeUtcpClient).create()
        await self._client.register_manual(FunctionTemplate(name=_MANUAL))
        definition = {
            "name": "call_tool_chain",
            "description": (inspect.getdoc(CodeModeUtcpClient.call_tool_chain) or "").removeprefix("REQUIRED\n"),
            "input_schema": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
        }
        interfaces = await self._client.get_all_tools_python_interfaces()
        opened = Opened(tools=[definition], form="program", tool="call_tool_chain", argument="code", dialect="utcp")
        opened.system = f"{CodeModeUtcpClient.AGENT_PROMPT_TEMPLATE}\n\n{interfaces}"
        opened.note = _MENDED if self._guarded else _AS_IT_IS
        return answered(opened)

    @cannot_or
    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Run the programs, at the same time."""
        self._meter.taken()
        started = time.perf_counter()
        results = await asyncio.gather(*(self._client.call_tool_chain(each["arguments"]["code"]) for each in calls))
        seconds = time.perf_counter() - started
        texts = [json.dumps(each, ensure_ascii=False, default=str) for each in results]
        return answered(Turn(texts=texts, seconds=seconds, intervals=self._meter.taken()))

    async def version(self) -> dict[str, Any]:
        """Of code-mode, and of the client that it wraps."""
        return {"version": f"{version('code-mode')}, utcp {version('utcp')}"}


if __name__ == "__main__":
    asyncio.run(serve(Utcp(guarded="guarded" in sys.argv[1:])))
