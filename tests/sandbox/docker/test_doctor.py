"""What the doctor says of an engine: one that works, one that is not there, and peers that only listen."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from callgate import SandboxUnavailable
from callgate.extras import how_to_install
from callgate.sandbox.docker.doctor import examine_docker, must_be_ready
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.image import ImageFacts, guest_digest
from callgate.sandbox.docker.sweep import LABEL, labels
from sandbox.docker.peer import INFO, VERSION, Answer, drip, engine_saying, garbage, listening, silence

pytestmark = pytest.mark.anyio

SECONDS = 3.0
"""What an engine gets in most of these tests."""


def image(guest: str | None = None) -> dict[str, Any]:
    """What an engine says of an image that holds this guest; ``None`` for this callgate's."""
    labels = {"callgate.guest": guest_digest() if guest is None else guest, "callgate.python": "3.13.1"}
    config = {"Labels": labels | {"callgate.packages": "numpy==2.1.0"}}
    return {"Id": "sha256:1", "Size": 40_000_000, "Created": "2026-01-02T03:04:05Z", "Config": config}


READY = {"/version": VERSION, "/info": INFO, "/images/callgate-sandbox/json": image()}


async def test_where_containers_work_it_opens_a_guest_and_says_how_long_that_took(
    engine: Engine, default_image: ImageFacts
) -> None:
    report = await examine_docker()
    assert (report.works, report.reason, report.host) == (True, "", engine.host)
    assert report.trial is not None
    assert 0 < report.trial.open_seconds < 10
    assert report.trial.start_seconds > 0
    assert report.trial.description.startswith("docker")
    told = {fact.name: fact for fact in report.facts}
    assert {"host", "engine", "runs as", "runtimes", "seccomp", "limits", "image"} == set(told)
    assert told["image"].ok
    assert default_image.python in told["image"].found
    assert len(report.hardened) >= 5


async def test_trying_it_leaves_no_container(engine: Engine, default_image: ImageFacts) -> None:
    mine = {"label": [f"{LABEL}={labels()[LABEL]}"]}
    before = {each["Id"] for each in await engine.call("containers", all=True, filters=mine)}
    assert (await examine_docker()).works
    after = {each["Id"] for each in await engine.call("containers", all=True, filters=mine)}
    assert after <= before


async def test_no_engine_is_a_fact_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    report = await examine_docker()
    assert (report.works, report.host, report.facts) == (False, "", [])
    assert "no Docker engine listens at" in report.reason
    assert "install and start Docker" in report.reason


async def test_without_the_sdk_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    report = await examine_docker()
    assert (report.works, report.host) == (False, "")
    assert f"the docker SDK is not installed: {how_to_install('docker')}" in report.reason


@pytest.mark.parametrize("answer", [silence, garbage, drip])
async def test_a_peer_that_is_no_engine_is_told_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    with listening(tmp_path / "peer.sock", answer) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        started = time.monotonic()
        report = await examine_docker(SECONDS)
        assert time.monotonic() - started < SECONDS + 10
    assert not report.works
    assert host in report.reason


VERSIONS: list[Any] = [[], 5, None, {}, {"ApiVersion": "x"}, {"ApiVersion": ["1"]}]
INFOS: list[Any] = [[], 5, "text", {"Runtimes": 5}, {"SecurityOptions": 5}]


@pytest.mark.parametrize(
    "said", [*({"/version": version} for version in VERSIONS), *({"/info": info} for info in INFOS)]
)
async def test_json_that_is_no_engines_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]
) -> None:
    with engine_saying(tmp_path / "peer.sock", READY | said) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        report = await examine_docker()
    assert not report.works
    assert host in report.reason


@pytest.mark.sampled
@pytest.mark.parametrize("silent", ["/info", "/images/callgate-sandbox/json", "/containers/create"])
async def test_an_engine_that_stops_answering_is_told_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    with engine_saying(tmp_path / "engine.sock", READY | {"/containers/json": [], silent: silence}) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        started = time.monotonic()
        report = await examine_docker(SECONDS)
        assert time.monotonic() - started < SECONDS + 10
    assert not report.works
    what = "was asked for a guest and had none after" if "create" in silent else "did not answer within 1.5 s"
    assert f"the Docker engine at {host} {what}" in report.reason


async def test_without_the_image_it_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine_saying(tmp_path / "engine.sock", {"/version": VERSION, "/info": INFO}) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        report = await examine_docker()
    assert (report.works, report.trial, report.host) == (False, None, host)
    assert f"the Docker engine at {host} has no image 'callgate-sandbox': build it with" in report.reason
    assert "`callgate image build` (where there is no registry, with --base host)" in report.reason


async def test_an_image_of_another_callgate_is_outdated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = READY | {"/images/callgate-sandbox/json": image("0123456789abcdef")}
    with engine_saying(tmp_path / "engine.sock", answers) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        report = await examine_docker()
    assert (report.works, report.trial) == (False, None)
    (fact,) = [each for each in report.facts if each.name == "image"]
    assert fact.ok is False
    assert "outdated, it was built for another version of callgate" in fact.found
    assert fact.remedy.startswith('run `callgate image build --requirements "numpy==2.1.0"` again')
    assert "callgate image build" in report.reason


async def test_the_image_is_told_with_its_size_its_python_and_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_saying(tmp_path / "engine.sock", READY) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        report = await examine_docker()
    (fact,) = [each for each in report.facts if each.name == "image"]
    assert fact.found == "callgate-sandbox: Python 3.13.1, 40 MB, numpy==2.1.0, built 2026-01-02"
    assert not report.works  # this engine makes no containers
    assert report.reason


async def test_ready_is_an_engine_with_hard_limits_seccomp_and_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_saying(tmp_path / "engine.sock", READY) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        await must_be_ready(10)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"/info": INFO | {"MemoryLimit": False}}, "it cannot limit memory"),
        ({"/info": INFO | {"PidsLimit": False}}, "it cannot limit processes"),
        ({"/info": INFO | {"SecurityOptions": ["name=seccomp,profile=unconfined"]}}, "seccomp is switched off"),
        ({"/images/callgate-sandbox/json": None}, "has no image 'callgate-sandbox': build it with"),
        ({"/images/callgate-sandbox/json": image("an older one")}, "outdated"),
        ({"/version": VERSION | {"ApiVersion": "1.20"}}, "too old"),
    ],
)
async def test_anything_less_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], why: str
) -> None:
    with engine_saying(tmp_path / "engine.sock", READY | changed) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        with pytest.raises(SandboxUnavailable, match=why):
            await must_be_ready(10)


async def test_an_address_that_cannot_be_used_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://somewhere")
    with pytest.raises(SandboxUnavailable, match="forward the socket"):
        await must_be_ready(10)


async def test_an_engine_that_is_slow_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine_saying(tmp_path / "engine.sock", READY | {"/info": drip}) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        started = time.monotonic()
        with pytest.raises(SandboxUnavailable, match=r"did not answer within 0\.5 s"):
            await must_be_ready(0.5)
        assert time.monotonic() - started < 10
