"""Warnings about long programs that are written out operation by operation: the reason, length and source line."""

from __future__ import annotations

import linecache
import sys
import threading
import warnings
from collections import Counter
from types import FrameType
from typing import Final

from accumulus.errors import LongProgramWarning
from accumulus.frontends.location import in_library
from accumulus.tape.blocks import Block
from accumulus.tape.program import Program

#: Advice on how to shorten such programs.
INSTEAD: Final = "Operations on whole arrays, and loops by acc.map, acc.scan or acc.assemble, are prepared in a moment"

#: Number of operations above which a warning is issued: preparing a program of this length takes half a minute. With
#: fewer, the warning disturbs preparations that end soon; with more, the user waits without it.
LONG: Final = 100_000
#: Seconds between two samples of the position in a function: a shorter interval slows the recording down, a longer one
#: takes too few samples of a quick recording.
INTERVAL: Final = 0.001

#: File, line and function.
Line = tuple[str, int, str]


class BusiestLine:
    """A sampling profiler for a ``with`` block: the line of user code that is on top of the stack most often.

    Args:
        looks: if False, nothing is sampled.
    """

    def __init__(self, looks: bool) -> None:
        self._looks = looks
        self._counts: Counter[Line] = Counter()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> BusiestLine:
        if self._looks:
            arguments = threading.get_ident(), sys._getframe(1)
            self._thread = threading.Thread(target=self._look, args=arguments, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def busiest(self) -> Line | None:
        """The busiest line; None if no sample was taken."""
        return self._counts.most_common(1)[0][0] if self._counts else None

    def _look(self, thread: int, outer: FrameType) -> None:
        while not self._ended.wait(INTERVAL):
            frame, site = sys._current_frames().get(thread), None
            while frame is not None and frame is not outer:
                if frame.f_code in _OWN:  # the thread enters or leaves the block
                    site = None
                    break
                if site is None and not in_library(frame):
                    site = site_of(frame)
                frame = frame.f_back
            if site is not None:
                self._counts[site] += 1


def site_of(frame: FrameType) -> Line | None:
    """Return the file, line and function of a frame; None without source text, or if `f_lineno` is None."""
    name, line = frame.f_code.co_filename, frame.f_lineno
    return (name, line, frame.f_code.co_name) if line and linecache.getline(name, line) else None


_OWN: Final = {BusiestLine.__enter__.__code__, BusiestLine.__exit__.__code__}


def scalar_operations(program: Program) -> int:
    """Return the number of scalar operations outside of loops."""
    if program.scalars is not None:
        return program.operations
    return sum(block.operations for block in program.blocks if _is_scalar(block))


def _is_scalar(block: Block) -> bool:
    """Return True for a single instance of scalar operations, but not for sums and matrix blocks."""
    return block.count == 1 and block.offsets is None and block.shape is None


def warn_written_out(name: str, program: Program, busiest: Line | None, loop: str = "") -> None:
    """Warn that a program was written out operation by operation.

    Args:
        name: name of the function.
        program: program that was written out.
        busiest: line with most of the function's operations.
        loop: explanation why the loop on that line has no repeating body, and the code to write instead.
    """
    operations = scalar_operations(program)
    line = _busiest_of_blocks(program) if program.scalars is None else None
    if line is not None:
        why = f"most of them at {_quoted(line)}"
    else:
        why = "since no repetition was found in them"
        if busiest is not None:
            why += f"; most time is spent at {_quoted(busiest)}"
    warn(
        f"{operations:,} operations of {name} were written out one by one, {why}. {INSTEAD}"
        + (f". {loop}" if loop else "")
    )


def _busiest_of_blocks(program: Program) -> Line | None:
    """Return the line with the most scalar operations in a program with loops; None if there are none."""
    counts: Counter[tuple[str, int]] = Counter()
    for block, lines in zip(program.blocks, program.lines, strict=True):
        if _is_scalar(block):
            counts.update(dict.fromkeys(lines, block.operations))
    return (*counts.most_common(1)[0][0], "") if counts else None


def warn(message: str, category: type[Warning] = LongProgramWarning) -> None:
    """Issue a warning at the line that called this package."""
    warnings.warn(message, category, stacklevel=_outside())


def _quoted(line: Line) -> str:
    file, number, function = line
    source = linecache.getline(file, number).strip()
    where = f", in {function}" if function else ""
    return f"{file}, line {number}{where}" + (f" ({source:.100})" if source else "")


def _outside() -> int:
    """Return the stack level of the code that called this package."""
    level, frame = 1, sys._getframe(1)
    while frame is not None and in_library(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level
