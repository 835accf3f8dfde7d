"""Watching a search: a progress bar for one that may take a while, and Ctrl-C, which ends it with the best plan so far.

A search catches the interrupt and hands back what it has. Whoever started it has to know that it did not end by
itself, so `Watch` notes the signal on its way.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from accumulus.progress import Progress as Told
from accumulus.show.tables import amount
from accumulus.text import printable

__all__ = ["Watch"]

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
        """What the search is to tell how far it is; None if nobody looks."""
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
