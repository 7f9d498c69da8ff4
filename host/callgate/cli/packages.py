"""``callgate packages``: makes a folder of packages for programs, with a lock, and shows what is in one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from callgate.errors import ConfigurationError
from callgate.sandbox.backend import python_here
from callgate.sandbox.packages import LOCK, REQUIREMENTS, Package, Packages, abi_here, checked

from .options import shared
from .words import Exit, Stop, emit, emit_json, one_line, say

__all__ = ["command"]

_PIP = (
    "install", "--only-binary=:all:", "--no-input", "--no-user", "--no-warn-conflicts", "--disable-pip-version-check",
    "--progress-bar=off", "--root-user-action=ignore",
)  # fmt: skip
_SCRIPTS = "bin"
"""Commands for a shell, which programs do not have."""


@click.group("packages")
def command() -> None:
    """Packages for programs: a folder for Runtime(packages=DIR) and --packages DIR, in the jail and in docker."""


@command.command("add")
@click.argument("names", nargs=-1, required=True, metavar="NAMES...")
@click.option("--to", "folder", required=True, metavar="DIR", help="The folder; made if need be.")
@shared("json")
def add(names: tuple[str, ...], folder: str, json: bool) -> int:
    """Install packages into DIR with this Python's pip, as wheels only: nothing of them runs here. What was added
    before stays, at its versions. Python and pip's own settings (PIP_INDEX_URL) say which wheels and from where.

    DIR then has the packages, callgate-packages.json (the lock: Python, versions, SHA-256 of each wheel) and
    requirements.txt (for `callgate image build --requirements`). Nothing changes in DIR if it fails.

    Exit codes: 0 done, 1 pip failed, 2 usage.
    """
    place = Path(os.path.realpath(folder))
    earlier = _earlier(place)
    requested = tuple(dict.fromkeys((*earlier.requested, *names)))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as beside:
            made = _installed(requested, earlier, Path(beside), str(place))
            _put(Path(beside, "new"), place, Path(beside, "old"))
    except OSError as error:
        raise Stop(f"{error.filename or place}: {error.strerror}", f"nothing was changed in {place}", 1) from None
    _show(made, json)
    return Exit.OK


@command.command("show")
@click.argument("folder", metavar="DIR")
@shared("json")
def show(folder: str, json: bool) -> int:
    """Show what is in a folder of packages.

    Exit codes: 0 programs of this Python can import from it, 1 they cannot, or it has no lock, 2 usage.
    """
    found = Packages.read(folder)
    if not found.requested:
        raise Stop(f"{found.folder} has no lock", f"make it with `callgate packages add NAMES... --to {folder}`", 1)
    _show(found, json)
    try:
        checked(folder)
    except ConfigurationError as error:
        message, _, remedy = str(error).rpartition(": ")
        raise Stop(message, remedy, Exit.FAILED) from None
    return Exit.OK


def _earlier(place: Path) -> Packages:
    """What is in the folder already. Raises `ConfigurationError` if that was not put there by this command."""
    if not place.exists() or (place.is_dir() and not os.listdir(place)):
        return Packages(folder=str(place))
    earlier = Packages.read(place)
    if not earlier.requested:
        raise ConfigurationError(
            f"{place} has other files, and no {LOCK}: name a new folder, which has the packages and nothing else"
        )
    return checked(place)


def _installed(requested: tuple[str, ...], earlier: Packages, beside: Path, folder: str) -> Packages:
    """Have pip install into the folder ``new``, and write its lock. Raises `Stop` with pip's last words."""
    if subprocess.run([sys.executable, "-I", "-c", "import pip"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Stop(f"{sys.executable} has no pip", "get it with `python3 -m ensurepip`, or apt install python3-pip", 1)
    new, pins, report = beside / "new", beside / "pins", beside / "report"
    pins.write_text("\n".join(earlier.pinned), encoding="utf-8")
    say(one_line(f"installing {', '.join(requested)} with {sys.executable} -m pip"), "dim")
    options = [*_PIP, f"--target={new}", f"--report={report}", f"--constraint={pins}"]
    ran = subprocess.run(
        [sys.executable, "-I", "-m", "pip", *options, "--", *requested], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="replace", umask=0o022,  # guests of root are another user
    )  # fmt: skip
    if ran.returncode != 0:
        words = [line for line in ran.stderr.splitlines() if line.strip()][-3:]
        kept = f", with {', '.join(earlier.pinned)} as they are" if earlier.packages else ""
        tip = f"only wheels for Python {python_here()} on {abi_here()} are taken{kept}; `pip download` says more"
        raise Stop("pip could not install: " + one_line(" ".join(words)), tip, Exit.FAILED)
    found = [_package(each) for each in json.loads(report.read_text(encoding="utf-8"))["install"]]
    found.sort(key=lambda each: (not each.requested, each.name.lower()))
    made = Packages(folder=folder, python=python_here(), abi=abi_here(), requested=requested, packages=tuple(found))
    shutil.rmtree(new / _SCRIPTS, ignore_errors=True)
    for name, text in {LOCK: made.lock(), REQUIREMENTS: "\n".join(made.pinned) + "\n"}.items():
        (new / name).write_text(text, encoding="utf-8")
        (new / name).chmod(0o644)
    new.chmod(0o755)
    return made


def _put(new: Path, place: Path, old: Path) -> None:
    """Have the folder `new` in the place of another, which goes to `old`. Raises `OSError`; all is then as before."""
    if place.exists():
        place.rename(old)
    try:
        new.rename(place)
    except OSError:
        if old.exists():
            old.rename(place)
        raise


def _package(entry: dict[str, Any]) -> Package:
    """One of pip's report: https://pip.pypa.io/en/stable/reference/installation-report/"""
    about, source = entry["metadata"], entry["download_info"]
    archive = source["archive_info"]
    return Package(
        name=about["name"], version=about["version"], file=source["url"].rpartition("/")[2],
        sha256=archive.get("hashes", {}).get("sha256") or archive.get("hash", "").removeprefix("sha256="),
        requested=entry["requested"],
    )  # fmt: skip


def _show(found: Packages, as_json: bool) -> None:
    if as_json:
        emit_json(asdict(found))
        return
    emit(one_line(f"{found.folder}: for Python {found.python} ({found.abi})"))
    for each in found.packages:
        needed = "" if each.requested else ", needed by another"
        emit(one_line(f"{each.name} {each.version} sha256 {each.sha256}{needed}"))
