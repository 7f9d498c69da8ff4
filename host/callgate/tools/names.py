"""What a tool may be called, and which Python name a program knows it by. The one rule, used everywhere.

1. The name is NFKC-normalised, as Python's own parser does with identifiers.
2. Every character that cannot stand in an identifier becomes ``_``.
3. A name that cannot begin an identifier (a leading digit) gets ``_`` in front; one of underscores alone gets ``tool``.
4. A dunder ends in one ``_`` instead of two.
5. A keyword, a soft keyword, a builtin, or a name every program has gets ``_`` behind: no tool shadows ``list``.

Knows single names; collisions between two tools are the registry's business.
"""

from __future__ import annotations

import builtins
import keyword
import unicodedata
from collections import Counter
from collections.abc import Collection

from callgate.errors import ConfigurationError

__all__ = [
    "RESERVED_NAMES", "check_name", "imported_name", "is_attribute", "is_reserved", "python_name", "spellings",
]  # fmt: skip

RESERVED_NAMES = frozenset(
    {
        # methods of the wire
        "print",
        "execute",
        "cancel",
        # what the model itself is offered
        "execute_code",
        "execute_tool_plan",
        "search_tools",
        "describe_tools",
        # names that every program has
        "ToolError",
        "inputs",
        "tool_call",
        "tools",
    }
)
"""Names no tool may have; names that start with ``rpc.`` are reserved as well (JSON-RPC 2.0, section 8)."""

MAX_NAME_CHARACTERS = 256
"""A tool's name is a label for a model, not a document."""

_MAX_IMPORTED = 128

# Keywords and builtins of Python 3.11 to 3.14, so that the rule is the same whichever of them runs it.
_TAKEN = (
    RESERVED_NAMES
    | frozenset(dir(builtins))
    | frozenset(keyword.kwlist)
    | frozenset(keyword.softkwlist)
    | {"type", "BaseExceptionGroup", "ExceptionGroup", "EncodingWarning", "PythonFinalizationError"}
)


def is_reserved(name: str) -> bool:
    """Whether no tool may have this name."""
    return name in RESERVED_NAMES or name.startswith("rpc.")


def python_name(name: str) -> str:
    """The identifier under which a program calls the tool of that name; any text gives a valid one.

    The result is an NFKC-normal identifier that is no keyword, builtin, dunder or reserved name, and it maps to itself.
    """
    kept = "".join(c if ("_" + c).isidentifier() else "_" for c in unicodedata.normalize("NFKC", name))
    if not kept.strip("_"):
        kept = "tool" + kept
    elif not kept.isidentifier():
        kept = "_" + kept
    if kept.startswith("__") and kept.endswith("__"):
        kept = kept.rstrip("_") + "_"
    return kept + "_" if kept in _TAKEN else kept


def is_attribute(name: str) -> bool:
    """Whether ``holder.name`` can be written, and means that very name."""
    dunder = name.startswith("__") and name.endswith("__")
    return (
        name.isidentifier() and not keyword.iskeyword(name) and not dunder and unicodedata.is_normalized("NFKC", name)
    )


def spellings(parameters: Collection[str]) -> dict[str, str]:
    """How programs write the parameters that are no Python names, and which these are: ``{"from_": "from"}``.

    ``from`` is written ``from_`` and ``page-size`` is written ``page_size``. A parameter whose spelling is another
    one's name, or another one's spelling, has none: it is given as ``**{"from": ...}``.

    Args:
        parameters: the names of one tool's parameters; any text.
    """
    odd = [name for name in parameters if not name.isidentifier() or keyword.iskeyword(name)]
    if not odd:
        return {}
    wanted = {name: _spelled(name) for name in odd}
    taken = Counter((*parameters, *wanted.values()))
    return {written: name for name, written in wanted.items() if taken[written] == 1}


def _spelled(name: str) -> str:
    kept = "".join(c if ("_" + c).isidentifier() else "_" for c in unicodedata.normalize("NFKC", name))
    kept = kept if kept.isidentifier() else f"_{kept}"
    return f"{kept}_" if keyword.iskeyword(kept) else kept


def imported_name(server: str, tool: str) -> str:
    """``server_tool``: the name under which a server's tool is added to a registry, whatever the server calls it.

    An identifier of at most 128 characters; two tools may come out alike, and then the registry renames the second.
    """
    return python_name(f"{server[:_MAX_IMPORTED]}_{tool[:_MAX_IMPORTED]}"[:_MAX_IMPORTED])[:_MAX_IMPORTED]


def check_name(name: object, what: str = "a tool's name") -> None:
    """Refuse what cannot name a tool, or a server.

    Raises:
        ConfigurationError: not text, empty, too long, or with characters that do not print.
    """
    if not isinstance(name, str):
        raise ConfigurationError(f"{what} must be a string, not {name!r}")
    if not name.strip():
        raise ConfigurationError(f"{what} must not be empty")
    if len(name) > MAX_NAME_CHARACTERS:
        raise ConfigurationError(
            f"{what} has at most {MAX_NAME_CHARACTERS} characters, this one has {len(name)}: {name[:40]!r}..."
        )
    if not name.isprintable():
        raise ConfigurationError(f"{what} must be printable, {name!r} is not")
