"""A program that errs in a way that programs here often do is told what to write, before it runs or when it fails.

Held at `Runtime.check` and `Runtime.execute_code`, on both paths where the fast path can take the program.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from callgate import CodeResult, Finding, Runtime, tool

pytestmark = pytest.mark.anyio


class Page(BaseModel):
    items: list[dict[str, Any]]
    total: int
    keys: list[str] = []


@tool(read_only=True)
async def get_contact(i: int) -> dict[str, Any]:
    """One contact.

    Args:
        i: its number.
    """
    return {"name": f"n{i}", "total": i, "items": [1, 2], "values": [3], "get": 4, "pop": 5, "update": 6, "copy": 7}


@tool(read_only=True)
async def list_page(cursor: str, size: int = 10) -> Page:
    """A page of rows."""
    return Page(items=[{"n": 1}, {"n": 2}], total=2, keys=["n"])


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime([get_contact, list_page], pool_size=1) as opened:
        yield opened


def messages(found: list[Finding], code: str) -> list[str]:
    return [str(finding) for finding in found if finding.code == code]


async def failed(runtime: Runtime, code: str, path: Any = "sandbox", **options: Any) -> CodeResult:
    result = await runtime.execute_code(code, path=path, **options)
    assert not result.ok
    assert result.error is not None
    return result


# a plain def whose call has waited

WAITED = "`fetch` is a plain def, its call has already waited"
PLAIN = "def fetch(i):\n    return get_contact(i)\n"


@pytest.mark.parametrize(
    "code",
    [
        PLAIN + "x = await fetch(1)",
        PLAIN + "import asyncio\nawait asyncio.gather(*map(fetch, [1, 2]))",
        PLAIN + "import asyncio\nawait asyncio.gather(fetch(1), fetch(2))",
        PLAIN + "import asyncio\nawait asyncio.gather(*[fetch(i) for i in range(3)])",
        PLAIN + "import asyncio\ncalls = [fetch(i) for i in range(3)]\nawait asyncio.gather(*calls)",
        PLAIN + "from asyncio import gather as g\nawait g(*(fetch(i) for i in range(3)))",
        PLAIN + "import asyncio\nasync with asyncio.TaskGroup() as group:\n    group.create_task(fetch(1))",
        "def fetch(i):\n    found = tools.get_contact(i)\n    return found.name if found else None\nawait fetch(1)",
        "import asyncio\ndef fetch():\n    print(get_contact(1))\nasyncio.run(fetch())",
        "import asyncio\ndef fetch():\n    return asyncio.create_task(get_contact(1))\nawait fetch()",
    ],
)
async def test_awaiting_a_plain_def_that_has_waited_is_found_before_it_runs(runtime: Runtime, code: str) -> None:
    (finding,) = [each for each in runtime.check(code) if each.code == "already-waited"]
    assert WAITED in finding.message
    assert "write `async def fetch`" in finding.hint
    assert "drop" in finding.hint
    assert finding.severity == "error"


@pytest.mark.parametrize(
    "code",
    [
        PLAIN + "x = fetch(1)\nx.name",
        "import asyncio\ndef later(i):\n    get_contact(i)\n    return asyncio.sleep(0)\nawait later(1)",
        "async def inner(i):\n    return await get_contact(i)\ndef fetch(i):\n    return inner(i)\nawait fetch(1)",
        "def fetch(i, then):\n    get_contact(i)\n    return then()\nasync def f():\n    return 1\nawait fetch(1, f)",
        "import asyncio\ndef fetch(i):\n    return get_contact(i)\nawait asyncio.to_thread(fetch, 1)",
        "import asyncio\nfetch = lambda i: get_contact(i)\nawait asyncio.gather(*map(fetch, [1, 2]))",
        "def fetch(i):\n    return get_contact(i)\nclass Board:\n    def create_task(self, row):\n        return row\n"
        "Board().create_task(fetch(1))",
    ],
)
async def test_functions_that_give_something_to_await_or_are_not_awaited_are_left_alone(
    runtime: Runtime, code: str
) -> None:
    assert not messages(runtime.check(code), "already-waited")
    assert (await runtime.execute_code(code)).ok


@pytest.mark.parametrize(
    "code",
    [
        PLAIN + "import inspect\nr = fetch(1)\nv = await r if inspect.isawaitable(r) else r\nv.name",
        PLAIN + "import asyncio\nr = fetch(1)\nif asyncio.iscoroutine(r):\n    v = await r\nelse:\n    v = r\nv.name",
        PLAIN + "r = fetch(1)\nv = (await r) if hasattr(r, '__await__') else r\nv.name",
        PLAIN
        + "from collections.abc import Awaitable\nr = fetch(1)\nv = await r if isinstance(r, Awaitable) else r\nv.name",
    ],
)
async def test_a_program_that_asks_whether_to_await_runs(runtime: Runtime, code: str) -> None:
    assert all(each.severity == "warning" for each in runtime.check(code))
    result = await runtime.execute_code(code)
    assert result.value == "n1", result.error


@pytest.mark.parametrize(
    "code",
    [
        "class Api:\n    def fetch(self, i):\n        return get_contact(i)\nawait Api().fetch(1)",
        "import asyncio\nclass Api:\n    def fetch(self, i):\n        return get_contact(i)\n"
        "calls = [Api().fetch(i) for i in range(2)]\nawait asyncio.gather(*calls)",
    ],
)
async def test_what_check_cannot_see_of_a_plain_def_is_said_when_it_fails(runtime: Runtime, code: str) -> None:
    result = await failed(runtime, code)
    assert result.error is not None
    assert result.error.kind == "TypeError"
    assert WAITED in result.error.message
    assert "write `async def fetch`" in result.error.message
    assert WAITED in result.for_model()


async def test_a_plain_def_of_an_earlier_program_is_told_of_as_well(runtime: Runtime) -> None:
    async with runtime.session() as session:
        assert (await session.execute_code(PLAIN)).ok
        result = await session.execute_code("await fetch(1)")
        assert result.error is not None
        assert WAITED in result.error.message


# fields that are called like a method of dict


@pytest.mark.parametrize("name", ["items", "values", "get", "pop", "update", "copy"])
@pytest.mark.parametrize(
    "use", ["[x for x in r.{}]", "r.{}[0]", "r.{} == []", "len(r.{})", "r.{} or []", "r.{}", "await get_contact(r.{})"]
)
async def test_a_method_of_a_dict_used_as_the_field_of_that_name_says_how_to_read_it(
    runtime: Runtime, name: str, use: str
) -> None:
    code = f"r = await get_contact(1)\n{use.format(name)}"
    for path in ("auto", "sandbox"):
        result = await failed(runtime, code, path)
        assert result.error is not None
        assert (result.error.kind, f"write r['{name}']" in result.error.message) == ("TypeError", True)


async def test_json_of_a_method_says_how_to_read_the_field(runtime: Runtime) -> None:
    for path in ("auto", "sandbox"):
        result = await failed(runtime, "import json\nr = await get_contact(1)\njson.dumps(r.items)", path)
        assert result.error is not None
        assert "for its field of that name write r['...']" in result.error.message


async def test_methods_of_a_result_work_whatever_its_keys_are(runtime: Runtime) -> None:
    code = (
        "import copy, json\nr = await get_contact(1)\n"
        "assert list(r.items()) == [(k, r[k]) for k in r] and list(r.keys()) == list(r) and r.get('none', 9) == 9\n"
        "assert r.copy() == r == dict(r) == {**r} == copy.deepcopy(r) and type(r.copy()) is dict\n"
        "assert json.loads(json.dumps(r)) == r and isinstance(r, dict) and list(r.values())[1] == 1\n"
        "assert callable(r.items) and list(map(r.get, ['name'])) == ['n1']\n"
        "r.update(name='x')\nr.pop('total')\n[r.name, 'total' in r, r['items'], type(r).__name__]"
    )
    result = await runtime.execute_code(code, path="sandbox")
    assert (result.error, result.value) == (None, ["x", False, [1, 2], "Record"])


async def test_check_warns_of_a_field_that_the_schema_has_and_a_method_hides(runtime: Runtime) -> None:
    found = runtime.check("page = await list_page('a')\nfor row in page.items:\n    print(row)\nprint(page.keys[0])")
    told = [(each.severity, each.line, each.hint) for each in found if each.code == "hidden-field"]
    assert [(severity, line) for severity, line, _ in told] == [("warning", 2), ("warning", 4)]
    assert "write `page['items']`" in told[0][2]
    assert "write `page['keys']`" in told[1][2]


@pytest.mark.parametrize(
    "code",
    [
        "page = await list_page('a')\nfor k, v in page.items():\n    print(k)",
        "await list_page('a')\ncounts = {}\nmax([1], key=counts.get)",
        "await list_page('a')\nclass Box:\n    def __init__(self):\n        self.items = []\nlen(Box().items)",
        "r = await get_contact(1)\nfor x in r.items:\n    print(x)",  # its schema says nothing of keys
    ],
)
async def test_check_is_silent_of_methods_that_may_be_meant(runtime: Runtime, code: str) -> None:
    assert not messages(runtime.check(code), "hidden-field")


# keys that are missing


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "r['totl']",
            "'totl': the result has no such key; did you mean 'total'? its keys are: 'items', 'total', 'keys'",
        ),
        ("r['zzzzzz']", "'zzzzzz': the result has no such key; its keys are: 'items', 'total', 'keys'"),
        ("r[0]", "0: the result has no such key; its keys are: 'items', 'total', 'keys'"),
        ("r['items'][0]['m']", "'m': the result has no such key; its keys are: 'n'"),
        ("{'a': 1}['b']", "'b'"),
        ("dict(r)['totl']", "'totl'"),
    ],
)
async def test_a_missing_key_of_a_result_lists_the_keys_on_both_paths(
    runtime: Runtime, code: str, message: str
) -> None:
    program = f"r = await list_page('a')\n{code}"
    fast = await failed(runtime, program, "plan")
    slow = await failed(runtime, program, "sandbox")
    for result in (fast, slow):
        assert result.error is not None
        assert (result.error.kind, result.error.message, result.error.line) == ("KeyError", message, 2)
    assert fast.path == "plan"


async def test_a_caught_key_error_has_the_key_and_its_text_has_the_keys(runtime: Runtime) -> None:
    code = (
        "r = await get_contact(1)\ntry:\n    r['nme']\nexcept KeyError as error:\n    caught = error\n"
        "[caught.args, 'did you mean \\'name\\'?' in str(caught), type(caught).__name__]"
    )
    assert (await runtime.execute_code(code)).value == [["nme"], True, "KeyError"]


async def test_a_message_about_a_missing_key_is_bounded(runtime: Runtime) -> None:
    for path in ("plan", "sandbox"):
        result = await failed(runtime, "data['k' * 100000]", path, inputs={"data": {f"key{i}": i for i in range(3000)}})
        assert result.error is not None
        assert len(result.error.message) < 1000


# a program that defines and does nothing


@pytest.mark.parametrize(
    ("code", "written"),
    [
        ("async def main():\n    print(await get_contact(1))", "await main()"),
        ("import asyncio\nN = 3\ndef main():\n    print(get_contact(N))", "main()"),
        ('"""What it does."""\nasync def run(i):\n    return await get_contact(i)', "await run(...)"),
    ],
)
async def test_a_program_that_defines_and_never_calls_is_told_so(runtime: Runtime, code: str, written: str) -> None:
    result = await runtime.execute_code(code)
    assert result.ok
    assert "never calls it, so nothing runs" in result.for_model()
    assert f"write `{written}` at the end" in result.for_model()


@pytest.mark.parametrize(
    "code",
    [
        "async def main():\n    return 1\nawait main()",
        "async def main():\n    return 1\nif __name__ == '__main__':\n    await main()",
        "def main():\n    return 1\nx = main()",
        "x = 1",
    ],
)
async def test_a_program_that_does_something_is_not_told_so(runtime: Runtime, code: str) -> None:
    assert not messages(runtime.check(code), "never-called")


async def test_a_session_may_define_what_its_next_program_calls(runtime: Runtime) -> None:
    async with runtime.session() as session:
        defined = await session.execute_code("async def fetch(i):\n    return (await get_contact(i)).name")
        assert "Note" not in defined.for_model()
        assert (await session.execute_code("await fetch(4)")).value == "n4"


# what is not there


async def test_a_module_that_is_not_there_says_what_can_be_imported_and_how_to_add_packages(runtime: Runtime) -> None:
    result = await failed(runtime, "import surely_not_installed")
    assert result.error is not None
    message = result.error.message
    assert result.error.kind == "ModuleNotFoundError"
    assert message.startswith("No module named 'surely_not_installed'; ")
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}'s standard library" in message
    assert "callgate packages add surely_not_installed --to DIR" in message
    assert message.partition("; ")[2] in result.for_model()


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that every user may read; pytest's own folders are for this user alone."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


async def test_packages_that_are_there_are_named(readable: Path) -> None:
    (readable / "own_package").mkdir()
    (readable / "own_package" / "__init__.py").write_text("A = 5\n")
    (readable / "own_module.py").write_text("B = 6\n")
    async with Runtime([get_contact], packages=str(readable), pool_size=1) as runtime:
        assert (await runtime.execute_code("import own_package\nown_package.A")).value == 5
        result = await failed(runtime, "import surely_not_installed")
        assert result.error is not None
        assert "own_module, own_package" in result.error.message


async def test_importing_a_tool_says_that_it_is_there(runtime: Runtime) -> None:
    result = await failed(runtime, "import get_contact")
    assert result.error is not None
    assert "get_contact is there without an import" in result.error.message


async def test_an_import_that_a_program_is_ready_for_fails_as_python_has_it(runtime: Runtime) -> None:
    code = (
        "import importlib.util\ntry:\n    import surely_not_installed\nexcept ImportError as error:\n"
        "    said = str(error)\n[said, importlib.util.find_spec('surely_not_installed')]"
    )
    assert (await runtime.execute_code(code)).value == ["No module named 'surely_not_installed'", None]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("import urllib.request\nurllib.request.urlopen('http://example.com')", "URLError"),
        ("import urllib.request\nurllib.request.urlopen('http://192.0.2.1/')", "URLError"),
        ("import http.client\nhttp.client.HTTPConnection('example.com').request('GET', '/')", "gaierror"),
        ("import socket\nsocket.gethostbyname('example.com')", "gaierror"),
        ("import socket\nsocket.socket()", "PermissionError"),
        ("import socket\nsocket.create_connection(('192.0.2.1', 80))", "PermissionError"),
        ("import asyncio\nawait asyncio.open_connection('example.com', 80)", "gaierror"),
        ("import smtplib\nsmtplib.SMTP('example.com')", "gaierror"),
    ],
)
async def test_a_network_error_says_that_there_is_no_network(runtime: Runtime, code: str, kind: str) -> None:
    result = await failed(runtime, code)
    assert result.error is not None
    assert result.error.kind == kind
    assert "programs have no network" in result.error.message
    assert "call a tool instead" in result.error.message


async def test_a_caught_network_error_says_it_too(runtime: Runtime) -> None:
    code = "import socket\ntry:\n    socket.getaddrinfo('example.com', 80)\nexcept OSError as error:\n    print(error)"
    assert "programs have no network" in (await runtime.execute_code(code)).logs
