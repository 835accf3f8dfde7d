"""Files that processes share on disk: bytes stored under a kind and a key, and read back complete or not at all.

A key is a hash of everything that determines the content, including the version of the code that computes it
(`key_of`). A repeated request therefore costs a look-up, and another version of the code finds nothing.

Each kind ("plans", "kernels", …) is a folder of the cache directory. `ACCUMULUS_CACHE` names that directory; by default
it is the system's cache directory. A file begins with a checksum of format, kind, key and content. A file that is
truncated, changed, renamed, or written by another program therefore counts as missing. A file is written under a
temporary name and renamed when it is complete. A reader finds the old file, the new one, or none, even if the writing
process was killed.

Some of the files are machine code, which is executed. A file is therefore read only if the file, its folder and the
cache directory belong to the user (or to root) and no other user may write them. Ownership and mode are checked on the
open descriptor, never by path, so that nothing can be exchanged in between. If the check fails, a `CacheWarning` is
issued once, and the cache is not used. If the folder is not writable, nothing is stored and no warning is issued;
``accumulus cache`` shows the reason.

Reading a file marks it as used. When the files of a kind together exceed `LIMIT`, the least recently used ones are
deleted.
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

#: Kinds of stored data; each has its own folder.
Kind = Literal["kernels", "plans", "programs", "tapes"]

#: Packages, and folders of this package, whose code determines the stored data: a change to them changes the keys.
#: Kernels are stored by their sources, see `accumulus.native.sources`.
CODE: Final[dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "plans": (("accumulus", "llvmlite"), ("tape", "graph", "elimination", "rewriting", "search", "theory")),
    "programs": (("accumulus", "llvmlite"), ("tape", "targets", "native")),
    "tapes": (("accumulus", "numba", "llvmlite"), ("tape", "rewriting", "resubstitution", "native")),
}

#: Version of the file format, not of the contents. Increase it for a change that older versions would misread.
FORMAT: Final = 1
#: Maximum size on disk of all files of a kind together, in bytes: more take the user's disk, less prepares derivatives
#: again that were deleted.
LIMIT = 256 << 20
#: Fraction of the limit that remains after the least recently used files were deleted. A larger one lists the folder
#: more often, a smaller one deletes files that would be used again.
_REMAINING: Final = 0.75
#: The size of a file on disk is a multiple of this.
_BLOCK: Final = 4096
#: Age in seconds after which an unfinished file counts as abandoned: a smaller one may delete a file that a slow
#: process still writes, a larger one keeps remains on disk.
_ABANDONED: Final = 3600.0
#: Fraction of the limit that a process writes before it lists the folder again. A larger one may exceed the limit by
#: more, a smaller one lists more often.
_UNSEEN: Final = 1 / 16
_UNFINISHED: Final = ".part"
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,127}", re.ASCII)
#: Flags that refuse links and do not wait at pipes; none of them exists on every system.
_SAFELY: Final = sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))

#: Bytes that this process has written to each folder since it last listed the folder.
_written: dict[Path, int] = {}
#: Warnings that this process has issued.
_warned: set[str] = set()


class _UntrustedError(OSError):
    """Another user could have written the stored data."""


def directory() -> Path:
    """Return the cache directory.

    Raises:
        OSError: if neither the environment nor the system names a directory.
    """
    configured = os.environ.get("ACCUMULUS_CACHE")
    if configured:
        return Path(configured).absolute()
    from platformdirs import user_cache_path

    try:
        return user_cache_path("accumulus", appauthor=False)
    except RuntimeError as error:  # the user has no home directory
        raise OSError(str(error)) from None


def key_of(kind: Kind, *parts: bytes) -> str:
    """Return the key for results that the present code computes from these parts, 32 hexadecimal digits."""
    return digest_of_parts([version_of_kind(kind), *parts])


@cache
def version_of_kind(kind: Kind) -> bytes:
    """Return the versions of the code that computes the data of a kind."""
    return code_version(*CODE[kind]).encode()


def fetch(kind: Kind, key: str) -> bytes | None:
    """Return the bytes stored under a kind and a key; None if there are none or they cannot be trusted.

    Args:
        kind: folder of the entry: "plans", "kernels", ….
        key: up to 128 letters, digits, "_", "." and "-".
    """
    with _without(), _folder(kind) as folder:
        content = folder.read(_checked(key))
        head, payload = content[:_HEAD], content[_HEAD:]
        if head == _head(kind, key, payload):
            return payload
    return None


def store(kind: Kind, key: str, payload: bytes) -> None:
    """Store bytes under a kind and a key, replacing an older file; do nothing if that is not possible."""
    size = _occupied(len(payload))
    if size > LIMIT * _REMAINING:
        return
    with _without(), _folder(kind, create=True) as folder:
        folder.write(_checked(key), _head(kind, key, payload) + payload)
        folder.make_room(size)


def contents() -> dict[Kind, list[int]]:
    """Return the size on disk of each file, in bytes, by kind.

    Raises:
        OSError: if there is no directory for a cache.
    """
    sizes: dict[Kind, list[int]] = {}
    for kind in get_args(Kind):
        sizes[kind] = []
        with suppress(FileNotFoundError), os.scandir(directory() / kind) as entries:
            sizes[kind] = [_occupied(entry.stat(follow_symlinks=False).st_size) for entry in entries]
    return sizes


def state() -> str:
    """Return "usable", or the reason why nothing is stored, as text for users.

    Raises:
        OSError: if there is no directory for a cache.
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
    """Delete all files in the folders of the cache.

    Raises:
        OSError: if there is no directory for a cache, or it is not writable.
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
    """An open folder; all operations act on it, even if it is moved meanwhile.

    On systems without folder descriptors (Windows) they use its path.
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
        """Delete the least recently used files if all files together are too large.

        A process lists all files when it writes its first one, and again after each sixteenth of the limit.
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
                # another process may delete the same files
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
    """Open the folder of a kind; raise `OSError` if it is missing or cannot be trusted."""
    top = directory()
    path = top / kind
    if create:
        top.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    opened: list[int] = []
    try:
        if os.open in os.supports_dir_fd:
            # the user may have made the directory a link; nothing in it may be a link
            opened.append(os.open(top, os.O_RDONLY | os.O_DIRECTORY))
            _check_owner(top, os.fstat(opened[0]))
            opened.append(os.open(kind, os.O_RDONLY | os.O_DIRECTORY | _SAFELY, dir_fd=opened[0]))
            _check_owner(path, os.fstat(opened[1]))
        yield _Folder(path, opened[1] if opened else None)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _check_owner(path: Path, status: os.stat_result) -> None:
    if sys.platform == "win32":  # only the user can write the user's folder of local data
        return
    reason = ""
    if status.st_uid not in (os.geteuid(), 0):
        reason = f"belongs to another user (number {status.st_uid}, you are {os.geteuid()})"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        reason = f"can be written by others (mode {stat.S_IMODE(status.st_mode):o}; chmod go-w mends it)"
    if reason:
        raise _UntrustedError(
            f"the cache is not used: {str(path)!r} {reason}. Cached code is executed, so only you may write it; set "
            "ACCUMULUS_CACHE to a directory of your own"
        )


def _occupied(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


# Versions of code ----------------------------------------------------------------------------------------------------
#
# An entry in the cache is found only by the version of the code that stored it.

#: Fields of Linux's processor description that determine the instruction set.
_TELLING: Final = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
    *("Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"),
)


def code_version(packages: Iterable[str], folders: Iterable[str]) -> str:
    """Return the versions of other packages, and sizes and modification times of the files in folders of this one.

    Hashing the contents of the files would take longer than the rest of a look-up.
    """
    parts = [f"{np.__version__} {platform.machine()} {platform.python_implementation()} {platform.python_version()}"]
    parts += map(version_of, packages)
    root = Path(__file__).parent
    for folder in folders:
        # a moved package would no longer count, and its cache entries would outlive the code
        assert (root / folder).is_dir(), f"accumulus has no folder {folder}"
        for subfolder, _, files in sorted(os.walk(root / folder)):
            for file in sorted(files):
                if file.endswith(".py"):
                    status = os.stat(os.path.join(subfolder, file))
                    parts.append(f"{subfolder.removeprefix(str(root))}/{file} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(parts)


@cache
def version_of(package: str) -> str:
    """Return the version of an installed package; an empty string if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # run from its sources, or not installed
        return ""


@cache
def processor() -> str:
    """Return the processor and its features, as the operating system describes them, else as LLVM does."""
    try:
        # the description of the first processor, which applies to all
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read(1 << 14).split("\n\n")[0]
    except OSError:
        first = ""
    lines = [line for line in first.splitlines() if line.partition(":")[0].strip() in _TELLING]
    if len(lines) > 1:
        return "\n".join(lines)
    import llvmlite.binding as llvm

    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def digest_of_parts(parts: Iterable[bytes]) -> str:
    """Return a hash of several strings of bytes, 32 hexadecimal digits."""
    hasher = hashlib.blake2b(digest_size=16)
    for piece in parts:
        # hash the lengths, too, so that bytes cannot move between parts without changing the hash
        hasher.update(len(piece).to_bytes(8, "little"))
        hasher.update(piece)
    return hasher.hexdigest()
