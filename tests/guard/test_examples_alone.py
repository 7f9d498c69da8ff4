"""Promise: after `make demo`, each example runs, or says in one line what it needs and which command installs that.

The environments are real ones: virtual environments that hold links to the installed packages which callgate, or the
command that an example names, requires, and nothing else.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import venv
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import callgate
import callgate_guest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))
PLAIN = {
    *re.findall(r"^\| \[(\w+\.py)\]", (EXAMPLES / "README.md").read_text().partition("\n## Models")[0], re.MULTILINE),
    "agent_monitoring.py",
}
"""The index promises that these need nothing but callgate."""

Environment = Callable[[str], Path]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The Python of an environment in which exactly these requirements were installed."""
    made: dict[str, Path] = {}

    def python(requirements: str) -> Path:
        if requirements not in made:
            folder = tmp_path_factory.mktemp("environment")
            venv.create(folder, with_pip=False, symlinks=True)
            (packages,) = folder.glob("lib/python*/site-packages")
            for distribution in distributions(map(Requirement, requirements.split())):
                link(distribution, packages)
            roots = {str(Path(package.__file__ or "").parents[1]) for package in (callgate, callgate_guest)}
            (packages / "callgate.pth").write_text("\n".join(sorted(roots)))
            made[requirements] = folder / "bin" / "python"
        return made[requirements]

    return python


def distributions(wanted: Iterable[Requirement]) -> list[metadata.Distribution]:
    """What these requirements lead to, themselves included, among what is installed here."""
    found: dict[str, metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(requirement, extra) for requirement in wanted for extra in ("", *requirement.extras)]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        found[name] = metadata.distribution(requirement.name)
        for text in found[name].requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(needed, each) for each in ("", *needed.extras)]
    return list(found.values())


def link(distribution: metadata.Distribution, packages: Path) -> None:
    """Link what a distribution has in site-packages into those of another environment. A package is one link; folders
    that several distributions may share, as `langgraph`, get a link for each file."""
    for file in distribution.files or []:
        name = file.parts[0]
        if name in ("..", "__pycache__", "callgate", "callgate_guest") or name.endswith(".pth"):
            continue
        top = Path(str(distribution.locate_file(name)))
        whole = top.is_file() or (top / "__init__.py").exists()
        place = packages / (name if whole else file)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(top if whole else Path(str(distribution.locate_file(file))))


def run(python: Path, example: str) -> subprocess.CompletedProcess[str]:
    line = [str(python), "-W", "error", str(EXAMPLES / example)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, cwd=EXAMPLES.parent)


@pytest.mark.parametrize("example", NAMES)
def test_an_example_runs_or_says_what_it_needs_and_then_runs_with_that(environment: Environment, example: str) -> None:
    done = run(environment("callgate"), example)
    if example in PLAIN:
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout
        return
    assert (done.returncode, done.stdout) == (1, "")
    (said,) = done.stderr.splitlines()
    start, _, command = said.partition(", which is not installed: ")
    assert re.fullmatch(rf"{re.escape(example)} needs \w+", start), said
    install, *named = shlex.split(command)
    assert (install, named[:1]) == ("pip", ["install"])
    if example.startswith("mcp_"):
        return  # these install whole servers; tests/examples runs them
    words = [f"callgate[{word.partition('[')[2]}" if "[" in word else word for word in named[1:] if word != "-e"]
    done = run(environment(" ".join(["callgate", *words])), example)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_an_example_that_needs_more_is_not_among_the_plain_ones() -> None:
    assert set(NAMES) >= PLAIN
    assert len(PLAIN) >= 13
