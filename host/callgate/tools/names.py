"""Which names a tool may have, and the Python name that programs use for it.

1. The name is NFKC-normalised, as Python's parser does with identifiers.
2. A character that an identifier cannot have becomes ``_``.
3. A name that cannot begin an identifier (a leading digit) gets ``_`` in front. A name of underscores alone gets
   ``tool`` in front.
4. A dunder name ends in one ``_`` instead of two.
5. A keyword, a soft keyword, a builtin, or a name that every program has gets ``_`` at its end: no tool hides ``list``.

Knows single names; the registry handles two tools with the same name.
"""

from __future__ import annotations

import builtins
import keyword
import unicodedata
from collections import Counter
from collections.abc import Collection
from typing import Final

from callgate.errors import ConfigurationError

__all__ = [
    "READ_ARTIFACT", "RESERVED_NAMES", "check_name", "imported_name", "is_attribute", "is_reserved", "python_name",
    "spellings",
]  # fmt: skip

READ_ARTIFACT: Final = "read_artifact"
RESERVED_NAMES = frozenset(
    {
        # methods of the wire
        "print",
        "execute",
        "cancel",
        # of programs alone
        "final_answer",
        # meta-tools
        "execute_code",
        "start_code",
        "wait_run",
        "stop_run",
        "execute_tool_plan",
        "search_tools",
        "describe_tools",
        READ_ARTIFACT,
        # names that every program has
        "ToolError",
        "ApprovalDenied",
        "UnknownOutcome",
        "inputs",
        "tool_call",
        "tools",
    }
)
"""Names no tool may have; names that start with ``rpc.`` are reserved as well (JSON-RPC 2.0, section 8)."""

MAX_NAME_CHARACTERS = 256
"""Longest name of a tool."""

_MAX_IMPORTED = 128

# keywords and builtins of Python 3.11 to 3.14, so that the rule is the same on each of them
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
    """The identifier by which a program calls the tool of that name. Takes any text.

    The identifier is NFKC-normal and not a keyword, builtin, dunder or reserved name; its own `python_name` is itself.
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
    """Whether ``holder.name`` is valid Python and means exactly this name."""
    dunder = name.startswith("__") and name.endswith("__")
    return (
        name.isidentifier() and not keyword.iskeyword(name) and not dunder and unicodedata.is_normalized("NFKC", name)
    )


def spellings(parameters: Collection[str]) -> dict[str, str]:
    """Python spellings of the parameters that are not Python names, and their real names: ``{"from_": "from"}``.

    ``from`` is spelled ``from_``, and ``page-size`` is spelled ``page_size``. If another parameter has that name or
    that spelling, the parameter has no spelling, and programs pass it as ``**{"from": ...}``.

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
    """``server_tool``: the name that a server's tool gets in a registry.

    An identifier of at most 128 characters. Two tools may get the same name; the registry then renames the second.
    """
    return python_name(f"{server[:_MAX_IMPORTED]}_{tool[:_MAX_IMPORTED]}"[:_MAX_IMPORTED])[:_MAX_IMPORTED]


def check_name(name: object, what: str = "a tool's name") -> None:
    """Check the name of a tool or a server.

    Raises:
        ConfigurationError: the name is not text, is empty, too long, or has characters that do not print.
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
