"""What users call.

The way from a function to its Jacobian, as `Trace` has it step by step, and `Derivative` in one go at the first call
for arguments of new shapes:

1. `record` runs the function once and keeps what it computes as a tape (`accumulus.frontends`).
2. `linearize` adds the partial derivatives of every operation: the tape's differentiation graph, whose edges they are
   (`accumulus.graph`).
3. `plan` searches an order in which to eliminate the graph's inner vertices that takes few products, and verifies these
   (`accumulus.search`, `accumulus.elimination`).
4. `emit` adds the products and their sums to the tape, which `optimise` rewrites to fewer operations
   (`accumulus.elimination`, `accumulus.rewriting`).
5. `compile_tape` makes machine code of it (`accumulus.targets`); a `Program` packs arguments and shapes results
   (`accumulus.programs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Unpack

from accumulus.errors import ArgumentError
from accumulus.frontends.location import name_of
from accumulus.frontends.record import Recording, record
from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.linearize import Linearization
from accumulus.options import Given, Options, shows_options
from accumulus.programs.argnums import checked_argnums, static_positions
from accumulus.programs.derivative import Derivative
from accumulus.programs.preparation import Preparation
from accumulus.programs.program import Program, linearize_arguments
from accumulus.search.plans.plan import Plan
from accumulus.search.plans.plan_keys import graph_hash

__all__ = ["Derivative", "Trace", "gradient", "jacobian", "trace", "value_and_jacobian"]


@shows_options
def jacobian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    static_argnums: int | Sequence[int] = (),
    **options: Unpack[Given],
) -> Derivative:
    """Jacobian of `f`, as a function of the same arguments.

    Results are shaped as those of ``jax.jacobian``: for every array that `f` returns, an array of shape (result shape,
    argument shape), in the same structure; a tuple of them, one for each argument, if `argnums` is a sequence.

    Args:
        f: a function of numbers and NumPy arrays that returns a number, an array, or a list, tuple or dict of those.
        argnums: position or positions of the arguments to differentiate by.
        static_argnums: positions of numbers that are passed to `f` as they are when it is recorded: sizes, bounds.
        sparse: True or "csr", "csc", "coo" for SciPy matrices (entries of result × entries of argument) with the
            structural nonzeros only. Batches then return a `SparseBatch`.
        method: one of `accumulus.methods()`.
        objective: "operations" (of the compiled program), "multiplications" or "fma".
        time_limit: seconds for planning and rewriting together, at most; they stop earlier when they no longer improve.
            0 gives the best greedy plan. What has to be done anyway is not counted: recording, emitting, verifying,
            compiling.
        effort: "fast", "balanced" or "thorough".
        seed: of the search. Same seed, same plan.
        threads: how many threads share the points of a batch, or the work of one point where arrays are long.
        target: "llvm" or "numpy".
        dtype: "float64" or "float32" for the compiled code and its results.
        check_finite: raise `ArgumentError` for NaN or infinite arguments. Without, they propagate as IEEE 754 says.
        check: compare what was recorded with `f` on numbers, at the arguments of the first call and at two points
            around them: `f` runs three times more for each shape of its arguments.
        optimise: whether the program's operations are rewritten to fewer or cheaper ones, see `accumulus.optimise`. By
            default in float64 only: products in another order may leave the range of float32.
        exact_order: leave the arithmetic of `f` itself as it is written: its values, and all that derivatives take from
            them, are rounded as in `f`, operation by operation. Only what derivatives add is rewritten.
        cache: whether the plan, the rewritten program and the machine code are taken from the cache on disk, if they
            were made before for the same function and options, and stored there if not.
        executor: a `concurrent.futures.Executor` or Dask ``Client`` that shares in the search, see `accumulus.plan`.
        iterations: of the search, see `accumulus.plan`.
        progress: called with a `Progress` when a stage of the preparation begins, and while it searches. Without, a
            preparation of more than two seconds says what it is doing on the error stream, if that is a terminal.

    Raises:
        ArgumentError, UnknownNameError: for an option that is not one of the above; at the first call for arguments of
            a wrong kind.
        TraceError: at the first call, if `f` cannot be recorded, naming file and line; or if its recording computes
            something else than `f` does, naming values.
        KeyboardInterrupt: at the first call, for Ctrl-C while the program is prepared; nothing of it is kept.

    >>> import numpy as np
    >>> jac = jacobian(lambda x: np.array([x[0] * x[1], np.sin(x[0])]))
    >>> print(jac(np.array([0.0, 2.0])))
    [[2. 0.]
     [1. 0.]]
    >>> jac.batch(np.ones((1000, 2))).shape
    (1000, 2, 2)
    """
    return Derivative(f, "jacobian", argnums, static_argnums, Options.of(**options))


@shows_options
def value_and_jacobian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    static_argnums: int | Sequence[int] = (),
    **options: Unpack[Given],
) -> Derivative:
    """Like `jacobian`, but returns the pair (value of f, Jacobian), computed together. Same options.

    >>> value, slope = value_and_jacobian(lambda x: x * x)(3.0)
    >>> float(value), float(slope)
    (9.0, 6.0)
    """
    return Derivative(f, "value_and_jacobian", argnums, static_argnums, Options.of(**options))


@shows_options
def gradient(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    static_argnums: int | Sequence[int] = (),
    **options: Unpack[Given],
) -> Derivative:
    """Gradient of a function that returns one number: shaped as the argument. Same options as `jacobian`.

    Raises:
        ArgumentError: at the first call, if `f` returns anything but one number.

    >>> import numpy as np
    >>> gradient(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    return Derivative(f, "jacobian", argnums, static_argnums, Options.of(**options), scalar=True)


def trace(f: Callable[..., Any], *examples: Any, static_argnums: int | Sequence[int] = (), check: bool = True) -> Trace:
    """Run `f` once on traced arrays and record what it computes.

    Args:
        f: a function of numbers and NumPy arrays that returns a number, an array, or a list, tuple or dict of those.
        examples: arguments of the right shapes; the values of numbers do not matter for what is recorded. Strings,
            None, booleans and other objects that are not numbers are passed to `f` as they are.
        static_argnums: positions of numbers that are passed as they are, too (sizes, loop bounds).
        check: compare the recording with `f` on numbers, at the examples and at two points around them.

    Returns:
        The recording. What depends on anything but the arguments, such as global variables, is recorded as it was in
        this one run, and stays so.

    Raises:
        TraceError: naming file and line, if `f` does something that cannot be recorded, such as branching on a value;
            naming values, if the recording computes something else than `f` does.
        ArgumentError: if an example is not a number or array of real numbers.

    >>> import numpy as np
    >>> t = trace(lambda x: np.sin(x[0]) * x[1], np.zeros(2))
    >>> t.tape.operations
    2
    """
    static = static_positions(static_argnums, len(examples))
    return Trace(f, record(f, examples, static, check=check))


class Trace:
    """A recorded function: its tape, its graphs, and its compiled programs."""

    def __init__(self, f: Callable[..., Any], recording: Recording) -> None:
        self.name = name_of(f)
        self.recording = recording
        self.tape = recording.tape
        self._linearizations: dict[tuple[int, ...], Linearization] = {}

    def linearize(self, argnums: int | Sequence[int] | None = None) -> DifferentiationGraph:
        """Differentiation graph of all results by the arguments at `argnums`, by default by all numeric ones."""
        key = self.argnums(argnums)
        if key not in self._linearizations:
            self._linearizations[key] = linearize_arguments(self.recording, key, self.name)
        return self._linearizations[key].graph

    def compile(
        self,
        plan: Plan,
        target: str = "llvm",
        output: Literal["dense", "csr", "csc", "coo"] = "dense",
        *,
        values: bool = False,
        **options: Any,
    ) -> Program:
        """Compile the Jacobian by `plan`, with the function's values before it if `values`.

        The plan is verified first, wherever it comes from.

        Args:
            plan: of a graph that `linearize` returned, or of an equal one.
            target: "llvm" or "numpy".
            output: "dense" arrays, or SciPy matrices: "csr", "csc", "coo".
            values: whether the function's values are returned, too, before the Jacobian.
            options: those of `jacobian` that do not choose a plan. By default the plan's own objective, effort, seed
                and time limit.

        Raises:
            ArgumentError: if the plan is not for a graph that this trace's `linearize` returned, or an equal one; or if
                an option is out of range, or would choose another plan.
            UnknownNameError: for an option, or a name given for one, that does not exist.
            VerificationError: if the plan does not compute the Jacobian of that graph.
        """
        if "check" in options:
            raise ArgumentError("check is given beside a recording; expected it where that is made: acc.trace")
        planned = sorted({"method", "iterations", "executor"}.intersection(options))
        if planned:
            raise ArgumentError(f"{planned[0]} is given beside a plan; expected it where the plan is made: acc.plan")
        argnums, linearization = self._linearization_of(plan)
        plan.verify()
        # what was planned under these is rewritten under them
        own = {name: getattr(plan, name) for name in ("objective", "effort", "seed", "time_limit")}
        chosen = Options.of(**{"sparse": None if output == "dense" else output, "target": target, **own, **options})
        with Preparation(self.name, chosen) as preparation:
            return Program(
                self.recording,
                "value_and_jacobian" if values else "jacobian",
                argnums[0] if len(argnums) == 1 else argnums,
                preparation,
                given=(linearization, plan),
            )

    def _linearization_of(self, plan: Plan) -> tuple[tuple[int, ...], Linearization]:
        """Arguments and linearization of the graph that the plan's accumulation is for, or of an equal one."""
        graph = plan.accumulation.graph
        known = list(self._linearizations.items())
        same = [entry for entry in known if entry[1].graph is graph]
        if not same:
            wanted = graph_hash(graph)
            same = [entry for entry in known if graph_hash(entry[1].graph) == wanted]
        if not same:
            raise ArgumentError("the plan is for another graph; expected one made from this trace's linearize()")
        return same[0]

    def argnums(self, argnums: int | Sequence[int] | None = None) -> tuple[int, ...]:
        """Positions of arguments to differentiate by, by default of all numeric ones, checked."""
        shapes = self.recording.argument_shapes
        if argnums is None:
            return tuple(k for k, shape in enumerate(shapes) if shape is not None)
        return checked_argnums(argnums, shapes, self.name)
