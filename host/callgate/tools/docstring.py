"""Descriptions out of a docstring. The one door to `docstring_parser`: Google, NumPy and Sphinx style.

Knows text only; never fails: a docstring it cannot read becomes the description as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import docstring_parser

__all__ = ["Docs", "read_docstring"]

_FIRST_LINE = "Sections follow."


@dataclass(frozen=True, kw_only=True, slots=True)
class Docs:
    """What a docstring says.

    Attributes:
        description: everything before the sections.
        parameters: description by parameter name.
        returns: description of the result, or empty.
    """

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    returns: str = ""


def read_docstring(text: str | None) -> Docs:
    """Read a docstring in whichever of the three styles it is written."""
    if not text or not text.strip():
        return Docs()
    try:
        parsed = _parsed(text)
    except docstring_parser.ParseError:
        return Docs(description=text.strip())
    paragraphs = [part.strip() for part in (parsed.short_description, parsed.long_description) if part]
    parameters: dict[str, str] = {}
    for param in parsed.params:
        if param.description:
            for name in param.arg_name.split(","):  # NumPy style documents `x, y : int` together
                parameters[name.strip().lstrip("*")] = " ".join(param.description.split())
    returned = parsed.returns.description if parsed.returns else None
    if not paragraphs and not parameters and not (returned and returned.strip()):
        return Docs(description=text.strip())  # sections alone, of which none is a contract: `Raises`, `Example`
    return Docs(
        description="\n\n".join(paragraphs),
        parameters=parameters,
        returns=" ".join(returned.split()) if returned else "",
    )


def _parsed(text: str) -> docstring_parser.Docstring:
    """Parsed; a docstring that begins with a section gets a first line, without which the parser finds nothing."""
    if text.strip().partition("\n")[0].rstrip().endswith(":"):
        parsed = docstring_parser.parse(f"{_FIRST_LINE}\n\n{text.lstrip()}")
        if parsed.meta and parsed.short_description == _FIRST_LINE:
            parsed.short_description = None
            return parsed
    return docstring_parser.parse(text)
