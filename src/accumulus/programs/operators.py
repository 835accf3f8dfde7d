"""Jacobians as linear operators of SciPy: their factors, computed once for each point, and products with these.

For straight-line code, the program computes the values and the labels of the edges that remain in the graph
(`accumulus.search.scarcity`). Products with these are two further programs, each compiled for its first product. For
loops, the only factor is the sparse Jacobian itself. A program's results are joined to a `JacobianOperator`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from accumulus.context import Context
from accumulus.elimination.emit import RemainingEdges, emit, remaining_graph
from accumulus.errors import ArgumentError
from accumulus.forks import Lock
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import Leaf, Structure, together, unflatten
from accumulus.graph.degrees import terminal_degrees
from accumulus.graph.linearize import Linearization
from accumulus.options import Options
from accumulus.programs.derivation import Derivation, loop_nest, straight_line
from accumulus.programs.graphs import inputs_of, linearize_arguments, plan_of
from accumulus.programs.kinds import COMPILED, VALUE_AND_JACOBIAN
from accumulus.programs.preparation import Preparation
from accumulus.programs.selection import Selection
from accumulus.resubstitution.optimise import rewrite
from accumulus.rewriting.canonical import canonical
from accumulus.search.scarcity import scarce_set
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape
from accumulus.targets import Kernel, Segment, compile_tape

Matrix = NDArray[Any]
#: "forward" for a product with the Jacobian, "reverse" for one with its transpose.
Direction = Literal["forward", "reverse"]


@dataclass(frozen=True)
class JacobianProducts:
    """Products with a Jacobian at one point."""

    forward: Callable[[Matrix], Matrix]  # (arguments, directions) → (results, directions)
    reverse: Callable[[Matrix], Matrix]  # (results, weights) → (arguments, weights)
    multiplications: int  # upper bound for one product, in either direction
    nonzeros: int  # structural nonzeros of the Jacobian


class JacobianOperator(LinearOperator):
    """Jacobian at one point as a linear operator of shape (entries of the results, entries of the arguments).

    It works wherever SciPy takes an operator: `matvec`, `rmatvec`, `matmat`, `rmatmat`, ``A @ v``, ``A.T @ w``.

    Attributes:
        value: value of the function at the point, in its structure.
        multiplications: number of multiplications of a product with one vector before rewriting, in either direction.
        nonzeros: number of structural nonzeros of the Jacobian; a product with the matrix takes one multiplication for
            each.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any], value: Any, products: JacobianProducts) -> None:
        super().__init__(dtype, shape)  # type: ignore[call-arg]  # missing in the type stubs
        self.value = value
        self.multiplications, self.nonzeros = products.multiplications, products.nonzeros
        self._products = products

    def matvec(self, x: Any) -> Any:
        """Return the product with a vector of shape (columns,) or (columns, 1).

        Raises:
            ArgumentError: for another shape, or an object that is not an array of numbers; all other products do the
                same.
        """
        return super().matvec(self._checked(x, 1))

    def rmatvec(self, x: Any) -> Any:
        """Return the product of the transposed Jacobian with a vector of shape (rows,) or (rows, 1)."""
        return self._transpose().matvec(x)

    def matmat(self, X: Any) -> Any:
        """Return the product with a matrix of shape (columns, k)."""
        return super().matmat(self._checked(X, 2))

    def rmatmat(self, X: Any) -> Any:
        """Return the product of the transposed Jacobian with a matrix of shape (rows, k)."""
        return self._transpose().matmat(X)

    def dot(self, x: Any) -> Any:
        """Return the product with a vector, a matrix, a number, or another operator."""
        if not isinstance(x, LinearOperator) and not np.isscalar(x):
            x = self._checked(x, 0)
        return super().dot(x)

    def _checked(self, x: Any, axes: int) -> Any:
        """Return a vector (`axes` is 1), a matrix (2) or either (0), after checking its rows: one for each column."""
        rows, columns = self.shape
        try:
            array = np.asanyarray(x)
        except ValueError:  # rows of different lengths
            array = np.empty((), object)
        is_vector = array.shape in ((columns,), (columns, 1))
        is_matrix = array.ndim == 2 and array.shape[0] == columns
        fits = is_vector if axes == 1 else is_matrix if axes == 2 else is_vector or is_matrix
        if fits and array.dtype.kind in "fiubc":
            return array
        description = f"{array.dtype} of shape {array.shape}" if array.dtype.kind != "O" else type(x).__name__
        expected = f"({columns}, k)" if axes == 2 else f"({columns},) or ({columns}, {'1' if axes else 'k'})"
        is_transposed = array.ndim and array.shape[0] == rows != columns
        hint = "; a product with the transposed one, A.T, takes this many" if is_transposed else ""
        raise ArgumentError(
            f"a Jacobian as an operator of shape {self.shape} was multiplied by {description}; expected real or "
            f"complex numbers of shape {expected}{hint}"
        )

    def _transpose(self) -> JacobianOperator:
        original = self._products
        products = replace(original, forward=original.reverse, reverse=original.forward)
        return JacobianOperator((self.shape[1], self.shape[0]), self.dtype, self.value, products)

    def _adjoint(self) -> JacobianOperator:
        return self._transpose()  # the Jacobian is real

    def _matvec(self, x: Matrix) -> Matrix:
        return self._matmat(x.reshape(-1, 1))

    def _rmatvec(self, x: Matrix) -> Matrix:
        return self._rmatmat(x.reshape(-1, 1))

    def _matmat(self, X: Matrix) -> Matrix:
        return _real(self._products.forward, X)

    def _rmatmat(self, X: Matrix) -> Matrix:
        return _real(self._products.reverse, X)


def _real(product: Callable[[Matrix], Matrix], X: Matrix) -> Matrix:
    """Return the product of a real matrix with a real or complex one."""
    X = np.asarray(X)
    if np.iscomplexobj(X):
        parts = product(np.hstack([X.real, X.imag]))
        combined: Matrix = parts[:, : X.shape[1]] + 1j * parts[:, X.shape[1] :]
        return combined
    return product(X)


# Programs of factors -------------------------------------------------------------------------------------------------


def factored(recording: Recording, selection: Selection, preparation: Preparation) -> Derivation:
    """Return straight-line code for the values and the labels of the remaining edges."""
    name, options = preparation.name, preparation.options
    with preparation.stage("linearize"):
        whole = linearize_arguments(recording, selection, name, joined=False)
    graph = whole.graph
    with preparation.stage("plan"):
        gone = scarce_set(graph, preparation.context)
        left, retained = remaining_graph(graph, gone)
        plan = plan_of(Linearization(left, (), whole.columns), preparation.context)
    with preparation.stage("emit"):
        tape = emit(plan.accumulation)
        places, _ = plan.accumulation.ordered_entries()
        ends, values = len(recording.tape.outputs), recording.results
        leading, labels = tape.outputs[:ends], np.array(tape.outputs[ends:], np.int64)
        inputs = inputs_of(recording, selection.positions)
        factors, factor_outputs = RemainingEdges.of(whole, inputs, retained, places, labels, tape)
        tape.outputs = [*leading[:values], *factor_outputs, *leading[values:]]
    of_roots = terminal_degrees(graph)[list(graph.roots)]
    # equal results share a root
    nonzeros = int(sum(of_roots[row] for row in whole.rows if row >= 0))
    structure = together([recording.structure, Leaf()])
    shapes = (*recording.result_shapes, (len(factor_outputs),))
    with_labels = recording.returning(Program.of(canonical(tape)), shapes, structure)
    made = straight_line(with_labels, COMPILED, Selection((), Leaf()), preparation)
    made.join = _ByFactors(recording.structure, factors, options, nonzeros)
    return made


def as_sparse_matrix(recording: Recording, selection: Selection, preparation: Preparation) -> tuple[Derivation, int]:
    """Return loops for the values and the sparse Jacobian, and the number of its structural nonzeros.

    Raises:
        SizeError: if the products between arrays are too many for memory.
    """
    made = loop_nest(recording, VALUE_AND_JACOBIAN, selection, preparation)
    shape = recording.results, len(inputs_of(recording, selection.positions))
    made.join = _BySparseMatrix(recording.structure, len(recording.result_shapes), len(selection.positions), shape)
    return made, len(made.nonzeros.rows)


@dataclass(frozen=True, slots=True)
class _BySparseMatrix:
    """Makes an operator from values and a sparse matrix for each pair of result and argument."""

    structure: Structure
    leaves: int
    width: int
    shape: tuple[int, int]

    def __call__(self, results: Sequence[Any]) -> JacobianOperator:
        from scipy import sparse

        value, blocks = unflatten(self.structure, results[: self.leaves]), results[self.leaves :]
        rows = [blocks[k : k + self.width] for k in range(0, len(blocks), self.width)]
        whole: Any = sparse.bmat(rows, format="csr")
        products = JacobianProducts(whole.__matmul__, whole.T.tocsr().__matmul__, whole.nnz, whole.nnz)
        return JacobianOperator(self.shape, whole.dtype, value, products)


class _ByFactors:
    """Makes an operator from values and the labels of factors; products are compiled at their first use.

    Args:
        structure: structure of the values.
        factors: factors of the Jacobian.
        options: options of the derivative.
        nonzeros: number of structural nonzeros of the Jacobian.
    """

    def __init__(self, structure: Structure, factors: RemainingEdges, options: Options, nonzeros: int) -> None:
        self._structure, self._factors, self._options, self._nonzeros = structure, factors, options, nonzeros
        self._kernels: dict[Direction, Kernel] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        process_bound = {"_kernels", "_lock"}
        state = {name: value for name, value in vars(self).items() if name not in process_bound}
        return state | {"_options": self._options.alone}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _kernels={}, _lock=Lock())

    def __call__(self, results: Sequence[Any]) -> JacobianOperator:
        *values, labels = results
        forward, reverse = (partial(self._product, direction, labels) for direction in ("forward", "reverse"))
        products = JacobianProducts(forward, reverse, self._factors.multiplications, self._nonzeros)
        shape, dtype = (self._factors.results, self._factors.arguments), np.dtype(self._options.dtype)
        return JacobianOperator(shape, dtype, unflatten(self._structure, values), products)

    def _product(self, direction: Direction, labels: Matrix, X: Matrix) -> Matrix:
        """Return J·X for X of shape (arguments, directions), or Jᵀ·X for X of shape (results, weights) in reverse."""
        kernel = self._kernels.get(direction)
        if kernel is None:
            with self._lock:
                kernel = self._kernels.get(direction)
                if kernel is None:
                    tape = self._factors.forward() if direction == "forward" else self._factors.reverse()
                    kernel = self._kernels[direction] = self._compiled(tape)
        X = np.require(X, kernel.dtype, ["C", "A"])
        if not (X.size and kernel.segments[0].length):
            return np.zeros((kernel.segments[0].length, X.shape[1]), kernel.dtype)
        if X.shape[1] == 1:
            return kernel(labels, X[:, 0])[0][:, np.newaxis]
        threads = self._options.threads
        return kernel.batch(labels, X, shared=(True, False), threads=threads, transposed=True)[0]

    def _compiled(self, tape: Tape) -> Kernel:
        options = self._options
        tape = rewrite(tape, Context(options)) if options.rewrites else canonical(tape)
        count = tuple(range(len(tape.outputs)))
        return compile_tape(
            tape,
            [Segment(len(count), count, count)],
            target=options.target,
            dtype=options.dtype,
            exact=frozenset(),
            arguments=[(self._factors.label_count,), (tape.inputs - self._factors.label_count,)],
            cache=options.caches,
        )
