"""`callgate image`, with the engine of this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from uuid import uuid4

import anyio
import pytest

from callgate.errors import SandboxError
from callgate.sandbox.docker.engine import Engine
from cli.command import Command
from sandbox.docker.images import without

pytestmark = pytest.mark.slow

NOWHERE = "unix:///nowhere/docker.sock"


@pytest.fixture
def tag() -> Iterator[str]:
    """A name for an image that is gone after the test; the test is skipped where there is no engine."""
    name = f"callgate-test-{uuid4().hex[:8]}"

    async def remove() -> None:
        engine = await Engine.connect()
        try:
            for _ in await engine.call("images", name):  # by this name: the same image may have others
                await engine.call("remove_image", name, force=True)
        finally:
            await engine.close()

    try:
        anyio.run(remove)
    except SandboxError as reason:
        without(str(reason))
    yield name
    anyio.run(remove)


def test_build_says_what_was_made_and_show_says_it_again(cli: Command, tag: str) -> None:
    built = cli("image", "build", "--base", "host", "--tag", tag)
    assert built.status == 0, built.err
    rows = dict(line.split(maxsplit=1) for line in built.out.splitlines())
    assert list(rows) == ["Image", "Id", "Size", "Python", "Packages", "Guest", "Created", "Took"]
    assert rows["Image"] == tag
    assert rows["Packages"] == "none: the standard library only"
    assert built.err.splitlines()[1:] == ["making the image"]
    assert built.err.startswith("collecting this machine's Python 3.")

    shown = cli("image", "show", "--tag", tag, "--json")
    told = json.loads(shown.out)
    assert (shown.status, shown.err) == (0, "")
    assert (told["tag"], told["id"], told["python"]) == (tag, rows["Id"], rows["Python"])
    assert (told["packages"], told["outdated"]) == ([], False)
    assert 20e6 < told["size_bytes"] < 120e6
    assert cli("image", "show", "--tag", tag).out.splitlines() == built.out.splitlines()[:-1]


def test_image_build_says_what_it_replaces(cli: Command, tag: str) -> None:
    line = ("image", "build", "--base", "host", "--tag", tag)
    first = cli(*line)
    assert first.status == 0, first.err
    assert "replaces" not in first.err
    again = cli(*line)
    assert again.status == 0, again.err
    said = next(line for line in again.err.splitlines() if line.startswith("replaces the image "))
    of = rf"replaces the image {re.escape(tag)} of [\d-]+ [\d:]+ UTC"
    assert re.fullmatch(rf"{of} \(packages: none\) once the new one is built", said)


def test_build_at_a_terminal_shows_one_line_that_changes(cli: Command, tag: str) -> None:
    with cli.terminal("image", "build", "--base", "host", "--tag", tag) as terminal:
        shown = terminal.read_all()
        assert terminal.wait() == 0
    assert "collecting this machine's Python" in shown
    assert "Took" in shown


def test_build_with_json_prints_one_object(cli: Command, tag: str) -> None:
    told = json.loads(cli("image", "build", "--base", "host", "--tag", tag, "--json").out)
    assert told["tag"] == tag
    assert told["seconds"] > 0


def test_an_image_that_is_not_there_says_how_to_build_it(cli: Command, tag: str) -> None:
    done = cli("image", "show", "--tag", tag)
    assert done.status == 1
    assert f"has no image '{tag}'" in done.error
    assert (
        done.tip == f"build it with `callgate image build --tag {tag}` (where there is no registry, with --base host)"
    )


def test_an_image_of_another_callgate_says_to_build_it_again(cli: Command, tag: str) -> None:
    async def make() -> None:
        engine = await Engine.connect()
        try:
            empty = b"\0" * 1024
            await engine.call(
                "import_image_from_data", empty, repository=tag, changes=["LABEL callgate.guest=0000000000000000"]
            )
        finally:
            await engine.close()

    anyio.run(make)
    done = cli("image", "show", "--tag", tag)
    assert done.status == 1
    assert "Guest     0000000000000000" in done.out
    assert done.error == f"the image '{tag}' is outdated, it was built for another version of callgate"
    assert done.tip == f"run `callgate image build --tag {tag}` again, with the --base that it was built with"


def test_a_base_that_nobody_has_names_the_way_without_a_registry(cli: Command, tag: str) -> None:
    done = cli("image", "build", "--base", "callgate-nowhere:1", "--tag", tag)
    assert done.status == 1
    assert done.error.startswith("the base image callgate-nowhere:1 is not on this engine and cannot be pulled")
    assert "--base host" in done.tip


def test_a_requirement_that_nobody_has_says_what_pip_said(cli: Command, tag: str) -> None:
    folder = cli.folder / "requirements.txt"
    folder.write_text("--no-index\ncallgate-nowhere\n")
    done = cli("image", "build", "--base", "host", "--requirements", "requirements.txt", "--tag", tag)
    assert done.status == 1
    assert "No matching distribution found for callgate-nowhere" in done.error
    assert "pip download" in done.tip


@pytest.mark.parametrize("verb", ["build", "show"])
def test_without_an_engine_it_says_what_to_do(cli: Command, verb: str) -> None:
    done = cli("image", verb, "--docker-host", NOWHERE)
    assert done.status == 3
    assert f"no Docker engine listens at {NOWHERE}" in done.error
    assert "callgate doctor" in done.tip


def test_without_the_sdk_it_says_how_to_install_it(cli: Command) -> None:
    (cli.folder / "sitecustomize.py").write_text("import sys\nsys.modules['docker'] = None\n")
    done = cli("image", "show", environment={"PYTHONPATH": str(cli.folder)})
    assert (done.status, done.error) == (3, "the docker SDK is not installed")
    assert (done.tip.startswith("pip install "), done.tip.endswith("[docker]'")) == (True, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tag", "a b"], "is not a name of an image"),
        (["--requirements", "nowhere.txt"], "there is no requirements file 'nowhere.txt'"),
    ],
)
def test_what_cannot_work_is_refused(cli: Command, tag: str, arguments: list[str], message: str) -> None:
    done = cli("image", "build", "--base", "host", *arguments)
    assert done.status == 2
    assert message in done.error


def test_a_build_that_is_interrupted_ends_with_130(cli: Command, tag: str) -> None:
    with cli.start("image", "build", "--base", "host", "--tag", tag) as (process, _):
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"collecting this machine's Python")
        process.send_signal(2)
        assert process.wait(60) == 130
    assert cli("image", "show", "--tag", tag).status == 1
