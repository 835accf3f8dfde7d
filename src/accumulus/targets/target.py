"""Targets: their interface, their table, and the code that they compile: straight lines, or loops over bodies.

A target turns code into a `Kernel`, and into source text. It is one module with a `Target`, and one row of `TARGETS`;
the tests of all targets then apply to it. `Kernel` provides batches, threads, and the checks of arguments and results:
a target that computes single points runs batches point by point, until it has a faster way. Everything around the code
(arguments, results, guards, batches, files) is the same for all transformations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from accumulus.errors import ArgumentError, CompileError, unknown_name
from accumulus.tape.fusion import fuse
from accumulus.tape.live import as_written
from accumulus.tape.moving import expanded
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import (
    DTYPES,
    CompiledLoops,
    InterpretedLoops,
    Kernel,
    LongSegment,
    LoopKernel,
    Segment,
    Shape,
    Unit,
)

if TYPE_CHECKING:
    from accumulus.tape.fusion import Map
    from accumulus.tape.program import Program


@dataclass(frozen=True, slots=True)
class Target:
    """A language or machine that tapes are compiled for.

    Args:
        compile: function that returns the kernel of a checked straight-line program, whose exact operations include
            all that reach a jump. It raises `CompileError` if that is impossible.
        source: function that returns the source text of such a program; it also takes the name of the function.
        comment: prefix of a comment line in the source.
        dtypes: supported dtypes of points and results.
        loops: function that compiles a program over arrays.
        loop_source: function that returns the source text of such a program, as `source`; None if not supported.
        seconds: estimated time to compile a number of operations.
    """

    compile: Callable[[Unit], Kernel]
    source: Callable[[Unit, str], str]
    comment: str
    dtypes: tuple[str, ...] = DTYPES
    loops: Callable[[Unit], CompiledLoops] = InterpretedLoops
    loop_source: Callable[[Unit, str], str] | None = None
    seconds: Callable[[int], float] = lambda operations: 2e-5 * operations


#: Module of each target, by name. It has a `TARGET`, and is imported at first use.
TARGETS: Final[dict[str, str]] = {
    "llvm": "accumulus.targets.llvm.llvm_target",
    "numpy": "accumulus.targets.numpy_source",
    "c": "accumulus.targets.c.c_target",
}


#: The same for targets whose source can be written anywhere, but which compile nothing, or only on some machines.
SOURCES: Final[dict[str, str]] = {
    "cuda": "accumulus.targets.c.cuda_target",
    "jax": "accumulus.targets.jax_source",
}


def targets() -> tuple[str, ...]:
    """Return the names of the targets that compile on every machine; "cuda" also compiles where there is a GPU.

    >>> targets()
    ('llvm', 'numpy', 'c')
    """
    return tuple(TARGETS)


def languages() -> tuple[str, ...]:
    """Return the names of all targets that source can be written for, including all `targets`.

    >>> languages()
    ('llvm', 'numpy', 'c', 'cuda', 'jax')
    """
    return (*TARGETS, *SOURCES)


def check_target(name: str) -> str:
    """Return the name if there is such a target; else raise `UnknownNameError` with all names."""
    if name not in TARGETS and name not in SOURCES:
        raise unknown_name("target", name, languages())
    return name


def target_of(name: str) -> Target:
    """Return the target with a name.

    Raises:
        UnknownNameError: if there is no such target.
    """
    target: Target = import_module((TARGETS | SOURCES)[check_target(name)]).TARGET
    return target


def compile_tape(
    tape: Tape,
    segments: Sequence[Segment],
    target: str = "llvm",
    dtype: str = "float64",
    *,
    exact: Collection[int] = (),
    arguments: Sequence[Shape] | None = None,
    cache: bool = False,
) -> Kernel:
    """Compile a tape to code that maps points to one array for each segment.

    Args:
        tape: the program; ``tape.outputs`` are references of reals, which may be constants and inputs.
        segments: the result arrays, and the position of each output in them.
        target: name of the target, see `targets`.
        dtype: dtype of points, results and computations.
        exact: references of operations that must be rounded separately, as IEEE 754 requires. Operations that reach
            floor, ceil, sign, fmod or a comparison always are. A target may fuse any other product with the sum that
            uses it.
        arguments: shapes of the arrays whose entries are the tape's inputs; one row of all inputs by default.
        cache: if True, machine code is stored in the cache on disk, and loaded from it.

    Raises:
        UnknownNameError: for an unknown target, or a dtype that it does not support.
        ArgumentError: if a segment names an output that the tape does not have, or the arguments do not have as many
            entries as the tape has inputs.
        CompileError: if the target cannot work on this machine, or has source only.

    >>> from accumulus.tape.tape import Tape
    >>> import numpy as np
    >>> tape = Tape(2)
    >>> tape.outputs = [tape.multiply(0, 1), 0]
    >>> kernel = compile_tape(tape, [Segment(3, outputs=(0, 1), positions=(0, 2))])
    >>> kernel(np.array([3.0, 5.0]))
    (array([15.,  0.,  3.]),)
    >>> kernel.batch(np.array([[3.0, 5.0], [1.0, 2.0]]))[0]
    array([[15.,  0.,  3.],
           [ 2.,  0.,  1.]])
    """
    return _compiled(Unit(tape, segments, dtype, arguments, frozenset(exact), cache), target)


def _compiled(unit: Unit, target: str) -> Kernel:
    """Return the kernel of a straight-line program; operations that reach a jump are rounded separately."""
    rounded = np.flatnonzero(np.frombuffer(as_written(unit.tape), np.uint8)).tolist()
    return _checked(unit, target).compile(replace(unit, exact=unit.exact.union(rounded)))


def emit_source(
    tape: Tape,
    segments: Sequence[Segment],
    target: str,
    name: str = "f",
    dtype: str = "float64",
    *,
    exact: Collection[int] = (),
    arguments: Sequence[Shape] | None = None,
) -> str:
    """Return source of the program in the target's language, a function `name`; otherwise as `compile_tape`.

    Raises:
        UnknownNameError: for an unknown target, or a dtype that it does not support.

    >>> from accumulus.tape.tape import Tape
    >>> tape = Tape(1)
    >>> tape.outputs = [tape.apply("sin", 0), tape.apply("cos", 0)]
    >>> print(emit_source(tape, [Segment(1, (0,), (0,), "values"), Segment(1, (1,), (0,), "jacobian")], "numpy"))
    import numpy as np
    <BLANKLINE>
    <BLANKLINE>
    def f(x):
        (x0,) = x
        points = np.shape(x)[1:]
        values = np.zeros((1, *points), "float64")
        jacobian = np.zeros((1, *points), "float64")
        t1 = np.sin(x0)
        values[0] = t1
        t2 = np.cos(x0)
        jacobian[0] = t2
        return values, jacobian
    <BLANKLINE>
    """
    unit = Unit(tape, segments, dtype, arguments, frozenset(exact))
    return _checked(unit, target).source(unit, name)


def _checked(unit: Unit, name: str) -> Target:
    """Return the target with a name, after checking that it supports the program."""
    target = target_of(name)
    if unit.dtype not in target.dtypes:
        raise unknown_name("dtype", unit.dtype, target.dtypes)
    for segment in unit.segments:
        for output in segment.outputs:
            if not 0 <= output < len(unit.tape.outputs):
                raise ArgumentError(f"a segment names output {output}; the tape has {len(unit.tape.outputs)}")
    return target


# Code of programs -----------------------------------------------------------------------------------------------------


class Compilable:
    """Program to compile.

    Args:
        tape: its operations or loops; segments refer to its outputs.
        exact: operations that a target must not fuse with others.
        maps: for loops, the bodies to compile, in order (`accumulus.tape.fusion`).

    Attributes:
        segment: class of its result arrays.
        bodies: its bodies to compile, each a tape.
        operations: number of operations of one call, over all instances of loops.
        compiled_operations: number of operations, each body counted once.
        compact: if True, C is written for the smallest machine code.
    """

    segment: ClassVar[type[Segment]]

    def __init__(self, tape: Any, exact: Collection[int] = (), maps: Sequence[Map] | None = None) -> None:
        self.tape, self.exact, self.maps, self.compact = tape, frozenset(exact), maps, False
        self.bodies: list[Tape] = [tape] if maps is None else [each.body for each in maps if each.is_body]
        self.operations = Unit(tape, (), maps=maps).operations
        self.compiled_operations = sum(body.operations for body in self.bodies)

    def unit(self, segments: Sequence[Any], arguments: Sequence[Shape], dtype: str, cache: bool = False) -> Unit:
        """Return the program with its result arrays, and the shapes of its arguments."""
        return Unit(self.tape, segments, dtype, arguments, self.exact, cache, self.maps, self.compact)

    def expanded(self) -> Compilable:
        """Return the program without calls of loops that can be written as blocks."""
        return self

    def kernel(
        self, segments: Sequence[Any], arguments: Sequence[Shape], target: str, dtype: str, threads: int, cache: bool
    ) -> Kernel:
        """Return compiled code; see `accumulus.targets.compile_tape`.

        Args:
            segments: result arrays.
            arguments: shapes of the arguments.
            target: name of the target.
            dtype: dtype of the code.
            threads: number of threads that may share the instances of loops at one point.
            cache: if True, machine code is cached.
        """
        unit = self.unit(segments, arguments, dtype, cache)
        return _compiled(unit, target) if self.maps is None else LoopKernel(unit, target_of(target).loops, threads)

    def source(
        self, segments: Sequence[Any], arguments: Sequence[Shape], target: str, name: str = "f", *, dtype: str
    ) -> str:
        """Return source text in a target's language, with a function `name`.

        Raises:
            UnknownNameError: for an unknown target.
            CompileError: for loops in a language without them.
            ArgumentError: if `name` cannot be the name of a function.
        """
        unit = self.expanded().unit(segments, arguments, dtype)
        if self.maps is None:
            return _checked(unit, target).source(unit, name)
        write = target_of(target).loop_source
        if write is None:
            able = [each for each in languages() if target_of(each).loop_source is not None]
            raise CompileError(
                f"a program of loops over long arrays has no source in {target!r}; expected one of {', '.join(able)}, "
                "or give exact_order=True for a program without loops"
            )
        return write(unit, name)


class StraightLine(Compilable):
    """A straight-line program; its `exact` operations are rounded separately."""

    segment = Segment

    def __init__(self, tape: Tape, exact: Collection[int] = ()) -> None:
        super().__init__(tape, exact)


class LoopNest(Compilable):
    """Loops over the instances of fused bodies."""

    segment = LongSegment

    def __init__(self, tape: Program, maps: Sequence[Map]) -> None:
        super().__init__(tape, maps=maps)

    def expanded(self) -> LoopNest:
        """Return the program with blocks in place of calls of loops."""
        tape = expanded(self.tape)
        return self if tape is self.tape else LoopNest(tape, fuse(tape))
