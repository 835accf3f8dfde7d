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

from accumulus.errors import ArgumentError, unknown_name
from accumulus.frontends.calls import Restructured
from accumulus.frontends.location import name_of
from accumulus.frontends.record import Recording, record
from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.linearize import Linearization
from accumulus.options import GUARDS, Given, Options, shows_options
from accumulus.programs.argnums import Selection, arranged, checked_argnums, static_positions
from accumulus.programs.derivative import Derivative
from accumulus.programs.forms import Forms, settled, together
from accumulus.programs.kinds import COMPILED, GRADIENT, JACOBIAN, VALUE_AND_GRADIENT, VALUE_AND_JACOBIAN, Kind
from accumulus.programs.preparation import Preparation
from accumulus.programs.program import Program
from accumulus.programs.seeds import linearize_arguments
from accumulus.search.plans.plan import Plan
from accumulus.search.plans.plan_keys import graph_hash

__all__ = [
    "Derivative",
    "Trace",
    "compile",
    "dense",
    "gradient",
    "jacobian",
    "trace",
    "value_and_gradient",
    "value_and_jacobian",
]


@shows_options
def jacobian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    *,
    argnames: str | Sequence[str] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    **options: Unpack[Given],
) -> Derivative:
    """Jacobian of `f`, as a function of the same arguments.

    Results are shaped as those of ``jax.jacobian``: for every array that `f` returns, an array of shape (result shape,
    argument shape), in the same structure; a tuple of them, one for each argument, if there are several; a container of
    the same kind, where the argument is one.

    Args:
        f: a function of numbers, NumPy arrays, and containers of those (lists, tuples, dicts, data classes, what
            `accumulus.register` has) that returns the same.
        argnums: position or positions of the arguments to differentiate by; the first, if no `argnames` are given.
        argnames: their names, one or several; with both, derivatives by those named come last.
        static_argnums, static_argnames: positions and names of what is passed to `f` as it is when it is recorded:
            sizes, bounds.
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
        target: "llvm"; "numpy", readable source; "c", by the C compiler of this machine.
        dtype: "float64" or "float32" for the compiled code and its results.
        check_finite: raise `ArgumentError` for NaN or infinite arguments. Without, they propagate as IEEE 754 says.
        check: compare what was recorded with `f` on numbers, at the arguments of the first call and at two points
            around them: `f` runs three times more for each shape of its arguments.
        optimise: whether the program's operations are rewritten to fewer or cheaper ones, see `accumulus.optimise`. By
            default in float64 only: products in another order may leave the range of float32.
        exact_order: leave the arithmetic of `f` itself as it is written: its values, and all that derivatives take from
            them, are rounded as in `f`, operation by operation. Only what derivatives add is rewritten.
        guards: what becomes of decisions that `f` takes on values of its arguments (``if x > 0``, ``while``,
            ``int(x)``, sorting) where they are not recorded as choices: "cases" records `f` for each way in which it
            decides, when it is met, and has a program for each, which checks by itself that it is the right one;
            "error" refuses them.
        most_cases: how many programs there may be for arguments of one shape.
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
        TooManyCasesError: if `f` decides in more ways than `most_cases`, naming the lines.
        CaseError: for a batch, if results have other shapes at some points than at others.
        KeyboardInterrupt: at the first call, for Ctrl-C while the program is prepared; nothing of it is kept.

    >>> import numpy as np
    >>> jac = jacobian(lambda x: np.array([x[0] * x[1], np.sin(x[0])]))
    >>> print(jac(np.array([0.0, 2.0])))
    [[2. 0.]
     [1. 0.]]
    >>> jac.batch(np.ones((1000, 2))).shape
    (1000, 2, 2)
    """
    forms = Forms(f, name_of(f), argnums, argnames, static_argnums, static_argnames)
    return Derivative(f, JACOBIAN, forms, Options.of(**options))


@shows_options
def value_and_jacobian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    *,
    argnames: str | Sequence[str] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    **options: Unpack[Given],
) -> Derivative:
    """Like `jacobian`, but returns the pair (value of f, Jacobian), computed together. Same options.

    >>> value, slope = value_and_jacobian(lambda x: x * x)(3.0)
    >>> float(value), float(slope)
    (9.0, 6.0)
    """
    forms = Forms(f, name_of(f), argnums, argnames, static_argnums, static_argnames)
    return Derivative(f, VALUE_AND_JACOBIAN, forms, Options.of(**options))


@shows_options
def gradient(
    f: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    *,
    argnames: str | Sequence[str] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    **options: Unpack[Given],
) -> Derivative:
    """Gradient of a function that returns one number: shaped as the argument. Same options as `jacobian`.

    Raises:
        ArgumentError: at the first call, if `f` returns anything but one number.

    >>> import numpy as np
    >>> gradient(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    forms = Forms(f, name_of(f), argnums, argnames, static_argnums, static_argnames)
    return Derivative(f, GRADIENT, forms, Options.of(**options))


@shows_options
def value_and_gradient(
    f: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    *,
    argnames: str | Sequence[str] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    **options: Unpack[Given],
) -> Derivative:
    """Like `gradient`, but returns the pair (value of f, gradient), computed together. Same options.

    >>> import numpy as np
    >>> value, slope = value_and_gradient(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    >>> float(value), slope.tolist()
    (5.0, [2.0, 4.0])
    """
    forms = Forms(f, name_of(f), argnums, argnames, static_argnums, static_argnames)
    return Derivative(f, VALUE_AND_GRADIENT, forms, Options.of(**options))


@shows_options
def compile(  # noqa: A001  # what it does
    f: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    **options: Unpack[Given],
) -> Derivative:
    """`f` itself, rewritten to fewer operations and compiled, as a function of the same arguments.

    What it returns is `f`'s result, in the same structure. Batches, cases, reports and options are those of `jacobian`.

    Args:
        f, static_argnums, static_argnames: as for `jacobian`.
        options: those of `jacobian`, but for `sparse`.

    Raises:
        ArgumentError: for `sparse`; else as `jacobian`.
        TraceError: as `jacobian`.

    >>> import numpy as np
    >>> step = compile(lambda x, h: {"next": x + h * np.sin(x), "rate": np.sin(x)})
    >>> step(np.zeros(2), 0.1)
    {'next': array([0., 0.]), 'rate': array([0., 0.])}
    >>> step.batch(np.zeros((100, 2)), 0.1)["next"].shape
    (100, 2)
    """
    forms = Forms(f, name_of(f), (), None, static_argnums, static_argnames)
    return Derivative(f, COMPILED, forms, dense(COMPILED, options))


def dense(kind: Kind, given: Given) -> Options:
    """The options of a kind whose results are no matrices."""
    options = Options.of(**given)
    if options.sparse is not None:
        raise ArgumentError(f"sparse is {given['sparse']!r} for {kind.name}, whose results are arrays; expected none")
    return options


def trace(
    f: Callable[..., Any],
    *examples: Any,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    check: bool = True,
    guards: str = "cases",
    **keywords: Any,
) -> Trace:
    """Run `f` once on traced arrays and record what it computes.

    Args:
        f: a function as for `jacobian`.
        examples: arguments of the right shapes; the values of numbers matter only where `f` decides on them. Strings,
            None, booleans and other objects that are not numbers are passed to `f` as they are.
        static_argnums, static_argnames: positions and names of numbers that are passed as they are, too (sizes, loop
            bounds).
        keywords: examples by keyword.
        check: compare the recording with `f` on numbers, at the examples and at two points around them.
        guards: "cases": where `f` decides on values, the recording is that of the examples, and its compiled programs
            raise a `CaseError` at points where a decision would be another; "error": decisions are refused.

    Returns:
        The recording. What depends on anything but the arguments, such as global variables, is recorded as it was in
        this one run, and stays so.

    Raises:
        TraceError: naming file and line, if `f` does something that cannot be recorded; naming values, if the recording
            computes something else than `f` does.
        ArgumentError: if an example is not a number or array of real numbers.

    >>> import numpy as np
    >>> t = trace(lambda x: np.sin(x[0]) * x[1], np.zeros(2))
    >>> t.tape.operations
    2
    """
    if guards not in GUARDS:
        raise unknown_name("way of guards", guards, GUARDS)
    decides = guards == "cases"
    forms = Forms(f, name_of(f), None, None, static_argnums, static_argnames)
    call, numbers = forms.of(examples, keywords)
    if call is not None:
        return Trace(f, record(settled(call, numbers, check=check), numbers, check=check, decides=decides), call)
    static = static_positions(forms.static_positions, len(numbers))
    return Trace(f, record(f, numbers, static, check=check, decides=decides))


class Trace:
    """A recorded function: its tape, its graphs, and its compiled programs."""

    def __init__(self, f: Callable[..., Any], recording: Recording, call: Restructured | None = None) -> None:
        self.name = name_of(f)
        self._function, self._call = f, call
        self.recording = recording
        self.tape = recording.tape
        self._linearizations: dict[Selection, Linearization] = {}

    def linearize(
        self, argnums: int | Sequence[int] | None = None, *, argnames: str | Sequence[str] | None = None
    ) -> DifferentiationGraph:
        """Differentiation graph of all results by the arguments at `argnums`, by default by all numeric ones."""
        key = self.selection(argnums, argnames)
        if key not in self._linearizations:
            self._linearizations[key] = linearize_arguments(self.recording, key.positions, self.name)
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
            target: "llvm"; "numpy", readable source; "c", by the C compiler of this machine.
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
        selection, linearization = self._linearization_of(plan)
        plan.verify()
        # what was planned under these is rewritten under them
        own = {name: getattr(plan, name) for name in ("objective", "effort", "seed", "time_limit")}
        chosen = Options.of(**{"sparse": None if output == "dense" else output, "target": target, **own, **options})
        with Preparation(self.name, chosen) as preparation:
            return Program(
                self.recording,
                VALUE_AND_JACOBIAN if values else JACOBIAN,
                selection,
                preparation,
                given=(linearization, plan),
            )

    def _linearization_of(self, plan: Plan) -> tuple[Selection, Linearization]:
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

    def selection(
        self, argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] | None = None
    ) -> Selection:
        """What is differentiated by: by default all numeric arguments, one alone or a tuple of them."""
        asked: int | str | Sequence[int | str] | None = None
        if argnums is not None or argnames is not None:
            asked = together(self._function, argnums, argnames)
        if self._call is not None:
            if asked is None:
                places = [*range(len(self._call.positional)), *self._call.keywords]
                asked = [place for place in places if self._call.place_of(place)[1]]
            return arranged(self._call, _alone(asked), self.name)
        shapes = self.recording.argument_shapes
        if asked is None:
            asked = [k for k, shape in enumerate(shapes) if shape is not None]
        return checked_argnums(_alone(asked), shapes, self.name)


def _alone(asked: Any) -> Any:
    """The only one of several; all that is asked, where it is not a sequence of one."""
    return asked[0] if isinstance(asked, list | tuple) and len(asked) == 1 else asked
