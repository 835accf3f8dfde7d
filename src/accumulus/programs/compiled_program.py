"""A function's derivatives, compiled for arguments of one shape, for calls at single points and in batches."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.trees import unflatten
from accumulus.memory import check_fits
from accumulus.options import Objective, Options, check_threads
from accumulus.programs.arguments import Arguments, Axes, InAxes, at_one_point, axes_of_points, mistakable
from accumulus.programs.batches import arrays_of_points, first_point, in_parts, lazy_batch, moved_to_device, on_disk
from accumulus.programs.calls import (
    BatchPoints,
    BoundCall,
    Compute,
    Ran,
    Settle,
    elsewhere,
    settled,
    warn_of_nan,
)
from accumulus.programs.derivation import Derivation
from accumulus.programs.fast_paths import FastPath, into_arrays, many_points, no_fast_path, one_point
from accumulus.programs.preparation import Preparation
from accumulus.programs.results import DerivativeBlock, Results
from accumulus.programs.sparse import Nonzeros
from accumulus.resubstitution.optimise import ByValue
from accumulus.search.plan import Plan
from accumulus.targets import Call, Kernel, Segment
from accumulus.targets.kernel import share_memory

if TYPE_CHECKING:
    from accumulus.programs.forms import CallForm
    from accumulus.programs.measured import Speed
    from accumulus.programs.native_function import NativeFunction
    from accumulus.show.report import Report


class CompiledProgram:
    """Compiled code for arguments of one shape, made by ``Trace.compile`` or ``jacobian(f).compile``.

    Its stages are the same for straight-line code and for loops.

    Args:
        name: name of the function.
        options: options of the derivative.
        derivation: the code, and the facts about its derivation.
        results: layout of the results.
        seconds: time that each stage of the preparation took, by its name.

    Attributes:
        recording: recording of the function, or of the derivative that is differentiated in its place.
        kind: kind of the results.
        code: operations in a straight line, or loops.
        facts: graph, plans and sizes, for the report.
        operations: number of operations of the code.
        kernel: the compiled code.
        from_cache: stages whose results were taken from the cache.
        cut_short: stage in which the clock ended a search, so that another run may find another program; or empty.
        ran: number of runs, if the function decides on values.

    Raises:
        CaseError: for a call at a point where the function would decide otherwise than at the recording.
    """

    kernel: Kernel

    def __init__(
        self, name: str, options: Options, derivation: Derivation, results: Results, seconds: dict[str, float]
    ) -> None:
        self.name, self.options, self.seconds = name, options, seconds
        self.recording, self.kind = derivation.recording, derivation.kind
        self.code, self.facts = derivation.code, derivation.facts
        self.code.compact = options.objective is Objective.CODE_SIZE
        self.operations = derivation.code.operations
        self.from_cache, self.cut_short = derivation.from_cache, derivation.cut_short
        self.ran = Ran()
        self._selection, self._results = derivation.selection, results
        self._arguments = Arguments(name, self.recording.argument_shapes, results.dtype, options.check_finite)

    @classmethod
    def of(
        cls, derivation: Derivation, preparation: Preparation, first: Call = "point", shared: tuple[bool, ...] = ()
    ) -> CompiledProgram:
        """Return the compiled program of a derivation.

        Args:
            derivation: code and its layout, not compiled yet.
            preparation: name and options of the function, its deadline, and the stages so far.
            first: kind of the first call, point or batch; code for other kinds is compiled at their first call.
            shared: for each numeric argument, True if all points of the first batch share it.
        """
        options = preparation.options
        program = cls(preparation.name, options, derivation, _laid_out(derivation, options), preparation.seconds)
        if program.is_guarded and options.sparse:  # further cases may require another layout
            program._derivation = derivation
        with preparation.stage("compile"):
            preparation.expect(derivation.code.compiled_operations, writes=False)
            program.compile(first, shared)
        return program

    def __repr__(self) -> str:
        return f"<{self.kind.name} of {self.name}, compiled for {self.options.target}, {self.operations:,} operations>"

    def compile(self, first: Call | None = None, shared: tuple[bool, ...] = ()) -> None:
        """Compile the code that the first call needs; arguments as for `of`."""
        options = self.options
        self.kernel = self.code.kernel(
            self._segments(),
            self._arguments.numeric_shapes,
            target=options.target,
            dtype=options.dtype,
            threads=options.threads,
            cache=options.caches,
        )
        if first is not None:
            self.kernel.prepare(first, shared)
        if self.kernel.from_cache:
            self.from_cache.append("compile")

    #: True after the results of a call were examined for NaN, and True while all results have had NaN: rounding was
    #: judged at points that say nothing.
    is_examined: bool = False
    is_preliminary: bool = False
    #: Derivation of the results, kept so that programs of several cases can share one layout.
    _derivation: Derivation | None = None
    #: Arguments of the last call for which guards were checked, and its results, until these are returned.
    _computed: tuple[Sequence[Any], Sequence[NDArray[Any]]] | None = None
    #: How users pass arguments; None for numbers and arrays by position.
    _form: CallForm | None = None
    #: Fast path for batches like the last one; None if there is none.
    fast_batch_of_last: FastPath | None = None

    def __getstate__(self) -> dict[str, Any]:
        # fast paths and executors of searches belong to this process
        process_bound = {"fast", "fast_nonzeros", "native", "fast_into", "_point", "fast_batch_of_last"}
        state = {name: value for name, value in vars(self).items() if name not in process_bound}
        return state | {"options": self.options.alone}

    @property
    def is_guarded(self) -> bool:
        """Return True if the function decides on values; the kernel's last array is 1 if all guards hold, else 0."""
        return bool(self.recording.guards)

    @property
    def tape(self) -> Any:
        """The compiled operations or loops of values, partials and derivatives."""
        return self.code.tape

    @property
    def plan(self) -> Plan | None:
        """The plan that accumulates the derivatives; None for loops, which have separate plans."""
        return self.facts.plan

    @property
    def by_value(self) -> ByValue | None:
        """Record of resubstitution; None if it did not run."""
        return self.facts.by_value

    def blocks(self) -> list[DerivativeBlock]:
        """Return the places of derivatives by result and argument; none for products with a Jacobian."""
        recording, kind = self.recording, self.kind
        segments = self._results.segments[len(recording.result_shapes) * kind.values :]
        pairs = [
            (result, argument)
            for result in range(kind.skipped, len(recording.result_shapes))
            for argument in self._selection.positions
        ]
        if self.is_open or not kind.derivatives or kind.has_seeds or kind.factored:
            return []
        if self._selection.places is not None:
            pairs = [(-1, -1)]
        return [
            self._results.block(k - len(segments), pair, math.prod(recording.argument_shapes[pair[1]] or ()))
            for k, pair in enumerate(pairs)
        ]

    def _segments(self) -> list[Segment]:
        """Return the kernel's arrays: the results and, with guards, the truth value that all hold, the last output."""
        if not self.is_guarded:
            return self._results.segments
        last = len(self.code.tape.outputs) - 1
        return [*self._results.segments, Segment(1, (last,), (0,))]

    @property
    def array_names(self) -> tuple[str, ...]:
        """Names of the kernel's arrays in source text: of the results, and of the truth value of the guards."""
        values = len(self.recording.result_shapes) * self.kind.values
        derivatives = len(self._results.segments) - values
        names = [("value", values), (self.kind.noun, derivatives), ("holds", int(self.is_guarded))]
        return tuple(f"{name}_{k}" if count > 1 else name for name, count in names for k in range(count))

    def formed(self, form: CallForm) -> CompiledProgram:
        """Return this program for calls with arguments of a form."""
        made = copy.copy(self)
        made._form = form
        return made

    def _numbers(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Sequence[Any]:
        """Return the numbers and arrays in arguments, by position."""
        if self._form is not None:
            return self._form.numbers(arguments, keywords)
        if keywords:
            raise ArgumentError(
                f"{', '.join(keywords)} was passed by keyword to a program of {self.name} that was compiled for "
                "arguments by position; pass them as they were passed to compile()"
            )
        return arguments

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the derivatives at one point.

        Args:
            *arguments: arguments of the shapes that the program was compiled for, in the same structure.
            **keywords: arguments by name.
            out: keyword-only, arrays to write the results to, see `Derivative.__call__`.

        Raises:
            ArgumentError: for arguments of another shape or structure.
        """
        out = None
        if keywords or self._form is not None:
            if self._form is None or self._form.takes_out:
                out = keywords.pop("out", None)
            arguments = tuple(self._numbers(arguments, keywords))
        result = self.fast(*arguments) if out is None else self.fast_into(arguments, out)
        if result is not NotImplemented:
            return result
        if out is not None:
            return self.into(arguments, out)
        self._check_guards(arguments)
        return self.at(arguments)

    def bind(self, *arguments: Any, out: Any = None, **keywords: Any) -> BoundCall:
        """Return a call without arguments that reads these arrays, and writes to `out`, each time.

        Args:
            *arguments: as for a call; arrays of the program's dtype, C-contiguous, or numbers.
            out: arrays to write to, see `Derivative.__call__`; by default new ones.
            **keywords: arguments by name.

        Raises:
            ArgumentError: for other arguments, and if `out` does not fit or overlaps them.
        """
        return self.bound(self._numbers(arguments, keywords), out, self.into)

    def bound(self, arguments: Sequence[Any], out: Any, otherwise: Callable[..., Any]) -> BoundCall:
        """Return a bound call, see `bind`; `otherwise` is called with arguments and results where guards fail."""
        given, results = self._arguments.bound(arguments), self._results
        new = [np.empty(shape, results.dtype) for shape in results.shapes] if out is None else out
        arrays = results.check_out(new, None)
        if share_memory(given, arrays):
            raise ArgumentError("out overlaps an argument, or another array of out; expected memory of its own")
        structured = unflatten(results.structure, arrays)
        holds = np.zeros((), results.dtype) if self.is_guarded else None
        return BoundCall(self._point, given, self._arguments.numeric, arrays, structured, otherwise, holds)

    def into(self, arguments: Sequence[Any], out: Any) -> Any:
        """Write the results at one point to the caller's arrays, and return these in the structure of the results.

        Raises:
            ArgumentError: if `out` has another shape, dtype or memory order, or overlaps an argument.
            CaseError: if a guard fails.
        """
        result = self.fast_into(arguments, out)
        if result is not NotImplemented:
            return result
        arrays = self._results.check_out(out, None)
        if share_memory(arguments, arrays):
            raise ArgumentError("out overlaps an argument, or another array of out; expected memory of its own")
        self._check_guards(arguments)
        made = self._arrays(arguments)
        self.ran.calls += self.is_guarded
        for array, result in zip(arrays, made, strict=False):  # with guards, `made` has one array more
            array[...] = result.reshape(array.shape)
        return self._results.maker(True)(arrays)

    @cached_property
    def fast_into(self) -> FastPath:
        """The fast path that writes to the caller's arrays, see `accumulus.programs.fast_paths.into_arrays`."""
        ran = self.ran if self.is_guarded else None
        return into_arrays(self.kernel, self._point, self._results, self._arguments.shapes, ran)

    @cached_property
    def _point(self) -> Callable[..., Any] | None:
        """The compiled function of arguments and results at one point; None if there is none that makes all checks."""
        return None if self.options.check_finite else self.kernel.point()

    def at(self, arguments: Sequence[Any], *, matrices: bool = True) -> Any:
        """Call the program at a point inside its guards, or within rounding of them."""
        arrays = self._arrays(arguments)
        if self.is_guarded:
            arrays = arrays[:-1]
            self.ran.calls += 1
        self._examine(arrays, arguments, "in its first call")
        return self._results.rebuild(arrays, None, matrices=matrices)

    def _arrays(self, arguments: Sequence[Any]) -> Sequence[NDArray[Any]]:
        """Return all results at a point; they are known if guards have just been checked there."""
        computed, self._computed = self._computed, None
        if computed is not None and computed[0] is arguments:
            return computed[1]
        return self.kernel(*self._arguments.point(arguments))

    def _examine(self, arrays: Sequence[NDArray[Any]], arguments: Sequence[Any], where: str) -> None:
        """Warn of results that are NaN, in the first call on the slow path, and look whether later ones are, too."""
        if not self.is_examined or self.is_preliminary:
            self.is_preliminary = any(np.isnan(array).any() for array in arrays)
        if not self.is_examined:
            self.is_examined = True
            warn_of_nan(self, arrays, arguments, where)

    def holds(self, arguments: Sequence[Any], *, keeps: bool = False) -> bool:
        """Return True if all guards hold at a point.

        Args:
            arguments: the point.
            keeps: if True, the results, which are computed with the guards, are kept for a call of `at` with the same
                sequence, before anything changes its arrays.
        """
        if not self.is_guarded:
            return True
        arrays = self.kernel(*self._arguments.point(arguments))
        does_hold = bool(arrays[-1][0] > 0)
        self._computed = (arguments, arrays) if keeps and does_hold else None
        return does_hold

    def _check_guards(self, arguments: Sequence[Any]) -> None:
        """Raise a `CaseError` for a point where a guard fails."""
        if not self.holds(arguments, keeps=True):
            raise elsewhere(self.recording, self.name, arguments)

    @cached_property
    def fast(self) -> FastPath:
        """The fast path for the numeric arguments of one point, see `accumulus.programs.fast_paths`."""
        return self._fast_path(matrices=True)

    @cached_property
    def fast_nonzeros(self) -> FastPath:
        """Return the fast path that returns values of nonzeros instead of matrices."""
        return self._fast_path(matrices=False)

    @cached_property
    def native(self) -> NativeFunction:
        """The machine code as a C function, for `ctypes`, SciPy's `LowLevelCallable` and Numba.

        Raises:
            CompileError: if the program has none: for other targets, and for loops over long arrays.
        """
        from accumulus.programs.native_function import NativeFunction

        return NativeFunction(self.kernel, self._results.shapes, self.name, guarded=self.is_guarded)

    def _fast_path(self, *, matrices: bool) -> FastPath:
        if self.options.check_finite:
            return no_fast_path
        return one_point(self.kernel, self._results, self.ran if self.is_guarded else None, matrices=matrices)

    def rebuilt(self, arrays: Sequence[Any]) -> Any:
        """Return the result at one point from one flat array for each segment, as the kernel writes them."""
        return self._results.rebuild(arrays, None)

    def nonzeros(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the values of the structural nonzeros, in the order of `pattern`, instead of matrices.

        There is an array of shape (nonzeros,) for each matrix. Making a SciPy matrix takes longer than computing most
        of them: a solver that reuses a matrix only has to copy these values into it.

        Raises:
            ArgumentError: if the program was not compiled for sparse results.
        """
        _ = self.pattern  # raises for dense results
        numbers = self._numbers(arguments, keywords)
        result = self.fast_nonzeros(*numbers)
        if result is not NotImplemented:
            return result
        self._check_guards(numbers)
        return self.at(numbers, matrices=False)

    @property
    def pattern(self) -> Any:
        """Return the places of structural nonzeros: a `SparsePattern`, or several in the structure of the derivatives.

        If the places depend on indices among the arguments, the last call determines them.

        Raises:
            ArgumentError: if the program was not compiled for sparse results.
        """
        if self.options.sparse is None:
            raise ArgumentError(
                f"the derivatives of {self.name} are dense arrays, which have no pattern; ask for sparse ones, with "
                "sparse='csr'"
            )
        return self._results.pattern

    def fast_batch(self, in_axes: InAxes, axes: Axes, transposed: bool, settle: Settle | None = None) -> FastPath:
        """Return the fast path for numeric arguments with these axes of points, see `accumulus.programs.fast_paths`.

        Args:
            in_axes: axes as the caller passes them.
            axes: axis of points of each argument; None if it is shared.
            transposed: if True, points are on the last axis.
            settle: function that handles points where guards fail; required if there are guards.
        """
        shapes = self._arguments.numeric_shapes
        along = [axes[k] for k in self._arguments.numeric]
        usual = [len(shape) if transposed else 0 for shape in shapes]
        if self.options.check_finite or any(axis not in (None, to) for axis, to in zip(along, usual, strict=True)):
            return no_fast_path
        shared, ran = tuple(axis is None for axis in along), self.ran if self.is_guarded else None
        threads = self.options.threads
        return many_points(self.kernel, self._results, shared, transposed, in_axes, threads, ran, settle)

    def batch(
        self,
        *arguments: Any,
        in_axes: InAxes = "auto",
        out: Any = None,
        threads: int | None = None,
        transposed: bool = False,
        **keywords: Any,
    ) -> Any:
        """Return derivatives at many points, see `Derivative.batch`; only this program's shapes are considered.

        Raises:
            ArgumentError: for an argument or `out` of a wrong shape or dtype; without `in_axes`, also if the axes are
                ambiguous.
        """
        if keywords or self._form is not None:
            arguments = tuple(self._numbers(arguments, keywords))
            in_axes = in_axes if self._form is None else self._form.axes(arguments, in_axes, transposed)
        if self.fast_batch_of_last is not None:
            result = self.fast_batch_of_last(arguments, out, threads, in_axes, transposed)
            if result is not NotImplemented:
                return result
        shapes, compiled_shapes = self._arguments.shapes_in(arguments), [self._arguments.shapes]
        axes = axes_of_points(in_axes, shapes, compiled_shapes, transposed, self.name)
        result = self.batch_along(axes, arguments, out=out, threads=threads, transposed=transposed)
        if None not in shapes and not isinstance(in_axes, list) and not self.is_guarded:
            at_one = [at_one_point(shape or (), axis) for shape, axis in zip(shapes, axes, strict=True)]
            if in_axes != "auto" or not mistakable(at_one, compiled_shapes):
                self.fast_batch_of_last = self.fast_batch(in_axes, axes, transposed)
        return result

    def batch_along(
        self,
        axes: Axes,
        arguments: Sequence[Any],
        *,
        out: Any,
        threads: int | None,
        transposed: bool,
        compute: Compute | None = None,
    ) -> Any:
        """Compute a batch with a known axis of points, or None, for each argument.

        Args:
            axes: axis of points of each argument; None if it is shared.
            arguments: arguments of the batch.
            out: arrays for the results, or None.
            threads: number of threads; None for the option `threads`.
            transposed: if True, points are on the last axis.
            compute: function of a batch that also computes points where this program's guards fail, see `settled`;
                None for the program's own.
        """
        compute = self._alone(arguments) if compute is None else compute
        count = self.options.threads if threads is None else check_threads(threads)
        if not transposed and on_disk(arguments, out):
            points = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
            self._check_room(points, out)
            outputs = None if out is None else self._results.check_out(out, points, False)
            lengths, progress = [segment.length for segment in self._results.segments], self.options.progress
            arrays = in_parts(compute, lengths, self._arguments, axes, arguments, points, outputs, count, progress)
            return self._results.rebuild(arrays, points)
        X, points = self._arguments.batch(arguments, axes, transposed)
        shared = [axes[k] is None for k in self._arguments.numeric]
        self._check_room(points, out)
        outputs = None if out is None else self._results.check_out(out, points, transposed)
        arrays = compute(*X, shared=shared, out=outputs, threads=count, transposed=transposed)
        if points and not self.is_examined:
            first = [array[..., 0] if transposed else array[0] for array in arrays]
            operands = [first_point(x, axis) for x, axis in zip(arguments, axes, strict=True)]
            self._examine(first, operands, "at the first point of its first batch")
        return self._results.rebuild(arrays, points, transposed)

    def _alone(self, arguments: Sequence[Any]) -> Compute:
        """Return a function of a batch, without the array of guards; it raises an error where a guard fails."""
        if not self.is_guarded:
            return self.kernel.batch

        def settle(points: BatchPoints, arrays: Sequence[NDArray[Any]], holds: NDArray[Any]) -> None:
            self.ran.points += len(holds)
            for point in np.flatnonzero(holds == 0)[:1].tolist():
                numbers = iter(points.one(point))
                operands = [
                    x if shape is None else next(numbers)
                    for x, shape in zip(arguments, self.recording.argument_shapes, strict=True)
                ]
                raise elsewhere(self.recording, self.name, operands, f"point {point} of the batch")

        return settled(self.kernel, settle)

    @property
    def is_open(self) -> bool:
        """Return True if places of nonzeros depend on indices among the arguments."""
        return self._results.is_open

    def returns_like(self, other: CompiledProgram) -> bool:
        """Return True if results have the shapes and the structure of another program's results."""
        if (self.is_open or other.is_open) and self._results.shapes != other._results.shapes:
            return False
        one, two = self.recording, other.recording
        return (one.structure, one.result_shapes) == (two.structure, two.result_shapes)

    def union_of_patterns(self, programs: Sequence[CompiledProgram]) -> Nonzeros:
        """Return the union of the structural nonzeros of this and other programs, whose results have one shape."""
        width = self.recording.program.inputs
        derivations = [each._derivation for each in (self, *programs)]
        return reduce(lambda union, other: union.union(other, width), [each.nonzeros for each in derivations if each])

    def laid_out(self, pattern: Nonzeros) -> CompiledProgram:
        """Return this program with this pattern of its sparse results, compiled anew if the pattern differs."""
        assert self._derivation is not None
        results = _laid_out(self._derivation, self.options, pattern)
        if [each.length for each in results.segments] == [each.length for each in self._results.segments]:
            return self
        renewed = copy.copy(self)
        for name in ("fast", "fast_nonzeros", "fast_into", "_point", "native"):
            vars(renewed).pop(name, None)
        renewed._results = results
        renewed.compile("point")
        return renewed

    def _check_room(self, points: int, out: Any) -> None:
        """Raise a `SizeError` for results that do not fit into memory."""
        if out is None:
            entries = points * sum(segment.length for segment in self.kernel.segments)
            check_fits(
                entries * self.kernel.dtype.itemsize,
                f"{entries:,} entries of the results of {points:,} points",
                "give out=, an array on disk as np.lib.format.open_memmap makes it, or fewer points at a time",
            )

    def arrays_along(
        self, axes: Axes, arguments: Sequence[Any], compute: Compute | None = None
    ) -> tuple[NDArray[Any], ...]:
        """Return a batch's raw arrays, (points, length), one for each segment; `compute` as for `batch_along`."""
        return arrays_of_points(compute or self._alone(arguments), self._arguments, axes, arguments)

    def lazy_batch(self, axes: Axes, arguments: Sequence[Any], travels: Any = None) -> Any:
        """Compute a batch of Dask arrays.

        Args:
            axes: axis of points of each argument; None if it is shared.
            arguments: arguments of the batch, Dask arrays among them.
            travels: object whose `arrays_along` computes a chunk, instead of this program.
        """
        lengths = [segment.length for segment in self._results.segments]
        arrays: Any = lazy_batch(self if travels is None else travels, lengths, self.kernel.dtype, axes, arguments)
        return self._results.rebuild(arrays, arrays[0].shape[0] if arrays else 0)

    def batch_on_device(self, axes: Axes, arguments: Sequence[Any], transposed: bool) -> Any:
        """Compute a batch of arrays on the GPU; NumPy arrays are copied to it.

        Raises:
            ArgumentError: if the function decides on values, since its guards are checked on the CPU.
        """
        if self.is_guarded:
            raise ArgumentError(
                f"{self.name} decides on values, and the case of each point is determined on the CPU; pass NumPy "
                "arrays, or write np.where instead of the decision"
            )
        numeric = self._arguments.numeric
        operands, points = moved_to_device(arguments, numeric, axes, transposed=transposed)
        shared = [axes[k] is None for k in numeric]
        device = vars(self.kernel)["device"]
        arrays: Any = device.on_device(operands, points, shared, transposed)
        return self._results.rebuild(arrays, points, transposed)

    def _repr_html_(self) -> str:
        from accumulus.show.tables import programs_as_html

        return programs_as_html(f"Program of {self.name}", [self])

    def source(self, target: str | None = None, name: str = "f") -> str:
        """Return the program as source text in a target's language; by default in the language of its own target.

        Args:
            target: target of `accumulus.targets.languages`: "c", "cuda", "jax", "numpy" or "llvm".
            name: name of the function in the text.

        Returns:
            Text of a function that takes the arguments and writes or returns the results, flat in C order; sparse
            results are their structural nonzeros.

        Raises:
            UnknownNameError: if there is no such target.
            ArgumentError: if `name` is not a valid function name.
            CompileError: for programs with loops over long arrays, in a language without loops.
        """
        shapes, options = self._arguments.numeric_shapes, self.options
        return self.code.source(self.kernel.segments, shapes, target or options.target, name, dtype=options.dtype)

    def report(self) -> Report:
        """Return a printable report of the costs, their comparison with other methods, and the time of each stage."""
        from accumulus.show.report import Report

        return Report.of(self)

    def measured(self, arguments: Sequence[Any]) -> Speed:
        """Return the time of a call at one point, and of batches that repeat it, beside the limits of the machine."""
        from accumulus.programs.measured import measure

        point = self._arguments.point(arguments)
        return measure(self.kernel, lambda: self(*arguments), point, self.operations)


def _laid_out(derivation: Derivation, options: Options, pattern: Nonzeros | None = None) -> Results:
    """Return the layout of results; sparse results have at least the nonzeros of `pattern`, if passed."""
    return Results(
        derivation.recording,
        derivation.nonzeros,
        derivation.selection,
        kind=derivation.kind,
        sparse=options.sparse,
        dtype=np.dtype(options.dtype),
        pattern=pattern,
        join=derivation.join,
    )
