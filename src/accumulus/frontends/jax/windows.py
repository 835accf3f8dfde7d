"""Primitives in which windows move over arrays: convolutions, and sums and extremes of windows."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.jax.equations import Call, records
from accumulus.frontends.jax.folding import product
from accumulus.frontends.jax.moving import joined, padded
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.operands import references_of

__all__: list[str] = []

#: What windows are joined by, and what is around an array then.
WINDOWS: Final[dict[str, tuple[np.ufunc, float]]] = {
    "reduce_window_sum": (np.add, 0.0),
    "reduce_window_max": (np.maximum, -np.inf),
    "reduce_window_min": (np.minimum, np.inf),
}


def _enter_window(name: str, ufunc: np.ufunc, around: float) -> None:
    @records(name, folds=False)
    def record(call: Call, x: Any) -> Any:
        params = call.params
        inside = [step - 1 for step in params["base_dilation"]]
        config = [(low, high, between) for (low, high), between in zip(params["padding"], inside, strict=True)]
        wide = joined(call, (x, np.asarray(around)), lambda parts: padded(parts[0], parts[1], config))
        places = _windows(wide.shape, params["window_dimensions"], params["window_strides"], params["window_dilation"])
        return ufunc.reduce(wide[places], axis=tuple(range(x.ndim, 2 * x.ndim)))


for _name, (_ufunc, _around) in WINDOWS.items():
    _enter_window(_name, _ufunc, _around)


def _windows(
    shape: Sequence[int], sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> tuple[NDArray[np.int64], ...]:
    """Indices of all windows: of shape (places along each axis, entries along each axis)."""
    axes, found = len(shape), []
    for k, (length, size, stride, step) in enumerate(zip(shape, sizes, strides, dilation, strict=True)):
        count = max((length - (size - 1) * step - 1) // stride + 1, 0)
        places = stride * np.arange(count)[:, None] + step * np.arange(size)
        around = [1] * (2 * axes)
        around[k], around[axes + k] = places.shape
        found.append(places.reshape(around))
    return tuple(found)


@records("conv_general_dilated", folds=False)
def _convolution(call: Call, x: Any, kernel: Any) -> Any:
    params = call.params
    of_x, of_kernel, of_result = params["dimension_numbers"]
    left = references_of(call.tape, x).transpose(of_x)
    right = references_of(call.tape, kernel).transpose(of_kernel)
    axes = left.ndim - 2
    around = [(*ends, step - 1) for ends, step in zip(params["padding"], params["lhs_dilation"], strict=True)]
    config = [(0, 0, 0), (0, 0, 0), *around]
    wide = padded(left, call.tape.constant(0.0), config)
    places = _windows(wide.shape[2:], right.shape[2:], params["window_strides"], params["rhs_dilation"])
    patches = wide[(slice(None), slice(None), *places)]
    along, within = string.ascii_uppercase[:axes], string.ascii_lowercase[:axes]
    of_batches, of_features = params["batch_group_count"], params["feature_group_count"]
    groups = of_batches * of_features
    patches = patches.reshape(
        of_batches, left.shape[0] // of_batches, of_features, left.shape[1] // of_features, *patches.shape[2:]
    )
    if of_batches > 1:
        patches, first = patches[:, :, 0], "xyz" + along + within
    else:
        patches, first = patches[0], "yxz" + along + within
    right = right.reshape(groups, right.shape[0] // groups, *right.shape[1:])
    own = [(patches, first), (right, "xwz" + within)]
    values = [(TracedArray(call.tape, references), labels) for references, labels in own]
    result = product(call, values, "yxw" + along)
    references = result.references.reshape(result.shape[0], -1, *result.shape[3:])
    return TracedArray(call.tape, references.transpose(np.argsort(of_result)))
