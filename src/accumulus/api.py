"""What users call: traces, plans, and functions that return derivatives."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from accumulus.errors import ArgumentError
from accumulus.forks import Lock
from accumulus.frontends.captured import Captured, is_changeable
from accumulus.frontends.identity import identity
from accumulus.frontends.kinds import shape_of
from accumulus.frontends.location import name_of
from accumulus.frontends.record import Recording, record
from accumulus.frontends.recorder import recorder_of
from accumulus.frontends.signature import positional
from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.linearize import Linearization
from accumulus.options import Options, SparseFormat, check_threads
from accumulus.programs.axes import InAxes, at_one_point, axes_of_points, mistakable
from accumulus.programs.calls import ShortWay, beside_constants, refuse
from accumulus.programs.preparation import Preparation
from accumulus.programs.program import Program, linearize_arguments
from accumulus.programs.results import Wanted
from accumulus.progress import Progress
from accumulus.search.kept.hashing import graph_hash
from accumulus.search.plan import Plan
from accumulus.show.report import Report
from accumulus.targets import Call

__all__ = ["Derivative", "Trace", "gradient", "jacobian", "positions_of", "trace", "value_and_jacobian"]

#: A derivative keeps the short ways of so many programs at hand.
MOST_QUICK = 4


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
    static = positions_of(static_argnums, len(examples), "static_argnums")
    return Trace(f, record(f, examples, {}, static=static, check=check))


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
        sparse = None if output == "dense" else output
        own = {name: getattr(plan, name) for name in ("objective", "effort", "seed", "time_limit")}
        chosen = Options.of(**{"sparse": sparse, "target": target, **own, **options})
        positions = argnums[0] if len(argnums) == 1 else argnums
        wanted: Wanted = "value_and_jacobian" if values else "jacobian"
        with Preparation(self.name, chosen) as preparation:
            return Program(
                self.recording,
                wanted,
                positions,
                chosen,
                given=(linearization, plan),
                name=self.name,
                preparation=preparation,
            )

    def _linearization_of(self, plan: Plan) -> tuple[tuple[int, ...], Linearization]:
        """Arguments and linearization of the graph that the plan's accumulation is for, or of an equal one."""
        graph = plan.accumulation.graph
        for argnums, linearization in self._linearizations.items():
            if graph is linearization.graph:
                return argnums, linearization
        wanted = graph_hash(graph)
        for argnums, linearization in self._linearizations.items():
            if graph_hash(linearization.graph) == wanted:
                return argnums, linearization
        raise ArgumentError("the plan is for another graph; expected one made from this trace's linearize()")

    def argnums(self, argnums: int | Sequence[int] | None = None) -> tuple[int, ...]:
        """Positions of arguments to differentiate by, by default of all numeric ones, checked."""
        shapes = self.recording.argument_shapes
        if argnums is None:
            return tuple(k for k, shape in enumerate(shapes) if shape is not None)
        return _checked_argnums(argnums, self.recording, self.name)


class Derivative:
    """A function that returns derivatives of another; what `jacobian`, `value_and_jacobian` and `gradient` return.

    It traces, plans and compiles when it is first called with arguments of new shapes, and keeps the program as long as
    `f` holds what it held then; when that has changed, `f` is recorded anew (`accumulus.frontends.captured`). Copied or
    pickled, it takes its programs along, to be compiled again where they are called; what it belongs to, `f`, has to be
    picklable then.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        wanted: Wanted,
        argnums: int | Sequence[int],
        static: int | Sequence[int],
        options: Options,
        *,
        scalar: bool = False,
    ) -> None:
        recorder_of(f)  # refuses what nothing can record
        self.__name__ = f"{wanted}({name_of(f)})"
        self.__doc__ = f"Derivatives of {name_of(f)}.\n\n{f.__doc__ or ''}"
        self.__wrapped__ = f
        self._wanted: Wanted = wanted
        self._given_argnums = argnums if isinstance(argnums, int) else tuple(argnums)
        self._static = static if isinstance(static, int) else tuple(static)
        self._options = options
        self._scalar = scalar
        self._programs: dict[Hashable, Program] = {}
        #: Short ways for one point, that of the last call first.
        self._quick: tuple[tuple[Program, ShortWay], ...] = ()
        #: The same for the values of nonzeros.
        self._quick_nonzeros: tuple[tuple[Program, ShortWay], ...] = ()
        #: The short way that the last batch could take; the `in_axes` that it is for, and whether it is transposed.
        self._quick_batch: tuple[InAxes, bool, ShortWay] | None = None
        self._last: Program | None = None
        #: What `f` held when the programs were recorded; None before the first.
        self._captured: Captured | None = None
        #: Objects among the constant arguments of the programs, and what these held.
        self._objects: tuple[Any, ...] = ()
        self._captured_objects: Captured | None = None
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        process_bound = {"_quick", "_quick_nonzeros", "_quick_batch", "_captured", "_lock"}
        process_bound |= {"_objects", "_captured_objects"}
        state = {name: value for name, value in vars(self).items() if name not in process_bound}
        # what shares in a search belongs to this process
        state |= {"_options": self._options.alone, "_programs": dict(self._programs)}
        return state | {"held": None if self._captured is None else self._captured.summary()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        held = state.pop("held")
        vars(self).update(state)
        self._quick, self._quick_nonzeros, self._quick_batch = (), (), None
        self._objects, self._captured_objects = (), None
        self._lock = Lock()
        self._captured = None if held is None else Captured(self._holder)
        if self._captured is not None and self._captured.summary() != held:
            self._forget()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Derivatives at one point, of shape (result shape, argument shape) for each result and argument.

        Arguments may be given by keyword, as to `f`; those that its signature has before them get their defaults.
        """
        if keywords:
            arguments = self._positional(arguments, keywords)
        for _, quick in self._quick:
            result = quick(*arguments)
            if result is not NotImplemented:
                return result
        program = self.compile(*arguments)
        result = program(*arguments)
        self._quick = self._preferred(self._quick, program, program.quick, arguments)
        return result

    def batch(
        self,
        *arguments: Any,
        in_axes: InAxes = "auto",
        out: Any = None,
        threads: int | None = None,
        transposed: bool = False,
        **keywords: Any,
    ) -> Any:
        """Derivatives at many points: one more axis, of points, in front of all results.

        Args:
            arguments, keywords: as for one point; those that differ from point to point with one more axis, of points.
            in_axes: as `jax.vmap` has it: for each argument the axis of its points, or None if it is the same at all of
                them; one number for all arguments. Without, numbers are the same at all points, and every array has its
                points on the first axis (the last one if `transposed`). It is an error if these have different lengths,
                and where it is not clear that this is meant: if the arrays can be read as arguments of shapes that were
                compiled before, some of them the same at all points; and, for shapes that were not compiled before, if
                a row of one number a point is as long as the last axis of another argument at one point.
            out, threads, transposed: see `Program.batch`.

        Raises:
            ArgumentError: for a wrong shape or dtype, of an argument or of `out`, or if `in_axes` is needed.

        >>> import numpy as np
        >>> jac = jacobian(lambda a, x: a * x**2, argnums=1)
        >>> jac.batch(np.array([1.0, 2.0]), np.ones((1000, 2)), in_axes=(None, 0)).shape
        (1000, 2, 2)
        """
        if keywords:
            arguments = self._positional(arguments, keywords)
        if self._quick_batch is not None:
            for_axes, across, quick = self._quick_batch
            if type(for_axes) is type(in_axes) and for_axes == in_axes and across is transposed:
                result = quick(arguments, out, self._options.threads if threads is None else check_threads(threads))
                if result is not NotImplemented:
                    return result
        return self._batch(arguments, in_axes, out, threads, transposed)

    def _batch(
        self, arguments: tuple[Any, ...], in_axes: InAxes, out: Any, threads: int | None, transposed: bool
    ) -> Any:
        """The long way of `batch`: a function of its own, so that a call that does not take it need not set it up."""
        self._renew()
        name = name_of(self.__wrapped__)
        static = self._static_positions(arguments)
        shapes = [None if k in static else shape_of(x, f"argument {k} of {name}") for k, x in enumerate(arguments)]
        known = [program.recording.argument_shapes for program in [*self._programs.values()]]
        axes = axes_of_points(in_axes, shapes, known, transposed, name)
        point = [_first_point(x, axis) for x, axis in zip(arguments, axes, strict=True)]
        shared = tuple(axis is None for axis, shape in zip(axes, shapes, strict=True) if shape is not None)
        program = self._compiled(point, "transposed" if transposed else "batch", shared)
        result = program.batch_along(axes, arguments, out=out, threads=threads, transposed=transposed)
        at_one = [
            None if shape is None else at_one_point(shape, axis) for shape, axis in zip(shapes, axes, strict=True)
        ]
        if None not in shapes and not isinstance(in_axes, list):
            with self._lock:
                known = [known.recording.argument_shapes for known in self._programs.values()]
                certain = in_axes != "auto" or not mistakable(at_one, known)
                if certain and program in self._programs.values():
                    short = self._while_current(program.quick_batch(axes, transposed))
                    self._quick_batch = in_axes, transposed, short
        return result

    def compile(self, *examples: Any, **keywords: Any) -> Program:
        """The program for arguments of these shapes, compiled now for one point if it is not yet there.

        The code for batches is compiled with the first batch.
        """
        if keywords:
            examples = self._positional(examples, keywords)
        return self._compiled(examples, "point")

    def _positional(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        return positional(self.__wrapped__, arguments, keywords, name_of(self.__wrapped__))

    def _compiled(self, examples: Sequence[Any], first: Call, shared: tuple[bool, ...] = ()) -> Program:
        self._renew()
        static, name = self._static_positions(examples), name_of(self.__wrapped__)
        key = tuple(_signature(example, f"argument {k} of {name}", k in static) for k, example in enumerate(examples))
        program = self._programs.get(key)
        if program is None:
            with self._lock:
                program = self._programs.get(key) or self._build(examples, key, first, shared)
        self._last = program
        return program

    def _preferred(
        self, before: tuple[tuple[Program, ShortWay], ...], program: Program, quick: ShortWay, arguments: Sequence[Any]
    ) -> tuple[tuple[Program, ShortWay], ...]:
        """Short ways with that of this program as the first; other arguments have to be the very same."""
        shapes = program.recording.argument_shapes
        if quick is refuse or (before and before[0][0] is program and None not in shapes):
            return before
        if None in shapes:
            quick = beside_constants(quick, shapes, arguments)
        with self._lock:
            if program not in self._programs.values():  # forgotten by another thread
                return before
            others = [entry for entry in before if entry[0] is not program]
            return ((program, self._while_current(quick)), *others[: MOST_QUICK - 1])

    def nonzeros(self, *arguments: Any, **keywords: Any) -> Any:
        """As a call of a sparse derivative, with the values of the nonzeros in the place of SciPy's matrices.

        See `Program.nonzeros`; `pattern` says where they belong.

        >>> import numpy as np
        >>> jac = jacobian(lambda x: x[1:] * x[:-1], sparse="csr")
        >>> x = np.array([1.0, 2.0, 3.0])
        >>> A = jac(x)
        >>> A.data[:] = jac.nonzeros(2.0 * x)  # the matrix at another point, in the memory of the first
        >>> print(A.toarray())
        [[4. 2. 0.]
         [0. 6. 4.]]
        """
        if keywords:
            arguments = self._positional(arguments, keywords)
        for _, quick in self._quick_nonzeros:
            result = quick(*arguments)
            if result is not NotImplemented:
                return result
        program = self.compile(*arguments)
        result = program.nonzeros(*arguments)
        self._quick_nonzeros = self._preferred(self._quick_nonzeros, program, program.quick_nonzeros, arguments)
        return result

    @property
    def pattern(self) -> Any:
        """Where the structural nonzeros of the last compiled program are, see `Program.pattern`."""
        return self._program().pattern

    @property
    def operations(self) -> int:
        """Operations of the last compiled program."""
        return self._program().operations

    def report(self) -> Report:
        """Report on the program that was last compiled or called: what it costs, why, and how long each stage took."""
        return self._program().report()

    def _program(self) -> Program:
        if self._last is None:
            raise ArgumentError(f"{self.__name__} has not been compiled; call it or its compile() with arguments first")
        return self._last

    def _build(self, examples: Sequence[Any], key: Hashable, first: Call, shared: tuple[bool, ...]) -> Program:
        name = name_of(self.__wrapped__)
        with Preparation(name, self._options) as preparation:
            with preparation.stage("trace"):
                static = self._static_positions(examples)
                captured = self._captured or Captured(self._holder)
                objects = (*self._objects, *(x for x in examples if is_changeable(x)))
                # with the function, whose code says which of their attributes matter
                beside = Captured((self._holder, *objects)) if objects else None
                recording = record(self.__wrapped__, examples, {}, static=static, check=self._options.check)
                captured.settle()
                if beside is not None:
                    beside.settle()
                self._captured, self._captured_objects, self._objects = captured, beside, objects
            argnums = _checked_argnums(self._given_argnums, recording, name)
            if self._scalar and (recording.result_shapes != ((),) or not _is_leaf(recording)):
                shapes = ", ".join(map(str, recording.result_shapes))
                raise ArgumentError(
                    f"gradient needs a function that returns one number; {name} returns shape {shapes}: use jacobian"
                )
            positions = argnums[0] if isinstance(self._given_argnums, int) else argnums
            program = Program(
                recording,
                self._wanted,
                positions,
                self._options,
                first=first,
                shared=shared,
                name=name,
                preparation=preparation,
            )
        self._programs[key] = program
        self._quick_batch = None  # what it could be mistaken for is not known of yet
        return program

    def _while_current(self, quick: Callable[..., Any]) -> Callable[..., Any]:
        """A short way that is there as long as `f` and objects among its arguments hold what they held."""
        # the second watches what the first does, too
        captured = self._captured_objects or self._captured
        if not captured:
            return quick
        is_current = captured.is_current

        def call(*arguments: Any) -> Any:
            return quick(*arguments) if is_current() else NotImplemented

        return call

    def _renew(self) -> None:
        """Forget what was recorded if `f`, or an object among its arguments, holds something else now."""
        captured = self._captured_objects or self._captured
        if captured is not None and not captured.is_current():
            self._forget()

    def _forget(self) -> None:
        """Let the next call record `f` anew."""
        with self._lock:
            self._programs, self._captured = {}, None
            self._objects, self._captured_objects = (), None
            self._quick, self._quick_nonzeros, self._quick_batch = (), (), None

    @property
    def _holder(self) -> object:
        """What is watched in the place of `f`."""
        return recorder_of(self.__wrapped__).holds(self.__wrapped__)

    def _static_positions(self, arguments: Sequence[Any]) -> frozenset[int]:
        return positions_of(self._static, len(arguments), "static_argnums")

    def __repr__(self) -> str:
        return f"<{self.__name__}, {len(self._programs)} compiled>"


def jacobian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    static_argnums: int | Sequence[int] = (),
    sparse: bool | SparseFormat | None = None,
    method: str = "auto",
    objective: str = "operations",
    time_limit: float = 1.0,
    effort: str = "balanced",
    seed: int = 0,
    threads: int = 1,
    target: str = "llvm",
    dtype: str = "float64",
    check_finite: bool = False,
    check: bool = True,
    optimise: bool | None = None,
    exact_order: bool = False,
    cache: bool = True,
    executor: Any = None,
    iterations: int | None = None,
    progress: Callable[[Progress], object] | None = None,
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
            0 gives the best greedy plan. What has to be done anyway is not counted: recording, writing down, verifying,
            compiling.
        effort: "fast", "balanced" or "thorough".
        seed: of the search. Same seed, same plan.
        threads: how many threads share the points of a batch.
        target: "llvm" or "numpy".
        dtype: "float64" or "float32" for the compiled code and its results.
        check_finite: raise `ArgumentError` for NaN or infinite arguments. Without, they propagate as IEEE 754 says.
        check: compare what was recorded with `f` on numbers, at the arguments of the first call and at two points
            around them: `f` runs three times more for each shape of its arguments.
        optimise: whether the program's operations are rewritten to fewer or cheaper ones, see `accumulus.optimise`. By
            default in float64 only: products in another order may leave the range of float32.
        exact_order: leave the arithmetic of `f` itself as it is written: its values, and all that derivatives take from
            them, are rounded as in `f`, operation by operation. Only what derivatives add is rewritten.
        cache: whether the plan, the rewritten program and the machine code are taken from disk if they were made
            before, for the same function and options, and kept there if not.
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
    options = Options.of(
        sparse=sparse,
        method=method,
        objective=objective,
        time_limit=time_limit,
        effort=effort,
        seed=seed,
        threads=threads,
        target=target,
        dtype=dtype,
        check_finite=check_finite,
        check=check,
        optimise=optimise,
        exact_order=exact_order,
        cache=cache,
        executor=executor,
        iterations=iterations,
        progress=progress,
    )
    return Derivative(f, "jacobian", argnums, static_argnums, options)


def value_and_jacobian(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, static_argnums: int | Sequence[int] = (), **options: Any
) -> Derivative:
    """Like `jacobian`, but returns the pair (value of f, Jacobian), computed together. Same options.

    >>> value, slope = value_and_jacobian(lambda x: x * x)(3.0)
    >>> float(value), float(slope)
    (9.0, 6.0)
    """
    return Derivative(f, "value_and_jacobian", argnums, static_argnums, Options.of(**options))


def gradient(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, static_argnums: int | Sequence[int] = (), **options: Any
) -> Derivative:
    """Gradient of a function that returns one number: shaped as the argument. Same options as `jacobian`.

    Raises:
        ArgumentError: at the first call, if `f` returns anything but one number.

    >>> import numpy as np
    >>> gradient(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    return Derivative(f, "jacobian", argnums, static_argnums, Options.of(**options), scalar=True)


def _checked_argnums(argnums: int | Sequence[int], recording: Recording, name: str) -> tuple[int, ...]:
    shapes = recording.argument_shapes
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    checked = []
    for position in positions:
        if not isinstance(position, int) or not -len(shapes) <= position < len(shapes):
            raise ArgumentError(f"argnums is {argnums!r}; {name} was called with {len(shapes)} arguments")
        if shapes[position] is None:
            raise ArgumentError(
                f"argument {position} of {name} is not numeric; expected one that can be differentiated by"
            )
        checked.append(position % len(shapes))
    if len(set(checked)) < len(checked):
        raise ArgumentError(f"argnums is {argnums!r}; expected each argument once")
    return tuple(checked)


def positions_of(positions: int | Sequence[int], count: int, what: str) -> frozenset[int]:
    """Positions as users give them, counted from the end if negative, among so many arguments."""
    given = (positions,) if isinstance(positions, int) else tuple(positions)
    if any(not isinstance(k, int) or not -count <= k < count for k in given):
        raise ArgumentError(f"{what} is {positions!r}; {count} arguments were given")
    return frozenset(k % count for k in given)


def _signature(argument: Any, name: str, is_static: bool) -> Hashable:
    """What tells programs apart: the shape of a numeric argument, the value of another."""
    shape = None if is_static else shape_of(argument, name)
    if shape is not None:
        return shape
    if isinstance(argument, np.ndarray):
        return (type(argument), argument.shape, str(argument.dtype), argument.tobytes())
    try:
        hash(argument)
    except TypeError:
        raise ArgumentError(
            f"{name} is a {type(argument).__name__} that cannot be hashed; expected a number, a NumPy array (make one "
            "with np.array), or a hashable object that is passed on as it is"
        ) from None
    return identity(argument)


def _first_point(argument: Any, axis: int | None) -> Any:
    """An argument of a batch as it is at the first point; zeros if there are no points."""
    if axis is None:
        return argument
    points = np.moveaxis(argument, axis, 0)
    return points[0] if len(points) else np.zeros(points.shape[1:])[()]


def _is_leaf(recording: Recording) -> bool:
    leaf = object()
    return recording.unflatten([leaf]) is leaf
