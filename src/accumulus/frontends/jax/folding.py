"""Primitives that join entries: sums and extremes along axes, running ones, products of arrays, sorting."""

from __future__ import annotations

import string
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.decisions import order
from accumulus.frontends.jax.equations import Call, is_constant, records
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.contractions import contract
from accumulus.frontends.numpy.operands import references_of

__all__ = ["product"]

#: Entries along an axis, at most, that are sorted by a network of comparisons.
MOST_SORTED: Final = 32

REDUCTIONS: Final[dict[str, np.ufunc]] = {
    "reduce_sum": np.add,
    "reduce_prod": np.multiply,
    "reduce_max": np.maximum,
    "reduce_min": np.minimum,
    "reduce_and": np.logical_and,
    "reduce_or": np.logical_or,
}
RUNNING: Final[dict[str, np.ufunc]] = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
    "cumlogsumexp": np.logaddexp,
}


def _enter_reduction(name: str, ufunc: np.ufunc) -> None:
    @records(name)
    def record(call: Call, x: Any) -> Any:
        axes = tuple(call.params["axes"])
        if call.operands[0] in "iu" and ufunc in (np.logical_and, np.logical_or):
            raise refuse(f"JAX's {name} of whole numbers joins their bits, which is not recorded.")
        if not x.size and ufunc in (np.maximum, np.minimum):
            return ufunc.reduce(x, axis=axes, initial=-np.inf if ufunc is np.maximum else np.inf)
        return ufunc.reduce(x, axis=axes) if axes else x


for _name, _ufunc in REDUCTIONS.items():
    _enter_reduction(_name, _ufunc)


def _enter_running(name: str, ufunc: np.ufunc) -> None:
    @records(name)
    def record(call: Call, x: Any) -> Any:
        axis = call.params["axis"]
        if not call.params["reverse"]:
            return ufunc.accumulate(x, axis=axis)
        return np.flip(ufunc.accumulate(np.flip(x, axis), axis=axis), axis)


for _name, _ufunc in RUNNING.items():
    _enter_running(_name, _ufunc)


@records("argmax", "argmin", folds=False)
def _extreme_place(call: Call, x: Any) -> Any:
    """Where the first of the greatest or smallest entries is: a comparison for each entry."""
    (axis,) = call.params["axes"]
    entries = np.moveaxis(x, axis, 0)
    better = np.greater if call.name == "argmax" else np.less
    best: Any = entries[0]
    place: Any = np.zeros(np.shape(best))
    for k in range(1, len(entries)):
        chosen = better(entries[k], best)
        best, place = np.where(chosen, entries[k], best), np.where(chosen, float(k), place)
    return place


# Products of arrays -----------------------------------------------------------------------------------------------


@records("dot_general", folds=False)
def _dot_general(call: Call, x: Any, y: Any) -> Any:
    (summed_x, summed_y), (batch_x, batch_y) = call.params["dimension_numbers"]
    letters = iter(string.ascii_letters)
    first = [next(letters) for _ in range(np.ndim(x))]
    second = [next(letters) for _ in range(np.ndim(y))]
    for i, j in (*zip(batch_x, batch_y, strict=True), *zip(summed_x, summed_y, strict=True)):
        second[j] = first[i]
    gone = {first[i] for i in summed_x}
    batch = [first[i] for i in batch_x]
    result = [*batch, *(label for label in (*first, *second) if label not in gone and label not in batch)]
    return product(call, [(x, "".join(first)), (y, "".join(second))], "".join(result))


def product(call: Call, operands: list[tuple[Any, str]], result: str) -> Any:
    """The sum of products in which axes of one label belong together, over all that are not in the result."""
    labelled = [(references_of(call.tape, x), labels) for x, labels in operands]
    return TracedArray(call.tape, np.asarray(contract(call.tape, labelled, result), np.int64))


# Sorting ----------------------------------------------------------------------------------------------------------


@records("sort", folds=False)
def _sort(call: Call, *operands: Any) -> Any:
    return _sorted(call, operands, call.params["dimension"], call.params["num_keys"])


@records("top_k", folds=False)
def _top_k(call: Call, x: Any) -> Any:
    count = call.params["k"]
    places = np.broadcast_to(np.arange(np.shape(x)[-1]), np.shape(x))
    smallest, order = _sorted(call, (np.negative(x), places), np.ndim(x) - 1, 1)
    return [np.negative(smallest[..., :count]), order[..., :count]]


def _sorted(call: Call, operands: Any, axis: int, keys: int) -> list[Any]:
    """Operands in the order of the first ones: neighbours are exchanged in as many rounds as there are entries."""
    length = np.shape(operands[0])[axis]
    if length > MOST_SORTED and keys == 1 and not is_constant(operands[0]):
        return _by_order(operands, axis)
    if length > MOST_SORTED:
        raise refuse(
            f"{length} entries are sorted by several keys that depend on the function's arguments; at most "
            f"{MOST_SORTED} are, by recorded comparisons and selects."
        )
    columns = [[np.moveaxis(x, axis, 0)[k] for k in range(length)] for x in operands]
    for turn in range(length):
        for k in range(turn % 2, length - 1, 2):
            later = _is_later(columns[:keys], k)
            for column in columns:
                low, high = column[k], column[k + 1]
                column[k], column[k + 1] = np.where(later, high, low), np.where(later, low, high)
    return [np.moveaxis(np.stack([_array(call, x) for x in column]), 0, axis) for column in columns]


def _by_order(operands: Any, axis: int) -> list[Any]:
    """Many entries in the order of the first operand at the given point, which is kept as guards."""
    keys = np.moveaxis(operands[0].references, axis, -1)
    places = np.empty(keys.shape, np.int64)
    for line in np.ndindex(keys.shape[:-1]):
        places[line] = order(operands[0].tape, keys[line].tolist())
    return [np.take_along_axis(x, np.moveaxis(places, -1, axis), axis) for x in operands]


def _is_later(keys: Any, k: int) -> Any:
    """Whether entry k belongs behind the next: by the first key, else by those after it."""
    later: Any = False
    for column in reversed(keys):
        tied = np.equal(column[k], column[k + 1])
        later = np.logical_or(np.greater(column[k], column[k + 1]), np.logical_and(tied, later))
    return later


def _array(call: Call, x: Any) -> Any:
    return x if isinstance(x, TracedArray | np.ndarray) else TracedArray(call.tape, references_of(call.tape, x))
