"""Processes of a command, for `--jobs`: they share in its searches, and end with it."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

__all__ = ["processes"]


@contextmanager
def processes(jobs: int) -> Iterator[Executor | None]:
    """A pool of so many processes, or None for one job, which is this process itself.

    The processes do not hear a terminal's Ctrl-C: this one does, and what they are still doing when the context ends
    is of no use to anybody.
    """
    if jobs == 1:
        yield None
        return
    others = set(multiprocessing.active_children())
    # a progress bar has a thread, and processes that are forked beside a thread may wait for its locks for ever
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupts)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        children = set(multiprocessing.active_children()) - others
        for process in children:
            process.terminate()
        for process in children:
            process.join()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
