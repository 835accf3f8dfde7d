"""The entries of an array that a traced mask chooses, ``u[u > 0]``, without deciding which these are.

How many there are depends on values, but what is done to each often does not: ``du[m] = g(u[m])`` and ``np.sum(u[m])``
are the same at every point, if all entries are computed and the mask chooses at the end. So a selection keeps all
entries and its mask. Elementwise functions of selections by the same mask are selections; sums and products of all of
them, and assignments to the same places, are joined by selects. Whatever else is asked (an entry, another mask, another
axis) settles it: the mask is decided as at the given point, which is a guard, and the selection is an array like any
other from then on. Its length alone is a guard on the number of entries, not on which they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import ACTIVE
from accumulus.frontends.decisions import truth, truths, whole
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.operands import References, depends
from accumulus.frontends.numpy.table import PROTOCOLS
from accumulus.tape.tape import Tape

__all__ = ["Selection"]

#: Products of two vectors.
_PRODUCTS: Final = frozenset({np.dot, np.vdot, np.inner})
#: Functions of one array that do the same to every entry, though they are no universal functions.
_ELEMENTWISE: Final = frozenset({np.clip, np.round, np.around, np.nan_to_num, np.zeros_like, np.ones_like, np.copy})
#: What does not ask for entries.
_ATTRIBUTES: Final = {np.ndim: "ndim", np.shape: "shape", np.size: "size"}


class Selection(TracedArray):
    """Entries chosen by a mask.

    Args:
        everything: the array that is chosen from, at all places.
        mask: references of truth values, for its first axes.
    """

    __slots__ = ("_settled", "everything", "mask")

    def __init__(self, everything: TracedArray, mask: References) -> None:
        self.tape = everything.tape
        self.boolean = everything.boolean
        self.everything = everything
        self.mask = mask
        #: The references once it is settled.
        self._settled: References | None = None

    @property
    def is_open(self) -> bool:  # type: ignore[override]
        """Whether it has not been decided which entries it has."""
        return self._settled is None

    @property
    def references(self) -> References:
        """The references; settles it."""
        if self._settled is None:
            self._settled = self.everything.references[truths(self.tape, self.mask)]
        return self._settled

    @references.setter
    def references(self, references: References) -> None:
        self._settled = references

    @property
    def ndim(self) -> int:
        """Number of axes."""
        if self._settled is not None:
            return self._settled.ndim
        return self.everything.ndim - self.mask.ndim + 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each axis; the first is how many entries there are at the given point."""
        if self._settled is not None:
            return self._settled.shape
        return (self._count(), *self.everything.shape[self.mask.ndim :])

    @shape.setter
    def shape(self, shape: tuple[int, ...]) -> None:
        self.references = self.references.reshape(shape, copy=False)

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def copy(self, order: str = "C") -> TracedArray:
        """A copy that can be written to."""
        return self._with(self.everything.copy()) if self.is_open else super().copy(order)

    def chosen_by(self, mask: References) -> bool:
        """Whether it is open, and chosen by this mask."""
        return self.is_open and (self.mask is mask or np.array_equal(self.mask, mask))

    def __getitem__(self, index: Any) -> Any:
        rest = index[1:] if isinstance(index, tuple) else ()
        if not self.is_open or not rest or index[0] != slice(None) or any(x is None or x is ... for x in rest):
            return super().__getitem__(index)
        return self._with(self.everything[(*(slice(None),) * self.mask.ndim, *rest)])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        out = keywords.pop("out", ())
        first = next((x for x in inputs if isinstance(x, Selection)), self)
        targets = [x for x in out if x is not None]
        if ufunc is np.matmul and isinstance(inputs[0], Selection) and not (out or keywords):
            product = inputs[0].without_deciding(np.dot, inputs, {})
            if product is not NotImplemented:
                return product
        if (
            method != "__call__"
            or ufunc.signature is not None
            or keywords
            or ACTIVE.merging
            or not all(map(first._goes_with, inputs))
            or not all(isinstance(x, Selection) and x.chosen_by(first.mask) for x in targets)
        ):
            return super().__array_ufunc__(ufunc, method, *inputs, **keywords, **({"out": out} if targets else {}))
        result = ufunc(*(x.everything if isinstance(x, Selection) else x for x in inputs))
        if targets:
            (target,) = targets
            target.everything = result
            return target
        return tuple(map(first._with, result)) if isinstance(result, tuple) else first._with(result)

    def without_deciding(self, function: Any, arguments: Any, keywords: Any) -> Any:
        """What an array function makes of it while it stays open; NotImplemented if that settles it."""
        if function in _ATTRIBUTES and len(arguments) == 1:
            return getattr(self, _ATTRIBUTES[function])
        if ACTIVE.merging or not all(map(self._goes_with, arguments)):
            return NotImplemented
        if function in _ELEMENTWISE and all(map(self._goes_with, keywords.values())):
            given = [x.everything if isinstance(x, Selection) else x for x in arguments]
            return self._with(function(*given, **keywords))
        if function in _PRODUCTS and len(arguments) == 2 and not keywords:
            one, other = arguments
            return np.sum(one * other) if isinstance(other, Selection) and one.everything.ndim == 1 else NotImplemented
        fold = _FOLDS.get(function)
        if fold is None or len(arguments) > 1 or keywords or self.everything.ndim > self.mask.ndim:
            return NotImplemented
        return fold(self, TracedArray(self.tape, self.mask, boolean=True))

    def _goes_with(self, operand: Any) -> bool:
        """Whether an operand is chosen by the same mask, or is the same for all entries."""
        if isinstance(operand, Selection):
            return operand.chosen_by(self.mask)
        return self.is_open and np.ndim(operand) <= self.everything.ndim - self.mask.ndim

    def _with(self, everything: Any) -> Selection:
        return Selection(everything, self.mask)

    def _count(self) -> int:
        """How many entries there are at the given point; kept as a guard."""
        count = np.sum(TracedArray(self.tape, self.mask, boolean=True))
        return whole(self.tape, count.entries, "index")


def _filled(selection: Selection, mask: TracedArray, neutral: float) -> Any:
    return np.where(mask, selection.everything, neutral)


def _extreme(function: Callable[[Any], Any], neutral: float) -> Callable[[Selection, TracedArray], Any]:
    def fold(selection: Selection, mask: TracedArray) -> Any:
        some: Any = np.any(mask)
        if not (truth(selection.tape, some.entries) if depends(some) else some):  # NumPy raises for none
            return function(np.zeros(0))
        return function(_filled(selection, mask, neutral))

    return fold


#: Functions of all entries, given the selection and its mask.
_FOLDS: Final[dict[Any, Callable[[Selection, TracedArray], Any]]] = {
    np.sum: lambda selection, mask: np.sum(_filled(selection, mask, 0.0)),
    np.prod: lambda selection, mask: np.prod(_filled(selection, mask, 1.0)),
    np.mean: lambda selection, mask: np.sum(_filled(selection, mask, 0.0)) / np.sum(mask),
    np.var: lambda selection, mask: np.mean((selection - np.mean(selection)) ** 2),
    np.std: lambda selection, mask: np.sqrt(np.var(selection)),
    np.linalg.norm: lambda selection, mask: np.linalg.norm(_filled(selection, mask, 0.0)),
    np.any: lambda selection, mask: np.any(np.logical_and(mask, selection.everything)),
    np.all: lambda selection, mask: np.all(np.logical_or(np.logical_not(mask), selection.everything)),
    **dict.fromkeys((np.max, np.amax), _extreme(np.max, -np.inf)),
    **dict.fromkeys((np.min, np.amin), _extreme(np.min, np.inf)),
}


def _select(tape: Tape, everything: TracedArray, mask: References, keywords: Any) -> Selection:
    return Selection(everything.copy(), mask)


def _without_deciding(tape: Tape, function: Any, arguments: Any, keywords: Any) -> Any:
    return arguments[0].without_deciding(function, arguments, keywords)


PROTOCOLS.update({"selection": _select, "without deciding": _without_deciding})
