"""The stages between a user's call and a compiled program: their times, their deadline, and progress."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import Deadline
from accumulus.errors import SizeError
from accumulus.options import Options
from accumulus.progress import ProgressLine

__all__ = ["Preparation"]

#: The stages that search. The clock of the deadline stands still during the others, which no time limit can shorten.
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
        #: Points of the function's domain, (points, inputs); None if none are known.
        self.points: NDArray[np.float64] | None = None
        #: The line on the terminal; none where the user's own function is told.
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
        """A block that is timed and told as the stage of this name."""
        if self._line is not None:
            self._line.update(name)
        self.deadline.enter(name)
        self.options.tell(self.deadline, name)
        start = time.perf_counter()
        with nullcontext() if name in _SEARCHES else self.deadline.paused():
            try:
                yield
            except MemoryError as error:
                if isinstance(error, SizeError):
                    raise
                raise SizeError(
                    f"memory ran out in stage {name!r} of preparing the derivative of {self.name}: {error}; expected "
                    "smaller arrays, or derivatives that are sparse"
                ) from error
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
