"""P01 to P12: what a program can reach of the host's files."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from probes.conftest import open_jail
from probes.harness import REFUSED, Jail, control


def refused(got: dict[str, str]) -> bool:
    return bool(got) and set(got.values()) <= REFUSED


def test_a_plain_program_with_a_tool_call_works(jail: Jail) -> None:
    jail.is_well()


def test_p01_host_files_cannot_be_read(jail: Jail, place: Path) -> None:
    snippet = "got = {path: attempt(lambda: open(path, 'rb').read(1)) for path in paths}"
    everyones = ["/etc/passwd", str(place / "canary"), "/proc/self/status"]
    assert set(control(snippet, paths=everyones).values()) == {"done"}
    others = ["/etc/shadow", "/root/.ssh/id_rsa", "/etc/hostname", "/proc/1/cmdline", "/sys/kernel/notes", "/var/run"]
    assert refused(jail.probe(snippet, paths=everyones + others))


def test_p02_host_folders_cannot_be_listed(jail: Jail, place: Path) -> None:
    snippet = """
def names(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return None
got = [names(path) for path in paths] + [sum(1 for _ in os.walk("/etc"))]
"""
    paths = ["/", str(place), "/etc", "/home", "/proc", os.path.dirname(__file__)]
    seen = control(snippet, paths=paths)
    assert seen[1] == ["canary"]
    assert seen[-1] > 1
    inside = jail.probe(snippet, paths=paths)
    assert inside[1:] == [None] * 5 + [0]
    own = {"dev", "guest", "input", "lib", "lib64", "output", "packages", "python", "scratch", "tmp", "usr"}
    assert set(inside[0]) <= own if jail.kind.lists_root else inside[0] is None


def test_p02_names_of_packages_are_all_that_is_shown_of_them_if_that(jail: Jail) -> None:
    snippet = """
folder = os.path.join(os.path.dirname(os.__file__), "site-packages")
def names(path):
    try:
        return len(os.listdir(path))
    except OSError:
        return -1
got = [os.path.isdir(folder), names(folder), [attempt(lambda: open(os.path.join(folder, name, "__init__.py")))
       for name in (os.listdir(folder) if names(folder) > 0 else [])]]
"""
    _, count, opened = jail.probe(snippet)
    assert "done" not in opened
    assert count <= 0 or jail.kind.leak("site-packages")


def test_p03_nothing_can_be_made_on_the_host(jail: Jail, place: Path) -> None:
    snippet = """
def at(name):
    return os.path.join(place, name)
got = {
    "open": attempt(lambda: open(at("a"), "w").close()), "mkdir": attempt(lambda: os.mkdir(at("b"))),
    "symlink": attempt(lambda: os.symlink("x", at("c"))), "link": attempt(lambda: os.link(at("canary"), at("d"))),
    "rename": attempt(lambda: os.rename(at("canary"), at("e"))), "append": attempt(lambda: open(at("e"), "a").close()),
    "unlink": attempt(lambda: os.unlink(at("e"))), "mkfifo": attempt(lambda: os.mkfifo(at("f"))),
}
"""
    assert refused(jail.probe(snippet, place=str(place)))
    assert os.listdir(place) == ["canary"]
    assert (place / "canary").read_text() == "canary-h0st-file"
    assert set(control(snippet, place=str(place)).values()) == {"done"}


def test_p04_proc_tells_nothing(jail: Jail) -> None:
    snippet = """
got = {path: attempt(lambda: open(path, mode).close()) for path, mode in paths}
"""
    own = [["/proc/self/mem", "r+b"], ["/proc/self/environ", "rb"], ["/proc/self/maps", "rb"]]
    assert set(control(snippet, paths=own).values()) == {"done"}
    host = os.getpid()
    others = [
        [f"/proc/{pid}/{name}", "rb"] for pid in (1, host, jail.keeper_pid) for name in ("environ", "mem", "maps")
    ]
    others += [[f"/proc/{host}/root/etc/passwd", "rb"], [f"/proc/{host}/cwd/.", "rb"]]
    assert refused(jail.probe(snippet, paths=own + others))


def _digest(folder: str) -> str:
    told = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        path = Path(folder, name)
        if path.is_file():
            told.update(name.encode() + path.read_bytes())
    return told.hexdigest()


def test_p05_libraries_cannot_be_changed(jail: Jail, place: Path) -> None:
    snippet = """
import json.decoder
sys.path.insert(0, folder)
module = __import__("probed") if use_packages else json
path = module.__file__
cache = os.path.join(os.path.dirname(path), "probed.pyc")
got = {
    "append": attempt(lambda: open(path, "a").close()), "truncate": attempt(lambda: open(path, "r+").close()),
    "trunc": attempt(lambda: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC))),
    "new": attempt(lambda: open(cache, "wb").close()), "remove": attempt(lambda: os.unlink(path)),
}
"""
    (place / "probed.py").write_text("answer = 42\n")
    (place / "probed.py").chmod(0o666)
    if jail.kind.host_packages:
        with ExitStack() as stack:
            packaged = open_jail(stack, jail.kind, packages=str(place), pool_size=0)
            inside = packaged.probe(snippet, folder="/nowhere", use_packages=True)
            assert refused(inside), inside
    assert (place / "probed.py").read_text() == "answer = 42\n"
    assert sorted(os.listdir(place)) == ["canary", "probed.py"]
    standard = os.path.dirname(hashlib.__file__)
    before = _digest(standard)
    assert refused(jail.probe(snippet, folder="/nowhere", use_packages=False))
    assert _digest(standard) == before
    assert set(control(snippet, folder=str(place), use_packages=True).values()) == {"done"}


def test_p06_host_paths_cannot_be_told_apart_unless_that_is_said(jail: Jail, place: Path) -> None:
    snippet = "got = [attempt(lambda: os.stat(path)), os.path.exists(path), attempt(lambda: os.readlink(link))]"
    (place / "link").symlink_to("canary")
    paths: dict[str, Any] = {"path": str(place / "canary"), "link": str(place / "link")}
    assert control(snippet, **paths) == ["done", True, "done"]
    seen = ["done", True] if jail.kind.leak("stat") else ["ENOENT", False]
    assert jail.probe(snippet, **paths) == [*seen, "ENOENT" if jail.kind.own_files else "EPERM"]
    assert ("can be probed with stat" in jail.runtime.backend.description) == jail.kind.leak("stat")


def test_p07_modes_times_and_attributes_of_host_files_stay(jail: Jail, place: Path) -> None:
    snippet = """
got = {
    "chmod": attempt(lambda: os.chmod(path, 0o600)), "utime": attempt(lambda: os.utime(path, (1, 1))),
    "chown": attempt(lambda: os.chown(path, os.getuid(), os.getgid())),
    "lchown": attempt(lambda: os.lchown(path, os.getuid(), os.getgid())),
    "chmod_at": attempt(lambda: os.chmod("canary", 0o600, dir_fd=os.open(place, os.O_PATH))),
}
"""
    canary = place / "canary"
    before = canary.stat()
    assert refused(jail.probe(snippet, path=str(canary), place=str(place)))
    assert jail.probe("got = attempt(lambda: os.setxattr(path, 'user.probe', b'x'))", path=str(canary)) in REFUSED
    after = canary.stat()
    for each in ("st_mode", "st_uid", "st_gid", "st_mtime_ns", "st_ctime_ns"):
        assert getattr(before, each) == getattr(after, each)
    assert set(control(snippet, path=str(canary), place=str(place)).values()) == {"done"}


def test_p08_host_files_cannot_be_cut_and_the_disk_is_not_shown(jail: Jail, place: Path) -> None:
    snippet = """
got = {
    "truncate": attempt(lambda: os.truncate(path, 0)), "mknod": attempt(lambda: os.mknod(path + ".node")),
    "cut while open": attempt(lambda: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC))),
    "neither read nor write": attempt(lambda: os.close(os.open(path, 3 | os.O_TRUNC))),
}
"""
    path = str(place / "canary")
    assert refused(jail.probe(snippet, path=path))
    assert (place / "canary").read_text() == "canary-h0st-file"
    assert not (place / "canary.node").exists()
    size = "v = None\ntry:\n    v = os.statvfs('/')\nexcept OSError: pass\ngot = v and v.f_blocks * v.f_frsize"
    assert (jail.probe(size) or 0) <= 64 << 20
    assert control(size) > 64 << 20
    assert set(control(snippet, path=path).values()) == {"done"}
    assert (place / "canary").read_text() == ""


def test_p09_no_path_leads_out(jail: Jail, place: Path) -> None:
    snippet = """
import tempfile
def through_link():
    link = os.path.join(tempfile.gettempdir(), "probe-link-%d" % os.getpid())
    os.symlink("/etc", link)
    try:
        open(link + "/passwd").close()
    finally:
        os.unlink(link)
def upwards():
    fd = os.open(tempfile.gettempdir(), os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(20):
        fd = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
    os.open("etc/passwd", os.O_RDONLY, dir_fd=fd)
def by_path_only():
    fd = os.open("/", os.O_PATH)
    os.open("etc/passwd", os.O_RDONLY, dir_fd=fd)
got = {
    "dots": attempt(lambda: open("/tmp/../etc/passwd").close()), "link": attempt(through_link),
    "upwards": attempt(upwards), "by path": attempt(by_path_only),
    "by own root": attempt(lambda: open("/proc/self/root/etc/passwd").close()),
}
"""
    assert set(control(snippet, cwd=place).values()) == {"done"}
    assert set(jail.probe(snippet).values()) <= REFUSED | {"FileNotFoundError"}


def test_p10_devices_cannot_be_opened(jail: Jail) -> None:
    snippet = "got = {path: attempt(lambda: os.close(os.open(path, os.O_RDWR))) for path in paths}"
    harmless = ["/dev/zero", "/dev/full"]
    assert set(control(snippet, paths=harmless).values()) == {"done"}
    devices = ["/dev/kvm", "/dev/vda", "/dev/mem", "/dev/fuse", "/dev/ptmx", "/dev/tty", "/dev/net/tun"]
    assert refused(jail.probe(snippet, paths=[*devices, "/dev/full", "/dev/random", "/dev/console"]))


def test_p11_no_descriptor_of_the_host_is_inherited(jail: Jail, place: Path) -> None:
    snippet = """
import stat
kinds = {}
for fd in range(1024):
    try:
        kinds[fd] = stat.S_IFMT(os.fstat(fd).st_mode)
    except OSError:
        pass
got = kinds
"""
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.set_inheritable(fd, True)
        assert stat.S_IFDIR in control(snippet, pass_fds=[fd]).values()
        kinds = jail.probe(snippet)
    finally:
        os.close(fd)
    files = (stat.S_IFDIR, stat.S_IFREG, stat.S_IFBLK, stat.S_IFLNK)
    assert not [fd for fd, kind in kinds.items() if kind in files]
    # stdin is /dev/null, stdout and stderr a pipe, two pipes of the wire, the event loop's own three
    assert len(kinds) <= 8
    assert jail.probe("got = attempt(lambda: os.listdir('/proc/self/fd'))") in REFUSED


def test_p12_the_working_folder_is_the_jails_own(jail: Jail, place: Path) -> None:
    snippet = """
got = [os.getcwd(), attempt(lambda: open("canary").close()), sum(attempt(lambda: os.fchdir(fd)) == "done" for fd in range(64))]
"""
    assert control(snippet, cwd=place)[:2] == [str(place), "done"]
    assert jail.probe(snippet) == [jail.kind.folder, "ENOENT", 0]


@pytest.mark.parametrize("path", ["/tmp", "/dev/shm", "/var/tmp", "/run/lock"])
def test_p03_what_a_program_writes_stays_in_its_own_scratch(jail: Jail, path: str) -> None:
    name = f"{path}/probe-{os.getpid()}"
    written = jail.probe("got = attempt(lambda: open(name, 'w').write('x'))", name=name)
    assert not os.path.exists(name)
    assert written == "done" if path == "/tmp" and jail.kind.own_files else written in REFUSED
