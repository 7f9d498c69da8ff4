"""Promise: where a package is missing, the command that callgate names works, however callgate itself was installed."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "pyproject.toml"

MISSING = {
    "agent": "callgate.agent.model_named('openai:m', api_key='k')",
    "mcp": "callgate.mcp.McpServers",
    "docker": "import asyncio; asyncio.run(callgate.Runtime(sandbox='docker').__aenter__())",
    "experiments": "callgate.agent.Experiment('e', None, None, memory=None)",
    "pydantic-ai": "import callgate.adapters.pydantic_ai",
    "langchain": "import callgate.adapters.langchain",
    "openai-agents": "import callgate.adapters.openai_agents",
}
"""An extra, and what fails without it."""

PROVIDES = ("openai", "mcp", "mcp_types", "docker", "scipy", "pydantic_ai", "langchain_core", "agents")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROJECT.exists(), reason="there is no source tree to install from"),
    pytest.mark.skipif(
        importlib.util.find_spec("pip") is None or importlib.util.find_spec("hatchling") is None,
        reason="pip and hatchling are needed to try the commands; this environment lacks one",
    ),
]


def pip(*arguments: str, cwd: Path) -> str:
    """Output of pip, which has to succeed."""
    line = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def hints(cwd: Path, *first_on_path: Path) -> dict[str, str]:
    """The command that each of the errors names, by extra."""
    program = f"""
import importlib, sys
sys.path[:0] = {[str(path) for path in first_on_path]!r}
for name in {PROVIDES!r}:
    sys.modules[name] = None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in {PROVIDES!r} else found(name, *rest)
import callgate, callgate.agent, callgate.mcp, json
said = {{}}
for extra, source in {MISSING!r}.items():
    try:
        exec(source)
    except Exception as error:
        said[extra] = str(error)
print(json.dumps([callgate.__file__, said]))
"""
    line = [sys.executable, "-c", program]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    origin, said = json.loads(done.stdout)
    if first_on_path:
        assert Path(origin).is_relative_to(first_on_path[0]), origin
    found = {extra: re.search(r"pip install (-e )?'[^']+'", text) for extra, text in said.items()}
    assert [extra for extra, command in found.items() if command is None] == [], said
    return {extra: command[0] for extra, command in found.items() if command is not None}


def works(command: str, extra: str, cwd: Path) -> None:
    """Try a command without installing anything: pip finds callgate by it, and callgate has the extra."""
    words = shlex.split(command)
    assert words[:2] == ["pip", "install"]
    # without -e, for which hatchling would need one more package: pip reads the folder and the extra all the same
    named = [word for word in words[2:] if word != "-e"]
    said = pip("install", "--dry-run", "--no-deps", "--no-index", "--no-build-isolation", *named, cwd=cwd)
    assert "does not provide the extra" not in said
    assert f"[{extra}]" in command


def test_the_command_works_from_a_clone_wherever_the_shell_stands(tmp_path: Path) -> None:
    if metadata.distribution("callgate").read_text("direct_url.json") is None:
        pytest.skip("callgate is not installed from a clone here")
    elsewhere = hints(tmp_path)
    assert set(elsewhere) == set(MISSING)
    works(elsewhere["agent"], "agent", tmp_path)
    inside = hints(ROOT)
    assert inside == {extra: f"pip install -e '.[{extra}]'" for extra in MISSING}
    works(inside["mcp"], "mcp", ROOT)


def test_the_command_works_where_callgate_came_in_a_wheel(tmp_path: Path) -> None:
    pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT), cwd=tmp_path)
    (wheel,) = tmp_path.glob("callgate-*.whl")
    installed = tmp_path / "installed"
    pip("install", "--quiet", "--no-deps", "--no-index", "--target", str(installed), str(wheel), cwd=tmp_path)
    commands = hints(tmp_path, installed)
    for extra in ("agent", "docker"):
        works(commands[extra], extra, tmp_path)


def test_where_callgate_came_from_an_index_its_name_is_enough(tmp_path: Path) -> None:
    pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT), cwd=tmp_path)
    installed = tmp_path / "installed"
    from_index = ["--no-index", "--find-links", str(tmp_path), "--target", str(installed), "callgate"]
    pip("install", "--quiet", "--no-deps", *from_index, cwd=tmp_path)
    assert hints(tmp_path, installed) == {extra: f"pip install 'callgate[{extra}]'" for extra in MISSING}


def test_pages_and_examples_name_commands_that_work_in_a_clone() -> None:
    extras = set(tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"])
    pages = [
        ROOT / "README.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("examples/**/*.py"),
    ]
    named: set[str] = set()
    for page in pages:
        text = page.read_text()
        assert "install 'callgate[" not in text, page
        named.update(extra for group in re.findall(r"pip install -e '\.\[(.+?)\]'", text) for extra in group.split(","))
    assert named
    assert named <= extras
