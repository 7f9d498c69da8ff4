"""Makes class names, docstrings and comments of foreign texts, whatever is in them; and words for the constraints that
Python's types cannot express."""

from __future__ import annotations

import inspect
import json
import keyword
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from callgate.tools.faults import printable

__all__ = [
    "Schema", "about", "class_name", "comment", "docstring", "first_line", "is_plain", "one_line", "shortened",
    "shown_default",
]  # fmt: skip

Schema = dict[str, Any]

_MOST_NAME = 80
_MOST_TEXT = 100
# comments that a checker obeys, at the start of a comment or of a comment inside it
_OBEYED = "type|mypy|pyright|pyre|ruff|noqa|flake8|pylint|isort|fmt|yapf|nosec"
_BOUNDS = {
    "": {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"},
    " characters": {"minLength": "≥", "maxLength": "≤"},
    " items": {"minItems": "≥", "maxItems": "≤"},
    " keys": {"minProperties": "≥", "maxProperties": "≤"},
}
"""Keywords of bounds, by their unit."""
_DIRECTIVE = re.compile(rf"(^|#)(\s*)({_OBEYED})(?=\s*:)", re.IGNORECASE)


def class_name(text: str) -> str:
    """An identifier like `text`, in capitalised words; ``Type`` if `text` has no usable character."""
    kept = "".join(c if ("_" + c).isidentifier() else " " for c in unicodedata.normalize("NFKC", text[:1000]))
    words = kept.replace("_", " ").split()
    joined = "".join(word[0].upper() + word[1:] for word in words)[:_MOST_NAME]
    joined = unicodedata.normalize("NFKC", joined)
    return joined if joined.isidentifier() and not keyword.iskeyword(joined) else f"Type{joined}"


def is_plain(key: str) -> bool:
    """Whether a key can be a parameter or a field: an identifier that Python does not rename or mangle."""
    return (
        key.isidentifier()
        and not keyword.iskeyword(key)
        and not key.startswith("__")
        and key != "NotImplementedError"  # the stub raises it
        and unicodedata.normalize("NFKC", key) == key
    )


def shortened(text: str, most: int) -> str:
    """The first `most` characters, and how many are missing."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most:,} more characters)"


def one_line(text: str, most: int = 500) -> str:
    """The text on one line."""
    return shortened(" ".join(text.split()), most)


def first_line(text: str, most: int) -> str:
    """The first line, cut after a whole word if it is too long."""
    line = " ".join(text.partition("\n")[0].split())
    return line if len(line) <= most else f"{line[:most].rpartition(' ')[0] or line[:most]} ..."


def comment(text: str, most: int = 500) -> str:
    """A comment that checkers do not take for an instruction."""
    return "# " + _printable(_DIRECTIVE.sub(r"\1\2'\3'", one_line(text, most)))


def docstring(text: str, indent: str) -> str:
    """`text` as a docstring, with `indent` before each line."""
    lines = [line.rstrip() for line in inspect.cleandoc(text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")]
    lines = [_printable(line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')) for line in lines]
    if len(lines) == 1 and not lines[0].endswith('"'):
        return f'{indent}"""{lines[0]}"""\n'
    first, *others = lines
    return "".join(
        [f'{indent}"""{first}\n', *(f"{indent}{line}\n" if line else "\n" for line in others), f'{indent}"""\n']
    )


def _printable(text: str) -> str:
    return printable(text.expandtabs(4))


def about(schema: Schema) -> str:
    """The description, and the constraints in parentheses; empty if there is neither."""
    described = schema.get("description")
    text = described.strip() if isinstance(described, str) else ""
    constraints = "; ".join(_constraints(schema))
    return " ".join(part for part in (text, f"({constraints})" if constraints else "") if part)


def shown_default(value: Any) -> str:
    """``default ...``; empty for no default (``...``), null, and a long default."""
    text = "" if value in (None, ...) else json.dumps(value, ensure_ascii=False)
    return f"default {text}" if 0 < len(text) <= _MOST_TEXT else ""


def _constraints(schema: Schema) -> Iterator[str]:
    for word in ("format", "contentEncoding", "contentMediaType"):
        if isinstance(schema.get(word), str) and schema[word]:
            yield schema[word][:_MOST_TEXT]
    for unit, signs in _BOUNDS.items():
        bounds = [f"{sign} {schema[word]}" for word, sign in signs.items() if _says(schema.get(word), unit)]
        if bounds:
            yield ", ".join(bounds) + unit
    if _says(schema.get("multipleOf"), ""):
        yield f"a multiple of {schema['multipleOf']}"
    if schema.get("uniqueItems") is True:
        yield "no item twice"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and len(pattern) <= _MOST_TEXT:
        yield f"matches {pattern}"
    if schema.get("deprecated") is True:
        yield "deprecated"


def _says(bound: Any, unit: str) -> bool:
    """Whether the bound is a number worth showing; "at least 0 characters" is not."""
    is_number = isinstance(bound, (int, float)) and not isinstance(bound, bool) and len(str(bound)) <= _MOST_TEXT
    return is_number and (bound != 0 or not unit)
