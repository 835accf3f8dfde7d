"""Arguments to try a function with: the given ones as floats, and others around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

Shapes = Sequence[tuple[int, ...] | None]

#: Multiples of it, without their whole parts, are spread more evenly than those of any other number.
_GOLDEN: Final = (5.0**0.5 - 1.0) / 2.0


class Numbers(Protocol):
    """Source of random numbers: a `numpy.random.Generator`, or `Spread`."""

    def uniform(self, low: float, high: float, size: tuple[int, ...]) -> Any:
        """An array of numbers between two."""


class Spread:
    """Numbers that are spread evenly; `numpy.random` takes longer to import than a check of a function does."""

    def __init__(self) -> None:
        self._drawn = 0

    def uniform(self, low: float, high: float, size: tuple[int, ...]) -> NDArray[np.float64]:
        """An array of numbers between two.

        >>> Spread().uniform(-1.0, 1.0, (3,)).round(3)
        array([ 0.236, -0.528,  0.708])
        """
        first = self._drawn + 1
        self._drawn += int(np.prod(size))
        found: NDArray[np.float64] = np.arange(first, self._drawn + 1, dtype=np.float64) * _GOLDEN % 1.0
        return (low + (high - low) * found).reshape(size)


def as_reals(arguments: Sequence[Any], shapes: Shapes) -> list[Any]:
    """Numeric arguments as floats, arrays copied; others as they are. Python's numbers stay Python's.

    >>> as_reals([1, np.array([2, 3]), "linear"], [(), (2,), None])
    [1.0, array([2., 3.]), 'linear']
    """
    return [argument if shape is None else _real(argument) for argument, shape in zip(arguments, shapes, strict=True)]


def _real(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return np.array(argument, np.float64)
    return float(argument) if type(argument) in (int, float) else np.float64(argument)


def as_numpy(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments with NumPy's floats for Python's: they divide by zero, and overflow, without an exception."""
    return [np.float64(argument) if type(argument) is float else argument for argument in arguments]


def as_inputs(arguments: Sequence[Any], shapes: Shapes) -> NDArray[np.float64]:
    """All entries of the numeric arguments, side by side: the inputs of a recording.

    >>> as_inputs([1.0, "linear", np.eye(2)], [(), None, (2, 2)])
    array([1., 1., 0., 0., 1.])
    """
    parts = [np.ravel(argument) for argument, shape in zip(arguments, shapes, strict=True) if shape is not None]
    return np.concatenate(parts, dtype=np.float64) if parts else np.empty(0)


def moved(arguments: Sequence[Any], shapes: Shapes, reach: float, generator: Numbers) -> list[Any]:
    """Arguments around the given ones.

    Args:
        arguments: as `as_reals` returns them.
        shapes: of the numeric arguments; None for others.
        reach: how far each entry moves at most, relative to itself; an entry that is zero, relative to the largest of
            the argument, or to 1.
        generator: of numbers between −1 and 1.
    """
    return [
        argument if shape is None else _moved(argument, reach, generator)
        for argument, shape in zip(arguments, shapes, strict=True)
    ]


def _moved(argument: Any, reach: float, generator: Numbers) -> Any:
    x = np.where(np.isfinite(argument), argument, 1.0)
    size = np.abs(x)
    scale = np.where(size > 0, size, size.max(initial=0.0) or 1.0)
    y = x + reach * scale * generator.uniform(-1.0, 1.0, x.shape)
    return y if isinstance(argument, np.ndarray) else type(argument)(y)
