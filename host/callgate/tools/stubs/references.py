"""Where a reference of a JSON Schema document leads: pointers (RFC 6901), anchors, and ids, within the one document.

Nothing is ever fetched; what leads elsewhere leads nowhere.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

__all__ = ["REFERENCES", "Document", "Schema"]

Schema = dict[str, Any]

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class Document:
    """One schema document.

    Args:
        root: the whole of it. It must not change, and it outlives this object.
    """

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._bases: dict[int, str] | None = None
        self._places: dict[str, Any] = {}

    def target(self, schema: Schema, reference: str) -> Any:
        """What `reference`, written in `schema`, stands for; None where it leads nowhere.

        Args:
            schema: a part of the document, the same object.
            reference: a URI reference.
        """
        bases = self._bases if self._bases is not None else self._survey()
        try:
            base, fragment = urldefrag(reference)
            here = bases.get(id(schema), "")
            resource = urljoin(here, base) if base else here
        except ValueError:  # no URI at all
            return None
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._places.get(f"{resource}#{fragment}")
        return _at(self._places.get(resource), fragment)

    def _survey(self) -> dict[int, str]:
        """The base URI of every part, by its id(); and what bears a URI or an anchor."""
        self._bases = bases = {}
        own = self._root.get("$id")
        first = urldefrag(own).url if isinstance(own, str) else ""
        self._places = {first: self._root, "": self._root}
        todo: list[tuple[Any, str]] = [(self._root, first)]
        while todo:
            part, base = todo.pop()
            if isinstance(part, dict):
                named = part.get("$id")
                if isinstance(named, str) and part is not self._root:
                    try:
                        base = urldefrag(urljoin(base, named)).url
                    except ValueError:
                        named = None
                    else:
                        self._places.setdefault(base, part)
                for keyword in ("$anchor", "$dynamicAnchor"):
                    if isinstance(part.get(keyword), str):
                        self._places.setdefault(f"{base}#{part[keyword]}", part)
                bases[id(part)] = base
                todo.extend((value, base) for value in part.values() if isinstance(value, (dict, list)))
            else:
                todo.extend((value, base) for value in part if isinstance(value, (dict, list)))
        return bases


def _at(place: Any, pointer: str) -> Any:
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and token in place:
            place = place[token]
        elif isinstance(place, list) and token in map(str, range(len(place))):
            place = place[int(token)]
        else:
            return None
    return place
