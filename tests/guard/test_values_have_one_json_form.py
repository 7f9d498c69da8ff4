"""A Python value that is not JSON has one JSON form, wherever it crosses between host and program, or it is refused.

The promise is the table of docs/tools.md, "Values and their JSON form". Each row is driven through every way: the
value of a program, an argument of a call, an input, an argument of a plan, a tool's result, data of a tool's error.
"""

from __future__ import annotations

import importlib.util
import math
import sys
import types
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from callgate import ConfigurationError, Limits, Runtime, ToolError, tool
from runtime.conftest import opened

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:.*Pyarrow.*"),
]

IMPORTS = """
import collections, dataclasses, datetime, decimal, enum, fractions, ipaddress, pathlib, typing, uuid
from datetime import date, datetime as moment, time, timedelta, timezone
from decimal import Decimal

class Color(enum.Enum):
    RED = "red"
    PAIR = (1, 2)

class Level(enum.IntEnum):
    LOW = 1

class Word(enum.StrEnum):
    YES = "yes"

class Old(str, enum.Enum):
    A = "a"

class Point(typing.NamedTuple):
    x: int
    y: date

@dataclasses.dataclass
class Order:
    id: uuid.UUID
    when: date
    lines: list = dataclasses.field(default_factory=list)
    note: typing.ClassVar[str] = "no field"

UTC = timezone.utc
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
"""

PACKAGES = """
import numpy as np, pandas as pd, pydantic

class Place(pydantic.BaseModel):
    name: str = pydantic.Field(alias="Name")
    since: date
    area: Decimal

@pydantic.dataclasses.dataclass
class Spot:
    at: date

class Anything(pydantic.BaseModel):
    held: object

ARRAY = np.array([[1, 2], [3, 4]])
TIMES = np.array(["2024-01-02T03:04:05", "NaT"], dtype="datetime64[ns]")
"""

PLAIN: dict[str, tuple[str, Any]] = {
    "a date": ("date(2024, 2, 3)", "2024-02-03"),
    "a moment": ("moment(2024, 2, 3, 4, 5, 6)", "2024-02-03T04:05:06"),
    "a moment with a fraction": ("moment(2024, 2, 3, 4, 5, 6, 500_000)", "2024-02-03T04:05:06.500000"),
    "a moment in UTC": ("moment(2024, 2, 3, tzinfo=UTC)", "2024-02-03T00:00:00Z"),
    "a moment elsewhere": ("moment(2024, 2, 3, tzinfo=timezone(timedelta(hours=2)))", "2024-02-03T00:00:00+02:00"),
    "a time": ("time(12, 30)", "12:30:00"),
    "a time in UTC": ("time(12, 30, tzinfo=UTC)", "12:30:00Z"),
    "a duration": ("timedelta(days=1, hours=2, milliseconds=1500)", "P1DT2H1.5S"),
    "a duration backwards": ("timedelta(seconds=-90)", "-PT1M30S"),
    "no duration": ("timedelta()", "PT0S"),
    "more than a year": ("timedelta(days=400)", "P1Y35D"),
    "a decimal": ("Decimal('1.10')", "1.10"),
    "a large decimal": ("Decimal('12345678901234567890.12')", "12345678901234567890.12"),
    "a UUID": ("ID", "12345678-1234-5678-1234-567812345678"),
    "a path": ("pathlib.PurePosixPath('a') / 'b'", "a/b"),
    "an address": ("[ipaddress.ip_address('10.0.0.1'), ipaddress.ip_network('10.0.0.0/8')]",
                   ["10.0.0.1", "10.0.0.0/8"]),
    "an enum": ("Color.RED", "red"),
    "an enum of tuples": ("Color.PAIR", [1, 2]),
    "an enum of integers": ("Level.LOW", 1),
    "an enum of texts": ("[Word.YES, Old.A]", ["yes", "a"]),
    "a dataclass": ("Order(ID, date(2024, 2, 3), [Decimal('1')])",
                    {"id": "12345678-1234-5678-1234-567812345678", "when": "2024-02-03", "lines": ["1"]}),
    "a named tuple": ("Point(1, date(2024, 2, 3))", [1, "2024-02-03"]),
    "a tuple": ("(1, (2,))", [1, [2]]),
    "a deque": ("collections.deque([1, date(2024, 2, 3)], 5)", [1, "2024-02-03"]),
    "kinds of dict": ("[collections.OrderedDict(a=1), collections.Counter('a'), collections.defaultdict(list, b=[])]",
                      [{"a": 1}, {"a": 1}, {"b": []}]),
    "keys that are numbers": ("{1: 'a', 2.5: 'b', True if 0 else None: 'c'}", {"1": "a", "2.5": "b", "null": "c"}),
    "keys that have a form": ("{date(2024, 2, 3): 1, ID: 2, Color.RED: 3, Level.LOW: 4, Decimal('1.5'): 5}",
                              {"2024-02-03": 1, "12345678-1234-5678-1234-567812345678": 2, "red": 3, "1": 4, "1.5": 5}),
    "deep inside": ("{'a': [({'b': date(2024, 2, 3)},)]}", {"a": [[{"b": "2024-02-03"}]]}),
}  # fmt: skip

WITH_PACKAGES: dict[str, tuple[str, Any]] = {
    "numpy integers": ("[np.int64(2**60 + 1), np.uint8(255), np.int8(-1)]", [2**60 + 1, 255, -1]),
    "numpy floats": ("[np.float64(0.1), np.float32(0.5), np.float16(0.25)]", [0.1, 0.5, 0.25]),
    "a float of 32 bits is exact": ("np.float32(0.1)", 0.10000000149011612),
    "a numpy truth value": ("[np.bool_(True), np.array([1]) > 2]", [True, [False]]),
    "a numpy text": ("np.str_('a')", "a"),
    "a model of what pydantic does not know": ("Anything(held=[np.int64(3), ARRAY])", {"held": [3, [[1, 2], [3, 4]]]}),
    "an array": ("ARRAY", [[1, 2], [3, 4]]),
    "an array of nothing": ("np.zeros((0, 3))", []),
    "a number as an array": ("np.array(5)", 5),
    "an array of records": ("np.array([(1, 2.5)], dtype=[('a', 'i4'), ('b', 'f8')])", [[1, 2.5]]),
    "an array of objects": ("np.array([date(2024, 2, 3), None], dtype=object)", ["2024-02-03", None]),
    "an array with gaps": ("np.ma.array([1, 2], mask=[False, True])", [1, None]),
    "numpy times": ("TIMES", ["2024-01-02T03:04:05", None]),
    "a numpy time": ("[TIMES[0], np.datetime64('2024-01-02'), np.datetime64('2024-01-02T03:04:05.5', 'ms')]",
                     ["2024-01-02T03:04:05", "2024-01-02", "2024-01-02T03:04:05.500000"]),
    "no numpy time": ("[np.datetime64('NaT', 's'), np.timedelta64('NaT', 's')]", [None, None]),
    "numpy durations": ("[np.timedelta64(90, 's'), np.array([1_500_000_000], dtype='timedelta64[ns]')]",
                        ["PT1M30S", ["PT1.5S"]]),
    "keys of numpy": ("{np.int64(1): 1, np.str_('a'): 2, np.float64(2.5): 3}", {"1": 1, "a": 2, "2.5": 3}),
    "a pandas time": ("[pd.Timestamp('2024-01-02 03:04:05', tz='UTC'), pd.Timestamp('2024-01-02')]",
                      ["2024-01-02T03:04:05Z", "2024-01-02T00:00:00"]),
    "a pandas duration": ("pd.Timedelta('1 day 2 hours')", "P1DT2H"),
    "NaT and NA": ("[pd.NaT, pd.NA]", [None, None]),
    "a series": ("pd.Series([1, 2], index=['a', 'b'])", [1, 2]),
    "a series of times": ("pd.Series(pd.to_datetime(['2024-01-02', None]))", ["2024-01-02T00:00:00", None]),
    "a series that knows gaps": ("pd.Series([1, None], dtype='Int64')", [1, None]),
    "an index": ("pd.Index(['a', 'b'])", ["a", "b"]),
    "categories": ("pd.Categorical(['a', 'b'])", ["a", "b"]),
    "records of a frame": ("pd.DataFrame({'a': [1, 2]}).to_dict('records')", [{"a": 1}, {"a": 2}]),
    "a model": ("Place(Name='Oslo', since=date(2024, 2, 3), area=Decimal('1.5'))",
                {"Name": "Oslo", "since": "2024-02-03", "area": "1.5"}),
    "a model within": ("[Spot(at=date(2024, 2, 3)), {'p': Place(Name='A', since=date(2024, 2, 3), area=1)}]",
                       [{"at": "2024-02-03"}, {"p": {"Name": "A", "since": "2024-02-03", "area": "1"}}]),
}  # fmt: skip

SORTED = "write sorted(...), since a set has no order"

REFUSED = {
    "a set": ("{1, 2}", SORTED),
    "a set within": ("{'a': [frozenset('ab')]}", SORTED),
    "not a number": ("float('nan')", "nan"),
    "infinity": ("[float('-inf')]", "-inf"),
    "a decimal that is none": ("Decimal('NaN')", "NaN"),
    "a key that is no number": ("{float('nan'): 1}", "nan"),
}
"""Everywhere, also as the value of a program."""

REFUSED_WITH_PACKAGES = {
    "NaN in an array": ("np.array([1.0, np.nan])", "nan"),
    "NaN in a series": ("pd.Series([1.0, None])", "nan"),
    "a numpy infinity": ("np.float32('inf')", "inf"),
}

FORMLESS = {
    "bytes": ("b'x'", "base64.b64encode(...).decode()"),
    "complex": ("1j", "[z.real, z.imag]"),
    "a range": ("range(3)", "list(...)"),
    "keys": ("{'a': 1}.keys()", "list(...)"),
    "a generator": ("(x for x in 'ab')", "list(...)"),
    "a map": ("map(str, [1])", "list(...)"),
    "an object": ("object()", "object"),
    "a class": ("Order", "type"),
    "an object of a class from nowhere": ("type('Odd', (), {'__module__': None})()", "Odd"),
    "a fraction": ("fractions.Fraction(1, 3)", "Fraction"),
    "a key that is a tuple": ("{(1, 2): 3}", "key"),
    "a dataclass that lacks a field": ("Order.__new__(Order)", "Order"),
}
"""As the value of a program they arrive as text; anywhere else they are refused."""

FORMLESS_WITH_PACKAGES = {
    "a frame": ("pd.DataFrame({'a': [1]})", 'df.to_dict("records")'),
    "a long float": ("np.longdouble(1)", "float(...)"),
    "complex in an array": ("np.array([1j])", "[z.real, z.imag]"),
    "months": ("np.timedelta64(3, 'M')", "timedelta64"),
}

ALL = PLAIN | WITH_PACKAGES
ALL_REFUSED = REFUSED | REFUSED_WITH_PACKAGES
ALL_FORMLESS = FORMLESS | FORMLESS_WITH_PACKAGES

HOST = types.ModuleType("forms_of_the_host")


@pytest.fixture(scope="module", autouse=True)
def host_names() -> Iterator[None]:
    pytest.importorskip("numpy")
    pytest.importorskip("pandas")
    sys.modules[HOST.__name__] = HOST
    exec(compile(IMPORTS + PACKAGES, HOST.__name__, "exec", dont_inherit=True), HOST.__dict__)
    yield
    del sys.modules[HOST.__name__]


def on_host(source: str) -> Any:
    return eval(source, HOST.__dict__)


GIVEN: dict[str, Any] = {}


@tool
def echo(value: Any) -> Any:
    """What it is given."""
    return value


@tool
async def give():  # type: ignore[no-untyped-def]
    """What the test has put there. Async, since an iterator of a sync tool is read before it is a result."""
    return GIVEN["value"]


@tool
def fail() -> None:
    """Fails, with data."""
    raise ToolError("no", data={"value": GIVEN["value"]})


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    spec = importlib.util.find_spec("numpy")
    assert spec is not None
    assert spec.origin is not None
    packages = str(Path(spec.origin).parent.parent)
    async with opened(echo, give, fail, packages=packages, pool_size=0, limits=Limits(cpu_seconds=60)) as entered:
        yield entered


@pytest.fixture(scope="module")
async def session(runtime: Runtime) -> AsyncIterator[Any]:
    async with runtime.session() as opened_session:
        ran = await opened_session.execute_code(IMPORTS + PACKAGES)
        assert ran.ok, ran.error
        yield opened_session


@pytest.mark.parametrize("name", ALL)
async def test_a_program_s_value_has_that_form(name: str, session: Any) -> None:
    source, expected = ALL[name]
    ran = await session.execute_code(source, check=False)
    assert ran.ok, ran.error
    assert (ran.value, ran.value_repr) == (expected, None)


HOLDERS = {
    "a list": "[{}]",
    "a dataclass": "Order(ID, {})",
    "an array": "np.array([{}, None], dtype=object)",
    "a model": "Anything(held={{'a': [{}]}})",
    "a key that has a form": "{{date(2024, 2, 3): {}}}",
}
WRONG = {
    "echo(1)": "the call of echo was not awaited: write `await echo(...)`",
    "(await echo({'items': 1})).items": "`.items` is the dict's method and not the field of that name",
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("use", ["{}", "await echo({})"])
async def test_what_is_no_value_says_what_to_write_wherever_it_is(
    wrong: str, holder: str, use: str, session: Any
) -> None:
    ran = await session.execute_code(use.format(HOLDERS[holder].format(wrong)), check=False)
    assert ran.error is not None
    assert ran.error.kind == "TypeError"
    assert WRONG[wrong] in ran.error.message


@pytest.mark.parametrize("name", ALL)
async def test_an_argument_of_a_call_has_that_form(name: str, session: Any) -> None:
    source, expected = ALL[name]
    ran = await session.execute_code(f"await echo({source})", check=False)
    assert ran.ok, ran.error
    assert ran.value == expected
    assert ran.calls[0].arguments == {"value": expected}


@pytest.mark.parametrize("name", ALL)
async def test_a_tool_s_result_has_that_form(name: str, runtime: Runtime) -> None:
    source, expected = ALL[name]
    GIVEN["value"] = on_host(source)
    ran = await runtime.execute_code("await give()", path="plan")
    assert ran.ok, ran.error
    assert ran.value == expected


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("path", ["plan", "sandbox"])
async def test_an_input_has_that_form_on_both_paths(name: str, path: Any, runtime: Runtime) -> None:
    source, expected = ALL[name]
    ran = await runtime.execute_code("await echo(x)", inputs={"x": on_host(source)}, path=path)
    assert ran.ok, ran.error
    assert (ran.value, ran.path) == (expected, path)


@pytest.mark.parametrize("name", ALL)
async def test_an_argument_of_a_plan_has_that_form(name: str, runtime: Runtime) -> None:
    source, expected = ALL[name]
    plan = {"steps": [{"id": "a", "tool": "echo", "arguments": {"value": on_host(source)}}]}
    ran = await runtime.execute_tool_plan(plan)
    assert ran.ok, ran
    assert ran.outputs == {"a": expected}


@pytest.mark.parametrize("name", ALL)
async def test_the_data_of_a_tool_s_error_has_that_form(name: str, runtime: Runtime) -> None:
    source, expected = ALL[name]
    GIVEN["value"] = on_host(source)
    ran = await runtime.execute_code("try:\n    await fail()\nexcept ToolError as e:\n    found = e.data\nfound")
    assert ran.ok, ran.error
    assert ran.value == {"value": expected}


@pytest.mark.parametrize("name", ALL_REFUSED)
async def test_what_has_no_certain_form_is_refused_as_a_value(name: str, session: Any) -> None:
    source, words = ALL_REFUSED[name]
    ran = await session.execute_code(source, check=False)
    assert not ran.ok
    assert ran.error.kind in ("TypeError", "ValueError")
    assert words in ran.error.message


@pytest.mark.parametrize("name", ALL_FORMLESS)
async def test_a_value_without_a_form_arrives_as_text(name: str, session: Any) -> None:
    source, _ = ALL_FORMLESS[name]
    ran = await session.execute_code(source, check=False)
    assert ran.ok, ran.error
    assert ran.value is None
    assert ran.value_repr


@pytest.mark.parametrize("name", ALL_REFUSED | ALL_FORMLESS)
async def test_what_has_no_form_is_refused_as_an_argument_with_what_to_write(name: str, session: Any) -> None:
    source, words = (ALL_REFUSED | ALL_FORMLESS)[name]
    ran = await session.execute_code(f"await echo([{source}])", check=False)
    assert not ran.ok
    assert ran.error.kind in ("TypeError", "ValueError")
    assert ran.error.message.startswith("the arguments of echo must be JSON values: ")
    assert words in ran.error.message
    assert not ran.calls


@pytest.mark.parametrize("name", ALL_REFUSED | ALL_FORMLESS)
async def test_what_has_no_form_is_refused_on_the_host_with_what_to_write(name: str, runtime: Runtime) -> None:
    source, words = (ALL_REFUSED | ALL_FORMLESS)[name]
    GIVEN["value"] = on_host(source)
    ran = await runtime.execute_code("await give()", path="plan")
    if name == "bytes":  # of a tool they are an artifact
        assert ran.value["bytes"] == 1
    else:
        assert ran.error is not None
        assert ran.error.message.startswith("tool 'give' returned what it must not: result")
        assert words in ran.error.message
    with pytest.raises(ConfigurationError, match="inputs must be JSON values; 'x' is not: ") as refused:
        await runtime.execute_code("x", inputs={"x": on_host(source)})
    assert words in str(refused.value)


PROGRAMS = {
    "a set": "rows = await echo([2, 1])\n{x for x in rows}",
    "a set within": "rows = await echo([2, 1])\n{'a': [set(rows)]}",
    "not a number": "x = await echo(1)\nfloat('nan')",
    "infinity": "x = await echo(1e308)\n[x * 10]",
    "a set as an argument": "rows = await echo([2, 1])\nawait echo(set(rows))",
    "a sorted set": "rows = await echo([2, 1, 2])\nsorted(set(rows))",
    "a range": "x = await echo(3)\nrange(x)",
    "keys": "x = await echo({'b': 1})\nx.keys()",
    "a tuple as a key": "x = await echo(3)\n{(x, x): 1}",
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_both_paths_say_the_same_of_values_that_are_no_json(name: str, runtime: Runtime) -> None:
    either = await runtime.execute_code(PROGRAMS[name])
    sandboxed = await runtime.execute_code(PROGRAMS[name], path="sandbox")
    assert outcome(either) == outcome(sandboxed)
    if name in ("a set", "a set within"):
        assert either.error is not None
        assert SORTED in either.error.message


def outcome(run: Any) -> tuple[Any, ...]:
    calls = [(call.tool, call.arguments, call.status) for call in run.calls]
    error = run.error and (run.error.kind, run.error.message, run.error.line)
    return run.ok, run.value, run.value_repr, error, run.logs, calls


async def test_large_and_exact_numbers_survive_an_array(session: Any) -> None:
    ran = await session.execute_code("np.arange(190_000, dtype='int64') + 2**53", check=False)
    assert ran.ok, ran.error
    assert ran.value[1] == 2**53 + 1
    assert len(ran.value) == 190_000
    assert not any(isinstance(each, float) and math.isnan(each) for each in ran.value[:10])


async def test_a_value_that_contains_itself_does_not_hang(session: Any) -> None:
    ran = await session.execute_code("a = collections.deque()\na.append(a)\na", check=False)
    assert ran.ok, ran.error
    assert ran.value_repr == "deque([[...]])"
    ran = await session.execute_code("await echo(a)", check=False)
    assert ran.error is not None
    assert ran.error.kind == "ValueError"
