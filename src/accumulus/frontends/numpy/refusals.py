"""The errors for types in which NumPy would round what depends on the arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.active import refuse


def check_dtype(dtype: Any, what: str) -> None:
    """Refuse a type in which NumPy would round what depends on the arguments: all but that of doubles."""
    if dtype is not None and np.dtype(dtype) != np.float64:
        raise refuse(
            f"{what} is asked for {np.dtype(dtype)}: values that depend on the function's arguments are recorded as "
            'float64, and are not rounded. Leave the type away; dtype="float32" of acc.jacobian computes everything '
            "in single precision; np.floor, np.trunc and np.rint round."
        )
