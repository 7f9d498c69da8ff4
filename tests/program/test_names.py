"""Unknown names: found where they are certain, silence where a program may bind what the text does not show."""

from __future__ import annotations

import random
import sysconfig
import time
import warnings
from pathlib import Path

import pytest

from callgate.program import Finding, ToolShape, bound_names, check_program
from callgate.program.findings import nearest

TOOLS = [ToolShape("get_weather", ("city",), frozenset({"city"}))]


def names(source: str) -> list[Finding]:
    return [finding for finding in check_program(source, TOOLS) if finding.code == "unknown-name"]


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("print(getWeather)", "did you mean `get_weather`?"),
        ("prnt(1)", "did you mean `print`?"),
        ("total_amount = 1\nprint(total_amout)", "did you mean `total_amount`?"),
        ("x = true", "write `True`"),
        ("x = null", "write `None`"),
        ("json.loads('1')", "write `import json` first"),
        ("datetime.now()", "write `from datetime import datetime` first"),
        ("defaultdict(list)", "write `from collections import defaultdict` first"),
        ("ToolEror", "did you mean `ToolError`?"),
        ("zzzzqqqq", "assign it, import it, or pass it in as an input before it is used"),
        ("x" * 5000, "assign it, import it, or pass it in as an input before it is used"),
    ],
)
def test_the_hint_says_what_to_write_instead(source: str, hint: str) -> None:
    (finding,) = names(source)
    assert (finding.hint, finding.severity) == (hint, "error")
    assert len(finding.message) < 120


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    limit = 1\n    def f(self):\n        return limit",
        "class A:\n    limit = 1\n    f = lambda self: limit",
        "def f():\n    inner = 1\nprint(inner)",
        "def f(a):\n    pass\nprint(a)",
        "f = lambda a: a\nprint(a)",
        "def f():\n    return missing",
        "print([missing for x in [1]])",
        "x = f'{missing}'",
        "@missing\ndef f(): pass",
        "def f(a=missing): pass",
        "class A(missing): pass",
        "match 1:\n    case missing.x: pass",
        "try:\n    missing\nexcept ValueError:\n    pass",
        "try:\n    pass\nexcept missing:\n    pass",
        "try:\n    pass\nexcept NameError:\n    missing",
        "missing[0] = 1",
        "missing.x = 1",
        "with missing: pass",
    ],
)
def test_what_nothing_binds_is_an_error(source: str) -> None:
    (finding,) = names(source)
    assert finding.severity == "error"


@pytest.mark.parametrize(
    "source",
    [
        "from x import *\nmissing",
        "exec('missing = 1')\nmissing",
        "globals()['missing'] = 1\nmissing",
        "vars()['missing'] = 1\nmissing",
        "import builtins\nbuiltins.missing = 1\nmissing",
        "import sys\nsetattr(sys.modules['__main__'], 'missing', 1)\nmissing",
        "try:\n    missing\nexcept NameError:\n    pass",
        "try:\n    missing\nexcept (ValueError, NameError) as e:\n    pass",
        "from __future__ import annotations\ndef f(a: missing): pass",
        "def f():\n    a: missing = 1",
        "x = 1\ndel x\nx",
        "class A:\n    def f(self): return __class__, __name__",
        "class A:\n    x = 1\n    y = [x for _ in range(3)]",
        "class A:\n    def f(self) -> 'B': return B\nclass B: pass",
        "[a for a in [1]]\nprint(a)",
        "print(__name__, __file__, __doc__, __builtins__, __annotations__, WindowsError, aiter, exit)",
        "def f():\n    global made\n    made = 1\nf()\nprint(made)",
        "match {}:\n    case {'a': a, **rest} | {'b': a, **rest}: print(a, rest)",
        "match []:\n    case [x, *xs] | (x, xs) as whole: print(x, xs, whole)",
        "print(tools, tool_call, ToolError, get_weather)",
    ],
)
def test_what_may_be_bound_is_left_alone(source: str) -> None:
    assert names(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    missing\nexcept Exception as e:\n    print(e)",
        "try:\n    missing\nexcept:\n    pass",
        "def f(a: missing): pass",
        "x: missing = 1",
        "def f() -> missing: pass",
    ],
)
def test_what_may_never_be_evaluated_is_a_warning(source: str) -> None:
    (finding,) = names(source)
    assert finding.severity == "warning"


def test_a_name_is_reported_once_where_it_stands_first() -> None:
    (finding,) = names("def f():\n    return missing\nprint(missing, missing)")
    assert (finding.line, finding.column) == (2, 12)


def test_type_parameters_are_names_of_their_function_and_class() -> None:
    source = "def first[T](xs: list[T]) -> T: return T\nclass Box[S]:\n    def f(self, s: S): return S\ntype A[K] = K"
    found = check_program(source, TOOLS)
    assert [finding for finding in found if finding.code != "syntax"] == []  # Python 3.11 does not have them


MADE_AT_IMPORT = {"ssl.py", "calendar.py", "re/__init__.py"}  # their names come from `global_enum` and the like
WRONG_ON_PURPOSE = {
    "distutils/command/install_egg_info.py",  # as Debian ships it: it raises a name that it never imports
    "distutils/tests/test_versionpredicate.py",
    "idlelib/idle_test/test_rpc.py",
    "test/test_keywordonlyarg.py",
    "test/test_pathlib/test_pathlib_abc.py",
    "test/test_shutil.py",
    "test/test_sqlite3/test_dbapi.py",
    "test/typinganndata/ann_module3.py",
}
ALWAYS = ("json/decoder.py", "asyncio/tasks.py", "dataclasses.py", "typing.py", "argparse.py", "enum.py", "ast.py")


def standard_library() -> list[Path]:
    root = Path(sysconfig.get_paths()["stdlib"])
    found = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith(("site-packages", "dist-packages")) or name in WRONG_ON_PURPOSE | MADE_AT_IMPORT:
            continue
        found.append(path)
    chosen = random.Random(7).sample(found, min(250, len(found)))
    return [*(root / name for name in ALWAYS), *chosen]


AT_A_PROMPT = (["copyright"], ["credits"], ["license"])
"""Names that `site` gives to people at a prompt, which idlelib uses, and no program has."""


@pytest.mark.slow
def test_the_standard_library_has_no_unknown_names_and_no_faults() -> None:
    wrong, looked = [], 0
    for path in standard_library():
        try:
            source = path.read_text(encoding="utf-8")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(source, str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, UnicodeDecodeError):
            continue
        looked += 1
        found = check_program(source, (), max_source_bytes=10**7)
        errors = [each for each in found if each.severity == "error"]
        wrong += [f"{path}: {each}" for each in errors if each.message.split("`")[1:2] not in AT_A_PROMPT]
    assert wrong == []
    assert looked > 200


# names that a program leaves behind for the next one of its session


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("rows = await query('west')", {"rows"}),
        ("def f(a):\n    b = 1\nclass A:\n    c = 1", {"f", "A"}),
        ("def f():\n    global made\n    made = 1", {"f", "made"}),
        ("import os.path, json as j\nfrom math import pi", {"os", "j", "pi"}),
        ("from tools import query\nimport tools", set()),
        ("from tools import query as q\nquery = 1\nfrom tools import query", {"q", "query"}),
        ("for i, (a, *b) in []: pass\nif (n := 1): pass", {"i", "a", "b", "n"}),
        ("from math import *", set()),
        ("x = (", set()),
        ("x" * 10**6, set()),
    ],
)
def test_these_names_are_left_behind(source: str, names: set[str]) -> None:
    assert bound_names(source) == names


def test_the_next_program_knows_them_and_leaves_a_rebound_tool_alone() -> None:
    tools = [ToolShape("query", ("region",), frozenset({"region"}))]
    earlier = bound_names("def query(*regions): return list(regions)\nrows = query(1, 2)")
    assert check_program("print(rows, query(1, 2)[0])", tools, known_names=earlier) == []


# did you mean: near names only, in bounded time


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("getWeather", ["get_weather"], "get_weather"),
        ("get-weather", ["get_weather"], "get_weather"),
        ("get_wether", ["send", "get_weather"], "get_weather"),
        ("qqq", ["get_weather"], None),
        ("x", ["y"], None),
        ("", ["y"], None),
        ("word", [], None),
    ],
)
def test_the_nearest_name_or_none(word: str, known: list[str], expected: str | None) -> None:
    assert nearest(word, known) == expected


def test_the_time_is_bounded_whatever_is_known() -> None:
    known = [f"some_{number:06}_name" for number in range(200_000)]
    started = time.process_time()
    nearest("some_999999_nmae", known)
    nearest("x" * 10**6, known)
    assert time.process_time() - started < 2
