"""Programs over arrays as C that the machine's compiler has compiled, called through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import BlockTape
from accumulus.tape.fusion import Map
from accumulus.targets.c.c_compiler import Loaded
from accumulus.targets.c.c_loop_source import LoopSource
from accumulus.targets.kernel import LongSegment, Shape

__all__ = ["Loops"]


class Loops:
    """Compiled loops of C; arguments as for `LoopSource`.

    Raises:
        CompileError: if there is no C compiler, or it refuses.
    """

    def __init__(
        self,
        tape: BlockTape,
        maps: Sequence[Map],
        segments: Sequence[LongSegment],
        arguments: tuple[Shape, ...],
        cache: bool = False,
    ) -> None:
        self._given = tape, tuple(maps), tuple(segments), arguments, cache
        written = LoopSource(tape, maps, segments, arguments)
        self.cleared = [False] * len(segments)  # it clears what it has to
        self._work = written.work
        self._library = Loaded(written.text)
        self._one = self._library.function("f")
        self._one.argtypes = [ctypes.c_void_p] * (len(arguments) + len(segments) + 1)
        self._idle: list[NDArray[np.float64]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Loops, self._given  # machine code does not travel

    def __call__(
        self, arguments: Sequence[NDArray[np.float64]], results: Sequence[NDArray[np.float64]], threads: int = 1
    ) -> None:
        """Compute one point on one thread, see `accumulus.targets.kernel.CompiledLoops`."""
        work = self._idle.pop() if self._idle else np.empty(self._work)
        self._one(*(array.__array_interface__["data"][0] for array in (*arguments, *results, work)))
        self._idle.append(work)
