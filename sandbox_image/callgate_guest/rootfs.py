"""Collects the root file system of a container: this Python, what it loads, the guest, and no shell, pip or compiler.

Runs inside the base image while `Dockerfile.sandbox` is built, or on a host whose own Python becomes the base. Knows
files; knows nothing of engines. Any Python 3 can read this file, so that one that is too old gets a clear error.

Layout: that of the jail's root (`jail.root`), plus /etc/passwd and /etc/group for programs that ask who they are.

The same files give the same bytes: copied in order, with one time, mode and owner for all, and compiled by a process
whose hashes are not random. The .pyc files are never compared with their sources, which nobody can change.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

__all__ = ["collect", "install", "main"]

_OLDEST = (3, 11)
_DROPPED_FOLDERS = frozenset([
    "__pycache__", "site-packages", "dist-packages", "test", "tests", "idle_test", "idlelib", "tkinter", "turtledemo",
    "ensurepip", "lib2to3", "venv",
])  # fmt: skip
_DROPPED_FILES = re.compile(
    r"sitecustomize\.py|usercustomize\.py|turtle\.py|.*\.(a|o|la|exe|pickle|pyc|pyi)|"
    r"(_tkinter|_test.*|_xxtest.*|_ctypes_test|xxlimited.*|xxsubtype|_xxinter.*|nis)\..*\bso"
)
_DROPPED_FROM_PACKAGES = frozenset(["bin/", "py.typed"])
"""Scripts for a shell; the file that lets the Dockerfile copy a folder that need not be there."""
_IMPORTS_TESTS = re.compile(
    rb"^\s*(?:from\s+[\w.]*\btests\b|import\s+[\w.]*\.tests\b|from\s+[\w.]+\s+import\s.*\btests\b)", re.M
)
_WHEELS_NEED = (
    "libgcc_s.so.1", "libstdc++.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libnsl.so.1", "libutil.so.1",
    "libpthread.so.0", "libresolv.so.2", "libz.so.1",
)  # fmt: skip
"""What wheels expect of every Linux (PEP 599; no graphics): packages may be mounted later. The C library itself loads
the first by name when a thread is ended."""
_PASSWD = "root:x:0:0:root:/:/nonexistent\nsandbox:x:65534:65534:sandbox:/tmp:/nonexistent\n"
_GROUP = "root:x:0:\nsandbox:x:65534:\n"
_PIP_SECONDS = 1800
_COMPILE_SECONDS = 1800
_COMPILE = """
import py_compile, sys
root = sys.argv[1]
for path in sys.stdin.read().split("\\0"):
    try:
        py_compile.compile(root + path, dfile=path, doraise=True, quiet=1, optimize=0,
                           invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    except (py_compile.PyCompileError, ValueError):
        pass  # some packages ship files for other versions of Python; it would fail when it is imported, too
"""


def main(arguments: list[str]) -> None:
    """``collect ROOT [PACKAGES]``, ``base ROOT [PACKAGES]`` or ``install FOLDER``; ``$REQUIREMENTS`` lists what to
    install.

    `collect` prints a line of facts at the end (see `facts`). A failure ends the process with one sentence.
    """
    if sys.version_info[:2] < _OLDEST:
        sys.exit(
            f"callgate: the base has Python {sys.version_info[0]}.{sys.version_info[1]}, and guests need "
            f"{_OLDEST[0]}.{_OLDEST[1]} or newer: name another base"
        )
    verb, folder, packages = arguments[0], arguments[1], next(iter(arguments[2:]), None)
    if verb == "install":
        install(os.environ.get("REQUIREMENTS", ""), folder)
    elif verb == "base":
        collect(folder, packages, base=True)
    else:
        if packages:
            install(os.environ.get("REQUIREMENTS", ""), packages)
        collect(folder, packages)
        print("callgate-facts", json.dumps(facts(packages)), flush=True)


def install(requirements: str, folder: str) -> None:
    """Install `requirements` into `folder` with this Python's pip; nothing where there are none.

    Args:
        requirements: lines of a requirements file; or, where it is all one line, requirements with spaces between them.
    """
    lines = requirements.splitlines() if "\n" in requirements else requirements.split()
    if not any(line.partition("#")[0].strip() for line in lines):
        return
    # asked of another process: this one was started without site-packages
    if subprocess.run([sys.executable, "-I", "-c", "import pip"], stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit(
            f"callgate: {sys.executable} has no pip, which is to install the requirements: get it with "
            "`python3 -m ensurepip` (or apt install python3-pip), or name a base that has it"
        )
    os.makedirs(folder, exist_ok=True)
    listed = os.path.join(folder, "callgate-requirements.txt")
    with open(listed, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    options = "--no-input --no-compile --no-user --no-warn-conflicts --disable-pip-version-check --progress-bar=off"
    pip = [sys.executable, "-I", "-m", "pip", "install", *options.split(), "--root-user-action=ignore"]
    pip += ["--target", folder, "-r", listed]
    try:
        status = subprocess.run(pip, timeout=_PIP_SECONDS).returncode
    except subprocess.TimeoutExpired:
        sys.exit(f"callgate: pip took longer than {_PIP_SECONDS} s and was stopped")
    finally:
        os.remove(listed)
    if status != 0:
        sys.exit(f"callgate: pip could not install the requirements (status {status}); its own words are above")


def facts(packages: str | None) -> dict[str, object]:
    """The Python, and names and versions of what is in the folder `packages`, sorted."""
    from importlib.metadata import distributions

    found = distributions(path=[packages]) if packages and os.path.isdir(packages) else ()
    names = sorted({f"{each.metadata['Name']}=={each.version}" for each in found}, key=str.lower)
    return {"python": ".".join(map(str, sys.version_info[:3])), "packages": names}


def collect(root: str, packages: str | None = None, *, base: bool = False) -> None:
    """Copy everything that a guest needs into the empty folder `root`.

    Args:
        root: where to; made if need be.
        packages: a folder of third-party packages to take along.
        base: take only the shared libraries that `packages` need, and compile nothing: this is collected from again.
    """
    from .jail.root import EXECUTABLE, PYTHON, Files

    if packages and not os.path.isdir(packages):
        packages = None
    files = Files.of_this_python(packages)
    copied = _copy_tree(files.stdlib, root + PYTHON, _of_stdlib)
    copied += _copy_tree(files.extensions, f"{root}{PYTHON}/lib-dynload", _of_stdlib)
    copied += [_copy(files.executable, root + EXECUTABLE, 0o755)]
    if sys.platlibdir != "lib":  # where this Python looks for its standard library
        os.symlink("lib", f"{root}/python/{sys.platlibdir}")
    _copy_tree(files.guest, root + "/guest/callgate_guest", _any_source)
    if packages and base:
        copied += [os.path.join(where, name) for where, _, names in os.walk(packages) for name in names]
    elif packages:
        copied += _copy_tree(packages, root + "/packages", _of_packages(packages))
    os.makedirs(root + "/packages", exist_ok=True)
    for outside, inside in sorted(_needed(copied, files.libraries).items()):
        _copy(outside, root + inside, 0o755)
        if os.path.basename(outside).startswith("ld-"):  # the program interpreter is found by its full path
            _copy(outside, root + outside, 0o755)
    if os.path.isdir("/usr/share/zoneinfo"):
        _copy_tree("/usr/share/zoneinfo", root + "/usr/share/zoneinfo", lambda path: path not in ("posix/", "right/"))
    for name, text in (("passwd", _PASSWD), ("group", _GROUP)):
        _write(f"{root}/etc/{name}", text)
    os.makedirs(root + "/tmp", exist_ok=True)
    os.makedirs(root + "/input", exist_ok=True)
    os.symlink("tmp/output", root + "/output")
    if not base:
        _compile(root)
    _level(root)


def _of_stdlib(path: str) -> bool:
    name = os.path.basename(path.rstrip("/"))
    if path.endswith("/"):
        return name not in _DROPPED_FOLDERS and not re.match(r"config-\d", name)
    return not _DROPPED_FILES.fullmatch(name)


def _any_source(path: str) -> bool:
    return path.rstrip("/").rpartition("/")[2] != "__pycache__" and not path.endswith(".pyc")


def _of_packages(packages: str) -> Callable[[str], bool]:
    """Chooses the files of a folder of packages: no scripts; no `tests` folder unless its package imports it."""
    keep = {name for name in os.listdir(packages) if _imports_tests(os.path.join(packages, name))}

    def wanted(path: str) -> bool:
        if path.endswith("/tests/") and path.partition("/")[0] not in keep:
            return False
        return path not in _DROPPED_FROM_PACKAGES and _any_source(path)

    return wanted


def _imports_tests(package: str) -> bool:
    """Whether a source file of a package, outside its `tests` folders, imports such a folder."""
    for where, folders, names in os.walk(package):
        folders[:] = [folder for folder in folders if folder != "tests"]
        for name in names:
            if name.endswith(".py") and name != "conftest.py":
                with open(os.path.join(where, name), "rb") as file:
                    if _IMPORTS_TESTS.search(file.read()):
                        return True
    return False


def _needed(files: list[str], found: dict[str, str]) -> dict[str, str]:
    """The found libraries whose names stand in the files, or in another needed library."""
    for folder in sorted({os.path.dirname(path) for path in found}):
        for name in _WHEELS_NEED:
            if os.path.exists(os.path.join(folder, name)):
                found = {os.path.join(folder, name): "/lib/" + name, **found}
    needed: dict[str, str] = {}
    todo = [path for path in files if re.search(r"\.so\b|/python[\d.]*$", path)]
    while todo:
        with open(todo.pop(), "rb") as file:
            text = file.read()
        for outside, inside in found.items():
            name = os.path.basename(outside)
            if outside not in needed and (name.encode() in text or name in _WHEELS_NEED):
                needed[outside] = inside
                todo.append(outside)
    return needed


def _copy_tree(source: str, target: str, wanted: Callable[[str], bool]) -> list[str]:
    """Copy the files that `wanted` accepts. It gets each path below `source`; a folder's path ends with a slash."""
    copied = []
    for where, folders, names in os.walk(source):
        below = os.path.relpath(where, source) + "/" if where != source else ""
        folders[:] = sorted(folder for folder in folders if wanted(below + folder + "/"))
        for name in sorted(names):
            if wanted(below + name) and os.path.isfile(os.path.join(where, name)):
                copied.append(_copy(os.path.join(where, name), os.path.join(target, below + name)))
    return copied


def _copy(source: str, target: str, mode: int = 0o644) -> str:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
    os.chmod(target, mode)
    return target


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _compile(root: str) -> None:
    """Compile every source under its later name, in a process of its own without random hashes: a .pyc file depends on
    the order of constant sets."""
    sources = []
    for top in ("/python", "/guest", "/packages"):
        for where, folders, names in os.walk(root + top):
            folders.sort()
            sources += [os.path.join(where, name)[len(root) :] for name in sorted(names) if name.endswith(".py")]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    for name in ("PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE"):
        environment.pop(name, None)
    compile_ = [sys.executable, "-P", "-S", "-s", "-W", "ignore", "-c", _COMPILE, root]
    subprocess.run(compile_, input="\0".join(sources).encode(), env=environment, check=True, timeout=_COMPILE_SECONDS)


def _level(root: str) -> None:
    """Give everything one time, one owner and the same modes, whatever user collected it."""
    moment = int(os.environ.get("SOURCE_DATE_EPOCH") or 0)
    for where, _, names in os.walk(root, topdown=False):
        for path in [os.path.join(where, name) for name in names] + [where]:
            if os.path.islink(path):  # it has no mode of its own
                pass
            elif os.path.isdir(path):
                os.chmod(path, 0o1777 if path == root + "/tmp" else 0o755)
            else:
                os.chmod(path, 0o755 if os.stat(path).st_mode & 0o100 else 0o644)
            if os.geteuid() == 0:
                os.chown(path, 0, 0, follow_symlinks=False)
            os.utime(path, (moment, moment), follow_symlinks=False)
