"""The reports of the README and of the page on files are programs that print what is shown, and make what they say."""

from __future__ import annotations

import importlib.util
import re
import struct
from pathlib import Path

import pytest

from callgate import Limits
from callgate.cli.options import size_text
from docs.pages import blocks, rows, run


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README", "files"])
def test_the_report_of_a_page_prints_what_is_shown_and_makes_a_plot_and_a_clean_file(page: str, tmp_path: Path) -> None:
    found = [importlib.util.find_spec(name) for name in ("matplotlib", "pandas")]
    if None in found:
        pytest.skip("matplotlib or pandas is not installed")
    assert found[0] is not None
    (tmp_path / "packages").symlink_to(Path(str(found[0].origin)).parent.parent)  # as `callgate packages add` makes one
    (program,) = [text for text in blocks(page, "py") if "REPORT" in text]
    (shown,) = [text for text in blocks(page, "text") if "picture-1.png" in text]
    done = run(["-c", program], tmp_path)
    assert (without_handles(done.stdout), done.stderr) == (without_handles(shown), "")
    picture = (tmp_path / "out" / "picture-1.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert min(struct.unpack_from(">II", picture, 16)) > 300
    assert (tmp_path / "out" / "clean.csv").read_text() == "region,euros\nnorth,120.0\nsouth,80.0\nnorth,90.0\n"


def without_handles(text: str) -> str:
    """And without the size of a picture, which follows from the fonts."""
    return re.sub(r"art_\w{32}", "art_", re.sub(r"png, [\d,]+ bytes", "png", text))


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    told = {name: default.replace(" ", "") for name, default, _ in rows("files", "Files out")}
    for name, default in told.items():
        value = getattr(Limits(), name.strip("`"))
        assert default == (size_text(value) if re.search("_bytes", name) else str(value))
    assert len(told) == 4
