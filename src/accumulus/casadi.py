"""Functions with compiled derivatives for CasADi: `accumulus.casadi.external` and `accumulus.casadi.nlpsol`.

For the other direction, `accumulus.jacobian` and the other functions accept a `casadi.Function` directly.

>>> import casadi as ca, numpy as np, accumulus as acc
>>> x = ca.SX.sym("x", 2)
>>> acc.jacobian(ca.Function("f", [x], [ca.vertcat(x[0] * x[1], ca.sin(x[0]))]))(np.array([0.0, 2.0]))
array([[2., 0.],
       [1., 0.]])
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Final, Unpack

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from accumulus.api.casadi_source import WeightedSum, by_columns, leaves, nlp_source
from accumulus.api.jacobians import gradient, hessian, value_and_jacobian
from accumulus.errors import ArgumentError
from accumulus.frontends.location import name_of
from accumulus.options import OptionKeywords, refuse_assumptions, refuses, shows_options
from accumulus.programs.derivative import Derivative
from accumulus.programs.sparse import SparsePattern
from accumulus.targets.c.c_target import shared_library

__all__ = ["external", "nlpsol"]

Shape = tuple[int, ...]
Point = list[NDArray[np.float64]]
#: Compiler flags for loops: further optimisation doubles the compile time without a measurable gain.
QUICKLY: Final = ("-O1", "-ftree-vectorize")


@refuses("assume")
@shows_options
def external(f: Callable[..., Any], *examples: Any, name: str | None = None, **options: Unpack[OptionKeywords]) -> Any:
    """Return a function as a `casadi.Function` whose values and derivatives are computed by compiled code.

    CasADi requests derivatives as it needs them; each is planned and compiled at its first request. They are the
    Jacobian, for `casadi.jacobian` and products with it; and weights of the results times the Jacobian, whose own
    Jacobian is the Hessian of the weighted results, for `casadi.gradient`, `casadi.hessian` and solvers.

    Args:
        f: function as for `accumulus.jacobian`: of numbers and NumPy arrays, a function of JAX, expressions of SymPy,
            or a `casadi.Function`.
        examples: arguments of the right shapes: numbers, vectors, which become columns, and matrices.
        name: name of the function in CasADi; by default the name of `f`.
        options: options of `accumulus.jacobian`. `sparse` is ignored: the Jacobian always has the structural nonzeros
            only.

    Returns:
        A `casadi.Function` with an input for each argument, and an output for each array that `f` returns.

    Raises:
        ArgumentError: for an argument or a result with more than two axes, or one that is not a number. In calls,
            CasADi raises a RuntimeError instead, also at points in another case of `f` whose derivatives are nonzero
            where those at the examples are structurally zero.
        TraceError: if `f` cannot be recorded.

    >>> import casadi as ca, numpy as np, accumulus as acc
    >>> f = acc.casadi.external(lambda x, k: k * np.sin(x), np.zeros(2), 1.0, name="f")
    >>> x = ca.MX.sym("x", 2)
    >>> J = ca.Function("J", [x], [ca.jacobian(f(x, 3.0), x)])
    >>> print(J([0.0, 0.0]))
    [[3, 00],
     [00, 3]]
    """
    refuse_assumptions(options, "a function for CasADi", "whose arguments have other names")
    dense_options = {option: value for option, value in options.items() if option != "sparse"}
    points = [np.array(example, float) for example in examples]
    return _External.of(name or _name(f), _Compiled(f, points, dense_options))


@refuses("assume", "sparse", "dtype", "target")
@shows_options
def nlpsol(
    name: str,
    solver: str,
    f: Callable[..., Any],
    g: Callable[..., Any],
    x: Any,
    p: Any = None,
    solver_options: dict[str, Any] | None = None,
    **options: Unpack[OptionKeywords],
) -> Any:
    """Return `casadi.nlpsol` of a nonlinear program whose functions and derivatives are compiled C.

    It minimises f(x, p) subject to lbx ≤ x ≤ ubx and lbg ≤ g(x, p) ≤ ubg. accumulus plans the gradient, the Jacobian
    and the Hessian of the Lagrangian with their patterns, and the machine's C compiler compiles them; the solver calls
    them without Python.

    Args:
        name: name of the solver.
        solver: name of CasADi's plugin: "ipopt", "sqpmethod", ….
        f: objective, a function as for `accumulus.jacobian` that returns one number.
        g: constraints, a function as for `accumulus.jacobian` that returns a vector or a number.
        x: example of the variables, of shape (n,) or a number.
        p: example of the parameters, of shape (m,) or a number; None if f and g take x alone.
        solver_options: options of `casadi.nlpsol`.
        options: options of `accumulus.jacobian`, except `sparse`, `dtype` and `target`.

    Returns:
        A `casadi.Function`, as `casadi.nlpsol` makes it.

    Raises:
        ArgumentError: if x or p has more than one axis, f does not return one number, or g neither a vector nor a
            number.
        TraceError: if f or g cannot be recorded.
        CompileError: if there is no C compiler.

    >>> import numpy as np, accumulus as acc
    >>> quiet = {"ipopt.print_level": 0, "ipopt.sb": "yes", "print_time": False}
    >>> solve = acc.casadi.nlpsol("s", "ipopt", lambda x: np.sum((x - 1.0) ** 2), lambda x: x[0] * x[1], np.ones(2),
    ...                           solver_options=quiet)
    >>> print(np.round(np.array(solve(x0=[3.0, 1.0], lbg=4.0)["x"]).ravel(), 6))
    [2. 2.]
    """
    text = nlp_source(f, g, x, p, **options)
    # the file is needed only until it is loaded
    with tempfile.TemporaryDirectory(prefix="accumulus-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "nlp.so")
        shared_library(text, path, QUICKLY)
        return ca.nlpsol(name, solver, str(path), solver_options or {})


def _name(f: Any) -> str:
    """Return a name that CasADi accepts."""
    name = f.name() if isinstance(f, ca.Function) else name_of(f)
    return name if ca.Function.check_name(name) else "f"


class _Block:
    """Derivative of one result with respect to one argument: its CasADi pattern, and the order of its nonzeros."""

    def __init__(self, pattern: SparsePattern, result: Shape, argument: Shape) -> None:
        self._pattern, self._shapes = pattern, (result, argument)
        self._positions, self._order = self._sorted(pattern)
        rows, columns = self._positions % pattern.shape[0], self._positions // pattern.shape[0]
        starts = np.searchsorted(columns, np.arange(pattern.shape[1] + 1))
        self.sparsity = ca.Sparsity(*pattern.shape, starts.tolist(), rows.tolist())

    def matrix(self, values: NDArray[Any], pattern: SparsePattern | None) -> Any:
        """Return the matrix of nonzeros; `pattern` is their pattern if it differs from the examples', else None.

        Raises:
            ArgumentError: if there are nonzeros outside of CasADi's pattern.
        """
        if pattern is None:
            return ca.DM(self.sparsity, values[self._order])
        places, order = self._sorted(pattern)
        values, is_expected = values[order], np.isin(places, self._positions)
        if np.any(values[~is_expected] != 0.0):
            raise ArgumentError(
                "at this point the function takes another branch than at the examples, and its derivative has "
                "nonzeros that it did not have there; CasADi needs one pattern, so pass an example at such a point, "
                "too, or write both branches as one expression, such as numpy.where"
            )
        nonzeros = np.zeros(len(self._positions))
        nonzeros[np.searchsorted(self._positions, places[is_expected])] = values[is_expected]
        return ca.DM(self.sparsity, nonzeros)

    def weighted(
        self, weights: NDArray[np.float64], values: NDArray[Any], pattern: SparsePattern | None
    ) -> NDArray[np.float64]:
        """Return weights of the result times the derivative, as an array of the argument's shape."""
        where = pattern or self._pattern
        products = weights.ravel()[where.rows] * values
        totals = np.bincount(where.columns, products, where.shape[1]).astype(float, copy=False)
        return totals.reshape(self._shapes[1])

    def _sorted(self, pattern: SparsePattern) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the places of nonzeros in CasADi's column-by-column order, and the permutation to that order."""
        result, argument = self._shapes
        places = by_columns(argument)[pattern.columns] * pattern.shape[0] + by_columns(result)[pattern.rows]
        order = np.argsort(places)
        return places[order], order


class _Nonzeros:
    """A compiled derivative with respect to all arguments; it stores the last point, which solvers query repeatedly.

    Args:
        derivative: derivative that returns arrays, followed by nonzeros of matrices.
        points: examples of the arguments.
        results: shapes of the differentiated results.
    """

    def __init__(
        self, derivative: Derivative, points: Sequence[NDArray[np.float64]], results: Sequence[Shape] | None = None
    ) -> None:
        self._derivative = derivative
        self._program = derivative.compile(*points)
        self._captured = derivative._watched.captured
        self.results = list(self._program.recording.result_shapes) if results is None else list(results)
        patterns = list(leaves(self._program.pattern, SparsePattern))
        self._count = len(patterns)
        pairs = product(self.results, [point.shape for point in points])
        self.blocks = [_Block(pattern, *pair) for pattern, pair in zip(patterns, pairs, strict=False)]
        self._last: tuple[Point, list[NDArray[Any]], list[SparsePattern | None]] | None = None

    def arrays(self, point: Point) -> list[NDArray[Any]]:
        """Return the arrays that the derivative returns before the matrices."""
        results, _ = self._at(point)
        return results[: len(results) - self._count]

    def matrices(self, point: Point) -> list[Any]:
        """Return the derivative of each result with respect to each argument."""
        results, patterns = self._at(point)
        return list(map(_Block.matrix, self.blocks, results[len(results) - self._count :], patterns))

    def weighted(self, point: Point, weights: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Return weights of the results times the derivatives, summed for each argument."""
        results, patterns = self._at(point)
        blocks = zip(self.blocks, results[len(results) - self._count :], patterns, strict=False)
        totals = [np.zeros(each.shape) for each in point]
        for (weight, k), (block, nonzeros, pattern) in zip(product(weights, range(len(totals))), blocks, strict=True):
            totals[k] += block.weighted(weight, nonzeros, pattern)
        return totals

    def _at(self, point: Point) -> tuple[list[NDArray[Any]], list[SparsePattern | None]]:
        if self._last is None or not all(map(np.array_equal, point, self._last[0])):
            results = list(leaves(self._derivative.nonzeros(*point), (np.ndarray, float, np.floating)))
            # other cases of the function, and changed captured values, may have nonzeros elsewhere
            settled = not self._program.is_guarded and self._derivative._watched.captured is self._captured
            program = self._program if settled else self._derivative.compile(*point)
            is_original = program is self._program
            patterns = [None] * self._count if is_original else list(leaves(program.pattern, SparsePattern))
            self._last = point, results, patterns
        return self._last[1:]


class _Compiled:
    """A function with its Jacobian.

    Attributes:
        function: the differentiated function.
        points: examples of its arguments.
        options: options of its derivatives.
        inputs, outputs: shapes of arguments and results.
    """

    def __init__(self, function: Any, points: Sequence[NDArray[np.float64]], options: Any) -> None:
        self.function, self.points, self.options = function, points, options
        self.inputs = [point.shape for point in points]
        self.outputs = self.nonzeros.results
        if wrong := [shape for shape in (*self.inputs, *self.outputs) if len(shape) > 2]:
            raise ArgumentError(f"an array has shape {wrong[0]}; CasADi has matrices, of two axes at most")

    @cached_property
    def nonzeros(self) -> _Nonzeros:
        """Results and derivatives."""
        return _Nonzeros(self._derivative(value_and_jacobian, self.function, sparse="coo"), self.points)

    def values(self, point: Point) -> list[Any]:
        """Return the results."""
        return [ca.DM(value) for value in self.nonzeros.arrays(point)]

    @cached_property
    def weighted(self) -> _Weighted:
        """Weights of the results times the Jacobian."""
        return _Weighted(self)

    def _derivative(self, kind: Callable[..., Derivative], function: Any, **more: Any) -> Derivative:
        return kind(function, tuple(range(len(self.inputs))), **self.options, **more)


class _Weighted(_Compiled):
    """Weights of a function's results times its Jacobian; its own Jacobian is the Hessian of the weighted sum.

    The Hessian is planned at its first use. The products use the Jacobian's nonzeros, which solvers query, too.
    """

    def __init__(self, of: _Compiled) -> None:
        self._of, self._sum = of, WeightedSum(of.function, len(of.inputs))
        self.points, self.options = [*of.points, *map(np.ones, of.outputs)], of.options
        self.inputs, self.outputs = [*of.inputs, *of.outputs], of.inputs
        self.function = of._derivative(gradient, self._sum)

    @cached_property
    def nonzeros(self) -> _Nonzeros:
        return _Nonzeros(self._derivative(hessian, self._sum, sparse="coo"), self.points, self.outputs)

    def values(self, point: Point) -> list[Any]:
        count = len(self.outputs)
        return list(map(ca.DM, self._of.nonzeros.weighted(point[:count], point[count:])))


def _dense(shape: Shape) -> Any:
    return ca.Sparsity.dense(*shape, *[1] * (2 - len(shape)))


@dataclass(frozen=True)
class _ArrayInCasadi:
    """An argument or a result of a function in CasADi.

    Attributes:
        shape: shape of the array.
        position: position among the arguments or results of the compiled function. None for results that CasADi passes
            as arguments, on which nothing depends, and for derivatives with respect to them, which are zero.
    """

    shape: Shape
    position: int | None


class _Callback(ca.Callback):
    """A function that CasADi calls.

    Args:
        name: name of the function.
        inputs: arguments; they are dense.
        outputs: patterns of the results.
        names: names of arguments and results, if CasADi passes them.
        options: options of CasADi.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[_ArrayInCasadi],
        outputs: Sequence[Any],
        names: Sequence[Sequence[str]],
        options: Any,
    ) -> None:
        ca.Callback.__init__(self)
        self._inputs, self._outputs, self._names = inputs, outputs, names
        self._made: list[Any] = []  # CasADi does not keep its functions alive
        self.construct(name, options)

    def get_n_in(self) -> int:
        return len(self._inputs)

    def get_n_out(self) -> int:
        return len(self._outputs)

    def get_name_in(self, position: int) -> str:
        return self._names[0][position] if self._names else f"i{position}"

    def get_name_out(self, position: int) -> str:
        return self._names[1][position] if self._names else f"o{position}"

    def get_sparsity_in(self, position: int) -> Any:
        return _dense(self._inputs[position].shape)

    def get_sparsity_out(self, position: int) -> Any:
        return self._outputs[position]

    def _point(self, matrices: Sequence[Any]) -> Point:
        """Return the arguments of the compiled function."""
        pairs = zip(matrices, self._inputs, strict=False)
        return [matrix.full().reshape(array.shape) for matrix, array in pairs if array.position is not None]


class _External(_Callback):
    """A compiled function."""

    def __init__(
        self,
        name: str,
        compiled: _Compiled,
        inputs: Sequence[_ArrayInCasadi],
        outputs: Sequence[_ArrayInCasadi],
        names: Sequence[Sequence[str]] = (),
        options: Any = None,
    ) -> None:
        self._compiled, self._results = compiled, outputs
        super().__init__(name, inputs, [_dense(array.shape) for array in outputs], names, options or {})

    @classmethod
    def of(cls, name: str, compiled: _Compiled) -> _External:
        """Return the CasADi function of a user's function."""
        inputs, outputs = (
            [_ArrayInCasadi(shape, k) for k, shape in enumerate(shapes)]
            for shapes in (compiled.inputs, compiled.outputs)
        )
        return cls(name, compiled, inputs, outputs)

    def eval(self, arguments: Sequence[Any]) -> list[Any]:
        values = self._compiled.values(self._point(arguments))
        return [
            ca.DM.zeros(self._outputs[k].shape) if array.position is None else values[array.position]
            for k, array in enumerate(self._results)
        ]

    def has_jac_sparsity(self, result: int, argument: int) -> bool:
        return True

    def get_jac_sparsity(self, result: int, argument: int, symmetric: bool) -> Any:
        row, column = self._results[result], self._inputs[argument]
        block = self._block(row, column)
        if block is None:
            return ca.Sparsity(int(np.prod(row.shape)), int(np.prod(column.shape)))
        return self._compiled.nonzeros.blocks[block].sparsity

    def has_jacobian(self) -> bool:
        return True

    def get_jacobian(self, name: str, inputs: Sequence[str], outputs: Sequence[str], options: Any) -> Any:
        arguments = range(len(self._inputs))
        pairs = list(product(range(len(self._results)), arguments))
        patterns = [self.get_jac_sparsity(result, argument, False) for result, argument in pairs]
        blocks = [self._block(self._results[result], self._inputs[argument]) for result, argument in pairs]
        all_inputs = [*self._inputs, *(_ArrayInCasadi(array.shape, None) for array in self._results)]
        self._made.append(_Jacobian(name, self._compiled, blocks, all_inputs, patterns, (inputs, outputs), options))
        return self._made[-1]

    def has_reverse(self, weights: int) -> bool:
        return weights == 1

    def get_reverse(self, weights: int, name: str, inputs: Sequence[str], outputs: Sequence[str], options: Any) -> Any:
        weighted, count = self._compiled.weighted, len(self._compiled.inputs)
        all_inputs = [*self._inputs, *(_ArrayInCasadi(array.shape, None) for array in self._results)]
        all_inputs += [
            _ArrayInCasadi(p.shape, None if p.position is None else count + p.position) for p in self._results
        ]
        self._made.append(_External(name, weighted, all_inputs, self._inputs, (inputs, outputs), options))
        return self._made[-1]

    def _block(self, result: _ArrayInCasadi, argument: _ArrayInCasadi) -> int | None:
        """Return the index of the compiled derivative of a result with respect to an argument; None for zeros."""
        if result.position is None or argument.position is None:
            return None
        return result.position * len(self._compiled.inputs) + argument.position


class _Jacobian(_Callback):
    """The Jacobian of a compiled function of arguments and unused results, with one output block for each pair.

    Args:
        blocks: index of each block among the compiled function's derivatives; None for zeros.
    """

    def __init__(self, name: str, compiled: _Compiled, blocks: Sequence[int | None], *more: Any) -> None:
        self._compiled, self._blocks = compiled, blocks
        super().__init__(name, *more)

    def eval(self, arguments: Sequence[Any]) -> list[Any]:
        matrices = self._compiled.nonzeros.matrices(self._point(arguments))
        return [
            ca.DM(*pattern.shape) if block is None else matrices[block]
            for block, pattern in zip(self._blocks, self._outputs, strict=True)
        ]
