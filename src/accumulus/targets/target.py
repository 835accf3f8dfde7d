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
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accumulus.errors import ArgumentError, CompileError, unknown_name
from accumulus.tape.fusion import fuse
from accumulus.tape.live import as_written
from accumulus.tape.moving import expanded
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import DTYPES, Kernel, Segment, Shape, Unit, indices

if TYPE_CHECKING:
    from accumulus.tape.fusion import Map


@dataclass(frozen=True, slots=True)
class Target:
    """A language or machine that tapes are compiled for.

    Args:
        compile: function that returns the kernel of a checked program; the exact operations of a straight line include
            all that reach a jump. It raises `CompileError` if that is impossible.
        source: function that returns the source text of such a program; it also takes the name of the function.
        comment: prefix of a comment line in the source.
        dtypes: supported dtypes of points and results.
        writes_loops: True if there is source text of loops.
        seconds: estimated time to compile a number of operations.
    """

    compile: Callable[[Unit], Kernel]
    source: Callable[[Unit, str], str]
    comment: str
    dtypes: tuple[str, ...] = DTYPES
    writes_loops: bool = True
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
    """Return the kernel of a program; operations of a straight line that reach a jump are rounded separately."""
    checked = _checked(unit, target)
    if unit.maps is None:
        rounded = np.flatnonzero(np.frombuffer(as_written(unit.tape), np.uint8)).tolist()
        unit = replace(unit, exact=unit.exact.union(rounded))
    return checked.compile(unit)


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
    count = len(unit.tape.outputs)
    for segment in unit.segments:
        outputs = indices(segment.outputs)
        wrong = outputs[(outputs < 0) | (outputs >= count)]
        if len(wrong):
            raise ArgumentError(f"a segment names output {wrong[0]}; the tape has {count}")
    return target


# Code of programs -----------------------------------------------------------------------------------------------------


class Code:
    """A program to compile: operations in a straight line, or loops over the instances of bodies.

    Args:
        tape: its operations, or blocks of them; segments refer to its outputs.
        exact: operations of a straight line that must be rounded separately.
        maps: for loops, the bodies to compile, in order (`accumulus.tape.fusion`).

    Attributes:
        bodies: the tapes to compile.
        operations: number of operations of one call, over all instances of loops.
        compiled_operations: number of operations, each body counted once.
        compact: if True, C is written for the smallest machine code.
    """

    def __init__(self, tape: Any, exact: Collection[int] = (), maps: Sequence[Map] | None = None) -> None:
        self.tape, self.exact, self.maps, self.compact = tape, frozenset(exact), maps, False
        self.bodies: list[Tape] = [tape] if maps is None else [each.body for each in maps if each.is_body]
        self.operations = Unit(tape, (), maps=maps).operations
        self.compiled_operations = sum(body.operations for body in self.bodies)

    @property
    def has_loops(self) -> bool:
        """True for loops."""
        return self.maps is not None

    def expanded(self) -> Code:
        """Return the program without calls of loops that can be written as blocks."""
        tape = self.tape if self.maps is None else expanded(self.tape)
        return self if tape is self.tape else Code(tape, maps=fuse(tape))

    def kernel(
        self,
        segments: Sequence[Segment],
        arguments: Sequence[Shape],
        target: str,
        dtype: str,
        threads: int = 1,
        cache: bool = False,
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
        return _compiled(replace(self.unit(segments, arguments, dtype), cache=cache, threads=threads), target)

    def source(
        self, segments: Sequence[Segment], arguments: Sequence[Shape], target: str, name: str = "f", *, dtype: str
    ) -> str:
        """Return source text in a target's language, with a function `name`.

        Raises:
            UnknownNameError: for an unknown target, or a dtype that it does not support.
            CompileError: for loops in a language without them.
            ArgumentError: if `name` cannot be the name of a function.
        """
        if self.has_loops and not target_of(target).writes_loops:
            able = [each for each in languages() if target_of(each).writes_loops]
            raise CompileError(
                f"a program of loops over long arrays has no source in {target!r}; expected one of {', '.join(able)}, "
                "or give exact_order=True for a program without loops"
            )
        unit = self.expanded().unit(segments, arguments, dtype)
        return _checked(unit, target).source(unit, name)

    def unit(self, segments: Sequence[Segment], arguments: Sequence[Shape], dtype: str) -> Unit:
        """Return the program with its result arrays, and the shapes of its arguments."""
        return Unit(self.tape, segments, dtype, arguments, self.exact, maps=self.maps, compact=self.compact)
