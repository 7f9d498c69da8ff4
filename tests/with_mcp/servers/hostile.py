"""Servers that go wrong, written by hand: ``python hostile.py KIND``. Standard library only.

What every kind has in common is a handshake, a listing of one tool, and calls that are echoed; each kind spoils a part.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

out = sys.stdout.buffer
ECHO = {
    "name": "echo",
    "description": "Give the text back.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}


def send(message: Any) -> None:
    out.write(json.dumps(message).encode() + b"\n")
    out.flush()


def answer(request: dict[str, Any], result: Any) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


class Server:
    """A well-behaved one; kinds change it."""

    def __init__(self) -> None:
        self.tools: list[Any] = [ECHO]
        self.list_tools: Callable[[dict[str, Any]], None] = lambda r: answer(r, {"tools": self.tools})
        self.call: Callable[[dict[str, Any]], None] = lambda r: answer(
            r, text(r["params"]["arguments"].get("text", ""))
        )
        self.initialize: Callable[[dict[str, Any]], None] = self.greet
        self.notified: Callable[[dict[str, Any]], None] = lambda n: None
        self.other: Callable[[dict[str, Any]], None] = self.refuse

    def greet(self, request: dict[str, Any]) -> None:
        capabilities = {"tools": {"listChanged": True}}
        info = {"name": "hostile", "version": "0"}
        version = request["params"]["protocolVersion"]
        answer(request, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})

    def refuse(self, request: dict[str, Any]) -> None:
        send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}})

    def run(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            method = message.get("method")
            if "id" not in message:
                self.notified(message)
            elif method == "initialize":
                self.initialize(message)
            elif method == "tools/list":
                self.list_tools(message)
            elif method == "tools/call":
                self.call(message)
            elif method is not None:
                self.other(message)


def note(line: str) -> None:
    with Path(os.environ["HOSTILE_NOTES"]).open("a") as file:
        file.write(line + "\n")


def starts() -> int:
    """How often this has been started, this time included."""
    note("start")
    return Path(os.environ["HOSTILE_NOTES"]).read_text().count("start\n")


def forever(*_: Any) -> None:
    while True:
        time.sleep(3600)


server = Server()


def hang_at_start() -> None:
    server.initialize = forever


def hang_and_ignore_the_end() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server.initialize = forever


def hang_in_listing() -> None:
    server.list_tools = forever


def late() -> None:
    """Starts when a file appears."""
    while not Path(os.environ["HOSTILE_GO"]).exists():
        time.sleep(0.02)


def exits_at_once() -> None:
    sys.stderr.write("Error: Cannot find module 'left-pad'\n")
    sys.exit(1)


def crashes_at_first_start() -> None:
    if starts() == 1:
        sys.stderr.write("not today\n")
        sys.exit(7)


def crashes_at_every_start() -> None:
    starts()
    sys.exit(9)


def garbage_before() -> None:
    out.write(b'Starting server on stdio...\n\xff\xfe\x00 not even text\n[1, 2\n{}\n{"jsonrpc": "1.0"}\n\n')
    out.flush()


def only_garbage() -> None:
    def initialize(_: dict[str, Any]) -> None:
        out.write(b"hello?\n" * 1000)
        out.flush()

    server.initialize = initialize


def garbage_without_end() -> None:
    while True:
        out.write(b"x" * 4000 + b"\n")


def garbage_in_calls() -> None:
    def call(request: dict[str, Any]) -> None:
        out.write(b"debug: about to answer\n")
        answer(request, text("answered"))

    server.call = call


def wrong_answer() -> None:
    server.call = lambda r: answer(r, {"content": [{"type": "hologram", "data": 5}]})


def answer_that_is_no_object() -> None:
    server.call = lambda r: answer(r, [1, 2, 3])


def wordy_artifacts() -> None:
    """A mime type and a URI of a million characters."""
    content = [
        {"type": "image", "data": "eHh4", "mimeType": "image/" + "x" * 1_000_000},
        {"type": "resource", "resource": {"uri": "note://" + "x" * 999_993, "blob": "eHh4"}},
    ]
    server.call = lambda r: answer(r, {"content": content})


def fails_at_length() -> None:
    content = [{"type": "text", "text": "no " * 1_000_000}]
    server.call = lambda r: answer(r, {"isError": True, "content": content, "structuredContent": {"a": [1] * 100_000}})


def flood() -> None:
    """Notifications as fast as they go, from the first call on."""

    def call(request: dict[str, Any]) -> None:
        message = json.dumps(
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        )
        block = (message + "\n").encode() * 200
        while True:
            out.write(block)

    server.call = call


def without_end(block: Callable[[dict[str, Any]], bytes]) -> None:
    """At the first call, this for ever, and no answer."""

    def call(request: dict[str, Any]) -> None:
        made = block(request)
        while True:
            out.write(made)

    server.call = call


def message(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n"


def flood_of_progress() -> None:
    def progress(request: dict[str, Any]) -> bytes:
        token = request["params"]["_meta"]["progressToken"]
        return message("notifications/progress", progressToken=token, progress=1, message="x" * 1000) * 100

    without_end(progress)


def flood_of_large_notifications() -> None:
    without_end(lambda _: message("notifications/message", level="info", data=[[]] * 20_000 + ["[," * 100_000]))


def notification_of_many_values() -> None:
    without_end(lambda _: message("notifications/message", level="info", data=[[]] * 30_000))


def answer_of_many_values_to_no_request() -> None:
    without_end(lambda _: b'{"jsonrpc":"2.0","id":4711,"result":{"a":[%s0]}}\n' % (b"[]," * 30_000))


def flood_of_empty_lines() -> None:
    without_end(lambda _: b"\n" * 65_536)


def flood_of_answers() -> None:
    without_end(lambda _: b'{"jsonrpc":"2.0","id":4711,"result":{}}\n' * 1000)


def flood_of_list_changes() -> None:
    def call(request: dict[str, Any]) -> None:
        answer(request, text("flooding"))
        message = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        out.write((message + "\n").encode() * 3000)
        out.flush()

    server.call = call


def flood_of_requests() -> None:
    def call(request: dict[str, Any]) -> None:
        number = 0
        while True:
            number += 1
            send({"jsonrpc": "2.0", "id": f"r{number}", "method": "ping"})

    server.call = call


def flood_of_stderr() -> None:
    def call(request: dict[str, Any]) -> None:
        for _ in range(20_000):
            sys.stderr.write("e" * 1000 + "\n")
        sys.stderr.write("the last line\n")
        sys.stderr.flush()
        answer(request, text("done"))

    server.call = call


def huge_line() -> None:
    """Answers with a line of so many MiB, its id in front; the next call is answered as usual."""

    def call(request: dict[str, Any]) -> None:
        mebibytes = int(request["params"]["arguments"].get("text", "0") or 0)
        if not mebibytes:
            return answer(request, text("small"))
        where = os.environ.get("HOSTILE_ID", "first")
        if where == "first":
            out.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % request["id"])
        else:
            out.write(b'{"result":{"content":[{"type":"text","text":"')
        for _ in range(mebibytes):
            out.write(b"x" * 1024 * 1024)
        out.write(b'"}]}' + (b"" if where == "first" else b',"jsonrpc":"2.0","id":%d' % request["id"]) + b"}\n")
        out.flush()
        return None

    server.call = call


def strange_values() -> None:
    """Answers with so many empty lists, or with lists nested so deep."""

    def call(request: dict[str, Any]) -> None:
        kind, _, number = request["params"]["arguments"].get("text", "").partition(" ")
        values = {"many": "[],", "deep": "["}.get(kind, "") * int(number or 0)
        closed = values[:-1] if kind == "many" else values + "]" * len(values)
        answered = '{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"a":[%s]}}}\n'
        out.write((answered % (request["id"], closed)).encode())
        out.flush()

    server.call = call


def line_without_end() -> None:
    def call(request: dict[str, Any]) -> None:
        while True:
            out.write(b"x" * 1024 * 1024)

    server.call = call


def dies_in_call() -> None:
    def call(request: dict[str, Any]) -> None:
        if request["params"]["arguments"].get("text") == "die":
            sys.stderr.write("Segmentation fault, more or less\n")
            sys.stderr.flush()
            os._exit(11)
        answer(request, text("alive"))

    server.call = call


def dies_by_signal() -> None:
    server.call = lambda _: os.kill(os.getpid(), signal.SIGKILL)


def closes_stdout() -> None:
    def call(_: dict[str, Any]) -> None:
        os.close(1)
        forever()

    server.call = call


def never_reads() -> None:
    """Reads no more after its first call."""
    server.call = forever


def tools_without_end() -> None:
    server.list_tools = lambda r: answer(r, {"tools": [], "nextCursor": r.get("params", {}).get("cursor", "") + "x"})


def tools_in_a_circle() -> None:
    server.list_tools = lambda r: answer(r, {"tools": [ECHO] if "params" not in r else [], "nextCursor": "again"})


def tools_with_a_long_cursor() -> None:
    server.list_tools = lambda r: answer(r, {"tools": [ECHO], "nextCursor": "x" * 1_000_000})


def tools_of_many_bytes() -> None:
    """Eight tools of a million bytes a page, for ever, and a small one last on each."""

    def list_tools(request: dict[str, Any]) -> None:
        page = int(request.get("params", {}).get("cursor", "0"))
        large = [{"name": f"large_{page}_{n}", "title": "x" * 1_000_000} for n in range(8)]
        answer(request, {"tools": [*large, {**ECHO, "name": f"echo_{page}"}], "nextCursor": str(page + 1)})

    server.list_tools = list_tools


def tools_of_many_values() -> None:
    """Three tools whose schemas hold 100,000 empty objects each."""
    schema = {"type": "object", "enum": [{}] * 100_000}
    server.tools = [{"name": f"tool_{n}", "inputSchema": schema} for n in range(3)]
    server.tools.append(ECHO)


def pages() -> None:
    def list_tools(request: dict[str, Any]) -> None:
        page = int(request.get("params", {}).get("cursor", "0"))
        tools = [{**ECHO, "name": f"tool_{page}_{n}"} for n in range(10)]
        answer(request, {"tools": tools} | ({"nextCursor": str(page + 1)} if page < 4 else {}))

    server.list_tools = list_tools


def two_thousand_tools() -> None:
    server.tools = [
        {
            "name": f"tool{number}",
            "description": f"Tool number {number}.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "what to look for"},
                    "options": {
                        "type": "object",
                        "properties": {"deep": {"type": "boolean"}, "n": {"type": "integer"}},
                    },
                },
                "required": ["query"],
            },
        }
        for number in range(2000)
    ]


def bad_tools() -> None:
    """A listing in which hardly anything is as it should be, and one tool is."""
    deep: Any = {"type": "string"}
    for _ in range(150):
        deep = {"type": "array", "items": deep}
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    named = [
        ("invalid", {"type": "object", "properties": {"x": {"type": "strnig"}}}),
        ("recursive", {"type": "object", "properties": {"n": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}),
        ("endless", {"$ref": "#"}),
        ("deep", {"type": "object", "properties": {"x": deep}}),
        ("enormous", {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(60_000)}}),
        ("foreign", {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/schema.json"}}}),
        ("pattern", {"type": "object", "properties": {"mail": {"type": "string", "pattern": "^(?!x)(?=y).*$"}}}),
        ("no_object", {"type": "array"}),
        ("text", "not a schema"),
        ("nothing", None),
        ("boolean", True),
        ("required", {"type": "object", "required": 5}),
    ]
    server.tools = [{"name": name, "inputSchema": schema} for name, schema in named]
    server.tools += [
        None,
        5,
        {"name": 7, "inputSchema": {"type": "object"}},
        {"name": "", "inputSchema": {"type": "object"}},
        {"name": "   ", "inputSchema": {"type": "object"}},
        {"inputSchema": {"type": "object"}},
        {"name": "twice", "inputSchema": {"type": "object"}},
        {"name": "twice", "inputSchema": {"type": "object"}},
        {"name": "odd_hints", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "yes"}},
        {"name": "no_hints", "inputSchema": {"type": "object"}, "annotations": 5},
        {"name": "wordy", "description": "w" * 100_000, "inputSchema": {"type": "object"}},
        {"name": "control", "description": "red \x1b[31m alert\x07", "inputSchema": {"type": "object"}},
        {"name": "not_words", "description": {"a": 1}, "inputSchema": {"type": "object"}},
        {"name": "bad_output", "inputSchema": {"type": "object"}, "outputSchema": {"type": "strnig"}},
        ECHO,
    ]


def bad_names() -> None:
    names = ["__class__", "print", "execute_code", "class", "get-x", "get_x", "get.x", "s\u0435arch", "search", "天気"]
    names += ["\u202egnirts", "a" * 500, "with\nnewline", "rpc.x", "ﬁle", "1st", "tools"]
    server.tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    server.call = lambda r: answer(r, text(r["params"]["name"]))


def structured() -> None:
    """Structured content that does or does not keep its promise."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wrapped = {"type": "object", "properties": {"result": {"type": "array", "items": {"type": "integer"}}}}
    wrapped["x-fastmcp-wrap-result"] = True  # type: ignore[assignment]
    results: dict[str, Any] = {
        "right": {"content": [], "structuredContent": {"n": 1}},
        "wrong": {"content": [], "structuredContent": {"n": "one"}},
        "none": {"content": [{"type": "text", "text": "no structure"}]},
        "in_text": {"content": [{"type": "text", "text": '{"n": 2}'}]},
        "wrapped": {"content": [], "structuredContent": {"result": [1, 2]}},
    }
    server.tools = [
        {
            "name": name,
            "inputSchema": {"type": "object"},
            "outputSchema": wrapped if name == "wrapped" else schema,
            "annotations": {"readOnlyHint": True},
        }
        for name in results
    ]
    server.call = lambda r: answer(r, results[r["params"]["name"]])


def beside() -> None:
    """An image and a link beside structured content; output schemas that have room for them, and such that do not."""
    closed: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    schemas = {
        "closed": closed,
        "typed": {**closed, "additionalProperties": {"type": "integer"}},
        "unevaluated": {"type": "object", "properties": {"n": {}}, "unevaluatedProperties": False},
        "in_text": closed,
        "has_the_key": {"type": "object", "properties": {"artifacts": {"type": "integer"}}},
        "by_reference": {"$ref": "#/$defs/a", "$defs": {"a": closed}},
        "wrapped": {"type": "object", "properties": {"result": {"type": "integer"}}, "x-fastmcp-wrap-result": True},
        "wrapped_object": {"type": "object", "properties": {"result": closed}, "x-fastmcp-wrap-result": True},
    }
    values: dict[str, Any] = {
        "has_the_key": {"artifacts": 1},
        "wrapped": {"result": 1},
        "wrapped_object": {"result": {"n": 1}},
    }
    server.tools = [{"name": name, "inputSchema": {}, "outputSchema": schema} for name, schema in schemas.items()]

    def call(request: dict[str, Any]) -> None:
        name = request["params"]["name"]
        value = values.get(name, {"n": 1})
        text = {"type": "text", "text": json.dumps(value)}
        image = {"type": "image", "data": "eHh4", "mimeType": "image/png"}
        link = {"type": "resource_link", "uri": "note://1", "name": "first"}
        structured = {} if name == "in_text" else {"structuredContent": value}
        answer(request, {"content": [text, image, link], **structured})

    server.call = call


def old_version() -> None:
    def initialize(request: dict[str, Any]) -> None:
        info = {"name": "old", "version": "0"}
        answer(request, {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": info})

    server.initialize = initialize


def unknown_version() -> None:
    def initialize(request: dict[str, Any]) -> None:
        info = {"name": "strange", "version": "0"}
        answer(request, {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": info})

    server.initialize = initialize


def only_modern() -> None:
    """Speaks 2026-07-28 and nothing else."""

    def initialize(request: dict[str, Any]) -> None:
        error = {"code": -32022, "message": "Unsupported protocol version", "data": {"supported": ["2026-07-28"]}}
        error["data"]["requested"] = request["params"]["protocolVersion"]  # type: ignore[index]
        send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def other(request: dict[str, Any]) -> None:
        if request["method"] == "server/discover":
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}
            return answer(request, result | {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
        if request["method"] == "subscriptions/listen":
            meta = {"io.modelcontextprotocol/subscriptionId": request["id"]}
            params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
            send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
            self_listening.append(meta)
            return None
        return server.refuse(request)

    self_listening: list[Any] = []
    rounds: dict[str, int] = {}

    def call(request: dict[str, Any]) -> None:
        given = request["params"]["arguments"].get("text", "")
        if given == "grow" and self_listening:
            server.tools = [ECHO, {**ECHO, "name": "grown"}]
            method = "notifications/tools/list_changed"
            send({"jsonrpc": "2.0", "method": method, "params": {"_meta": self_listening[0]}})
        if given == "ask":
            asked = {
                "name": {
                    "method": "elicitation/create",
                    "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
                }
            }
            return answer(request, {"resultType": "input_required", "inputRequests": asked})
        if given == "later" and rounds.setdefault("later", 0) < 2:
            rounds["later"] += 1
            return answer(request, {"resultType": "input_required", "requestState": "s"})
        return answer(request, text(given) | {"resultType": "complete"})

    server.initialize = initialize
    server.other = other
    server.call = call


def dies_when_asked_too_early() -> None:
    """Ends when anything comes before the handshake, as some servers do."""

    def initialize(request: dict[str, Any]) -> None:
        server.other = server.refuse
        server.greet(request)

    server.initialize = initialize
    server.other = lambda _: sys.exit(1)


def tells_of_cancellation() -> None:
    def notified(message: dict[str, Any]) -> None:
        if message["method"] == "notifications/cancelled":
            note(f"cancelled {message['params']['requestId']}")

    def call(request: dict[str, Any]) -> None:
        note(f"call {request['id']}")  # and no answer

    server.notified = notified
    server.call = call


def asks() -> None:
    """Asks the client for things before it answers."""

    def call(request: dict[str, Any]) -> None:
        for number, method in enumerate(
            ("ping", "roots/list", "sampling/createMessage", "elicitation/create", "no/such")
        ):
            send(
                {
                    "jsonrpc": "2.0",
                    "id": f"q{number}",
                    "method": method,
                    "params": {
                        "messages": [],
                        "maxTokens": 1,
                        "message": "?",
                        "requestedSchema": {"type": "object", "properties": {}},
                    },
                }
            )
        replies = []
        for line in sys.stdin:
            replies.append(json.loads(line))
            if len(replies) == 5:
                break
        told = {reply["id"]: "result" if "result" in reply else reply["error"]["message"] for reply in replies}
        answer(request, text(json.dumps(told)))

    server.call = call


def slow() -> None:
    def call(request: dict[str, Any]) -> None:
        time.sleep(float(request["params"]["arguments"].get("text") or 0))
        answer(request, text("slow"))

    server.call = call


def leaves_a_child() -> None:
    """Its child holds its stdout, and it ends in a call."""

    def call(request: dict[str, Any]) -> None:
        if os.fork() == 0:
            forever()
        os._exit(0)

    server.call = call


def ignores_its_end() -> None:
    """Neither a closed stdin nor SIGTERM ends it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server.run()
    forever()


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind != "well":
        globals()[kind]()
    server.run()
