"""What a program sees when it asks Python: signatures of tools, `help`, `exit`, `quit`, tracebacks without our frames.

A signature is made when it is asked for, of what was sent anyway: the names of the parameters, and which may be left
out. No line of Python is run for tools that nobody asks about.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
import os
import traceback
import types
from collections.abc import Callable, Iterable
from typing import Any

from .wire import PROGRAM_NAME

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PROGRAM = PROGRAM_NAME.rstrip(">")

_NOTHING: Any = object()


class _LeftOut:
    """Shown as the default of a parameter that the host fills in."""

    def __repr__(self) -> str:
        return "..."


_LEFT_OUT = _LeftOut()


def give(code: types.CodeType) -> None:
    """Give programs `help`, `exit` and `quit`, and `inspect.signature` of the functions whose code that is."""
    for name in ("exit", "quit"):
        setattr(builtins, name, _leave)
    builtins.help = _help  # type: ignore[assignment]
    plain: Any = inspect._signature_from_callable  # type: ignore[attr-defined]
    if hasattr(plain, "of_tools"):
        return

    def of_callable(obj: Any, *arguments: Any, **options: Any) -> Any:
        if type(obj) is types.FunctionType and obj.__code__ is code:
            return _signature(obj)
        return plain(obj, *arguments, **options)

    of_callable.of_tools = True  # type: ignore[attr-defined]
    inspect._signature_from_callable = of_callable  # type: ignore[attr-defined]


def words_of(function: Callable[..., Any]) -> list[str]:
    """The words that the host sent for a tool: name, name on the wire, parameters."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    entry = cells["entry"].cell_contents
    return entry.split(" ") if isinstance(entry, str) else list(entry)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    parameters = []
    for word in filter(None, words_of(function)[2:]):
        name = word.removesuffix("=")
        default = _LEFT_OUT if word.endswith("=") else inspect.Parameter.empty
        if name.isidentifier() and not keyword.iskeyword(name):  # any other is given by ``**``
            parameters.append((name, default))
    # where a required one comes after one that may be left out, all are shown as by name
    mixed = [default is _LEFT_OUT for _, default in parameters]
    by_name = mixed != sorted(mixed)
    kind = inspect.Parameter.KEYWORD_ONLY if by_name else inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind, default=default) for name, default in parameters])


def _help(thing: Any = _NOTHING) -> None:
    """Print the documentation of a tool, or of any other object."""
    if thing is _NOTHING:
        print("help(x) tells what x is: a tool, a function, a module, a class.")
        return
    import pydoc

    print(pydoc.plain(pydoc.render_doc(thing, "Help on %s")))


def _leave(code: Any = None) -> None:
    """End the program: as a success with None or 0, and as a failure with anything else."""
    raise SystemExit(code)


_help.__name__ = _help.__qualname__ = "help"
_leave.__name__ = _leave.__qualname__ = "exit"


def hide_own_frames() -> None:
    """Let the module `traceback` leave out callgate's frames, and those that run the program.

    `program.describe` prunes the error that the host receives; this is for `traceback.format_exc`, `print_stack`,
    `logging.exception` and everything else that uses the module `traceback`.
    """
    summary: Any = traceback.StackSummary
    extract = getattr(summary, "_extract_from_extended_frame_gen", None)
    if extract is None or hasattr(extract, "hides"):  # a later Python may do it otherwise: then all frames are shown
        return

    def extracted(klass: Any, frames: Iterable[Any], /, **options: Any) -> Any:
        return extract.__func__(klass, _without_ours(list(frames)), **options)

    extracted.hides = True  # type: ignore[attr-defined]
    summary._extract_from_extended_frame_gen = classmethod(extracted)


def _without_ours(frames: list[Any]) -> list[Any]:
    """Pairs of a frame and its place, without callgate's."""
    names = [frame.f_code.co_filename for frame, _ in frames]
    is_stack = len(frames) > 1 and frames[0][0].f_back is frames[1][0]  # the innermost first: the rest runs the program
    if is_stack:
        own = [place for place, name in enumerate(names) if name.startswith(_PROGRAM)]
        frames = frames[: own[-1] + 1] if own else frames
    return [pair for pair, name in zip(frames, names, strict=False) if not name.startswith(_OURS)]
