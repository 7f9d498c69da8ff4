"""`check_program` as a whole: every code with its exact text, the order, the bounds, and that it never raises."""

from __future__ import annotations

import threading
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import callgate.program
from callgate.program import DEFAULT_MAX_SOURCE_BYTES, FINDING_CODES, Finding, Policy, ToolShape, check_program

TOOLS = [
    ToolShape("get_weather", ("city", "units"), frozenset({"city"}), output_schema={"properties": {"items": {}}}),
    ToolShape("send_report", ("title", "body"), frozenset({"title", "body"})),
]

EXACT: dict[str, tuple[str, Finding]] = {
    "too-large": (
        "x" * (DEFAULT_MAX_SOURCE_BYTES + 1),
        Finding(
            "too-large",
            1,
            1,
            "the program has 65,537 bytes; at most 65,536 are allowed",
            "split it into several programs, or pass large data as inputs instead of writing it into the code",
        ),
    ),
    "too-complex": (
        "x = " + "(" * 300,
        Finding(
            "too-complex",
            1,
            1,
            "too many nested parentheses",
            "split the expression into several statements, or use a loop",
        ),
    ),
    "syntax": (
        "x = 1\nbreak",
        Finding(
            "syntax",
            2,
            1,
            "'break' outside loop",
            "use `break` only inside `for` or `while`; to end the program, use `return`",
        ),
    ),
    "await-in-def": (
        "def summary(city):\n    return (await get_weather(city))['temp']\nprint(summary('Oslo'))",
        Finding(
            "await-in-def",
            2,
            13,
            "`await` inside the plain function `summary`",
            "make it `async def summary` and await its calls, or drop the `await`: "
            "in a plain `def` a tool call waits for its result by itself",
        ),
    ),
    "unknown-name": (
        "w = await get_wether('Oslo')",
        Finding("unknown-name", 1, 11, "`get_wether` is not defined", "did you mean `get_weather`?"),
    ),
    "unknown-tool": (
        "w = await tools.get_wether('Oslo')",
        Finding("unknown-tool", 1, 11, "there is no tool `get_wether`", "did you mean `tools.get_weather`?"),
    ),
    "unknown-argument": (
        "w = await get_weather('Oslo', unit='metric')",
        Finding("unknown-argument", 1, 31, "get_weather(...) has no argument `unit`", "did you mean `units`?"),
    ),
    "missing-argument": (
        "await send_report(title='Sales')",
        Finding(
            "missing-argument",
            1,
            7,
            "send_report(...) is called without `body`",
            "write `send_report(title=..., body=...)`",
        ),
    ),
    "too-many-arguments": (
        "await get_weather('Oslo', 'metric', 3)",
        Finding(
            "too-many-arguments",
            1,
            7,
            "get_weather(...) takes 2 arguments, and 3 are given",
            "its arguments are: city, units",
        ),
    ),
    "repeated-argument": (
        "await get_weather('Oslo', city='Oslo')",
        Finding(
            "repeated-argument",
            1,
            27,
            "get_weather(...) is given `city` twice, by position and by name",
            "leave one of them out: its arguments are: city, units",
        ),
    ),
    "already-waited": (
        "def fetch(city):\n    return get_weather(city)\nawait fetch('Oslo')",
        Finding(
            "already-waited",
            3,
            1,
            "`fetch` is a plain def, its call has already waited and gives the result of get_weather",
            "write `async def fetch` and `await get_weather(...)` in it, or drop the `await`",
        ),
    ),
    "never-called": (
        "async def main():\n    print(await get_weather('Oslo'))",
        Finding(
            "never-called",
            1,
            1,
            "the program defines `main` and never calls it, so nothing runs",
            "write `await main()` at the end",
            "warning",
        ),
    ),
    "hidden-field": (
        "page = await get_weather('Oslo')\nfor each in page.items:\n    print(each)",
        Finding(
            "hidden-field",
            2,
            13,
            "`.items` is the dict's method and not the field of what get_weather gives",
            "write `page['items']` for the field, or `.items()` for the method",
            "warning",
        ),
    ),
    "not-replayable": (
        "import threading\nthreading.Thread(target=print).start()",
        Finding(
            "not-replayable",
            2,
            1,
            "threading.Thread starts a thread, and a run that can be replayed has none",
            "use async functions with asyncio.gather or a TaskGroup",
        ),
    ),
    "not-awaited": (
        "get_weather('Oslo')",
        Finding(
            "not-awaited",
            1,
            1,
            "get_weather(...) is never awaited, so its result is not used",
            "write `await get_weather('Oslo')`",
        ),
    ),
    "restricted-import": (
        "import subprocess",
        Finding(
            "restricted-import",
            1,
            1,
            "`import subprocess` is not allowed",
            "call a tool; a program starts no processes",
        ),
    ),
    "restricted-name": (
        "_cache = {}",
        Finding("restricted-name", 1, 1, "the name `_cache` starts with an underscore", "write `cache`"),
    ),
    "restricted-attribute": (
        "x = ().__class__",
        Finding(
            "restricted-attribute",
            1,
            5,
            "the attribute `__class__` starts with an underscore",
            "use the public interface of the object, or give it a name without the underscore",
        ),
    ),
    "restricted-call": (
        "name = 'a'\nx = getattr(name, name)",
        Finding(
            "restricted-call",
            2,
            5,
            "`getattr` with a computed name is not allowed",
            "write the attribute's name out, or use a dict",
        ),
    ),
    "restricted-syntax": (
        "class A(metaclass=type):\n    pass",
        Finding(
            "restricted-syntax",
            1,
            1,
            "`metaclass=` is not allowed",
            "use a class decorator, or a base class",
        ),
    ),
}


def test_every_code_has_an_exact_example() -> None:
    assert EXACT.keys() == FINDING_CODES.keys()


@pytest.mark.parametrize("code", FINDING_CODES)
def test_the_text_of_each_finding_is_this(code: str) -> None:
    source, finding = EXACT[code]
    policy: Policy = "restricted" if code.startswith("restricted") else "none"
    assert check_program(source, TOOLS, policy=policy, replays=code == "not-replayable") == [finding]
    assert finding.severity == ("warning" if code in ("never-called", "hidden-field") else "error")
    assert "\n" not in finding.message + finding.hint


def test_a_finding_reads_as_one_line() -> None:
    assert str(EXACT["unknown-name"][1]) == "line 1: `get_wether` is not defined; did you mean `get_weather`?"


def test_findings_come_in_the_order_of_the_source() -> None:
    found = check_program("get_weather('Oslo')\nprint(undefined_one)\nawait get_weather(town='Oslo')", TOOLS)
    assert [(finding.line, finding.code) for finding in found] == [
        (1, "not-awaited"),
        (2, "unknown-name"),
        (3, "missing-argument"),
        (3, "unknown-argument"),
    ]


def test_columns_count_characters_not_bytes() -> None:
    (finding,) = check_program("é = 'ü'; print(undefined_one)", TOOLS)
    assert finding.column == 16


def test_a_misspelt_argument_is_not_reported_as_missing_too() -> None:
    found = check_program("await get_weather(cty='Oslo')", TOOLS)
    assert [finding.code for finding in found] == ["unknown-argument"]


@pytest.mark.parametrize("session", [False, True])
def test_a_program_that_returns_a_value_is_not_told_that_nothing_runs(session: bool) -> None:
    for last in ("return 5", "return LIMIT", "return"):
        assert check_program(f"LIMIT = 3\ndef main():\n    return 1\n{last}", TOOLS, session=session) == []


def test_inputs_and_earlier_names_are_known() -> None:
    assert check_program("print(rows, limit)", TOOLS, inputs=["limit"], known_names={"rows"}) == []
    assert len(check_program("print(rows, limit)", TOOLS)) == 2


def test_names_can_be_left_unchecked() -> None:
    assert check_program("print(rows)", TOOLS, names_known=False) == []


def test_tools_may_come_as_a_mapping() -> None:
    assert check_program("get_weather('x')", {tool.name: tool for tool in TOOLS})[0].code == "not-awaited"


def test_an_input_with_the_name_of_a_tool_hides_the_tool() -> None:
    assert check_program("print(get_weather['x'], get_weather(1, 2, 3))", TOOLS, inputs=["get_weather"]) == []


def test_at_most_twenty_of_a_kind_are_reported() -> None:
    assert len(check_program("\n".join(f"unknown_{n}()" for n in range(1000)), TOOLS)) == 20


@given(st.text())
def test_no_text_makes_it_raise(source: str) -> None:
    for finding in check_program(source, TOOLS, policy="restricted"):
        assert finding.code in FINDING_CODES
        assert finding.line >= 1
        assert finding.column >= 1


WORDS = """await get_weather ( ) [ ] { } : , . = := * ** 'x' f'{x}' 1 x y _ __class__ def async class lambda for in if
else return yield import from as tools tool_call try except match case global nonlocal @ -> ~ not"""
TOKENS = st.sampled_from([*WORDS.split(), "\n", "\n    ", "\n  ", "\t"])


@given(st.lists(TOKENS, max_size=40).map(" ".join))
def test_no_heap_of_tokens_makes_it_raise(source: str) -> None:
    found = check_program(source, TOOLS, policy="restricted", inputs=["x"], known_names=["y"])
    assert found == sorted(found, key=lambda finding: (finding.line, finding.column))


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("x = 1\0", "syntax"),
        ("x = '\ud800'", "syntax"),
        ("\ufeffx = 1", "syntax"),
        ("`" * 3 + "python\nprint(1)\n" + "`" * 3, "syntax"),
        ("a" * 50_000_000, "too-large"),
        ("é" * (DEFAULT_MAX_SOURCE_BYTES - 10), "too-large"),
        ("\n" * 10**6, "too-large"),
    ],
    ids=["nul", "surrogate", "bom", "fences", "50MB", "bytes", "lines"],
)
def test_what_is_no_source_gets_one_finding(source: str, code: str) -> None:
    (finding,) = check_program(source, TOOLS)
    assert finding.code == code


def test_fences_around_the_code_are_named_as_the_cause() -> None:
    (finding,) = check_program("```python\nprint(1)\n```", TOOLS)
    assert finding.hint == "send the code alone, without the ``` fences around it"


NAMES = "\n ".join(f"a{n}=0" for n in range(12_000))
RAISED = 256 * 1024
"""An operator may raise the limit: what is looked at then must not take minutes."""
HOSTILE = {
    "parentheses": "(" * 100_000,
    "brackets": "[" * 100_000 + "]" * 100_000,
    "defs": "".join(" " * depth + "def f():\n" for depth in range(700)),
    "defs on": "def f():\n " * 25_000,
    "attributes": "a" + ".b" * 100_000,
    "short attributes": "a" + ".b" * 240,
    "sum": "1" + "+1" * 100_000,
    "sum 3000": "1" + "+1" * 3_000,
    "sum 900": "1" + "+1" * 900,
    "minus": "-" * 200_000 + "1",
    "minus 2000": "-" * 2_000 + "1",
    "not": "not " * 60_000 + "1",
    "power": "1" + "**1" * 80_000,
    "lambdas": "lambda:" * 35_000 + "1",
    "lambdas 1000": "lambda:" * 1_000 + "1",
    "calls": "f" + "()" * 100_000,
    "calls 2000": "f" + "()" * 2_000,
    "subscripts": "f" + "[0]" * 80_000,
    "comparisons": "1" + "<1" * 100_000,
    "elif": "if 1:pass\n" + "elif 1:pass\n" * 20_000,
    "elif 2000": "if 1:pass\n" + "elif 1:pass\n" * 2_000,
    "comprehension": "[x " + "for x in y " * 20_000 + "]",
    "import": "import a" + ".b" * 100_000,
    "imports": ("import a" + ".b" * 248 + "\n") * 500,
    "fields": 'f"' + "{x}" * 80_000 + '"',
    "nested fields": 'f"{x:' + "{x}" * 80_000 + '}"',
    "statements": "a\n" * 130_000,
    "semicolons": "a;" * 130_000,
    "tries": "try:pass\nexcept:pass\n" * 12_000,
    "guarded": "try:pass\nexcept NameError:b\n" * 9_000,
    "returns": "return\n" * 37_000,
    "names times lambdas": f"def f():\n {NAMES}\n " + ";".join(["lambda:0"] * 8_000),
    "names times nested lambdas": f"def f():\n {NAMES}\n " + "lambda:" * 800 + "0",
    "unknown names": "\n".join(f"unknown_name_{n}" for n in range(12_000)),
    "unknown deep": "lambda:" * 500 + "(" + ",".join(f"unknown_name_{n}" for n in range(10_000)) + ")",
    "tool calls": "get_weather()\n" * 18_000,
    "nested tool calls": "get_weather(" * 190 + ")" * 190,
    "hidden field": "page = get_weather('Oslo')\npage" + "[0]" * 800 + ".items\n",
    "task group": "def f(): return get_weather('Oslo')\nasync with f" + "[0]" * 800 + " as group: pass\n",
    "lists of lists of calls": "import asyncio\ndef f(): return get_weather('Oslo')\n"
    + "".join(f"a{n} = [{f'a{n + 1}, ' * 20}]\n" for n in range(9))
    + "a9 = 1\nawait asyncio.gather(*a0)",
    "values that depend on values": "def f():\n get_weather('Oslo')\n return a0\n"
    + "".join(f"a{n} = {f'a{n + 1} or ' * 20}1\n" for n in range(9))
    + "a9 = 1\nawait f()",
    "pending": "\n".join(f"a{n}=get_weather(1);print(a{n}[0])" for n in range(6_000)),
    "keywords": "get_weather(" + ",".join(f"a{n}=1" for n in range(20_000)) + ")",
    "digits": "1" * 250_000,
    "hex": "0x" + "f" * 250_000,
    "quotes": "'" * 250_000,
    "backslashes": "'" + "\\" * 250_000,
    "dots": "." * 250_000,
    "or patterns": "match x:\n case " + "1|" * 100_000 + "1:pass",
    "format": "'" + "{a.b}" * 50_000 + "'.format(a)",
    "underscores": "\n".join(f"_a{n}" for n in range(30_000)),
    "star imports": "from a import *\n" * 10_000,
    "nested loops": "".join(" " * depth + "for x in y:\n" for depth in range(60)) + " " * 60 + "pass",
    "with items": "with " + "a," * 30_000 + "a: pass",
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_hostile_source_is_looked_at_in_bounded_time(shape: str) -> None:
    source = HOSTILE[shape]
    assert len(source) <= RAISED
    started = time.process_time()
    found = check_program(source, TOOLS, policy="restricted", max_source_bytes=RAISED)
    spent = time.process_time() - started
    assert all(finding.code in FINDING_CODES for finding in found)
    assert spent < 6  # 1.5 s on the machine it was written on


def test_where_more_tries_stand_than_are_looked_through_no_fault_is_an_error() -> None:
    tries = "try: tools.nothing()\nexcept Exception: pass\n" * 1001 + "try: nothing\nexcept NameError: pass\n"
    assert {each.severity for each in check_program(tries, TOOLS)} == {"warning"}
    last = "\n".join(f"try: x = {n}\nexcept Exception: pass" for n in range(1001))
    for fault in ("tools.nothing()", "nothing"):
        (found,) = check_program(f"{last}\ntry: {fault}\nexcept Exception: pass", TOOLS)
        assert found.severity == "warning"


@pytest.mark.parametrize("shape", ["minus", "sum", "calls", "comprehension", "defs", "lambdas", "elif", "import"])
def test_what_cannot_be_compiled_for_its_depth_gets_one_clear_finding(shape: str) -> None:
    (finding,) = check_program(HOSTILE[shape], TOOLS, max_source_bytes=RAISED)
    assert finding.code == "too-complex"


def test_a_long_sum_that_python_can_compile_is_no_finding() -> None:
    assert check_program("x = " + " + ".join(["'a'"] * 200), TOOLS, policy="restricted") == []


def test_warnings_of_the_compiler_stay_inside(recwarn: pytest.WarningsRecorder) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert check_program("def f():\n    return '\\d' is 1\nf()", TOOLS) == []
    assert not recwarn.list


def test_checks_in_many_threads_leave_the_warning_filters_alone() -> None:
    before = list(warnings.filters)

    def many() -> None:
        for _ in range(200):
            check_program("def f(): return 1", TOOLS)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert warnings.filters == before


def test_restrictedpython_is_imported_in_one_file() -> None:
    room = Path(callgate.program.__file__).parent
    importing = [path.name for path in room.glob("*.py") if "from RestrictedPython" in path.read_text(encoding="utf-8")]
    assert importing == ["restricted.py"]
