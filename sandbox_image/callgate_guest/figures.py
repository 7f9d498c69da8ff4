"""Figures of matplotlib: how one becomes a picture, and which are open. matplotlib itself is never imported here.

`plt.show()` is callgate's own function in every program; `watch` puts it there when the program imports pyplot.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import io
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["PYPLOT", "Shown", "is_figure", "png", "rehearse", "take_open", "watch"]

PYPLOT = "matplotlib.pyplot"


on_show: Callable[[], None] = lambda: None  # noqa: E731
"""Shows the open figures, for ``plt.show()``: the session that is installed puts its own here."""


class _Finder:
    """The finder of pyplot, first on ``sys.meta_path``: ``plt.show`` is replaced as soon as the module is there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != PYPLOT:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        loader: Any = None if spec is None else spec.loader
        if loader is None:
            return None
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            module.show = _show

        loader.exec_module = exec_module
        return spec


def _show(*_: Any, **__: Any) -> None:
    """Show the open figures as pictures, and close them."""
    on_show()


_show.__name__ = _show.__qualname__ = "show"


def watch() -> None:
    """Let ``plt.show()`` call `on_show` in this process and those forked from it, whenever pyplot is imported."""
    sys.meta_path.insert(0, _Finder())


class Shown:
    """The figures that were shown, and the line that stands for each."""

    def __init__(self) -> None:
        self._lines: weakref.WeakKeyDictionary[Any, str] | None = None

    def note(self, figure: Any, line: str) -> None:
        """The figure has been shown; it is closed, so that it is not shown again at the end of the program."""
        if self._lines is None:
            self._lines = weakref.WeakKeyDictionary()
        self._lines[figure] = line
        _close(figure)

    def line_of(self, value: Any) -> str | None:
        """The line of a figure that was shown; None for any other value."""
        return None if self._lines is None or not is_figure(value) else self._lines.get(value)


def is_figure(value: Any) -> bool:
    """Whether a value is a figure of matplotlib."""
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, getattr(module, "Figure", ()))


def png(figure: Any) -> bytes:
    """Draw a figure, with all that stands beyond its edges.

    ``bbox_inches="tight"`` alone would lay out every figure twice, which takes half as long again.
    """
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    width, height = figure.get_size_inches()
    needed = figure.get_tightbbox()
    if needed.x0 < 0 or needed.y0 < 0 or needed.x1 > width or needed.y1 > height:
        picture = io.BytesIO()
        figure.savefig(picture, format="png", bbox_inches="tight")
    return picture.getvalue()


def take_open() -> Iterator[Any]:
    """The open figures that hold anything, in the order of their numbers, which is that of their making. Each is closed
    after its turn."""
    pyplot = sys.modules.get(PYPLOT)
    for number in list(_quietly(getattr(pyplot, "get_fignums", list)) or ()):
        figure = _quietly(pyplot.figure, number)  # type: ignore[union-attr]
        if figure is not None:
            if len(_quietly(type(figure).get_children, figure) or ()) > 1:  # more than its background
                yield figure
            _close(figure)


def _close(figure: Any) -> None:
    pyplot = sys.modules.get(PYPLOT)
    if pyplot is not None:
        _quietly(pyplot.close, figure)


def _quietly(work: Callable[..., Any], *arguments: Any) -> Any:
    """What `work` returns; None if a program has broken it."""
    with contextlib.suppress(BaseException):
        return work(*arguments)
    return None


def rehearse() -> None:
    """If pyplot was imported ahead: draw a figure, so that a program's first one finds fonts and backend loaded."""
    pyplot = sys.modules.get(PYPLOT)
    if pyplot is not None:
        figure, axes = pyplot.subplots()
        axes.plot([0, 1], [0, 1], label="x")
        axes.bar([0, 1], [1, 2])
        axes.set(title="x", xlabel="x", ylabel="x")
        axes.legend()
        png(figure)
        pyplot.close(figure)
