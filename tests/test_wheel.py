"""What the wheel holds: both packages, their types' marks, the licence, and nothing else."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed, so no wheel can be built here")
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("there is no source tree to build from")
    to = tmp_path_factory.mktemp("wheel")
    build = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(to), str(ROOT)]
    subprocess.run([sys.executable, "-m", *build], check=True, timeout=120)
    (wheel,) = to.glob("callgate-*.whl")
    return sorted(zipfile.ZipFile(wheel).namelist())


def sources(root: str, package: str) -> set[str]:
    folder = ROOT / root
    files = (path for path in (folder / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in files if not any(p.startswith(".") for p in path.parts)}


def test_the_wheel_holds_both_packages_and_nothing_else(names: list[str]) -> None:
    packaged = {name for name in names if ".dist-info/" not in name}
    dockerfile = "callgate/sandbox/docker/Dockerfile.sandbox"
    assert packaged == sources("host", "callgate") | sources("sandbox_image", "callgate_guest") | {dockerfile}
    assert {"callgate/py.typed", "callgate_guest/py.typed", "callgate_guest/wire.py"} <= packaged
    data = {name for name in packaged if not name.endswith((".py", "/py.typed"))}
    assert {str(Path(name).parent) for name in data - {dockerfile}} == {
        "callgate/cli/demo_data",
        "callgate/runtime/trace",
    }


def test_the_wheel_describes_itself(names: list[str]) -> None:
    about = sorted(name.partition(".dist-info/")[2] for name in names if ".dist-info/" in name)
    assert about == ["METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"]


def test_both_packages_say_that_they_are_typed() -> None:
    for package in ("callgate", "callgate_guest"):
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        assert Path(spec.origin).with_name("py.typed").exists()
