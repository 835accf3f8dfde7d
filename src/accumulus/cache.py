"""Files that processes share on disk: bytes under a kind and a key, found again whole or not at all.

A key is a hash of all that decides the content, the version of the code that makes it among it (`key_of`): so the same
request again takes a look-up, and another version of the code finds nothing.

Each kind ("plans", "kernels", …) is a folder of the cache directory, which `ACCUMULUS_CACHE` names, or which is the
system's place for caches. A file begins with a checksum of everything that it stands for: format, kind, key and
content. So a file that is cut off, changed, renamed, or written by another program counts as missing. A file is written
under a temporary name and renamed when it is complete: a reader finds the old file, the new one, or none, and so does
the next process after one that was killed while writing.

Some of the files are machine code, which is run. So a file is read only if it, its folder and the cache directory
belong to the user (or to root) and nobody else may write them. Ownership and mode are looked up on the open descriptor,
never by path, so that nothing can be exchanged in between. Where the check fails, a `CacheWarning` says so once, and
the cache is not used. Where the folder cannot be written, nothing is stored and no warning given: ``accumulus cache``
says why.

Reading a file marks it as used. When the files of a kind are together larger than `LIMIT`, those that were not used for
longest are dropped.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import stat
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final, Literal, get_args

import numpy as np

from accumulus.errors import CacheWarning

#: Kinds of stored data; each has a folder of its own.
Kind = Literal["kernels", "plans", "programs", "tapes"]

#: Packages, and folders of this one, whose code decides the stored data: a change of theirs makes other keys. Kernels
#: are stored by their sources, see `accumulus.native.sources`.
CODE: Final[dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "plans": (("accumulus", "llvmlite"), ("tape", "graph", "elimination", "rewriting", "search", "theory")),
    "programs": (("accumulus", "llvmlite"), ("tape", "targets", "native")),
    "tapes": (("accumulus", "numba", "llvmlite"), ("tape", "rewriting", "resubstitution", "native")),
}

#: Version of the file format, not of the contents. A change that an older version would misread raises it.
FORMAT: Final = 1
#: Bytes that all files of a kind may take on disk together.
LIMIT = 256 << 20
#: Part of the limit that the files still take after the oldest were dropped.
_REMAINING: Final = 0.75
#: The size of a file on disk is a multiple of this.
_BLOCK: Final = 4096
#: Seconds after which a file that somebody began to write is taken for left behind.
_ABANDONED: Final = 3600.0
#: Part of the limit that a process writes before it looks at the folder again.
_UNSEEN: Final = 1 / 16
_UNFINISHED: Final = ".part"
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,127}", re.ASCII)
#: Never through a link, and never waiting for the other end of a pipe; none of these exist on every system.
_SAFELY: Final = sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))

#: Bytes that this process has written to each folder since it looked at all of its files.
_written: dict[Path, int] = {}
#: Warnings that this process has issued.
_warned: set[str] = set()


class _UntrustedError(OSError):
    """Other users could have written the stored data."""


def directory() -> Path:
    """Return the cache directory.

    Raises:
        OSError: if neither the environment nor the system names a place.
    """
    configured = os.environ.get("ACCUMULUS_CACHE")
    if configured:
        return Path(configured).absolute()
    from platformdirs import user_cache_path

    try:
        return user_cache_path("accumulus", appauthor=False)
    except RuntimeError as error:  # the user has no home
        raise OSError(str(error)) from None


def key_of(kind: Kind, *parts: bytes) -> str:
    """Return the key of the result of the present code for these parts, 32 hexadecimal digits."""
    return digest([version_of_kind(kind), *parts])


@cache
def version_of_kind(kind: Kind) -> bytes:
    """Return the versions of the code that computes the data of a kind."""
    return code_version(*CODE[kind]).encode()


def load(kind: Kind, key: str) -> bytes | None:
    """Return the bytes that are stored under a kind and a key; None if there are none or they cannot be trusted.

    Args:
        kind: folder of the entry: "plans", "kernels", ….
        key: at most 128 letters, digits, "_", "." and "-".
    """
    with _without(), _folder(kind) as folder:
        content = folder.read(_checked(key))
        head, payload = content[:_HEAD], content[_HEAD:]
        if head == _head(kind, key, payload):
            return payload
    return None


def store(kind: Kind, key: str, payload: bytes) -> None:
    """Store bytes under a kind and a key, in place of an older file; do nothing if that is not possible."""
    size = _occupied(len(payload))
    if size > LIMIT * _REMAINING:
        return
    with _without(), _folder(kind, create=True) as folder:
        folder.write(_checked(key), _head(kind, key, payload) + payload)
        folder.make_room(size)


def contents() -> dict[Kind, list[int]]:
    """Return the size on disk of each file, in bytes, by kind.

    Raises:
        OSError: if there is no place for a cache.
    """
    sizes: dict[Kind, list[int]] = {}
    for kind in get_args(Kind):
        sizes[kind] = []
        with suppress(FileNotFoundError), os.scandir(directory() / kind) as entries:
            sizes[kind] = [_occupied(entry.stat(follow_symlinks=False).st_size) for entry in entries]
    return sizes


def state() -> str:
    """Return "usable", or the reason why nothing is stored, as text for people.

    Raises:
        OSError: if there is no place for a cache.
    """
    for kind in get_args(Kind):
        path = directory() / kind
        try:
            with _folder(kind, create=True):
                if not os.access(path, os.W_OK | os.X_OK):
                    return f"nothing is stored: {str(path)!r} cannot be written"
        except _UntrustedError as error:
            return str(error)
        except OSError as error:
            return f"nothing is stored: {str(path)!r}: {error.strerror or error}"
    return "usable"


def clear() -> None:
    """Delete all stored files; files that this package did not write stay.

    Raises:
        OSError: if there is no place for a cache, or it cannot be written.
    """
    for kind in get_args(Kind):
        folder = directory() / kind
        with suppress(FileNotFoundError):
            for path in list(folder.iterdir()):
                path.unlink(missing_ok=True)


def _checked(name: str) -> str:
    assert _NAME.fullmatch(name), f"{name!r} is no key of the cache"
    return name


def _head(kind: str, key: str, payload: bytes) -> bytes:
    digest = hashlib.sha256(f"accumulus {FORMAT}\n{kind}\n{key}\n".encode())
    digest.update(payload)
    return digest.digest()


_HEAD: Final = hashlib.sha256().digest_size


class _Folder:
    """An open folder; all operations act on this one, even if it is moved meanwhile.

    Systems without descriptors of folders (Windows) go by its path.
    """

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self._path = path
        self._descriptor = descriptor

    def read(self, name: str) -> bytes:
        descriptor = os.open(self._at(name), os.O_RDONLY | _SAFELY, dir_fd=self._descriptor)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT:
                raise OSError("this is not a file that was stored")
            _check_owner(self._path / name, status)
            content = file.read()
        with suppress(OSError):
            os.utime(self._at(name), dir_fd=self._descriptor)
        return content

    def write(self, name: str, content: bytes) -> None:
        temporary = self._at(f"{name}.{secrets.token_hex(8)}{_UNFINISHED}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY
        descriptor = os.open(temporary, flags, 0o600, dir_fd=self._descriptor)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(temporary, self._at(name), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            self._remove(temporary)
            raise

    def make_room(self, written: int) -> None:
        """Drop the files that were not used for longest, if all together are too large.

        A process looks at all files when it writes its first one, and then after each sixteenth of the limit.
        """
        unseen = _written.get(self._path)
        if unseen is not None and unseen + written < LIMIT * _UNSEEN:
            _written[self._path] = unseen + written
            return
        _written[self._path] = 0
        files: list[tuple[int, int, str]] = []
        now = time.time()
        with os.scandir(self._path if self._descriptor is None else self._descriptor) as entries:
            for entry in entries:
                # another process may drop the same files
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if not entry.name.endswith(_UNFINISHED):
                        files.append((status.st_mtime_ns, _occupied(status.st_size), entry.path))
                    elif now - status.st_mtime > _ABANDONED:
                        self._remove(entry.path)
        total = sum(size for _, size, _ in files)
        if total <= LIMIT:
            return
        for _, size, path in sorted(files):
            if total <= LIMIT * _REMAINING:
                break
            self._remove(path)
            total -= size

    def _at(self, name: str) -> str:
        return str(self._path / name) if self._descriptor is None else name

    def _remove(self, path: str) -> None:
        with suppress(OSError):
            os.unlink(path, dir_fd=self._descriptor)


@contextmanager
def _without() -> Iterator[None]:
    """Skip files that cannot be read or written; warn once if other users could have written them."""
    try:
        yield
    except _UntrustedError as error:
        if (message := str(error)) not in _warned:
            _warned.add(message)
            warnings.warn(message, CacheWarning, stacklevel=4)
    except OSError:
        pass


@contextmanager
def _folder(kind: Kind, create: bool = False) -> Iterator[_Folder]:
    """Open the folder of a kind; an `OSError` if it is not there, or cannot be trusted."""
    top = directory()
    path = top / kind
    if create:
        top.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    opened: list[int] = []
    try:
        if os.open in os.supports_dir_fd:
            # the directory may be a link that the user made; nothing in it may be
            opened.append(os.open(top, os.O_RDONLY | os.O_DIRECTORY))
            _check_owner(top, os.fstat(opened[0]))
            opened.append(os.open(kind, os.O_RDONLY | os.O_DIRECTORY | _SAFELY, dir_fd=opened[0]))
            _check_owner(path, os.fstat(opened[1]))
        yield _Folder(path, opened[1] if opened else None)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _check_owner(path: Path, status: os.stat_result) -> None:
    if sys.platform == "win32":  # the user's folder of local data is the user's alone
        return
    reason = ""
    if status.st_uid not in (os.geteuid(), 0):
        reason = f"belongs to another user (number {status.st_uid}, you are {os.geteuid()})"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        reason = f"can be written by others (mode {stat.S_IMODE(status.st_mode):o}; chmod go-w mends it)"
    if reason:
        raise _UntrustedError(
            f"nothing is loaded from the cache or stored there, since {str(path)!r} {reason}. Cached code is run; "
            "name a directory of your own in ACCUMULUS_CACHE"
        )


def _occupied(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


# Versions of code ----------------------------------------------------------------------------------------------------
#
# Versions of the code: only the same code finds its entries in the cache again.

#: Fields of Linux's description of a processor that decide its instructions.
_TELLING: Final = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
    *("Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"),
)


def code_version(packages: Iterable[str], folders: Iterable[str]) -> str:
    """Return the versions of other packages, and of files in folders of this one by size and time of change.

    Reading the files would take longer than all the rest of a look-up.
    """
    parts = [f"{np.__version__} {platform.machine()} {platform.python_implementation()} {platform.python_version()}"]
    parts += map(version_of, packages)
    root = Path(__file__).parent
    for folder in folders:
        # a package that was moved would no longer count, and the cache would outlive its code
        assert (root / folder).is_dir(), f"accumulus has no folder {folder}"
        for subfolder, _, files in sorted(os.walk(root / folder)):
            for file in sorted(files):
                if file.endswith(".py"):
                    status = os.stat(os.path.join(subfolder, file))
                    parts.append(f"{subfolder.removeprefix(str(root))}/{file} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(parts)


@cache
def version_of(package: str) -> str:
    """Return the version of an installed package; empty if there is none of that name."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # run from its sources, or not installed
        return ""


@cache
def processor() -> str:
    """Return the processor and its features, in the words of the system, or of LLVM where that has none."""
    try:
        # the first of the processors, which all are the same
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read(1 << 14).split("\n\n")[0]
    except OSError:
        first = ""
    lines = [line for line in first.splitlines() if line.partition(":")[0].strip() in _TELLING]
    if len(lines) > 1:
        return "\n".join(lines)
    import llvmlite.binding as llvm

    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def digest(parts: Iterable[bytes]) -> str:
    """Return a hash of several strings of bytes, 32 hexadecimal digits."""
    hasher = hashlib.blake2b(digest_size=16)
    for piece in parts:
        # lengths, so that nothing can move from one part to the next
        hasher.update(len(piece).to_bytes(8, "little"))
        hasher.update(piece)
    return hasher.hexdigest()
