"""A page in Chromium: its console, its requests, and what is wider than the window. Speaks the DevTools protocol over
two pipes (https://chromedevtools.github.io/devtools-protocol/)."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Browser", "Seen", "browser_or_skip"]

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDER = """(() => {
  const width = document.documentElement.clientWidth;
  const clipped = each => {
    for (let at = each.parentElement; at && at !== document.body; at = at.parentElement)
      if (getComputedStyle(at).overflowX !== 'visible') return true;
    return false;
  };
  const wider = [...document.querySelectorAll('*')].filter(each => {
    const box = each.getBoundingClientRect();
    return box.width > 0 && (box.right > width + 1 || box.left < -1) && !clipped(each);
  });
  return JSON.stringify({
    wider: wider.slice(0, 5).map(each => each.outerHTML.slice(0, 200)),
    scrolls: document.documentElement.scrollWidth > width,
    scripts: document.scripts.length, title: document.title, pwned: 'pwned' in window,
    handlers: [...document.querySelectorAll('*')].flatMap(each => each.getAttributeNames()).filter(
      name => name.startsWith('on')),
  });
})()"""


@dataclass(frozen=True)
class Seen:
    """What a browser saw of a page."""

    console: list[str]
    requests: list[str]
    """Addresses besides the page's own."""
    wider: list[str]
    """Elements that reach beyond the window."""
    scrolls: bool
    """Whether the page scrolls sideways."""
    scripts: int
    title: str
    pwned: bool
    """Whether a script of the page ran."""
    handlers: list[str]


class Browser:
    """Chromium without a window; every wait ends after `seconds`."""

    def __init__(self, program: str, folder: Path, seconds: float = 60.0) -> None:
        self.seconds = seconds
        self.events: list[dict[str, Any]] = []
        self._number, self._rest = 0, b""
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        line = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        options = [
            "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
            "--disable-background-networking", "--disable-dev-shm-usage", "--hide-scrollbars",
            f"--user-data-dir={folder}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            ["bash", "-c", line, program, *options], pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = ""
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    _session = ""

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError, AssertionError):
            self._session = ""
            self.call("Browser.close")
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its result."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": parameters, **session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def look(self, page: Path, width: int, *, dark: bool = False) -> Seen:
        """Open a page in a window of this width and look at it."""
        self.events.clear()
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=page.as_uri())
        while not any(each.get("method") == "Page.loadEventFired" for each in self.events):
            self.events.append(self._next())
        value = self.call("Runtime.evaluate", expression=WIDER)["result"]["value"]
        requests = [
            each["params"]["request"]["url"] for each in self.events if each["method"] == "Network.requestWillBeSent"
        ]
        said = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        console = [json.dumps(each["params"])[:500] for each in self.events if each["method"] in said]
        others = [url for url in requests if url != page.as_uri() and not url.startswith("data:")]
        return Seen(console=console, requests=others, **json.loads(value))

    def are_on_paper(self, selector: str) -> list[bool]:
        """Whether elements can be seen where the page is printed."""
        self.call("Emulation.setEmulatedMedia", media="print")
        script = f"JSON.stringify([...document.querySelectorAll('{selector}')].map(each => each.checkVisibility()))"
        seen: list[bool] = json.loads(self.call("Runtime.evaluate", expression=script)["result"]["value"])
        self.call("Emulation.setEmulatedMedia", media="screen")
        return seen

    def open_all(self) -> None:
        """Open all that is folded."""
        self.call(
            "Runtime.evaluate", expression="document.querySelectorAll('details').forEach(each => each.open = true)"
        )

    def again(self) -> dict[str, Any]:
        """What is wider than the window now."""
        found: dict[str, Any] = json.loads(self.call("Runtime.evaluate", expression=WIDER)["result"]["value"])
        return found

    def screenshot(self, file: Path) -> None:
        """The whole page as a picture."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        file.write_bytes(base64.b64decode(data))

    def pdf(self, file: Path) -> None:
        """The page on paper."""
        file.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + self.seconds
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(end - time.monotonic(), 0))
            assert ready, "Chromium does not answer"
            piece = os.read(self._read, 1 << 20)
            assert piece, "Chromium has ended"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


def browser_or_skip(folder: Path) -> Iterator[Browser]:
    """A browser; the test is skipped where there is none, but not in continuous integration."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("there is no Chromium; .ci/run installs it")
        pytest.skip("needs Chromium: apt install chromium")
    browser = Browser(program, folder)
    try:
        yield browser
    finally:
        browser.close()
