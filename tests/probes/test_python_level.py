"""P21 to P30: ways through the language. They must be harmless, because the kernel holds."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import pytest

from probes.harness import PRELUDE, REFUSED, Jail, control, control_process

HIDDEN = "canary-h0st-global"
HOST = f"""
HOST_SECRET = {HIDDEN!r}
def _run(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value
class _Tool:
    def __init__(self): pass
    def __call__(self, value): return value
    async def call(self, value):
        return value
subject = _Tool()
"""
"""What the snippet meets on plain CPython: a host that keeps a secret in the module its tools come from."""
GUEST = "subject = echo\n"
LOOKS = """
NEEDLE = "".join(["can", "ary-h", "0st"])
def shows(text):
    return NEEDLE in str(text)
"""


def both(jail: Jail, snippet: str) -> tuple[object, object]:
    """What the snippet gets in the jail, and on plain CPython."""
    return jail.probe(GUEST + LOOKS + snippet), control(HOST + LOOKS + snippet)


def test_p21_formatting_reaches_no_host_data(jail: Jail) -> None:
    snippet = """
import string
paths = ["{0.__class__.__init__.__globals__}", "{0.__init__.__globals__}", "{0.__globals__}", "{0.__closure__}",
         "{0.__class__.__call__.__globals__}", "{0.__builtins__}", "{0.__kwdefaults__}"]
texts = []
for path in paths:
    for form in (lambda: path.format(subject), lambda: path.replace("0", "a").format_map({"a": subject}),
                 lambda: string.Formatter().get_field(path[1:-1], (subject,), {}), lambda: string.Formatter().format(path, subject)):
        try:
            texts.append(form())
        except (AttributeError, KeyError, TypeError):
            pass
got = shows(texts)
"""
    assert both(jail, snippet) == (False, True)


def test_p22_classes_that_start_processes_are_harmless(jail: Jail) -> None:
    snippet = """
import subprocess
found = {each.__name__: each for each in ().__class__.__base__.__subclasses__()}
wrap = found["_wrap_close"].__init__.__globals__
def popen():
    found["Popen"](["/bin/true"]).wait()
got = [attempt(popen), attempt(lambda: wrap["popen"]("true").close()), attempt(lambda: os.listdir("/etc"))]
"""
    inside, outside = both(jail, snippet)
    assert outside == ["done", "done", "done"]
    assert isinstance(inside, list)
    assert set(inside) <= REFUSED


def test_p23_frames_lead_to_no_host_objects(jail: Jail) -> None:
    snippet = """
import sys
def generator(): yield 1
async def agenerator():
    yield 1
def walk(frame):
    while frame is not None:
        yield frame.f_globals
        yield frame.f_locals
        frame = frame.f_back
async def coroutine(): return list(walk(sys._getframe()))
g, c, a = generator(), coroutine(), agenerator()
spaces = [*walk(g.gi_frame), *walk(c.cr_frame), *walk(a.ag_frame), *walk(sys._getframe())]
c.close()
got = any(shows(value) for space in spaces for value in list(space.values()) if isinstance(value, str) and value != NEEDLE)
"""
    assert both(jail, snippet) == (False, True)


@pytest.mark.parametrize("chain", [
    "__import__('random')._os", "__import__('statistics').sys.modules['os']", "__import__('json').codecs.builtins.__import__('os')",
    "__import__('operator').attrgetter('_os')(__import__('random'))",
    "__import__('functools').reduce(getattr, ['codecs', 'builtins', '__import__'], __import__('json'))('os')",
    "__import__('operator').methodcaller('__getattribute__', '_os')(__import__('random'))",
])  # fmt: skip
def test_p24_p28_module_chains_end_at_the_kernel(jail: Jail, chain: str) -> None:
    snippet = f"""
found = {chain}
got = [attempt(lambda: found.listdir("/etc")), attempt(lambda: found.close(found.open("/etc/passwd", 0))),
       attempt(lambda: found.waitpid(found.posix_spawn("/bin/true", ["true"], {{}}), 0))]
"""
    assert control(snippet) == ["done"] * 3
    assert set(jail.probe(snippet)) <= REFUSED


def test_p25_exceptions_carry_guest_data_only(jail: Jail) -> None:
    snippet = """
seen = []
def collect(error):
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            while frame is not None:
                seen.append(str([value for value in frame.f_globals.values() if isinstance(value, str) and value != NEEDLE]))
                frame = frame.f_back
            trace = trace.tb_next
        seen.append(str(getattr(error, "obj", "")) + str(error) + str(error.args))
        error = error.__cause__ or error.__context__
try:
    subject(1).nothing
except Exception as error:
    collect(error)
try:
    nothing
except NameError as error:
    collect(error)
got = shows(seen)
"""
    assert both(jail, snippet) == (False, True)


def test_p25_a_tools_failure_tells_no_host_data(jail: Jail) -> None:
    for kind in ("unexpected", "class", "exit", "cancelled"):
        result = jail.run(f"""
try:
    await broken({kind!r})
except ToolError as error:
    told = [str(error), repr(error.__dict__), repr(error.__traceback__.tb_frame.f_globals.keys())]
told""")
        assert result.ok, result.error
        assert "h0st" not in str(result.value)
        assert "internal error" in str(result.value)
    result = jail.run("await broken('told')")
    assert result.error is not None
    assert "told on purpose" in result.error.message


def test_p26_odd_bindings_end_at_the_kernel(jail: Jail) -> None:
    snippet = """
def by_star():
    try:
        raise ExceptionGroup("x", [ValueError(__import__("os"))])
    except* ValueError as _getattr_:
        hidden = _getattr_.exceptions[0].args[0]
    hidden.listdir("/etc")
def by_match():
    match ():
        case object(__class__=kind):
            names = {each.__name__: each for each in kind.__base__.__subclasses__()}
    names["_wrap_close"].__init__.__globals__["listdir"]("/etc")
def by_walrus():
    (_guard := __import__("os")) and _guard.listdir("/etc")
def by_except():
    try:
        raise ImportError(__import__("os"))
    except ImportError as _import_:
        _import_.args[0].listdir("/etc")
got = [attempt(by_star), attempt(by_match), attempt(by_walrus), attempt(by_except)]
"""
    assert control(snippet) == ["done"] * 4
    assert set(jail.probe(snippet)) <= REFUSED


def test_p27_unpickling_and_marshalling_do_no_more_than_other_code(jail: Jail) -> None:
    snippet = """
import marshal, pickle, types
class Evil:
    def __reduce__(self):
        return os.listdir, ("/etc",)
code = marshal.loads(marshal.dumps(compile("import os; os.listdir('/etc')", "x", "exec")))
got = [attempt(lambda: pickle.loads(pickle.dumps(Evil()))), attempt(lambda: exec(code)),
       attempt(lambda: types.FunctionType(code.replace(co_name="y"), {})())]
"""
    assert control(snippet) == ["done"] * 3
    assert set(jail.probe(snippet)) <= REFUSED


CRASHES = {
    "bad bytecode": "import dis\ndef f(): pass\nbad = bytes([dis.opmap['POP_TOP'], 0]) * 400\nf.__code__ = f.__code__.replace(co_code=bad + f.__code__.co_code)\nf()\n[f() for _ in range(99)]",
    "null": "import ctypes\nctypes.string_at(0)",
    "object overwritten": "import ctypes\nx = 1 << 70\nctypes.memset(id(x), 0x41, 32)\nx + 1\ndel x",
    "wild jump": "import ctypes\nctypes.CFUNCTYPE(None)(12345)()",
    "stack": "import ctypes\nctypes.memset(id(None) - 4096, 0x41, 9999)\nNone",
}


@pytest.mark.parametrize("how", CRASHES)
def test_p27_p29_crashes_end_the_child_alone(jail: Jail, how: str) -> None:
    assert control_process(CRASHES[how]).returncode < 0
    with jail.keeper_lives():
        result = jail.run(CRASHES[how])
    assert result.error is not None
    assert result.error.kind == "GuestDied"
    jail.is_well()


def test_p29_machine_code_of_ones_own_meets_the_same_kernel(jail: Jail) -> None:
    snippet = """
import ctypes, mmap, platform
X86 = platform.machine() == "x86_64"
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
# socket(AF_UNIX, SOCK_STREAM, 0): mov edi, 1; mov esi, 1; xor edx, edx; mov eax, 41; syscall; ret
page.write(bytes.fromhex("bf01000000be0100000031d2b8290000000f05c3" if X86 else "200080d2210080d2020080d2c81880d2010000d4c0035fd6"))
function = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
got = function()
"""
    assert control(snippet) > 2
    assert jail.probe(snippet) == -1


def test_p30_import_tricks_reach_ones_own_child_only(jail: Jail) -> None:
    snippet = """
import importlib, sys, types
class Probing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, None) if name == "injected_by_probe" else None
sys.meta_path.insert(0, Probing)
import json
json.dumps = lambda value, real=json.dumps: '"hijacked"' if value == 1 else real(value)
sys.modules["statistics"] = types.ModuleType("statistics")
sys.path.insert(0, "/tmp")
got = attempt(lambda: __import__("base64").b64encode(b"x"))
"""
    look = """
import json, statistics, sys
got = [json.dumps(1), hasattr(statistics, "mean"), "/tmp" in sys.path, any("Probing" in repr(each) for each in sys.meta_path)]
"""
    assert control(snippet.replace("got =", "hit =") + look) == ['"hijacked"', False, True, True]
    assert jail.probe(snippet) == "done"
    assert jail.probe(look)[:3] == ["1", True, False]
    result = jail.run(f"{PRELUDE}{look}\ngot")
    assert result.value == ["1", True, False, False]
