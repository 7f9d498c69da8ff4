"""Credentials reach their server, and nothing else: no other server, no guest, no error, no status, no log."""

from __future__ import annotations

import base64
import json
import logging
from urllib.parse import quote

import pytest

from callgate import ToolError
from callgate.mcp.client.secrets import Secrets
from callgate.runtime.gate.events import listening
from with_mcp.client.served import everything, hostile, serving, until
from with_mcp.client.test_http import free_port, listening_at

pytestmark = pytest.mark.anyio

TOKEN = "sk-live/0123456789+~"
BASIC = base64.b64encode(f"you:{TOKEN}".encode()).decode()


async def test_a_server_gets_its_own_environment_and_nothing_of_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_API_KEY", "the-hosts-own-key")
    monkeypatch.setenv("GIVEN", "given on purpose")
    servers = {"a": everything(SERVICE_TOKEN=TOKEN, PASSED="${GIVEN}"), "b": everything()}
    async with serving(servers) as served:
        assert await served.call("a_get_value", {"name": "SERVICE_TOKEN"}) == {"result": TOKEN}
        assert await served.call("a_get_value", {"name": "PASSED"}) == {"result": "given on purpose"}
        assert await served.call("a_get_value", {"name": "HOST_API_KEY"}) == {"result": "unset"}
        assert await served.call("b_get_value", {"name": "SERVICE_TOKEN"}) == {"result": "unset"}
        assert (await served.call("b_get_value", {"name": "PATH"}))["result"] != "unset"


async def test_a_secret_in_an_error_is_hidden_from_the_caller() -> None:
    async with serving({"ev": everything(SERVICE_TOKEN=TOKEN)}) as served:
        with pytest.raises(ToolError) as raised:
            await served.call("ev_fail_with_secret")
    assert "cannot log in with ***" in raised.value.message
    assert TOKEN not in raised.value.message + str(raised.value) + json.dumps(raised.value.data)


async def test_secrets_are_in_no_status_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    leaky = {
        "command": "sh",
        "args": ["-c", 'echo "key is $API_KEY" >&2; echo "$API_KEY"; exit 1', "--token", "tok-in-args-123"],
        "env": {"API_KEY": TOKEN},
    }
    missing = {"command": f"/no/such/{TOKEN}", "env": {"API_KEY": TOKEN}}
    with caplog.at_level(logging.DEBUG):
        async with serving({"leaky": leaky, "missing": missing, "ok": hostile("well", API_KEY=TOKEN)}) as served:
            await served.until("missing", "failed")
            status = served.servers.status()
            shown = repr(status) + repr([each.line() for each in status]) + repr(vars(served.servers))
    assert status[0].stderr.endswith("key is ***\n")
    assert "its last words: key is ***" in (status[0].error or "")
    assert "the first: ***" in status[0].warnings[-1]
    assert TOKEN not in shown + caplog.text
    assert "tok-in-args" not in shown + caplog.text


async def test_a_tool_says_nothing_of_its_servers_credentials() -> None:
    async with serving({"ev": everything(SERVICE_TOKEN=TOKEN)}) as served:
        shown = "".join(repr(tool) + repr(tool.function) + json.dumps(tool.input_schema) for tool in served.registry)
        assert TOKEN not in shown


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        ("", {"Authorization": "Bearer " + TOKEN}),
        ("", {"Authorization": "Basic " + BASIC}),
        ("me:" + quote(TOKEN, safe="") + "@", {}),
    ],
    ids=["bearer", "basic", "user and password"],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_tells_what_it_was_sent_tells_no_secret(
    user: str, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUERY_PART", "query+secret+4711")
    port = free_port()
    url = f"http://{user}127.0.0.1:{port}/mcp?session=${{QUERY_PART}}&key={quote(TOKEN, safe='')}"
    known = [TOKEN, quote(TOKEN, safe=""), BASIC, "query+secret"]
    heard: list[str | None] = []

    def seen(text: str) -> bool:
        return any(secret in text for secret in known)

    with listening_at(port, "hostile_http.py", "echoes_headers"):
        async with serving({"s": {"url": url, "headers": headers}}) as served:
            for kind in ("is_error", "rpc", "http"):
                with pytest.raises(ToolError) as raised:
                    await served.call("s_echo", {"text": kind})
                assert "accept-encoding" in raised.value.message.lower()
                assert not seen(repr(raised.value) + raised.value.message + json.dumps(raised.value.data))
            token = listening.set(lambda progress, total, message: heard.append(message))
            try:
                assert await served.registry.get("s_echo").function(text="progress") == "fine"
            finally:
                listening.reset(token)
            await until(lambda: len(heard) == 1)
            assert not seen(str(heard))
            tool = served.registry.get("s_echo")
            assert tool.description.startswith("Sent ")
            assert not seen(tool.description + repr(served.servers.status()))


def test_a_secret_of_several_lines_is_hidden_line_by_line_and_as_one() -> None:
    key = Secrets()
    key.add("-----BEGIN KEY-----\nMIIEvQIBADAN\n-----END KEY-----\n")
    assert key.hide("line 2 is MIIEvQIBADAN") == "line 2 is ***"
    assert key.hide("-----BEGIN KEY----- MIIEvQIBADAN -----END KEY-----") == "***"


@pytest.mark.parametrize(
    "value",
    [
        "9f86d081884c7d659a2feaa0c55ad015",
        "550e8400-e29b-41d4-a716-446655440000",
        "AKIAIOSFODNN7EXAMPLEX2",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "https://hooks.example.com/services/T00000000/B0000/XXa9XXXb2XXXc3XX",
    ],
)
def test_what_looks_random_is_hidden_under_any_name(value: str) -> None:
    made = Secrets()
    made.add_named("VALUE", value)
    assert made.hide(f"<{value}>") == "<***>"


@pytest.mark.parametrize(
    "value",
    [
        "issues",
        "repository",
        "http://localhost:8080/mcp",
        "https://api.example.com/v2/repositories",
        "production-eu-west-1",
        "/srv/data/project2024/files",
        "read only, issues, pull_requests",
        "2022-11-28",
    ],
)
def test_plain_words_are_hidden_only_under_names_that_sound_secret(value: str) -> None:
    made = Secrets()
    for name in ("TOOLSET", "X-MCP-Toolsets", "ENVIRONMENT", "BASE_URL", "AUTHOR", "MONGO_DB", "X-Api-Version"):
        made.add_named(name, value)
    assert made.hide(f"List {value} here.") == f"List {value} here."
    for name in (
        "GH_TOKEN",
        "apiKey",
        "API_KEYS",
        "DB_PASS",
        "MYSQL_PWD",
        "X-Auth",
        "SENTRY_DSN",
        "SESSION_ID",
        "Cookie",
    ):
        made = Secrets()
        made.add_named(name, value)
        assert made.hide(f"List {value} here.") == "List *** here.", name


def test_the_password_of_an_address_is_hidden_under_any_name() -> None:
    made = Secrets()
    made.add_named("DATABASE", "postgres://app:hunter22@db/issues?application=repository&sslkey=abcdef")
    hidden = made.hide("postgres://app:hunter22@db/issues as app, hunter22, of issues in repository with abcdef")
    assert hidden == "postgres://***@db/issues as app, ***, of issues in repository with ***"
