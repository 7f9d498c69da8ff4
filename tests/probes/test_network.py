"""P31 to P35: nothing leaves the jail but tool calls."""

# ruff: noqa: E501 (hostile programs, a line each)

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from probes.harness import PRELUDE, REFUSED, Jail, control
from probes.processes import eventually


@contextmanager
def listening(family: int, address: object, kind: int = socket.SOCK_STREAM) -> Iterator[socket.socket]:
    with socket.socket(family, kind) as listener:
        listener.bind(address)  # type: ignore[arg-type]
        if kind == socket.SOCK_STREAM:
            listener.listen(8)
        listener.setblocking(False)
        yield listener


def heard(listener: socket.socket) -> bool:
    return bool(select.select([listener], [], [], 0)[0])


NO_SOCKET = REFUSED | {"EAFNOSUPPORT", "EPROTONOSUPPORT", "gaierror", "EAI_AGAIN", "URLError"}
CONNECT = """
import socket
def connect(family, address):
    def go():
        with socket.socket(family, socket.SOCK_STREAM) as one:
            one.settimeout(2)
            one.connect(address)
    return go
"""


def test_p31_no_connection_to_anybody(jail: Jail) -> None:
    snippet = CONNECT + "got = {host: attempt(connect(socket.AF_INET, (host, port))) for host in hosts}"
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        hosts = ["127.0.0.1", "127.1.2.3", "169.254.169.254", "10.0.0.1", "8.8.8.8", "0.0.0.0"]
        assert set(jail.probe(snippet, hosts=hosts, port=port).values()) <= NO_SOCKET
        assert not heard(listener)
        assert control(snippet, hosts=["127.0.0.1"], port=port) == {"127.0.0.1": "done"}
        assert heard(listener)


def test_p32_no_packet_no_name_no_other_family(jail: Jail) -> None:
    snippet = """
import socket
def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"probe", ("127.0.0.1", port))
families = {"inet": 2, "inet6": 10, "unix": 1, **({} if harmless else {
    "packet": 17, "netlink": 16, "vsock": 40, "bluetooth": 31, "alg": 38, "can": 29, "tipc": 30, "xdp": 44, "key": 15, "rds": 21})}
got = {"send": attempt(send), **({} if harmless else {"name": attempt(lambda: socket.getaddrinfo("example.com", 80))})}
for name, family in families.items():
    for kind in ((1,) if harmless else (1, 2, 3, 5)):
        got[f"{name} {kind}"] = attempt(lambda: socket.socket(family, kind).close())
        if not harmless:
            got[f"pair {name} {kind}"] = attempt(lambda: socket.socketpair(family, kind)) if name != "unix" else "EPERM"
"""
    with listening(socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM) as listener:
        port = listener.getsockname()[1]
        got = jail.probe(snippet, harmless=False, port=port)
        assert set(got.values()) <= NO_SOCKET, got
        assert not heard(listener)
        outside = control(snippet, harmless=True, port=port)
        assert (outside["send"], outside["inet 1"], outside["unix 1"]) == ("done",) * 3
        assert heard(listener)


def test_p33_no_socket_of_the_host(jail: Jail, place: Path) -> None:
    snippet = CONNECT + "got = [attempt(connect(socket.AF_UNIX, path)) for path in paths]"
    path, abstract = str(place / "listener"), f"\0probe-{os.getpid()}"
    with listening(socket.AF_UNIX, path) as by_path, listening(socket.AF_UNIX, abstract) as by_name:
        os.chmod(path, 0o777)
        others = ["/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/journal/stdout"]
        assert set(jail.probe(snippet, paths=[path, abstract, *others])) <= REFUSED
        assert not heard(by_path)
        assert not heard(by_name)
        assert control(snippet, paths=[path, abstract]) == ["done", "done"]
        assert heard(by_path)
        assert heard(by_name)


def test_p33_a_pair_of_datagram_sockets_sends_to_nobody_else(jail: Jail, place: Path) -> None:
    snippet = """
import socket
def send(kind, path):
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    one.sendto(b"probe", path)
got = [attempt(lambda: send(kind, path)) for path in paths for kind in kinds]
"""
    path, abstract = str(place / "datagrams"), f"\0probe-datagrams-{os.getpid()}"
    with (
        listening(socket.AF_UNIX, path, socket.SOCK_DGRAM) as by_path,
        listening(socket.AF_UNIX, abstract, socket.SOCK_DGRAM) as by_name,
    ):
        os.chmod(path, 0o777)
        others = ["/dev/log", "/run/systemd/notify"]
        assert set(jail.probe(snippet, paths=[path, abstract, *others], kinds=[1, 2, 5])) == {"EPERM"}
        assert not heard(by_path)
        assert not heard(by_name)
        assert control(snippet, paths=[path, abstract], kinds=[2]) == ["done", "done"]
        assert heard(by_path)
        assert heard(by_name)


def test_p34_two_children_do_not_meet(jail: Jail) -> None:
    server = """
import socket
def bind(family, address):
    def go():
        one = socket.socket(family, socket.SOCK_STREAM)
        one.bind(address)
        one.listen()
        opened.append(one)
    return go
opened = []
def name_itself():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # which names an unnamed socket as soon as it sends
    try:
        one.sendto(b"x", chr(0) + "nobody")
    except ConnectionRefusedError:
        assert one.getsockname()
got = [attempt(bind(socket.AF_UNIX, chr(0) + name)), attempt(bind(socket.AF_INET, ("127.0.0.1", 0))), attempt(name_itself)]
"""
    client = CONNECT + "got = attempt(connect(socket.AF_UNIX, chr(0) + name))"
    name = f"probe-children-{os.getpid()}"
    outside = control(server + CONNECT + "got.append(attempt(connect(socket.AF_UNIX, chr(0) + name)))", name=name)
    assert outside == ["done"] * 4
    waiting = jail.start(
        f"import errno, os\nname = {name!r}\n"
        "def attempt(action):\n    try:\n        action()\n    except OSError as error:\n"
        "        return errno.errorcode[error.errno]\n    return 'done'\n"
        f"{server}\nawait echo(got)\nawait slow()"
    )
    try:
        eventually(lambda: jail.toolbox.started == 1, "the first child has tried to listen")
        assert jail.probe(client, name=name) in REFUSED
    finally:
        waiting.cancel()
    assert set(jail.toolbox.seen[0]) <= REFUSED


def test_p34_a_lock_on_a_shared_file_is_no_signal_between_children(jail: Jail) -> None:
    snippet = """
import fcntl
held = open(os.__file__)
got = attempt(lambda: fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB))
"""
    assert control(snippet) == "done"
    waiting = jail.start(f"{PRELUDE}{snippet}\nawait slow()")
    try:
        eventually(lambda: jail.toolbox.started == 1, "the first child holds its lock")
        assert jail.probe(snippet) in REFUSED | {"done"}
    finally:
        waiting.cancel()


def test_p35_no_library_finds_a_way_and_no_descriptor_is_passed(jail: Jail) -> None:
    snippet = """
import array, asyncio, http.client, socket, urllib.request
os.environ["HTTP_PROXY"] = os.environ["http_proxy"] = f"http://127.0.0.1:{port}"
def fetch():
    urllib.request.urlopen("http://example.com/", timeout=2)
def plain():
    http.client.HTTPConnection("127.0.0.1", port, timeout=2).connect()
def stream():
    async def go():
        await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 2)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(go())
def pass_descriptor():
    one, other = socket.socketpair()
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
got = [attempt(plain), attempt(pass_descriptor)] + ([] if harmless else [attempt(fetch), attempt(lambda: __import__("threading") and run(stream))])
"""
    helper = """
import threading
def run(action):
    caught = []
    def work():
        try:
            action()
        except BaseException as error:
            caught.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if caught:
        raise caught[0]
"""
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert set(jail.probe(helper + snippet, port=port, harmless=False)) <= NO_SOCKET
        assert not heard(listener)
        assert control(helper + snippet, port=port, harmless=True) == ["done", "done"]
        assert heard(listener)
