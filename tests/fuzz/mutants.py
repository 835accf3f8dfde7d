"""Mistakes that are put into the library one at a time, each of which random programs have to notice.

A mutant spoils one place: a rule of a derivative, what a target writes, sums of a sweep over the graph, where a batch
finds its points, Taylor coefficients, sparse patterns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final
from unittest import mock

import numpy as np
from inside import BY_NAME

from accumulus.elimination import emit
from accumulus.programs import sparse
from accumulus.tape import partials, taylor
from accumulus.tape.tape import SUBTRACT
from accumulus.targets import jax_source, numpy_source
from accumulus.targets.c import c_source
from accumulus.targets.kernel import Batch
from accumulus.targets.llvm import instructions, vectors


@contextmanager
def _rule(name: str, *texts: str) -> Iterator[None]:
    """Another derivative of an operation, in the expressions of the table."""
    right = partials._writers
    wrong = tuple(partials._compile(text) for text in texts)
    with mock.patch.object(partials, "_writers", lambda code: wrong if code == BY_NAME[name].code else right(code)):
        yield


def _changed(owner: Any, name: str, change: Callable[..., Any]) -> AbstractContextManager[Any]:
    """A function whose results are changed; `change` takes the result, then the arguments."""
    right = getattr(owner, name)
    return mock.patch.object(owner, name, lambda *given, **options: change(right(*given, **options), *given))


def _spelled(printer: Any, name: str, wrong: str) -> AbstractContextManager[Any]:
    """Another spelling of an operation in one target."""
    return _changed(printer, "template", lambda right, _, code: wrong if code == BY_NAME[name].code else right)


@contextmanager
def _nearer_points() -> Iterator[None]:
    """Blocks of the target llvm lie one number too close."""
    right = vectors.Signature.strides
    wrong = property(lambda self: {name: max(stride - 1, 1) for name, stride in right.fget(self).items()})
    with mock.patch.object(vectors.Signature, "strides", wrong):
        yield


MUTANTS: Final[dict[str, Callable[[], AbstractContextManager[Any]]]] = {
    "the derivative of sin": partial(_rule, "sin", "-cos(x)"),
    "the derivative of tanh": partial(_rule, "tanh", "1 - v"),
    "the derivative of a quotient by its divisor": partial(_rule, "divide", "1 / y", "v / y"),
    "maximum in the target numpy": partial(_spelled, numpy_source._PointPrinter, "maximum", "np.minimum({0}, {1})"),
    "square roots in the source for JAX": partial(_spelled, jax_source._JaxBodies, "sqrt", "jnp.cbrt({0})"),
    "maximum in the target llvm": lambda: mock.patch.object(
        instructions.Instructions,
        "_extremum",
        lambda self, _, right=instructions.Instructions._extremum: right(self, "olt"),
    ),
    "sums of a sweep over the graph": lambda: mock.patch.object(emit, "ADD", SUBTRACT),
    "points of a batch in the target llvm": _nearer_points,
    "points of a batch in the target numpy": lambda: mock.patch.object(
        Batch,
        "store",
        lambda self, points, columns, right=Batch.store: right(self, points, [each[..., ::-1] for each in columns]),
    ),
    "points of a batch in the target c": lambda: _changed(
        c_source.CSource,
        "_batch",
        lambda right, _: re.sub(r", (\d+), 1\b", lambda found: f", {max(int(found[1]) - 1, 0)}, 1", right),
    ),
    "weights of Taylor coefficients": lambda: mock.patch.object(
        taylor._Arithmetic,
        "_convolved",
        lambda self, *given, right=taylor._Arithmetic._convolved, **_: right(self, *given),
    ),
    "rows of a sparse matrix": lambda: mock.patch.object(
        sparse.SparsePattern,
        "matrix",
        lambda self, data, right=sparse.SparsePattern.matrix: right(self, np.ascontiguousarray(data[::-1])),
    ),
}
