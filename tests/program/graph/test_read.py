"""Which programs are read as graphs, and what is said of the others."""

from __future__ import annotations

import pytest

from callgate.program.graph.flow import CallTool, Flow, For, Gather, If, operations_of
from program.graph.following import flow_of, read

ONE = "r = await weather('Oslo')\n"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            "while True:\n    pass",
            "line 1: while: how often it runs is not known before; loop over a list, if there is one",
        ),
        (
            "try:\n    pass\nexcept ToolError:\n    pass",
            "line 1: try: what happens after an error is not part of a graph",
        ),
        ("def f():\n    pass", "line 1: def: functions are not part of a graph; write its body where it is needed"),
        ("x = 1\ndel x", "line 2: del: names and items that go away are not part of a graph"),
        ("import os", "line 1: import os: only json and asyncio are part of a graph"),
        ("import json as j", "line 1: import json as j: only json and asyncio are part of a graph"),
        ("print = 3", "line 1: print: the name of a function of Python's gets another meaning; use another name"),
        ("weather = 3", "line 1: weather: the name of a tool gets another meaning; use another name"),
        (
            "[len for len in [1]]",
            "line 1: len: the name of a function of Python's gets another meaning; use another name",
        ),
        (
            "x = [i for i in [1] if (y := i)]",
            "line 1: [i for i in [1] if (y := i)]: `:=` cannot stand here; repeat the value, "
            "or give it a step of its own",
        ),
        (
            "args = ['Oslo']\nawait weather(*args)",
            "line 2: weather(*args): `*` hides what the arguments are; write them out by name",
        ),
        (
            "d = {}\nawait weather(**d)",
            "line 2: weather(**d): `**` hides what the arguments are; write them out by name",
        ),
        ("weather('Oslo').temp", "line 1: weather('Oslo'): the call is not awaited; write await before it"),
        ("x = weather('Oslo')", "line 1: x: a call is started and never awaited; write await"),
        (
            "x = weather('Oslo')\nprint(x)",
            "line 2: x: a call that was not awaited is used as a value; write await before it",
        ),
        ("f = weather", "line 1: weather: a function is used as a value; call it"),
        ("if inputs_given:\n    pass", "line 1: inputs_given: it may have no value here"),
        (
            "if 1:\n    x = 2\nprint(x)",
            "line 3: x: it has a value only if line 1 was reached; give it a value before, on every way",
        ),
        (
            "for x in [1]:\n    pass\nprint(x)",
            "line 3: x: it has a value only if line 1 was reached; give it a value before, on every way",
        ),
        ("json.dumps(1)", "line 1: json: it is used before it is imported; write `import json` at the top"),
        (
            "await asyncio.gather(weather('a'))",
            "line 1: asyncio: it is used before it is imported; write `import asyncio` at the top",
        ),
        (
            "import asyncio\nawait asyncio.sleep(1)",
            "line 2: await asyncio.sleep(1): what is awaited is not a call of a tool; await tools and asyncio.gather",
        ),
        (
            "import asyncio\nawait asyncio.gather(weather('a'), return_exceptions=True)",
            "line 2: gather(return_exceptions=…): errors as values are not part of a graph",
        ),
        (
            "for x in [1, 2]:\n    if x:\n        break",
            "line 3: break: how often the loop runs is not known before; select the items first: [x for x in xs if …]",
        ),
        (
            "for x in [1]:\n    if x:\n        if x:\n            continue\n    print(x)",
            "line 4: continue: something follows the `if` that it stands in; use if and else",
        ),
        ("print({'a', 'b'})", "line 1: {'a', 'b'}: the order of a set differs from run to run; write sorted(…)"),
        (
            "s = {'a'}\nfor x in s:\n    pass",
            "line 1: {'a'}: the order of a set differs from run to run; write sorted(…)",
        ),
        ("z = zip([1], [2])", "line 1: zip([1], [2]): it can be read only once; write list(zip([1], [2]))"),
        ("x = print(1)", "line 1: print(1): print within an expression is not part of a graph; print by itself"),
        ("print(1, file=2)", "line 1: print(file=…): only constant sep= and end= are part of a graph"),
        ("async def main():\n    pass", "line 1: async def main: it is never called"),
        (
            "async def main(x):\n    pass\nawait main(1)",
            "line 1: async def main: only a function without parameters is part of a graph; write its body in place",
        ),
        (
            "x = 1\nasync def main():\n    x = 2\nawait main()",
            "line 3: x: it is a variable of the function and of the program; use two names",
        ),
        ("x: List[int] = []", "line 1: x: List[int] = []: this annotation is evaluated; leave it out"),
        ("a, (b, a) = 1, (2, 3)", "line 1: (a, (b, a)): a name stands in it twice; use a name of its own for each"),
        (
            "c = 5\nfor x in 'ab':\n    print(c)\n    c = weather(x)\n    await c",
            "line 4: c: it is the name of a value as well; use two names",
        ),
        ("c = weather('a')\nx = await c\nc = 3", "line 3: c: it is the name of a call as well; use two names"),
        (
            "g = (save(x) for x in 'ab')",
            "line 1: (save(x) for x in 'ab'): a generator starts its calls when it is read; write a list, [...]",
        ),
        (
            "import asyncio\nawait asyncio.gather(*(weather(await save(1)) for k in 'ab'))",
            "line 2: "
            "(weather(await save(1)) for k in 'ab'): a generator that awaits is asynchronous; write a list, [...]",
        ),
        (
            "import asyncio\nt = asyncio.create_task(weather('1'))\nasync def main():\n    return await t\n"
            "asyncio.run(main())",
            "line 5: asyncio.run(main()): a task of another loop may be awaited in it; use await",
        ),
        (
            "import json\nasync def main():\n    x = json.dumps(1)\n    import json\nawait main()",
            "line 4: import json: it is imported twice; import at the top",
        ),
        (
            "{'a': 1, **{}, 'b': await save(1)}",
            "line 1: {'a': 1, **{}, 'b': await save(1)}: `**` beside a call; give the call a line of its own",
        ),
        (
            "len({1, await save(1)})",
            "line 1: {1, await save(1)}: a call stands where it cannot be taken out; give it a line of its own",
        ),
        (
            "x = 0 or await save(1)",
            "line 1: 0 or await save(1): a call stands where it cannot be taken out; give it a line of its own",
        ),
        (
            "xs = [1]\n(xs\n .append(5))",
            "line 2: xs.append(5): the method stands on another line; write it on one line",
        ),
        (
            "y = 5\nr = [y for x in [await weather('a')] for y in [y]]",
            "line 2: y: it is read before it is bound; use another name",
        ),
        (
            "x = 1\nx @= await save(2)",
            "line 2: x @= await save(2): the operator `@` cannot stand here; use + - * / // % ** & | ^ << >>",
        ),
        (
            "print(list(map(set, ['ab'])))",
            "line 1: map(set, ['ab']): the order of a set differs from run to run; write sorted(…)",
        ),
        ("print(~True)", "line 1: ~True: `~` is not part of a graph; write -x - 1"),
        (
            "x = 1\nif x: pass\n" + "elif x: pass\n" * 60,
            "line 52: the program: blocks nest deeper than 50 levels; split it",
        ),
        ("return 1\nprint(2)", "line 1: return: it is not the last statement; use if and else"),
        ("await weather('a', 'b', 'c')", "line 1: weather('a', 'b', 'c'): weather takes 2 positional arguments"),
        ("await weather('a', city='b')", "line 1: weather('a', city='b'): an argument is given twice"),
        (
            "__builtins__",
            "line 1: __builtins__: the name `__builtins__` leads into the interpreter; use a name without underscores",
        ),
        (
            "x = ''.__class__",
            "line 1: ''.__class__: the attribute `__class__` leads into the interpreter; to read a field "
            "of that name, write ['__class__']",
        ),
    ],
)
def test_a_program_that_is_no_graph_has_its_reason(source: str, reason: str) -> None:
    reasons = read(source)
    assert isinstance(reasons, list)
    assert reason in [str(each) for each in reasons]


def test_all_reasons_are_told_in_the_order_of_the_lines() -> None:
    reasons = read("while x:\n    pass\nimport os\nprint(undefined)\ndef f(): pass")
    assert isinstance(reasons, list)
    assert [(each.line, each.construct) for each in reasons] == [
        (1, "while"), (3, "import os"), (4, "undefined"), (5, "def"),
    ]  # fmt: skip


def test_what_a_refused_statement_binds_is_no_further_reason() -> None:
    reasons = read("import os\nx = os.getcwd()\nwhile True:\n    y = 1\nprint(x, y)")
    assert isinstance(reasons, list)
    assert [each.line for each in reasons] == [1, 2, 3]


def test_of_many_reasons_twenty_are_told() -> None:
    reasons = read("while x: pass\n" * 100)
    assert isinstance(reasons, list)
    assert len(reasons) == 20


def test_a_program_with_too_many_elements_is_not_read() -> None:
    reasons = read("x\n" * 11_000)
    assert isinstance(reasons, list)
    assert str(reasons[0]) == "line 1: the program: it has more than 20,000 elements; split it"


@pytest.mark.parametrize(
    "source",
    [
        ONE + "print(r.temp, r['city'], sep=', ', end='!')",
        "x: int = 1\ny: dict[str, list[int | None]] = {}\nx += 1\ny['a'] = [x]\ny['a'] += [2]",
        "a, (b, [c, d]) = 1, (2, [3, 4])\na = b = c",
        "import asyncio\na, b = await asyncio.gather(weather('a'), weather('b'))",
        "import asyncio\nts = [weather(c) for c in 'ab']\nrs = await asyncio.gather(*ts)\nlen(rs)",
        "import asyncio\nts = []\nfor c in 'ab':\n    ts.append(asyncio.create_task(weather(c)))\n"
        "rs = await asyncio.gather(*ts)",
        "t = weather('a')\nu = weather('b')\nx, y = await t, await u",
        "import asyncio\nasync def main():\n    return await weather('a')\nif __name__ == '__main__':\n"
        "    asyncio.run(main())",
        "from tools import weather\nawait tools.weather('a')\nawait tool_call('by-name', name='b')",
        "rows = [(await weather(c)).temp for c in ['a'] if (await weather(c)).temp]\n"
        "{c: await weather(c) for c in 'ab'}",
        "x = (await weather('a')).temp if 1 else 2",
        "for c in 'ab':\n    if c == 'a':\n        continue\n    w = await weather(c)\n    print(w.temp)",
        "print(len({c.lower() for c in 'Aa'}), sorted(set('Aa') & {'a'}), 'a' in {'a'})",
        "'a docstring'\npass\nif 0:\n    pass\nelif 1:\n    x = 1\nelse:\n    x = 2",
        "for i, (k, v) in enumerate({'a': 1}.items()):\n    print(i, k, v)",
        "for x in 'ab':\n    if x == 'a':\n        print(x)\n    else:\n        continue\n    print(2)",
        "for x in 'ab':\n    if x:\n        if x == 'a':\n            continue\n        print(x)\n    elif x:\n"
        "        continue",
        "rows = [{'n': 1}]\nrows.sort(key=lambda row: -row['n'], reverse=True)\nd = {'a': 1}\nprint(max(d, key=d.get))",
        "xs = [3, 1]\nxs.sort(reverse=True)\nxs.append(2)\nxs.extend([4])\nprint(*xs)",
        "return 3",
        "",
    ],
)
def test_what_models_write_is_read(source: str) -> None:
    assert isinstance(read(source), Flow)


def test_calls_stand_in_the_order_of_evaluation() -> None:
    flow = flow_of(
        "x = f\"{(await weather('a')).temp}\" + str(await save(await weather('b'))) + (await weather('c')).city"
    )
    assert [site.text for site in flow.sites] == [
        "weather('a')", "weather('b')", "save(await weather('b'))", "weather('c')",
    ]  # fmt: skip
    assert [site.early for site in flow.sites] == [True, True, False, True]


def test_what_is_evaluated_before_a_call_is_kept_before_it() -> None:
    flow = flow_of("d = {}\nx = d['a'] + (await weather('b')).temp")
    kinds = [type(operation).__name__ for operation in flow.body]
    assert kinds == ["Assign", "Assign", "CallTool", "Gather", "Assign", "Return"]


def test_a_comprehension_that_calls_is_a_loop_with_variables_of_its_own() -> None:
    flow = flow_of("c = 5\nrows = [await weather(c) for c in ['a'] if c]\nprint(c)")
    loop = next(operation for operation in operations_of(flow.body) if isinstance(operation, For))
    assert isinstance(loop.target, str)
    assert loop.target.startswith("$")


def test_a_conditional_call_is_a_branch() -> None:
    flow = flow_of("x = await weather('a') if 1 else None")
    branch = next(operation for operation in flow.body if isinstance(operation, If))
    assert isinstance(branch.body[0], CallTool)


def test_gather_holds_the_calls_that_were_started_before() -> None:
    flow = flow_of(
        "import asyncio\nt = weather('a')\nts = [weather('b')]\nx = await asyncio.gather(t, weather('c'), *ts)"
    )
    gather = next(operation for operation in flow.body if isinstance(operation, Gather))
    assert [(part.slot, part.spread) for part in gather.parts[::2]] == [("t", False), ("ts", True)]


def test_inputs_are_known_and_those_that_are_read_are_noted() -> None:
    assert flow_of("print(rows)", rows=[], other=1).inputs == {"rows"}


@pytest.mark.parametrize("name", ["__name__", "__builtins__", "len", "weather", "print"])
def test_an_input_does_not_change_what_a_name_means(name: str) -> None:
    reasons = read("if __name__ == '__main__':\n    print(len('a'))", **{name: 1})
    assert isinstance(reasons, list)
    assert reasons[0].construct == name


def test_identifiers_that_normalise_to_a_tool_are_that_tool() -> None:
    reasons = read("ｗeather = 3")
    assert isinstance(reasons, list)
    assert reasons[0].construct == "weather"
