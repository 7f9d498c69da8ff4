"""The pages of the project and their parts: sections, blocks of code, cells of tables; and a way to run a block."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

__all__ = ["BLOCKS", "PAGES", "ROOT", "blocks", "rows", "run", "section"]

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
BLOCKS = {page: FENCED.findall(text) for page, text in PAGES.items()}


def section(page: str, heading: str) -> str:
    """A section of a page, with its subsections."""
    _, level, below = re.split(rf"^(#+) {re.escape(heading)}\n", PAGES[page], maxsplit=1, flags=re.M)
    return re.split(rf"^#{{1,{len(level)}}} ", below, maxsplit=1, flags=re.M)[0]


def blocks(page: str, *kinds: str, heading: str = "") -> list[str]:
    """The blocks of code of a page, or of one section."""
    found = FENCED.findall(section(page, heading)) if heading else BLOCKS[page]
    return [text for kind, text in found if kind in kinds]


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables below a heading, without the head of the first one."""
    return [line.split(" | ") for line in re.findall(r"^\| (.*) \|$", section(page, heading), re.MULTILINE)][1:]


def run(
    line: list[str],
    folder: Path = ROOT,
    stderr: int = subprocess.PIPE,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *line], cwd=folder, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=120, check=False,
    )  # fmt: skip
