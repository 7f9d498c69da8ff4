"""The file system: a read-only tmpfs that holds Python's own files and nothing else; what a guest may read and write.

Layout of the new root: /python (interpreter and standard library), /lib (the shared libraries they need), /guest (this
package), /packages (the operator's, where given), /usr/share/zoneinfo, /dev/null, /dev/zero, /dev/urandom, /input (the
operator's folders) and an empty /scratch, into which /tmp and /output lead. A guest mounts its own tmpfs on /scratch,
and the files of its run, if there are any, on /input.

Under this root lies another tmpfs, which no path leads to: its folder ``staging`` has the files of all guests. The
zygote has its working directory there. A fresh child mounts its own files from there by a relative path, and then
leaves for /output: nothing leads back.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .syscalls import libc, syscall

_READ_ONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8  # the same bits for mount(2) and mount_setattr(2)
_BIND, _MOVE, _RECURSIVE, _PRIVATE = 0x1000, 0x2000, 0x4000, 1 << 18
_DETACH = 2
# linux/mount.h: FSOPEN_CLOEXEC and FSMOUNT_CLOEXEC, FSCONFIG_SET_STRING and _CMD_CREATE, MOVE_MOUNT_F_EMPTY_PATH
_CLOSE_ON_EXEC, _SET_STRING, _CREATE, _EMPTY_PATH = 1, 1, 6, 4
_AT_RECURSIVE = 0x8000

PYTHON = f"/python/lib/python{sys.version_info[0]}.{sys.version_info[1]}"
EXECUTABLE = "/python/bin/python3"
INPUT, OUTPUT, SCRATCH = "/input", "/output", "/scratch"
_STAGING = "staging"
_SCREENS = "_tkinter."
"""Draws on a screen, which no guest has: its libraries would be some twenty mounts more for each guest."""
_INODES = 4096
"""Files, folders and links that a guest can make."""
_UNTOUCHED = 1, 1
"""Nanoseconds. Not 0, which archives give to the folder that they are unpacked in."""


class Files(NamedTuple):
    """Files of the host that a guest may read: absolute paths of the host."""

    executable: str
    stdlib: str
    extensions: str
    guest: str
    packages: str | None
    libraries: dict[str, str]
    """Shared libraries: the path under which the linker found each, to the path it is to have inside."""

    @classmethod
    def of_this_python(cls, packages: str | None) -> Files:
        stdlib = sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix, "base": sys.base_prefix})
        extensions = sysconfig.get_config_var("DESTSHARED") or os.path.join(stdlib, "lib-dynload")
        if not os.path.isdir(extensions):
            extensions = os.path.join(stdlib, "lib-dynload")
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        executable = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
        libraries = _libraries([extensions, packages] if packages else [extensions])
        return cls(executable, stdlib, extensions, here, packages, libraries)


class _Info(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))  # the head of struct dl_phdr_info


def _libraries(folders: list[str]) -> dict[str, str]:
    """The shared libraries that the extension modules in `folders` need, as the dynamic linker itself finds them.

    A child process loads them all and lists what came along; nothing stays loaded here.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, "\n".join(_load_and_list(folders)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        names = pipe.read().decode().split("\n")
    os.waitpid(child, 0)
    inside = {}
    for name in names:
        if (
            os.path.isabs(name)
            and os.path.exists(name)
            and not any(name.startswith(f"{folder}/") for folder in folders)
        ):
            inside[name] = f"/lib/{os.path.basename(name)}"
    return inside


def _load_and_list(folders: list[str]) -> list[str]:
    for folder in folders:
        for where, _, files in os.walk(folder):
            for file in files:
                if file.endswith(".so") and not file.startswith(_SCREENS):
                    try:
                        ctypes.CDLL(os.path.join(where, file))
                    except OSError:  # one that cannot be loaded here cannot be loaded inside either
                        continue
    names: list[str] = []
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Info), ctypes.c_size_t, ctypes.c_void_p)

    def collect(info: ctypes._Pointer[_Info], _size: int, _data: object) -> int:
        names.append(os.fsdecode(info.contents.name or b""))
        return 0

    ctypes.CDLL(None).dl_iterate_phdr(callback(collect), None)
    return names


def enter(files: Files, folders: Mapping[str, str], staging: str | None) -> None:
    """Build the new root in this process's own mount namespace and make it `/`; the old one is gone. `OSError`.

    Afterwards the working directory is the tmpfs below the root.

    Args:
        files: Python's own.
        folders: of the host, by their names below /input.
        staging: folder of the host that has the files of all guests, if there is one.
    """
    sources = _binds(files, folders)
    opened = {inside: os.open(outside, os.O_PATH | os.O_CLOEXEC) for inside, outside in sources.items()}
    staged = os.open(staging, os.O_PATH | os.O_CLOEXEC) if staging else None
    libc("mount", None, b"/", None, _RECURSIVE | _PRIVATE, None)
    below = next(path for path in ("/tmp", "/run", "/mnt", "/var") if os.path.isdir(path))
    libc("mount", b"callgate", below.encode(), b"tmpfs", _NOSUID | _NODEV, b"mode=755,size=4k,nr_inodes=4")
    if staged is not None:
        _bind(staged, f"{below}/{_STAGING}", _READ_ONLY | _NOSUID | _NODEV | _NOEXEC)
    base = f"{below}/root"
    os.mkdir(base, 0o755)
    libc("mount", b"callgate", base.encode(), b"tmpfs", _NOSUID | _NODEV, b"mode=755,size=1m,nr_inodes=4096")
    for inside, source in opened.items():
        attributes = _READ_ONLY | _NOSUID | (0 if inside.startswith("/dev/") else _NODEV)
        # nothing updates the access times of files on a read-only mount
        _bind(source, base + inside, attributes | (_NOEXEC if inside.startswith(f"{INPUT}/") else 0))
    for hidden in ("site-packages", "dist-packages"):
        if os.path.isdir(f"{base}{PYTHON}/{hidden}"):
            libc(
                "mount", b"callgate", f"{base}{PYTHON}/{hidden}".encode(), b"tmpfs", _READ_ONLY, b"size=4k,nr_inodes=2"
            )
    os.makedirs(base + INPUT, 0o755, exist_ok=True)
    os.mkdir(base + SCRATCH, 0o755)
    os.symlink(f"{SCRATCH}/tmp", f"{base}/tmp")
    os.symlink(f"{SCRATCH}/output", base + OUTPUT)
    os.chdir(below)
    syscall("pivot_root", ctypes.c_char_p(b"."), ctypes.c_char_p(b"."))
    libc("umount2", b".", _DETACH)
    os.chdir("/")
    lower = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    os.chdir("root")
    libc("mount", b".", b"/", None, _MOVE, None)  # a process in a mere chroot could make no user namespace
    os.chroot(".")
    os.fchdir(lower)
    os.close(lower)
    for path in ("/", "."):
        _set_attributes(path, _READ_ONLY | _NOSUID | _NODEV, recursive=False)


def _binds(files: Files, folders: Mapping[str, str]) -> dict[str, str]:
    """Source of each mount, by its path inside the new root. Parents stand before children."""
    binds = {EXECUTABLE: files.executable, PYTHON: files.stdlib, "/guest/callgate_guest": files.guest}
    if os.path.dirname(files.extensions) != files.stdlib:
        binds[f"{PYTHON}/lib-dynload"] = files.extensions
    if files.packages:
        binds["/packages"] = files.packages
    for outside, inside in files.libraries.items():
        binds[inside] = outside
        if os.path.basename(outside).startswith("ld-"):  # the program interpreter is found by its full path
            binds[outside] = outside
    for path in ("/usr/share/zoneinfo", "/dev/null", "/dev/zero", "/dev/urandom"):
        if os.path.exists(path):
            binds[path] = path
    return binds | {f"{INPUT}/{name}": path for name, path in folders.items()}


def _bind(source: int, target: str, attributes: int) -> None:
    """Mount what the descriptor `source` is, and close that."""
    _make_place(target, directory=os.path.isdir(f"/proc/self/fd/{source}"))
    libc("mount", f"/proc/self/fd/{source}".encode(), target.encode(), None, _BIND | _RECURSIVE, None)
    _set_attributes(target, attributes)
    os.close(source)


def _make_place(target: str, *, directory: bool) -> None:
    if os.path.lexists(target):
        return
    os.makedirs(target if directory else os.path.dirname(target), mode=0o755, exist_ok=True)
    if not directory:
        os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC, 0o644))


def _set_attributes(path: str, attributes: int, *, recursive: bool = True) -> None:
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)  # struct mount_attr
    syscall(
        "mount_setattr", -100, ctypes.c_char_p(path.encode()), _AT_RECURSIVE if recursive else 0,
        ctypes.c_char_p(wanted), len(wanted),
    )  # fmt: skip


def mount_input(name: str, folders: Sequence[str]) -> None:
    """Mount the files that `staging` has under `name` on /input, beside the operator's folders. Raises `OSError`."""
    own = f"{_STAGING}/{name}"
    for folder in folders:
        libc("mount", f"{INPUT}/{folder}".encode(), f"{own}/{folder}".encode(), None, _BIND | _RECURSIVE, None)
    libc("mount", own.encode(), INPUT.encode(), None, _BIND | _RECURSIVE, None)


def make_scratch(size: int, links: int = 0) -> tuple[int, int]:
    """Make a file system of `size` bytes that has /tmp and /output, and is mounted nowhere yet. Raises `OSError`.

    Returns a descriptor of the mount and one of /output, whose time of change is `_UNTOUCHED` until a name in it
    changes.

    Args:
        size: bytes of all files in it.
        links: links that it is to have room for, besides what a guest makes.
    """
    made = syscall("fsopen", ctypes.c_char_p(b"tmpfs"), _CLOSE_ON_EXEC)
    try:
        for key, value in ((b"size", b"%d" % size), (b"nr_inodes", b"%d" % (_INODES + links))):
            syscall("fsconfig", made, _SET_STRING, ctypes.c_char_p(key), ctypes.c_char_p(value), 0)
        syscall("fsconfig", made, _CREATE, None, None, 0)
        mount = syscall("fsmount", made, _CLOSE_ON_EXEC, _NOSUID | _NODEV | _NOEXEC)
    finally:
        os.close(made)
    try:
        for name in ("tmp", "output"):
            os.mkdir(name, 0o755, dir_fd=mount)
        os.utime("output", ns=_UNTOUCHED, dir_fd=mount)
        return mount, os.open("output", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=mount)
    except BaseException:
        os.close(mount)
        raise


def mount_scratch(mount: int, inputs: Sequence[str] = ()) -> None:
    """Mount what `make_scratch` has made; it is gone with this mount namespace. Raises `OSError`.

    Args:
        mount: a descriptor.
        inputs: names in /input that are to lead there from /output, too.
    """
    syscall("move_mount", mount, ctypes.c_char_p(b""), -100, ctypes.c_char_p(SCRATCH.encode()), _EMPTY_PATH)
    if inputs:
        for name in inputs:
            with contextlib.suppress(OSError):  # no room
                os.symlink(f"{INPUT}/{name}", f"{SCRATCH}/output/{name}")
        os.utime(f"{SCRATCH}/output", ns=_UNTOUCHED)


def unmount_scratch() -> None:
    """Forget what `mount_scratch` has mounted. Raises `OSError`."""
    libc("umount2", SCRATCH.encode(), _DETACH)
