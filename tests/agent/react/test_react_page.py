"""What docs/react.md shows is run, and prints what the page says; its tables name every option there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from callgate.agent.react.config import GatewayConfig, PlannerConfig, read_config
from callgate.agent.react.messages import MAX_ENTRIES, MAX_ENTRY_CHARACTERS, MAX_HISTORY_CHARACTERS

PAGE = (Path(__file__).parents[3] / "docs" / "react.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_pages_programs_print_what_is_shown() -> None:
    source = "\n".join(text for kind, text in BLOCKS if kind == "python")
    shown = "".join(text for kind, text in BLOCKS if kind == "text")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == (shown, "")


def test_the_pages_yaml_is_read_and_has_every_option() -> None:
    yaml = next(text for kind, text in BLOCKS if kind == "yaml")
    config = read_config(yaml, {})
    assert config.gateway is not None
    assert config.planner.model_fields_set == set(PlannerConfig.model_fields)
    assert config.gateway.config.model_fields_set == set(GatewayConfig.model_fields)


def test_the_tables_name_every_option() -> None:
    planner, gateway = (part.split("\n\n", 1)[0] for part in PAGE.split("| option | |\n")[1:])
    named = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
    assert named.findall(planner) == list(PlannerConfig.model_fields)
    assert named.findall(gateway) == list(GatewayConfig.model_fields)


def test_the_page_says_how_much_history_is_told() -> None:
    assert f"the newest {MAX_ENTRIES} entries are told, {MAX_ENTRY_CHARACTERS:,} characters each" in PAGE
    assert f"and {MAX_HISTORY_CHARACTERS:,} together" in PAGE
