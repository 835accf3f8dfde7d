"""Processes of a command, for `--jobs`: they share in its searches, and end with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Final

from accumulus.errors import ArgumentError

__all__ = ["processes"]

#: Environment variable by which Python does not look for modules in the current directory.
_SAFE_PATH: Final = "PYTHONSAFEPATH"


@contextmanager
def processes(jobs: int) -> Iterator[Executor | None]:
    """A pool of so many processes, or None for one job, which is this process itself.

    The processes do not hear a terminal's Ctrl-C: this one does, and what they are still doing when the context ends
    is of no use to anybody. Nor do they look for modules in the current directory, where files beside a graph may lie.

    Raises:
        ArgumentError: if this process was started in a way that keeps it from telling them so.
    """
    if jobs == 1:
        yield None
        return
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        raise ArgumentError(
            f"--jobs {jobs} with python -E: its processes would look for modules in the current directory; add -P, or "
            "use -I"
        )
    others = set(multiprocessing.active_children())
    # a progress bar has a thread, and processes that are forked beside a thread may wait for its locks for ever
    context = multiprocessing.get_context("spawn")
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupts)
    try:
        yield pool
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before
        pool.shutdown(wait=False, cancel_futures=True)
        children = set(multiprocessing.active_children()) - others
        for process in children:
            process.terminate()
        for process in children:
            process.join()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
