"""Locks that survive a fork by one thread while another thread holds them.

The child has only the thread that forked, so a lock that another thread held would stay locked for ever. If the guarded
data is consistent at every moment, its lock is released in the child (`Lock`). If the data can be temporarily
inconsistent, its lock is acquired before the fork (`held_in_forks`), so that the fork waits. Forks also wait for
imports and calls of LLVM in other threads. An import may need a guarded resource to end, so forks wait for imports
before they acquire any lock.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cached_property
from types import TracebackType
from typing import Any, Final, NamedTuple

#: Packages that are imported lazily.
_LAZY: Final = frozenset({"accumulus", "llvmlite", "numpy", "rich", "scipy"})


class Lock:
    """A re-entrant lock that is free in a forked child, unless the forking thread itself holds it.

    Copying or pickling gives a new lock.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()

    def _free(self) -> None:
        if self._lock.acquire(blocking=False):  # free, or held by this thread
            self._lock.release()
        else:
            self._lock = threading.RLock()


_LOCKS: Final[weakref.WeakSet[Lock]] = weakref.WeakSet()


class _Guard(NamedTuple):
    """A lock that is held during a fork, and a function to call in the child."""

    lock: threading.RLock
    in_child: Callable[[], object]


_GUARDS: Final[list[_Guard]] = []


def held_in_forks(lock: threading.RLock, in_child: Callable[[], object]) -> None:
    """Make forks of this process, by any thread, wait until the data that a lock guards is consistent.

    Args:
        lock: re-entrant lock.
        in_child: function to call in the child before the lock is released there.
    """

    _GUARDS.append(_Guard(lock, in_child))


def _begun_imports() -> list[str]:
    """Return modules that some thread is importing; Python does not free their import locks in a child."""
    locks: dict[str, object] = getattr(importlib._bootstrap, "_module_locks", {})
    return [name for name in list(locks) if name.partition(".")[0] in _LAZY]


def _before_fork() -> None:
    """Wait until no other thread imports required modules, runs LLVM, or holds inconsistent data."""
    while True:
        for name in _begun_imports():
            with suppress(Exception):  # the other thread reports it
                importlib.import_module(name)
        lib = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
        with ExitStack() as stack:
            for guard in _GUARDS:
                stack.enter_context(guard.lock)
            if lib is not None:
                stack.enter_context(lib._lock)
            if not _begun_imports():
                _HELD.locks = stack.pop_all()
                return


def _after_fork() -> None:
    _HELD.locks.close()


def _in_child() -> None:
    for guard in _GUARDS:
        guard.in_child()
    _after_fork()
    for lock in list(_LOCKS):
        lock._free()
    _forget_imports()
    if sys.version_info < (3, 12):
        _free_cached_properties()


def _forget_imports() -> None:
    """Forget modules that other threads were still importing at the fork, so that the child imports them itself."""
    locks: dict[str, Callable[[], Any]] = getattr(importlib._bootstrap, "_module_locks", {})
    for name, reference in list(locks.items()):
        if getattr(reference(), "owner", None) != threading.get_ident():
            del locks[name]
            if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
                del sys.modules[name]


def _free_cached_properties() -> None:
    """Replace the locks of cached properties, which all instances share before Python 3.12."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "accumulus":
            classes = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == name]
            for member in (member for each in classes for member in vars(each).values()):
                if isinstance(member, cached_property):
                    vars(member)["lock"] = threading.RLock()


_HELD: Final = threading.local()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
