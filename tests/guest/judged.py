"""Run by a test in a process of its own: has the kernel run a filter over system calls, and makes none of them.

Reads JSON ``[program, calls]`` from stdin: instructions of classic BPF, and calls as lists of a number and its
arguments. Writes the filter's answers as JSON: ``"allow"``, ``"kill"`` or the number of an error.

The sixth argument of a call that is to be judged is `_MARK`; the jail's checks read no sixth argument. Calls without
the mark pass, so that this process can go on. For calls with the mark, "allow" and "kill" are turned into two errors
that the kernel has no other use for.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys

_MARK = 0x5AFE1234
_ALLOWED, _KILLED = 4000, 4001
_ANSWERS = {_ALLOWED: "allow", _KILLED: "kill"}
_TURNED = {0x7FFF0000: 0x00050000 | _ALLOWED, 0x80000000: 0x00050000 | _KILLED}
_AARCH64, _X86_64 = 0xC00000B7, 0xC000003E
_RETURN, _EQUAL, _LOAD = 0x06, 0x15, 0x20
_SECCOMP = 317


def main() -> None:
    program, calls = json.load(sys.stdin)
    code = [(_LOAD, 0, 0, 16 + 8 * 5), (_EQUAL, 1, 0, _MARK), (_RETURN, 0, 0, 0x7FFF0000)]
    for kind, if_true, if_false, operand in program:
        if kind == _RETURN:
            operand = _TURNED.get(operand, operand)
        elif operand == _AARCH64:  # this kernel runs the program, for callers of its own architecture
            operand = _X86_64
        code.append((kind, if_true, if_false, operand))
    packed = b"".join(struct.pack("=HBBI", *each) for each in code)
    held = ctypes.create_string_buffer(packed, len(packed))
    described = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(held)))
    libc = ctypes.CDLL(None, use_errno=True)
    call = libc.syscall
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_ulong] * 7
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert call(_SECCOMP, 1, 0, ctypes.addressof(described), 0, 0, 0) == 0, ctypes.get_errno()
    answers = []
    for number, *arguments in calls:
        ctypes.set_errno(0)
        call(number, *arguments, *[0] * (5 - len(arguments)), _MARK)
        error = ctypes.get_errno()
        answers.append(_ANSWERS.get(error, error))
    json.dump(answers, sys.stdout)


main()
