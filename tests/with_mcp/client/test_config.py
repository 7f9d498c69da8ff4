"""Configurations as people write them, and as they should not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callgate import ConfigurationError
from callgate.mcp import McpServers
from callgate.mcp.config import ServerConfig, read_config


def one(given: Any, **environment: str) -> ServerConfig:
    (config,) = read_config({"mcpServers": {"s": given}}, environment)
    return config


def fault(given: Any, **environment: str) -> str:
    config = one(given, **environment)
    assert config.fault is not None
    assert "\n" not in config.fault
    return config.fault


CLAUDE_DESKTOP = """{
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me/Desktop"]
    },
    "github": {
      "command": "docker",
      "args": ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"],
      "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_TOKEN}"}
    }
  },
  "globalShortcut": ""
}"""
CURSOR = """{
  "mcpServers": {
    "api": {"url": "https://api.example.com/mcp", "headers": {"Authorization": "Bearer ${env:API_TOKEN}"}},
    "local": {"command": "python", "args": ["${workspaceFolder}/server.py"], "disabled": true, "alwaysAllow": ["x"]}
  }
}"""
VS_CODE = """{
  // the ones we share
  "inputs": [{"id": "key", "type": "promptString", "description": "a // key", "password": true}],
  "servers": {
    "playwright": {"type": "stdio", "command": "npx", "args": ["@playwright/mcp"], "cwd": "${workspaceFolder}"},
    "github": {"type": "http", "url": "https://api.githubcopilot.com/mcp/"}, /* hosted */
    "asked": {"type": "stdio", "command": "x", "env": {"KEY": "${input:key}"}},
    "old": {"type": "sse", "url": "http://localhost:8000/sse",},
  },
}"""


def test_claude_desktops_configuration_is_read(tmp_path: Path) -> None:
    path = tmp_path / "claude_desktop_config.json"
    path.write_text(CLAUDE_DESKTOP)
    files, github = read_config(path, {"GITHUB_TOKEN": "ghp_secret"})
    assert (files.name, files.transport, files.command) == ("filesystem", "stdio", "npx")
    assert files.args == ("-y", "@modelcontextprotocol/server-filesystem", "/home/me/Desktop")
    assert github.env == {"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_secret"}
    assert files.fault is github.fault is None
    assert not files.notes
    assert not github.notes


def test_cursors_configuration_is_read(tmp_path: Path) -> None:
    folder = tmp_path / ".cursor"
    folder.mkdir()
    (folder / "mcp.json").write_text(CURSOR)
    api, local = read_config(folder / "mcp.json", {"API_TOKEN": "tok_12345"})
    assert (api.transport, api.url) == ("http", "https://api.example.com/mcp")
    assert api.headers == {"Authorization": "Bearer tok_12345"}
    assert local.disabled
    assert local.notes == ("the key 'alwaysAllow' means nothing to callgate",)


def test_vs_codes_configuration_is_read_with_its_comments(tmp_path: Path) -> None:
    folder = tmp_path / ".vscode"
    folder.mkdir()
    (folder / "mcp.json").write_text(VS_CODE)
    playwright, github, asked, old = read_config(folder / "mcp.json", {})
    assert playwright.cwd == str(tmp_path)
    assert (github.transport, github.url) == ("http", "https://api.githubcopilot.com/mcp/")
    assert asked.fault is not None
    assert "${input:key} would be asked for by an editor" in asked.fault
    assert (old.transport, old.fault) == ("sse", None)


def test_vs_codes_settings_hold_them_under_mcp() -> None:
    (config,) = read_config({"mcp": {"servers": {"s": {"command": "x"}}}}, {})
    assert config.command == "x"


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${A}", "a-value"),
        ("x${A}y${B}", "xa-valueyb"),
        ("${env:A}", "a-value"),
        ("${NO:-default}", "default"),
        ("${NO:-}", ""),
        ("${EMPTY:-default}", "default"),
        ("${EMPTY}", ""),
        ("${A:-default}", "a-value"),
        ("${LOOP}", "${A}"),
        ("$A $${", "$A $${"),
        ("${/}", "/"),
    ],
)
def test_variables_are_filled_in(text: str, expanded: str) -> None:
    config = one({"command": "x", "args": [text]}, A="a-value", B="b", EMPTY="", LOOP="${A}")
    assert config.args == (expanded,)


def test_a_variable_that_is_not_set_is_one_clear_line() -> None:
    assert fault({"command": "x", "env": {"TOKEN": "${GITHUB_TOKEN}"}}) == (
        "the environment variable 'GITHUB_TOKEN' is not set; set it, or write ${GITHUB_TOKEN:-default}"
    )


def test_one_faulty_server_leaves_the_others_alone() -> None:
    good, bad = read_config({"mcpServers": {"good": {"command": "x"}, "bad": {"command": []}}}, {})
    assert good.fault is None
    assert bad.fault == "'command': Input should be a valid string"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("npx", 'it must be an object like {"command": "..."}, not a string'),
        ({}, "it needs 'command' (a program to start) or 'url' (an endpoint)"),
        ({"command": "x", "url": "http://y"}, "it has both 'command' and 'url'; keep one, or say which with 'type'"),
        ({"command": ""}, "'command': String should have at least 1 character"),
        ({"command": "x", "args": "-y server"}, "'args': Input should be a valid tuple"),
        ({"command": "x", "args": [{}]}, "'args': 0: Input should be a valid string"),
        ({"command": "x", "env": ["A=b"]}, "'env': Input should be a valid dictionary"),
        ({"command": "x", "env": {"A": None}}, "'env': 'A': Input should be a valid string"),
        ({"command": "x", "cwd": "/no/such"}, "'cwd' is '/no/such', and there is no such folder"),
        ({"type": "carrier-pigeon", "url": "x"}, "'type': Input should be 'stdio', 'http' or 'sse'"),
        ({"type": "stdio", "url": "http://x"}, "it is of type 'stdio' and needs 'command', the program to start"),
        ({"type": "http", "command": "x"}, "it is of type 'http' and needs 'url'"),
        *(
            ({"url": url}, "'url': it must be a URL that begins with http:// or https:// and a host")
            for url in ("ftp://x", "http://", "http://[::1", "http://x:port")
        ),
        *(
            ({"url": "http://x", "headers": {"A": value}}, "'headers': 'A': String should match pattern '^[ -~]*$'")
            for value in ("b\nc", "b\0c", "b\u00fc")
        ),
        (
            {"url": "http://x", "headers": {"A b": "c"}},
            "'headers': 'A b': String should match pattern '^[!#$%&'*+.^_`|~0-9A-Za-z-]+$'",
        ),
        ({"command": "x", "cwd": "~no-such-user/x"}, "Could not determine home directory."),
        ({"command": "x", "timeout": 0}, "'timeout': Input should be greater than 0"),
        ({"command": "x", "max_concurrent_calls": 0}, "'max_concurrent_calls': Input should be greater than 0"),
        ({"command": "x", "timeout": True}, "'timeout': Input should be a valid number"),
        ({"command": "x", "disabled": "no"}, "'disabled': Input should be a valid boolean"),
        ({"command": "x", "envFile": "/no/such"}, "'envFile' '/no/such' cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_with_a_server_is_said_in_one_line(given: Any, why: str) -> None:
    assert fault(given) == why


def test_lists_without_end_are_the_fault_of_one_server() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert fault({"command": "x", "args": endless}).startswith("maximum recursion depth exceeded")


def test_unknown_keys_are_a_note_and_not_a_fault() -> None:
    config = one({"command": "x", "autoApprove": [], "arg": ["y"], "description": "a server"})
    assert config.fault is None
    assert config.notes == (
        "the key 'autoApprove' means nothing to callgate",
        "the key 'arg' means nothing to callgate; did you mean args?",
    )


def test_a_disabled_server_needs_no_variables() -> None:
    assert one({"command": "${NO}", "disabled": True}).fault is None
    assert one({"command": "x", "enabled": False}).disabled


def test_a_long_timeout_is_in_milliseconds() -> None:
    assert one({"command": "x", "timeout": 60}).timeout_seconds == 60
    config = one({"command": "x", "timeout": 30000})
    assert config.timeout_seconds == 30
    assert config.notes == ("'timeout' 30000 is taken for milliseconds",)


def test_an_env_file_is_read_and_env_goes_before_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# keys\n\nexport A=1\nB='two words' # no\nC=\"x\\ny\"\nD=plain # comment\nE=\n")
    config = one({"command": "x", "envFile": str(tmp_path / ".env"), "env": {"A": "2"}})
    assert config.env == {"A": "2", "B": "two words", "C": "x\ny", "D": "plain", "E": ""}


def test_blanks_around_a_url_go() -> None:
    assert one({"url": "${URL}"}, URL=" http://x/mcp\n").url == "http://x/mcp"


@pytest.mark.parametrize(
    "given",
    [
        {"url": "http://x", "headers": {"Authorization: Bearer hunter2": ""}},
        {"url": "http://x", "headers": {"X-Api-Key:hunter2": ""}},
        {"command": "x", "env": {"TOKEN=hunter2": None}},
    ],
)
def test_a_value_that_stands_in_a_key_is_not_repeated(given: Any) -> None:
    said = fault(given)
    assert "***" in said
    assert "hunter2" not in said


@pytest.mark.parametrize("line", ["hunter2hunter2", "hunter2 hunter2", "=hunter2", "TOKEN='hunter2", "'hunter2"])
def test_a_bad_line_of_an_env_file_is_not_repeated(tmp_path: Path, line: str) -> None:
    (tmp_path / ".env").write_text(f"A=1\n{line}\n")
    said = fault({"command": "x", "envFile": str(tmp_path / ".env")})
    assert said.endswith("a line is not NAME=value")
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "must hold an object"),
        ('{"mcpServer": {}}', "has no 'mcpServers' (or 'servers', as in VS Code); it has 'mcpServer'"),
        ("{}", "has no 'mcpServers' (or 'servers', as in VS Code); it has nothing"),
        ('{"mcpServers": []}', "'mcpServers' must be an object of servers by name, not a list"),
        ('{"mcpServers": {"a": {}, "a": {}}}', "the key 'a' occurs twice in one object"),
        ('{"mcpServers": {"": {}}}', "a server's name must not be empty"),
        ('{"mcpServers": {"a\\nb": {}}}', "a server's name must be printable"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_wrong_with_the_file_is_raised(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "servers.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        McpServers.read(path)
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"servers\.json cannot be read: No such file or directory"):
        McpServers.read(tmp_path / "servers.json")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ConfigurationError, match="is not JSON: 'utf-8' codec"):
        McpServers.read(tmp_path / "a.json")


def test_comments_inside_strings_stay(tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    path.write_text('{"mcpServers": {"s": {"url": "http://x//y", "headers": {"A": "/* b */ ,}"},},}} // end')
    (config,) = read_config(path, {})
    assert config.url == "http://x//y"
    assert config.headers == {"A": "/* b */ ,}"}


def test_what_is_secret_is_not_in_a_representation() -> None:
    config = one(
        {
            "command": "x",
            "args": ["--api-key", "sk-args-secret", "--token=tok-secret"],
            "env": {"API_KEY": "sk-env-secret"},
        }
    )
    web = one(
        {"url": "https://user:pw-secret@x/y?key=query-secret", "headers": {"Authorization": "Bearer head-secret"}}
    )
    assert "secret" not in repr(config) + repr(web) + json.dumps([config.command, web.name])
    hidden = config.secrets.hide("sk-args-secret tok-secret sk-env-secret plain")
    assert hidden == "*** *** *** plain"
    assert "secret" not in web.secrets.hide("pw-secret query-secret head-secret Bearer head-secret")


def test_plain_words_of_env_files_headers_variables_and_queries_are_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "e.env").write_text("TOOLSET=issues\nENVIRONMENT=repository\nAPI_TOKEN=abcdef\n")
    said = "List issues in a repository."
    local = one({"command": "x", "envFile": str(tmp_path / "e.env"), "env": {"WHAT": "${WHAT}"}}, WHAT="issues")
    assert local.secrets.hide(f"{said} abcdef") == f"{said} ***"
    web = one({"url": "https://x/y?toolsets=repository&key=abcdef", "headers": {"X-MCP-Toolsets": "issues"}})
    assert web.secrets.hide(f"{said} abcdef") == f"{said} ***"


def test_ordinary_values_are_not_hidden() -> None:
    config = one(
        {"command": "x", "args": ["--root", "/srv/data"], "env": {"LOG_LEVEL": "debugging", "MODE": "readonly"}}
    )
    assert config.secrets.hide("debugging readonly /srv/data") == "debugging readonly /srv/data"
