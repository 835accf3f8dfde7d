"""The targets by name. A new target is one class and one line here; the tests of all targets then apply to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal

from accumulus.errors import unknown_name
from accumulus.tape.live import as_written
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import DTYPES, Kernel, Segment, Shape, check_arguments, check_segments

__all__ = ["check_target", "compile_tape", "emit_source", "targets"]

Shapes = tuple[Shape, ...]
#: Tape, segments, dtype, operations that are rounded one by one, shapes of the arguments, whether to keep it → kernel.
Compiler = Callable[[Tape, tuple[Segment, ...], str, frozenset[int], Shapes, bool], Kernel]
#: Tape, segments, dtype, name of the function, shapes of the arguments → source text.
Emitter = Callable[[Tape, tuple[Segment, ...], str, str, Shapes], str]


def _compile_llvm(
    tape: Tape, segments: tuple[Segment, ...], dtype: str, exact: frozenset[int], arguments: Shapes, cache: bool
) -> Kernel:
    from accumulus.targets.llvm.kernel import LLVMKernel

    return LLVMKernel(tape, segments, dtype, exact, arguments=arguments, cache=cache)


def _emit_llvm(tape: Tape, segments: tuple[Segment, ...], dtype: str, name: str, arguments: Shapes) -> str:
    from accumulus.targets.llvm.kernel import source

    return source(tape, segments, dtype, name, arguments)


def _compile_numpy(
    tape: Tape, segments: tuple[Segment, ...], dtype: str, exact: frozenset[int], arguments: Shapes, cache: bool
) -> Kernel:
    from accumulus.targets.numpy_source import NumPyKernel

    del exact, cache  # NumPy rounds every operation, and its source is quickly compiled
    return NumPyKernel(tape, segments, dtype, arguments=arguments)


def _emit_numpy(tape: Tape, segments: tuple[Segment, ...], dtype: str, name: str, arguments: Shapes) -> str:
    from accumulus.targets.numpy_source import source

    return source(tape, segments, dtype, name, arguments)


_TARGETS: Final[dict[str, tuple[Compiler, Emitter]]] = {
    "llvm": (_compile_llvm, _emit_llvm),
    "numpy": (_compile_numpy, _emit_numpy),
}


def targets() -> tuple[str, ...]:
    """Names of the registered targets.

    >>> targets()
    ('llvm', 'numpy')
    """
    return tuple(_TARGETS)


def check_target(name: str) -> str:
    """The name, or `UnknownNameError` with the names that there are."""
    if name not in _TARGETS:
        raise unknown_name("target", name, _TARGETS)
    return name


def compile_tape(
    tape: Tape,
    segments: Sequence[Segment],
    target: str = "llvm",
    dtype: Literal["float64", "float32"] | str = "float64",
    *,
    exact: Collection[int] = (),
    arguments: Sequence[Shape] | None = None,
    cache: bool = False,
) -> Kernel:
    """Compile a tape to code that maps points to one array a segment.

    Args:
        tape: the program; ``tape.outputs`` are references of reals, constants and inputs among them.
        segments: the result arrays, and which output goes where in them.
        target: a registered name, see `targets`.
        dtype: in which points are given, computed and returned.
        exact: references of operations that are rounded by themselves, as IEEE 754 says; those that reach floor, ceil,
            sign, fmod or a comparison are in any case. A target may fuse any other product with the sum that it goes
            into.
        arguments: shapes of the arrays that the tape's inputs are the entries of; by default one row of them all.
        cache: whether machine code is kept on disk, and taken from there.

    Raises:
        UnknownNameError: for an unknown target or dtype.
        ArgumentError: for a segment that names an output that the tape does not have, or arguments that do not hold as
            many entries as it has inputs.
        CompileError: if the target cannot work on this machine.

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
    compiler, _ = _TARGETS[check_target(target)]
    written = frozenset(reference for reference, mark in enumerate(as_written(tape)) if mark)
    shapes = check_arguments(tape, arguments)
    return compiler(tape, check_segments(tape, segments), _check_dtype(dtype), written.union(exact), shapes, cache)


def emit_source(
    tape: Tape,
    segments: Sequence[Segment],
    target: str,
    name: str = "f",
    dtype: str = "float64",
    *,
    arguments: Sequence[Shape] | None = None,
) -> str:
    """Source text of the program in the target's language, with a function `name`; `arguments` as for `compile_tape`.

    Raises:
        UnknownNameError: for an unknown target or dtype.

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
    _, emitter = _TARGETS[check_target(target)]
    shapes = check_arguments(tape, arguments)
    return emitter(tape, check_segments(tape, segments), _check_dtype(dtype), name, shapes)


def _check_dtype(dtype: str) -> str:
    if dtype not in DTYPES:
        raise unknown_name("dtype", dtype, DTYPES)
    return dtype
