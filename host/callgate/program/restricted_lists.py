"""The lists of the restricted policy: what may be imported, what may not be named, and what to write instead.

Data only. Which list applies where is the business of `restricted.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "CLASS_NAMES",
    "DEFAULT_ALLOWED_IMPORTS",
    "FORBIDDEN_ATTRIBUTES",
    "FORBIDDEN_NAMES",
    "INTERPRETER_ATTRIBUTES",
    "INTERPRETER_MODULES",
    "METHODS_OF_SUPER",
    "MODULE_HINTS",
    "MODULE_NAMES",
    "NOT_METHODS",
    "READ_BY_TEXT",
]

DEFAULT_ALLOWED_IMPORTS: Final = frozenset({
    "__future__", "abc", "array", "asyncio", "base64", "binascii", "bisect", "calendar", "cmath", "collections",
    "collections.abc", "colorsys", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib",
    "enum", "fractions", "functools", "graphlib", "hashlib", "heapq", "hmac", "html", "io", "itertools", "json",
    "keyword", "math", "numbers", "operator", "pprint", "random", "re", "secrets", "statistics", "string",
    "textwrap", "time", "tools", "traceback", "typing", "unicodedata", "urllib.parse", "uuid", "zlib", "zoneinfo",
})  # fmt: skip
"""Modules of the standard library that compute, and `tools`."""

_FILES: Final = "use a tool to read or write files, or `io.StringIO` for text in memory"
_NETWORK: Final = "call a tool; a program has no network"
_PROCESSES: Final = "call a tool; a program starts no processes"
_NUMBERS: Final = "compute with `math`, `statistics` and plain lists"

MODULE_HINTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("os", "pathlib", "shutil", "glob", "tempfile", "fileinput", "sqlite3", "pickle"), _FILES),
    **dict.fromkeys(("requests", "httpx", "aiohttp", "urllib", "urllib3", "http", "socket", "smtplib"), _NETWORK),
    **dict.fromkeys(("subprocess", "multiprocessing", "signal", "ctypes"), _PROCESSES),
    **dict.fromkeys(("numpy", "pandas", "scipy"), _NUMBERS),
    "threading": "use `asyncio.gather`",
    "concurrent": "use `asyncio.gather`",
    "sys": "do without it: `print` writes, `return` ends the program",
    "builtins": "use the builtin by its name",
    "importlib": "write an `import` statement",
    "inspect": "do without it",
}
"""Hints for imports that models often try."""

INTERPRETER_MODULES: Final = frozenset({
    "builtins", "ctypes", "gc", "importlib", "inspect", "multiprocessing", "os", "posix", "posixpath", "pty", "socket",
    "subprocess", "sys", "sysconfig", "threading",
})  # fmt: skip
"""Not reachable as an attribute of anything: half of the standard library holds one of these."""

FORBIDDEN_NAMES: Final[Mapping[str, str]] = {
    "exec": "write the code itself",
    "eval": "write the expression itself; to read data, use `json.loads`",
    "compile": "write the code itself; for a regular expression, `re.compile`",
    "__import__": "write an `import` statement",
    "open": _FILES,
    "input": "a program cannot ask for input; it gets its `inputs` as variables",
    "breakpoint": "print what you want to see",
    "globals": "use a dict of your own",
    "locals": "use a dict of your own",
    "vars": "use a dict of your own",
}
"""Neither to be used nor to be bound, so that the order of use and binding does not matter."""

READ_BY_TEXT: Final = frozenset({"getattr", "setattr", "delattr", "hasattr"})
"""Functions that take an attribute's name as text: the text must be written out, and is guarded like an attribute."""

FORBIDDEN_ATTRIBUTES: Final[Mapping[str, str]] = {
    "attrgetter": "write a lambda that reads the attribute",
    "methodcaller": "write a lambda that calls the method",
    "Formatter": "write an f-string",
    "format_map": "write an f-string",
    "make_dataclass": "write the class with `@dataclass`",
    "get_type_hints": "read the annotations you wrote",
    "mro": "name the class you mean",
    "walk_tb": "use `traceback.format_exc()`",
    "walk_stack": "use `traceback.format_exc()`",
    "FileIO": _FILES,
    "open_code": _FILES,
    "create_subprocess_exec": _PROCESSES,
    "create_subprocess_shell": _PROCESSES,
    "subprocess_exec": _PROCESSES,
    "subprocess_shell": _PROCESSES,
    "open_connection": _NETWORK,
    "open_unix_connection": _NETWORK,
    "create_connection": _NETWORK,
    "create_datagram_endpoint": _NETWORK,
    "create_server": _NETWORK,
    "start_server": _NETWORK,
    "start_unix_server": _NETWORK,
}

INTERPRETER_ATTRIBUTES: Final = frozenset({
    "ag_running", "ag_yieldfrom", "co_consts", "co_filename", "co_names", "co_varnames", "cr_running", "f_lasti",
    "f_lineno", "f_trace_lines", "f_trace_opcodes", "func_code", "func_globals", "gi_running", "tb_lasti", "tb_lineno",
})  # fmt: skip
"""Attributes of frames, code, generators and tracebacks that RestrictedPython does not name itself."""

METHODS_OF_SUPER: Final = frozenset({
    "__init__", "__post_init__", "__str__", "__repr__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__",
    "__hash__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__iter__", "__next__", "__len__", "__contains__",
    "__getitem__", "__setitem__", "__delitem__", "__add__", "__bool__", "__call__", "__init_subclass__", "__new__",
})  # fmt: skip
"""Methods that a class may call as ``super().__init__(...)``; they may not be kept in a variable."""

MODULE_NAMES: Final = frozenset({"__name__", "__debug__"})
"""Names with underscores that any program may read."""

CLASS_NAMES: Final = frozenset({"__slots__", "__hash__", "__doc__"})
"""Names with underscores that a class body may bind without `def`."""

NOT_METHODS: Final = frozenset({
    "__annotate__", "__annotate_func__", "__annotations__", "__bases__", "__build_class__", "__class__", "__code__",
    "__dict__", "__globals__", "__match_args__", "__mro__", "__prepare__",
})  # fmt: skip
"""Names that a class may not define: they would pose as attributes that the interpreter makes."""
