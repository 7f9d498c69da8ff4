"""What a server's process gets of the host's environment."""

from __future__ import annotations

import pytest

from callgate.mcp.client.stdio import environment

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def test_whom_to_trust_is_passed_on_and_credentials_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*CERTIFICATES, "GITHUB_TOKEN", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"/{name}")
    given = environment({"SSL_CERT_FILE": "/own"})
    assert {name: given[name] for name in CERTIFICATES} == {name: f"/{name}" for name in CERTIFICATES} | {
        "SSL_CERT_FILE": "/own"
    }
    assert not {"GITHUB_TOKEN", "HTTPS_PROXY"} & given.keys()
