"""A stand-in for `numpy` whose arrays hold objects: symbols, or numbers of another precision.

NumPy's object arrays already add, multiply, index, reshape and contract whatever they hold. What they lack is here: new
arrays that accept objects as items, elementary functions, and the two members of `numpy.linalg` that insist on floats.
Linear systems are solved by Gaussian elimination, item by item. For CasADi that is a favour: its own `solve` of symbols
takes three times the operations.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Objects = NDArray[np.object_]


def _operator(combine: Callable[[Any, Any], Any], *, reflected: bool = False) -> Callable[[Scalar, Any], Any]:
    def method(self: Scalar, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        pair = (plain(other), self.value) if reflected else (self.value, plain(other))
        return Scalar(self.finish(combine(*pair)), self.finish)

    return method


class Scalar:
    """A number that NumPy leaves alone and that does something to the result of every operation.

    Args:
        value: whatever has arithmetic. CasADi's symbols need this wrapper: they answer to array protocols, and NumPy
            would take them apart.
        finish: applied to the value that an operation or function gives.
    """

    __slots__ = ("finish", "value")

    def __init__(self, value: Any, finish: Callable[[Any], Any]) -> None:
        self.value = value
        self.finish = finish

    def __neg__(self) -> Scalar:
        return Scalar(-self.value, self.finish)

    __add__ = _operator(operator.add)
    __sub__ = _operator(operator.sub)
    __mul__ = _operator(operator.mul)
    __truediv__ = _operator(operator.truediv)
    __pow__ = _operator(operator.pow)
    __radd__ = _operator(operator.add, reflected=True)
    __rsub__ = _operator(operator.sub, reflected=True)
    __rmul__ = _operator(operator.mul, reflected=True)
    __rtruediv__ = _operator(operator.truediv, reflected=True)


def plain(value: Any) -> Any:
    """Return the content of a `Scalar`; return other numbers unchanged."""
    return value.value if isinstance(value, Scalar) else value


def lifted(function: Callable[..., Any]) -> Callable[..., Scalar]:
    """The function of wrapped values as a function of scalars."""

    def call(*arguments: Any) -> Scalar:
        finish = next(argument.finish for argument in arguments if isinstance(argument, Scalar))
        return Scalar(finish(function(*map(plain, arguments))), finish)

    return call


class ObjectNamespace:
    """Looks like the module `numpy` to a function that is run on object arrays.

    Args:
        functions: elementary functions of single objects, under NumPy's names, or SciPy's: the attribute `special` has
            them, too.
        pivot: the size by which pivots of a linear system are chosen; None takes them in order, as symbols must.
    """

    def __init__(
        self, functions: Mapping[str, Callable[..., Any]], *, pivot: Callable[[Any], Any] | None = None
    ) -> None:
        self._functions = {name: _elementwise(name, function) for name, function in functions.items()}
        self._functions["abs"] = self._functions["absolute"]
        self.special = self
        self.linalg = _LinearAlgebra(self._functions["sqrt"], pivot)

    def __getattr__(self, name: str) -> Any:
        return self._functions.get(name) or getattr(np, name)

    @staticmethod
    def array(values: Any) -> Objects:
        """Array of the objects in nested lists and arrays."""
        return np.array(values, dtype=object)

    @staticmethod
    def zeros(shape: Any) -> Objects:
        """Zeros that objects may replace."""
        return np.zeros(shape, dtype=object)

    empty = zeros


class _LinearAlgebra:
    def __init__(self, sqrt: Callable[[Any], Any], pivot: Callable[[Any], Any] | None) -> None:
        self._sqrt = sqrt
        self._pivot = pivot

    def norm(self, x: Objects) -> Any:
        return self._sqrt(np.sum(x * x))

    def solve(self, A: Objects, b: Objects) -> Objects:
        """Gaussian elimination for one right-hand side."""
        A, b = A.astype(object), b.astype(object)
        size = len(b)
        for k in range(size):
            if self._pivot is not None:
                best = max(range(k, size), key=lambda i, k=k: self._pivot(A[i, k]))  # type: ignore[misc]
                A[[k, best]], b[[k, best]] = A[[best, k]], b[[best, k]]
            for i in range(k + 1, size):
                factor = A[i, k] / A[k, k]
                A[i, k + 1 :] = A[i, k + 1 :] - factor * A[k, k + 1 :]
                b[i] = b[i] - factor * b[k]
        x = np.zeros(size, dtype=object)
        for k in reversed(range(size)):
            x[k] = (b[k] - np.sum(A[k, k + 1 :] * x[k + 1 :])) / A[k, k]
        return x


def _elementwise(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function over object arrays; NumPy's own over anything else."""
    numeric = getattr(np, name, None)
    if numeric is None:
        from scipy import special

        numeric = getattr(special, name)
    over_objects = np.frompyfunc(function, numeric.nin, 1)

    def call(*arguments: Any) -> Any:
        has_objects = any(np.asarray(argument).dtype == object for argument in arguments)
        return (over_objects if has_objects else numeric)(*arguments)

    return call
