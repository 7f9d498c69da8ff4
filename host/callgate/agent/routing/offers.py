"""What a model sees in each mode: which meta-tools, and which tools with a definition of their own.

1. A mode offers; it does not force. In declarative mode the model has the tools and ``execute_tool_plan``, and chooses;
   in code mode it has the tools and ``execute_code``. Individual mode leaves the meta-tools out, and changes nothing
   else.
2. Discovery works in every mode. Where there are more tools than a model chooses well among, the model sees
   ``search_tools`` and ``describe_tools`` instead, and the tools that it finds join its list (`Runtime.conversation`).
   Plans and programs may call tools that the model has not seen.

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
        ConfigurationError: the mode does not exist.
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
    """The options of `Runtime.conversation` and `Runtime.tool_definitions` for a mode.

    Args:
        mode: ``direct`` (or ``individual``), ``plan`` (or ``declarative``), ``code``, ``auto``.
        tools: number of tools.
        sandbox: whether programs can run in a sandbox. Without one, ``auto`` offers plans and no programs; ``code``
            offers programs all the same, and the runtime runs those that are graphs of calls.
        search: True: the model searches its tools; False: it sees all; None: it searches more than `most_shown`.
        most_shown: the most tools that a model sees without a search.

    Raises:
        ConfigurationError: the mode does not exist.
    """
    chosen = mode_of(mode)
    meta = _META[chosen]
    if chosen == "auto" and not sandbox:
        meta = _META["plan"]
    searched = tools > most_shown if search is None else search
    if searched:
        return {"meta": (*_DISCOVERY, *meta), "direct": ()}
    return {"meta": meta, "direct": "all"}
