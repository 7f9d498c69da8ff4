"""Names of sandboxes and what may be asked of each. Nothing is started."""

from __future__ import annotations

from typing import Any

import pytest

from callgate import ConfigurationError, Runtime
from callgate.sandbox.auto import AutoBackend
from callgate.sandbox.choose import SANDBOXES, make_backend
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.jail import JailBackend
from callgate.sandbox.srt.backend import SrtBackend
from callgate.sandbox.unsafe import UnsafeBackend


@pytest.mark.parametrize(
    ("name", "kind"),
    list(zip(SANDBOXES, [AutoBackend, JailBackend, DockerBackend, SrtBackend, UnsafeBackend], strict=True)),
)
def test_each_name_is_a_backend(name: str, kind: type) -> None:
    assert type(make_backend(name)) is kind


def test_a_backend_of_ones_own_is_taken_as_it_is() -> None:
    backend = JailBackend()
    assert make_backend(backend) is backend


@pytest.mark.parametrize("options", [{"packages": "/"}, {"tier": 1}, {"tier": 2}])
def test_auto_keeps_to_the_jail_where_something_is_asked_that_only_the_jail_has(options: dict[str, Any]) -> None:
    assert isinstance(make_backend("auto", **options), JailBackend)


def test_auto_may_take_docker_where_modules_are_imported_ahead() -> None:
    assert isinstance(make_backend("auto", preimport=("json",)), AutoBackend)


def test_options_beside_a_backend_are_refused_rather_than_lost() -> None:
    for options in ({"folders": {"data": "/"}}, {"packages": "/"}):
        (name,) = options
        with pytest.raises(ConfigurationError, match=rf"{name} are an option .*: JailBackend\({name}=...\)"):
            make_backend(JailBackend(), **options)
        with pytest.raises(ConfigurationError, match="leave out sandbox=None"):
            Runtime(sandbox=None, **options)


def test_docker_takes_an_image_an_engine_and_a_runtime() -> None:
    backend = make_backend("docker", image="mine:2", docker_host="unix:///x.sock", docker_runtime="runsc")
    assert isinstance(backend, DockerBackend)
    assert backend.name == "docker"


@pytest.mark.parametrize(
    ("sandbox", "options", "why"),
    [
        ("doker", {}, "there is no sandbox 'doker'; there are: auto, jail, docker, srt, unsafe"),
        ("jail", {"tier": 3}, "the jail has tier 1 and tier 2, not 3"),
        ("srt", {"tier": 2}, "tier is for the jail: leave it out"),
        ("srt", {"folders": {"data": "/"}}, "srt has no files: use sandbox='jail' or 'docker'"),
        ("srt", {"image": "x"}, "image is for sandbox='docker'"),
        ("jail", {"packages": "/not/there"}, "there is no folder '/not/there'"),
        ("docker", {"packages": "/not/there"}, "there is no folder '/not/there'"),
        ("docker", {"tier": 2}, "tier is for the jail"),
        ("unsafe", {"preimport": ("json",)}, "leave packages and preimport out"),
        ("jail", {"image": "mine"}, "image is for sandbox='docker', not 'jail'"),
        ("auto", {"docker_host": "unix:///x"}, "docker_host is for sandbox='docker', not 'auto'"),
        ("unsafe", {"docker_runtime": "runsc"}, "docker_runtime is for sandbox='docker', not 'unsafe'"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(sandbox: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_backend(sandbox, **options)
    assert why in str(refused.value)
