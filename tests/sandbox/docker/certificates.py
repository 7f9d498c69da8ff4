"""A certificate authority of the tests' own, a server of 127.0.0.1 and a client that it knows, made by openssl."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

__all__ = ["Certificates"]

_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


class Certificates:
    """Files in `folder`, named as ``DOCKER_CERT_PATH`` wants them: ca.pem, cert.pem, key.pem; and the server's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._openssl("req", "-x509", *self._key("ca-key.pem"), "-subj", "/CN=ca", "-days", "2", "-out", "ca.pem")
        self._signed("server-cert.pem", "server-key.pem", "serverAuth")
        self._signed("cert.pem", "key.pem", "clientAuth")

    def contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """A client's and a server's."""
        client = ssl.create_default_context(cafile=self.folder / "ca.pem")
        client.load_cert_chain(self.folder / "cert.pem", self.folder / "key.pem")
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(self.folder / "server-cert.pem", self.folder / "server-key.pem")
        return client, server

    def _signed(self, certificate: str, key: str, usage: str) -> None:
        (self.folder / "extensions").write_text(f"{_NAMES}\nextendedKeyUsage={usage}\n")
        self._openssl("req", *self._key(key), "-subj", "/CN=localhost", "-out", "request")
        signing = ["-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-extfile", "extensions", "-days", "2"]
        self._openssl("x509", "-req", "-in", "request", *signing, "-out", certificate)

    def _key(self, name: str) -> list[str]:
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", name]

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True, timeout=60)
