"""A function's derivatives, compiled for arguments of one shape: linearised, planned, emitted, rewritten, compiled."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.emit import emit
from accumulus.errors import ArgumentError
from accumulus.frontends.recorder import Recording
from accumulus.graph.linearize import Linearization
from accumulus.memory import check_fits
from accumulus.options import check_threads
from accumulus.programs.argnums import Selection
from accumulus.programs.arguments import Arguments
from accumulus.programs.axes import Axes, InAxes, axes_of_points
from accumulus.programs.dask_batches import lazy_batch
from accumulus.programs.fast_paths import FastPath, many_points, no_fast_path, one_point
from accumulus.programs.guarded import GuardedKernel, Points, Ran, Settle, elsewhere
from accumulus.programs.kinds import Kind
from accumulus.programs.nonzeros import Nonzeros
from accumulus.programs.others import others_for
from accumulus.programs.parts import arrays_of_points, in_parts, on_disk
from accumulus.programs.planning import counts_of, plan_of
from accumulus.programs.preparation import Preparation
from accumulus.programs.primal import primal_operations, without_dead
from accumulus.programs.results import Results
from accumulus.programs.rewritten import rewritten
from accumulus.programs.seeds import inputs_of, linearized
from accumulus.programs.starts import Start, cheapest, rounds_of
from accumulus.resubstitution.by_value import ByValue
from accumulus.resubstitution.optimise import is_by_value
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.optimise import Rounds
from accumulus.search.plan import Plan
from accumulus.tape.live import needed
from accumulus.tape.tape import Tape
from accumulus.targets import Call, Kernel, Segment, compile_tape, emit_source

if TYPE_CHECKING:
    from accumulus.programs.native_function import NativeFunction
    from accumulus.show.report import Report

__all__ = ["Program"]


class Program:
    """Compiled code for arguments of one shape, made by ``Trace.compile`` or ``jacobian(f).compile``.

    Args:
        recording: the function as it was recorded.
        kind: what is returned.
        selection: the differentiated arguments.
        given: a graph and a plan for it, or None, instead of finding them.
        starts: graphs of the derivatives, whose tapes have the same outputs, instead; the shortest program is compiled.
        first: the kind of the first call, point or batch; code for the other kinds is compiled when they are called.
        shared: which numeric arguments are the same at all points of the first batch.
        preparation: the name and options of the function, its deadline, and the stages so far.

    Attributes:
        plan: how the Jacobian is accumulated; verified.
        tape: the compiled program: values, partials and Jacobian.
        operations: of that tape.
        kernel: the compiled code.
        seconds: time that each stage of the preparation took, by its name.
        from_cache: the stages whose results were taken from the cache.
        cut_short: the stage in which the clock ended a search, so that another run may find another program; or empty.
        by_value: what else is known of the program, if it was rewritten by value.
        ran: how often, if its function decides on values.

    Raises:
        CaseError: when it is called at a point where a decision that was recorded would be another.
    """

    def __init__(
        self,
        recording: Recording,
        kind: Kind,
        selection: Selection,
        preparation: Preparation,
        *,
        given: tuple[Linearization, Plan | None] | None = None,
        starts: Sequence[Start] = (),
        first: Call = "point",
        shared: tuple[bool, ...] = (),
    ) -> None:
        name, options = preparation.name, preparation.options
        self.name = name
        self.recording = recording
        self.options = options
        self.kind = kind
        self.seconds = preparation.seconds
        self.from_cache: list[str] = []
        dtype = np.dtype(options.dtype)
        if given is not None:
            starts = [Start(*given)]
        elif not starts:
            with preparation.stage("linearize"):
                starts = [Start(linearized(recording, kind, selection, name))]
        self.linearization: Linearization
        self.plan: Plan
        self._nonzeros: Nonzeros
        self.tape: Tape
        #: Operations that are compiled as they stand, none of them fused with another.
        self._exact: frozenset[int]
        self._write(starts, selection, preparation)
        self.cut_short = preparation.context.cut_short or "plan" * self.plan.cut_short
        self.operations: int = self.tape.operations
        self._arguments = Arguments(name, recording.argument_shapes, dtype, options.check_finite)
        self.ran = Ran()
        self._selection = selection
        self._results = self._laid_out()
        with preparation.stage("compile"):
            preparation.expect(self.operations, writes=False)
            self.kernel: Kernel = self._compile(first, shared)

    def _write(self, starts: Sequence[Start], selection: Selection, preparation: Preparation) -> None:
        """Plan the derivatives, and write and rewrite those of the start whose program promises to be the shortest."""
        operations, guarded = np.array([counts_of(start.linearization, start.plan) for start in starts]).T
        preparation.expect(int(operations.max()), int(guarded.sum()))
        emitted = [self._emitted(start, preparation) for start in starts]
        with preparation.stage("optimise"):
            chosen = cheapest([self._wanted(tape) for _, tape in emitted], preparation.context)
        start = starts[chosen]
        self.linearization, (self.plan, tape) = start.linearization, emitted[chosen]
        if self.plan.recalled:
            self.from_cache.append("plan")
        self._nonzeros = Nonzeros.of(self.linearization, sorted(self.plan.accumulation.entries))
        if self.kind.symmetric:
            self._halve(tape, selection)
        with preparation.stage("optimise"):
            rounds = rounds_of(start, self.kind)
            others = [other for k, (_, other) in enumerate(emitted) if k != chosen]
            self.tape, self._exact = self._optimise(tape, others, preparation, rounds)

    def _wanted(self, tape: Tape) -> Tape:
        """A tape with the outputs that are returned, and whether guards hold."""
        wanted = tape.copy()
        if not self.kind.values:
            del wanted.outputs[: self.recording.results]
        return wanted

    def _emitted(self, start: Start, preparation: Preparation) -> tuple[Plan, Tape]:
        """The plan of a start, and its derivatives on a tape."""
        plan = start.plan
        if plan is None:
            with preparation.stage("plan"):
                plan = plan_of(start.linearization, preparation.context)
        with preparation.stage("emit"):
            return plan, emit(plan.accumulation)

    def __getstate__(self) -> dict[str, Any]:
        # fast paths, and what shares in a search, belong to this process
        state = {name: value for name, value in vars(self).items() if name not in ("fast", "fast_nonzeros", "native")}
        return state | {"options": self.options.alone}

    @property
    def is_guarded(self) -> bool:
        """Whether the function decided on values: the kernel's last array says whether all guards hold, 1 or 0."""
        return bool(self.recording.guards)

    by_value: ByValue | None = None

    #: How results are laid out.
    _layout: type[Results] = Results

    def _laid_out(self, pattern: Nonzeros | None = None) -> Results:
        """The layout of results, with structural nonzeros of sparse ones where a pattern has them, too."""
        return self._layout(
            self.recording,
            self._nonzeros,
            self._selection,
            kind=self.kind,
            sparse=self.options.sparse,
            dtype=np.dtype(self.options.dtype),
            pattern=pattern,
        )

    def _segments(self) -> list[Segment]:
        """The kernel's arrays: results, and whether all guards hold, which is the tape's last output."""
        if not self.is_guarded:
            return self._results.segments
        return [*self._results.segments, self._results.one_entry(len(self.tape.outputs) - 1)]

    @property
    def array_names(self) -> tuple[str, ...]:
        """Names of the kernel's arrays in source: of results, and of whether all guards hold."""
        values = len(self.recording.result_shapes) * self.kind.values
        others = len(self._results.segments) - values
        names = [("value", values), (self.kind.noun, others), ("holds", int(self.is_guarded))]
        return tuple(f"{name}_{k}" if count > 1 else name for name, count in names for k in range(count))

    def _halve(self, tape: Tape, selection: Selection) -> None:
        """Store entries of a Hessian at both of their places; where both were planned, the cheaper half of them."""
        inputs = inputs_of(self.recording, selection.positions)
        skipped = self.recording.results - len(inputs)
        if self.linearization.graph.mirror is not None:
            self._nonzeros = self._nonzeros.mirrored(inputs, skipped)
            return
        first = len(tape.outputs) - len(self.plan.accumulation.entries)
        own, entries = tape.outputs[:first], np.array(tape.outputs[first:], np.int64)
        ways = [self._nonzeros.of_one_triangle(inputs, skipped, upper=upper) for upper in (False, True)]
        costs = [sum(needed(tape, [*own, *entries[np.unique(way.outputs)].tolist()])) for way in ways]
        chosen = ways[int(np.argmin(costs))]
        kept, places = np.unique(chosen.outputs, return_inverse=True)
        tape.outputs = [*own, *entries[kept].tolist()]
        self._nonzeros = Nonzeros(chosen.rows, chosen.columns, places.astype(np.intp))

    def _arrange(self, tape: Tape) -> Tape:
        """Put the outputs of a tape that was emitted as the kernel has them."""
        values = self.recording.results
        if self.is_guarded:  # behind all else
            tape.outputs.append(tape.outputs.pop(values))
        # primal operations are found through the function's values, so these outputs are removed after them
        if not (self.kind.values or self.options.exact_order):
            del tape.outputs[:values]
        return tape

    def _others(self, emitted: Iterable[Tape], preparation: Preparation) -> Iterator[Tape]:
        """Other programs for the same results."""
        if not self.kind.symmetric:
            for tape in chain(emitted, others_for(self.linearization, preparation.context)):
                yield self._arrange(tape)

    def _optimise(
        self, tape: Tape, others: Iterable[Tape], preparation: Preparation, rounds: Rounds
    ) -> tuple[Tape, frozenset[int]]:
        """The tape to compile, and those of its operations that the target must not fuse with others."""
        options, values = self.options, self.recording.results
        kept = values if options.exact_order else 0
        tape = self._arrange(tape)
        if options.rewrites:
            given = tape
            tape, recalled, least = rewritten(
                given, preparation.context, rounds, preparation.points, kept,
                others=lambda: self._others(others, preparation),
            )  # fmt: skip
            if is_by_value(given, options.effort):
                self.by_value = ByValue(given, tape, kept, least)
            self.from_cache += ["optimise"] * recalled
        else:
            tape = canonical(tape, kept)
        if not kept:
            return tape, frozenset()
        primal = primal_operations(tape, values)
        if not self.kind.values:
            del tape.outputs[:values]
            # not by `canonical`, which would rewrite the remaining primal operations
            return without_dead(tape, primal)
        return tape, primal

    def _compile(self, first: Call, shared: tuple[bool, ...]) -> Kernel:
        options = self.options
        kernel = compile_tape(
            self.tape,
            self._segments(),
            target=options.target,
            dtype=options.dtype,
            exact=self._exact,
            arguments=self._arguments.numeric_shapes,
            cache=options.caches,
        )
        kernel.prepare(first, shared)
        if kernel.from_cache:
            self.from_cache.append("compile")
        return kernel

    def __call__(self, *arguments: Any) -> Any:
        """Derivatives at one point; arguments of the shapes that the program was compiled for."""
        if len(arguments) == len(self._arguments.numeric):
            result = self.fast(*arguments)
            if result is not NotImplemented:
                return result
        self._check_guards(arguments)
        return self.at(arguments)

    def at(self, arguments: Sequence[Any], *, matrices: bool = True) -> Any:
        """As a call at a point for which the program is, whether its guards hold there or rounding turns one."""
        arrays = self.kernel(*self._arguments.point(arguments))
        if self.is_guarded:
            arrays = arrays[:-1]
            self.ran.calls += 1
        return self._results.rebuild(arrays, None, matrices=matrices)

    def holds(self, arguments: Sequence[Any]) -> bool:
        """Whether all guards hold at a point."""
        return not self.is_guarded or bool(self.kernel(*self._arguments.point(arguments))[-1][0] > 0)

    def _check_guards(self, arguments: Sequence[Any]) -> None:
        """Refuse a point where a guard fails."""
        if not self.holds(arguments):
            raise elsewhere(self.recording, self.name, arguments)

    @cached_property
    def fast(self) -> FastPath:
        """The fast path for the numeric arguments of one point, see `accumulus.programs.fast_paths`."""
        return self._fast_path(matrices=True)

    @cached_property
    def fast_nonzeros(self) -> FastPath:
        """As `fast`, with the values of nonzeros in the place of matrices."""
        return self._fast_path(matrices=False)

    @cached_property
    def native(self) -> NativeFunction:
        """The machine code as a function of C, for `ctypes`, SciPy's `LowLevelCallable` and Numba.

        Raises:
            CompileError: if the program has none: other targets, loops over long arrays.
        """
        from accumulus.programs.native_function import NativeFunction

        return NativeFunction(self.kernel, self._results.shapes, self.name, guarded=self.is_guarded)

    def _fast_path(self, *, matrices: bool) -> FastPath:
        if self.options.check_finite:
            return no_fast_path
        return one_point(self.kernel, self._results, self.ran if self.is_guarded else None, matrices=matrices)

    def rebuilt(self, arrays: Sequence[Any]) -> Any:
        """The result at one point, from the array of each segment as the kernel writes it, or one that is like it."""
        return self._results.rebuild(arrays, None)

    def nonzeros(self, *arguments: Any) -> Any:
        """As a call, with the values of the structural nonzeros, in the order of `pattern`, in the place of matrices.

        An array of shape (nonzeros,) for each matrix. Making a SciPy matrix takes longer than computing most: a solver
        that keeps one only has to write these values into it.

        Raises:
            ArgumentError: if the program was not compiled for sparse results.
        """
        _ = self.pattern  # refuses dense ones
        if len(arguments) == len(self._arguments.numeric):
            result = self.fast_nonzeros(*arguments)
            if result is not NotImplemented:
                return result
        self._check_guards(arguments)
        return self.at(arguments, matrices=False)

    @property
    def pattern(self) -> Any:
        """Where the structural nonzeros are: a `SparsePattern`, or several in the structure of the derivatives.

        Raises:
            ArgumentError: if the program was not compiled for sparse results.
        """
        if self.options.sparse is None:
            raise ArgumentError(
                f"the derivatives of {self.name} are dense arrays, which have no pattern; ask for sparse ones, with "
                "sparse='csr'"
            )
        return self._results.pattern

    def fast_batch(self, axes: Axes, transposed: bool, settle: Settle | None = None) -> FastPath:
        """The fast path for numeric arguments with such axes of points, see `accumulus.programs.fast_paths`.

        Args:
            settle: what is done about points where guards fail; given if there are any.
        """
        shapes = self._arguments.numeric_shapes
        along = [axes[k] for k in self._arguments.numeric]
        usual = [len(shape) if transposed else 0 for shape in shapes]
        if self.options.check_finite or any(axis not in (None, to) for axis, to in zip(along, usual, strict=True)):
            return no_fast_path
        return many_points(self.kernel, self._results, tuple(axis is None for axis in along), transposed, settle)

    def batch(
        self,
        *arguments: Any,
        in_axes: InAxes = "auto",
        out: Any = None,
        threads: int | None = None,
        transposed: bool = False,
    ) -> Any:
        """Derivatives at many points, see `Derivative.batch`; the program knows of no shapes but its own.

        Raises:
            ArgumentError: for a wrong shape or dtype, of an argument or of `out`; without `in_axes`, where it is not
                clear what is meant.
        """
        shapes, known = self._arguments.shapes_given(arguments), [self._arguments.shapes]
        axes = axes_of_points(in_axes, shapes, known, transposed, self.name)
        return self.batch_along(axes, arguments, out=out, threads=threads, transposed=transposed)

    def batch_along(
        self,
        axes: Axes,
        arguments: Sequence[Any],
        *,
        out: Any,
        threads: int | None,
        transposed: bool,
        kernel: Kernel | None = None,
    ) -> Any:
        """As `batch`, with an axis of points, or None, for each argument.

        Args:
            kernel: that takes points at which guards of this program fail, too.
        """
        kernel = self._alone(arguments) if kernel is None else kernel
        count = self.options.threads if threads is None else check_threads(threads)
        if not transposed and on_disk(arguments, out):
            points = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
            self._check_room(points, out)
            given = None if out is None else self._results.check_out(out, points, False)
            arrays = in_parts(kernel, self._arguments, axes, arguments, points, given, count, self.options.progress)
            return self._results.rebuild(arrays, points)
        X, points = self._arguments.batch(arguments, axes, transposed)
        shared = [axes[k] is None for k in self._arguments.numeric]
        self._check_room(points, out)
        given = None if out is None else self._results.check_out(out, points, transposed)
        arrays = kernel.batch(*X, shared=shared, out=given, threads=count, transposed=transposed)
        return self._results.rebuild(arrays, points, transposed)

    def _alone(self, arguments: Sequence[Any]) -> Kernel:
        """The kernel without its array of guards, which refuses points where one fails."""
        if not self.is_guarded:
            return self.kernel

        def settle(points: Points, arrays: Sequence[NDArray[Any]], holds: NDArray[Any]) -> None:
            self.ran.points += len(holds)
            for point in np.flatnonzero(holds == 0)[:1].tolist():
                numbers = iter(points.one(point))
                given = [
                    x if shape is None else next(numbers)
                    for x, shape in zip(arguments, self.recording.argument_shapes, strict=True)
                ]
                raise elsewhere(self.recording, self.name, given, f"point {point} of the batch")

        return GuardedKernel(self.kernel, settle)

    def returns_like(self, other: Program) -> bool:
        """Whether results have the shapes and the structure of another program's."""
        one, two = self.recording, other.recording
        return (one.structure, one.result_shapes) == (two.structure, two.result_shapes)

    def union_of_patterns(self, others: Sequence[Program]) -> Nonzeros:
        """The structural nonzeros of several programs, in results of one shape."""
        width = self.recording.tape.inputs
        return reduce(lambda union, other: union.union(other._nonzeros, width), others, self._nonzeros)

    def laid_out(self, pattern: Nonzeros) -> Program:
        """A program whose sparse results have this pattern, compiled anew; itself if they have it."""
        results = self._laid_out(pattern)
        if [each.length for each in results.segments] == [each.length for each in self._results.segments]:
            return self
        found = copy.copy(self)
        for name in ("fast", "fast_nonzeros", "native"):
            vars(found).pop(name, None)
        found._results = results
        found.kernel = found._compile("point", ())
        return found

    def _check_room(self, points: int, out: Any) -> None:
        """Refuse results that do not fit into memory."""
        if out is None:
            entries = points * sum(segment.length for segment in self.kernel.segments)
            check_fits(
                entries * self.kernel.dtype.itemsize,
                f"{entries:,} entries of the results of {points:,} points",
                "give out=, an array on disk as np.lib.format.open_memmap makes it, or fewer points at a time",
            )

    def arrays_along(
        self, axes: Axes, arguments: Sequence[Any], kernel: Kernel | None = None
    ) -> tuple[NDArray[Any], ...]:
        """The arrays of a batch, of shape (points, length), before they are results; `kernel` as for `batch_along`."""
        return arrays_of_points(kernel or self._alone(arguments), self._arguments, axes, arguments)

    def lazy_batch(self, axes: Axes, arguments: Sequence[Any], travels: Any = None) -> Any:
        """As `batch_along`, of Dask arrays.

        Args:
            travels: what computes chunks by its `arrays_along`, instead of this program.
        """
        arrays: Any = lazy_batch(self, self if travels is None else travels, axes, arguments)
        return self._results.rebuild(arrays, arrays[0].shape[0] if arrays else 0)

    def _repr_html_(self) -> str:
        from accumulus.show.tables import programs_as_html

        return programs_as_html(f"Program of {self.name}", [self])

    def source(self, target: str | None = None, name: str = "f") -> str:
        """The program as text in a target's language, by default that which it is compiled for.

        Args:
            target: of `accumulus.targets.languages`: "c", "cuda", "jax", "numpy" or "llvm".
            name: of the function in it.

        Returns:
            Text that takes the arguments and writes or returns the results, flat in C order, of sparse ones the
            structural nonzeros.

        Raises:
            UnknownNameError: if there is no such target.
            ArgumentError: if `name` is none that a function can have.
            CompileError: for programs over long arrays, which are loops, in a language without them.
        """
        shapes, exact = self._arguments.numeric_shapes, self._exact
        target, dtype = target or self.options.target, self.options.dtype
        return emit_source(self.tape, self.kernel.segments, target, name, dtype, exact=exact, arguments=shapes)

    def report(self) -> Report:
        """What was won and why: counts by method, operations by kind, time of each stage. Printable."""
        from accumulus.show.report import Report

        return Report.of(self)
