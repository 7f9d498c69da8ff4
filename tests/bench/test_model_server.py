"""The scripted endpoint, a process of its own, as the real SDKs find it."""

from __future__ import annotations

import importlib
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import openai
import pytest

from bench.model_asked import FUNCTIONS, USER, WIRES, Chatting, post, register, served, weather
from bench.scripted_workloads import CITIES, PLAN, PROGRAM, TOOLS
from callgate.bench.model.scripted_model import FAILED


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as found:
        yield found


@pytest.mark.parametrize("wire", WIRES)
def test_a_batch_is_one_turn_with_several_calls(wire: str, address: str) -> None:
    chat = Chatting(wire, register(address))
    chat.ask()
    assert chat.calls == [("get_weather", {"city": city}) for city in CITIES]
    chat.tell(*map(weather, CITIES))
    chat.ask()
    assert chat.calls == [("get_height", {"city": "Oslo"})]
    chat.tell('{"metres": 23}')
    assert (chat.ask(), chat.calls) == ("Oslo: 30 degrees, 23 m", [])


@pytest.mark.parametrize("wire", WIRES)
def test_one_at_a_time_every_call_is_a_turn(wire: str, address: str) -> None:
    made = []
    chat = Chatting(wire, register(address, form="direct"))
    while not (said := chat.ask()):
        ((name, arguments),) = chat.calls
        made.append((name, arguments["city"]))
        chat.tell(weather(arguments["city"]) if name == "get_weather" else '{"metres": 23}')
    assert made == [*(("get_weather", city) for city in CITIES), ("get_height", "Oslo")]
    assert said == "Oslo: 30 degrees, 23 m"


@pytest.mark.parametrize("wire", WIRES)
def test_a_plan_is_an_object_and_a_program_is_rewritten(wire: str, address: str) -> None:
    schema = {"type": "object", "properties": {}}
    names: Any = [{"name": "run", "input_schema": schema}]
    if wire == "openai":
        names = [{"type": "function", "function": {"name": "run", "parameters": schema}}]
    chat = Chatting(wire, register(address, form="plan", tool="run", argument="plan"), names)
    chat.ask()
    ((name, written),) = chat.calls
    assert (name, written["plan"] | {"goal": ""}) == ("run", PLAN | {"goal": ""})
    chat.tell("rome: succeeded")
    assert chat.ask() == "planned: rome: succeeded"
    search = {"tool": "run", "arguments": {"query": "weather"}}
    order: Any = {"form": "program", "tool": "run", "argument": "code", "first": [[search, search], [search]]}
    chat = Chatting(wire, register(address, **order, dialect="sync"), names)
    chat.ask()
    assert chat.calls == [("run", {"query": "weather"})] * 2
    chat.tell("found", "found")
    chat.ask()
    chat.tell("found again")
    chat.ask()
    ((_, arguments),) = chat.calls
    assert "await" in PROGRAM
    assert "await" not in arguments["code"]
    assert "get_weather(city='Rome')" in arguments["code"]
    chat.tell("answer: 20")
    assert chat.ask() == "programmed: 20"


def test_no_two_conversations_have_the_same_program_or_plan_and_theirs_cost_as_much(address: str) -> None:
    names = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object", "properties": {}}}}]
    for form, argument, dialect in (("program", "code", "callgate"), ("program", "code", "sync"), ("plan", "plan", "")):
        written, costs = [], []
        for _ in range(3):
            order = {"form": form, "tool": "run", "argument": argument} | ({"dialect": dialect} if dialect else {})
            chat = Chatting("openai", register(address, **order), names)
            chat.ask()
            written.append(json.dumps(chat.calls[0][1][argument]))
            costs.append(chat.usage[1])
        assert len(set(written)) == 3
        assert len({re.sub(r"conversation \d{4}", "", each) for each in written}) == 1
        assert len(set(costs)) == 1


def _by_hand(sent: dict[str, Any]) -> int:
    """The tokens of a request, by the tokenizer alone."""
    encode = importlib.import_module("splintr").Tokenizer.from_pretrained("o200k_base").encode_ordinary
    texts = [json.dumps(sent["tools"], ensure_ascii=False, separators=(",", ":")), sent.get("system", "")]
    for message in sent["messages"]:
        content = message.get("content") or ""
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_use":
                texts += [block["name"], json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))]
            else:
                texts.append(block["text"] if block["type"] == "text" else block["content"])
        for call in message.get("tool_calls", []):
            texts += [call["function"]["name"], call["function"]["arguments"]]
    return sum(len(encode(text)) for text in texts)


@pytest.mark.parametrize("wire", WIRES)
def test_usage_is_what_the_tokenizer_says_of_the_body_that_was_sent(wire: str, address: str) -> None:
    encode = importlib.import_module("splintr").Tokenizer.from_pretrained("o200k_base").encode_ordinary
    chat = Chatting(wire, register(address))
    chat.ask()
    first = chat.usage
    assert first[0] == _by_hand(chat.sent) > 50
    arguments = [json.dumps({"city": city}, ensure_ascii=False, separators=(",", ":")) for city in CITIES]
    assert first[1] == sum(len(encode("get_weather")) + len(encode(each)) for each in arguments)
    chat.tell(*map(weather, CITIES))
    chat.ask()
    assert chat.usage[0] == _by_hand(chat.sent) > first[0]
    chat.tell('{"metres": 23}')
    said = chat.ask()
    assert chat.usage == (_by_hand(chat.sent), len(encode(said)))


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_waits_for_the_turn_and_for_its_tokens(wire: str, address: str) -> None:
    chat = Chatting(wire, register(address, turn_seconds=0.2, token_seconds=0.01))
    began = time.perf_counter()
    chat.ask()
    taken = time.perf_counter() - began
    assert taken >= 0.2 + 0.01 * chat.usage[1] > 0.3


def test_conversations_go_on_side_by_side(address: str) -> None:
    names = [register(address, turn_seconds=0.5) for _ in range(40)]
    body = {"messages": [USER], "tools": FUNCTIONS}
    began = time.perf_counter()
    with ThreadPoolExecutor(len(names)) as pool:
        answers = list(pool.map(lambda name: post(address, "/v1/chat/completions", {"model": name, **body}), names))
    assert {status for status, _ in answers} == {200}
    assert 0.5 <= time.perf_counter() - began < 15, "one after the other they would take 20 s"


def test_what_is_too_long_is_refused_as_openai_does(address: str) -> None:
    chat = Chatting("openai", register(address, context_tokens=100))
    chat.messages = [{"role": "user", "content": "long " * 500}]
    with pytest.raises(openai.BadRequestError) as caught:
        chat.ask()
    assert (caught.value.code, caught.value.param, caught.value.type) == (
        "context_length_exceeded", "messages", "invalid_request_error",
    )  # fmt: skip
    tokens = _by_hand({"messages": chat.messages, "tools": FUNCTIONS})
    assert f"limit of 100 tokens. Your messages resulted in {tokens} tokens." in str(caught.value)


def test_what_is_too_long_is_refused_as_anthropic_does(address: str) -> None:
    chat = Chatting("anthropic", register(address, context_tokens=100))
    chat.messages = [{"role": "user", "content": "long " * 500}]
    with pytest.raises(anthropic.BadRequestError) as caught:
        chat.ask()
    tokens = _by_hand({"messages": chat.messages, "tools": TOOLS, "system": "Be brief."})
    error = {"type": "invalid_request_error", "message": f"prompt is too long: {tokens} tokens > 100 maximum"}
    assert caught.value.body["error"] == error  # type: ignore[index]


def test_input_that_just_fits_is_taken(address: str) -> None:
    tokens = _by_hand({"messages": [USER], "tools": FUNCTIONS})
    body = {"messages": [USER], "tools": FUNCTIONS}
    for most, status in ((tokens, 200), (tokens - 1, 400)):
        name = register(address, context_tokens=most)
        assert post(address, "/v1/chat/completions", {"model": name, **body})[0] == status


def test_a_model_that_nobody_registered_is_not_found(address: str) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        Chatting("openai", "gpt-6").ask()
    assert caught.value.code == "model_not_found"
    with pytest.raises(anthropic.NotFoundError, match="'not_found_error', 'message': 'model: claude'"):
        Chatting("anthropic", "claude").ask()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("fails", "not what was expected: so it is"),
        ("breaks", "a result that is no JSON: so it is"),
        ("invents", "AssertionError: the script calls get_wether, which is not among"),
        ("stalls", "it neither calls a tool nor answers"),
    ],
)
def test_a_script_that_fails_is_a_model_that_refuses(wire: str, workload: str, words: str, address: str) -> None:
    chat = Chatting(wire, register(address, workload))
    chat.ask()
    if not chat.refusal:
        chat.tell("so it is")
        chat.ask()
    assert chat.refusal.startswith(FAILED + words)
    assert chat.calls == []
    register(address)


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_that_is_sent_again_gets_the_same_words_and_another_turn_none(wire: str, address: str) -> None:
    chat = Chatting(wire, register(address))
    chat.ask()
    first = chat.calls
    chat.messages.pop()
    chat.ask()
    assert chat.calls == first
    chat.messages *= 3
    chat.messages.append(USER)
    late = register(address)
    body = {"model": late, "messages": [USER, {"role": "assistant", "content": "hm"}, USER], "tools": FUNCTIONS}
    status, answer = post(address, "/v1/chat/completions", body)
    assert status == 200
    assert answer["choices"][0]["message"]["refusal"] == FAILED + "it is at turn 0, and is asked for turn 1"


@pytest.mark.parametrize("wire", WIRES)
def test_results_of_six_megabytes_are_read_and_counted(wire: str, address: str) -> None:
    rows = json.dumps({"city": "Rome", "temp": 90, "rows": ["ä row of many"] * 400_000}, ensure_ascii=False)
    assert len(rows.encode()) > 6_000_000
    chat = Chatting(wire, register(address))
    chat.ask()
    chat.tell(rows, *map(weather, CITIES[1:]))
    chat.ask()
    assert chat.calls == [("get_height", {"city": "Rome"})]
    assert chat.usage[0] > 1_000_000
