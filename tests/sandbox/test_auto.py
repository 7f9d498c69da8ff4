"""`auto`: the order it asks in, what it says where nothing works, and that it leaves what it entered."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import anyio
import pytest

from callgate import ConfigurationError, Limits, Runtime, SandboxCrashed, SandboxError, SandboxUnavailable
from callgate.sandbox.auto import AutoBackend, Candidate
from callgate.sandbox.backend import Allowance, Backend, Guest
from callgate.sandbox.docker.image import guest_digest
from callgate.sandbox.jail import JailBackend
from callgate.sandbox.srt.backend import SrtBackend
from sandbox.docker.peer import INFO, VERSION, engine_saying

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    loop: str = request.param
    return loop


def not_here(reason: str) -> NoReturn:
    """Skip; in CI, fail, since a jail has to work there."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class Place:
    """A backend that notes what is done with it."""

    def __init__(self, name: str, notes: list[str], entering: Callable[[], object] = lambda: None) -> None:
        self.name = name
        self.description = f"the description of {name}"
        self._notes = notes
        self._entering = entering

    async def __aenter__(self) -> Backend:
        self._notes.append(f"enter {self.name}")
        try:
            await anyio.lowlevel.checkpoint()
            self._entering()
        except BaseException:
            self._notes.append(f"undo {self.name}")
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._notes.append(f"leave {self.name}")

    async def open(self, allowance: Allowance) -> Guest:
        raise SandboxError(f"{self.name} was asked for {allowance.max_processes}")


def offering(*places: Backend) -> AutoBackend:
    def candidate(place: Backend) -> Candidate:
        async def make() -> Backend:
            return place

        return make

    return AutoBackend(candidates={place.name: candidate(place) for place in places})


def failing(error: BaseException) -> Callable[[], object]:
    def fail() -> object:
        raise error

    return fail


async def test_the_first_that_works_is_taken_and_the_others_are_not_asked() -> None:
    notes: list[str] = []
    auto = offering(Place("first", notes), Place("second", notes))
    assert (auto.name, auto.description, auto.chosen) == ("auto", "auto, not started", None)
    async with auto:
        assert (auto.name, auto.description, auto.reasons) == ("first", "the description of first", {})
        with pytest.raises(SandboxError, match="first was asked for 8"):
            await auto.open(Allowance(1, 1, 8, 1))
    assert notes == ["enter first", "leave first"]
    assert auto.chosen is None


async def test_what_does_not_work_is_passed_over_with_its_reason() -> None:
    notes: list[str] = []
    no, gone = failing(SandboxUnavailable("it is off")), failing(SandboxCrashed("it died"))
    auto = offering(Place("first", notes, no), Place("second", notes, gone), Place("third", notes))
    async with auto:
        assert auto.name == "third"
        assert auto.reasons == {"first": "it is off", "second": "it died"}
    assert notes == ["enter first", "undo first", "enter second", "undo second", "enter third", "leave third"]


async def test_where_nothing_works_each_ones_reason_is_told() -> None:
    auto = offering(
        Place("first", [], failing(SandboxUnavailable("it is off: switch it on"))),
        Place("second", [], failing(SandboxUnavailable("not there: build it"))),
    )
    with pytest.raises(SandboxUnavailable) as refused:
        await auto.__aenter__()
    assert str(refused.value) == (
        "no sandbox works on this machine. first: it is off: switch it on. second: not there: build it. "
        "`callgate doctor` tries each and says which setting forbids it"
    )
    assert auto.chosen is None


@pytest.mark.parametrize("error", [ConfigurationError("preimport: No module named 'nope'"), ZeroDivisionError("a bug")])
async def test_an_error_that_is_not_about_sandboxes_is_not_passed_over(error: Exception) -> None:
    notes: list[str] = []
    with pytest.raises(type(error), match=str(error)):
        await offering(Place("first", notes, failing(error)), Place("second", notes)).__aenter__()
    assert notes == ["enter first", "undo first"]


async def test_what_fails_inside_still_leaves_it() -> None:
    notes: list[str] = []
    with pytest.raises(ZeroDivisionError):
        async with offering(Place("first", notes)):
            raise ZeroDivisionError
    assert notes == ["enter first", "leave first"]


async def test_cancelled_while_it_enters_it_undoes_that_and_asks_no_other() -> None:
    notes: list[str] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with offering(Place("first", notes), Place("second", notes)):
            pass
    assert scope.cancelled_caught
    assert notes == ["enter first", "undo first"]


@pytest.mark.slow
async def test_a_real_start_can_be_cancelled_at_any_moment_and_started_again() -> None:
    for milliseconds in (0, 5, 20, 60, 120):
        with anyio.move_on_after(milliseconds / 1000):
            async with AutoBackend():
                pass
    try:
        async with AutoBackend() as auto:
            await (await auto.open(Allowance.of(Limits()))).aclose()
    except SandboxUnavailable as reason:
        not_here(str(reason))


async def test_outside_its_block_it_opens_nothing() -> None:
    with pytest.raises(SandboxCrashed, match="was not entered, or it was left"):
        await AutoBackend().open(Allowance(1, 1, 1, 1))


async def test_a_result_names_what_was_chosen() -> None:
    try:
        async with Runtime(pool_size=0) as runtime:
            backend = runtime.backend
            assert isinstance(backend, AutoBackend)
            assert backend.chosen is not None
            run = await runtime.execute_code("6 * 7", path="sandbox")
            assert (run.value, run.sandbox) == (42, backend.chosen.description)
            if isinstance(backend.chosen, JailBackend):
                assert backend.name == "jail"
    except SandboxUnavailable as reason:
        not_here(str(reason))


async def test_an_engine_that_is_ready_by_its_own_account_and_then_fails_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {"callgate.guest": guest_digest(), "callgate.python": "3.13.1"}
    image = {"Id": "sha256:1", "Size": 1, "Created": "2026-01-02T03:04:05Z", "Config": {"Labels": labels}}
    answers = {"/version": VERSION, "/info": INFO, "/images/callgate-sandbox/json": image}
    rule = AutoBackend()._candidates
    with engine_saying(tmp_path / "engine.sock", answers) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        notes: list[str] = []
        last = offering(Place("jail, tier 2", notes))._candidates
        async with AutoBackend(candidates={"docker": rule["docker"]} | dict(last)) as auto:
            assert auto.name == "jail, tier 2"
            assert auto.reasons["docker"]


async def test_by_the_rule_tier_2_comes_after_an_engine_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    rule = dict(AutoBackend()._candidates)
    assert list(rule) == ["jail, tier 1", "docker", "jail, tier 2"]
    del rule["jail, tier 1"]
    try:
        async with AutoBackend(candidates=rule) as auto:
            assert isinstance(auto.chosen, JailBackend)
            assert auto.chosen.tier == 2
            assert list(auto.reasons) == ["docker"]
            assert "no Docker engine listens at unix:///nowhere/docker.sock" in auto.reasons["docker"]
            await (await auto.open(Allowance.of(Limits()))).aclose()
    except SandboxUnavailable as reason:
        not_here(str(reason))


async def test_on_macos_docker_comes_first_and_srt_where_there_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    try:
        async with AutoBackend(system="darwin") as auto:
            assert isinstance(auto.chosen, SrtBackend)
            assert list(auto.reasons) == ["docker"]
            await (await auto.open(Allowance.of(Limits()))).aclose()
    except SandboxUnavailable as reason:
        not_here(str(reason))


@pytest.mark.parametrize(
    ("system", "named"),
    [
        ("darwin", ["docker: no Docker engine", "docs.docker.com", "callgate image build",
                    "srt: sandbox 'srt' needs commands that are not here: srt (npm install -g"]),
        ("win32", ["docker: no Docker engine", "docs.docker.com", "wsl --install", "WSL 2"]),
    ],
)  # fmt: skip
async def test_without_any_other_systems_name_what_to_install(
    system: str, named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxUnavailable) as refused:
        await AutoBackend(system=system).__aenter__()
    assert [each for each in named if each not in str(refused.value)] == []
    assert "jail" not in str(refused.value)
    assert "unsafe" not in str(refused.value)


async def test_on_macos_folders_are_for_docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(SandboxUnavailable, match="srt: srt has no files"):
        await AutoBackend(system="darwin", folders={"data": tmp_path}).__aenter__()


def test_on_linux_srt_is_never_taken_by_itself() -> None:
    assert "srt" not in AutoBackend(system="linux")._candidates


def test_where_tier_1_works_docker_costs_nothing() -> None:
    code = """
import anyio, sys
from callgate import Runtime
async def main():
    async with Runtime(pool_size=0) as runtime:
        return runtime.backend.description
description = anyio.run(main)
loaded = [name for name in sys.modules if name.partition(".")[0] in ("docker", "requests", "urllib3") or
          name.startswith("callgate.sandbox.docker.")]
print("tier 1" in description, loaded)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    works, _, loaded = done.stdout.strip().partition(" ")
    if works != "True":
        not_here("tier 1 does not work here")
    assert loaded == "[]"
