"""The measurements of the docker backend, with counts so small that they mean nothing, and without an engine."""

from __future__ import annotations

import subprocess
import sys

import anyio
import pytest

from callgate.bench.peers.docker_run import DockerRun, flags
from callgate.bench.peers.process import LlmSandboxPeer, PeerFailed
from callgate.bench.report.single_rows import rows_title
from callgate.bench.singles.context import LIMITS, TINY
from callgate.bench.singles.harness import Measured, run
from callgate.bench.singles.measures.docker import _row, _Times
from callgate.sandbox.backend import Allowance
from callgate.sandbox.docker.hardening import container_options
from callgate.sandbox.docker.sweep import LABEL
from sandbox.docker.images import have_engine_and_image

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")]


@pytest.fixture(scope="module")
def report() -> Measured:
    anyio.run(have_engine_and_image)
    return run(TINY, ("docker",), lambda name: None)


def test_every_kind_of_container_is_measured_beside_the_jail(report: Measured) -> None:
    measures = " | ".join(row.measure for row in report.rows)
    for part in (
        "pool warm, code to result", "without a pool", "a tenant's container, pool warm", "the jail in the same run",
        "tool call round trip", "gathered calls", "runs per second", "memory per idle container", "size of the image",
        "runs, tenant: what they leave", "runs, a container each: what they leave",
    ):  # fmt: skip
        assert part in measures
    assert "docker (" in report.sandbox


def test_runs_leave_nothing_behind(report: Measured) -> None:
    left = [row for row in report.rows if row.target == "nothing"]
    assert [(row.verdict, row.measured) for row in left if row.verdict != "met"] == []
    assert len(left) == 2
    assert all(row.numbers["containers_seen"] for row in left)


def test_the_measurement_leaves_no_container_of_a_peer_behind(report: Measured) -> None:
    found = subprocess.run(
        ["docker", "ps", "--all", "--quiet", "--filter", "label=callgate.bench"],
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert found.stdout == ""
    assert LABEL != "callgate.bench"


def test_the_page_of_the_documentation_has_a_title_of_its_own(report: Measured) -> None:
    assert rows_title(report.rows) == "Benchmarks of the docker backend"


def test_without_an_engine_there_is_a_row_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    (row,) = run(TINY, ("docker",), lambda name: None).rows
    assert (row.verdict, row.measured) == ("open", "not measured")
    assert "/nowhere/docker.sock" in row.peer


def test_docker_run_gets_every_flag_that_our_containers_have() -> None:
    options = container_options(Allowance(1.0, 100 << 20, 3, 1 << 20), cpus=0.5, own_files=True, runtime="runsc")
    told = flags(options)
    assert told[told.index("--network") + 1] == "none"
    assert told[told.index("--memory") + 1] == told[told.index("--memory-swap") + 1] == str(options["mem_limit"])
    assert told[told.index("--cpus") + 1] == "0.5"
    assert told[told.index("--log-driver") + 1] == "none"
    assert told[told.index("--tmpfs") + 1] == f"/tmp:{options['tmpfs']['/tmp']}"
    assert {"--read-only", "--rm", "no-new-privileges:true", "ALL", "runsc", "core=0:0"} <= set(told)
    assert "--init" not in told


def test_a_flag_that_docker_run_would_not_get_is_an_error() -> None:
    with pytest.raises(KeyError, match="userns_mode"):
        flags({"userns_mode": "host"})


def test_without_the_docker_command_the_peer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PeerFailed, match="docker command is not installed"):
        DockerRun("callgate-sandbox", LIMITS, host="unix:///nowhere", label="a=b").run()


def test_an_image_that_is_not_there_is_the_peers_failure() -> None:
    anyio.run(have_engine_and_image)
    with pytest.raises(PeerFailed, match="callgate-nobody-has-this"):
        DockerRun("callgate-nobody-has-this", LIMITS, host="unix:///var/run/docker.sock", label="a=b").run()


def test_a_peer_that_has_given_up_says_why_whatever_it_is_asked() -> None:
    async def ask() -> None:
        async with LlmSandboxPeer() as peer:
            peer.give_up("no image")
            with pytest.raises(PeerFailed, match="no image"):
                await peer.ask("kept")

    anyio.run(ask)


def test_a_row_tells_of_every_peer_and_is_judged_by_its_own_time() -> None:
    times = {"we": _Times([0.02, 0.02]), "slow": _Times([0.2, 0.2]), "ill": _Times([], "it is ill")}
    row = _row("it", times, "we", ("ill", "slow"), most_seconds=0.01)
    assert (row.verdict, row.target) == ("missed", "≤ 10 ms")
    assert row.ratio == pytest.approx(0.1)
    assert "ill: not measured: it is ill" in row.peer
    assert "ours is 0.1 ×" in row.peer
    assert _row("it", times, "we", ("slow",), most_seconds=0.03, in_full=False).peer == "0.1 × slow"
