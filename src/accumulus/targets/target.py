"""Targets: what one is, the table of them, and how operations in a straight line are compiled.

A target turns code into a `Kernel`, and into source text. It is one module with a `Target`, and one row of `TARGETS`;
the tests of all targets then apply to it. Batches, threads, and the checks of arguments and results come with `Kernel`:
a target that computes single points does batches point by point, until it has a better way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

import numpy as np

from accumulus.errors import unknown_name
from accumulus.tape.live import as_written
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import (
    DTYPES,
    InterpretedLoops,
    Kernel,
    LongSegment,
    Segment,
    Shape,
    check_arguments,
    check_segments,
)

if TYPE_CHECKING:
    from accumulus.tape.blocks import BlockTape
    from accumulus.tape.fusion import Map
    from accumulus.targets.kernel import CompiledLoops


Shapes = tuple[Shape, ...]


def _by_numpy(
    tape: BlockTape, maps: Sequence[Map], segments: Sequence[LongSegment], arguments: Shapes, cache: bool
) -> CompiledLoops:
    """The loops of targets that have none of their own."""
    del maps, arguments, cache
    return InterpretedLoops(tape, segments)


@dataclass(frozen=True, slots=True)
class Target:
    """A language or machine that tapes are compiled for.

    Args:
        compile: the kernel of a tape, given its segments, dtype, the shapes of arguments, operations that are rounded
            by themselves, and whether code is cached; `compile_tape` says what these are, and has checked them. Raises
            `CompileError` where that cannot be had.
        source: source text, given tape, segments, dtype, shapes of arguments, the name of the function, and operations
            that are rounded by themselves beside those that reach a jump.
        comment: what a line of comment starts with in its source.
        dtypes: of points and results that it can compute.
        loops: compiled code of a program over arrays, given that program, its bodies (`accumulus.tape.fusion`), which
            outputs go where, the shapes of arguments, and whether code is cached.
        loop_source: source text of such a program, given all that but for the cache, and the name of the function; None
            where programs over arrays have none.
        seconds: that compiling so many operations takes, about.
    """

    compile: Callable[[Tape, tuple[Segment, ...], str, Shapes, frozenset[int], bool], Kernel]
    source: Callable[[Tape, tuple[Segment, ...], str, Shapes, str, frozenset[int]], str]
    comment: str
    dtypes: tuple[str, ...] = DTYPES
    loops: Callable[[BlockTape, Sequence[Map], Sequence[LongSegment], Shapes, bool], CompiledLoops] = _by_numpy
    loop_source: Callable[[BlockTape, Sequence[Map], Sequence[LongSegment], Shapes, str], str] | None = None
    seconds: Callable[[int], float] = lambda operations: 2e-5 * operations


#: Name of a target → its module, which has a `TARGET` and is imported when it is first asked for.
TARGETS: Final[dict[str, str]] = {
    "llvm": "accumulus.targets.llvm.llvm_target",
    "numpy": "accumulus.targets.numpy_source",
    "c": "accumulus.targets.c.c_target",
}


#: As `TARGETS`, of those that source is written for anywhere, and nothing is compiled, or on some machines only.
SOURCES: Final[dict[str, str]] = {
    "cuda": "accumulus.targets.c.cuda_target",
    "jax": "accumulus.targets.jax_source",
}


def targets() -> tuple[str, ...]:
    """Names of all targets that programs are compiled for anywhere; "cuda" is compiled where there is a GPU.

    >>> targets()
    ('llvm', 'numpy', 'c')
    """
    return tuple(TARGETS)


def languages() -> tuple[str, ...]:
    """Names of all targets that source is written for, these among them.

    >>> languages()
    ('llvm', 'numpy', 'c', 'cuda', 'jax')
    """
    return (*TARGETS, *SOURCES)


def check_target(name: str) -> str:
    """The name, or `UnknownNameError` with the names that there are."""
    if name not in TARGETS and name not in SOURCES:
        raise unknown_name("target", name, languages())
    return name


def target_of(name: str) -> Target:
    """The target of that name.

    Raises:
        UnknownNameError: if there is none.
    """
    return _target((TARGETS | SOURCES)[check_target(name)])


@cache
def _target(module: str) -> Target:
    target: Target = import_module(module).TARGET
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
    """Compile a tape to code that maps points to one array a segment.

    Args:
        tape: the program; ``tape.outputs`` are references of reals, constants and inputs among them.
        segments: the result arrays, and which output goes where in them.
        target: a name, see `targets`.
        dtype: in which points are given, computed and returned.
        exact: references of operations that are rounded by themselves, as IEEE 754 says; those that reach floor, ceil,
            sign, fmod or a comparison are in any case. A target may fuse any other product with the sum that it goes
            into.
        arguments: shapes of the arrays that the tape's inputs are the entries of; by default one row of them all.
        cache: whether machine code is cached on disk, and taken from there.

    Raises:
        UnknownNameError: for an unknown target, or a dtype that it does not have.
        ArgumentError: for a segment that names an output that the tape does not have, or arguments that do not hold as
            many entries as it has inputs.
        CompileError: if the target cannot work on this machine, or is source alone.

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
    given = _checked(tape, segments, target, dtype, arguments)
    rounded = frozenset(np.flatnonzero(np.frombuffer(as_written(tape), np.uint8)).tolist())
    return target_of(target).compile(*given, rounded.union(exact), cache)


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
    """Source text of the program in the target's language, with a function `name`; the rest as for `compile_tape`.

    Raises:
        UnknownNameError: for an unknown target, or a dtype that it does not have.

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
    given = _checked(tape, segments, target, dtype, arguments)
    return target_of(target).source(*given, name, frozenset(exact))


def _checked(
    tape: Tape, segments: Sequence[Segment], target: str, dtype: str, arguments: Sequence[Shape] | None
) -> tuple[Tape, tuple[Segment, ...], str, Shapes]:
    """Arguments of a target, checked."""
    dtypes = target_of(target).dtypes
    if dtype not in dtypes:
        raise unknown_name("dtype", dtype, dtypes)
    return tape, check_segments(tape, segments), dtype, check_arguments(tape, arguments)
