"""The restricted policy: what ordinary programs may do, and the ways around it that people have found elsewhere."""

from __future__ import annotations

import ast
import importlib
import sys
import types
import warnings

import pytest

from callgate.program import DEFAULT_ALLOWED_IMPORTS, Finding, check_program, parse_program
from program.programs import PROGRAMS, TOOLS


def found(source: str, allowed: frozenset[str] | None = None) -> list[Finding]:
    return check_program(source, TOOLS, policy="restricted", allowed_imports=allowed, names_known=False)


BYPASSES = {
    "match keyword": ("match x:\n    case object(__class__=c): pass", "restricted-attribute"),
    "match keyword, frame": ("match x:\n    case object(gi_frame=f): pass", "restricted-attribute"),
    "match nested": ("match x:\n    case [{'a': object(__dict__=d)}]: pass", "restricted-attribute"),
    "match or": ("match x:\n    case 1 | object(__class__=1): pass", "restricted-attribute"),
    "match value": ("match x:\n    case a.__b__: pass", "restricted-attribute"),
    "match args": ("class A:\n    __match_args__ = ('__class__',)", "restricted-attribute"),
    "match args computed": ("class A:\n    __match_args__ = ('__cl' + 'ass__',)", "restricted-attribute"),
    "match args nested": ("class A:\n    if True:\n        __match_args__ = ('__class__',)", "restricted-attribute"),
    "match args unpacked": ("class A:\n    __match_args__, x = ('a',), 1", "restricted-attribute"),
    "match args added": ("class A:\n    __match_args__ += ('a',)", "restricted-attribute"),
    "match args walrus": ("class A:\n    (__match_args__ := ('a',))", "restricted-attribute"),
    "match args for": ("class A:\n    for __match_args__ in [('a',)]: pass", "restricted-attribute"),
    "match args set": ("A.__match_args__ = ('a',)", "restricted-attribute"),
    "match args setattr": ("setattr(A, '__match_args__', ('a',))", "restricted-attribute"),
    "match args dataclass": ("import dataclasses\ndataclasses.make_dataclass('A', ['x'])", "restricted-attribute"),
    "annotate": ("class A:\n    def __annotate__(f): return {'__class__': object}", "restricted-name"),
    "annotations": ("class A:\n    __annotations__ = {'__class__': object}", "restricted-name"),
    "field": ("class A:\n    __class__: object", "restricted-name"),
    "type": ("type('A', (), {'__match_args__': ('__class__',)})", "restricted-call"),
    "capture": ("match x:\n    case __builtins__: pass", "restricted-name"),
    "capture as": ("match x:\n    case 1 as _x: pass", "restricted-name"),
    "capture star": ("match x:\n    case [*_x]: pass", "restricted-name"),
    "capture rest": ("match x:\n    case {**_x}: pass", "restricted-name"),
    "except star": ("try:\n    pass\nexcept* ValueError:\n    pass", "restricted-syntax"),
    "walrus": ("(_x := 1)", "restricted-name"),
    "except as": ("try:\n    pass\nexcept ValueError as _e:\n    pass", "restricted-name"),
    "with as": ("with a as _b: pass", "restricted-name"),
    "with as attribute": ("with a as b.__c__: pass", "restricted-attribute"),
    "import as": ("import json as _getattr_", "restricted-name"),
    "import other as": ("import os.path as json", "restricted-import"),
    "from import underscore": ("from random import _os", "restricted-attribute"),
    "from import as underscore": ("from json import loads as _x", "restricted-name"),
    "from underscore": ("from _thread import start_new_thread", "restricted-import"),
    "for target": ("for _x in []: pass", "restricted-name"),
    "for attribute": ("for a.__class__ in []: pass", "restricted-attribute"),
    "comprehension target": ("[1 for _x in []]", "restricted-name"),
    "comprehension attribute": ("[1 for a.__class__ in []]", "restricted-attribute"),
    "global": ("def f():\n    global __builtins__", "restricted-name"),
    "nonlocal": ("def f():\n    nonlocal _x", "restricted-name"),
    "argument": ("def f(_x): pass", "restricted-name"),
    "keyword only argument": ("def f(*, _x=1): pass", "restricted-name"),
    "rest argument": ("def f(**_x): pass", "restricted-name"),
    "lambda argument": ("lambda _x: 1", "restricted-name"),
    "function": ("def _f(): pass", "restricted-name"),
    "async function": ("async def _f(): pass", "restricted-name"),
    "dunder function at the top": ("def __getattr__(name): pass", "restricted-name"),
    "dunder function in a method": ("class A:\n    def f(self):\n        def __g__(): pass", "restricted-name"),
    "class": ("class _A: pass", "restricted-name"),
    "metaclass": ("class A(metaclass=type): pass", "restricted-syntax"),
    "decorator": ("@a.__b__\ndef f(): pass", "restricted-attribute"),
    "default": ("def f(a=b.__c__): pass", "restricted-attribute"),
    "annotation": ("def f(a: b.__c__): pass", "restricted-attribute"),
    "base": ("class A(b.__c__): pass", "restricted-attribute"),
    "augmented": ("a.__dict__ |= {}", "restricted-attribute"),
    "augmented item": ("a.__dict__['x'] += 1", "restricted-attribute"),
    "delete": ("del a.__dict__", "restricted-attribute"),
    "f-string": ("f'{a.__class__}'", "restricted-attribute"),
    "f-string spec": ("f'{1:{a.__class__}}'", "restricted-attribute"),
    "await": ("await a.__b__()", "restricted-attribute"),
    "async for": ("async for x in a.__b__: pass", "restricted-attribute"),
    "slice": ("a[b.__c__:]", "restricted-attribute"),
    "keyword": ("dict(__class__=1)", "restricted-attribute"),
    "dunder chain": ("().__class__.__base__.__subclasses__()", "restricted-attribute"),
    "super": ("class A:\n    def f(self): return super().__getattribute__('x')", "restricted-attribute"),
    "super kept": ("class A:\n    def f(self): return super().__init__.__globals__", "restricted-attribute"),
    "generator frame": ("(x for x in []).gi_frame", "restricted-attribute"),
    "coroutine frame": ("f().cr_frame", "restricted-attribute"),
    "async generator frame": ("f().ag_frame", "restricted-attribute"),
    "frame back": ("a.f_back", "restricted-attribute"),
    "frame globals": ("a.f_globals", "restricted-attribute"),
    "traceback": ("a.tb_frame", "restricted-attribute"),
    "code": ("a.co_code", "restricted-attribute"),
    "getattr": ("getattr(a, '__class__')", "restricted-attribute"),
    "getattr frame": ("getattr(a, 'gi_frame')", "restricted-attribute"),
    "getattr computed": ("getattr(a, '__cl' 'ass__'[:])", "restricted-call"),
    "getattr kept": ("g = getattr", "restricted-call"),
    "getattr passed": ("map(getattr, a, b)", "restricted-call"),
    "getattr unpacked": ("getattr(*a)", "restricted-call"),
    "getattr format": ("getattr('{0.x}', 'format')", "restricted-call"),
    "attrgetter": ("import operator\noperator.attrgetter('__class__')", "restricted-attribute"),
    "attrgetter from": ("from operator import attrgetter", "restricted-attribute"),
    "format": ("'{0.__class__}'.format(a)", "restricted-call"),
    "format item": ("'{0[a]}'.format(a)", "restricted-call"),
    "format nested": ("'{:{a.b}}'.format(a)", "restricted-call"),
    "format variable": ("text.format(a)", "restricted-call"),
    "format kept": ("f = '{0.__class__}'.format", "restricted-call"),
    "format of str": ("str.format('{0.__class__}', a)", "restricted-call"),
    "format_map": ("'{a.b}'.format_map(a)", "restricted-attribute"),
    "Formatter": ("import string\nstring.Formatter()", "restricted-attribute"),
    "Formatter from": ("from string import Formatter", "restricted-attribute"),
    "exec": ("exec('1')", "restricted-name"),
    "eval kept": ("e = eval", "restricted-name"),
    "eval bound": ("eval = 1", "restricted-name"),
    "compile": ("compile('1', '', 'exec')", "restricted-name"),
    "import function": ("__import__('os')", "restricted-name"),
    "builtins": ("__builtins__['open']", "restricted-name"),
    "open": ("open('/etc/passwd')", "restricted-name"),
    "io.open": ("import io\nio.open('/etc/passwd')", "restricted-name"),
    "io.open from": ("from io import open as o", "restricted-name"),
    "globals": ("globals()", "restricted-name"),
    "star": ("from math import *", "restricted-import"),
    "relative": ("from . import x", "restricted-import"),
    "not listed": ("import os", "restricted-import"),
    "not listed submodule": ("import asyncio.subprocess", "restricted-import"),
    "through a module": ("import uuid\nuuid.os", "restricted-import"),
    "through a module, renamed": ("import uuid as u\nu.os.system('x')", "restricted-import"),
    "through a later import": ("def f(): return uuid.types\nimport uuid", "restricted-import"),
    "through a submodule": ("import collections.abc\ncollections.abc.sys", "restricted-import"),
    "through a variable": ("import uuid\nu = uuid\nu.os", "restricted-attribute"),
    "through from": ("from uuid import os", "restricted-import"),
    "through private": ("import random\nrandom._os", "restricted-attribute"),
    "subprocess": ("import asyncio\nasyncio.create_subprocess_shell('x')", "restricted-attribute"),
    "network": ("import asyncio\nasyncio.open_connection('x', 1)", "restricted-attribute"),
    "traceback walk": ("import traceback\ntraceback.walk_stack(None)", "restricted-attribute"),
}
if sys.version_info >= (3, 12):
    BYPASSES["type parameter"] = ("def f[_T](x): pass", "restricted-name")
    BYPASSES["type alias"] = ("type _T = int", "restricted-name")
    BYPASSES["type alias value"] = ("type T = a.__class__", "restricted-attribute")


@pytest.mark.parametrize("name", BYPASSES)
def test_a_way_around_the_policy_is_refused(name: str) -> None:
    source, code = BYPASSES[name]
    findings = found(source)
    assert code in {finding.code for finding in findings}
    for finding in findings:
        assert finding.hint
        assert "\n" not in finding.message + finding.hint


def test_without_the_policy_none_of_them_is_a_finding_of_it() -> None:
    for source, _ in BYPASSES.values():
        assert not [f for f in check_program(source, TOOLS) if f.code.startswith("restricted")]


NOT_RESTRICTED = (
    "open(", "globals()", "exec(", "from math import *", "import os", "concurrent", "threading", "except*", ".__name__",
)  # fmt: skip


@pytest.mark.parametrize("source", [text for text in PROGRAMS if not any(part in text for part in NOT_RESTRICTED)])
def test_ordinary_programs_pass_the_policy(source: str) -> None:
    found = check_program(source, TOOLS, policy="restricted", resolve=lambda name: name.replace(".", "_"))
    assert [str(finding) for finding in found] == []


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    __slots__ = ('x',)\n    __match_args__ = ('x',)\n    def __getattr__(self, name): return 1",
        "class E(Exception):\n    def __init__(self, m): super().__init__(m)\n    def __str__(self): return 'e'",
        "if __name__ == '__main__':\n    print(1)",
        "for _ in range(3): pass",
        "x: int = 1\nx += 1\ny = [1]\ny[0] += 1\nclass A: n = 0\nA.n += 1",
        "match {}:\n    case {'a': int(x)} | {'b': x}: print(x)\n    case [1, *_]: pass",
        "class P:\n    __match_args__ = ('x',)\n    x = 1\nmatch P():\n    case P(x=1): pass\n    case P(1): pass",
        "print('{} and {name:>{width}}'.format(1, name='x', width=3))",
        "import re\nre.compile('a')",
        "from re import compile as regex",
        "from collections.abc import Mapping",
        "import collections.abc\nprint(collections.abc.Mapping)",
        "from urllib.parse import quote",
        "from __future__ import annotations",
        "from tools import get_weather",
        "getattr(1, 'real')",
        "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n    g()",
        "printed = 1\nprint(printed)",
        "import asyncio\nasync def f():\n    async with asyncio.timeout(1):\n        pass\nawait f()",
        "get_user(_id=1)",
    ],
)
def test_what_programs_ordinarily_do_is_allowed(source: str) -> None:
    assert [finding for finding in found(source) if finding.code.startswith("restricted")] == []


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("import os", "use a tool to read or write files, or `io.StringIO` for text in memory"),
        ("import requests", "call a tool; a program has no network"),
        ("import pandas as pd", "compute with `math`, `statistics` and plain lists"),
        ("import jsn", "did you mean `json`?"),
    ],
)
def test_a_refused_import_names_what_to_do_instead(source: str, hint: str) -> None:
    assert [finding.hint for finding in found(source)] == [hint]


def test_the_operator_decides_what_may_be_imported() -> None:
    assert found("import pandas as pd\npd.DataFrame()", frozenset({"pandas"})) == []
    assert found("import json", frozenset())[0].hint == "no module may be imported; use the tools"
    assert found("import qqqqq", frozenset({"math", "json"}))[0].hint == "these may be imported: json, math"
    assert found("import datetime\ndatetime.time(1)", frozenset({"datetime"})) == []


def test_a_module_of_the_list_gives_away_its_values_but_not_the_modules_in_it() -> None:
    for name in sorted(DEFAULT_ALLOWED_IMPORTS - {"tools", "__future__"}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
        for attribute in dir(module):
            findings = found(f"import {name}\nx = {name}.{attribute}")
            value = getattr(module, attribute, None)
            if isinstance(value, types.ModuleType) and value.__name__ == attribute:
                assert findings or attribute in DEFAULT_ALLOWED_IMPORTS, f"{name}.{attribute}"
            elif any(finding.code == "restricted-import" for finding in findings):
                assert isinstance(value, types.ModuleType), f"{name}.{attribute}"


def test_a_kind_of_node_nobody_has_looked_at_is_refused() -> None:
    from callgate.program.restricted import restricted_findings

    class Brandnew(ast.stmt):
        _fields = ()

    tree = ast.parse("pass")
    tree.body.append(Brandnew(lineno=3, col_offset=0))
    (finding,) = restricted_findings(tree, DEFAULT_ALLOWED_IMPORTS)
    assert finding.message == "Brandnew statements are not allowed"


def test_looking_leaves_the_tree_as_it_was() -> None:
    from callgate.program.restricted import restricted_findings

    for source in PROGRAMS:
        tree = parse_program(source)
        assert isinstance(tree, ast.Module)
        before = ast.dump(tree)
        restricted_findings(tree, DEFAULT_ALLOWED_IMPORTS)
        assert ast.dump(tree) == before
