"""Every family of the table of probes has a test that carries its number."""

from __future__ import annotations

import re
from pathlib import Path

JAIL_FAMILIES = {f"p{number:02}" for number in range(1, 91)}


def test_every_family_has_a_test() -> None:
    names = [
        name
        for path in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    ]
    found = {family for name in names for family in re.findall(r"(?<=_)p\d\d(?=_)", name)}
    assert sorted(JAIL_FAMILIES - found) == []
    assert sorted(found - JAIL_FAMILIES) == []
