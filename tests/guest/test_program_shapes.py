"""Whole programs of many shapes: full CPython works, and names behave as a module's do."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path
from typing import Any

import pytest

from guest.conftest import Run
from guest.driver import guest_root

SHAPES: dict[str, tuple[str, Any]] = {
    "dataclasses": (
        "from dataclasses import dataclass, asdict\n@dataclass\nclass P:\n    x: int\n    y: int = 2\nasdict(P(1))",
        {"x": 1, "y": 2},
    ),
    "pickling a class of its own": (
        "import pickle\nclass P:\n    def __init__(self, x): self.x = x\npickle.loads(pickle.dumps(P(3))).x",
        3,
    ),
    "named tuples": ("from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\nP(1)", [1]),
    "enums": ("import enum\nclass E(enum.Enum):\n    A = 1\nE.A.name", "A"),
    "decorators": ("def d(f):\n    return lambda x: f(x) + 1\n@d\ndef g(x):\n    return x\ng(1)", 2),
    "generators": ("def g():\n    got = yield 1\n    yield got\ni = g()\n[next(i), i.send(5)]", [1, 5]),
    "closures and nonlocal": ("def f():\n    x = 0\n    def g():\n        nonlocal x\n        x += 1\n"
                              "        return x\n"
                              "    return g\ng = f()\n[g(), g()]", [1, 2]),
    "super and metaclasses": ("class M(type): pass\nclass A(metaclass=M):\n    def f(self): return 1\n"
                              "class B(A):\n    def f(self): return super().f() + 1\nB().f()", 2),
    "type hints": ("import typing\ndef f(x: int) -> str: ...\n"
                   "{k: v.__name__ for k, v in typing.get_type_hints(f).items()}",
                   {"x": "int", "return": "str"}),
    "module annotations": ("import __main__\nx: int = 1\n__main__.__annotations__['x'].__name__", "int"),
    "inspect its own source": ("import inspect\ndef f():\n    return 1\ninspect.getsource(f)", "def f():\n    "
        "return 1\n"),
    "the main module": ("import __main__\nx = 4\n__main__.x", 4),
    "its name": ("__name__", "__main__"),
    "globals": ("x = 5\n[globals()['x'], locals() is globals(), 'x' in dir()]", [5, True, True]),
    "exec and eval": ("exec('y = 2')\neval('y + 1')", 3),
    "compile": ("eval(compile('1 + 1', 'f', 'eval'))", 2),
    "regular expressions": ("import re\nre.findall(r'\\d+', 'a1b22')", ["1", "22"]),
    "dates": ("import datetime\ndatetime.date(2024, 2, 28) + datetime.timedelta(2) == datetime.date(2024, 3, 1)", True),
    "decimals and fractions": ("from decimal import Decimal\nfrom fractions import Fraction\n"
                               "[str(Decimal('0.1') * 3), str(Fraction(1, 3))]", ["0.3", "1/3"]),
    "statistics": ("import statistics\nstatistics.mean([1, 2, 3])", 2),
    "csv": ("import csv, io\nlist(csv.reader(io.StringIO('a,b\\n')))", [["a", "b"]]),
    "hashes": ("import hashlib\nhashlib.sha256(b'').hexdigest()[:8]", "e3b0c442"),
    "match on classes": ("class P:\n    __match_args__ = ('x',)\n    def __init__(self, x): self.x = x\n"
                         "match P(3):\n    case P(x):\n        r = x\nr", 3),
    "try, else, finally": ("r = []\ntry:\n    r.append(1)\nexcept ValueError:\n    pass\nelse:\n    r.append(2)\n"
                           "finally:\n    r.append(3)\nr", [1, 2, 3]),
    "star expressions": ("a, *b = [1, 2, 3]\n[*b, a]", [2, 3, 1]),
    "top-level await in comprehensions": ("import asyncio\n[await asyncio.sleep(0, i) for i in range(3)]", [0, 1, 2]),
    "top-level async with": ("import contextlib\n@contextlib.asynccontextmanager\nasync def c():\n    yield 1\n"
                             "async with c() as x: pass\nx", 1),
    "await in an f-string": ("f\"{(await get_weather('Oslo')).temp} degrees\"", "4 degrees"),
    "a loop of calls": ("t = 0\nfor c in ['a', 'bb']:\n    t += (await get_weather(c)).temp\nt", 3),
    "a while with a call": ("n = 0\nwhile (await echo(n)) < 3:\n    n += 1\nn", 3),
    "os.environ": ("import os\nisinstance(dict(os.environ), dict)", True),
    "time": ("import time\ntime.sleep(0)\ntime.time() > 1e9", True),
    "uuid and random": ("import uuid, random\n[len(str(uuid.uuid4())), 0 <= random.random() < 1]", [36, True]),
    "a weak reference to itself": ("import weakref\nclass A: pass\na = A()\nweakref.ref(a)() is a", True),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_a_program_with(name: str, run: Run) -> None:
    code, expected = SHAPES[name]
    ran = run(code)
    assert ran.error is None, ran.error
    assert (ran.value, ran.value_repr) == (expected, None)


def sources() -> list[Path]:
    return sorted(Path(guest_root(), "callgate_guest").rglob("*.py"))


def lines_of_code(source: str) -> int:
    """Lines that hold code: no blank ones, no comments, no docstrings."""
    doc: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            assert node.end_lineno is not None
            doc.update(range(node.lineno, node.end_lineno + 1))
    held: set[int] = set()
    nothing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in nothing:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - doc)


FORKING = {"container.py", "files.py", "frames.py", "launching.py", "prefork.py", "sharing.py", "zygote.py"}
"""What makes guests ready; `rootfs.py` makes images and runs in none."""


REPLAYING = {"replaying.py", "standing_still.py"}
"""What only a guest that replays has beside its program."""

WITHIN = "within.py"
"""What only a guest within another sandbox (srt) begins with."""


def test_the_guest_stays_small() -> None:
    """All lines of what runs beside a program, of what forks it, and what confines it (`jail/`) by its code."""
    shipped = [path for path in sources() if path.name not in {"rootfs.py", WITHIN, *REPLAYING}]
    outside = [path for path in shipped if path.parent.name != "jail"]
    beside = [path for path in outside if path.name not in FORKING]
    assert sum(len(path.read_text().splitlines()) for path in beside) < 3080
    assert sum(len(path.read_text().splitlines()) for path in outside) < 4520
    assert sum(lines_of_code(path.read_text()) for path in outside) < 3165
    assert sum(lines_of_code(path.read_text()) for path in shipped) < 3840


def test_what_a_guest_needs_to_replay_stays_small() -> None:
    assert sum(lines_of_code(path.read_text()) for path in sources() if path.name in REPLAYING) < 480


def test_what_a_guest_within_another_sandbox_needs_stays_small() -> None:
    assert sum(lines_of_code(path.read_text()) for path in sources() if path.name == WITHIN) < 95


def test_the_guest_imports_the_standard_library_only() -> None:
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                assert node.module is not None
                names.append(node.module)
            for name in names:
                assert name.partition(".")[0] in sys.stdlib_module_names, f"{path.name} imports {name}"
