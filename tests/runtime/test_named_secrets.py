"""What stands under the name of a secret in a text is hidden, with or without quotes; what only looks so stays."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate import Redaction
from callgate.runtime.redaction import REDACTED

ONCE = json.dumps({"user": "ann", "password": 'hun"ter\\2', "n": 1})
TWICE = json.dumps({"text": ONCE})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("PGPASSWORD=hunter2 psql -h db", f"PGPASSWORD={REDACTED} psql -h db"),
        ("password: hunter2", f"password: {REDACTED}"),
        ("user: ann\napi_key: abc.def\nn: 1", f"user: ann\napi_key: {REDACTED}\nn: 1"),
        ("password = hunter2\nn = 1", f"password = {REDACTED}\nn = 1"),
        ("--password=hun(ter2 --user=ann", f"--password={REDACTED} --user=ann"),
        ("login failed (user=ann, password=hunter2)", f"login failed (user=ann, password={REDACTED})"),
        ("{password: hunter2, user: ann}", f"{{password: {REDACTED}, user: ann}}"),
        ("access_token=hunter2&page=2", f"access_token={REDACTED}&page=2"),
        ("Authorization: Token hunter2", f"Authorization: Token {REDACTED}"),
        ("Set-Cookie: a=hunter2; Path=/; b=c\nDate: x", f"Set-Cookie: {REDACTED}\nDate: x"),
        ("user=ann\\npassword=hunter2\\nn=1", f"user=ann\\npassword={REDACTED}\\nn=1"),
        ("connection_string=postgres://me:hunter2@db/x", f"connection_string={REDACTED}"),
        (
            "cmd = \"curl -H 'Authorization: Bearer abcdef.123'\"",
            f"cmd = \"curl -H 'Authorization: Bearer {REDACTED}'\"",
        ),
        ("note = \"password='hunter2'\"", f"note = \"password='{REDACTED}'\""),
        ("pin_code: 4711", f"pin_code: {REDACTED}"),
    ],
)
def test_a_value_without_quotes_under_the_name_of_a_secret_is_hidden(text: str, shown: str) -> None:
    assert Redaction().text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "async def log_in(user: str, password: str, pin: SecretStr = None) -> str: ...",
        "Args:\n    password: The password of the user.\n    token: from the last page",
        "password = ask()",
        "token = await next_token(1)",
        "The token: it is where it was.",
        "password: null, token: None",
        "token_count=17 max_tokens: 300",
        '{"type": "object", "properties": {"password": {"type": "string"}}}',
        f"password={REDACTED} token: {REDACTED}",
    ],
)
def test_signatures_schemas_and_prose_stay(text: str) -> None:
    assert Redaction().text(text) == text


@pytest.mark.parametrize("text", [ONCE, TWICE, json.dumps({"text": TWICE}), repr(ONCE), repr(TWICE)])
def test_json_in_json_is_looked_through(text: str) -> None:
    run = Redaction().run()
    shown = run.text(text)
    assert "ter" not in shown
    assert REDACTED in shown
    assert "ann" in shown
    assert "hun" not in run.text('again: hun"ter\\2')


def test_a_word_under_the_name_of_a_secret_is_not_searched_for_elsewhere() -> None:
    run = Redaction().run()
    assert run.text("token=next then") == f"token={REDACTED} then"
    assert run.text("the next one") == "the next one"


def test_a_program_keeps_its_variables_and_its_lines() -> None:
    program = (
        "token = first\nf(token=token, password=config.password)\n"
        'secret = """a\nbcde"""\npin_code = 4711\ng(pin_code=4711)'
    )
    assert Redaction().run().source(program) == (
        f"token = first\nf(token=token, password=config.password)\n"
        f'secret = """{REDACTED}\n"""\npin_code = {REDACTED}\ng(pin_code={REDACTED})'
    )


@given(st.text("abc='\":\\\n password{}[]/@?&", max_size=60))
def test_any_text_is_looked_through_and_keeps_what_is_not_hidden(text: str) -> None:
    shown = Redaction().text(text)
    if REDACTED not in shown:
        assert shown == text
    assert len(Redaction().run().source(text).splitlines()) == len(text.splitlines())


@pytest.mark.parametrize(
    "part",
    [
        "password=",
        "password=)",
        "a:",
        "://",
        "?token=a",
        "\\",
        '\\"',
        'password=\\"',
        "Bearer ",
        "=",
        "token: [",
        "cookie: a;",
        "password:",
        "password: a(",
        "cookie:",
    ],
)
def test_texts_made_to_be_slow_are_not(part: str) -> None:
    for text in (part * (200_000 // len(part)), "password=" + part * (200_000 // len(part)) + "\x00"):
        began = time.process_time()
        Redaction().run().text(text)
        Redaction().run().source(text)
        assert time.process_time() - began < 5  # minutes with the square of its length
