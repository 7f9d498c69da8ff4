"""A secret is found wherever it comes back, in every spelling, in a time that depends on the text alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callgate.runtime.known_secrets import MAX_SECRET_CHARACTERS, MAX_SPELLED, KnownSecrets
from callgate.runtime.secret_keys import REDACTED


def known(*secrets: str) -> KnownSecrets:
    made = KnownSecrets()
    for secret in secrets:
        made.learn(secret)
    return made


def in_php(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("/", "\\/")


def in_go(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return written.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


SPELLED: list[Callable[[str], str]] = [
    str,
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
    repr,
    in_php,
    in_go,
    lambda text: repr(f"'\"{text}"),
    lambda text: json.dumps(json.dumps({"said": text})),
    lambda text: json.dumps(json.dumps({"said": text}, ensure_ascii=False), ensure_ascii=False),
    lambda text: json.dumps({"said": repr([text])}),
    lambda text: repr(json.dumps({"said": text})),
    lambda text: json.dumps(in_go(text)),
    lambda text: quote(text, safe="", errors="replace"),
    lambda text: quote(text, errors="replace"),
    lambda text: quote_plus(text, errors="replace"),
]
_secrets = st.text(min_size=6, max_size=40).filter(lambda text: len(text.strip()) >= 4 and text not in REDACTED)
_around = st.text(max_size=20)


@given(_secrets, st.sampled_from(SPELLED), _around, _around)
@example('it\'s "so"/&<ü>\n', SPELLED[7], "", "")
def test_a_secret_is_found_in_every_spelling(
    secret: str, spelled: Callable[[str], str], before: str, after: str
) -> None:
    bare = spelled(f"{before}{secret}{after}")
    shown = known(secret).struck(bare)
    inner = spelled(secret)
    for spelling in (inner, inner.strip("\"'"), secret):
        assert len(spelling) < 6 or spelling not in shown.replace(REDACTED, "\0")


@given(
    st.lists(st.text("ab-", min_size=4, max_size=9).filter(lambda t: t.strip()), min_size=1),
    st.text("ab- ", max_size=99),
)
def test_the_characters_of_every_secret_in_a_text_are_hidden_and_no_others(secrets: list[str], text: str) -> None:
    hidden = [False] * len(text)
    for secret in secrets:
        for at in range(len(text)):
            if text.startswith(secret, at):
                hidden[at : at + len(secret)] = [True] * len(secret)
    shown = known(*secrets, *(f"{number} of many" for number in range(20))).struck(text)
    assert shown.replace(REDACTED, "") == "".join(
        each for each, is_hidden in zip(text, hidden, strict=True) if not is_hidden
    )


@given(_secrets, st.integers(min_value=4))
def test_half_a_secret_at_the_end_of_a_text_that_was_cut_is_left_out(secret: str, end: int) -> None:
    secret = "w" + secret
    half = secret[: min(end, len(secret) - 1)]
    assert known(secret).without_half(f"now {half}") == "now "
    assert known(secret).without_half("now, an ordinary text") == "now, an ordinary text"


@pytest.mark.parametrize("end", ["…", "...", '"...', " ... (20 more)", "… and more"])
def test_half_a_secret_before_a_mark_of_a_cut_is_hidden(end: str) -> None:
    for made in (known("open sesame"), known("open sesame", *(f"{number} of many" for number in range(20)))):
        assert made.struck(f"said open ses{end}") == f"said {REDACTED}{end}"
        assert made.struck("the door is open") == "the door is open"
        assert made.struck("the door is open", is_cut=True) == f"the door is {REDACTED}"


def test_of_a_very_long_secret_the_beginning_is_searched_for_and_all_that_follows_is_hidden() -> None:
    secret = "".join(map(str, range(MAX_SECRET_CHARACTERS)))
    assert known(secret).struck(f"a {secret} b") == f"a {REDACTED}"
    assert known(secret).struck(f"a {secret[:200]} b") == f"a {secret[:200]} b"


def test_a_secret_over_several_lines_leaves_their_number_where_lines_count() -> None:
    assert known("one\ntwo").struck("a one\ntwo b", keep_lines=True) == f"a {REDACTED}\n b"
    assert known("one\ntwo").struck("a one\ntwo b") == f"a {REDACTED} b"


def test_secrets_without_room_are_not_kept_and_it_is_said() -> None:
    made = known(*(f"secret number {number}" for number in range(MAX_SPELLED // 40)))
    assert made.full
    assert made.struck("secret number 7") == REDACTED
    assert len(made._secrets) < 20_000


@pytest.mark.parametrize("text", ["a" * 200_000, "a\\" * 100_000, "aaab" * 50_000, "-----" * 40_000])
def test_texts_made_to_be_slow_are_not(text: str) -> None:
    made = known(
        *("a" * length + f"{length:04}" for length in range(40, 400)),
        *("aaab" * 50 + f"{length:04}" for length in range(400)),
        "-----BEGIN KEY-----\n" + "AbC+/" * 700 + "\n-----END KEY-----",
    )
    began = time.process_time()
    shown = made.struck(text)
    made.without_half(text)
    assert time.process_time() - began < 5  # minutes if each secret is compared at each place
    assert shown in (text, REDACTED)


def test_lines_of_dashes_do_not_hide_a_text_though_keys_begin_with_dashes() -> None:
    keys = ["-----BEGIN RSA PRIVATE KEY-----\n" + f"{n}AbC+/" * 500 + "\n-----END RSA PRIVATE KEY-----" for n in "xyz"]
    made = known(*keys)
    table = ("-" * 80 + "\n| a | b |\n") * 50
    assert made.struck(table) == table
    assert made.struck(f"{table}{keys[1]}{table}") == f"{table}{REDACTED}{table}"
