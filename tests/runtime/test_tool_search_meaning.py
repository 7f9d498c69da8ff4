"""Searches with an embedder: what it finds, which texts it gets, and what happens if it fails, lies or is slow."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from callgate import ConfigurationError, InvalidArguments, Runtime, SyncRuntime, Tool
from callgate.agent.planning.fallback_plan import names_found
from callgate.runtime.discovery import meaning as module
from callgate.runtime.discovery.meaning import BATCH, Meaning
from callgate.runtime.discovery.search import ToolSearch
from callgate.runtime.statistics_file import VectorsFile
from callgate.tools import Registry
from runtime.conftest import opened
from runtime.embedded import TOOLS, Counted, meaning_of
from runtime.notes_files import database
from runtime.searched import names

pytestmark = pytest.mark.anyio


def searching(embed: Any, *tools: Any) -> ToolSearch:
    return ToolSearch(Registry(tools or TOOLS), meaning=Meaning(embed))


def things(count: int, say: str = "") -> list[Tool]:
    return [
        Tool.from_schema(f"thing_{n:04}", f"Does thing {n}. {say}", {"type": "object"}, print) for n in range(count)
    ]


# what is found


async def test_what_means_the_same_is_found_without_the_words() -> None:
    search = searching(Counted())
    for query, best in (("brighter, please", "set_lamp_level"), ("do I need an umbrella", "get_weather")):
        for result in (await search.ask(query), search.find(query)):
            assert names(result)[0] == best
            assert result.found[0].why == "its meaning is similar"
            assert result.note == ""
    assert names(ToolSearch(Registry(TOOLS)).find("brighter, please")) == []


async def test_words_and_meaning_are_fused() -> None:
    search = searching(Counted())
    (first, second, third) = (await search.ask("level of the money, money and rent")).found
    assert (first.tool.name, first.why) == ("set_lamp_level", 'it says "level"; its meaning is similar')
    assert (second.tool.name, second.why) == ("transfer", "its meaning is similar")
    assert first.score > second.score > third.score > 0


async def test_the_meaning_counts_the_more_the_fewer_words_of_the_query_a_tool_has() -> None:
    search = searching(Counted())
    said, half, unsaid = [
        {each.tool.name: each.score for each in (await search.ask(query)).found}
        for query in ("lamp level", "lamp umbrella", "unheard umbrella words beside lamp")
    ]
    assert said["get_weather"] == 0 or said["set_lamp_level"] == pytest.approx(1)
    assert half["get_weather"] < unsaid["get_weather"] < 1


async def test_a_conversation_s_loaded_tools_are_found_by_meaning() -> None:
    async def load(query: str) -> list[Tool]:
        return [Tool.from_schema("blinds", "For a dark room.", {"type": "object"}, print)]

    async with (
        Runtime(TOOLS[1:], sandbox=None, embed=Counted()) as runtime,
        runtime.conversation(loader=load) as conversation,
    ):
        answer = await conversation.answer("search_tools", {"query": "brighter, please", "limit": 1})
        assert answer.found == ("blinds",)
        assert names(await runtime.search.ask("brighter, please", limit=1)) != ["blinds"]


async def test_a_name_comes_first_whatever_it_means() -> None:
    assert names(await searching(Counted()).ask("transfer"))[0] == "transfer"
    dark = Tool.from_schema("dark", "", {"type": "object"}, print)
    assert names(await searching(Counted(), *TOOLS, dark).ask("dark"))[0] == "dark"


async def test_the_filters_and_the_limit_hold() -> None:
    search = searching(Counted())
    assert names(await search.ask("brighter", among=["get_weather"])) == ["get_weather"]
    assert len((await search.ask("brighter", limit=1)).found) == 1
    assert names(await search.ask("brighter", among=[])) == []
    with pytest.raises(InvalidArguments, match="there is no server"):
        await searching(Counted(), things(1)[0].named("a"), *_of_servers()).ask("brighter", server="gone")


def _of_servers() -> list[Tool]:
    return [Tool.from_schema("s_a", "", {"type": "object"}, print, server="s", server_tool="a")]


async def test_several_queries_are_embedded_in_one_call() -> None:
    embed = Counted()
    search = searching(embed)
    result = await search.ask(["brighter", "rent", "umbrella"])
    assert names(result) == ["set_lamp_level", "transfer", "get_weather"]
    assert embed.texts[:3] == ["brighter", "rent", "umbrella"]
    assert len(embed.calls) == 2, "the queries, then the tools"


async def test_models_programs_and_plans_search_by_meaning() -> None:
    async with opened(*TOOLS, pool_size=1, embed=Counted()) as runtime:
        answer = await runtime.answer("search_tools", {"query": "brighter, please"})
        assert answer.found[0] == "set_lamp_level"
        code = "(await search_tools('brighter, please')).found[0].name"
        for path in ("sandbox", "plan"):
            assert (await runtime.execute_code(code, path=path)).value == "set_lamp_level"
        step = {"id": "s", "tool": "search_tools", "arguments": {"query": "brighter, please"}}
        plan = await runtime.execute_tool_plan({"steps": [step]})
        assert plan.outputs["s"]["found"][0]["name"] == "set_lamp_level"
        conversation = runtime.conversation()
        await conversation.handle("search_tools", {"query": "brighter, please", "limit": 1})
        assert conversation.found == ("set_lamp_level",)


def test_the_sync_runtime_takes_embedders_of_both_kinds() -> None:
    async def embed(texts: list[str]) -> list[list[float]]:
        return [meaning_of(text) for text in texts]

    for each in (Counted(), embed):
        with SyncRuntime(TOOLS, sandbox=None, embed=each) as runtime:
            assert runtime.answer("search_tools", {"query": "brighter, please"}).found[0] == "set_lamp_level"
            result = runtime.search_tools("brighter, please")
            assert (names(result)[0], result.note) == ("set_lamp_level", "")
    closed = SyncRuntime(TOOLS, sandbox=None, embed=Counted())
    assert names(closed.search_tools("brighter, please"))[0] == "set_lamp_level"


# what the embedder is asked


async def test_tools_are_embedded_once_in_batches_and_only_for_searches_by_words() -> None:
    embed = Counted()
    registry = Registry(things(2 * BATCH + 1))
    search = ToolSearch(registry, meaning=Meaning(embed))
    await search.ask("thing", regex=True)
    assert embed.calls == []
    for _ in range(3):
        await search.ask("thing 7")
    assert [len(each) for each in embed.calls] == [2, BATCH, BATCH, 1]
    registry.add(TOOLS[0])
    assert names(await search.ask("brighter"))[0] == "set_lamp_level"
    assert embed.texts[-2:] == ["brighter", "set_lamp_level: Sets the level of a lamp. level"]


async def test_a_search_by_words_never_asks_and_the_planner_s_rules_use_it() -> None:
    embed = Counted()
    runtime = Runtime(TOOLS, sandbox=None, embed=embed)
    result = runtime.search.by_words("level")
    assert (names(result), result.note) == (["set_lamp_level"], "")
    assert names_found(runtime, "level", ["set_lamp_level"]) == ["set_lamp_level"]
    assert embed.calls == []


async def test_long_texts_are_cut_and_empty_registries_ask_nothing() -> None:
    embed = Counted()
    await searching(embed, *things(1, "long " * 9_000)).ask("dark " * 9_000)
    assert max(map(len, embed.texts)) == 2_000
    search = searching(embed)
    for ending in "ab":
        assert names(await search.ask("dark " * 500 + ending))[0] == "set_lamp_level"
    assert sum(text.startswith("dark") for text in embed.texts) == 2, "what is cut is the same query"
    embed.calls.clear()
    assert ToolSearch(Registry(), meaning=Meaning(embed)).find("brighter").found == ()
    assert embed.calls == []


async def test_the_vectors_can_be_made_before_the_first_search() -> None:
    embed = Counted()
    search = searching(embed)
    await search.prepare()
    assert len(embed.texts) == 3
    await search.ask("brighter")
    assert embed.texts[3:] == ["brighter"]
    await ToolSearch(Registry(TOOLS)).prepare()  # without an embedder there is nothing to do
    with pytest.raises(ZeroDivisionError):
        await searching(lambda _: 1 / 0).prepare()


async def test_async_embedders_and_what_gives_a_coroutine_are_awaited() -> None:
    async def embed(texts: list[str]) -> list[list[float]]:
        await anyio.lowlevel.checkpoint()
        return [meaning_of(text) for text in texts]

    class Asked:
        async def __call__(self, texts: list[str]) -> list[list[float]]:
            return await embed(texts)

    given: list[Any] = [embed, Asked(), partial(embed), lambda texts: embed(texts)]
    for each in given:
        assert names(await searching(each).ask("brighter, please"))[0] == "set_lamp_level"


async def test_an_async_embedder_cannot_be_asked_without_await() -> None:
    async def embed(texts: list[str]) -> list[list[float]]:
        return [meaning_of(text) for text in texts]

    result = searching(embed).find("level")
    assert names(result) == ["set_lamp_level"]
    assert result.note == ("searched by words alone: an async embedder is asked by await runtime.search.ask(...)")


async def test_searches_at_the_same_time_embed_each_tool_once() -> None:
    embed = Counted()
    search = ToolSearch(Registry(things(300)), meaning=Meaning(embed))
    await search.ask("begin")
    embed.calls.clear()
    search = ToolSearch(Registry(things(300, "dark")), meaning=search._meaning)
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(search.ask, "thing 7")
    of_tools = [text for text in embed.texts if text != "thing 7"]
    assert len(of_tools) == len(set(of_tools)) == 300


# failures


@pytest.mark.parametrize(
    "embed",
    [
        lambda texts: 1 / 0,
        lambda texts: [],
        lambda texts: [[1.0]] * (len(texts) + 1),
        lambda texts: [[math.nan, 1.0]] * len(texts),
        lambda texts: [[1.0] * (n + 1) for n in range(len(texts))],
        lambda texts: ["ab"] * len(texts),
        lambda texts: None,
        lambda texts: [[]] * len(texts),
        lambda texts: [[1.0] * (1 + any("lamp" in text for text in texts))] * len(texts),
    ],
)
async def test_a_failing_embedder_leaves_the_search_by_words_and_says_so(
    embed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    search = searching(embed)
    with caplog.at_level(logging.WARNING, "callgate"):
        result = await search.ask("level")
    assert names(result) == ["set_lamp_level"]
    assert result.note == result.to_json()["note"] == "searched by words alone: the embedder has failed"
    assert "words alone" not in result.for_model()
    (record,) = caplog.records
    assert "searches go by words alone for 30 s" in record.getMessage()


async def test_after_a_failure_it_rests_and_is_then_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    embed = Counted()
    fails = [True]

    def sometimes(texts: list[str]) -> list[list[float]]:
        made = embed(texts)
        if fails[0]:
            raise OSError("no connection")
        return made

    search = searching(sometimes)
    assert (await search.ask("level")).note.endswith("the embedder has failed")
    fails[0] = False
    assert (await search.ask("level")).note.endswith("the embedder has failed a moment ago")
    assert len(embed.calls) == 1
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 31)
    assert names(await search.ask("brighter, please"))[0] == "set_lamp_level"


@pytest.fixture
def stuck() -> Iterator[Callable[[list[str]], list[list[float]]]]:
    released = threading.Event()

    def embed(texts: list[str]) -> list[list[float]]:
        released.wait(60)
        return [meaning_of(text) for text in texts]

    yield embed
    released.set()


async def test_a_slow_embedder_is_waited_for_a_bounded_time(stuck: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EMBED_SECONDS", 0.1)
    monkeypatch.setattr(module, "REST_SECONDS", 0.0)
    search = searching(stuck)
    before = threading.active_count()
    with anyio.fail_after(30):
        for _ in range(12):
            result = await search.ask("level")
            assert names(result) == ["set_lamp_level"]
            assert result.note == "searched by words alone: the embedder took longer than 0.1 s"
    assert threading.active_count() - before <= 8 + 1, "threads that nobody waits for are few"
    assert search.find("level").note == result.note


async def test_tools_that_take_longer_than_a_search_waits_are_ready_for_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "EMBED_SECONDS", 1.0)
    monkeypatch.setattr(module, "BATCH", 2)
    released, batches = threading.Event(), []

    def embed(texts: list[str]) -> list[list[float]]:
        batches.append(texts)
        if len(batches) == 3:  # the second batch of tools
            released.wait(60)
        return [meaning_of(text) for text in texts]

    search = searching(embed, *TOOLS, *things(3))
    first = await search.ask("brighter, please")
    assert (first.note, names(first)) == (
        "searched by words alone: the vectors of all tools are not made yet; 3 are",
        [],
    )
    released.set()  # what the second batch gives is kept, although its search is over
    monkeypatch.setattr(module, "EMBED_SECONDS", 60.0)
    assert names(await search.ask("brighter, please"))[0] == "set_lamp_level"
    assert len(search._meaning) == 7  # type: ignore[arg-type]


async def test_more_tools_than_vectors_are_kept_are_searched_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_VECTORS", 2)
    result = await searching(Counted()).ask("level")
    assert names(result) == ["set_lamp_level"]
    assert result.note == "searched by words alone: there are 3 tools, and vectors of 2 are kept at most"


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="embed is a function that takes a list of texts and gives vectors"):
        Runtime(TOOLS, sandbox=None, embed="minilm")  # type: ignore[arg-type]


async def test_numbers_of_any_kind_are_vectors() -> None:
    numpy = pytest.importorskip("numpy")
    search = searching(lambda texts: numpy.array([meaning_of(text) for text in texts], dtype="float32"))
    assert names(await search.ask("brighter, please"))[0] == "set_lamp_level"


# kept vectors


async def test_vectors_outlive_the_process_and_queries_are_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    for expected in (4, 1):
        embed = Counted()
        async with Runtime(TOOLS, sandbox=None, embed=embed, statistics=path) as runtime:
            assert names(await runtime.search.ask("brighter, please"))[0] == "set_lamp_level"
            assert len(embed.texts) == expected, "the query, and in the first process three tools"
    with database(path) as connection:
        rows = connection.execute("SELECT embedder, text, length(direction) FROM vectors").fetchall()
    assert {row[0] for row in rows} == {"counted"}
    assert len(rows) == 4, "the tools, and the fixed text that tells models apart"
    assert {row[2] for row in rows} == {6}
    assert b"Sets the level" not in path.read_bytes()


async def test_vectors_of_another_embedder_are_never_used(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"

    def reversed_(texts: list[str]) -> list[list[float]]:
        return [[*meaning_of(text)[::-1], 0.0] for text in texts]

    def longer(texts: list[str]) -> list[list[float]]:
        return [[*meaning_of(text), 0.5] for text in texts]

    async def search(embed: Any, name: str) -> int:
        counted = Counted(name)
        counted_embed: Any = lambda texts: (counted(texts), embed(texts))[1]  # noqa: E731
        counted_embed.name = name
        async with Runtime(TOOLS, sandbox=None, embed=counted_embed, statistics=path) as runtime:
            assert names(await runtime.search.ask("brighter, please"))[0] == "set_lamp_level"
        return len(counted.texts)

    plain: Any = lambda texts: [meaning_of(text) for text in texts]  # noqa: E731
    assert await search(plain, "one") == 4
    assert await search(plain, "other") == 4, "another name"
    assert await search(longer, "one") == 4, "another model under the same name"
    assert await search(reversed_, "one") == 4, "and one more"
    assert await search(reversed_, "one") == 1
    assert await search(plain, "other") == 1


def test_names_tell_embedders_apart() -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return []

    assert Meaning(embed).name.endswith("test_names_tell_embedders_apart.<locals>.embed")
    assert Meaning(partial(embed)).name == Meaning(embed).name
    assert Meaning(Counted("minilm")).name == "minilm"
    assert Meaning(Counted(None)).name.endswith("embedded.Counted")


async def test_the_file_keeps_the_newest_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VectorsFile, "most", 5)
    path = tmp_path / "kept.sqlite"
    async with Runtime(things(9), sandbox=None, embed=Counted(), statistics=path) as runtime:
        await runtime.search.ask("thing")
    with database(path) as connection:
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (5,)
