"""The code that targets compile: operations in a straight line, or loops over bodies.

What is around it (arguments, results, guards, batches, files) is the same for both, whichever transformation has made
it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from accumulus.errors import CompileError
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Kernel, LongSegment, LoopKernel, Segment, Shape
from accumulus.targets.target import compile_tape, emit_source, languages, target_of

if TYPE_CHECKING:
    from accumulus.tape.blocks import BlockTape
    from accumulus.tape.fusion import Map
    from accumulus.targets.c.c_loops import LoopSource
    from accumulus.targets.c.c_source import CSource


class Compilable(ABC):
    """A program as it is compiled."""

    tape: Any  # its operations or loops; its outputs are what segments name
    exact: frozenset[int] = frozenset()  # operations that a target must not fuse with others
    operations: int  # of one call, of all instances of loops
    compiled_operations: int  # of each body once
    bodies: Sequence[Tape]  # what is compiled of it, each a tape
    segment: ClassVar[type[Segment]]  # the class of its result arrays

    @abstractmethod
    def kernel(
        self, segments: Sequence[Any], arguments: Sequence[Shape], target: str, dtype: str, threads: int, cache: bool
    ) -> Kernel:
        """Return compiled code, see `accumulus.targets.compile_tape`.

        Args:
            threads: that may share the work of one point.
        """

    @abstractmethod
    def source(
        self, segments: Sequence[Any], arguments: Sequence[Shape], target: str, name: str = "f", *, dtype: str
    ) -> str:
        """Return source text in a target's language, with a function `name`.

        Raises:
            UnknownNameError: for an unknown target.
            CompileError: for loops in a language without them.
            ArgumentError: if `name` is none that a function can have.
        """

    @abstractmethod
    def in_c(
        self, segments: Sequence[Any], arguments: Sequence[Shape], name: str, *, dtype: str
    ) -> CSource | LoopSource:
        """Return a function `name` of C with all that is called by it."""


class StraightLine(Compilable):
    """Operations one by one; `exact` among them are rounded by themselves."""

    segment = Segment

    def __init__(self, tape: Tape, exact: Collection[int] = ()) -> None:
        self.tape, self.exact = tape, frozenset(exact)
        self.operations = self.compiled_operations = tape.operations
        self.bodies = (tape,)

    def kernel(
        self, segments: Sequence[Any], arguments: Sequence[Shape], target: str, dtype: str, threads: int, cache: bool
    ) -> Kernel:
        """Return compiled code; points are not shared among threads, which are short."""
        del threads
        return compile_tape(
            self.tape, segments, target=target, dtype=dtype, exact=self.exact, arguments=arguments, cache=cache
        )

    def source(
        self, segments: Sequence[Any], arguments: Sequence[Shape], target: str, name: str = "f", *, dtype: str
    ) -> str:
        """Return source text of the operations, one by one."""
        return emit_source(self.tape, segments, target, name, dtype, exact=self.exact, arguments=arguments)

    def in_c(self, segments: Sequence[Any], arguments: Sequence[Shape], name: str, *, dtype: str) -> CSource:
        """Return a function of points."""
        from accumulus.targets.c.c_source import CSource

        return CSource(self.tape, segments, dtype, arguments, name, self.exact)


class LoopNest(Compilable):
    """Loops over the instances of bodies.

    Args:
        tape: the loops, of which bodies were fused.
        maps: the bodies as they are compiled, in their order (`accumulus.tape.fusion`).
    """

    segment = LongSegment

    def __init__(self, tape: BlockTape, maps: Sequence[Map]) -> None:
        self.tape, self.maps = tape, maps
        self.bodies = [each.body for each in maps if each.is_body]
        self.compiled_operations = sum(body.operations for body in self.bodies)
        self.operations = sum(
            each.count * each.body.operations if each.is_body else tape.blocks[each.blocks[0]].operations
            for each in maps
        )

    def kernel(
        self, segments: Sequence[Any], arguments: Sequence[Shape], target: str, dtype: str, threads: int, cache: bool
    ) -> Kernel:
        """Return compiled loops; threads share the instances of one point."""
        start = time.perf_counter()
        loops = target_of(target).loops(self.tape, self.maps, segments, tuple(map(tuple, arguments)), cache)
        return LoopKernel(loops, segments, arguments, threads, time.perf_counter() - start)

    def source(
        self, segments: Sequence[Any], arguments: Sequence[Shape], target: str, name: str = "f", *, dtype: str
    ) -> str:
        """Return source text of the loops, for languages that have them."""
        write = target_of(target).loop_source
        if write is None:
            able = [each for each in languages() if target_of(each).loop_source is not None]
            raise CompileError(
                f"a program of loops over long arrays has no source in {target!r}; expected one of {', '.join(able)}, "
                "or give exact_order=True for a program without loops"
            )
        return write(self.tape, self.maps, segments, tuple(map(tuple, arguments)), name)

    def in_c(self, segments: Sequence[Any], arguments: Sequence[Shape], name: str, *, dtype: str) -> LoopSource:
        """Return a function of one point, and the loops that it calls."""
        from accumulus.targets.c.c_loops import LoopSource

        return LoopSource(self.tape, self.maps, segments, tuple(map(tuple, arguments)), name)
