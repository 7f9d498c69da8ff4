"""A guest as a plain child process, driven by hand: pipes, lines and JSON. Uses nothing of the host."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS = 30.0
"""Longest wait for a guest."""
MEET = "meet"
"""A tool whose calls are answered when `n` of them are waiting: only calls that overlap ever come back."""
HANG = "hang"
"""A tool that is never answered."""

TOOLS = [
    ["get_weather", "get_weather", "city", "unit"],
    ["echo", "echo", "value"],
    ["fail", "fail", "message", "data"],
    ["meet", MEET, "n"],
    ["hang", HANG],
    ["big", "big", "size"],
    ["named", "named", "name", "value"],
    ["dash_ed", "dash-ed", "x"],
]


def guest_root() -> str:
    """The folder that the guest's package is in, found without importing it."""
    spec = importlib.util.find_spec("callgate_guest")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent.parent)


@dataclass
class Ran:
    """What came of one program."""

    value: Any = None
    value_repr: str | None = None
    error: dict[str, Any] | None = None
    logs: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    status: int | None = None
    """Exit status, where the guest ended without a reply."""

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        return [(each["method"], each["params"]) for each in self.messages if "id" in each and "method" in each]

    @property
    def cancelled(self) -> list[int]:
        return [each["params"]["id"] for each in self.messages if each.get("method") == "cancel"]

    @property
    def prints(self) -> list[str]:
        return [each["params"]["text"] for each in self.messages if each.get("method") == "print"]

    @property
    def order(self) -> list[str]:
        """Prints and calls, as they came."""
        told = []
        for each in self.messages:
            if each.get("method") == "print":
                told.append(each["params"]["text"])
            elif "method" in each and "id" in each:
                told.append(f"<{each['method']}>")
        return told

    @property
    def kind(self) -> str:
        assert self.error is not None, f"it did not fail: {self}"
        return str(self.error["kind"])

    @property
    def message(self) -> str:
        assert self.error is not None, f"it did not fail: {self}"
        return str(self.error["message"])

    @property
    def traceback(self) -> str:
        assert self.error is not None, f"it did not fail: {self}"
        return str(self.error["traceback"])


def reply_of(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What a well-behaved host answers."""
    if method == "get_weather":
        return {"result": {"city": params.get("city"), "temp": len(str(params.get("city")))}}
    if method == "echo":
        return {"result": params.get("value")}
    if method == "fail":
        data = {"tool": "fail", "retryable": True, "data": params.get("data")}
        return {"error": {"code": -32000, "message": params.get("message", "no"), "data": data}}
    if method == "big":
        return {"result": "x" * params["size"]}
    if method in ("named", "dash-ed"):
        return {"result": params}
    return {"error": {"code": -32601, "message": f"there is no tool {method!r}", "data": {"tool": method}}}


class GuestProcess:
    """One guest. Use as a context manager; `run` programs in it.

    Args:
        replays: whether it hashes texts as all guests do that replay runs.
    """

    def __init__(self, *, replays: bool = False) -> None:
        code = f"import sys; sys.path.append({guest_root()!r}); import runpy; "
        code += "runpy.run_module('callgate_guest', run_name='__main__')"
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-S", "-X", "utf8", "-c", code],
            env={"PYTHONHASHSEED": "0"} if replays else {},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.to_guest = self.process.stdin.fileno()
        self.from_guest = self.process.stdout.fileno()
        self.output = self.process.stderr.fileno()
        self._line = b""
        self._number = 0

    def __enter__(self) -> GuestProcess:
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:
            self.process.kill()

    def write(self, *messages: dict[str, Any]) -> None:
        data = b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in messages)
        while data:
            data = data[os.write(self.to_guest, data) :]

    def execute(
        self,
        code: str,
        inputs: dict[str, Any] | None = None,
        tools: list[Any] | None = None,
        namespaces: dict[str, str] | None = None,
    ) -> int:
        """Send the request only."""
        self._number += 1
        params: dict[str, Any] = {"code": code, "tools": TOOLS if tools is None else tools, "inputs": inputs or {}}
        if namespaces is not None:
            params["namespaces"] = namespaces
        self.write({"method": "execute", "params": params, "id": self._number})
        return self._number

    def run(
        self,
        code: str,
        inputs: dict[str, Any] | None = None,
        *,
        tools: list[Any] | None = None,
        namespaces: dict[str, str] | None = None,
        reply: Callable[[str, dict[str, Any]], dict[str, Any]] = reply_of,
        on_message: Callable[[dict[str, Any]], bool] = lambda _: False,
    ) -> Ran:
        """Run a program to its end.

        Args:
            code: its source.
            inputs: bound as variables.
            tools: what it may call.
            namespaces: of these.
            reply: answers its calls.
            on_message: sees every message first; answers it itself when it returns True.
        """
        number = self.execute(code, inputs, tools, namespaces)
        ran = Ran()
        held: list[dict[str, Any]] = []
        deadline = time.monotonic() + SECONDS
        while True:
            message = self.next_message(ran, deadline)
            if message is None:
                ran.status = self.process.wait(SECONDS)
                return self._collect(ran)
            ran.messages.append(message)
            if "method" not in message:
                assert message["id"] == number
                result = message.get("result", {})
                ran.value, ran.value_repr = result.get("value"), result.get("value_repr")
                ran.error = message["error"]["data"] if "error" in message else None
                return self._collect(ran)
            if on_message(message) or "id" not in message:
                continue
            if message["method"] == MEET:
                held.append(message)
                if len(held) >= message["params"]["n"]:
                    self.write(*({"result": len(held), "id": each["id"]} for each in reversed(held)))
                    held.clear()
            elif message["method"] != HANG:
                self.write({**reply(message["method"], message["params"]), "id": message["id"]})

    def next_message(self, ran: Ran, deadline: float) -> dict[str, Any] | None:
        """The guest's next message; ``None`` when it has closed the wire. Collects its output meanwhile."""
        while b"\n" not in self._line:
            ready, _, _ = select.select([self.from_guest, self.output], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"the guest says nothing; so far: {ran}"
            if self.output in ready:
                data = os.read(self.output, 1 << 16)
                ran.logs += data.decode("utf-8", "replace")
                if not data and self.from_guest not in ready:
                    self.process.wait(SECONDS)
            if self.from_guest in ready:
                data = os.read(self.from_guest, 1 << 16)
                if not data:
                    return None
                self._line += data
        line, _, self._line = self._line.partition(b"\n")
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        if message.get("method") == "print":
            ran.logs += message["params"]["text"]
        return dict(message)

    def _collect(self, ran: Ran) -> Ran:
        os.set_blocking(self.output, False)
        try:
            while data := os.read(self.output, 1 << 16):
                ran.logs += data.decode("utf-8", "replace")
        except BlockingIOError:
            pass
        finally:
            os.set_blocking(self.output, True)
        return ran
