"""Real MCP servers from the registries, each installed in a folder of its own, once.

A server brings its own packages, and they need not agree with anybody else's: `python_server` gives each a virtual
environment, `node_server` a `node_modules`. They lie in the user's cache (``$XDG_CACHE_HOME/callgate/examples``, by
default ``~/.cache``), named by version; a second run finds them there and needs no network.

Where one cannot be had (no node, no registry) `NotHere` says why, and the example says so and ends. Under ``CI=true`` a
failed installation is an error, so that nobody takes an example for shown that never ran.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["NotHere", "filesystem_server", "git_server", "node_server", "python_server", "time_server"]

INSTALL_SECONDS = 300


class NotHere(Exception):
    """A server cannot be had on this machine; the text says why."""


def git_server(repository: Path) -> list[str]:
    """The command line of the git server of the MCP project (Python), for one repository."""
    if shutil.which("git") is None:
        raise NotHere("the git server needs git")
    return [python_server("mcp-server-git", "2026.10.19"), "--repository", str(repository)]


def time_server() -> list[str]:
    """The command line of its time server (Python)."""
    return [python_server("mcp-server-time", "2026.10.19"), "--local-timezone", "UTC"]


def filesystem_server(folder: Path) -> list[str]:
    """The command line of its filesystem server (Node), for one folder."""
    package = "@modelcontextprotocol/server-filesystem"
    return [*node_server(package, "2026.8.31", "dist/index.js"), str(folder)]


def python_server(package: str, version: str) -> str:
    """The script of a PyPI package, called like the package.

    Raises:
        NotHere: no registry is there, or the package is not in it.
    """

    def install(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
        _run([*pip, "--quiet", f"{package}=={version}"])

    return str(
        _installed(f"{package}-{version}-py{sys.version_info[0]}{sys.version_info[1]}", install) / "bin" / package
    )


def node_server(package: str, version: str, script: str) -> list[str]:
    """How to run a script of an npm package.

    Raises:
        NotHere: there is no node, no npm, or no registry.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NotHere(f"{package} needs node and npm")

    def install(folder: Path) -> None:
        folder.mkdir()
        _run(
            [
                npm,
                "install",
                "--prefix",
                str(folder),
                "--no-audit",
                "--no-fund",
                "--fetch-retries=1",
                f"{package}@{version}",
            ]
        )

    folder = _installed(f"{package.rpartition('/')[2]}-{version}", install)
    return [node, str(folder / "node_modules" / package / script)]


def _installed(name: str, install: Callable[[Path], None]) -> Path:
    """The folder of that name, filled if it is new. Processes that want the same one wait for each other."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "callgate" / "examples"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        folder = cache / name
        with _locked(cache / f".{name}.lock"):
            done = folder / ".complete"
            if not done.exists():
                print(f"installing {name} in {cache}, once", flush=True)
                shutil.rmtree(folder, ignore_errors=True)
                install(folder)
                done.touch()
    except (OSError, subprocess.SubprocessError) as error:
        words = (getattr(error, "stderr", None) or str(error)).split("\n")
        reason = f"{name} cannot be installed: {' '.join(words).strip()[:400]}"
        if os.environ.get("CI") == "true":
            raise RuntimeError(reason) from error
        raise NotHere(reason) from error
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str]) -> None:
    """Run it. Node has certificates of its own; where the system's are others (a company's proxy), it needs those."""
    certificates = ssl.get_default_verify_paths().openssl_cafile
    environment = {**({"NODE_EXTRA_CA_CERTS": certificates} if os.path.exists(certificates) else {}), **os.environ}
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS, env=environment)
