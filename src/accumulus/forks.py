"""Locks in a process that is forked by one thread while another holds them.

In the child there is only the thread that forked: what another one held would stay held for ever. A lock that guards
what stays whole whenever it is looked at is simply free again in the child (`Lock`). A lock that guards what may be
half done in between, such as the inside of LLVM, is taken before the fork (`held_in_forks`), so that the fork waits
until it is done.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Final

__all__ = ["Lock", "held_in_forks"]


class Lock:
    """A re-entrant lock that is free in a forked child, unless the thread that forked holds it itself.

    A copy, or one that was pickled, is a lock of its own.
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
        if self._lock.acquire(blocking=False):  # nobody's, or this thread's
            self._lock.release()
        else:
            self._lock = threading.RLock()


_LOCKS: Final[weakref.WeakSet[Lock]] = weakref.WeakSet()


def held_in_forks(acquire: Callable[[], object], release: Callable[[], object]) -> None:
    """Let forks of this process, by any thread, wait until what a lock guards is whole."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=acquire, after_in_parent=release, after_in_child=release)


def _free_all() -> None:
    for lock in list(_LOCKS):
        lock._free()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
