"""The API reference has every public name, once. `make docs` builds it, and fails at a name that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import callgate
import callgate.agent
import callgate.mcp

PAGES = Path(__file__).parents[2] / "docs" / "reference"


def test_the_reference_has_every_public_name_once() -> None:
    named = [name for page in PAGES.glob("*.md") for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)]
    assert len(named) == len({*named})
    public = {
        f"{module.__name__}.{name}"
        for module in (callgate, callgate.agent, callgate.mcp)
        for name in module.__all__
        if name != "__version__" and not (module is callgate.mcp and name in callgate.__all__)  # one of the runtime's
    }
    agent = {*callgate.agent.__all__}  # some are in `callgate`, too, and stand on the agent's page
    shown = {*named} | {f"callgate.{name.rpartition('.')[2]}" for name in named if name.rpartition(".")[2] in agent}
    assert public - shown == set()
    assert {name for name in named if not name.startswith("callgate.adapters.")} <= public
