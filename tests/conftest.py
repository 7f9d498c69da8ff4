"""Which tests run when, and how signals are set for all of them.

`make test` runs the quick tests, ``-m "not slow"``. `make test-all` runs the others, ``-m "slow or generated"``.
`make soak` repeats the campaigns. A test is slow by its own mark, or because this file or `probes/conftest.py` says so:

- a test on trio, where its twin on asyncio is quick. Only the files of `BOTH_LOOPS` have such twins; everywhere else a
  test's event loop is asyncio;
- a test that starts containers;
- a test marked `alone`;
- a test marked `sampled`, but with its first parameters;
- a test of a file of `SERVERS` that is async or runs the command, but the file's first.

Hypothesis draws examples by a profile, ``--hypothesis-profile``: a few in `make test`, many in `make test-all` (and
where no profile is named), the same examples in every run; thousands in `make soak`, new ones in every run.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

TESTS = Path(__file__).parent

BOTH_LOOPS = (
    "durable/test_database.py",
    "durable/test_ownership.py",
    "durable/test_store.py",
    "durable/test_worker.py",
    "runtime/test_gate*",
    "runtime/test_background.py",
    "runtime/test_cancellation.py",
    "runtime/test_execute_code.py",
    "runtime/test_handle.py",
    "runtime/test_hostile_guests.py",
    "runtime/test_jsonrpc_lane.py",
    "runtime/test_limits_hold.py",
    "runtime/test_repair.py",
    "runtime/test_sessions.py",
    "runtime/test_streams.py",
    "runtime/test_plan_hostile.py",
    "runtime/test_plan_limits.py",
    "runtime/test_plan_stream.py",
    "runtime/test_plans.py",
    "runtime/test_driver.py",
    "runtime/test_fast_path*",
    "runtime/test_written_programs.py",
    "runtime/durable/*",
    "runtime/telemetry/*",
    "guard/test_calls_begin_in_wire_order.py",
    "agent/loop/*",
    "agent/orchestration/test_orchestrator_cancel.py",
    "runtime/replay/test_*",
    "sandbox/test_*",
    "sandbox/docker/test_cancellation.py",
    "sandbox/docker/test_death.py",
    "sandbox/docker/test_link.py",
    "with_mcp/client/test_lives.py",
    "with_mcp/server/test_descriptors.py",
    "with_mcp/server/test_half_open.py",
    "runtime/test_tool_search_meaning.py",
    "runtime/test_written_plans.py",
)
"""Files whose tests run on asyncio and on trio, because what they test cancels or schedules."""

SERVERS = ("with_mcp/*", "cli/test_mcp_option.py", "cli/test_serve.py")
"""Files whose tests, if they are async or run the command, each start an MCP server: a second or more of processor
time."""

ENGINE = {"engine", "default_image"}
"""Fixtures of a test that needs a Docker engine."""
CONTAINERS = {"docker", "docker per tenant", "tenant"}
"""Sandboxes that are containers, by the names that tests are parametrized with."""

settings.register_profile("quick", max_examples=15, deadline=None, derandomize=True)
settings.register_profile("full", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("soak", max_examples=10_000, deadline=None)
settings.load_profile("full")

# A shell starts background jobs with SIGINT ignored, nohup its command with SIGHUP ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop of an async test."""
    backend: str = request.param
    return backend


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=int, default=1, help="run each test marked `campaign` so many times")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    times = metafunc.config.getoption("--times")
    if times > 1 and metafunc.definition.get_closest_marker("campaign"):
        metafunc.fixturenames.append("time_of_campaign")
        metafunc.parametrize("time_of_campaign", range(times))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop trio outside `BOTH_LOOPS`, mark what is slow, and begin with the files that have slow tests."""
    twins = [item for item in items if _parameters(item).get("anyio_backend") == "trio" and not _in(BOTH_LOOPS, item)]
    if twins:
        config.hook.pytest_deselected(items=twins)
        dropped = set(twins)
        items[:] = [item for item in items if item not in dropped]
    sampled: set[tuple[Path, str]] = set()
    for item in items:
        if is_hypothesis_test(getattr(item, "function", None)):
            item.add_marker("generated")
        values = {each for each in _parameters(item).values() if isinstance(each, str)}
        fixtures = set(getattr(item, "fixturenames", ()))
        served = _in(SERVERS, item) and (item.get_closest_marker("anyio") or "cli" in fixtures)
        test = (item.path, "" if served else item.name.partition("[")[0])
        again = (served or item.get_closest_marker("sampled")) and test in sampled
        sampled.add(test)
        if again or item.get_closest_marker("alone") or values & {"trio", *CONTAINERS} or fixtures & ENGINE:
            item.add_marker("slow")
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)  # no worker is left alone with a slow file at the end


def _parameters(item: pytest.Item) -> Mapping[str, object]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec else {}


def _in(patterns: Sequence[str], item: pytest.Item) -> bool:
    where = item.path.relative_to(TESTS).as_posix()
    return any(fnmatch(where, pattern) for pattern in patterns)
