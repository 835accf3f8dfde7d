"""Programs that return a Jacobian as a linear operator: its factors, computed once a point, and products with these.

Three programs of compiled code: from the arguments to the values and the labels of the edges that are left
(`accumulus.search.scarcity`), and from these and a direction, or a weight, to the product. The last two are compiled
when the first product is asked for. Of long arrays, whose Jacobians are computed by loops, the factor is the sparse
Jacobian itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accumulus.context import Context
from accumulus.elimination.emit import Factors, emit, parted
from accumulus.forks import Lock
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import Leaf, together
from accumulus.graph.degrees import terminal_degrees
from accumulus.graph.linearize import Linearization
from accumulus.options import Options
from accumulus.programs.argnums import Selection
from accumulus.programs.array_program import ArrayProgram
from accumulus.programs.fast_paths import FastPath, no_fast_path
from accumulus.programs.kinds import COMPILED, VALUE_AND_JACOBIAN
from accumulus.programs.planning import plan_of
from accumulus.programs.preparation import Preparation
from accumulus.programs.program import Program
from accumulus.programs.seeds import inputs_of, linearize_arguments
from accumulus.resubstitution.optimise import rewrite
from accumulus.rewriting.canonical import canonical
from accumulus.search.scarcity import scarce_set
from accumulus.tape.tape import Tape
from accumulus.targets import Call, Kernel, Segment, compile_tape

__all__ = ["FactoredArrayProgram", "FactoredProgram"]

Matrix = NDArray[Any]

#: Of a product with the Jacobian, or with its transpose.
Direction = Literal["forward", "reverse"]


class FactoredProgram(Program):
    """Straight-line code for the values and the labels that are left; its calls return a `JacobianOperator`.

    Arguments are those of `Program`.

    Attributes:
        factors: the graph that is left.
        nonzeros_of_jacobian: structural ones.
        products: compiled products with the factors.
    """

    def __init__(
        self,
        recording: Recording,
        selection: Selection,
        preparation: Preparation,
        first: Call,
        shared: tuple[bool, ...],
    ) -> None:
        name, options = preparation.name, preparation.options
        with preparation.stage("linearize"):
            whole = linearize_arguments(recording, selection, name, joined=False)
        graph = whole.graph
        with preparation.stage("plan"):
            gone = scarce_set(graph, preparation.context)
            left, kept = parted(graph, gone)
            plan = plan_of(Linearization(left, (), whole.columns), preparation.context)
        with preparation.stage("emit"):
            tape = emit(plan.accumulation)
            places, _ = plan.accumulation.ordered_entries()
            ends, values = len(recording.scalars.outputs), recording.results
            own, labels = tape.outputs[:ends], np.array(tape.outputs[ends:], np.int64)
            inputs = inputs_of(recording, selection.positions)
            self.factors, given = Factors.of(whole, inputs, kept, places, labels, tape)
            tape.outputs = [*own[:values], *given, *own[values:]]
        of_roots = terminal_degrees(graph)[list(graph.roots)]
        # results that are equal share a root
        self.nonzeros_of_jacobian = int(sum(of_roots[row] for row in whole.rows if row >= 0))
        self.products = _ProductPrograms(self.factors, options)
        with_labels = replace(
            recording,
            tape=canonical(tape),
            result_shapes=(*recording.result_shapes, (len(given),)),
            structure=together([recording.structure, Leaf()]),
            written_out=None,
            unrolled=0,
        )
        super().__init__(with_labels, COMPILED, Selection((), Leaf()), preparation, first=first, shared=shared)

    def at(self, arguments: Sequence[Any], *, matrices: bool = True) -> Any:
        """The Jacobian at a point, as an operator."""
        from accumulus.programs.linear_operator import JacobianOperator, Products

        value, labels = super().at(arguments, matrices=matrices)
        forward, reverse = (partial(self.products.product, direction, labels) for direction in ("forward", "reverse"))
        products = Products(forward, reverse, self.factors.multiplications, self.nonzeros_of_jacobian)
        shape = (self.factors.results, self.factors.arguments)
        return JacobianOperator(shape, np.dtype(self.options.dtype), value, products)

    def _fast_path(self, *, matrices: bool) -> FastPath:
        return no_fast_path


class FactoredArrayProgram(ArrayProgram):
    """Loops for the values and the sparse Jacobian of long arrays; its calls return a `JacobianOperator`."""

    def __init__(self, recording: Recording, selection: Selection, preparation: Preparation) -> None:
        super().__init__(recording, VALUE_AND_JACOBIAN, selection, preparation)

    def at(self, arguments: Sequence[Any], *, matrices: bool = True) -> Any:
        """The Jacobian at a point, as an operator."""
        from scipy import sparse

        from accumulus.programs.linear_operator import JacobianOperator, Products

        arrays = self.kernel(*self._arguments.point(arguments))
        if self.is_guarded:
            arrays = arrays[:-1]
            self.ran.calls += 1
        finish, leaves = self._results.finish(True), len(self.recording.result_shapes)
        value, _ = self._results.rebuild(arrays, None)
        blocks = [convert(array) for array, convert in zip(arrays[leaves:], finish[leaves:], strict=True) if convert]
        width = len(self._selection.positions)
        whole: Any = sparse.bmat([blocks[k : k + width] for k in range(0, len(blocks), width)], format="csr")
        mirrored = whole.T.tocsr()
        products = Products(whole.__matmul__, mirrored.__matmul__, whole.nnz, whole.nnz)
        return JacobianOperator(self.jacobian_shape, np.dtype(self.options.dtype), value, products)

    def _fast_path(self, *, matrices: bool) -> FastPath:
        return no_fast_path


class _ProductPrograms:
    """Compiled products with factors, in both directions; each is compiled when it is first asked for."""

    def __init__(self, factors: Factors, options: Options) -> None:
        self._factors, self._options = factors, options
        self._kernels: dict[Direction, Kernel] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_factors": self._factors, "_options": self._options.alone}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _kernels={}, _lock=Lock())

    def product(self, direction: Direction, labels: Matrix, X: Matrix) -> Matrix:
        """J·X of (arguments, directions) forward, Jᵀ·X of (results, weights) in reverse."""
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
            arguments=[(self._factors.given,), (tape.inputs - self._factors.given,)],
            cache=options.caches,
        )
