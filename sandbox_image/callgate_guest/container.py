"""PID 1 of a container: has one confined guest at a time, and carries its wire, in frames, to the host and back.

The host is at the other end of this process's stdin and stdout (see `frames`); a guest is at the other end of three
pipes and never sees those.

1. The end of stdin is the end of the container: when the host dies, everything dies.
2. Everything that a guest sends goes into frames that this process makes. So a guest cannot pretend to have ended, to
   be the next guest, or to be this process.
3. Both directions are held in bounded buffers (`_HELD`); a side that does not read leaves the other to wait.
4. In a container of its own (``per`` is "run") a guest has a /tmp. In a container that serves guest after guest, no
   guest can leave anything for the next: Landlock lets them write nowhere. Without Landlock such a container refuses
   to start.
5. This process forks no guest: bytes that it carried for one guest stay in its memory, and a child would have a copy.
   Another process forks guests (`_fork_guests`). It starts before any guest and receives only allowances.
6. Files for a guest come before it. What it leaves in /output is handed over when it is dead, or frozen: see `files`.

========================================  ==========================================================
host -> supervisor                        supervisor -> host
SETTINGS, once                            READY, or FAILED and the end
FILE, PART ..., while there is no guest   ..
SPAWN, while there is no guest            SPAWNED; WIRE, OUTPUT, HUNG_UP, TOUCHED ...; EXITED
WIRE, KILL, while there is one            ..
COLLECT                                   FILE, PART ...; COLLECTED
PING                                      PING
========================================  ==========================================================

HUNG_UP is empty if the guest will write no more, and `DEAF` if it will read no more. A guest may do one without the
other. EXITED follows at its end.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NoReturn

from . import frames
from .files import Given, Output
from .frames import Frame, FrameBuffer, frame
from .jail import landlock
from .jail.syscalls import libc
from .prefork import Unwanted, ended, prepare, serve_confined
from .session import take_the_wire

DEAF = b"deaf"
_HELD = 1 << 20
_CHUNK = 1 << 16
_PIECES = 16
_SET_DUMPABLE = 4
_STOPPED_SECONDS = 0.1
_RULES = ("/python", "/lib", "/guest", "/packages", "/input", "/usr/share/zoneinfo", "/dev/urandom")
_OOM_COUNTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def main() -> NoReturn:
    """Entry point of the image. Never returns."""
    incoming, outgoing = take_the_wire()
    libc("prctl", _SET_DUMPABLE, 0, 0, 0, 0)  # a guest has the same user id: its /proc entries are then root's
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # PID 1 has no default for it: `docker stop` would wait
    link = _Link(incoming, outgoing)
    try:
        Supervisor(link, link.settings()).serve()
    except Unwanted as error:
        link.fail(str(error), wish=True)
    except BaseException as error:
        link.fail(f"{type(error).__name__}: {error}")


class _Outbox:
    """Bytes that wait until a descriptor takes them."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._unsent: deque[bytes] = deque()
        self.size = 0

    def write(self, data: bytes) -> None:
        """Write behind what waits already; raises as `flush` does."""
        self._unsent.append(data)
        self.size += len(data)
        self.flush()

    def flush(self) -> None:
        """Write what the descriptor takes now. Raises `OSError` if its other end is closed."""
        while self._unsent:
            data = self._unsent.popleft()
            try:
                sent = os.write(self._fd, data)
            except BlockingIOError:
                self._unsent.appendleft(data)
                return
            self.size -= sent
            if sent < len(data):
                self._unsent.appendleft(data[sent:])


class _Link:
    """The host's end: frames in, frames out, neither waits for the other. The host's going away ends this process."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming = incoming
        self.outgoing = outgoing
        self._frames = FrameBuffer()
        self._early: list[frames.Frame] = []  # came with the settings
        self._outbox = _Outbox(outgoing)

    @property
    def unsent_bytes(self) -> int:
        return self._outbox.size

    def settings(self) -> dict[str, Any]:
        """Wait for the first frame."""
        while not self._early:
            self._early = self.read()
        os.set_blocking(self.incoming, False)
        os.set_blocking(self.outgoing, False)
        kind, payload = self._early.pop(0)
        if kind != frames.SETTINGS:
            raise ValueError(f"the first frame is {kind!r}, not {frames.SETTINGS!r}")
        settings: dict[str, Any] = json.loads(payload)
        return settings

    def fail(self, reason: str, *, wish: bool = False) -> NoReturn:
        """Tell the host why this process ends. `wish`: the operator's settings cannot be met."""
        os.set_blocking(self.outgoing, True)
        self.send(frames.FAILED, json.dumps({"reason": reason, "wish": wish}).encode())
        os._exit(1)

    def read(self) -> list[frames.Frame]:
        """The frames that have come."""
        if self._early:
            early, self._early = self._early, []
            return early
        try:
            data = os.read(self.incoming, _CHUNK)
        except BlockingIOError:
            return []
        if not data:
            os._exit(0)
        return self._frames.feed(data)

    def send(self, kind: bytes, payload: bytes) -> None:
        try:
            self._outbox.write(frame(kind, payload))
        except OSError:
            os._exit(0)

    def flush(self) -> None:
        try:
            self._outbox.flush()
        except OSError:
            os._exit(0)


class _Guest:
    """A guest as the supervisor sees it: its pid, its three pipes, and the bytes that wait to be written to it."""

    def __init__(self, pid: int, wire_in: int, wire_out: int, output: int) -> None:
        self.pid = pid
        self.wire_in = wire_in
        self.wire_out = wire_out
        self.output = output
        self._outbox = _Outbox(wire_in)
        self._status = -1
        with contextlib.suppress(OSError):
            self._status = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        for fd in (wire_in, wire_out, output):
            os.set_blocking(fd, False)

    @property
    def unsent_bytes(self) -> int:
        return self._outbox.size if self.wire_in >= 0 else 0

    def write(self, data: bytes) -> bool:
        """Write what the guest takes now. Returns False when this finds that the guest takes no more at all."""
        if self.wire_in >= 0:  # else it has closed its end, or is dead and not reaped yet
            try:
                self._outbox.write(data)
            except OSError:
                self.hang_up()
                return False
        return True

    def hang_up(self) -> None:
        """The guest reads no more."""
        os.close(self.wire_in)
        self.wire_in = -1

    def usage(self) -> bytes:
        """Processor time and peak memory so far, as `frames.USAGE`."""
        try:
            cpu = time.clock_gettime(~self.pid << 3 | 2)  # the clock of another process: clock_getcpuclockid(3)
            text = os.pread(self._status, 4096, 0)
            peak = text.index(b"\nVmHWM:") + 7  # a program may name itself so, but not begin a line
            return frames.USAGE.pack(cpu, int(text[peak : text.index(b"kB", peak)]) * 1024)
        except (OSError, ValueError):
            return frames.USAGE.pack(0.0, 0)

    def close(self) -> None:
        for fd in (self.wire_in, self.wire_out, self.output, self._status):
            if fd >= 0:
                os.close(fd)


class Supervisor:
    """Serves a host. `settings`: ``preimport``, ``per`` ("run" or "tenant")."""

    def __init__(self, link: _Link, settings: dict[str, Any]) -> None:
        self._link = link
        own_files = settings["per"] == "run"
        packages = "/packages" if os.path.isdir("/packages") else None
        proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        prepared = prepare(settings["preimport"], packages, proc, own_files=own_files, own_disks=False)
        version = landlock.abi()
        if version == 0 and not own_files:
            raise RuntimeError(
                "a container that serves one run after the other needs Landlock, which this runtime or kernel does not "
                "have: leave out per='tenant'"
            )
        rules = None
        if version:
            rules = landlock.Ruleset(version)
            rules.allow(_RULES)
            rules.allow(["/dev/null", "/tmp"] if own_files else ["/dev/null"], write=True)
        common = {
            "tier": 2, "base_bytes": prepared.base_bytes, "landlock_abi": version, "rules": rules,
            "own_files": own_files, "own_cgroup": True, "session": prepared.session, "calls": prepared.calls,
        }  # fmt: skip
        self._guest: _Guest | None = None
        self._given = Given()
        self._own_files = own_files
        self._output: Output | None = None
        self._touched = False
        self._leaving: Iterator[Frame] | None = None
        self._forker, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            for fd in (link.incoming, link.outgoing, self._forker.detach()):
                os.close(fd)
            _fork_guests(asked, common)
        asked.close()
        self._killed_for_memory = _oom_kills()
        told = {
            "landlock": version, "python": sys.version.split()[0], "machine": os.uname().machine,
            "base_bytes": prepared.base_bytes, "sharing": prepared.sharing,
        }  # fmt: skip
        self._link.send(frames.READY, json.dumps(told).encode())

    def serve(self) -> NoReturn:
        """Carry frames until the host goes away."""
        self._listen()  # to what came with the settings
        while True:
            poll = select.poll()
            guest = self._guest
            full = guest is not None and guest.unsent_bytes > _HELD
            poll.register(self._link.incoming, 0 if full else select.POLLIN)
            poll.register(self._link.outgoing, select.POLLOUT if self._link.unsent_bytes or self._leaving else 0)
            poll.register(self._forker, select.POLLIN)
            if guest is not None:
                if guest.wire_in >= 0:
                    poll.register(guest.wire_in, select.POLLOUT if guest.unsent_bytes else 0)
                if self._link.unsent_bytes <= _HELD:
                    for fd in (guest.wire_out, guest.output):
                        if fd >= 0:
                            poll.register(fd, select.POLLIN)
            for fd, event in poll.poll():
                if fd == self._link.incoming:
                    if not event & select.POLLIN:
                        os._exit(0)
                    self._listen()
                elif fd == self._link.outgoing:
                    if event & select.POLLERR:
                        os._exit(0)
                    self._link.flush()
                    self._hand_over()
                elif fd == self._forker.fileno():
                    self._bury(self._forker.recv(_CHUNK))
                elif guest is not None and guest is self._guest:
                    self._move(guest, fd, event)

    def _listen(self) -> None:
        for kind, payload in self._link.read():
            self._hear(kind, payload)

    def _move(self, guest: _Guest, fd: int, event: int) -> None:
        if fd == guest.wire_in and event & select.POLLERR:
            guest.hang_up()
            self._link.send(frames.HUNG_UP, DEAF)
        elif fd == guest.wire_in:
            self._write(guest, b"")
        elif fd == guest.wire_out:
            self._carry_wire(guest)
        elif fd == guest.output:
            self._carry_output(guest)

    def _write(self, guest: _Guest, data: bytes) -> None:
        if not guest.write(data):
            self._link.send(frames.HUNG_UP, DEAF)

    def _carry_wire(self, guest: _Guest) -> bool:
        """Carry one piece of the guest's wire to the host. Returns whether there was one."""
        data = _read(guest.wire_out)
        for _ in range(_PIECES):  # output that the guest wrote before this piece goes first
            if guest.output < 0 or not self._carry_output(guest):
                break
        if data:
            self._tell(frames.WIRE, guest.usage() + data)
            return True
        if data == b"":
            os.close(guest.wire_out)
            guest.wire_out = -1
            self._tell(frames.HUNG_UP, b"")
        return False

    def _carry_output(self, guest: _Guest) -> bool:
        data = _read(guest.output)
        if data:
            self._tell(frames.OUTPUT, data)
            return True
        if data == b"":
            os.close(guest.output)
            guest.output = -1
        return False

    def _hear(self, kind: bytes, payload: bytes) -> None:
        guest = self._guest
        if kind == frames.WIRE:
            if guest is not None:
                self._write(guest, payload)
        elif kind == frames.PING:
            self._link.send(frames.PING, payload)
        elif kind == frames.KILL:
            if guest is not None:
                with contextlib.suppress(ProcessLookupError):  # it has ended, and that is on its way here
                    os.kill(guest.pid, signal.SIGKILL)
        elif kind == frames.FILE and guest is None:
            self._given.begin(json.loads(payload)["name"])
        elif kind == frames.PART and guest is None:
            self._given.write(payload)
        elif kind == frames.SPAWN and guest is None:
            self._spawn(json.loads(payload))
        elif kind == frames.COLLECT and self._output is not None and self._leaving is None:
            self._leaving = self._left(self._output, **json.loads(payload))
        else:
            self._link.fail(f"the host sent {kind!r} out of turn")

    def _spawn(self, allowance: Any) -> None:
        self._given.end()
        if self._own_files and self._output is None:
            self._output = Output()
        to_guest, from_guest, output = os.pipe(), os.pipe(), os.pipe()
        theirs = [to_guest[0], from_guest[1], output[1]]
        socket.send_fds(self._forker, [json.dumps(allowance).encode()], theirs)
        answer = self._forker.recv(_CHUNK)
        if not answer.isdigit():
            self._link.fail(f"fork: {answer.decode() or 'no answer'}")
        for fd in theirs:
            os.close(fd)
        self._guest = _Guest(int(answer), to_guest[1], from_guest[0], output[0])
        self._link.send(frames.SPAWNED, self._guest.usage())

    def _tell(self, kind: bytes, payload: bytes) -> None:
        """Send what a guest has done; before it, once, that there is something in /output."""
        if not self._touched and self._output is not None and self._output.touched:
            self._touched = True
            self._link.send(frames.TOUCHED, b"")
        self._link.send(kind, payload)

    def _left(self, output: Output, most: int, most_bytes: int) -> Iterator[Frame]:
        """What is in /output; a guest that lives is frozen meanwhile."""
        guest = self._guest
        if guest is None or _stopped(guest.pid):
            yield from output.left(most, most_bytes)
        else:
            told = f"files in /output were not kept: the program did not stop within {_STOPPED_SECONDS:g} s"
            yield frames.COLLECTED, json.dumps({"left": [told]}).encode()
        if guest is not None and guest is self._guest:
            with contextlib.suppress(ProcessLookupError):
                os.kill(guest.pid, signal.SIGCONT)

    def _hand_over(self) -> None:
        """Send on of what is in /output, while the host takes it."""
        while self._leaving is not None and self._link.unsent_bytes <= _HELD:
            found = next(self._leaving, None)
            if found is None:
                self._leaving = None
            else:
                self._link.send(*found)

    def _bury(self, report: bytes) -> None:
        """The guest has ended, as `_fork_guests` reports."""
        guest = self._guest
        if guest is None or not report:
            self._link.fail("the process that forks guests has ended")
        for carry in (self._carry_wire, self._carry_output):  # it is dead: its pipes hold what they hold
            while (guest.wire_out if carry == self._carry_wire else guest.output) >= 0 and carry(guest):
                pass
        guest.close()
        self._guest = None
        kills, self._killed_for_memory = self._killed_for_memory, _oom_kills()
        how = {**json.loads(report), "out_of_memory": self._killed_for_memory > kills}
        self._tell(frames.EXITED, json.dumps(how).encode())


def _fork_guests(asked: socket.socket, common: dict[str, Any]) -> NoReturn:
    """Fork a guest for each allowance that comes with three descriptors. Answer with its pid, and then with how it
    ended."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = os.getpid()
    while True:
        allowance, fds, _, _ = socket.recv_fds(asked, _CHUNK, 3)
        if not allowance:
            os._exit(0)
        try:
            pid = os.fork()
        except OSError as error:
            asked.send((error.strerror or "refused").encode())
            continue
        if pid == 0:
            asked.close()
            _be_first_to_go()
            serve_confined(fds, json.loads(allowance), parent=parent, **common)
        for fd in fds:
            os.close(fd)
        asked.send(b"%d" % pid)
        asked.send(json.dumps(ended(pid)).encode())


def _stopped(pid: int) -> bool:
    """Stop a process; return whether all its threads have stopped, or it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + _STOPPED_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if all(_state(pid, thread) in b"TtZX" for thread in os.listdir(f"/proc/{pid}/task")):
                return True
        time.sleep(0.0005)
    return False


def _state(pid: int, thread: str) -> bytes:
    with open(f"/proc/{pid}/task/{thread}/stat", "rb", buffering=0) as file:
        return file.read(4096).rpartition(b") ")[2][:1]


def _read(fd: int) -> bytes | None:
    """Bytes, b"" at the end, or ``None`` if nothing has come yet."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _be_first_to_go() -> None:
    """When the container's memory is spent, let the kernel end the guest, so that the supervisor can report that."""
    with contextlib.suppress(OSError):
        libc("prctl", _SET_DUMPABLE, 1, 0, 0, 0)  # or its own entry would not be its own; `confine` takes it back
        with open("/proc/self/oom_score_adj", "w") as adjustment:
            adjustment.write("1000")


def _oom_kills() -> int:
    """Number of processes of this container that the kernel has killed for memory; 0 if unknown."""
    for path in _OOM_COUNTS:
        with contextlib.suppress(OSError, ValueError), open(path) as counts:
            for line in counts:
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    return 0
