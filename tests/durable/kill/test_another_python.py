"""A run goes on under another version of Python."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from durable.kill.lives import Kill, Lives
from durable.kill.moments import check, row
from durable.kill.trials import Setting, undisturbed

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(600)]

HOME = Path(__file__).parents[3]


def _another_python(folder: Path) -> str:
    """An interpreter of another version that has callgate; skips where there is none."""
    minor = sys.version_info.minor
    versions = Path.home() / ".pyenv" / "versions"
    found = [shutil.which(f"python3.{other}") for other in range(11, 15) if other != minor]
    found += [str(path) for path in sorted(versions.glob("3.1[1-4].*/bin/python3")) if f"/3.{minor}." not in str(path)]
    python = next((each for each in reversed(found) if each and _answers(each)), None)
    if python is None:
        pytest.skip("there is no other Python of 3.11 to 3.14 here: install one, for instance with pyenv")
    made = folder / "venv"
    try:
        subprocess.run([python, "-m", "venv", "--without-pip", str(made)], check=True, capture_output=True, timeout=60)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(made / "bin" / "python")]
        install = [*pip, "install", "-q", "--no-compile", "--editable", str(HOME)]
        subprocess.run(install, check=True, capture_output=True, timeout=200)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"callgate cannot be installed for {python}: {error}")
    return str(made / "bin" / "python")


def _answers(python: str) -> bool:
    asked = [python, "-c", "import sys; print(sys.version_info.minor)"]
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False)
    return ran.stdout.strip() not in ("", str(sys.version_info.minor))


async def test_a_run_goes_on_under_another_python_and_says_so(tmp_path: Path, setting: Setting) -> None:
    python = _another_python(tmp_path)
    for program in ("plan_charges", "fast_charges", "guest_as_completed", "guest_tasks", "guest_chance"):
        expected = await undisturbed(setting, program)
        lives = Lives(tmp_path / program, program)
        await lives.life(Kill(point=expected.points // 2))
        lives.python = python
        await lives.run([])
        check(lives, expected)
        stored = json.loads((await row(lives.folder)).result or "{}")
        assert not program.startswith("guest") or "Python" in str(stored.get("notes")), stored
