"""What a long preparation says: a record for whoever asked to be told, a line on a terminal for everybody else."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

__all__ = ["Progress", "ProgressLine"]

#: Seconds of a preparation after which a terminal is told what it is doing.
PATIENCE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a preparation is.

    Attributes:
        stage: "trace", "linearize", "plan", "emit", "optimise" or "compile"; "batch" of a batch in parts.
        seconds: since the call began.
        cost: of the best plan so far, under the objective; None where nothing is known.
        points: of a batch that are done; None in a preparation.
    """

    stage: str
    seconds: float
    cost: int | None = None
    points: int | None = None


class ProgressLine:
    """A line that says what is being prepared, on a terminal and after a while; it is gone when all is done.

    Args:
        what: is being prepared.
        console: where the line is written; the error stream, if that is a terminal.
    """

    def __init__(self, what: str, console: Console | None = None) -> None:
        self._what, self._console = what, console
        self._stage = ""
        self._status: Status | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> ProgressLine:
        # what is no terminal needs neither a thread nor Rich
        if self._console is not None or (sys.stderr is not None and sys.stderr.isatty()):
            self._timer = threading.Timer(PATIENCE, self.show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if self._status is not None:
                self._status.stop()
            self._timer = self._status = None

    def update(self, stage: str) -> None:
        """Say what is done now."""
        with self._lock:
            self._stage = stage
            if self._status is not None:
                self._status.update(self._text())

    def show(self) -> None:
        """Begin to write, unless all is done by now."""
        from rich.console import Console

        with self._lock:
            if self._timer is not None and self._status is None:
                console = Console(stderr=True) if self._console is None else self._console
                if console.is_terminal:
                    self._status = console.status(self._text())
                    self._status.start()

    def _text(self) -> str:
        from rich.markup import escape

        return escape(f"accumulus: {self._what}: {self._stage}")
