"""Calls that Ctrl-C ends at once although they run no Python: those of other libraries that cannot be cut into slices.

Python raises KeyboardInterrupt in its main thread, between two of its own instructions. Kernels of this package are
called for some milliseconds at a time; LLVM is given long programs some parts at a time; a compiler is a process that
is ended. What remains runs in a thread of its own while the main thread waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

T = TypeVar("T")

#: Seconds between two looks where waiting is not interrupted by itself, as on Windows.
_LOOK: Final = 0.1


def interruptible(function: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
    """Return what a function returns that releases Python's lock, and raise KeyboardInterrupt while it runs.

    Handing it over takes a tenth of a millisecond. An interrupted call goes on by itself and is forgotten; so it must
    hold no lock, and end.
    """
    if threading.current_thread() is not threading.main_thread():  # no other hears Ctrl-C
        return function(*arguments, **keywords)
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(function(*arguments, **keywords))
        except BaseException as error:
            result.set_exception(error)

    # a daemon: the process does not wait for it either
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not result.done():
        thread.join(_LOOK)
    return result.result()
