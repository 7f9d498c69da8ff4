"""Credentials reach their server, and nothing else: no other server, no guest, no error, no status, no log."""

from __future__ import annotations

import json
import logging

import pytest

from callgate import ToolError
from with_mcp.client.served import everything, hostile, serving

pytestmark = pytest.mark.anyio

TOKEN = "sk-live-0123456789"


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
