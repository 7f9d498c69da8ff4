"""A program followed step by step: prints, calls, value and errors as CPython has them."""

from __future__ import annotations

import pytest

from callgate.plan.expressions import Budget
from program.graph.following import follow


def test_prints_calls_and_the_value_come_in_program_order() -> None:
    seen = follow(
        "a = await weather('Oslo')\nprint('one', a.temp)\nb = await weather(a['city'] + 'x')\nprint(b)\n"
        "(a.temp, b.temp)"
    )
    assert seen.logs == "one 4\n{'city': 'Oslox', 'temp': 5, 'unit': 'C', 'items': [1, 2]}\n"
    assert seen.calls == [("weather", 0, {"city": "Oslo"}), ("weather", 0, {"city": "Oslox"})]
    assert seen.done is not None
    assert seen.done.value == [4, 5]
    assert seen.steps == ["Began", *["Printed"] * 4, "Began", *["Printed"] * 2]


def test_started_calls_begin_before_any_is_waited_for() -> None:
    seen = follow(
        "import asyncio\nxs = await asyncio.gather(*[weather(c) for c in 'abc'])\n[x.city for x in xs]", late=True
    )
    assert seen.steps == ["Began", "Began", "Began", "Wait"]
    assert seen.done is not None
    assert seen.done.value == ["a", "b", "c"]
    assert [number for _, number, _ in seen.calls] == [0, 1, 2]


def test_an_error_has_the_line_and_the_words_of_python() -> None:
    seen = follow("x = 1\nprint('before')\ny = {'a': 1}['b']\nprint('after')")
    assert seen.logs == "before\n"
    assert seen.failed is not None
    assert (seen.failed.kind, seen.failed.message, seen.failed.line) == ("KeyError", "'b'", 3)
    assert seen.failed.traceback == (
        "Traceback (most recent call last):\n"
        '  File "<program>", line 3, in <module>\n'
        "    y = {'a': 1}['b']\n"
        "KeyError: 'b'\n"
    )


def test_a_failed_call_is_a_tool_error_where_it_is_awaited() -> None:
    seen = follow("t = broken(1)\nu = await weather('a')\nprint(u.temp)\nawait t")
    assert seen.logs == "1\n"
    assert seen.failed is not None
    assert (seen.failed.kind, seen.failed.message, seen.failed.line, seen.failed.tool) == (
        "ToolError",
        "no 1",
        4,
        "broken",
    )


def test_of_gathered_errors_the_first_in_time_counts() -> None:
    seen = follow("import asyncio\nawait asyncio.gather(broken(1), weather('a'), broken(2))", late=True)
    assert seen.failed is not None
    assert seen.failed.message == "no 2"


def test_the_frames_of_main_are_shown() -> None:
    seen = follow("import asyncio\nasync def main():\n    await broken('x')\nasyncio.run(main())")
    assert seen.failed is not None
    assert seen.failed.line == 3
    assert seen.failed.traceback == (
        "Traceback (most recent call last):\n"
        '  File "<program>", line 4, in <module>\n'
        "    asyncio.run(main())\n"
        '  File "<program>", line 3, in main\n'
        "    await broken('x')\n"
        "ToolError: no x\n"
    )


def test_a_loop_stops_at_the_round_that_fails() -> None:
    seen = follow("for i in range(3):\n    print(i, end=' ')\n    print(1 // (1 - i))")
    assert seen.logs == "0 1\n1 "
    assert seen.failed is not None
    assert seen.failed.line == 3


def test_arguments_are_copies_and_results_are_the_programs_own() -> None:
    seen = follow("xs = [1]\na = await save(xs)\na.append(2)\nxs.append(3)\nb = await save({'k': (xs, a)})\n(xs, a, b)")
    assert seen.calls == [("save", 0, {"value": [1]}), ("save", 0, {"value": {"k": [[1, 3], [1, 2]]}})]
    assert seen.done is not None
    assert seen.done.value == [[1, 3], [1, 2], {"k": [[1, 3], [1, 2]]}]


def test_two_names_of_one_list_see_the_same_changes() -> None:
    seen = follow("a = b = []\na += [1]\nb.append(2)\nc = a\nc = c + [3]\nprint(a, b, c)")
    assert seen.logs == "[1, 2] [1, 2] [1, 2, 3]\n"


def test_an_iterator_in_a_loop_is_read_as_lazily_as_in_python() -> None:
    seen = follow("xs = [1, 2]\nfor i, x in enumerate(xs):\n    print(i, x)\n    if i < 3:\n        xs.append(x * 10)")
    assert seen.logs == "0 1\n1 2\n2 10\n3 20\n4 100\n"


@pytest.mark.parametrize(
    ("source", "value", "text"),
    [
        ("{1: 'a', None: 2}", {"1": "a", "null": 2}, None),
        ("(1, [2, (3,)])", [1, [2, [3]]], None),
        ("range(3)", None, "range(0, 3)"),
        ("print('x')", None, None),
        ("xs = [1]\nxs.append(2)", None, None),
        ("x = 1", None, None),
        ("return 2 ** 100", 2**100, None),
    ],
)
def test_values_are_json_or_text(source: str, value: object, text: str | None) -> None:
    seen = follow(source)
    assert seen.done is not None
    assert (seen.done.value, seen.done.value_repr) == (value, text)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = []\nx.append(x)", "a value comes to hold itself"),
        ("x = []\ny = [x]\nx += [y]", "a value comes to hold itself"),
        ("d = {}\nd['a'] = {'b': d}", "a value comes to hold itself"),
        ("x = 10 ** 10 ** 10", "budget exceeded: integer_bits is 16,384"),
        ("x = 'a' * 10 ** 10", "budget exceeded: bytes is 67,108,864"),
        ("for i in range(10 ** 9):\n    pass", "budget exceeded: steps is 200,000"),
        ("x = [1]\nfor y in x:\n    x.append(y)", "budget exceeded: steps is 200,000"),
        ("x = 'abc'\nx[0] = 'b'", "an item of a str is set"),
        ("x = {}\nfor i in range(9):\n"
         "    x[i * (2 ** 61 - 1)] = 1", "a tuple or a very large number becomes a key"),
        ("await save({(1,): 2})", "the arguments are not JSON values: keys must be str, int, float, bool or None, "
         "not tuple"),
        ("sorted(set(['b', 4]))", "where and how this expression fails, the sandbox tells"),
        ("x = [\n    1,\n    2 // 0,\n]", "where and how this expression fails, the sandbox tells"),
        ("print(2 ** 16000)", "a number has too many digits to be printed"),
        ("d = {}\nd[[]] = 1", "a key that cannot be one, the sandbox tells where"),
        ("x = [1]\nx.update({})", "`.update` of something that may not have it"),
        ("{1: 'a', '1': 'b'}", "the key '1' occurs twice in one object"),
        ("await save({None: 1, 'null': 2})", "the key 'null' occurs twice in one object"),
        ("2 ** 16000", "the value has no text: Exceeds the limit (4300 digits) for integer string conversion; "
         "use sys.set_int_max_str_digits() to increase the limit"),
    ],
)  # fmt: skip
def test_where_it_is_not_sure_the_sandbox_is_asked(source: str, words: str) -> None:
    seen = follow(source)
    assert seen.unsure is not None, seen
    assert seen.unsure.reason == words


def test_a_call_may_be_awaited_twice_and_gives_the_same_object() -> None:
    seen = follow(
        "import asyncio\nt = weather('a')\nx = await t\ny = await t\nx['b'] = 1\nz = await asyncio.gather(t, t)\n"
        "print(len(y), len(z[1]))"
    )
    assert seen.logs == "5 5\n"
    assert len(seen.calls) == 1


@pytest.mark.parametrize("source", ["float('nan')", "[float('inf')]", "{'a': {1: 2}.keys()}"])
def test_a_value_that_is_no_json_is_the_sandbox_s_affair(source: str) -> None:
    assert follow(source).unsure is not None


def test_a_value_is_evaluated_before_the_calls_of_its_target() -> None:
    seen = follow("d = {}\nd[await save('i')] = 1/0")
    assert seen.calls == []
    assert seen.failed is not None


def test_an_error_of_unpacking_is_in_the_line_of_the_target() -> None:
    seen = follow("x = \\\na, b = [1]")
    assert seen.failed is not None
    assert seen.failed.line == 2


def test_a_method_is_looked_up_before_its_arguments() -> None:
    seen = follow("x = 1\nx.append(x[0])")
    assert seen.unsure is not None
    assert seen.unsure.reason == "`.append` of something that may not have it"


@pytest.mark.parametrize("source", ["for x in (\n  5):\n    pass", "x = [\n await weather(c)\n for c in\n 5\n]"])
def test_where_what_a_loop_goes_over_stands_on_another_line_the_sandbox_is_asked(source: str) -> None:
    assert follow(source).unsure is not None


def test_results_and_arguments_are_paid_for_before_they_are_read_and_kept() -> None:
    budget = Budget(steps=10_000, bytes=100_000)
    seen = follow("x = 'a' * 20_000\nfor i in range(10):\n    await save(x)\nprint(1)", budget=budget)
    assert seen.unsure is not None
    assert 0 < len(seen.calls) < 5
    big = follow("x = [0] * 3000\ny = await save(x)", budget=Budget(steps=10_000, bytes=600_000))
    assert big.unsure is not None
    assert len(big.calls) == 1


def test_lists_are_sorted_in_place_by_a_key_too() -> None:
    seen = follow(
        "rows = [{'n': 2, 'k': 'b'}, {'n': 1, 'k': 'a'}, {'n': 2, 'k': 'c'}]\nsame = rows\n"
        "rows.sort(key=lambda row: row['n'])\n"
        "print([row['k'] for row in same])\nrows.sort(reverse=True, key=lambda row: row['n'])\n"
        "print([row['k'] for row in same])\n"
        "counts = {'x': 1, 'y': 3}\n"
        "print(max(counts, key=counts.get), sorted(counts, key=counts.get, reverse=True))"
    )
    assert seen.logs == "['a', 'b', 'c']\n['b', 'c', 'a']\ny ['y', 'x']\n"


def test_continue_ends_the_round_wherever_nothing_follows() -> None:
    seen = follow(
        "for x in range(6):\n    if x % 2:\n        if x == 3:\n            continue\n        print(x)\n    else:\n"
        "        continue\n    print('odd')"
    )
    assert seen.logs == "1\nodd\n5\nodd\n"


def test_an_error_of_a_module_is_told_with_the_module() -> None:
    seen = follow("import json\njson.loads('a')")
    assert seen.failed is not None
    assert seen.failed.kind == "JSONDecodeError"
    assert seen.failed.traceback.endswith("\njson.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n")


def test_nothing_is_done_beyond_the_budget() -> None:
    seen = follow("x = await save(1)\ny = [i for i in range(1000)]\nz = await save(2)", budget=Budget(steps=500))
    assert seen.unsure is not None
    assert [arguments for _, _, arguments in seen.calls] == [{"value": 1}]


def test_inputs_are_copied() -> None:
    rows = [{"a": 1}]
    seen = follow("xs = rows\nxs.append(2)\nprint(rows, rows[0].a)", rows=rows)
    assert seen.logs == "[{'a': 1}, 2] 1\n"
    assert rows == [{"a": 1}]


def test_python_looks_a_method_up_before_its_arguments() -> None:
    seen = follow("x = 3\nx.append(await save(1))")
    assert seen.calls == []
    assert seen.unsure is not None
