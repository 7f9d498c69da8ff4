"""The one rule that turns any name into a Python identifier."""

from __future__ import annotations

import builtins
import keyword
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import ConfigurationError
from callgate.tools import RESERVED_NAMES, is_reserved, python_name
from callgate.tools.names import check_name


@pytest.mark.parametrize(
    ("foreign", "python"),
    [
        ("get_weather", "get_weather"),
        ("get-weather", "get_weather"),
        ("github.issues list", "github_issues_list"),
        ("2fa", "_2fa"),
        ("class", "class_"),
        ("match", "match_"),
        ("list", "list_"),
        ("print", "print_"),
        ("tools", "tools_"),
        ("rpc.discover", "rpc_discover"),
        ("__import__", "__import_"),
        ("__x__", "__x_"),
        ("ﬁnd", "find"),
        ("naïve", "naïve"),
        ("→", "tool_"),
        ("_", "tool_"),
        ("", "tool"),
        ("__debug__", "__debug_"),
    ],
)
def test_a_foreign_name_becomes_an_identifier(foreign: str, python: str) -> None:
    assert python_name(foreign) == python


@given(st.text(max_size=40))
def test_any_text_gives_a_usable_identifier(text: str) -> None:
    name = python_name(text)
    assert name.isidentifier()
    assert not keyword.iskeyword(name)
    assert not keyword.issoftkeyword(name)
    assert not hasattr(builtins, name)
    assert not is_reserved(name)
    assert unicodedata.normalize("NFKC", name) == name
    assert not (name.startswith("__") and name.endswith("__"))


@given(st.text(max_size=40) | st.sampled_from([*RESERVED_NAMES, *dir(builtins), *keyword.kwlist]))
def test_the_rule_leaves_its_own_results_alone(text: str) -> None:
    assert python_name(python_name(text)) == python_name(text)


def test_the_names_of_the_wire_and_of_every_program_are_reserved() -> None:
    assert {"print", "execute", "cancel", "execute_code", "execute_tool_plan", "tool_call", "tools"} <= RESERVED_NAMES
    assert is_reserved("rpc.anything")
    assert not is_reserved("rpc")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "a tool's name must not be empty"),
        ("  ", "a tool's name must not be empty"),
        (5, "a tool's name must be a string, not 5"),
        ("a\nb", r"a tool's name must be printable, 'a\\nb' is not"),
        ("x" * 257, "a tool's name has at most 256 characters, this one has 257: '" + "x" * 40),
    ],
)
def test_what_cannot_name_a_tool_is_refused(name: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_name(name)
