"""Batches of arrays on the GPU, CuPy's: results stay there.

CuPy is not imported here before its arrays are given. Only programs of target "cuda" take them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError

if TYPE_CHECKING:
    from accumulus.options import Options
    from accumulus.programs.axes import Axes
    from accumulus.programs.program import Program

__all__ = ["batch_on_device", "check_options", "first_point", "is_on_device", "on_host"]


def is_on_device(argument: object) -> bool:
    """Whether an argument is an array of CuPy."""
    module = sys.modules.get("cupy")
    return module is not None and isinstance(argument, module.ndarray)


def check_options(options: Options, out: Any, name: str) -> None:
    """Refuse what is not there for arrays on the GPU."""
    if options.target != "cuda":
        raise ArgumentError(
            f"an argument of {name} is an array of CuPy, and it is compiled for target {options.target!r}; expected "
            "target='cuda', or an array of NumPy, as cupy.asnumpy returns it"
        )
    if out is not None or options.sparse is not None or options.check_finite:
        given = "out" if out is not None else "sparse" if options.sparse is not None else "check_finite"
        raise ArgumentError(f"{given} is given for a batch of CuPy's arrays; expected none: it is for arrays of NumPy")


def on_host(argument: Any, name: str) -> NDArray[Any]:
    """A stand-in for an array on the GPU, of its shape.

    Raises:
        ArgumentError: if it is not real.
    """
    if argument.dtype.kind not in "fiu":
        raise ArgumentError(f"{name} is a CuPy array of {argument.dtype}; expected one of floats or integers")
    return np.broadcast_to(np.zeros((), argument.dtype), argument.shape)


def first_point(argument: Any, axis: int | None) -> Any:
    """An array on the GPU at the first point, or all of it, as NumPy's: what is recorded is compared there."""
    if axis is not None and not argument.shape[axis]:
        return np.zeros((*argument.shape[:axis], *argument.shape[axis + 1 :]))[()]
    found = argument if axis is None else argument[(slice(None),) * axis + (0,)]
    return sys.modules["cupy"].asnumpy(found)[()]


def batch_on_device(program: Program, axes: Axes, arguments: Sequence[Any], transposed: bool) -> Any:
    """Results of arrays on the GPU; those of NumPy among them are moved there.

    Raises:
        ArgumentError: if the function decides on values: whether its guards hold is looked at on the processor.
    """
    if program.is_guarded:
        raise ArgumentError(
            f"{program.name} decides on values, so each of its points is looked at on the processor; expected arrays "
            "of NumPy, or np.where in the place of the decision"
        )
    cupy = sys.modules["cupy"]
    given, points = [], 0
    for k in program._arguments.numeric:
        x, axis = cupy.asarray(arguments[k]), axes[k]
        if axis is not None:
            points = x.shape[axis]
            x = cupy.moveaxis(x, axis, -1 if transposed else 0)
        given.append(x)
    shared = [axes[k] is None for k in program._arguments.numeric]
    from accumulus.targets.c.cuda_target import device_of

    arrays: Any = device_of(program.kernel).on_device(given, points, shared, transposed)
    return program._results.rebuild(arrays, points, transposed)
