"""The stages between a user's call and a compiled program: what each took, how long they may search, what is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from accumulus.deadline import Deadline
from accumulus.options import Options
from accumulus.progress import ProgressLine

__all__ = ["Preparation"]

#: The stages that search; while the others run, which have to be done anyway, the clock of the deadline stands still.
_SEARCHES: Final = ("plan", "optimise")


class Preparation:
    """One preparation, from when the user's call begins.

    Attributes:
        name: of the function.
        options: of the call.
        deadline: of planning and rewriting together.
        seconds: time that each stage took, by its name.
    """

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self.options = options
        self.deadline = Deadline(options.time_limit)
        self.seconds: dict[str, float] = {}
        #: Whoever is told by a function needs no line.
        self._line = ProgressLine(name) if options.progress is None else None

    def __enter__(self) -> Preparation:
        if self._line is not None:
            self._line.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._line is not None:
            self._line.__exit__(*error)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """What runs inside is this stage."""
        if self._line is not None:
            self._line.update(name)
        self.options.tell(self.deadline, name)
        start = time.perf_counter()
        with nullcontext() if name in _SEARCHES else self.deadline.paused():
            yield
        self.seconds[name] = time.perf_counter() - start
