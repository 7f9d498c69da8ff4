"""HTTP servers that go wrong, written by hand: ``python hostile_http.py KIND PORT``. Standard library only.

They speak enough of streamable HTTP for a handshake, a listing of one tool, and calls; each kind spoils a part.
"""

from __future__ import annotations

import gzip
import json
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KIND = sys.argv[1]
ECHO = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
ECHO["annotations"] = {"readOnlyHint": True}
calls = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if KIND.startswith("get_"):  # what a server of the older transport may say to who opens its stream
            self.plain(int(KIND[4:]), b"no stream", headers={"location": "http://elsewhere.example/"})
        else:
            self.plain(405, b"")

    def do_DELETE(self) -> None:
        self.plain(200, b"")

    def do_POST(self) -> None:
        global calls
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if KIND == "status_500":
            return self.plain(500, b"<html>internal secrets</html>")
        if KIND == "not_found":
            return self.plain(404, b"nope")
        if KIND == "redirects":
            self.send_response(307)
            self.send_header("location", "http://elsewhere.example/mcp")
            self.send_header("content-length", "0")
            return self.end_headers()
        if KIND == "html":
            return self.plain(200, b"<html>hello</html>", "text/html")
        if KIND == "garbage":
            return self.plain(200, b"{not json", "application/json")
        if "id" not in request:
            return self.plain(202, b"")
        if request["method"] == "initialize":
            info = {"name": "hostile", "version": "0"}
            version = request["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            return self.answer(request, result, {"mcp-session-id": f"session-{time.time()}"})
        if request["method"] == "tools/list":
            described = (
                {"description": f"Sent {self.headers.get('authorization')}."} if KIND == "echoes_headers" else {}
            )
            return self.answer(request, {"tools": [ECHO | described]})
        calls += 1
        return self.call(request)

    def call(self, request: dict[str, Any]) -> None:
        text = {"content": [{"type": "text", "text": "fine"}]}
        match KIND:
            case "huge":
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                block = b"%x\r\n" % 1_000_000 + b"x" * 1_000_000 + b"\r\n"
                while True:
                    self.wfile.write(block)
            case "huge_event":
                self.events()
                while True:
                    self.wfile.write(b"data: " + b"x" * 1_000_000)
            case "gzip_bomb":
                body = gzip.compress(b" " * 50_000_000)
                self.plain(200, body, "application/json", {"content-encoding": "gzip"})
            case "flood":
                self.events()
                note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
                block = b"data: " + json.dumps(note).encode() + b"\n\n"
                while True:
                    self.wfile.write(block * 100)
            case "echoes_headers":
                sent = f"{self.path} {dict(self.headers)}"
                given = request["params"]["arguments"].get("text")
                if given == "progress":
                    self.events()
                    number = request["params"]["_meta"]["progressToken"]
                    params = {"progressToken": number, "progress": 1, "message": sent}
                    told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                    result = {"jsonrpc": "2.0", "id": request["id"], "result": text}
                    for each in (told, result):
                        self.wfile.write(b"data: " + json.dumps(each).encode() + b"\n\n")
                    self.close_connection = True
                elif given == "is_error":
                    content = [{"type": "text", "text": sent}]
                    self.answer(request, {"isError": True, "content": content, "structuredContent": {sent: [sent]}})
                else:
                    error = {"code": -32000, "message": sent, "data": {"headers": [sent]}}
                    failed = json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode()
                    self.plain(400 if given == "http" else 200, failed, "application/json", {"x-sent": sent})
            case "hangs":
                time.sleep(3600)
            case "breaks":
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "1000")
                self.end_headers()
                self.wfile.write(b'{"jsonrpc"')
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
            case "breaks_events":
                self.events()
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
            case "forgets" if calls == 1:
                self.plain(404, b"no such session")
            case "refuses":
                self.plain(403, b"not you")
            case _:
                self.answer(request, text)

    def events(self, kind: str = "text/event-stream") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()

    def answer(self, request: dict[str, Any], result: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
        self.plain(200, body, "application/json", headers)

    def plain(self, status: int, body: bytes, kind: str = "text/plain", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[2])), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("listening", flush=True)
    sys.stdin.read()
