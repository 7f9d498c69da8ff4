"""Tools of strangers: odd names, words that would be code, schemas without end. The stubs import all the same."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callgate.tools import Registry, Tool
from callgate.tools.stubs import DETAILS, stubs
from callgate.tools.stubs.reading import MOST_FIELDS, MOST_VALUES
from tools.stub_checks import PYRIGHT, foreign, imported, passes_mypy, passes_pyright

WORDS = [
    'ends in a quote"',
    "ends in a backslash\\",
    '"""\nimport os\nos.abort()\n"""',
    "type: ignore",
    "pyright: ignore[x]",
    "mypy: ignore-errors\n# mypy: ignore-errors\n# type: int",
    "coding: utf-7",
    "\u202e reversed \u2028 lines \x00 \x0c \ud800",
    "\t\r\n  \r",
    "#",
    "{braces} %s $ref \N{BLACK HEART SUIT}",
]
KEYS = [
    "class", "None", "__class__", "__x", "_", "self", "cls", "args", "arguments", "more", "str", "list", "dict", "Any",
    "TypedDict", "NotRequired", "a-b", "a b", "", "1", "\N{LATIN SMALL LIGATURE FI}", "fi", "ªº", "ü", "天气", "a\nb",
    'quote"', "back\\slash", "'", "match", "type", "print", "await", "async", "lambda", "_Any", "OMITTED", "raise",
]  # fmt: skip
NAMES = [
    "__class__", "print", "Any", "_Any", "OMITTED", "TypedDict", "str", "ﬁnd", "find", "a.b", "a-b", "class", "f" * 250,
    "NotImplementedError", "staticmethod", "天气", "# type: ignore", "Unpack", "Thing", "odd-name!", "naïve_größe",
]  # fmt: skip
RECURSIVE_LIST = {"json": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/json"}}]}}
MUTUAL = {
    "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}},
    "b": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}},
}
HIDING = {"type": "object", "properties": {"str": {"type": "string"}, "Literal": {}, "b": {"type": "string"}}}
ODD: list[dict[str, Any]] = [
    {"properties": {"a-b": {"type": "string"}, "class": {"enum": ["x", 1, None]}, "__p": {}}, "required": ["a-b"]},
    {"properties": {"optional": {"type": "integer"}, "Any": HIDING}, "required": ["Any"]},
    {"properties": {"late": {"type": "array"}, "early": {}}, "required": ["early"], "additionalProperties": True},
    {"properties": {"value": {"$ref": "#/$defs/json"}}, "$defs": RECURSIVE_LIST},
    {"properties": {"value": {"$ref": "#/$defs/a"}}, "$defs": MUTUAL},
    {"properties": {"a": {"type": "string", "default": "'\\\n"}, "b": {"type": "string", "default": 3}}},
    {"properties": {"ü": {"type": "string"}, "enum": {"enum": ["ü", 'a"b', "\x00"]}}, "required": ["ü"]},
    {"properties": {"x": {"enum": [1.5, 2]}, "y": {"const": {"a": 1}}, "z": {"type": "string", "nullable": True}}},
]


def words_everywhere(text: str) -> dict[str, Any]:
    inner = {"type": "object", "title": text, "description": text, "properties": {"k": {"description": text}}}
    odd = {"type": "object", "description": text, "properties": {text: {"description": text, "default": text}}}
    return {
        "type": "object",
        "description": text,
        "properties": {"a": inner, "b": odd, "c": {"enum": [text]}, "d": {"type": "string", "default": text}},
        "required": ["a"],
    }


def every_key() -> dict[str, Any]:
    return {"type": "object", "properties": {key: {"type": "string", "description": key} for key in KEYS}}


def hostile() -> Iterator[Tool]:
    for number, text in enumerate(WORDS):
        text = text.encode("utf-8", "replace").decode()  # half a character is no JSON: `Tool` refuses it
        yield foreign(f"words_{number}", words_everywhere(text), words_everywhere(text), text)
    yield foreign("keys", every_key(), every_key())
    for number, key in enumerate(KEYS):
        one = {"type": "object", "properties": {key: {"type": "string"}, "beside": {"type": "integer", "default": 1}}}
        yield foreign(f"key_{number}", one, one)
    titled = {"type": "object", "title": "Thing", "properties": {"Thing": {"$ref": "#"}}}
    for name in NAMES:
        yield foreign(name, titled, titled)
    for number, schema in enumerate(ODD):
        yield foreign(f"odd_{number}", schema | {"type": "object"}, schema)


def hostile_registry() -> Registry:
    registry = Registry()
    for each in hostile():
        registry.add(each, rename=True)
    for server in ("github", "Thing", "__srv", "print", "Any", "a b"):
        for number, name in enumerate(NAMES):
            tool = foreign(f"{server}_{number}", {"type": "object", "properties": {name: {"$ref": "#"}}})
            registry.add(replace(tool, server=server, server_tool=name))
    return registry


def test_hostile_tools_import_and_pass_the_type_checkers(tmp_path: Path) -> None:
    modules = [stubs(hostile_registry(), detail=detail) for detail in DETAILS]
    for text in modules:
        imported(tmp_path, text)
    passes_mypy(tmp_path, *modules)


@pytest.mark.slow
@pytest.mark.skipif(PYRIGHT is None, reason="basedpyright is not installed: pip install basedpyright")
def test_hostile_tools_pass_pyright_as_well(tmp_path: Path) -> None:
    passes_pyright(tmp_path, *(stubs(hostile_registry(), detail=detail) for detail in DETAILS))


def test_words_stay_words(tmp_path: Path) -> None:
    for text in WORDS[:-5]:
        module = imported(tmp_path, stubs(Registry([foreign("f", words_everywhere(text), description=text)])))
        assert text.splitlines()[0] in (inspect.getdoc(module.f) or "")


def test_a_checker_is_not_told_to_look_away(tmp_path: Path) -> None:
    told = foreign("f", words_everywhere("type: ignore # pyright: ignore # mypy: ignore-errors"))
    text = stubs(Registry([told])) + "\n\nwrong: int = 'text'  # noqa\n"
    with pytest.raises(AssertionError, match="Found 1 error"):
        passes_mypy(tmp_path, text)
    assert "# 'type': ignore # 'pyright': ignore # 'mypy': ignore-errors\n" in text


def test_keys_keep_their_names_whatever_they_are(tmp_path: Path) -> None:
    result = every_key()
    del result["properties"][""]
    module = imported(tmp_path, stubs(Registry([foreign("f", every_key(), result)])))
    assert set(module.FResult.__annotations__) == {key for key in KEYS if key}
    parameters = inspect.signature(module.f).parameters
    assert {"class_", "str", "_1", "more", "more_"} <= parameters.keys()
    assert parameters["more_"].kind is inspect.Parameter.VAR_KEYWORD


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "object", "properties": {f"k{n}": {"type": "string"} for n in range(3_000)}}, "2,800 more arguments"),
        ({"type": "object", "properties": {"a": {"enum": list(range(5_000))}}}, "f arguments a: 5,000 values"),
        (
            {"type": "object", "properties": {"a": {"properties": {f"k{n}": {} for n in range(3_000)}}}},
            "f arguments a: the 3,000 keys of an object",
        ),
        (
            {"type": "object", "properties": {"a": {"anyOf": [{"const": f"v{n}"} for n in range(900)]}}},
            "f arguments a: 900 alternatives",
        ),
        (
            {"type": "object", "allOf": [{"properties": {f"k{n}": {}}} for n in range(500)]},
            "f arguments: all but 64 parts of allOf",
        ),
        ({"type": "object", "properties": {"x" * 300: {"type": "string"}}}, "1 more argument"),
    ],
    ids=["arguments", "values", "keys", "alternatives", "together", "long-key"],
)
def test_what_is_enormous_is_bounded_and_told(schema: dict[str, Any], told: str, tmp_path: Path) -> None:
    text = stubs(Registry([foreign("f", schema)]))
    assert f"    # left out: {told}\n" in text
    assert len(text) < 20_000
    imported(tmp_path, text)


def test_an_empty_name_is_left_out_since_no_type_can_have_it() -> None:
    inner = {"type": "object", "properties": {"": {"type": "string"}, "x": {"type": "string"}}}
    text = stubs(Registry([foreign("f", {"type": "object", "properties": {"": {}, "a": inner}}, inner)]))
    assert (
        "    # left out: 1 more argument; f arguments a: the 2 keys of an object; f result: the 2 keys of an object\n"
        in text
    )
    assert "async def f(*, a: dict[str, Any] = OMITTED, **more: Any) -> dict[str, Any]:" in text


def test_required_arguments_are_kept_where_there_are_too_many() -> None:
    properties = {f"k{number}": {"type": "string"} for number in range(MOST_FIELDS * 2)}
    last = f"k{MOST_FIELDS * 2 - 1}"
    text = stubs(Registry([foreign("f", {"type": "object", "properties": properties, "required": [last]})]))
    assert f"async def f(*, {last}: str, k0: str = OMITTED, " in text
    assert ", **more: Any) -> Any:" in text


def test_arguments_of_alternatives_are_bounded_together() -> None:
    branches: list[dict[str, Any]] = [
        {"properties": {f"k{branch}_{n}": {} for n in range(150)}} for branch in range(30)
    ]
    text = stubs(Registry([foreign("f", {"type": "object", "anyOf": branches})]))
    assert text.count(" = OMITTED") == MOST_FIELDS
    assert "**more: Any) -> Any:" in text
    assert "left out: 4,300 more arguments" in text


def test_as_many_values_as_fit_are_listed() -> None:
    listed = stubs(Registry([foreign("f", output={"enum": list(range(MOST_VALUES))})]))
    assert f", {MOST_VALUES - 1}]" in listed
    assert "-> int:" in stubs(Registry([foreign("f", output={"enum": list(range(MOST_VALUES + 1))})]))


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for level in range(levels):
        schema = (
            {"type": "object", "title": f"T{level}", "properties": {"k": schema}} if level % 2 else {"items": schema}
        )
    return schema


def chain(length: int) -> dict[str, Any]:
    links = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"type": "null"}]} for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": links | {f"d{length}": {"type": "string"}}}


def linked(length: int) -> dict[str, Any]:
    links = {f"d{n}": {"properties": {"next": {"$ref": f"#/$defs/d{(n + 1) % length}"}}} for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": links}


def every_to_every(size: int) -> dict[str, Any]:
    keys = {f"k{n}": {"$ref": f"#/$defs/d{n}"} for n in range(size)}
    return {"$ref": "#/$defs/d0", "$defs": {f"d{n}": {"title": f"D{n}", "properties": keys} for n in range(size)}}


def odd_circles(size: int) -> dict[str, Any]:
    def keys(place: int) -> dict[str, Any]:
        return {f"k-{n}": {"$ref": f"#/$defs/d{(place * 13 + n) % size}"} for n in range(9)}

    return {"$ref": "#/$defs/d0", "$defs": {f"d{n}": {"title": f"D{n}", "properties": keys(n)} for n in range(size)}}


def wide(size: int) -> dict[str, Any]:
    inner = {f"j{n}": {"type": "string", "description": "x" * 20} for n in range(size)}
    return {"type": "object", "properties": {f"k{n}": {"type": "object", "properties": inner} for n in range(size)}}


def doubling(depth: int) -> dict[str, Any]:
    both = {f"d{n}": {"allOf": [{"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"required": [f"k{n}"]}]},
                                {"oneOf": [{"properties": {f"a{n}": {}}}, {"properties": {f"b{n}": {}}}]}]}
            for n in range(depth)}  # fmt: skip
    return {"$ref": "#/$defs/d0", "$defs": both | {f"d{depth}": {"properties": {"end": {}}}}}


ENDLESS = {
    "deep": deep(48),
    "chain": chain(3_000),
    "linked": linked(3_000),
    "every to every": every_to_every(60),
    "doubling": doubling(40),
    "odd circles": odd_circles(1_900),
    "wide": wide(120),
    "long value": {"enum": ["x" * 900_000]},
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_schema_without_end_takes_bounded_time_and_text(name: str, tmp_path: Path) -> None:
    tool = foreign("f", output=ENDLESS[name])
    began = time.process_time()
    text = stubs(Registry([tool]))
    assert time.process_time() - began < 5
    assert len(text) < 200_000
    imported(tmp_path, text)


def test_schemas_without_end_pass_the_type_checker(tmp_path: Path) -> None:
    smaller = {"linked": linked(100), "every": every_to_every(12), "odd": odd_circles(40), "doubling": doubling(6)}
    tools = [
        foreign(name, output=schema) for name, schema in (smaller | {"chain": chain(100), "deep": deep(48)}).items()
    ]
    passes_mypy(tmp_path, stubs(Registry(tools)))


def test_a_long_first_line_ends_with_a_word() -> None:
    text = stubs(Registry([foreign("f", description="word " * 100 + "\nmore")]), detail="signatures")
    assert f'    """{" ".join(["word"] * 24)} ..."""\n' in text


def test_a_long_description_is_shortened() -> None:
    text = stubs(Registry([foreign("f", description="word " * 10_000)]))
    assert len(text) < 9_000
    assert "... (41,999 more characters)" in text
