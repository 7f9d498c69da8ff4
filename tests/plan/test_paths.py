"""Paths: what is written is what is read, and a path leads where plain Python would go."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.plan.paths import EVERY, MAX_SEGMENTS, LeadsNowhere, Path, PathFault, look_up, path_text, read_path
from plan.plans import TEXTS, VALUES, is_same

SEGMENTS = TEXTS | st.integers(-999_999_999, 999_999_999) | st.just(EVERY)


@given(st.lists(SEGMENTS, max_size=MAX_SEGMENTS).map(tuple))
def test_a_path_that_is_written_is_read_back(path: Path) -> None:
    text = path_text(path)
    assert read_path(text) == (path, len(text))


@given(st.lists(SEGMENTS, max_size=5).map(tuple), st.sampled_from(["", " ", "}", " and more", ",x", "$", "\n"]))
def test_reading_stops_where_the_path_does(path: Path, rest: str) -> None:
    text = path_text(path)
    assert read_path(f"s1{text}{rest}", 2) == (path, 2 + len(text))


@given(TEXTS)
def test_any_key_can_be_quoted_as_json_or_with_single_quotes(key: str) -> None:
    single = key.replace("\\", "\\\\").replace("'", "\\'")
    for text in (f"[{json.dumps(key)}]", f"[{json.dumps(key, ensure_ascii=False)}]", f"['{single}']"):
        assert read_path(text) == ((key,), len(text))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", ()),
        (".a.b", ("a", "b")),
        (".a[0][-1]", ("a", 0, -1)),
        (".items.0.name", ("items", "0", "name")),
        (".-1", ("-1",)),
        ("[*].x[*]", (EVERY, "x", EVERY)),
        ('["Exchange Rate"]', ("Exchange Rate",)),
        ("['it\\'s']", ("it's",)),
        ("['say \"hi\"']", ('say "hi"',)),
        ("['say \\\"hi\\\"']", ('say "hi"',)),
        ('["two\nlines"]', ("two\nlines",)),
        ('["]"]', ("]",)),
        ('[""]', ("",)),
        (".größe", ("größe",)),
        (".get-user", ("get-user",)),
        (".a@b/c:d#e", ("a@b/c:d#e",)),
        ("[007]", (7,)),
    ],
)
def test_what_is_a_path(text: str, path: Path) -> None:
    assert read_path(text) == (path, len(text))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (".", "there is no name after the dot at '.'", "write .name, or leave the dot out"),
        (".a..b", "there is no name after the dot at '..b'", "write .name, or leave the dot out"),
        (". a", "there is no name after the dot at '. a'", "write .name, or leave the dot out"),
        ("[", "'[' is not an index or a key", 'write [0], [-1], [*] or ["key"]'),
        ("[a]", "'[a]' is not an index or a key", 'write [0], [-1], [*] or ["key"]'),
        ("[1.5]", "'[1.5]' is not an index or a key", 'write [0], [-1], [*] or ["key"]'),
        ("[1:2]", "'[1:2]' is not an index or a key", 'write [0], [-1], [*] or ["key"]'),
        ("[1234567890]", "'[1234567890]' is not an index or a key", 'write [0], [-1], [*] or ["key"]'),
        ('["a]', "'[\"a]' is not an index or a key", 'write [0], [-1], [*] or ["key"]'),
        (
            '["\\x"]', '["\\x"] is not a key', 'write it as JSON does: ["key"], with \\" for a quote'
        ),
        (".a" * 101, "the path has more than 100 parts", "reach for a value further up"),
    ],
)  # fmt: skip
def test_what_is_no_path(text: str, message: str, hint: str) -> None:
    with pytest.raises(PathFault) as caught:
        read_path(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@given(st.text(max_size=30), st.integers(0, 5))
def test_any_text_is_read_to_some_end_or_refused(text: str, start: int) -> None:
    try:
        path, end = read_path(text, start)
    except PathFault:
        return
    assert end >= start
    assert bool(path) == (end > start)


def ways(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Every path into a value, in every form, and what is there."""
    found = [(path, value)]
    if isinstance(value, dict):
        for key, member in value.items():
            found += ways(member, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            for segment in (index, index - len(value), str(index), str(index - len(value))):
                found += ways(item, (*path, segment))
    return found


@given(VALUES, st.data())
def test_a_path_leads_where_plain_python_goes(value: Any, data: st.DataObject) -> None:
    path, there = data.draw(st.sampled_from(ways(value)))
    assert look_up(value, path) is there
    text = path_text(path)
    assert is_same(look_up(value, read_path(text)[0]), there)


@given(VALUES, st.lists(SEGMENTS, max_size=4).map(tuple))
def test_any_path_leads_somewhere_or_says_where_it_ended(value: Any, path: Path) -> None:
    noted: list[LeadsNowhere] = []
    instead = look_up(value, path, instead=noted)
    if not noted:
        assert is_same(look_up(value, path), instead)
        return
    with pytest.raises(LeadsNowhere) as caught:
        look_up(value, path)
    for nowhere in (caught.value, *noted):
        assert nowhere.words("s1").startswith(("'s1", '"s1'))
    if EVERY not in path:
        assert instead is None


@given(st.lists(st.dictionaries(st.just("a"), VALUES, min_size=1)))
def test_a_star_is_a_list_comprehension(value: list[dict[str, Any]]) -> None:
    assert look_up(value, read_path("[*].a")[0]) == [item["a"] for item in value]
    assert look_up({"r": value}, read_path(".r[*]")[0]) == value


@given(st.lists(st.lists(st.lists(st.integers(), min_size=2, max_size=3), max_size=3), max_size=3))
def test_stars_nest(value: list[list[list[int]]]) -> None:
    assert look_up(value, read_path("[*][*][0]")[0]) == [[item[0] for item in row] for row in value]
    assert look_up(value, read_path("[*][*][*]")[0]) == value


def test_what_is_missing_below_a_star_is_null_where_null_may_stand() -> None:
    noted: list[LeadsNowhere] = []
    assert look_up([{"a": 1}, {}, {"a": None}, 5], (EVERY, "a"), instead=noted) == [1, None, None, None]
    assert len(noted) == 2


def test_at_most_ten_are_noted() -> None:
    noted: list[LeadsNowhere] = []
    assert look_up([{}] * 1000, (EVERY, "a"), instead=noted) == [None] * 1000
    assert len(noted) == 10


@pytest.mark.parametrize("name", ["length", "__class__", "constructor", "__proto__", "keys", "real", "append", "0.5"])
@pytest.mark.parametrize("value", [{}, [], [1], "text", 5, 1.5, True, None], ids=repr)
def test_attributes_are_never_reached(value: Any, name: str) -> None:
    with pytest.raises(LeadsNowhere):
        look_up(value, (name,))


@pytest.mark.parametrize("name", ["0", "-1", "1_0", "١", "1e0", " 0", "00000000000"])
def test_a_name_of_digits_is_a_key_of_an_object_and_never_of_text(name: str) -> None:
    assert look_up({name: "here"}, (name,)) == "here"
    with pytest.raises(LeadsNowhere):
        look_up("text", (name,))


@pytest.mark.parametrize("name", ["1_0", "١", "1e0", " 0", "+0", "0" * 10])
def test_only_plain_digits_are_an_index(name: str) -> None:
    with pytest.raises(LeadsNowhere):
        look_up(list(range(20)), (name,))


@pytest.mark.parametrize("segment", [0, -1])
def test_an_index_is_no_key_of_an_object(segment: int) -> None:
    with pytest.raises(LeadsNowhere):
        look_up({"0": 1, "-1": 1}, (segment,))


def test_null_at_the_end_of_a_path_is_a_value() -> None:
    assert look_up({"a": None}, ("a",)) is None


def words(value: Any, path: str) -> str:
    with pytest.raises(LeadsNowhere) as caught:
        look_up(value, read_path(path)[0])
    return caught.value.words("s1")


def test_a_path_that_leads_nowhere_says_what_is_there_instead() -> None:
    assert words({"temp": 1, "wind": {}}, ".wind.speed") == "'s1.wind' is an empty object"
    assert words({"temp": 1, "wind": 2}, ".x") == "'s1' has the keys: temp, wind"
    assert words({"temp": 1, "wind": 2}, ".tmep") == "'s1' has the keys: temp, wind; did you mean temp?"
    assert words([1, 2], ".x") == "'s1' is an array of 2 items"
    assert words([1, 2], "[2]") == "'s1' is an array of 2 items"
    assert words({"a": {"b": "text"}}, ".a.b.c") == "'s1.a.b' is \"text\" (a string)"
    assert words({"a": None}, '.a["b c"]') == "'s1.a' is null"
    assert words({"a": 5}, ".a[*]") == "'s1.a' is 5 (a number)"
    keys = {f"k{number}": number for number in range(20)}
    assert words(keys, ".zzz") == f"'s1' has the keys: {', '.join(list(keys)[:12])} and 8 more"
    assert len(words({"k" * 10_000: 1}, ".x")) < 100
