"""`callgate packages`: the real pip, wheels of the test, and programs that import what was installed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from callgate import ConfigurationError, Runtime
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.packages import LOCK, Packages
from cli.command import Command, Outcome
from sandbox.docker.images import have_engine_and_image
from wheels import wheel

IMPORTS = "import above_package, below_package\nabove_package.ANSWER + below_package.ANSWER"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip finds wheels in: one package, and one that needs it."""
    folder = tmp_path_factory.mktemp("index")
    wheel(folder, "below_package", "2.0")
    wheel(folder, "above_package", "1.1", needs="below-package>=1")
    return folder


@pytest.fixture(scope="module")
async def default_image(anyio_backend: str) -> None:
    """The image of containers, built if need be."""
    await have_engine_and_image()


def add(folder: Path, *names: str, links: str) -> Outcome:
    """Run ``callgate packages add``; pip finds wheels in the folders `links` and nowhere else."""
    variables = {**os.environ, "PIP_FIND_LINKS": links, "PIP_NO_INDEX": "1"}
    return Command(folder.parent, variables)("packages", "add", "--to", str(folder), *names)


@pytest.fixture(scope="module")
def packages(index: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the command has made."""
    made = tmp_path_factory.mktemp("made") / "packages"
    os.chmod(made.parent, 0o755)
    added = add(made, "above_package", links=str(index))
    assert added.status == 0, added.err
    return made


def test_a_folder_has_the_packages_a_lock_with_hashes_and_requirements(
    packages: Path, index: Path, cli: Command
) -> None:
    lock = json.loads((packages / LOCK).read_text())
    assert lock["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert lock["requested"] == ["above_package"]
    assert [(each["name"], each["version"], each["requested"]) for each in lock["packages"]] == [
        ("above_package", "1.1", True), ("below_package", "2.0", False),
    ]  # fmt: skip
    for each in lock["packages"]:
        assert each["sha256"] == hashlib.sha256((index / each["file"]).read_bytes()).hexdigest()
    assert (packages / "requirements.txt").read_text() == "above_package==1.1\nbelow_package==2.0\n"
    assert (packages / "below_package" / "__init__.py").exists()
    assert list((packages / "below_package" / "__pycache__").iterdir()), "guests cannot write compiled files"
    assert os.listdir(packages.parent) == ["packages"], "nothing is left beside it"
    shown = cli("packages", "show", str(packages))
    assert shown.status == 0
    assert f"for Python {lock['python']}" in shown.out
    assert f"above_package 1.1 sha256 {lock['packages'][0]['sha256']}\n" in shown.out
    assert shown.out.endswith(", needed by another\n")
    assert json.loads(cli("packages", "show", str(packages), "--json").out)["folder"] == str(packages)


def test_what_was_added_before_stays_at_its_version(index: Path, tmp_path: Path) -> None:
    folder, newer = tmp_path / "it", tmp_path / "newer"
    assert add(folder, "below_package", links=str(index)).status == 0
    newer.mkdir()
    wheel(newer, "below_package", "3.0")
    wheel(newer, "other_package", "1.0")
    both = f"{newer} {index}"
    assert add(folder, "other_package", links=both).status == 0
    found = Packages.read(folder)
    assert found.requested == ("below_package", "other_package")
    assert found.shown == ("below_package 2.0", "other_package 1.0")
    failed = add(folder, "below_package>=3", links=both)
    assert failed.status == 1
    assert failed.error.startswith("pip could not install: ")
    assert "with below_package==2.0, other_package==1.0 as they are" in failed.tip
    assert Packages.read(folder) == found, "it is as it was"
    assert sorted(os.listdir(tmp_path)) == ["it", "newer"]


@pytest.mark.parametrize(
    ("names", "status", "text"),
    [
        (["nothing_of_that_name"], 1, "No matching distribution found for nothing_of_that_name"),
        (["--", "--index-url=http://localhost:1"], 1, "index-url=http://localhost:1"),
        (["-r", "requirements.txt"], 2, "No such option '-r'"),
    ],
)
def test_what_pip_cannot_install_is_told_and_leaves_nothing(
    index: Path, tmp_path: Path, names: list[str], status: int, text: str
) -> None:
    failed = add(tmp_path / "it", *names, links=str(index))
    assert failed.status == status
    assert text in failed.error
    assert os.listdir(tmp_path) == []


def test_a_source_distribution_is_refused_since_it_would_run_code(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with tarfile.open(source / "hostile_package-1.0.tar.gz", "w:gz") as archive:
        for name, text in {"setup.py": f"open({str(tmp_path / 'ran')!r}, 'w')", "PKG-INFO": "Name: x"}.items():
            entry = tarfile.TarInfo(f"hostile_package-1.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    failed = add(tmp_path / "it", "hostile_package", links=str(source))
    assert failed.status == 1
    assert "No matching distribution found for hostile_package" in failed.error
    assert os.listdir(tmp_path) == ["source"]


def test_a_folder_with_other_files_is_not_touched(index: Path, tmp_path: Path, cli: Command) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    refused = add(folder, "below_package", links=str(index))
    assert refused.status == 2
    assert "name a new folder" in refused.error
    assert os.listdir(folder) == ["thesis.txt"]
    assert cli("packages", "show", str(folder)).status == 1


def test_a_folder_that_cannot_be_written_is_told_without_a_trace(index: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "it", Path("/proc/it")):
        refused = Command(tmp_path, {**os.environ, "PIP_NO_INDEX": "1"})("packages", "add", "x", "--to", str(place))
        assert refused.status == 1
        assert "Traceback" not in refused.err
        assert refused.tip == f"nothing was changed in {place}"


def test_a_link_to_a_folder_stays_one_and_guests_may_read_what_is_there(index: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "it")
    mask = os.umask(0o077)
    try:
        assert add(tmp_path / "link", "below_package", links=str(index)).status == 0
        assert add(tmp_path / "link", "above_package", links=str(index)).status == 0
    finally:
        os.umask(mask)
    assert (tmp_path / "link").is_symlink()
    modes = {path.stat().st_mode & 0o007 for path in (tmp_path / "it").rglob("*")}
    assert modes <= {0o004, 0o005}
    assert sorted(os.listdir(tmp_path)) == ["it", "link"]


@pytest.mark.parametrize(
    ("lock", "text"),
    [
        ({"python": "3.1"}, "is for Python 3.1, and programs run on Python 3."),
        (
            {"abi": "cpython-311-riscv64-linux-gnu"},
            "is for cpython-311-riscv64-linux-gnu, and programs run on cpython-",
        ),
        ({"packages": [1]}, "is no lock"),
        ({"surprise": 1}, "is no lock"),
    ],
)
def test_a_folder_for_another_python_is_told_at_the_start(
    packages: Path, tmp_path: Path, lock: dict[str, object], text: str
) -> None:
    (tmp_path / LOCK).write_text(json.dumps({**json.loads((packages / LOCK).read_text()), **lock}))
    with pytest.raises(ConfigurationError, match=text):
        Runtime(sandbox="jail", packages=tmp_path)


@pytest.mark.anyio
async def test_programs_import_from_it_and_models_are_told(packages: Path) -> None:
    async with Runtime(packages=packages, pool_size=0) as runtime:
        result = await runtime.execute_code(IMPORTS)
        assert result.value == 84, result.error
        (text,) = [
            each["description"] for each in runtime.tool_definitions("anthropic") if each["name"] == "execute_code"
        ]
        assert "- Installed: above_package 1.1, below_package 2.0.\n" in text
        assert len(text) <= 1024


@pytest.mark.slow
def test_an_analysts_report_is_made_with_packages_of_the_index(tmp_path: Path) -> None:
    folder = tmp_path / "packages"
    adding = [sys.executable, "-m", "callgate", "packages", "add", "numpy", "pandas", "matplotlib", "--to", str(folder)]
    added = subprocess.run(adding, capture_output=True, text=True, timeout=280, check=False)
    if added.returncode != 0 and os.environ.get("CI") != "true":
        pytest.skip(f"pip has no index here: {added.stderr}")
    assert added.returncode == 0, added.stderr
    assert Packages.read(folder).requested == ("numpy", "pandas", "matplotlib")
    os.chmod(tmp_path, 0o755)
    report = Path(__file__).parents[2] / "examples" / "analyst_report.py"
    told = subprocess.run([sys.executable, report, folder], capture_output=True, text=True, timeout=280, check=False)
    assert (told.returncode, told.stderr) == (0, "")
    assert "In jail, tier 1, the model reads:" in told.stdout


@pytest.mark.anyio
async def test_containers_take_the_same_folder(packages: Path, default_image: None) -> None:
    backend = DockerBackend(packages=packages, preimport=["above_package"])
    async with Runtime(sandbox=backend, pool_size=0) as runtime:
        assert (await runtime.execute_code(IMPORTS)).value == 84
        writes = "import above_package, os\nopen(os.path.dirname(above_package.__file__) + '/x', 'w')"
        assert not (await runtime.execute_code(writes)).ok
        assert "above_package 1.1, below_package 2.0" in str(runtime.tool_definitions("openai"))


@pytest.mark.anyio
async def test_an_image_of_another_python_is_told_with_how_to_build_one(
    packages: Path, default_image: None, tmp_path: Path
) -> None:
    (tmp_path / LOCK).write_text(json.dumps({**json.loads((packages / LOCK).read_text()), "python": "3.1"}))
    with pytest.raises(ConfigurationError, match=rf"image build --requirements {tmp_path}/requirements.txt --tag NAME"):
        async with DockerBackend(packages=tmp_path):
            pass
