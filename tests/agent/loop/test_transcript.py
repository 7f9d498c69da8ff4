"""Transcripts as files: what is written, when, and by whom; and what is read where anybody may have written it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate import Runtime, tool
from callgate.agent.events import (
    MAX_DEPTH,
    AgentEvent,
    CallEnded,
    CallProgress,
    Faulted,
    InnerEvent,
    MessageAdded,
    ModelReplied,
    TaskBegan,
    TextArrived,
)
from callgate.agent.loop import transcript as transcript_file
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.transcript import MAX_LINE_BYTES, Transcript, read_transcript
from callgate.agent.models.fitting import MAX_CALLS, MAX_TEXT_CHARACTERS, fit
from callgate.agent.models.model import Assistant, Reply, Request, ToolCall, ToolReplies, ToolReply, Usage
from callgate.agent.models.openai_model import OpenAIModel
from callgate.agent.models.scripted import Calls, ScriptedModel
from callgate.errors import ConfigurationError
from callgate_bench.model.stand_in import Move, OpenAIChat, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY

BEGAN = TaskBegan(task="Add", mode="direct", model="m", system="", tools=("add",))
ASKED = Request(messages=())
FAULT = Faulted(turn=1, fault="cut", detail="d", action="a")
OMITTED = {"omitted": "longer than a line of a transcript may be, nested too deeply, or not a JSON value"}


def written(path: Path, *events: Any) -> list[dict[str, Any]]:
    made = Transcript.create(path)
    for event in events:
        made.write(event)
    made.close()
    return [json.loads(line) for line in path.read_text().splitlines()]


# writing


@pytest.mark.anyio
async def test_each_event_is_a_line_before_the_next_thing_happens(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    seen: list[list[str]] = []

    def kinds() -> list[str]:
        return [json.loads(line)["kind"] for line in file.read_text().splitlines()]

    @tool(read_only=True)
    async def look() -> str:
        """Look."""
        seen.append(kinds())
        return "seen"

    def first(_: Any) -> Any:
        seen.append(kinds())
        return Calls(("look", {}), text="I look.")

    def second(_: Any) -> Any:
        seen.append(kinds())
        return "done"

    heard: list[Any] = []
    async with Runtime([look], sandbox=None) as runtime:
        agent = Agent(ScriptedModel([first, second]), runtime, mode="direct", transcript=file, on_event=heard.append)
        result = await agent.run("Look")
    asked = ["task_began", "model_asked"]
    called = [*asked, "model_replied", "call_began"]
    answered = [*called, "call_ended", "message_added", "model_asked"]
    assert seen == [asked, called, answered]
    assert kinds() == [*answered, "model_replied", "finished"]
    assert {type(event).__name__ for event in heard} - {type(event).__name__ for event in result.events} >= {
        "TextArrived"
    }
    assert [line.event for line in read_transcript(file)] == list(result.events)


def test_a_transcript_is_its_owners_and_only_new(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    lines = written(file, BEGAN, TextArrived(turn=1, text="x"))
    assert file.stat().st_mode & 0o777 == 0o600
    assert [line["kind"] for line in lines] == ["task_began"]
    with pytest.raises(ConfigurationError, match="is there already: resume it, or name another file"):
        Transcript.create(file)
    dangling = tmp_path / "link"
    dangling.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="is there already"):
        Transcript.create(dangling)
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(ConfigurationError, match="cannot be made: No such file"):
        Transcript.create(tmp_path / "none" / "t.jsonl")


def test_in_a_folder_each_is_named_by_the_time(tmp_path: Path) -> None:
    made = [Transcript.create(tmp_path) for _ in range(3)]
    names = {each.path.name for each in made}
    for each in made:
        each.close()
    assert len(names) == 3
    assert all(name.endswith(".jsonl") and name[:8].isdigit() and name[8] == "T" for name in names)


@pytest.mark.anyio
async def test_no_key_of_an_endpoint_is_in_it(tmp_path: Path) -> None:
    def good_day(_: Turn) -> Move:
        return "Good day."

    file = tmp_path / "t.jsonl"
    with serving(OpenAIChat(Script(good_day))) as url:
        model = OpenAIModel("gpt", base_url=f"{url}/v1", api_key=KEY)
        async with Runtime([], sandbox=None) as runtime:
            result = await Agent(model, runtime, mode="direct", transcript=file).run("Hello")
        await model.aclose()
    assert result.outcome == "answered"
    assert KEY
    assert KEY not in file.read_text()


def ended(run: Any) -> CallEnded:
    return CallEnded(turn=1, id="1", name="n", ok=True, text="t", seconds=0, run=run)


def test_of_a_large_run_the_large_parts_are_left_out(tmp_path: Path) -> None:
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    circle: dict[str, Any] = {}
    circle["self"] = circle
    lines = written(
        tmp_path / "t.jsonl",
        ended({"kind": "code", "value": "x" * MAX_LINE_BYTES, "calls": [1]}),
        ended({"kind": "code", "value": float("nan")}),
        ended({"kind": "code", "value": deep, "logs": "here"}),
        ended({"kind": "code", "value": circle, "logs": "here"}),
        ended({str(n): "x" * 900_000 for n in range(40)}),
        ended({"kind": "code", "value": object()}),
    )
    assert lines[0]["run"] == {"kind": "code", "value": OMITTED, "calls": [1]}
    assert lines[1]["run"]["value"] == OMITTED
    assert lines[2]["run"] == lines[3]["run"] == {"kind": "code", "value": OMITTED, "logs": "here"}
    assert set(map(str, lines[4]["run"].values())) == {str(OMITTED)}
    assert "object at" in lines[5]["run"]["value"]
    assert all(line["text"] == "t" for line in lines)
    assert len(read_transcript(tmp_path / "t.jsonl")) == 6


def test_of_the_run_of_an_agent_inside_an_agent_too(tmp_path: Path) -> None:
    event: Any = ended({"kind": "code", "value": "x" * MAX_LINE_BYTES, "calls": [1]})
    for _ in range(2):
        event = InnerEvent(turn=1, call="1", agent="a", task="t", event=event)
    (line,) = written(tmp_path / "t.jsonl", event)
    assert line["event"]["event"]["run"] == {"kind": "code", "value": OMITTED, "calls": [1]}
    assert len(read_transcript(tmp_path / "t.jsonl")) == 1


def replied(message: Assistant) -> ModelReplied:
    return ModelReplied(turn=1, message=message, ended="calls", usage=Usage(), seconds=0)


def test_whatever_a_model_says_is_a_line(tmp_path: Path) -> None:
    calls = tuple(
        ToolCall(id="\0" * 256, name="\0" * 256, arguments={"x": "\0" * 20_000}, written="\0" * 2_000)
        for _ in range(MAX_CALLS)
    )
    worst = fit(Reply(turn=Assistant(text="\0" * MAX_TEXT_CHARACTERS, calls=calls), ended="calls"), ASKED).turn
    half = Assistant(text="half \ud83d of a pair", calls=(ToolCall(id="1", name="n", arguments={"\udc00": "\ud800"}),))
    native = Assistant(text="t", native=["x" * MAX_LINE_BYTES], provider="openai")
    told = MessageAdded(turn=1, replies=ToolReplies(replies=(ToolReply(id="1", name="n", text="\x01" * 1_000_000),)))
    file = tmp_path / "t.jsonl"
    written(file, replied(worst), replied(half), replied(native), told)
    assert [line.event for line in read_transcript(file)] == [
        replied(worst),
        replied(half),
        replied(Assistant(text="t")),
        told,
    ]


def test_what_the_operator_gives_too_much_of_is_refused(tmp_path: Path) -> None:
    made = Transcript.create(tmp_path / "t.jsonl")
    with pytest.raises(ConfigurationError, match="a line of a transcript has at most"):
        made.write(dataclasses.replace(BEGAN, task="x" * MAX_LINE_BYTES))
    with pytest.raises(ConfigurationError, match="TaskBegan is not a line of a transcript"):
        made.write(dataclasses.replace(BEGAN, strategic_plan=float("nan")))
    made.close()
    assert read_transcript(tmp_path / "t.jsonl") == []


_FULL = """
import resource, signal, sys
from callgate.agent.events import Faulted
from callgate.agent.loop.transcript import Transcript
from callgate.errors import ConfigurationError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
made = Transcript.create(sys.argv[1])
made.write(Faulted(turn=1, fault="cut", detail="first", action="a"))
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
try:
    made.write(Faulted(turn=1, fault="cut", detail="x" * 2_000, action="a"))
except ConfigurationError as error:
    print(error)
try:
    made.write(Faulted(turn=1, fault="cut", detail="third", action="a"))
except ConfigurationError as error:
    print(error)
"""


def test_where_the_disk_is_full_a_half_line_stays_the_last(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    done = subprocess.run([sys.executable, "-c", _FULL, str(file)], capture_output=True, text=True, check=True)
    assert [line.partition("cannot be written: ")[2] for line in done.stdout.splitlines()] == [
        "File too large",
        "Bad file descriptor",
    ]
    assert [line.event.detail for line in read_transcript(file) if isinstance(line.event, Faulted)] == ["first"]


# two at a time


_WRITER = """
import sys
from callgate.agent.loop.transcript import Transcript
made, _ = Transcript.resume(sys.argv[1])
print("writing", flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    written(file, BEGAN)
    command = [sys.executable, "-c", _WRITER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "writing\n"
        with pytest.raises(ConfigurationError, match="is being written by another run"):
            Transcript.resume(file)
        assert len(read_transcript(file)) == 1
        other.kill()
    resumed, lines = Transcript.resume(file)
    with pytest.raises(ConfigurationError, match="is being written by another run"):
        Transcript.resume(file)
    resumed.close()
    assert [line.event for line in lines] == [BEGAN]


# reading


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "t.jsonl"
    written(file, BEGAN, FAULT, dataclasses.replace(FAULT, detail="x" * 300))
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    assert [line.event for line in read_transcript(file)] == [BEGAN, FAULT]
    resumed, lines = Transcript.resume(file)
    assert [line.number for line in lines] == [1, 2]
    resumed.write(FAULT)
    resumed.close()
    assert [line.event for line in read_transcript(file)] == [BEGAN, FAULT, FAULT]


GOOD: dict[str, Any] = {
    "v": 1, "at": "2026-01-31T12:00:00+00:00", "kind": "faulted",
    "turn": 1, "fault": "cut", "detail": "", "action": "",
}  # fmt: skip


def changed(**fields: Any) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def inner(depth: int, event: Any) -> dict[str, Any]:
    for _ in range(depth):
        event = {"kind": "inner_event", "turn": 1, "call": "1", "agent": "a", "task": "t", "event": event}
    return {"v": 1, "at": GOOD["at"], **event}


DAMAGES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "it is not JSON"),
    "prose": (b"all is well", "it is not JSON"),
    "half": (changed()[:-10], "it is not JSON"),
    "bytes": (b"\xff\xfe\x00", "it is not JSON"),
    "deep": (b"[" * 1_000_000, "it is not JSON"),
    "digits": (b'{"v": ' + b"9" * 10_000 + b"}", "it is not JSON"),
    "nan": (changed(turn=float("nan")), "it is not JSON"),
    "array": (b"[]", ": Input should be a valid dictionary"),
    "version": (changed(v=2), "v: Input should be 1"),
    "no version": (b"{}", "v: Field required"),
    "kind": (changed(kind="format_disk"), "there is no kind 'format_disk'"),
    "kind of no line": (changed(kind="text_arrived"), "there is no kind 'text_arrived'"),
    "kind is a list": (changed(kind=[]), "kind: Input should be a valid string"),
    "no time": (changed(at="yesterday"), "at: Input should be a valid datetime"),
    "no zone": (changed(at="2026-01-31T12:00:00"), "at: Input should have timezone info"),
    "type": (changed(turn="one"), "turn: Input should be a valid integer"),
    "choice": (changed(fault="fire"), "fault: Input should be 'arguments'"),
    "inner of no kind": (json.dumps(inner(1, {})).encode(), "an event in it is not an object with a kind"),
    "inner of a list": (json.dumps(inner(1, [])).encode(), "an event in it is not an object with a kind"),
    "inner words": (json.dumps(inner(1, {"kind": "text_arrived"})).encode(), "there is no kind 'text_arrived'"),
    "inner too deep": (json.dumps(inner(MAX_DEPTH + 1, GOOD)).encode(), "it has more than 8 agents inside each other"),
    "inner with no call": (changed(kind="inner_event"), "call: Field required"),
    "missing": (json.dumps({k: v for k, v in GOOD.items() if k != "turn"}).encode(), "turn: Field required"),
}


@pytest.mark.parametrize("read", [read_transcript, Transcript.resume], ids=["read", "resume"])
@pytest.mark.parametrize(("line", "words"), DAMAGES.values(), ids=list(DAMAGES))
def test_any_other_damage_is_refused_with_its_line(
    tmp_path: Path, line: bytes, words: str, read: Callable[[Path], object]
) -> None:
    file = tmp_path / "t.jsonl"
    content = changed() + b"\n" + line + b"\n" + changed() + b"\n"
    file.write_bytes(content)
    with pytest.raises(
        ConfigurationError, match=f"t.jsonl, line 2: this is not a line of a transcript: {words}"
    ) as told:
        read(file)
    assert len(str(told.value)) < 700
    assert file.read_bytes() == content


def test_a_line_or_a_file_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(changed(detail="x" * MAX_LINE_BYTES) + b"\n")
    with pytest.raises(ConfigurationError, match=f"line 1: .* it has more than {MAX_LINE_BYTES} bytes"):
        read_transcript(file)
    monkeypatch.setattr(transcript_file, "MAX_FILE_BYTES", 1_000)
    with pytest.raises(ConfigurationError, match=r"has \d+ bytes; at most 1000 are read"):
        read_transcript(file)


@pytest.mark.parametrize("read", [read_transcript, Transcript.resume], ids=["read", "resume"])
def test_what_is_no_file_is_refused_and_does_not_hang(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name, words in [("fifo", "is not a file"), ("none", "No such file"), ("folder", "is not a file|directory")]:
        with pytest.raises(ConfigurationError, match=words):
            read(tmp_path / name)
    with pytest.raises(ConfigurationError, match="is not a file"):
        read(Path("/dev/zero"))


def test_a_field_that_a_later_callgate_adds_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(changed(mood="good") + b"\n")
    (line,) = read_transcript(file)
    assert line.event == Faulted(turn=1, fault="cut", detail="", action="")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return JSON
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        parts = {each.name: values_of(hints[each.name]) for each in dataclasses.fields(hint)}
        return st.builds(cast(Any, hint), **parts)
    if origin in (Union, UnionType):
        return st.one_of(*map(values_of, args))
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(values_of(args[0]), max_size=2).map(tuple)
    if origin in (dict, Mapping):
        return st.dictionaries(st.text(max_size=5), values_of(args[1]), max_size=2)
    floats = st.floats(allow_nan=False, allow_infinity=False)
    simple = {str: st.text(), int: st.integers(), float: floats, bool: st.booleans(), NoneType: st.none()}
    return cast("st.SearchStrategy[Any]", simple[hint])


NO_LINES = (TextArrived, CallProgress, InnerEvent)
OWN = st.one_of(*(values_of(kind) for kind in get_args(AgentEvent) if kind not in NO_LINES))


def inside(events: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    text = st.text(max_size=5)
    return st.builds(InnerEvent, turn=st.integers(), call=text, agent=text, task=text, event=events)


EVENTS = OWN | inside(OWN) | inside(inside(OWN))


@given(st.lists(EVENTS, max_size=3))
def test_every_event_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, events: list[Any]) -> None:
    file = tmp_path_factory.mktemp("round") / "t.jsonl"
    written(file, *events)
    assert [line.event for line in read_transcript(file)] == events
