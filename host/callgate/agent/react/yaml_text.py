"""YAML as plain values, and where each stands in the text. The one door to `yaml`.

1. What comes out is what JSON has: text, numbers, booleans, null, lists, objects with text for keys. Tags that make
   anything else are refused, and nothing is ever constructed.
2. Size, depth and the number of values are bounded, with aliases written out: a few lines can stand for billions.
3. A key that occurs twice is refused: which one wins differs between readers.

Knows YAML; not what the values mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callgate.errors import ConfigurationError
from callgate.extras import how_to_install
from callgate.tools.faults import printable

__all__ = ["MAX_DEPTH", "MAX_TEXT_BYTES", "MAX_VALUES", "Path", "Place", "yaml_values"]

Path = tuple[str | int, ...]
"""How to reach a value: keys, and positions from 0."""
Place = tuple[int, int]
"""Line and column, from 1."""

MAX_TEXT_BYTES = 256 * 1024
"""A configuration is written by hand."""
MAX_DEPTH = 20
MAX_VALUES = 10_000
"""With aliases written out."""

_PREFIX = "tag:yaml.org,2002:"
_AS_WRITTEN = frozenset({_PREFIX + "str", _PREFIX + "timestamp"})
_PLAIN = frozenset({_PREFIX + "int", _PREFIX + "float", _PREFIX + "bool", _PREFIX + "null"})

_PYYAMLS_OWN = (ValueError, ArithmeticError, LookupError)
"""What PyYAML raises beside its own errors: for escapes of no character, for what a tag does not fit."""


def yaml_values(text: str, what: str) -> tuple[Any, dict[Path, Place]]:
    """The value of a YAML document, and the place of each value in it.

    Args:
        text: the document.
        what: the file, for errors.

    Raises:
        ConfigurationError: PyYAML is not installed; the text is no YAML, or not such as is described above.
    """
    try:
        import yaml
    except ImportError:
        raise ConfigurationError(f"PyYAML, which reads YAML, is not installed: {how_to_install('agent')}") from None
    if len(text.encode("utf-8", "replace")) > MAX_TEXT_BYTES:
        raise ConfigurationError(f"{what} is larger than {MAX_TEXT_BYTES} bytes; it is no configuration of an agent")

    class Loader(yaml.SafeLoader):
        """One that goes no deeper than it may."""

        depth = 0
        nodes = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            here: Any = self
            self.depth += 1
            self.nodes += 1
            if self.nodes > 2 * MAX_VALUES + 1:  # values and keys: reading on would take seconds
                raise _fault(what, here.peek_event().start_mark, f"it has more than {MAX_VALUES} values")
            if self.depth > MAX_DEPTH:
                raise _fault(what, here.peek_event().start_mark, f"it is nested more than {MAX_DEPTH} levels deep")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    loader: Any = None
    try:
        loader = Loader(text)
        if not loader.check_node():
            raise ConfigurationError(f"{what} is empty")
        root: Any = loader.get_node()
        if loader.check_node():
            mark = loader.peek_event().start_mark
            raise _fault(what, mark, "a second document (---) begins: a configuration is one")
        return _Values(loader, what).all(root)
    except yaml.MarkedYAMLError as error:
        said = " ".join(filter(None, (error.context, error.problem)))
        raise _fault(what, error.problem_mark or error.context_mark, f"it is no YAML: {said}") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{what} is no YAML: {printable(str(error).splitlines()[0][:200])}") from None
    except _PYYAMLS_OWN as error:
        raise ConfigurationError(f"{what} is no YAML: {printable(str(error)[:200])}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _fault(what: str, mark: Any, problem: str) -> ConfigurationError:
    where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
    return ConfigurationError(f"{what}{where}: {printable(problem[:300])}")


class _Values:
    """The values of one document."""

    def __init__(self, loader: Any, what: str) -> None:
        self._loader = loader
        self._what = what
        self._left = MAX_VALUES
        self._places: dict[Path, Place] = {}

    def all(self, root: Any) -> tuple[Any, dict[Path, Place]]:
        return self._value(root, ()), self._places

    def _value(self, node: Any, path: Path) -> Any:
        self._left -= 1
        if self._left < 0:
            raise _fault(self._what, node.start_mark, f"it has more than {MAX_VALUES} values, aliases written out")
        if len(path) > MAX_DEPTH:
            raise _fault(self._what, node.start_mark, f"it is nested more than {MAX_DEPTH} levels deep")
        self._places[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
        if node.id == "scalar":
            return self._scalar(node)
        if node.tag not in (_PREFIX + "seq", _PREFIX + "map"):
            raise self._tag(node)
        if node.id == "sequence":
            return [self._value(each, (*path, position)) for position, each in enumerate(node.value)]
        made: dict[str, Any] = {}
        for key, place, below in self._fields(node):
            if key in made:
                raise _fault(self._what, place, f"the key {key[:80]!r} occurs twice in one object")
            made[key] = self._value(below, (*path, key))
            mark = (place.line + 1, place.column + 1)
            self._places[*path, key] = mark
        return made

    def _fields(self, node: Any) -> Iterator[tuple[str, Any, Any]]:
        for key, below in node.value:
            if key.tag == _PREFIX + "merge":
                raise _fault(self._what, key.start_mark, "merge keys (<<) are not read: write the fields out")
            if key.id != "scalar" or key.tag != _PREFIX + "str":
                raise _fault(self._what, key.start_mark, "a key has to be text: put it into quotes")
            yield self._text(key), key.start_mark, below

    def _scalar(self, node: Any) -> Any:
        if node.tag in _AS_WRITTEN:
            return self._text(node)
        if node.tag not in _PLAIN:
            raise self._tag(node)
        try:
            return self._loader.construct_object(node)
        except _PYYAMLS_OWN:
            kind = node.tag.removeprefix(_PREFIX)
            raise _fault(self._what, node.start_mark, f"{node.value[:40]!r} is no {kind} that can be read") from None

    def _text(self, node: Any) -> str:
        """As it was written; two halves of a character, as JSON escapes it, are one."""
        try:
            return str(node.value).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise _fault(self._what, node.start_mark, "it holds half of a character (\\ud800 to \\udfff)") from None

    def _tag(self, node: Any) -> ConfigurationError:
        tag = str(node.tag).replace(_PREFIX, "!!")
        return _fault(self._what, node.start_mark, f"the tag {tag[:80]!r} is not read; there are plain values alone")
