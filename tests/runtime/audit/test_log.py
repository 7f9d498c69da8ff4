"""What stands in an audit log: a line for each decision, the intent of a call with effects before it is made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest

from callgate import Allow, AuditLog, Deny, Runtime, Secret, tool
from callgate.errors import ConfigurationError
from callgate.runtime.audit.chain import Keys
from callgate.runtime.audit.file import AppendFile
from callgate.runtime.audit.verify import verify
from callgate.runtime.gate.watching import Origin, origin
from callgate.tools.encoding import canonical_json
from runtime.audit.audited import KEY, TOOLS, checked, log_in, open_runtime, records

pytestmark = pytest.mark.anyio

MAC = "0123456789abcdef"


def kinds(log: AuditLog) -> list[str]:
    """The decisions, in order, with their tools."""
    return [f"{each['kind']} {each['tool']}" if "tool" in each else each["kind"] for each in records(log)]


async def test_a_program_has_a_line_for_each_decision(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    async with open_runtime(log) as runtime:
        result = await runtime.execute_code("await look(x=1)\nawait put(x=2)\nawait pay(x=7)\nawait pay(x=70)")
    assert result.error is not None
    assert kinds(log) == [
        "opened", "run", "outcome look", "called put", "outcome put", "approved pay", "called pay", "outcome pay",
        "denied pay", "outcome pay", "run_ended", "closed",
    ]  # fmt: skip
    found = records(log)
    approved, denied, last = found[5], found[8], found[10]
    assert (approved["by"], approved["changed"], denied["by"]) == ("ann", True, "ann")
    assert [each["status"] for each in found if each["kind"] == "outcome"] == [
        "succeeded", "succeeded", "succeeded", "denied"
    ]  # fmt: skip
    assert (last["ok"], last["error"], last["calls"], last["path"]) == (False, "ApprovalDenied", 4, "plan")
    assert len({each["run"] for each in found if "run" in each}) == 1
    assert checked(log.path).ok


async def test_refusals_name_the_check_that_was_not_passed(tmp_path: Path) -> None:
    log = log_in(tmp_path)

    @tool(allowed_callers=["code"])
    async def in_programs() -> None:
        """Not for models."""

    async with Runtime([*TOOLS, in_programs], sandbox=None, audit=log) as runtime:
        await runtime.answer("nothing", {})
        await runtime.answer("in_programs", {})
        await runtime.answer("put", {"x": "no"})
        await runtime.answer("pay", {"x": 1})
    refused = [(each["tool"], each["check"]) for each in records(log) if each["kind"] == "refused"]
    assert refused == [("nothing", "known"), ("in_programs", "allowed"), ("put", "validated"), ("pay", "approved")]


async def test_a_plan_and_a_failed_call_stand_in_it(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    async with open_runtime(log) as runtime:
        await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "put", "arguments": {"x": -1}}]})
    assert kinds(log) == ["opened", "run", "called put", "outcome put", "run_ended", "closed"]
    assert [each["caller"] for each in records(log) if "caller" in each] == ["plan", "plan"]
    assert records(log)[3]["status"] == "failed"


async def test_the_answer_to_a_plan_stands_in_it_and_the_digest_of_a_plan_that_was_streamed_or_changed(
    tmp_path: Path,
) -> None:
    log = log_in(tmp_path)
    plan = {"steps": [{"id": "a", "tool": "put", "arguments": {"x": 1}}]}
    changed = {"steps": [{"id": "a", "tool": "put", "arguments": {"x": 2}}]}
    answers: Iterator[Allow | Deny] = iter([Allow(by="ann"), Allow(changed, by="bob"), Deny("no", by="eve")])
    async with open_runtime(log) as runtime:
        for _ in range(3):
            await runtime.execute_tool_plan(plan, approve_plan=lambda _: next(answers))
        await runtime.stream_plan([json.dumps(plan)])
        whole = await runtime.stream_plan([json.dumps(changed)])
    found = records(log)
    answered = [(each["kind"], each["by"], each.get("changed")) for each in found if each["kind"].startswith("plan_")]
    assert answered == [
        ("plan_approved", "ann", None), ("plan_approved", "bob", True), ("plan_denied", "eve", None)
    ]  # fmt: skip
    begun = [each.get("source_digest") for each in found if each["kind"] == "run"]
    assert begun == [begun[0]] * 3 + [None] * 2
    assert begun[0] is not None
    ran = [each.get("plan_digest") for each in found if each["kind"] == "run_ended"]
    of_changed = Keys(KEY).digest(canonical_json(whole.plan))
    assert ran[0] is ran[2] is None
    assert ran[1] == ran[4] == of_changed != ran[3]


async def test_a_cancelled_call_and_run_have_their_end(tmp_path: Path) -> None:
    log, started = log_in(tmp_path), anyio.Event()

    @tool
    async def hang() -> None:
        """Never ends."""
        started.set()
        await anyio.sleep_forever()

    with anyio.fail_after(20):
        async with Runtime([hang], sandbox=None, audit=log) as runtime, anyio.create_task_group() as tasks:
            tasks.start_soon(runtime.execute_code, "await hang()")
            await started.wait()
            tasks.cancel_scope.cancel()
    assert kinds(log) == ["opened", "run", "called hang", "outcome hang", "run_ended", "closed"]
    assert records(log)[3]["status"] == "unknown_outcome"
    assert records(log)[4]["ok"] is False


async def test_it_says_who_asked(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    async with open_runtime(log) as runtime:
        before = origin.set(Origin(task="task_1", turn=2, call="c3", client="a client\n{"))
        try:
            await runtime.answer("look", {"x": 1})
        finally:
            origin.reset(before)
        await runtime.answer("look", {"x": 1})
    first, second = (each for each in records(log) if each["kind"] == "outcome")
    assert (first["task"], first["turn"], first["call_id"], first["client"]) == ("task_1", 2, "c3", "a client\n{")
    assert "task" not in second


async def test_values_are_digests_that_only_the_key_can_make(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    (tmp_path / "other").mkdir()
    other = AuditLog(tmp_path / "other" / "audit.jsonl", key=b"another key of sixteen")
    digests = []
    for each in (log, other):
        async with open_runtime(each) as runtime:
            await runtime.execute_code("await put(x=2, secret='hunter2')\nawait put(secret='hunter2', x=2)")
        assert "hunter2" not in each.path.read_text()
        digests.append([each["arguments_digest"] for each in records(each) if each["kind"] == "called"])
    assert digests[0][0] == digests[0][1] != digests[1][0]


async def test_with_content_it_has_arguments_results_and_errors_of_a_bounded_length(tmp_path: Path) -> None:
    log = log_in(tmp_path, include_content=True)
    async with open_runtime(log) as runtime:
        await runtime.answer("put", {"x": 2, "note": "s" * 50_000, "secret": "hunter2"})
        await runtime.answer("put", {"x": -1})
        await runtime.answer("put", {"x": "wrong"})
    found = [each for each in records(log) if each["kind"] in ("called", "outcome", "refused")]
    assert found[0]["arguments"].startswith('{"note":"s')
    assert len(found[0]["arguments"]) < 9000
    assert found[1]["result"] == '"put 2"'
    assert "failed" in found[3]["error"]
    assert "valid integer" in found[4]["error"]
    assert "hunter2" not in log.path.read_text()


@pytest.mark.parametrize("as_text", [False, True])
async def test_a_plan_that_never_called_a_tool_stands_in_it_without_the_secrets_of_its_steps(
    tmp_path: Path, as_text: bool
) -> None:
    @tool
    async def unlock(phrase: Annotated[str, Secret]) -> None:
        """Unlock."""

    plan = {"steps": [{"id": "a", "tool": "unlock", "arguments": {"phrase": "xyzzy-1"}}], "goal": "get in"}
    log = log_in(tmp_path, include_content=True)
    async with Runtime([unlock], sandbox=None, audit=log, approve_plan=lambda _: False) as runtime:
        await runtime.execute_tool_plan(json.dumps(plan) if as_text else plan)
    (ended,) = [each for each in records(log) if each["kind"] == "run_ended"]
    assert json.loads(ended["source"])["steps"][0]["arguments"] == {"phrase": "[redacted]"}
    assert "xyzzy" not in log.path.read_text()


@pytest.mark.parametrize("name", ["a\nb", '","mac":"' + MAC * 4 + '"}\n{', "\ud800", "x" * 5000, "\x1b[2J\u202e\u2028"])
async def test_no_name_breaks_a_line(tmp_path: Path, name: str) -> None:
    log = log_in(tmp_path, include_content=True)
    async with open_runtime(log) as runtime:
        await runtime.answer(name, {name: name})
        await runtime.answer("put", {"x": 1, "note": name})
    assert checked(log.path).ok
    assert kinds(log)[0] == "opened"
    assert all(line.isascii() for line in log.path.read_text().splitlines())


async def test_large_arguments_are_counted_and_not_digested(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    async with open_runtime(log) as runtime:
        await runtime.answer("put", {"x": 1, "secret": "s" * 4_000_000})
    assert records(log)[1]["arguments"] == "large"


# a file that cannot be written


@pytest.fixture
def full_disk() -> Any:
    """A folder on a file system of 64 KiB."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, text=True
        )
        if ran.returncode:
            pytest.skip(f"no file system can be mounted here: {ran.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


async def test_on_a_full_disk_calls_with_effects_are_refused_and_reads_go_on(full_disk: Path) -> None:
    log, made = log_in(full_disk), []

    @tool
    async def do(x: int) -> None:
        """Has an effect."""
        made.append(x)

    async with Runtime([*TOOLS, do], sandbox=None, audit=log) as runtime:
        await runtime.answer("do", {"x": 1})
        filler = full_disk / "filler"
        with filler.open("wb", buffering=0) as file:
            for size in (4096, 64, 1):
                while True:
                    try:
                        file.write(b"x" * size)
                    except OSError:
                        break
        for _ in range(12):  # what is left of the log's last page
            await runtime.answer("look", {"x": 1})
        before = len(made)
        refused = await runtime.answer("do", {"x": 2})
        assert not refused.ok
        assert "was not called: the audit log cannot be written" in refused.text
        assert len(made) == before
        assert (await runtime.answer("look", {"x": 1})).ok
        filler.unlink()
        assert (await runtime.answer("do", {"x": 3})).ok
    assert made == [1, 3]
    found = checked(log.path)
    assert found.ok, found.faults
    (chain,) = found.chains.values()
    assert chain.lost >= 2
    assert any("torn" in line for line in log.path.read_text(errors="replace").splitlines())


async def test_a_log_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    for audit in (
        AuditLog(tmp_path / "no" / "audit.jsonl", key=KEY),
        AuditLog(tmp_path, key=KEY),
        AuditLog("/dev/null", key=KEY),
    ):
        with pytest.raises(ConfigurationError, match="the audit log"):
            async with open_runtime(audit):
                pass
    with pytest.raises(ConfigurationError, match="at least 16 bytes"):
        AuditLog(tmp_path / "a", key=b"short")


# keys


async def test_the_key_is_made_with_the_log_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(2):
        async with Runtime(TOOLS, sandbox=None, audit=path) as runtime:
            await runtime.answer("put", {"x": 1})
    key = Path(f"{path}.key")
    assert set(os.listdir(tmp_path)) == {"audit.jsonl", "audit.jsonl.key"}
    assert [os.stat(file).st_mode & 0o777 for file in (path, key)] == [0o600, 0o600]
    os.rename(key, tmp_path / "moved")
    with pytest.raises(ConfigurationError, match=r"key .* is missing: put the key back"):
        async with Runtime(TOOLS, sandbox=None, audit=path):
            pass
    assert set(os.listdir(tmp_path)) == {"audit.jsonl", "moved"}


async def test_the_key_may_be_a_link_to_where_it_is_kept_and_is_never_made_where_a_link_leads(tmp_path: Path) -> None:
    kept, path = tmp_path / "secrets" / "key", tmp_path / "audit.jsonl"
    os.symlink(kept, f"{path}.key")
    for folder in (tmp_path, kept.parent):
        folder.mkdir(exist_ok=True)
        with pytest.raises(ConfigurationError, match=r"key .* is missing: put the key back, or make a link"):
            async with Runtime(TOOLS, sandbox=None, audit=path):
                pass
    assert not kept.exists()
    kept.write_text("0123456789abcdef" * 4 + "\n")
    async with Runtime(TOOLS, sandbox=None, audit=path) as runtime:
        await runtime.answer("put", {"x": 1})
    with path.open("rb") as file:
        assert verify(file, Keys(bytes.fromhex("0123456789abcdef" * 4))).ok


def test_processes_that_begin_at_once_make_one_key(tmp_path: Path) -> None:
    source = (
        "import sys\nfrom pathlib import Path\nfrom callgate.runtime.audit.keys import key_of\n"
        "sys.stdin.readline()\nprint(key_of(Path('audit.jsonl')).hex())"
    )
    ran = [
        subprocess.Popen([sys.executable, "-c", source], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(6)
    ]
    outs = [each.communicate(b"\n", timeout=60)[0] for each in ran]
    assert len(set(outs)) == 1
    assert len(outs[0].strip()) == 64
    assert [file.name for file in tmp_path.iterdir()] == ["audit.jsonl.key"]


async def test_a_runtime_without_an_audit_log_has_no_watchers() -> None:
    async with Runtime(TOOLS, sandbox=None) as runtime:
        assert runtime.gate.watchers == ()
        assert json.loads((await runtime.answer("look", {"x": 1})).text) == 1


async def test_when_its_folder_goes_calls_with_effects_are_refused_and_no_line_goes_to_another_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "logs").mkdir()
    log = log_in(tmp_path / "logs")
    async with open_runtime(log) as runtime:
        await runtime.execute_code("await put(x=1)")
        shutil.rmtree(tmp_path / "logs")
        for _ in range(2):  # the second run must not close a number that is another file's by now
            refused = await runtime.execute_code("await put(x=2)")
            assert refused.error is not None
            assert "its file or its folder is gone" in refused.error.message
            other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)  # gets the log's number
        assert (await runtime.execute_code("await look(x=3)")).ok
        assert os.fstat(other).st_size == 0
        os.close(other)
        (tmp_path / "logs").mkdir()
        await runtime.execute_code("await put(x=4)")
    assert checked(log.path).ok
    assert [line["kind"] for line in records(log)] == ["opened", "run", "called", "outcome", "run_ended", "closed"]
    assert records(log)[0]["lost"] > 0


async def test_a_log_that_becomes_a_folder_refuses_effects_and_lets_reads_go_on(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    async with open_runtime(log) as runtime:
        log.path.unlink()
        os.mkfifo(log.path)
        assert (await runtime.execute_code("await look(x=3)")).ok
        refused = await runtime.execute_code("await put(x=2)")
        assert refused.error is not None
        assert "audit log cannot be written" in refused.error.message


def test_runtimes_of_several_threads_share_one_chain(tmp_path: Path) -> None:
    log = log_in(tmp_path)

    async def work() -> None:
        async with open_runtime(log) as runtime:
            for x in range(20):
                await runtime.execute_code(f"await put(x={x})")

    threads = [threading.Thread(target=anyio.run, args=(work,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert checked(log.path).ok
    assert sum(line["kind"] == "outcome" for line in records(log)) == 80


def test_a_forked_process_that_ends_the_log_leaves_its_parents_chain_alone(tmp_path: Path) -> None:
    file = AppendFile(tmp_path / "a", Keys(KEY))
    child = os.fork()
    if not child:
        try:
            file.end()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    file.write("outcome", {})
    file.end()
    found = checked(tmp_path / "a")
    assert found.ok
    assert found.lines == 3


def test_a_log_that_was_ended_takes_no_line_and_opens_nothing(tmp_path: Path) -> None:
    file = AppendFile(tmp_path / "a", Keys(KEY))
    file.end()
    before = (tmp_path / "a").read_bytes()
    file.look()
    with pytest.raises(OSError, match="it is closed"):
        file.write("called", {})
    file.sync()
    assert (tmp_path / "a").read_bytes() == before
