"""What `callgate` exports, and how long a name it is: adding one is a decision."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import callgate

EXPORTED = [
    "Agent", "AgentResult", "Allow", "AlreadyDecided", "Answer", "AnswerCheck", "AnswerType", "ApprovalDenied",
    "ApprovalRequest", "Artifact", "Artifacts", "AuditLog", "Budget", "CallEnded", "CallProgressed", "CallRecord",
    "CallStarted", "CallgateError", "CodeResult", "Compilation", "ConfigurationError", "ContextExceeded",
    "Conversation", "CurrentCall", "Deny", "Described", "Displayed", "DockerBackend", "DurableError", "Event",
    "FinalAnswer", "Finding", "Found", "InvalidArguments", "LimitReached", "Limits", "ModelError", "ModelRejected",
    "ModelUnavailable", "NotAGraph", "OwnershipLost", "PendingCall", "PlanApprovalRequest", "PlanFault",
    "PlanResult", "PrintMark", "Printed", "ProtocolError", "Redaction", "Registry", "ReplayDiverged", "Retry",
    "Run", "RunError", "RunNotFound", "RunUsage", "Runs", "Runtime", "SandboxBusy", "SandboxCrashed",
    "SandboxError", "SandboxUnavailable", "SearchResult", "Secret", "Session", "Source", "StepEnded", "StepResult",
    "StepStarted", "StoreFailed", "SyncConversation", "SyncRun", "SyncRuns", "SyncRuntime", "SyncSession",
    "Telemetry", "Tool", "ToolCancelled", "ToolError", "ToolNotAllowed", "ToolNotFound", "ToolTimedOut",
    "UnknownOutcome", "current_call", "report_progress", "tool",
]  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert sorted(callgate.__all__) == EXPORTED
    for name in EXPORTED:
        assert getattr(callgate, name).__module__.startswith("callgate") or name in ("AnswerCheck", "Event")


EACH_FIRST = """
import os, callgate
for name in callgate.__all__:
    if not (child := os.fork()):
        getattr(callgate, name)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(name)
"""


@pytest.mark.slow
def test_every_name_can_be_the_first_that_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", EACH_FIRST], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "", done.stderr[-2000:]


def test_every_error_is_one_of_ours() -> None:
    errors = [
        each for name in EXPORTED if isinstance(each := getattr(callgate, name), type) and issubclass(each, Exception)
    ]
    assert len(errors) == 26
    assert all(issubclass(error, callgate.CallgateError) for error in errors)


def test_a_star_import_gives_those_and_no_more() -> None:
    names: dict[str, object] = {}
    exec("from callgate import *", names)
    assert sorted(set(names) - {"__builtins__"}) == EXPORTED


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        callgate.nothing_of_that_name  # noqa: B018


@pytest.mark.slow
def test_the_public_types_are_what_they_should_be(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    typed = Path(__file__).with_name("typed_api.py")
    roots = {Path(callgate.__file__).parent.parent, Path(sys.modules["callgate_guest"].__path__[0]).parent}
    checked = subprocess.run(
        # silent, as for whoever has it installed: what is wrong inside callgate is `make lint`'s to say
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=",
         f"--cache-dir={tmp_path}", str(typed)],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
        env={**os.environ, "MYPYPATH": ":".join(map(str, roots))},
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_runtime_is_imported_without_what_it_may_never_need() -> None:
    heavy = ["jsonrpcserver", "RestrictedPython", "snowballstemmer", "rich", "ijson", "sqlite3", "re2", "docker", "mcp"]
    heavy += ["pydantic.types", "docstring_parser"]  # tools of functions need them, and those of servers do not
    heavy += [
        f"callgate.{each}" for each in ("plan.compile", "program.graph", "runtime.model", "search.index", "tools.stubs")
    ]
    heavy += [f"callgate.runtime.{each}" for each in ("run_redaction", "named_secrets", "telemetry", "audit", "trace")]
    use = "from callgate import Runtime, tool; Runtime(sandbox=None)"
    code = f"import sys; {use}; print(*(sys.modules.keys() & set({heavy})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
