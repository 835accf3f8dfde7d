"""Functions back into CasADi, with compiled derivatives: `accumulus.casadi.external`, `accumulus.casadi.nlpsol`.

The way in needs no name: `accumulus.jacobian` and the rest take a `casadi.Function` as it is.

>>> import casadi as ca, numpy as np, accumulus as acc
>>> x = ca.SX.sym("x", 2)
>>> acc.jacobian(ca.Function("f", [x], [ca.vertcat(x[0] * x[1], ca.sin(x[0]))]))(np.array([0.0, 2.0]))
array([[2., 0.],
       [1., 0.]])
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Unpack

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from accumulus.api.casadi_source import by_columns, nlp_source
from accumulus.api.jacobians import value_and_jacobian
from accumulus.errors import ArgumentError
from accumulus.frontends.location import name_of
from accumulus.options import Given, shows_options
from accumulus.programs.sparse import SparsePattern
from accumulus.targets.c.c_compiler import shared_library

__all__ = ["external", "nlpsol"]

Shape = tuple[int, ...]
#: What loops are compiled with: all else that compilers try takes as long again, and wins nothing measurable.
QUICKLY: Final = ("-O1", "-ftree-vectorize")


@shows_options
def external(f: Callable[..., Any], *examples: Any, name: str | None = None, **options: Unpack[Given]) -> Any:
    """A function as a `casadi.Function` whose values and Jacobian are computed by compiled code.

    It is differentiated once: its Jacobian has no derivatives in CasADi. In `casadi.nlpsol` with Ipopt this means
    ``{"ipopt.hessian_approximation": "limited-memory"}``; `nlpsol` of this module gives second derivatives, too.

    Args:
        f: what `accumulus.jacobian` takes: a function of numbers and NumPy arrays; a function of JAX, expressions of
            SymPy, a `casadi.Function`.
        examples: arguments of the right shapes: numbers, vectors, which are columns, and matrices.
        name: of the function in CasADi; by default its own.
        options: those of `accumulus.jacobian`, but for `sparse`: the Jacobian has the structural nonzeros only.

    Returns:
        A `casadi.Function` with an input for each argument, and an output for each array that `f` returns.

    Raises:
        ArgumentError: for an argument or a result with more than two axes, or that is no number.
        TraceError: if `f` cannot be recorded.

    >>> import casadi as ca, numpy as np, accumulus as acc
    >>> f = acc.casadi.external(lambda x, k: k * np.sin(x), np.zeros(2), 1.0, name="f")
    >>> x = ca.MX.sym("x", 2)
    >>> J = ca.Function("J", [x], [ca.jacobian(f(x, 3.0), x)])
    >>> print(J([0.0, 0.0]))
    [[3, 00],
     [00, 3]]
    """
    return _External(name or _name(f), _Compiled(f, examples, options))


@shows_options
def nlpsol(
    name: str,
    solver: str,
    f: Callable[..., Any],
    g: Callable[..., Any],
    x: Any,
    p: Any = None,
    solver_options: dict[str, Any] | None = None,
    **options: Unpack[Given],
) -> Any:
    """`casadi.nlpsol` of a nonlinear program whose functions, derivatives and second derivatives are compiled C.

    It minimises f(x, p) subject to lbx ≤ x ≤ ubx and lbg ≤ g(x, p) ≤ ubg. Gradient, Jacobian and Hessian of the
    Lagrangian are planned here, with their patterns, and compiled by the machine's C compiler; the solver calls them
    without Python.

    Args:
        name: of the solver.
        solver: of CasADi's: "ipopt", "sqpmethod", ….
        f: what `accumulus.jacobian` takes; it returns one number.
        g: the same; it returns a vector or a number.
        x, p: examples of variables and parameters, vectors or numbers; without parameters f and g take x alone.
        solver_options: those of `casadi.nlpsol`.
        options: those of `accumulus.jacobian`, but for `sparse`, `dtype` and `target`.

    Returns:
        A `casadi.Function`, as `casadi.nlpsol` makes it.

    Raises:
        ArgumentError: if x or p have more axes, or f and g return anything else.
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
    # once it is loaded, the file is not needed
    with tempfile.TemporaryDirectory(prefix="accumulus-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "nlp.so")
        shared_library(text, path, QUICKLY)
        return ca.nlpsol(name, solver, str(path), solver_options or {})


def _name(f: Any) -> str:
    """A name that CasADi allows."""
    own = f.name() if isinstance(f, ca.Function) else name_of(f)
    return own if ca.Function.check_name(own) else "f"


@dataclass(frozen=True, slots=True)
class _Block:
    """Derivative of one result by one argument: its pattern in CasADi, by columns, and which nonzero comes when."""

    sparsity: Any
    order: NDArray[np.intp]

    @classmethod
    def of(cls, pattern: SparsePattern, result: Shape, argument: Shape) -> _Block:
        rows, columns = by_columns(result)[pattern.rows], by_columns(argument)[pattern.columns]
        order = np.lexsort((rows, columns))
        starts = np.searchsorted(columns[order], np.arange(pattern.shape[1] + 1))
        return cls(ca.Sparsity(*pattern.shape, starts.tolist(), rows[order].tolist()), order)


class _Compiled:
    """The compiled value and Jacobian, at the last point kept: solvers ask for one after the other."""

    def __init__(self, f: Any, examples: Sequence[Any], options: Given) -> None:
        points = [np.array(example, float) for example in examples]
        given: Any = {**options, "sparse": "coo"}
        self._derivative = value_and_jacobian(f, tuple(range(len(points))), **given)
        program = self._derivative.compile(*points)
        self.inputs = [point.shape for point in points]
        self.outputs = list(program.recording.result_shapes)
        if wrong := [shape for shape in (*self.inputs, *self.outputs) if len(shape) > 2]:
            raise ArgumentError(f"an array has shape {wrong[0]}; CasADi has matrices, of two axes at most")
        patterns = _leaves(program.pattern, SparsePattern)
        pairs = [(result, argument) for result in self.outputs for argument in self.inputs]
        self.blocks = [_Block.of(p, *pair) for p, pair in zip(patterns, pairs, strict=True)]
        self._point: list[NDArray[np.float64]] = []
        self._leaves: list[NDArray[Any]] = []

    def at(self, matrices: Sequence[Any]) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        """Results, and nonzeros of their derivatives."""
        point = [matrix.full().reshape(shape) for matrix, shape in zip(matrices, self.inputs, strict=False)]
        if not self._point or not all(map(np.array_equal, point, self._point)):
            self._leaves = list(_leaves(self._derivative.nonzeros(*point), (np.ndarray, float, np.floating)))
            self._point = point
        return self._leaves[: len(self.outputs)], self._leaves[len(self.outputs) :]


def _leaves(tree: Any, kinds: Any) -> Iterator[Any]:
    if isinstance(tree, kinds):
        yield tree
    else:
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from _leaves(item, kinds)


def _dense(shape: Shape) -> Any:
    return ca.Sparsity.dense(*shape, *[1] * (2 - len(shape)))


class _External(ca.Callback):
    """The function as CasADi calls it."""

    def __init__(self, name: str, compiled: _Compiled) -> None:
        ca.Callback.__init__(self)
        self._compiled = compiled
        self._jacobians: list[Any] = []  # CasADi does not keep them
        self.construct(name, {})

    def get_n_in(self) -> int:
        return len(self._compiled.inputs)

    def get_n_out(self) -> int:
        return len(self._compiled.outputs)

    def get_sparsity_in(self, position: int) -> Any:
        return _dense(self._compiled.inputs[position])

    def get_sparsity_out(self, position: int) -> Any:
        return _dense(self._compiled.outputs[position])

    def eval(self, arguments: Sequence[Any]) -> list[Any]:
        return [ca.DM(value) for value in self._compiled.at(arguments)[0]]

    def has_jac_sparsity(self, result: int, argument: int) -> bool:
        return True

    def get_jac_sparsity(self, result: int, argument: int, symmetric: bool) -> Any:
        return self._compiled.blocks[result * self.n_in() + argument].sparsity

    def has_jacobian(self) -> bool:
        return True

    def get_jacobian(self, name: str, inputs: Sequence[str], outputs: Sequence[str], options: Any) -> Any:
        self._jacobians.append(_Jacobian(name, self._compiled, inputs, outputs, options))
        return self._jacobians[-1]


class _Jacobian(ca.Callback):
    """Its Jacobian: the arguments, and the results, which it does not need, to a block for each pair."""

    def __init__(
        self, name: str, compiled: _Compiled, inputs: Sequence[str], outputs: Sequence[str], options: Any
    ) -> None:
        ca.Callback.__init__(self)
        self._compiled, self._names = compiled, (inputs, outputs)
        self.construct(name, options)

    def get_n_in(self) -> int:
        return len(self._compiled.inputs) + len(self._compiled.outputs)

    def get_n_out(self) -> int:
        return len(self._compiled.blocks)

    def get_name_in(self, position: int) -> str:
        return self._names[0][position]

    def get_name_out(self, position: int) -> str:
        return self._names[1][position]

    def get_sparsity_in(self, position: int) -> Any:
        return _dense([*self._compiled.inputs, *self._compiled.outputs][position])

    def get_sparsity_out(self, position: int) -> Any:
        return self._compiled.blocks[position].sparsity

    def eval(self, arguments: Sequence[Any]) -> list[Any]:
        nonzeros = self._compiled.at(arguments)[1]
        return [
            ca.DM(block.sparsity, values[block.order])
            for block, values in zip(self._compiled.blocks, nonzeros, strict=True)
        ]
