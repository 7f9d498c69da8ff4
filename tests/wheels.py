"""Small pure wheels, made in a test, so that pip needs no index."""

from __future__ import annotations

import zipfile
from pathlib import Path

__all__ = ["wheel"]


def wheel(folder: Path, name: str = "callgate_test_package", version: str = "1.5", needs: str = "") -> str:
    """The path of a wheel of a package that has `ANSWER`, `ORDER` and tests. `needs`: the package that it needs."""
    about = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}/__init__.py", "ORDER = 'x' in {'a', 'b', 'c', 'd', 'e'}\nANSWER = 42\n")
        file.writestr(f"{name}/tests/test_it.py", "")
        file.writestr(f"{about}/METADATA", metadata + (f"Requires-Dist: {needs}\n" if needs else ""))
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")
    return str(path)
