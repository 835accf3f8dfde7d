"""Functions that return derivatives of another function, with a program for each shape of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from accumulus.errors import ArgumentError, SizeError, TraceError
from accumulus.forks import Lock
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.calls import Reader, Restructured
from accumulus.frontends.kinds import as_inputs, as_reals, shape_of
from accumulus.frontends.location import name_of, numbered
from accumulus.frontends.record import of_steps
from accumulus.frontends.recorder import Recording
from accumulus.frontends.variables import GONE
from accumulus.options import Objective, Options
from accumulus.programs.arguments import InAxes, at_one_point, axes_of_points, mistakable, points_of_numbers
from accumulus.programs.assumptions import assumed_of_inputs, checked_assumptions, places_of
from accumulus.programs.batches import (
    check_options,
    first_point,
    is_lazy,
    is_on_device,
    later_points,
    like,
    point_count,
    stand_in,
)
from accumulus.programs.calls import BatchPoints, BoundCall
from accumulus.programs.cases import Cases, Chunks, GrownError, PathName
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derived import check_number, points_around
from accumulus.programs.directions import Directed, seeded_signature, settled_seeds
from accumulus.programs.fast_paths import FastPath, beside_constants, no_fast_path
from accumulus.programs.forms import CallForm, Forms, axes_by_position, axes_of_numbers
from accumulus.programs.graphs import inputs_of
from accumulus.programs.kinds import DerivativeKind
from accumulus.programs.lowering import Recorded, program_of
from accumulus.programs.preparation import Preparation, check_size
from accumulus.programs.selection import Selection, SelectionRequest, checked_argnums, key_of_examples, static_positions
from accumulus.programs.watched import Watched, always
from accumulus.tape.program import OpenIndicesError
from accumulus.targets import Call

if TYPE_CHECKING:
    from accumulus.programs.posed import Posed
    from accumulus.show.report import Report


#: Maximum number of programs whose fast paths are tried, the last used first. With more, a call that fits none of them
#: takes longer; with fewer, functions of several shapes or cases take the general way.
MOST_FAST = 4
#: Maximum number of threads or contexts, besides the first, for which a function is recorded with their own values of
#: captured variables. More take memory, with fewer the function is recorded again when threads take turns.
MOST_ELSEWHERE = 32
#: Maximum number of operations of a program that is also written out, to see if its C is shorter than that of its
#: loops. A larger one takes more time to prepare, a smaller one may miss the shorter C.
MOST_WRITTEN = 4_000


#: Fast paths for one point with their programs, the last used first.
FastPaths = tuple[tuple[Cases, FastPath], ...]
#: Attributes that hold them.
_ATTRIBUTES: Final[dict[PathName, str]] = {name: f"_{name}" for name in ("fast", "fast_nonzeros", "fast_into")}


class Derivative:
    """Function that returns derivatives of another function; the result of `jacobian`, `gradient` and the like.

    The first call with arguments of new shapes traces, plans and compiles a program. The program is kept until a global
    or closed-over value that `f` reads changes; then `f` is recorded again (`accumulus.frontends.captured`). A copy or
    pickle includes the programs, which are compiled again at the first call; pickling requires that `f` can be pickled.

    >>> import numpy as np, accumulus as acc
    >>> jac = acc.jacobian(lambda x: x**3)
    >>> jac(np.array([1.0, 2.0])).tolist(), jac(2.0).tolist()  # one program for each shape
    ([[3.0, 0.0], [0.0, 12.0]], 12.0)
    """

    #: The compiled program is rewritten: it rounds otherwise than its recording, see `verify_recording`.
    is_rewritten: Final = True
    #: For one point: paths to results, to values of nonzeros, and to results that are written to arrays of the caller.
    _fast: FastPaths
    _fast_nonzeros: FastPaths
    _fast_into: FastPaths
    #: The first path to results.
    _first: FastPath
    #: Fast path for batches like the last one; None if there is none.
    _fast_batch: FastPath | None
    #: Function that is True if the variables that all these were compiled with are the very same (`Captured.is_same`).
    _is_same: Callable[[], bool]

    def __init__(
        self,
        f: Callable[..., Any],
        kind: DerivativeKind,
        selected: Forms | Selection,
        options: Options,
        request: SelectionRequest | None = None,
        watched: Watched | None = None,
    ) -> None:
        self._name = name_of(f)
        self.__name__ = f"{kind.name}({self._name})"
        self.__doc__ = f"{kind.title} of {self._name}.\n\n{f.__doc__ or ''}"
        self.__wrapped__ = f
        if kind.has_seeds and not isinstance(f, Directed):
            self.__signature__ = seeded_signature(kind)
        if options.assume:
            places_of(options.assume, f)  # refuses names of no argument
        #: Records `f`, and detects changes of the variables that it captures.
        self._watched = Watched(f) if watched is None else watched
        self._kind = kind
        #: Conversion from users' arguments to numbers by position; None if users pass these.
        self._forms = selected if isinstance(selected, Forms) else None
        by_position = selected.positional if isinstance(selected, Forms) else (selected, ())
        self._selected_argnums: int | Sequence[int] | Selection
        self._static: tuple[int, ...]
        self._selected_argnums, self._static = by_position or ((), ())
        #: Derivatives with respect to the numbers in containers and keywords, by form; and the last used of them.
        self._inner: dict[Hashable, Derivative] = {}
        self._last_form: Derivative = self
        #: True if a call has required fixed places of nonzeros; each array of indices then needs its own program.
        self._is_closed = False
        #: Readers of the numbers in arguments, by form; and the call signatures for which a reader was sought.
        self._readers: tuple[tuple[Reader, Derivative], ...] = ()
        self._read: frozenset[tuple[Derivative, int, tuple[str, ...]]] = frozenset()
        self._options, self._request = options, request
        #: Programs by shapes of arguments and values of constant arguments.
        self._programs: dict[Hashable, Cases] = {}
        self._drop_fast_paths()
        #: Copies for the values of captured variables in other threads and contexts, the last used first.
        self._elsewhere: tuple[Derivative, ...] = ()
        #: The last compiled program, and all programs for arguments of its shapes.
        self._last: tuple[Cases, CompiledProgram] | None = None
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        fast = {"_fast", "_fast_nonzeros", "_fast_into", "_first", "_fast_batch", "_is_same"}
        process_bound = {*fast, "_lock", "_readers", "_read"}
        state = {name: value for name, value in vars(self).items() if name not in process_bound}
        # executors of searches belong to this process; each copy watches for itself
        state |= {"_options": self._options.alone, "_programs": dict(self._programs), "_watched": copy(self._watched)}
        state |= {"_elsewhere": (), "_last_form": None if self._last_form is self else self._last_form}
        return state | {"held": self._watched.summary()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        held = state.pop("held")
        vars(self).update(state)
        self._last_form = state["_last_form"] or self
        self._drop_fast_paths()
        self._readers, self._read = (), frozenset()
        self._lock = Lock()
        if not self._watched.resumes(held):
            self._forget()

    @property
    def holder(self) -> object:
        """Objects whose attributes are watched for changes."""
        return self._watched.holder

    def __call__(self, *arguments: Any, out: Any = ..., **keywords: Any) -> Any:
        """Return derivatives at one point, of shape (result shape, argument shape) for each result and argument.

        Arguments may be passed by keyword, as to `f`; omitted ones take their defaults.

        Args:
            *arguments: arguments of `f`: numbers, arrays and containers.
            out: if `f` takes no argument of that name and no arbitrary keywords: array, sequence of
                arrays, or arrays in the structure of the results, to write to, as for `batch`. For sparse results they
                are arrays of the nonzeros, in the order of `pattern`. The call returns these arrays, and numbers for
                results that are numbers.
            **keywords: arguments by name.

        Raises:
            ArgumentError: for arguments of a wrong kind; if `out` has another shape, dtype or memory order, or overlaps
                an argument. Nothing is written in this case.
        """
        if not keywords:
            try:
                is_current = self._is_same() or self._is_current()
            except GONE:
                is_current = False
            if is_current and out is ...:
                result = self._first(*arguments)
                if result is not NotImplemented:
                    return result
                for _, fast in self._fast[1:]:
                    result = fast(*arguments)
                    if result is not NotImplemented:
                        return result
            elif is_current:
                for _, fast in self._fast_into:
                    result = fast(arguments, out)
                    if result is not NotImplemented:
                        return result
        if out is not ...:
            if self._forms is None or not self._forms.takes_out:
                keywords["out"] = out
            elif out is not None:
                return self._into(arguments, keywords, out)
        for read, form in self._readers:
            numbers = read(arguments, keywords)
            if numbers is not None and form._holds():
                for _, fast in form._fast:
                    result = fast(*numbers)
                    if result is not NotImplemented:
                        return result
        return self._call(arguments, keywords)

    def _into(self, positional: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> Any:
        """Return the results of a call, written to the caller's arrays."""
        if ACTIVE.tape is not None:
            raise ArgumentError(
                f"out was passed to {self.__name__} inside a function that is recorded, where values are traced; "
                "leave it out"
            )
        for read, form in self._readers:
            numbers = read(positional, keywords)
            if numbers is not None and form._holds():
                for _, fast in form._fast_into:
                    result = fast(numbers, out)
                    if result is not NotImplemented:
                        self._last_form = form
                        return result
        form, numbers = self._read_form(positional, keywords)
        return form._written(numbers, out)

    def _written(self, numbers: tuple[Any, ...], out: Any) -> Any:
        """Return the results for positional arguments on the slow path, written to the caller's arrays."""
        here = self._here()
        if here is not self:
            return here._written(numbers, out)
        cases, program = self._compiled(numbers, "point")
        result = program.into(numbers, out)
        if None not in cases.argument_shapes and not program.is_preliminary:
            self._prefer("fast_into", cases, numbers)
        return result

    def _call(self, positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Return the results of a call on the slow path, which may compile a program."""
        if ACTIVE.tape is not None:
            return self._nested(positional, keywords)
        form, arguments = self._form_of(positional, keywords)
        if form is not self or keywords:
            self._add_reader(form, positional, keywords)
        if form is not self:
            return form(*arguments)
        here = self._here()
        if here is not self:
            return here(*arguments)
        cases, program = self._compiled(arguments, "point")
        fast = cases.fast()
        is_quick = program.is_examined and not program.is_preliminary and None not in cases.argument_shapes
        result = fast(*arguments) if is_quick else NotImplemented
        if result is NotImplemented:
            result = program.at(arguments)
        if not program.is_preliminary:
            self._prefer("fast", cases, arguments, fast)
        return result

    def _holds(self) -> bool:
        """Return True if no variable that the fast paths were compiled with has changed."""
        try:
            return self._is_same() or self._is_current()
        except GONE:
            return False

    def _is_current(self) -> bool:
        """Return True if all watched variables equal their recorded values; update the objects to compare with."""
        is_current = self._watched.is_current
        if self._is_same is not always:
            self._is_same = self._watched.is_same
        return is_current

    def _nested(self, positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Record the derivative as part of the function that is being recorded, and return its results."""
        from accumulus.programs.nesting import derivative_within

        last = self._last_form
        form, numbers = self._form_of(positional, keywords)
        self._last_form = last
        static = static_positions(form._static, len(numbers))
        return derivative_within(
            form.__wrapped__, numbers, static, form._kind, form._selected, form._name, self._options
        )

    def _selected(self, recording: Recording) -> Selection:
        """Return the checked selection of arguments, directions and weights."""
        selection = checked_argnums(self._selected_argnums, recording.argument_shapes, self._name)
        check_number(recording, self._kind, self._name)
        if self._request is not None:
            columns = len(inputs_of(recording, selection.positions))
            size = columns if self._kind.symmetric else recording.results, columns
            return replace(selection, places=self._request.places(size, self._name))
        if not self._kind.has_seeds:
            return selection
        assert isinstance(self.__wrapped__, Directed)
        return settled_seeds(recording, self.__wrapped__, selection, self._kind, self._name)

    def batch(
        self,
        *arguments: Any,
        in_axes: InAxes = "auto",
        out: Any = None,
        threads: int | None = None,
        transposed: bool = False,
        **keywords: Any,
    ) -> Any:
        """Return derivatives at many points, with an additional leading axis of points in all results.

        Args:
            *arguments: as for one point; an argument of shape s that varies has shape (points, *s), or its points on
                the axis that `in_axes` names.
            in_axes: axis of the points of each argument as in `jax.vmap`, or None if all points share it; one number
                for all arguments. By default, numbers are shared, and every array has its points on the first axis (the
                last one if `transposed`). An `ArgumentError` asks for `in_axes` if the numbers of points differ, or if
                another reading is possible: the arrays fit shapes that were compiled before, with some of them shared;
                or, for new shapes, an array of one number for each point is as long as the last axis of another
                argument at one point.
            out: array, sequence of arrays, or arrays in the structure of the results, to write to: C-contiguous, of the
                program's dtype, in the order of the results. If `out` or an argument is a `numpy.memmap` on disk, a
                quarter of a gigabyte at a time is in memory.
            threads: number of threads that share the points; by default as passed to `jacobian`.
            transposed: if True, points are on the last axis of results, and of arguments unless `in_axes` says
                otherwise; else on the first one.
            **keywords: arguments by name, as for one point or with an axis of points.

        Returns:
            Results with an axis of points. If an argument is a Dask array, they are Dask arrays, whose chunks are
            computed on demand.

        Raises:
            ArgumentError: for a wrong shape or dtype of an argument or of `out`, or if `in_axes` is required.
            SizeError: if the results do not fit into memory.

        >>> import numpy as np, accumulus as acc
        >>> jac = acc.jacobian(lambda a, x: a * x**2, argnums=1)
        >>> jac.batch(np.array([1.0, 2.0]), np.ones((1000, 2)), in_axes=(None, 0)).shape
        (1000, 2, 2)
        """
        fast = self._fast_batch
        if fast is not None and not keywords:
            try:
                is_current = self._is_same() or self._is_current()
            except GONE:
                is_current = False
            result = fast(arguments, out, threads, in_axes, transposed) if is_current else NotImplemented
            if result is not NotImplemented:
                return result
        for read, form in self._readers:
            numbers = read(arguments, keywords)
            fast = form._fast_batch
            if numbers is None or fast is None:
                continue
            try:
                is_current = form._is_same() or form._is_current()
            except GONE:
                continue
            if is_current:
                axes = in_axes if type(in_axes) is str else self._axes_of(form, numbers, in_axes, transposed)
                result = fast(numbers, out, threads, axes, transposed)
                if result is not NotImplemented:
                    self._last_form = form
                    return result
        form, numbers = self._read_form(arguments, keywords)
        return form._batch(numbers, self._axes_of(form, numbers, in_axes, transposed), out, threads, transposed)

    def _axes_of(self, form: Derivative, numbers: Sequence[Any], in_axes: Any, transposed: bool) -> InAxes:
        """Return the axes of points of numbers by position, from those of the arguments."""
        if form is not self:
            assert isinstance(form.__wrapped__, Restructured)
            return axes_of_numbers(form.__wrapped__, numbers, in_axes, transposed, self._name)
        if isinstance(in_axes, dict):
            return axes_by_position(self.__wrapped__, numbers, in_axes, transposed, self._name)
        return in_axes  # type: ignore[no-any-return]

    def _read_form(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Derivative, tuple[Any, ...]]:
        """Return the derivative for numbers by position, and these numbers, through a reader if there is one."""
        for read, form in self._readers:
            numbers = read(arguments, keywords)
            if numbers is not None:
                self._last_form = form
                return form, numbers
        form, operands = self._form_of(arguments, keywords)
        if form is not self or keywords:
            self._add_reader(form, arguments, keywords)
        return form, operands

    def _batch(
        self, arguments: tuple[Any, ...], in_axes: InAxes, out: Any, threads: int | None, transposed: bool
    ) -> Any:
        """Return the results of a batch on the slow path; arguments are numbers by position.

        Of Dask and CuPy arrays, the first point is fetched or computed now, since the function is recorded there.
        """
        name, lazy, on_device = self._name, any(map(is_lazy, arguments)), any(map(is_on_device, arguments))
        if lazy and (out is not None or transposed):
            raise ArgumentError(
                f"{'out' if out is not None else 'transposed'} was given for a batch of Dask arrays; leave it out: "
                "the result is a Dask array, which its own store() writes, and transpose() turns"
            )
        if on_device and not lazy:
            check_options(self._options, out, name)
        here = self._here()
        if here is not self:
            return here._batch(arguments, in_axes, out, threads, transposed)
        if self._options.assume and not (lazy or on_device):
            self._checked_assumptions(arguments)
        operands = [stand_in(x, numbered(name, k)) for k, x in enumerate(arguments)] if lazy or on_device else arguments
        shapes = self._shapes(operands)
        compiled_shapes = [cases.argument_shapes for cases in [*self._programs.values()]]
        axes = axes_of_points(in_axes, shapes, compiled_shapes, transposed, name)
        if on_device and not lazy:  # numbers of the first point are needed to record the function, not to find it
            key = key_of_examples(
                [*map(first_point, operands, axes)], static_positions(self._static, len(shapes)), name
            )
            cases = self._programs.get(key)
            if cases is not None and not cases.is_guarded:
                return cases.programs[0].batch_on_device(axes, arguments, transposed)
        point = tuple(map(first_point, arguments, axes))
        shared = tuple([axis is None for axis, shape in zip(axes, shapes, strict=True) if shape is not None])
        call: Call = "transposed" if transposed else "batch"
        make = partial(self._further, point, shared)
        if lazy:
            cases, program = self._compiled(point, call, shared)
            same = [y if axis is None else x for x, y, axis in zip(arguments, point, axes, strict=True)]
            lengths = [segment.length for segment in program.kernel.segments]
            chunks = Chunks(self.__name__, shared, lengths, self._compiled, make) if cases.is_guarded else None
            return program.lazy_batch(axes, same, chunks)
        if on_device:
            return self._compiled(point, call, shared)[1].batch_on_device(axes, arguments, transposed)
        points = 1 if out is not None else point_count(arguments, axes)
        while True:
            try:
                cases, program = self._compiled(point, call, shared, points, partial(later_points, arguments, axes))
            except TraceError as error:
                wrong = points_of_numbers(error, shapes, axes, transposed, name)
                if wrong is None:
                    raise
                raise wrong from error
            compute = cases.compute(program, make)
            with suppress(GrownError):  # then start again: at most as often as there are cases
                result = program.batch_along(
                    axes, arguments, out=out, threads=threads, transposed=transposed, compute=compute
                )
                break
        if None not in shapes and not isinstance(in_axes, list) and not program.is_preliminary:
            at_one = [at_one_point(shape or (), axis) for shape, axis in zip(shapes, axes, strict=True)]
            with self._lock:
                compiled_shapes = [other.argument_shapes for other in self._programs.values()]
                certain = in_axes != "auto" or not mistakable(at_one, compiled_shapes)
                if certain and cases in self._programs.values():
                    self._is_same = self._watched.is_same
                    self._fast_batch = cases.fast_batch(in_axes, axes, transposed, make)
        return result

    def compile(self, *examples: Any, **keywords: Any) -> CompiledProgram:
        """Return the program for arguments of these shapes; compile it for one point if it does not exist yet.

        If the function decides on values, it is the program of the case of these arguments. The code for batches is
        compiled with the first batch. The program is called with arguments of the same structure.

        Args:
            *examples: arguments as for a call, of the shapes to compile for.
            **keywords: arguments by name.

        Raises:
            TraceError, ArgumentError: as a call with these arguments.

        >>> import numpy as np, accumulus as acc
        >>> program = acc.gradient(lambda x: x @ x).compile(np.ones(3))
        >>> program.operations, program(np.array([1.0, 2.0, 3.0])).tolist()
        (3, [2.0, 4.0, 6.0])
        """
        form, numbers = self._form_of(examples, keywords)
        _, program = form._compiled(numbers, "point")
        if form is self and not keywords:
            return program
        assert self._forms is not None
        call = form.__wrapped__ if form is not self else None
        return program.formed(CallForm(self._forms, call, form._name))  # type: ignore[arg-type]  # a form's function is one

    def bind(self, *arguments: Any, out: Any = None, **keywords: Any) -> BoundCall:
        """Return a call without arguments that reads these arrays, and writes to `out`, each time.

        It checks nothing any more and allocates nothing, so that a call takes a tenth of a microsecond besides its
        work: for solvers that call thousands of times. Bind it where the function is defined, since rounding is judged
        there. Then write into the arrays and call. Variables that the function captures keep the values that they have
        now; a branch that is first taken later is recorded with those of then.

        Args:
            *arguments: as for a call, of the same shapes; arrays of the program's dtype, C-contiguous, in containers or
                alone, or numbers.
            out: arrays to write to, as for a call; by default new ones.
            **keywords: arguments by name.

        Raises:
            TraceError, ArgumentError: as a call with these arguments; for arguments that had to be converted each time;
                and if `out` does not fit or overlaps them.

        >>> import numpy as np, accumulus as acc
        >>> x = np.array([1.0, 2.0])
        >>> call = acc.jacobian(lambda x: x * x).bind(x)
        >>> x[:] = 3.0, 4.0
        >>> call().tolist()
        [[6.0, 0.0], [0.0, 8.0]]
        """
        form, numbers = self._form_of(arguments, keywords)
        _, program = form._compiled(numbers, "point")

        def otherwise(numbers: Sequence[Any], arrays: Sequence[NDArray[Any]]) -> Any:
            return form._compiled(tuple(numbers), "point")[1].into(numbers, arrays)

        return program.bound(numbers, out, otherwise)

    def prepared(self, *examples: Any, **keywords: Any) -> tuple[CompiledProgram, tuple[Any, ...]]:
        """Return the program for arguments of these shapes, and the arrays among them that it takes, in its order.

        >>> import numpy as np, accumulus as acc
        >>> program, numbers = acc.gradient(lambda x, scale: x @ x * scale).prepared(np.ones(3), scale=2.0)
        >>> len(numbers), program.operations
        (2, 4)
        """
        form, numbers = self._form_of(examples, keywords)
        _, program = form._compiled(numbers, "point")
        shapes = program.recording.argument_shapes
        return program, tuple(x for x, shape in zip(numbers, shapes, strict=True) if shape is not None)

    def _add_reader(self, form: Derivative, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Store a reader, so that further calls of this form skip the analysis of their arguments."""
        signature = (form, len(arguments), tuple(keywords))
        if self._forms is None or signature in self._read:
            return
        call = form.__wrapped__ if form is not self else None
        read = self._forms.reader(arguments, keywords, call)  # type: ignore[arg-type]  # a form's function is one
        with self._lock:
            self._read = frozenset((*self._read, signature))
            if read is not None:
                self._readers = ((read, form), *self._readers[: MOST_FAST - 1])

    def _form_of(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Derivative, tuple[Any, ...]]:
        """Return the derivative for numbers by position, this one for plain arguments, and the numbers and arrays."""
        if self._forms is None:
            return self, tuple(arguments)
        call, numbers = self._forms.of(arguments, keywords)
        form: Derivative = self
        if call is not None:
            with self._lock:
                form = self._inner.get(call.key) or self
                if form is self:
                    selected = self._forms.selection(call)
                    watched = self._watched.restructured(call)
                    form = Derivative(call, self._kind, selected, self._options, self._request, watched)
                    self._inner[call.key] = form
        self._last_form = form
        return form, tuple(numbers)

    def _compiled(
        self,
        examples: Sequence[Any],
        first: Call,
        shared: tuple[bool, ...] = (),
        points: int = 1,
        others: Callable[[], Sequence[Sequence[Any]]] = tuple,
    ) -> tuple[Cases, CompiledProgram]:
        """Return all programs for arguments of these shapes, and the one for this point.

        Args:
            examples: arguments at the point.
            first: kind of the first call.
            shared: for each numeric argument, True if all points share it.
            points: number of points of a batch.
            others: function that returns arguments at other points, at which rounding is judged, too.
        """
        here = self._here()
        if here is not self:
            return here._compiled(examples, first, shared, points, others)
        key = key_of_examples(examples, static_positions(self._static, len(examples)), self._name)
        cases = self._programs.get(key)
        program = None if cases is None else cases.at(examples)
        if program is not None and program.is_preliminary and self._watched.records:
            program.at(examples)
            if not program.is_preliminary:  # the first good point: made anew, as if it had been the first
                self._programs.pop(key, None)
                cases = program = None
        if cases is None or program is None:
            with self._lock:
                cases = self._programs.get(key)  # another thread may have been here before
                program = None if cases is None else cases.at(examples)
                if not self._watched.is_current:
                    cases = program = None
                elif cases is None or program is None:
                    opens = self._opens_indices(cases, first)
                    built = self._build(examples, first, shared, points, others, opens_indices=opens)
                    if cases is None:
                        cases, program = Cases(built), built
                        self._programs[key] = cases
                        self._fast_batch = None  # the next batch has to check again if its arguments are ambiguous
                    else:
                        program = cases.add(built, self._options.most_cases)
        if cases is None or program is None:  # another thread has recorded with other values
            return self._compiled(examples, first, shared, points, others)
        self._last = cases, program
        return cases, program

    def _further(self, point: tuple[Any, ...], shared: tuple[bool, ...], points: BatchPoints) -> CompiledProgram:
        """Return the program for the first of some points of a batch; record it there if it does not exist.

        Args:
            point: arguments of one point, whose constants select the programs.
            shared: for each numeric argument, True if all points share it.
            points: points of the batch.
        """
        numbers = iter(points.one(0))
        arguments = [
            like(next(numbers), argument) if shape is not None else argument
            for argument, shape in zip(point, self._shapes(point), strict=True)
        ]
        return self._compiled(arguments, "transposed" if points.transposed else "batch", shared)[1]

    def _shapes(self, arguments: Sequence[Any]) -> list[tuple[int, ...] | None]:
        """Return the shapes of arguments at one point; None for constants."""
        static, name = static_positions(self._static, len(arguments)), self._name
        return [None if k in static else shape_of(x, numbered(name, k)) for k, x in enumerate(arguments)]

    def _prefer(self, name: PathName, cases: Cases, arguments: Sequence[Any], fast: FastPath | None = None) -> None:
        """Put a fast path for one point first.

        Args:
            name: name of the path.
            cases: its programs.
            arguments: arguments of the call; constants must be identical to those in later calls.
            fast: the path, if it is there already.
        """
        attribute, shapes = _ATTRIBUTES[name], cases.argument_shapes
        before: FastPaths = getattr(self, attribute)
        if before and before[0][0] is cases and None not in shapes:
            return
        fast = cases.fast(name) if fast is None else fast
        if fast is no_fast_path:
            return
        if None in shapes:
            fast = beside_constants(fast, shapes, arguments)
        with self._lock:
            if cases in self._programs.values():  # else another thread has dropped them
                rest = [entry for entry in getattr(self, attribute) if entry[0] is not cases]
                self._is_same = self._watched.is_same
                setattr(self, attribute, ((cases, fast), *rest[: MOST_FAST - 1]))
                self._first = self._fast[0][1] if self._fast else no_fast_path

    def nonzeros(self, *arguments: Any, **keywords: Any) -> Any:
        """Call a sparse derivative; return the values of the nonzeros instead of SciPy's matrices.

        Arguments are those of a call. The values have shape (nonzeros,); `pattern` has their rows and columns in the
        same order. See `CompiledProgram.nonzeros`.

        >>> import numpy as np, accumulus as acc
        >>> jac = acc.jacobian(lambda x: x[1:] * x[:-1], sparse="csr")
        >>> x = np.array([1.0, 2.0, 3.0])
        >>> A = jac(x)
        >>> A.data[:] = jac.nonzeros(2.0 * x)  # the matrix at another point, in the memory of the first
        >>> print(A.toarray())
        [[4. 2. 0.]
         [0. 6. 4.]]
        """
        if not keywords and self._holds():
            for _, fast in self._fast_nonzeros:
                result = fast(*arguments)
                if result is not NotImplemented:
                    return result
        form, arguments = self._form_of(arguments, keywords)
        here = form._here()
        if here is not self:
            return here.nonzeros(*arguments)
        cases, program = self._compiled(arguments, "point")
        if program.is_open:  # the caller needs fixed places
            self._is_closed = True
            self._forget()
            cases, program = self._compiled(arguments, "point")
        _ = program.pattern  # raises for dense results
        result = program.at(arguments, matrices=False)
        self._prefer("fast_nonzeros", cases, arguments)
        return result

    @property
    def pattern(self) -> Any:
        """Return the places of structural nonzeros of the last program, see `CompiledProgram.pattern`."""
        return self._program().pattern

    @property
    def operations(self) -> int:
        """Number of operations of the last compiled program."""
        return self._program().operations

    def report(self, *examples: Any, **keywords: Any) -> Report:
        """Report on the program that was last compiled or called: its costs, its plan, and the time of each stage.

        The report also names the side effects of `f` and captured objects whose changes may be missed. If `f` decides
        on values, it lists all cases with their conditions and the number of their runs.

        Args:
            *examples: arguments as for a call, of any shapes. If there are any, the report also measures the speed at
                them, for some tenths of a second.
            **keywords: the same by name.

        Raises:
            ArgumentError: if nothing has been compiled or called, and there are no examples.

        >>> import numpy as np, accumulus as acc
        >>> jac = acc.jacobian(lambda x: np.sin(x) * x[0])
        >>> _ = jac.compile(np.ones(2))
        >>> jac.report().jacobian_shape, "Jacobian" in jac.report()
        ((2, 2), True)
        """
        from accumulus.show.report import Subject

        numbers = self.prepared(*examples, **keywords)[1] if examples or keywords else None
        captured, program = self._last_form._watched.captured, self._program()
        summary: Report = program.report()
        summary = replace(summary, subject=Subject(program, self._last_form.__wrapped__))
        if numbers is not None:
            summary = replace(summary, measured=program.measured(numbers))
        if not self._options.watch:
            summary = replace(summary, unwatched=("anything, as watch=False says",))
        elif captured is not None:
            unwatched, changed = dict.fromkeys(captured.unwatched), dict.fromkeys(captured.changed)
            summary = replace(summary, unwatched=tuple(unwatched), changed=tuple(changed))
        last = self._last_form._last
        if last is None or not last[0].is_guarded:
            return summary
        from accumulus.show.report import CaseFacts

        return replace(summary, cases=tuple(map(CaseFacts.of, last[0].programs)))

    def show(self, path: str | PathLike[str] | None = None) -> Any:
        """Show how the program that was last compiled or called accumulates its derivatives, step by step.

        Vertices have the names of values in `f`. For arguments, results and errors, see `Plan.show`.

        Raises:
            ArgumentError: if nothing has been compiled or called, or the file cannot be written.

        >>> jac.show("page.html")  # doctest: +SKIP
        """
        from accumulus.show.explorer import show_program

        return show_program(self._program(), self.__wrapped__, path)

    def _program(self) -> CompiledProgram:
        if self._last_form is not self:
            return self._last_form._program()
        if self._last is None:
            raise ArgumentError(f"{self.__name__} has not been compiled; call it or its compile() with arguments first")
        cases, program = self._last
        # the program of the same case, whose layout may have changed since
        return next((case for case in cases.programs if case.recording is program.recording), program)

    def compile_loops(self, *examples: Any, recording: Recording | None = None) -> CompiledProgram:
        """Compile operations on arrays as loops, however short, since C compilers are slow on straight-line code.

        The program is not kept for calls.

        Args:
            *examples: positional example arguments, numbers and arrays; the program is for their shapes.
            recording: recording of the function for these examples, if there is one.

        >>> import numpy as np, accumulus as acc
        >>> program = acc.gradient(lambda x: np.sum(x**2)).compile_loops(np.ones(50))
        >>> len(program.code.maps) > 0, program(np.ones(50))[:2].tolist()
        (True, [2.0, 2.0])
        """
        opens = recording is None and self._opens_indices(None, "point")
        return self._made(examples, "point", (), 1, at_once=True, opens_indices=opens, recording=recording)

    def _build(
        self,
        examples: Sequence[Any],
        first: Call,
        shared: tuple[bool, ...],
        points: int,
        others: Callable[[], Sequence[Sequence[Any]]],
        *,
        opens_indices: bool = False,
    ) -> CompiledProgram:
        return self._made(examples, first, shared, points, others, opens_indices=opens_indices)

    def _opens_indices(self, cases: Cases | None, first: Call) -> bool:
        """Return True if long arrays of indices among the arguments are to be inputs of the next program.

        For matrices, the first program has fixed places of nonzeros for its indices; a program for other indices serves
        all.
        """
        if not (self._kind.is_matrix or self._kind.factored):
            return True
        if self._kind.factored or self._is_closed or cases is None or first != "point":
            return False
        return any(program.recording.uses_indices for program in cases.programs)

    def sparsity(self, *examples: Any, **keywords: Any) -> Any:
        """Return the sparsity pattern of derivatives for arguments of these shapes, without compiling anything.

        The pattern is a SciPy matrix of True (entries of result × entries of argument), or several in the structure of
        the results. It covers all derivatives, even if `rows` selects only some. If the function decides on
        values, it is the pattern of the case of the examples.

        Raises:
            ArgumentError: for products with a Jacobian, and for the function alone; for examples of a wrong kind.

        >>> import numpy as np, accumulus as acc
        >>> print(acc.jacobian(lambda x: x[1:] * x[:-1]).sparsity(np.ones(3)).toarray().astype(int))
        [[1 1 0]
         [0 1 1]]
        """
        form, numbers = self._form_of(examples, keywords)
        return form._sparsity(numbers)

    def posed(self, *examples: Any) -> Posed:
        """Return the derivative for arguments of these shapes, still to be planned by the caller.

        Raises:
            TraceError, ArgumentError: as a call with these arguments.

        >>> import numpy as np, accumulus as acc
        >>> len(acc.jacobian(lambda x: x[1:] * x[:-1]).posed(np.ones(3)).linearization.graph.sources)
        4
        """
        from accumulus.programs.posed import Posed

        form, numbers = self._form_of(examples, {})
        with Preparation(form._name, form._options) as preparation:
            return Posed.of(form._recorded(numbers, preparation))

    def _sparsity(self, examples: Sequence[Any]) -> Any:
        from accumulus.programs.posed import sparsity_of

        here = self._here()
        if here is not self:
            return here._sparsity(examples)
        with self._lock, Preparation(self._name, self._options) as preparation:
            return sparsity_of(self._recorded(examples, preparation))

    def _made(
        self,
        examples: Sequence[Any],
        first: Call,
        shared: tuple[bool, ...],
        points: int,
        others: Callable[[], Sequence[Sequence[Any]]] = tuple,
        *,
        at_once: bool = False,
        opens_indices: bool = False,
        recording: Recording | None = None,
    ) -> CompiledProgram:
        is_short = self._options.objective is Objective.CODE_SIZE and self._options.takes_arrays
        at_once |= is_short
        # a recording of the caller may have other arguments
        assumptions = {} if recording is not None else self._checked_assumptions(examples)
        with Preparation(self._name, self._options) as preparation:
            while True:
                recorded = self._recorded(
                    examples, preparation, at_once=at_once, opens_indices=opens_indices, recording=recording
                )
                shapes = recorded.recording.argument_shapes
                preparation.assumed = assumed_of_inputs(assumptions, recorded.recording)
                preparation.others = [as_inputs(as_reals(each, shapes), shapes) for each in others()]
                check_size(recorded.recording, self._kind, recorded.selection, points, self._options, self._name)
                key = self._key_to_share(recorded, first, shared)
                if key is not None and key in ACTIVE.prepared:
                    return ACTIVE.prepared[key]  # type: ignore[no-any-return]
                try:
                    made = program_of(recorded, first, shared, loops=at_once or None)
                    if is_short:
                        made = self._smaller(made, recorded, first, shared)
                    if key is not None and not made.cut_short:
                        ACTIVE.prepared[key] = made
                    return made
                except (OpenIndicesError, SizeError):
                    if not opens_indices:
                        raise
                    opens_indices = False

    def _key_to_share(self, recorded: Recorded, first: Call, shared: tuple[bool, ...]) -> Hashable:
        """Return a key of everything that determines the program; None if no programs are shared, or it has no key."""
        if ACTIVE.prepared is None:
            return None
        from accumulus.programs.nesting import nesting_key

        recording, kind, selection, *_ = recorded
        if recording.guards:
            return None
        key = nesting_key(recording, kind, selection, self._options, {})
        # names of arguments are options, and their places may differ between functions of the same program
        return key and (key, self._name, first, shared, recorded.preparation.assumed)

    def _smaller(
        self, made: CompiledProgram, recorded: Recorded, first: Call, shared: tuple[bool, ...]
    ) -> CompiledProgram:
        """Return the program, or the one without loops if its C is shorter."""
        recording = recorded.recording
        if made.code.maps is None or recording.program.is_straight or recording.program.operations > MOST_WRITTEN:
            return made
        from accumulus.targets.c.c_tables import code_size

        other = program_of(recorded, first, shared, loops=False)
        return min(made, other, key=lambda program: code_size(program.code))

    def _checked_assumptions(self, arguments: Sequence[Any]) -> dict[int, str]:
        """Return what is assumed of numbers by position, after checking it at one point or a batch of points."""
        if not self._options.assume:
            return {}
        static = static_positions(self._static, len(arguments))
        numbers = [None if k in static else x for k, x in enumerate(arguments)]
        return checked_assumptions(self._options.assume, self.__wrapped__, numbers, self._name)

    def _recorded(
        self,
        examples: Sequence[Any],
        preparation: Preparation,
        *,
        at_once: bool = False,
        opens_indices: bool = False,
        recording: Recording | None = None,
    ) -> Recorded:
        """Return the recording and the selection from which programs are made."""
        if recording is None:
            with preparation.stage("trace"):
                recording = self._record(examples, at_once=at_once, opens_indices=opens_indices)
                recording = of_steps(recording) if at_once else recording
        selection, shapes = self._selected(recording), recording.argument_shapes
        near = points_around(as_inputs(as_reals(examples, shapes), shapes))
        return Recorded(recording, self._kind, selection, preparation, near)

    def _record(self, examples: Sequence[Any], *, at_once: bool = False, opens_indices: bool = False) -> Recording:
        """Record `f`, see `Watched.record`."""
        static = static_positions(self._static, len(examples))
        return self._watched.record(examples, static, self._options, at_once=at_once, opens_indices=opens_indices)

    def _here(self) -> Derivative:
        """Return the derivative for this thread and context: this one unless captured variables differ between them.

        If a watched value has changed, programs are forgotten. They are kept if they may be current in another thread.
        """
        captured = self._watched.captured
        if captured is None or not captured.is_by_thread:
            if not self._watched.is_current:
                self._forget()
            return self
        others = self._elsewhere
        for form in (self, *others):
            if form._watched.captured is not None and form._watched.is_current:
                break
        else:
            form = copy(self)
            form._forget()
        if form is not self:
            self._elsewhere = (form, *[other for other in others if other is not form][: MOST_ELSEWHERE - 1])
        return form

    def _forget(self) -> None:
        """Drop all programs, so that the next call records `f` again."""
        with self._lock:
            self._programs = {}
            self._watched.forget()
            self._last = None
            self._drop_fast_paths()

    def _drop_fast_paths(self) -> None:
        """Drop all fast paths, and only then what they are compared with, since other threads may be calling."""
        self._fast = self._fast_nonzeros = self._fast_into = ()
        self._first, self._fast_batch = no_fast_path, None
        self._is_same = always

    def __repr__(self) -> str:
        return f"<{self.__name__}, {len(self._compiled_programs())} compiled>"

    def _repr_html_(self) -> str:
        from accumulus.show.tables import programs_as_html

        return programs_as_html(self.__name__, self._compiled_programs())

    def _compiled_programs(self) -> list[CompiledProgram]:
        forms = [self, *self._inner.values()]
        return [program for form in forms for cases in form._programs.values() for program in cases.programs]
