"""Files for guests of the jail: the host's side of /input. Knows files and folders, no guest.

The files of a run go into a folder with a name that cannot be guessed, below a folder that cannot be listed and that
the zygote has mounted (see `callgate_guest.jail.root`). A file is cloned or hard-linked where the file system of the
host's temporary folder is also the file's own, else copied. Guests have all of it read-only.

Nothing of a killed host stays: the next start removes what no living process has locked.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Mapping
from io import BufferedWriter
from pathlib import Path
from typing import Any, Literal

from callgate.errors import ConfigurationError, SandboxCrashed, SandboxUnavailable
from callgate.media import clean_name
from callgate.portable import lock

from .backend import Files

__all__ = ["Staging", "checked_folders", "named_folders", "remove_abandoned"]

_PATHS_BYTES = 1 << 14
"""Bytes of names and paths of all folders: a zygote gets its settings in one packet."""
_PREFIX = "callgate-files-"
_FICLONE = 0x40049409
"""linux/fs.h: the file shares the other's blocks until one of them is written to."""
_YOUNG_SECONDS = 60.0
_NOBODY = 65534
"""The user that guests of root run as."""
_PATHS_BYTES = 1 << 14
"""Bytes of names and paths of all folders: a zygote gets its settings in one packet."""
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


class Staging:
    """The folder that has the files of one zygote's guests. Raises `OSError`.

    Attributes:
        folder: its path; guests can look up names in it, and not list it.
    """

    def __init__(self) -> None:
        import fcntl  # here, as in `_cloned`: without Linux, this module is imported and not used

        self._forgotten: set[str] = set()  # names that may still be there
        self._outer = os.path.join(tempfile.gettempdir(), f"{_PREFIX}{_random_name()}")
        self.folder = os.path.join(self._outer, "files")
        _make_folder(self._outer, 0o700)
        try:
            self._lock = os.open(self._outer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            _make_folder(self.folder, 0o311)
        except BaseException:
            shutil.rmtree(self._outer, ignore_errors=True)
            raise

    def stage(self, files: Files, folders: Iterable[str]) -> str:
        """Lay down the files of a guest, and return the name of their folder. Blocks: call it in a thread.

        Args:
            files: by their names.
            folders: names of the operator's folders, which are to be found beside the files.

        Raises:
            ConfigurationError: a file cannot be read, or has the name of another or of a folder.
            SandboxUnavailable: there is no room.
            SandboxCrashed: the zygote is gone, and its staging folder with it.
        """
        name = _random_name()
        place = os.path.join(self.folder, name)
        try:
            _make_folder(place)
            for folder in folders:
                _make_folder(os.path.join(place, folder))
            taken = frozenset(folders)
            for below, content in files.items():
                if below.split("/")[0] in taken:
                    raise ConfigurationError(f"files: {below!r} is in the folder that `folders` has under that name")
                _put(content, below, place)
        except BaseException as error:
            self.forget(name)
            if isinstance(error, OSError) and self._lock < 0:
                raise SandboxCrashed("the zygote is gone") from error
            if isinstance(error, OSError):
                raise SandboxUnavailable(
                    f"no room for the files of a program in {tempfile.gettempdir()}: {error.strerror}. "
                    "Make room, or set TMPDIR to a folder that has some"
                ) from error
            raise
        return name

    def forget(self, name: str) -> None:
        """Remove the files of a guest; what cannot be removed now, for want of a descriptor, goes with the next."""
        self._forgotten.add(name)
        for each in tuple(self._forgotten):
            path = os.path.join(self.folder, each)
            shutil.rmtree(path, ignore_errors=True)
            if not os.path.lexists(path):
                self._forgotten.discard(each)
        if self._lock < 0:  # `remove` came while the files were laid down
            _remove(self._outer)

    def remove(self) -> None:
        """Remove everything. May be called again."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            _remove(self._outer)
            os.close(lock)


def remove_abandoned() -> None:
    """Remove what killed hosts of this user have left. Never raises."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(entry)


def named_folders(folders: Mapping[Any, Any]) -> tuple[tuple[str, str], ...]:
    """The operator's folders, each under a name that is one step below /input. Raises `ConfigurationError`."""
    named = []
    for name, path in folders.items():
        if not isinstance(name, str) or not name or "/" in name or clean_name(name) != name:
            raise ConfigurationError(f"folders: {name!r} is no name of a folder below /input, such as 'data'")
        if not isinstance(path, (str, os.PathLike)):
            raise ConfigurationError(f"folders: {name!r} is a path, not {type(path).__name__}")
        named.append((name, os.path.abspath(os.fsdecode(path))))
    if sum(len(os.fsencode(part)) for pair in named for part in pair) > _PATHS_BYTES:
        raise ConfigurationError(f"folders: {len(named)} are too many: name a folder above them")
    return tuple(named)


def checked_folders(folders: Mapping[str, str]) -> None:
    """Look through the operator's folders, by their names. Blocks: call it in a thread.

    Raises:
        ConfigurationError: a folder is not there, guests may not read it, or there is in it what is neither a file nor
            a folder nor a link.
    """
    for name, path in folders.items():
        try:
            mode = os.stat(path).st_mode
            if not stat.S_ISDIR(mode):
                raise NotADirectoryError
        except (OSError, ValueError):
            raise ConfigurationError(f"folders: {name!r}: there is no folder {path!r}") from None
        if os.geteuid() == 0 and mode & 0o005 != 0o005 and os.stat(path).st_uid != _NOBODY:
            raise ConfigurationError(
                f"folders: {name!r}: guests of root run as user {_NOBODY}, who may not read {path!r}: "
                f"let others read it (chmod -R o+rX {path})"
            )
        _look_through(name, path)


def _look_through(name: str, top: str) -> None:
    todo = [top]
    while todo:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:  # what the host cannot read, no guest can
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                    what = _KINDS.get(stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode), "no file")
                    raise ConfigurationError(
                        f"folders: {name!r}: {entry.path!r} is {what}, over which guests could reach others: "
                        "remove it, or name another folder"
                    )


def _remove_if_abandoned(entry: os.DirEntry[str]) -> None:
    found = entry.stat(follow_symlinks=False)
    if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _YOUNG_SECONDS:  # it may not be locked yet
        return
    held = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if lock(held):  # else its host lives
            _remove(entry.path)
    finally:
        os.close(held)


def _remove(outer: str) -> None:
    with contextlib.suppress(OSError):
        os.chmod(os.path.join(outer, "files"), 0o700)
    shutil.rmtree(outer, ignore_errors=True)


def _random_name() -> str:
    return os.urandom(16).hex()


def _make_folder(path: str, mode: int = 0o755) -> None:
    os.mkdir(path)
    os.chmod(path, mode)  # whatever the umask is


def _put(content: Path | bytes, below: str, place: str) -> None:
    *above, last = below.split("/")
    try:
        for part in above:
            place = os.path.join(place, part)
            if not os.path.isdir(place):
                _make_folder(place)
        if isinstance(content, bytes):
            with _new_file(os.path.join(place, last)) as target:
                target.write(content)
        else:
            _put_file(content, below, os.path.join(place, last))
    except (FileExistsError, NotADirectoryError):
        raise ConfigurationError(f"files: {below!r} has the name of another file, or of its folder") from None


def _put_file(path: Path, below: str, at: str) -> None:
    try:
        source = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(f"files: {below!r}: {os.fspath(path)!r}: {error.strerror}") from None
    try:
        found = os.fstat(source)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigurationError(f"files: {below!r}: {os.fspath(path)!r} is no file")
        with _new_file(at) as target:
            if _cloned(source, target.fileno()):
                return
        if _guests_may_read(found):
            os.unlink(at)
            with contextlib.suppress(OSError):  # another file system, or a kernel that forbids it
                # with a folder, which an absolute path makes irrelevant, this is linkat(2), which follows the link
                os.link(f"/proc/self/fd/{source}", at, dst_dir_fd=source, follow_symlinks=True)
                return
        with _new_file(at, "wb") as target:
            left = found.st_size  # a file may grow while it is copied
            while left > 0 and (sent := os.sendfile(target.fileno(), source, None, left)):
                left -= sent
    finally:
        os.close(source)


def _new_file(at: str, mode: Literal["xb", "wb"] = "xb") -> BufferedWriter:
    file = open(at, mode)  # noqa: SIM115 (the caller closes it)
    os.fchmod(file.fileno(), 0o644)
    return file


def _cloned(source: int, target: int) -> bool:
    import fcntl

    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def _guests_may_read(found: os.stat_result) -> bool:
    """Whether guests may read the host's file itself: they are this user, or `_NOBODY` where that is root."""
    if os.geteuid() != 0 or found.st_mode & 0o004:
        return True
    return found.st_uid == _NOBODY and bool(found.st_mode & 0o400)
