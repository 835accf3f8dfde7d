"""Searches of a command: processes that share in them, and what is shown and heard while they run.

A progress bar is for a search that may take a while, and Ctrl-C ends it with the best plan so far. A search catches the
interrupt and hands back what it has. Whoever started it has to know that it did not end by itself, so `Watch` notes the
signal on its way.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from accumulus.errors import ArgumentError
from accumulus.progress import Progress as Told
from accumulus.show.tables import amount
from accumulus.text import printable

__all__ = ["Watch", "processes"]

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


# Progress ------------------------------------------------------------------------------------------------------------


#: Searches that may last no longer than this many seconds show no bar.
QUICK: Final = 2.0


class Watch:
    """Context in which a search runs.

    Args:
        what: text beside the bar.
        time_limit: seconds after which the search stops at the latest.
        objective: what it minimises.

    Attributes:
        interrupted: whether Ctrl-C was pressed.
    """

    def __init__(self, what: str, time_limit: float, objective: str) -> None:
        self.interrupted = False
        self._objective = objective
        self._before: Any = None
        self._bar: tuple[Progress, TaskID] | None = None
        console = Console(stderr=True)
        if time_limit > QUICK and console.is_terminal:
            progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[best]}"),
                console=console,
                transient=True,
            )
            self._bar = progress, progress.add_task(printable(what), total=time_limit, best="")

    @property
    def progress(self) -> Callable[[Told], object] | None:
        """Return what the search is to tell how far it is; None if nobody looks."""
        return None if self._bar is None else self._update

    def __enter__(self) -> Watch:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        if self._bar is not None:
            self._bar[0].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar[0].stop()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _update(self, told: Told) -> None:
        assert self._bar is not None
        progress, task = self._bar
        best = "" if told.cost is None else f"{amount(told.cost)} {self._objective}"
        progress.update(task, completed=told.seconds, best=best)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True
        raise KeyboardInterrupt
