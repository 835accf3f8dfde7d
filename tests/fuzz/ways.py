"""Other ways to run a derivative: in a batch, from a file or a pickle, from its source."""

from __future__ import annotations

import pickle
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from calls import Disagreement
from scalars import Undecided
from truths import Floats
from with_jax import MISSING

import accumulus as acc
from accumulus.errors import ArgumentError, CompileError, TraceError

LARGE: Final = 1e15
#: XLA takes minutes and gigabytes for programs of many operations.
LONG: Final = 300
#: How far arguments are moved, relatively, to see whether rounding decides a result.
ASIDE: Final = 1e-6


def in_another_way(
    derivative: Any,
    arguments: Any,
    way: str,
    result: Any,
    dtype: str,
    xla: bool = True,
    demanded: bool = False,
) -> bool:
    """Hold what a derivative returned against a batch of it, a file of it, or its source; False if it has no such way.

    Args:
        derivative, arguments: derivative that was called, and with what.
        way: batch, file, numpy or jax.
        result: what it returned.
        dtype: of the derivative.
        xla: whether XLA compiles the source for JAX; else it runs operation by operation.
        demanded: whether a language must have a source for it.

    Raises:
        Disagreement: if they differ.
        CompileError: if `demanded`, where a language has no source for it.
    """
    if way == "alone" or not isinstance(derivative, acc.Derivative):
        return False
    if way == "batch":
        together = tuple(_stacked(each, 3) for each in arguments)
        parts = derivative.batch(*together)
        for one, several in zip(arrays_of(result), arrays_of(parts), strict=True):
            if not hasattr(one, "toarray"):
                demand_close(np.broadcast_to(one, np.shape(several)), several, "batch", dtype)
        return True
    if way == "file":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "f.accumulus")
            acc.save(derivative, path)
            loaded = acc.load(path)
        for again in (loaded, pickle.loads(pickle.dumps(loaded))):
            for one, other in zip(arrays_of(result), arrays_of(again(*arguments)), strict=True):
                if not np.array_equal(_numbers(one), _numbers(other), equal_nan=True):
                    raise Disagreement(f"file: {one} and {other}")
        return True
    program = derivative.compile(*arguments)
    if way == "jax" and (MISSING is not None or (xla and program.operations > LONG)):
        return False
    try:
        text = program.source(way)
    except CompileError:  # no loops, or no such function in that language
        if demanded:
            raise
        return False
    names: dict[str, Any] = {}
    exec(compile(text, "<source>", "exec"), names)
    loaded = partial(_run_source, names["f"], way, dtype, xla)
    try:
        _demand_same(result, loaded(arguments), way, dtype)
    except Disagreement:
        # where rounding decides, as in ceil(log10(0.1)), libraries agree beside the point; the sine of 1e169 is another
        # for the next numbers, whichever library computes it
        beside = _moved(arguments, ASIDE)
        try:
            _demand_same(derivative(*beside), loaded(beside), way, dtype)
        except Disagreement:
            if _is_of_last_places(derivative, arguments, result, way, dtype):
                raise Undecided("the last places of arguments decide") from None
            if _is_saturated(derivative, arguments):
                raise Undecided("a function of a rounded limit, as log1p(tanh(-59))") from None
            raise
        raise Undecided(f"the source for {way} rounds what decides") from None
    return True


def _is_saturated(derivative: acc.Derivative, arguments: Any) -> bool:
    """Whether the derivative, as written, is not finite: XLA simplifies quotients that are 0/0."""
    plain = acc.jacobian(derivative.__wrapped__, optimise=False, cache=False, check=False, target="numpy")
    try:
        return not all(np.isfinite(each).all() for each in arrays_of(plain(*arguments)))
    except (ArgumentError, TraceError):
        return False


def _is_of_last_places(derivative: Any, arguments: Any, result: Any, way: str, dtype: str) -> bool:
    """Whether a derivative is another where its arguments are the next numbers."""
    next_to = _moved(arguments, float(np.finfo(dtype).eps))
    try:
        _demand_same(result, arrays_of(derivative(*next_to)), way, dtype)
    except Disagreement:
        return True
    return False


def _run_source(f: Any, way: str, dtype: str, xla: bool, arguments: Any) -> Any:
    """Call a source for NumPy or JAX."""
    leaves = [np.asarray(leaf, dtype) for leaf in leaves_of(_without_none(arguments))]
    if way == "numpy":
        return f(*leaves)
    import jax

    jax.config.update("jax_enable_x64", True)
    if xla:
        return jax.jit(f)(*leaves)
    with jax.disable_jit():
        return f(*leaves)


def _demand_same(result: Any, of_source: Any, way: str, dtype: str) -> None:
    own = arrays_of(result)
    for one, other in zip(own, of_source[: len(own)], strict=True):  # whether guards hold comes last
        demand_close(_numbers(one), np.asarray(other), f"source for {way}", dtype)


def _moved(tree: Any, reach: float) -> Any:
    """Return arguments that are a little larger, but for zeros."""
    if isinstance(tree, dict):
        return {key: _moved(each, reach) for key, each in tree.items()}
    if isinstance(tree, (tuple, list)):
        return like(tree, [_moved(each, reach) for each in tree])
    return None if tree is None else np.asarray(tree, float) * (1.0 + reach)


def _without_none(tree: Any) -> Any:
    if isinstance(tree, (tuple, list)):
        return [_without_none(each) for each in tree if each is not None]
    return {k: _without_none(each) for k, each in tree.items() if each is not None} if isinstance(tree, dict) else tree


def _stacked(tree: Any, count: int) -> Any:
    if isinstance(tree, dict):
        return {key: _stacked(each, count) for key, each in tree.items()}
    if isinstance(tree, (tuple, list)):
        return like(tree, [_stacked(each, count) for each in tree])
    return None if tree is None else np.stack([np.asarray(tree, float)] * count)


def arrays_of(tree: Any) -> list[Any]:
    """The arrays of a structure, in order."""
    if isinstance(tree, dict):
        return [array for each in tree.values() for array in arrays_of(each)]
    if isinstance(tree, (tuple, list)):
        return [array for each in tree for array in arrays_of(each)]
    return [] if tree is None else [tree]


def _numbers(array: Any) -> Floats:
    return np.ravel(array.data if hasattr(array, "toarray") else array)


def demand_close(one: Floats, other: Floats, what: str, dtype: str) -> None:
    """Equal up to what other libraries' functions, fused products and their consequences do."""
    one, other = np.ravel(one), np.ravel(other)
    if one.shape != other.shape:
        raise Disagreement(f"{what}: shapes {one.shape} and {other.shape}")
    finite = np.isfinite(one) & np.isfinite(other)
    if what.startswith("source") and np.abs(one[finite]).max(initial=0.0) > LARGE:
        return  # functions of large arguments are others: a remainder of sinh(335) is of its last digits
    limit = (1e-6 if dtype == "float64" else 1e-2) * (1 + np.abs(one[finite]).max(initial=0.0))
    if np.any(np.abs(one[finite] - other[finite]) > limit) or np.any(np.isfinite(one) != np.isfinite(other)):
        raise Disagreement(f"{what}: {one} and {other}")


def leaves_of(tree: Any) -> list[Floats]:
    if isinstance(tree, dict):
        return [leaf for each in tree.values() for leaf in leaves_of(each)]
    if isinstance(tree, (tuple, list)):
        return [leaf for each in tree for leaf in leaves_of(each)]
    return [np.asarray(tree, float)]


def like(tree: Any, parts: list[Any]) -> Any:
    """A list, a tuple, or a named tuple of other parts."""
    return tree._make(parts) if hasattr(tree, "_make") else type(tree)(parts)
