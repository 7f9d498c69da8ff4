"""Redaction: what is shown has no secret, keeps its structure, and is otherwise the value."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate import (
    CallEnded,
    CallProgressed,
    CallRecord,
    CallStarted,
    Event,
    Printed,
    Redaction,
    Registry,
    Secret,
    StepEnded,
    StepResult,
    Tool,
    tool,
)  # fmt: skip
from callgate.runtime.redaction import REDACTED


class Account(pydantic.BaseModel):
    name: str
    code: Annotated[str, Secret]
    parent: Account | None = None


@tool
def log_in(phrase: Annotated[str, Secret], account: Account, pin: pydantic.SecretStr, note: str = "") -> Account:
    """Log in."""
    return account


def from_schema(schema: dict[str, Any], output: dict[str, Any] | None = None) -> Tool:
    return Tool.from_schema("t", "A tool.", schema, lambda **_: None, output_schema=output)


GIVEN = {
    "phrase": "open sesame",
    "account": {"name": "Ann", "code": "c0de-1", "parent": {"name": "Bob", "code": "c0de-2", "parent": None}},
    "pin": "4711",
    "note": "she said open sesame and 4711",
}


def test_what_a_schema_calls_a_secret_is_redacted_at_any_depth_and_wherever_it_comes_back() -> None:
    assert Redaction().arguments(log_in, GIVEN) == {
        "phrase": REDACTED,
        "account": {"name": "Ann", "code": REDACTED, "parent": {"name": "Bob", "code": REDACTED, "parent": None}},
        "pin": REDACTED,
        "note": f"she said {REDACTED} and {REDACTED}",
    }


def test_a_run_remembers_the_secrets_of_its_arguments_in_results_errors_prints_and_its_program() -> None:
    run = Redaction().run()
    run.arguments(log_in, GIVEN)
    shown = json.loads(run.result(None, '{"said":"open sesame","pin":4711,"n":1.5,"c0de-1":true,"ok":[1,null]}'))
    assert shown == {"said": REDACTED, "pin": REDACTED, "n": 1.5, REDACTED: True, "ok": [1, None]}
    assert run.text("login('open sesame', 4711)") == f"login('{REDACTED}', {REDACTED})"


def test_secrets_are_found_as_json_and_python_escape_them() -> None:
    run = Redaction().run()
    secret = 'ä"\n\\x'
    run.arguments(None, {"password": secret})
    for written in (secret, json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret)):
        assert REDACTED in run.text(f"said {written}!"), written
        assert "\\x" not in run.text(f"said {written}!"), written


def test_a_secret_of_a_result_is_redacted_by_the_output_schema() -> None:
    run = Redaction().run()
    assert json.loads(run.result(log_in, '{"name":"Ann","code":"c0de-9","parent":null}'))["code"] == REDACTED
    assert run.text("it is c0de-9") == f"it is {REDACTED}"


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": {"x-callgate-secret": True}},
        {"patternProperties": {"^v": {"format": "password"}}},
        {"properties": {"v": {"anyOf": [{"type": "integer"}, {"x-callgate-secret": True}]}}},
        {"properties": {"v": {"$ref": "#/$defs/S"}}, "$defs": {"S": {"x-callgate-secret": True}}},
        {
            "properties": {"v": {"$ref": "#/$defs/A"}},
            "$defs": {
                "A": {"allOf": [{"$ref": "#/$defs/B"}]},
                "B": {"x-callgate-secret": True, "properties": {"v": {"$ref": "#/$defs/A"}}},
            },
        },
        {"allOf": [{"if": {}, "then": {"properties": {"v": {"x-callgate-secret": True}}}}]},
    ],
)  # fmt: skip
def test_every_form_of_a_schema_can_name_a_secret(schema: dict[str, Any]) -> None:
    assert Redaction().arguments(from_schema({"type": "object", **schema}), {"v": "xyzzy"}) == {"v": REDACTED}


def test_items_of_arrays_can_be_secrets() -> None:
    places = {"all": {"items": {"x-callgate-secret": True}}, "one": {"prefixItems": [{}, {"x-callgate-secret": True}]}}
    shown = Redaction().arguments(
        from_schema({"type": "object", "properties": places}), {"all": ["a", None], "one": [1, 2, 3]}
    )
    assert shown == {"all": [REDACTED, None], "one": [1, REDACTED, 3]}


@pytest.mark.parametrize(
    "key", ["password", "PASSWORD", "db_password", "X-Api-Key", "apiKey", "githubToken", "Set-Cookie", "client secret"]
)
def test_values_under_the_names_of_secrets_are_redacted(key: str) -> None:
    assert Redaction().arguments(None, {"a": [{key: {"x": "abcdef"}}], "b": "abcdef"}) == {
        "a": [{key: REDACTED}],
        "b": REDACTED,
    }


@pytest.mark.parametrize("key", ["token_count", "max_tokens", "monkey", "secretary", "password_hint_shown", "city"])
def test_values_under_other_names_are_shown(key: str) -> None:
    assert Redaction().arguments(None, {key: "abcdef"}) == {key: "abcdef"}


def test_the_operator_adds_names_or_replaces_them() -> None:
    given = {"iban": "DE00 1234", "password": "hunter2"}
    assert Redaction(keys=["IBAN"]).arguments(None, given) == {"iban": REDACTED, "password": REDACTED}
    only = Redaction(keys=["iban"], default_keys=False)
    assert only.arguments(None, given) == {"iban": REDACTED, "password": "hunter2"}


def test_the_operators_function_sees_each_text_and_its_failure_redacts_the_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    redaction = Redaction(redact=lambda text: text.replace("Ann", "A."))
    assert redaction.arguments(None, {"who": ["Ann", 1]}) == {"who": ["A.", 1]}

    def fails(text: str) -> str:
        raise ValueError(text)

    failing = Redaction(redact=fails)
    assert failing.arguments(None, {"who": ["Ann", "Bob"]}) == {"who": [REDACTED, REDACTED]}
    assert failing.text("Ann") == REDACTED
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('f(password="hunter2", n=1)', f'f(password="{REDACTED}", n=1)'),
        ("d['api_key'] = 'hunter2'", f"d['api_key'] = '{REDACTED}'"),
        ("{'token': 'hunter2', 'token_count': '7'}", f"{{'token': '{REDACTED}', 'token_count': '7'}}"),
        ("GET https://h/p?access_token=hunter2&page=2", f"GET https://h/p?access_token={REDACTED}&page=2"),
        ("Authorization: Bearer abcdef.123", f"Authorization: Bearer {REDACTED}"),
        ("postgres://me:hunter2@db/x", f"postgres://me:{REDACTED}@db/x"),
        ('secret = """a\nb"""', f'secret = """{REDACTED}"""'),
        ('password="cut off', f'password="{REDACTED}'),
        ("password = ask()", "password = ask()"),
    ],
)
def test_texts_lose_what_stands_under_the_name_of_a_secret(text: str, shown: str) -> None:
    assert Redaction().text(text) == shown


def test_a_result_that_is_cut_off_or_very_long_shows_its_beginning_without_secrets() -> None:
    run = Redaction().run()
    run.arguments(None, {"password": "open sesame"})
    cut = '{"a":"b","token":"abcd","say":"now open se'
    assert json.loads(run.result(None, cut)) == {"a": "b", "token": REDACTED, "say": "now "}
    long = json.dumps([{"n": n} for n in range(100_000)])
    assert 0 < len(run.result(None, long)) < len(long)


def test_what_cannot_be_looked_through_is_redacted_as_a_whole() -> None:
    deep: Any = "x"
    for _ in range(10_000):
        deep = [deep]
    assert REDACTED in str(Redaction().arguments(None, {"deep": deep}))
    assert json.loads(Redaction().result(None, "[" * 100_000 + "]" * 100_000)) == REDACTED
    assert json.loads(Redaction().result(None, "no JSON")) == REDACTED
    assert Redaction().arguments(None, {"object": object()}) == {"object": REDACTED}
    assert Redaction().run().arguments(None, {"password": "12345", "n": 10**5000})["n"] == REDACTED


def test_a_run_finds_thousands_of_secrets_and_shows_no_text_at_all_once_it_has_no_room_for_more() -> None:
    run = Redaction().run()
    run.arguments(None, {"password": [f"secret number {number}" for number in range(5_000)]})
    assert run.text("secret number 7!") == f"{REDACTED}!"
    assert run.text("secret number 4999!") == f"{REDACTED}!"
    assert run.text("an ordinary text") == "an ordinary text"
    run.arguments(None, {"password": [f'"secret" number {number}' for number in range(60_000)]})
    assert run.text("an ordinary text") == REDACTED
    shown = run.arguments(None, {"other": ["a text", 123456, 12, None, True]})
    assert shown == {"other": [REDACTED, REDACTED, 12, None, True]}


def test_short_values_and_words_for_nothing_are_not_searched_for() -> None:
    run = Redaction().run()
    run.arguments(None, {"password": "abc", "token": "None", "cookie": None, "secret": True})
    assert run.text("abc None True") == "abc None True"


def called(**more: Any) -> CallRecord:
    return CallRecord(1, "log_in", GIVEN, "plan", 0.0, **more)


def test_events_lose_the_secrets_of_their_call_in_arguments_results_errors_messages_and_warnings() -> None:
    run = Redaction().run(Registry([log_in]))
    said = "it is open sesame"
    record = called(error=f"{said}, not open ses", result=json.dumps({"name": said, "code": "c0de-7"}))
    record.changed_arguments = {**GIVEN, "phrase": "another phrase"}
    step = StepResult(
        id="a", wave=0, tool="log_in", status="failed", arguments=GIVEN, result_json=record.result, error=record.error,
        warnings=(said,),
    )  # fmt: skip
    events: list[Event] = [
        CallStarted(record), CallProgressed(record, 1, None, f"{said}, open ses"), CallEnded(record), StepEnded(step),
        Printed(f"{said} and another phrase"),
    ]  # fmt: skip
    for event in events:
        shown = str(run.event(event))
        for secret in ("open s", "another phrase", "c0de", "4711"):
            assert secret not in shown, shown
        assert REDACTED in shown


# properties

_LETTERS = "abc_ ä\"'\\\n😀:=/"
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(_LETTERS, max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("klm", max_size=3), inner, max_size=4),
    max_leaves=15,
)
_secrets = st.text("XYZ\"'\\\nß", min_size=4, max_size=12).filter(lambda text: len(text.strip()) >= 4)


def _with(value: Any, secret: str, draw: Any) -> Any:
    """The value, with the secret put into some of its texts."""
    if isinstance(value, str) and draw(st.booleans()):
        return value + secret + value
    if isinstance(value, list):
        return [_with(each, secret, draw) for each in value]
    if isinstance(value, dict):
        return {key: _with(each, secret, draw) for key, each in value.items()}
    return value


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value if isinstance(value, list) else [*value, *value.values()] if isinstance(value, dict) else []
    return [text for each in inner for text in _texts(each)]


def _shape(value: Any) -> Any:
    if isinstance(value, list):
        return [_shape(each) for each in value]
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    return isinstance(value, str) or value


@given(st.data(), _values, _secrets)
def test_no_secret_comes_out_and_the_structure_stays(data: st.DataObject, value: Any, secret: str) -> None:
    run = Redaction().run()
    mixed = _with(value, secret, data.draw)
    shown = run.arguments(None, {"password": secret, "rest": mixed})
    assert shown["password"] == REDACTED
    assert not any(secret in text for text in _texts(shown["rest"]))
    assert _shape(shown["rest"]) == _shape(mixed)
    result = run.result(None, json.dumps(mixed))
    assert not any(secret in text for text in _texts(json.loads(result)))
    assert secret not in run.text(f"{mixed} {secret}")


@given(_values)
def test_what_is_not_secret_is_untouched(value: Any) -> None:
    redaction = Redaction()
    assert redaction.arguments(None, {"rest": value}) == {"rest": value}
    assert json.loads(redaction.result(None, json.dumps(value))) == value


def test_a_secret_that_a_cut_splits_is_redacted_and_many_long_ones_do_not_hold_up_the_run() -> None:
    run = Redaction().run()
    long = [f"{number:05}" + "s'\"é" * 4000 for number in range(500)]
    run.arguments(None, {"token": long})
    result = json.dumps("x" * (256 * 1024 - 3000) + long[7], ensure_ascii=False)
    began = time.process_time()
    shown = run.result(None, result)
    assert time.process_time() - began < 8  # 20 s if the time grows with the square of a secret's length
    assert long[7][:3] not in shown
