"""Finds the targets of references in a JSON Schema: places in it, anchors, parts with an address of their own.

Knows one document and fetches nothing. References to the standard's own schemas are harmless, and lead to nothing.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from callgate.errors import ConfigurationError

__all__ = ["References", "at_pointer"]

_STANDARD = ("http://json-schema.org/", "https://json-schema.org/")
_VALUES = frozenset({"enum", "const", "default", "examples", "example"})
_NAMES = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies", "dependentRequired"}
)
"""Keywords whose members have names of the author's choice, which are not keywords."""
_WORDS = ("$ref", "$dynamicRef", "$recursiveRef")


class References:
    """The references of one schema.

    Args:
        schema: the whole schema; its parts are found by identity.
        what: words for the schema in errors.
    """

    def __init__(self, schema: dict[str, Any], what: str) -> None:
        self._root = schema
        self._what = what
        self._base: dict[int, str] = {}
        self._resources: dict[str, dict[str, Any]] = {"": schema}
        self._anchors: dict[tuple[str, str], dict[str, Any]] = {}
        self._dynamic: dict[str, list[dict[str, Any]]] = {}
        self._address = "id" if "draft-04" in str(schema.get("$schema")) else "$id"
        self._look()

    def of(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        """The schemas to which a part of the schema refers.

        Raises:
            ConfigurationError: a reference leads nowhere.
        """
        found = []
        for word in _WORDS:
            reference = schema.get(word)
            if isinstance(reference, str):
                found += self._found(schema, word, reference)
        return found

    def _found(self, schema: dict[str, Any], word: str, reference: str) -> list[dict[str, Any]]:
        base = self._base.get(id(schema), "")
        address, fragment = urldefrag(base + reference if reference.startswith("#") else urljoin(base, reference))
        if word == "$dynamicRef" and fragment in self._dynamic:
            return self._dynamic[fragment]
        if word == "$recursiveRef" and "$recursiveAnchor" in self._dynamic:
            return [self._root, *self._dynamic["$recursiveAnchor"]]
        place: Any = self._resources.get(address)
        if place is None and address.startswith(_STANDARD):
            if self._dynamic.keys() & {"meta", "$recursiveAnchor"}:
                raise ConfigurationError(f"{self._what} extends the standard's own schema, which is not supported")
            return []
        if fragment and not fragment.startswith("/"):
            place = self._anchors.get((address, unquote(fragment)))
        elif fragment:
            place = at_pointer(place, unquote(fragment))
        if isinstance(place, bool):
            return []
        if not isinstance(place, dict):
            raise ConfigurationError(f"{self._what} refers to {reference[:100]!r}, which cannot be found in it")
        self._base.setdefault(id(place), address)
        return [place]

    def _look(self) -> None:
        todo: list[tuple[Any, str, bool]] = [(self._root, "", False)]
        while todo:
            item, base, named = todo.pop()
            if named or isinstance(item, list):
                inside = item.values() if isinstance(item, dict) else item
                todo.extend((each, base, False) for each in inside if isinstance(each, (dict, list)))
                continue
            address = item.get(self._address)
            if isinstance(address, str) and address.startswith("#"):
                self._anchors[base, address[1:]] = item
            elif isinstance(address, str):
                base = urldefrag(urljoin(base, address)).url
                self._resources.setdefault(base, item)
            self._base[id(item)] = base
            for word in ("$anchor", "$dynamicAnchor"):
                name = item.get(word)
                if isinstance(name, str):
                    self._anchors[base, name] = item
            if isinstance(item.get("$dynamicAnchor"), str):
                self._dynamic.setdefault(item["$dynamicAnchor"], []).append(item)
            if item.get("$recursiveAnchor") is True:
                self._dynamic.setdefault("$recursiveAnchor", []).append(item)
            todo.extend(
                (each, base, key in _NAMES)
                for key, each in item.items()
                if key not in _VALUES and isinstance(each, (dict, list))
            )


def at_pointer(place: Any, pointer: str) -> Any:
    """The value at a JSON Pointer, or None."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(name)
        elif isinstance(place, list) and name.isascii() and name.isdigit() and len(name) < 9:
            place = place[int(name)] if int(name) < len(place) else None
        else:
            return None
    return place
