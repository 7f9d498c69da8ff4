"""Plots of matplotlib and tables of pandas, as programs write them that were written for a notebook."""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import AsyncIterator

import pytest

from callgate import Artifact, Limits, Runtime
from runtime.conftest import opened

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LIMITS = Limits(memory_bytes=1 << 30)


@pytest.fixture(scope="module")
def plotting(site_packages: str) -> str:
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    return site_packages


@pytest.fixture(scope="module", params=["imported", "preimported", "preimported, tier 2"])
async def runtime(request: pytest.FixtureRequest, anyio_backend: str, plotting: str) -> AsyncIterator[Runtime]:
    ahead = () if request.param == "imported" else ("matplotlib.pyplot", "pandas")
    tier = 2 if "tier 2" in request.param else 1
    async with opened(packages=plotting, preimport=ahead, tier=tier, limits=LIMITS, pool_size=1) as entered:
        yield entered


def size_of(artifact: Artifact) -> tuple[int, int]:
    assert artifact.media_type == "image/png"
    width, height = struct.unpack_from(">II", artifact.data, 16)
    return width, height


PLT = "import matplotlib.pyplot as plt\n"
SHOWN = {
    "plt.show": ("plt.plot([1, 3, 2])\nplt.show()\nprint('on')", ["[picture 1: picture-1.png]\non\n"], 1),
    "a figure that is open at the end": ("plt.plot([1, 3, 2])\nNone", ["[picture 1: picture-1.png]\n"], 1),
    "each once": (
        "plt.plot([1])\nplt.show()\nplt.show()\nplt.bar([1], [2])\nplt.show()\nplt.show()",
        ["[picture 1: picture-1.png]\n[picture 2: picture-2.png]\n"], 2,
    ),
    "two figures": (
        "a, _ = plt.subplots()\nb, axes = plt.subplots()\nprint('first')\nplt.figure(a)\nNone",
        ["first\n[picture 1: picture-1.png]\n[picture 2: picture-2.png]\n"], 2,
    ),
    "display of a figure": (
        "figure, axes = plt.subplots()\ndisplay(figure)\nNone", ["[picture 1: picture-1.png]\n"], 1,
    ),
    "a figure without anything": ("plt.figure()\nNone", [""], 0),
    "a closed figure": ("plt.plot([1])\nplt.close()\nNone", [""], 0),
    "a text alone": ("plt.figure().text(0.5, 0.5, 'hello')\nNone", ["[picture 1: picture-1.png]\n"], 1),
    "agg by hand": (
        "import matplotlib\nmatplotlib.use('Agg')\nplt.plot([1])\nplt.show()\nNone",
        ["[picture 1: picture-1.png]\n"], 1,
    ),
    "show of a figure without its window": ("plt.plot([1])\nplt.gcf().show()\nNone", ["[picture 1: "], 1),
    "a program that exits": ("plt.plot([1])\nraise SystemExit", ["[picture 1: picture-1.png]\n"], 1),
    "pylab": ("from pylab import plot, show\nplot([1])\nshow()", ["[picture 1: picture-1.png]\n"], 1),
    "a plot of pandas": (
        "import pandas as pd\npd.DataFrame({'a': [1, 2]}).plot()\nplt.show()", ["[picture 1: picture-1.png]\n"], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
async def test_figures_become_pictures_each_once(runtime: Runtime, name: str) -> None:
    code, logs, count = SHOWN[name]
    run = await runtime.execute_code(PLT + code)
    assert run.ok, run.error
    assert run.logs.startswith(logs[0]), run.logs
    assert [each.name for each in run.artifacts] == [f"picture-{n}.png" for n in range(1, count + 1)]
    assert all(30 < width < 800 and 10 < height < 600 for width, height in map(size_of, run.artifacts))


async def test_a_figure_as_the_last_value_is_shown_once(runtime: Runtime) -> None:
    run = await runtime.execute_code(f"{PLT}figure, axes = plt.subplots()\naxes.plot([1, 2])\nfigure")
    assert run.value_repr == "[picture 1: picture-1.png]"
    assert len(run.artifacts) == 1


async def test_pictures_of_figures_come_in_the_order_in_which_these_were_made(runtime: Runtime) -> None:
    code = (
        "for width in (3, 5, 7):\n    plt.figure(figsize=(width, 3)).subplots().plot([1, 2])\nplt.figure(1)\nplt.show()"
    )
    run = await runtime.execute_code(PLT + code)
    widths = [size_of(each)[0] for each in run.artifacts]
    assert widths == sorted(widths)
    assert len(widths) == 3


async def test_what_stands_beyond_the_edges_of_a_figure_is_on_its_picture(runtime: Runtime) -> None:
    code = "plt.figure(figsize=(4, 3), dpi=100).text(1.5, 1.2, 'far away')\nplt.show()"
    run = await runtime.execute_code(PLT + code)
    width, height = size_of(run.artifacts[0])
    assert width > 0
    assert (width, height) != (400, 300)
    inside = await runtime.execute_code(f"{PLT}plt.figure(figsize=(4, 3), dpi=100).subplots().plot([1])\nplt.show()")
    assert size_of(inside.artifacts[0]) == (400, 300)


async def test_the_figures_of_a_program_that_fails_are_there(runtime: Runtime) -> None:
    run = await runtime.execute_code(f"{PLT}plt.plot([1, 2])\nprint('so far')\n1 / 0")
    assert run.error is not None
    assert run.error.kind == "ZeroDivisionError"
    assert run.logs == "so far\n[picture 1: picture-1.png]\n"
    assert len(run.artifacts) == 1


async def test_a_session_shows_what_is_new(runtime: Runtime) -> None:
    async with runtime.session() as session:
        first = await session.execute_code(f"{PLT}figure, axes = plt.subplots()\naxes.plot([1, 2])\nNone")
        second = await session.execute_code("1 + 1")
        third = await session.execute_code("axes.plot([2, 1])\ndisplay(figure)")
        fourth = await session.execute_code("plt.plot([3])\nplt.show()")
    assert [len(each.artifacts) for each in (first, second, third, fourth)] == [1, 0, 1, 1]
    assert fourth.artifacts[0].name == "picture-3.png"


HUGE = {
    "too many pixels": "plt.figure(figsize=(1000, 1000), dpi=100).subplots().plot([1])",
    "too much memory": "plt.figure(figsize=(300, 300), dpi=100).subplots().plot([1])",
    "mathematics that is none": "plt.title('$\\\\frac{1}{2$')",
}


@pytest.mark.parametrize("name", HUGE)
async def test_a_figure_that_cannot_be_drawn_is_words_once_and_the_next_one_is_drawn(
    runtime: Runtime, name: str
) -> None:
    run = await runtime.execute_code(f"{PLT}{HUGE[name]}\nplt.figure().subplots().plot([1])\nplt.show()\nprint('on')")
    assert run.ok, run.error
    assert run.logs.count("[the figure raised ") == 1
    assert run.logs.endswith("[picture 1: picture-1.png]\non\n")
    assert len(run.artifacts) == 1


FRAME = """import pandas as pd
frame = pd.DataFrame({f"column {c}": [f"{r}/{c} " * 50 for r in range(500)] for c in range(60)})
"""


@pytest.mark.parametrize("options", ["", "pd.set_option('display.max_rows', None, 'display.max_columns', None)\n"])
async def test_a_table_is_text_of_a_bounded_size_and_a_page(runtime: Runtime, options: str) -> None:
    run = await runtime.execute_code(
        f"{FRAME}{options}display(frame)\nsmall = frame.iloc[:2, :2]\nsmall['n'] = [1, 2]\nsmall"
    )
    assert run.ok, run.error
    assert len(run.logs) < 9_000
    assert "column 0" in run.logs
    assert "[500 rows x 60 columns]" in run.logs
    assert run.value is None
    assert run.value_repr is not None
    assert "column 1" in run.value_repr
    assert [(each.name, each.media_type) for each in run.artifacts] == [
        ("page-1.html", "text/html"), ("page-2.html", "text/html"),
    ]  # fmt: skip
    assert all("<table" in each.text and each.size_bytes < 200_000 for each in run.artifacts)


async def test_a_series_and_an_index_are_text_and_a_series_as_the_value_is_json(runtime: Runtime) -> None:
    run = await runtime.execute_code(
        "import pandas as pd\ns = pd.Series(range(1000), name='n')\ndisplay(s, s.index)\ns[:2]"
    )
    assert run.value == [0, 1]
    assert "Name: n, Length: 1000" in run.logs
    assert "RangeIndex" in run.logs
    assert run.artifacts == []


async def test_a_picture_of_pillow_is_shown(runtime: Runtime) -> None:
    run = await runtime.execute_code("from PIL import Image\nImage.new('RGB', (40, 30))")
    assert run.value_repr == "[picture 1: picture-1.png]"
    assert size_of(run.artifacts[0]) == (40, 30)
