"""Messages on long programs that are written out operation by operation: why, how long, and where from."""

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

#: Advice on how to shorten them.
INSTEAD: Final = (
    "What is written as operations on whole arrays, or with acc.map, acc.scan or acc.assemble, is prepared in a moment"
)

#: Number of operations from which a message says that they are written out: preparing so many takes half a minute.
LONG: Final = 100_000
#: Seconds between two looks at where a function is.
INTERVAL: Final = 0.001

#: File, line and function.
Line = tuple[str, int, str]


class BusiestLine:
    """In its block, finds the line of the user's code at which functions that are called there spend most time.

    Args:
        looks: True if it does; it takes a thread.
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
    def found(self) -> Line | None:
        """The line; None if none was seen."""
        return self._counts.most_common(1)[0][0] if self._counts else None

    def _look(self, thread: int, outer: FrameType) -> None:
        while not self._ended.wait(INTERVAL):
            frame, site = sys._current_frames().get(thread), None
            while frame is not None and frame is not outer:
                if frame.f_code in _OWN:  # the block has not begun, or is over
                    site = None
                    break
                if site is None and not in_library(frame):
                    line = frame.f_code.co_filename, frame.f_lineno
                    site = (*line, frame.f_code.co_name) if linecache.getline(*line) else None
                frame = frame.f_back
            if site is not None:
                self._counts[site] += 1


_OWN: Final = {BusiestLine.__enter__.__code__, BusiestLine.__exit__.__code__}


def scalar_operations(program: Program) -> int:
    """Return the number of operations that were written one by one."""
    if program.scalars is not None:
        return program.operations
    return sum(block.operations for block in program.blocks if _is_scalar(block))


def _is_scalar(block: Block) -> bool:
    """Return True for one instance; sums and work on matrices have one, too, and are not written out."""
    return block.count == 1 and block.offsets is None and block.shape is None


def tell(name: str, program: Program, busiest: Line | None, loop: str = "") -> None:
    """Warn that a program was written out.

    Args:
        name: name of the function.
        program: program that was written out.
        busiest: line with most of the function's operations.
        loop: reason of a loop on that line, and the code to write instead.
    """
    operations = scalar_operations(program)
    line = _busiest_of_blocks(program) if program.scalars is None else None
    if line is not None:
        why = f"most of them at {_quoted(line)}"
    else:
        why = "since nothing was found to repeat"
        if busiest is not None:
            why += f"; most time is spent at {_quoted(busiest)}"
    warn(
        f"{operations:,} operations of {name} were written out one by one, {why}. {INSTEAD}"
        + (f". {loop}" if loop else "")
    )


def _busiest_of_blocks(program: Program) -> Line | None:
    """Return the line that most scalar operations of a program with loops come from."""
    counts: Counter[tuple[str, int]] = Counter()
    for block, lines in zip(program.blocks, program.lines, strict=True):
        if _is_scalar(block):
            counts.update(dict.fromkeys(lines, block.operations))
    return (*counts.most_common(1)[0][0], "") if counts else None


def warn(message: str) -> None:
    """Warn of a long program, at the line that called this package."""
    warnings.warn(message, LongProgramWarning, stacklevel=_outside())


def _quoted(line: Line) -> str:
    file, number, function = line
    source = linecache.getline(file, number).strip()
    where = f", in {function}" if function else ""
    return f"{file}, line {number}{where}" + (f" ({source:.100})" if source else "")


def _outside() -> int:
    """Return the number of frames up the stack to the code that called this package."""
    level, frame = 1, sys._getframe(1)
    while frame is not None and in_library(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level
