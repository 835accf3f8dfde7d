"""Independent derivatives for the tests: complex step, to the last place, for functions that run on complex arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEP = 1e-30


def complex_step(f: Callable[..., Any], *arguments: Any, argument: int = 0) -> NDArray[np.float64]:
    """∂f/∂argument by Im f(x + ih)/h, of shape (result shape, argument shape)."""
    x = np.asarray(arguments[argument], float)
    columns = []
    for index in np.ndindex(x.shape):
        moved = x.astype(complex)
        moved[index] += 1j * STEP
        shifted = [*arguments]
        shifted[argument] = moved[()]
        columns.append(np.imag(np.asarray(f(*shifted))) / STEP)
    stacked = np.stack(columns, axis=-1)
    return stacked.reshape(*stacked.shape[:-1], *x.shape)
