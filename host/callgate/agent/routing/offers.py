"""What a model is offered in each mode: which meta-tools, and which tools with a definition of their own.

1. A mode offers; it does not force. In declarative mode the model has the tools and ``execute_tool_plan``, and chooses;
   so it is with programs. In individual mode the meta-tools are left out, and nothing else changes.
2. Discovery is beside the modes. Where there are more tools than a model chooses well among, none is shown: the model
   has ``search_tools`` and ``describe_tools`` in every mode, individual mode too, and what it finds becomes part of its
   list (`Runtime.conversation`). Plans and programs call any tool that they may, shown or not.

Makes options for `Runtime.conversation`; reads no task and makes no definition.
"""

from __future__ import annotations

from typing import get_args

from callgate.agent.events import Mode
from callgate.errors import ConfigurationError
from callgate.runtime.model.meta import DefinitionOptions, MetaTool
from callgate.tools.faults import did_you_mean

__all__ = ["MODES", "MOST_SHOWN", "Mode", "mode_of", "offer_of"]

MODES: tuple[Mode, ...] = get_args(Mode)

_ALIASES: dict[str, Mode] = {"individual": "direct", "declarative": "plan"}
"""The names of declarative plan execution."""

_META: dict[Mode, tuple[MetaTool, ...]] = {
    "direct": (),
    "plan": ("execute_tool_plan",),
    "code": ("execute_code",),
    "auto": ("execute_code", "execute_tool_plan"),
}
_DISCOVERY: tuple[MetaTool, ...] = ("search_tools", "describe_tools")

MOST_SHOWN = 30
"""With more tools than this, models search: tool-patterns.md has discovery begin at 30 to 50 tools, where definitions
fill the context and choices go wrong."""


def mode_of(name: str) -> Mode:
    """The mode of that name, or of its alias: ``individual`` is direct, ``declarative`` is plan.

    Raises:
        ConfigurationError: there is none.
    """
    for mode in MODES:
        if name == mode:
            return mode
    if name in _ALIASES:
        return _ALIASES[name]
    known = (*MODES, *_ALIASES)
    hint = did_you_mean(name, known)
    raise ConfigurationError(f"there is no mode {name!r}; there are: {', '.join(known)}{hint}")


def offer_of(
    mode: str, *, tools: int = 0, sandbox: bool = True, search: bool | None = None, most_shown: int = MOST_SHOWN
) -> DefinitionOptions:
    """What the model is offered in a mode: options for `Runtime.conversation` and `Runtime.tool_definitions`.

    Args:
        mode: ``direct`` (or ``individual``), ``plan`` (or ``declarative``), ``code``, ``auto``.
        tools: how many there are.
        sandbox: whether programs can run in one. Without, ``auto`` offers plans and no programs; ``code`` does what it
            is told, and the runtime runs those programs that are graphs of calls.
        search: True: the model finds its tools, however few; False: it is shown all, however many; None: by their
            number.
        most_shown: that number.

    Raises:
        ConfigurationError: there is no such mode.
    """
    chosen = mode_of(mode)
    meta = _META[chosen]
    if chosen == "auto" and not sandbox:
        meta = _META["plan"]
    searched = tools > most_shown if search is None else search
    if searched:
        return {"meta": (*_DISCOVERY, *meta), "direct": ()}
    return {"meta": meta, "direct": "all"}
