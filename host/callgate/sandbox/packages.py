"""A folder of packages for programs: what its lock says, and whether the Python that runs programs can import from it.

``callgate packages add`` makes such a folder. Any other folder of packages is taken as it is: without a lock nothing is
known of the Python that it was made for.
"""

from __future__ import annotations

import json
import os
import re
import sysconfig
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from callgate.errors import ConfigurationError

from .backend import python_here

__all__ = ["LOCK", "REQUIREMENTS", "Package", "Packages", "abi_here", "checked"]

LOCK = "callgate-packages.json"
REQUIREMENTS = "requirements.txt"
"""Names and versions, beside the lock: for ``callgate image build --requirements``."""
_PLAIN = re.compile(r"[\w.-]{1,60} [\w.+!-]{1,40}")
_METADATA = re.compile(r"([\w.]+)-([\w.+!]+)\.dist-info")


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """One installed package.

    Attributes:
        name: as the index spells it.
        file: the wheel.
        sha256: of the wheel, in hexadecimal digits.
        requested: whether it was asked for; else another package needs it.
    """

    name: str
    version: str
    file: str
    sha256: str
    requested: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Packages:
    """A folder of packages.

    Attributes:
        python: the Python it was made for, ``3.11``; empty if unknown.
        abi: what compiled modules were made for, e.g. ``cpython-311-x86_64-linux-gnu``; empty if unknown.
        requested: the requirements, as they were given; empty if it has no lock.
        packages: those that were requested first, by their names.
    """

    folder: str
    python: str = ""
    abi: str = ""
    requested: tuple[str, ...] = ()
    packages: tuple[Package, ...] = ()

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Packages:
        """What the lock of `folder` says. Raises `ConfigurationError`: there is no such folder, or its lock is none."""
        path = os.path.abspath(folder)
        if not os.path.isdir(path):
            raise ConfigurationError(f"packages: there is no folder {os.fspath(folder)!r}")
        try:
            lock: Any = json.loads(Path(path, LOCK).read_text(encoding="utf-8"))
            packages = tuple(Package(**each) for each in lock["packages"])
            return cls(folder=path, **{**lock, "requested": tuple(lock["requested"]), "packages": packages})
        except FileNotFoundError:
            return cls(folder=path, packages=tuple(_unlocked(path)))
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise ConfigurationError(
                f"packages: {path}/{LOCK} is no lock ({error}): make the folder anew with `callgate packages add`"
            ) from error

    def lock(self) -> str:
        """The lock, as JSON."""
        return json.dumps({name: value for name, value in asdict(self).items() if name != "folder"}, indent=1) + "\n"

    @property
    def pinned(self) -> list[str]:
        """All of them as requirements: ``numpy==2.1.0``."""
        return [f"{each.name}=={each.version}" for each in self.packages]

    @property
    def shown(self) -> tuple[str, ...]:
        """Names and versions for a model."""
        names = (f"{each.name} {each.version}" for each in self.packages)
        return tuple(name for name in names if _PLAIN.fullmatch(name))

    def must_fit(self, python: str, remedy: str, *, abi: str = "", machine: str = "") -> None:
        """Raises `ConfigurationError` if programs that run on another Python cannot import from it.

        Args:
            python: version of the Python that runs programs; empty if not known.
            remedy: what to do.
            abi: what its compiled modules are made for, if known.
            machine: its processor, if known.
        """
        if python and self.python and python != self.python:
            raise ConfigurationError(
                f"packages: {self.folder} is for Python {self.python}, and programs run on Python {python}: {remedy}"
            )
        if self.abi and (abi not in ("", self.abi) or f"-{machine}" not in f"-{self.abi}"):
            raise ConfigurationError(
                f"packages: {self.folder} is for {self.abi}, and programs run on {abi or machine}: {remedy}"
            )


def _unlocked(folder: str) -> list[Package]:
    """The packages of a folder without a lock, as the names of their metadata say."""
    found = (_METADATA.fullmatch(name) for name in sorted(os.listdir(folder), key=str.lower))
    return [Package(name=each[1], version=each[2], file="", sha256="", requested=False) for each in found if each]


def abi_here() -> str:
    """What compiled modules of this process's Python are made for."""
    return str(sysconfig.get_config_var("SOABI") or "")


def checked(folder: str | os.PathLike[str]) -> Packages:
    """A folder whose packages this process's Python can import. Raises `ConfigurationError`."""
    found = Packages.read(folder)
    remedy = f"make another, with `callgate packages add {' '.join(found.requested)} --to DIR` in this Python"
    found.must_fit(python_here(), remedy, abi=abi_here())
    return found
