"""A function that returns derivatives of another: a program for each shape of its arguments, made when it is met."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

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
from accumulus.options import Options, check_threads
from accumulus.programs.argnums import checked_argnums, static_positions
from accumulus.programs.axes import InAxes, at_one_point, axes_of_points, mistakable
from accumulus.programs.choice import program_of
from accumulus.programs.dask_batches import first_point, is_lazy, stand_in
from accumulus.programs.fast_paths import FastPath, beside_constants, no_fast_path
from accumulus.programs.preparation import Preparation
from accumulus.programs.program import Program
from accumulus.programs.results import Wanted
from accumulus.programs.sizes import check_size
from accumulus.targets import Call

if TYPE_CHECKING:
    from accumulus.show.report import Report

__all__ = ["Derivative"]

#: Number of programs whose fast paths are tried, the last used first.
MOST_FAST = 4


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
        self._name = name_of(f)
        self.__name__ = f"{wanted}({self._name})"
        self.__doc__ = f"Derivatives of {self._name}.\n\n{f.__doc__ or ''}"
        self.__wrapped__ = f
        #: Objects whose attributes are watched for changes: the holder of `f`, and objects among constant arguments.
        self._holder = recorder_of(f).holds(f)
        self._objects: tuple[Any, ...] = ()
        self._wanted: Wanted = wanted
        self._given_argnums = argnums if isinstance(argnums, int) else tuple(argnums)
        self._static = static if isinstance(static, int) else tuple(static)
        self._options = options
        self._scalar = scalar
        self._programs: dict[Hashable, Program] = {}
        #: Fast paths for one point, that of the last call first.
        self._fast: tuple[tuple[Program, FastPath], ...] = ()
        #: The same for the values of nonzeros.
        self._fast_nonzeros: tuple[tuple[Program, FastPath], ...] = ()
        #: The fast path that the last batch could take; the `in_axes` that it is for, and whether it is transposed.
        self._fast_batch: tuple[InAxes, bool, FastPath] | None = None
        self._last: Program | None = None
        #: What `f` and these objects held when the programs were recorded; None before the first.
        self._captured: Captured | None = None
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        process_bound = {"_fast", "_fast_nonzeros", "_fast_batch", "_captured", "_lock"}
        state = {name: value for name, value in vars(self).items() if name not in process_bound}
        # what shares in a search belongs to this process
        state |= {"_options": self._options.alone, "_programs": dict(self._programs)}
        return state | {"held": None if self._captured is None else self._captured.summary()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        held = state.pop("held")
        vars(self).update(state)
        self._fast, self._fast_nonzeros, self._fast_batch = (), (), None
        self._lock = Lock()
        self._captured = None if held is None else Captured((self._holder, *self._objects))
        if self._captured is not None and self._captured.summary() != held:
            self._forget()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Derivatives at one point, of shape (result shape, argument shape) for each result and argument.

        Arguments may be given by keyword, as to `f`; those that its signature has before them get their defaults.
        """
        if keywords:
            arguments = self._positional(arguments, keywords)
        for _, fast in self._fast:
            result = fast(*arguments)
            if result is not NotImplemented:
                return result
        program = self.compile(*arguments)
        result = program(*arguments)
        self._fast = self._preferred(self._fast, program, program.fast, arguments)
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
            out: the array, or the sequence of arrays, to write results to; C-contiguous, of the program's dtype, in the
                order in which they would be returned.
                If this or an argument is on disk, a `numpy.memmap`, a quarter of a gigabyte at a time is in memory.
            threads: how many threads share the points; by default as given to `jacobian`.
            transposed: points run along the last axis of results, and of arguments where `in_axes` does not say
                otherwise; along the first one if not.

        Returns:
            Results with an axis of points; Dask arrays, chunk by chunk computed when they are asked for, if an argument
            is one.

        Raises:
            ArgumentError: for a wrong shape or dtype, of an argument or of `out`, or if `in_axes` is needed.
            SizeError: if the results do not fit into memory.

        >>> import numpy as np, accumulus as acc
        >>> jac = acc.jacobian(lambda a, x: a * x**2, argnums=1)
        >>> jac.batch(np.array([1.0, 2.0]), np.ones((1000, 2)), in_axes=(None, 0)).shape
        (1000, 2, 2)
        """
        if keywords:
            arguments = self._positional(arguments, keywords)
        if self._fast_batch is not None:
            for_axes, across, fast = self._fast_batch
            if type(for_axes) is type(in_axes) and for_axes == in_axes and across is transposed:
                result = fast(arguments, out, self._options.threads if threads is None else check_threads(threads))
                if result is not NotImplemented:
                    return result
        return self._batch(arguments, in_axes, out, threads, transposed)

    def _batch(
        self, arguments: tuple[Any, ...], in_axes: InAxes, out: Any, threads: int | None, transposed: bool
    ) -> Any:
        """The slow path of `batch`: a function of its own, so that a call that does not take it need not set it up."""
        if any(map(is_lazy, arguments)):
            return self._lazy_batch(arguments, in_axes, out, transposed)
        self._renew()
        name = self._name
        static = static_positions(self._static, len(arguments))
        shapes = [None if k in static else shape_of(x, f"argument {k} of {name}") for k, x in enumerate(arguments)]
        known = [program.recording.argument_shapes for program in [*self._programs.values()]]
        axes = axes_of_points(in_axes, shapes, known, transposed, name)
        point = [_first_point(x, axis) for x, axis in zip(arguments, axes, strict=True)]
        shared = tuple(axis is None for axis, shape in zip(axes, shapes, strict=True) if shape is not None)
        points = 1 if out is not None else _points_of(arguments, axes)
        program = self._compiled(point, "transposed" if transposed else "batch", shared, points)
        result = program.batch_along(axes, arguments, out=out, threads=threads, transposed=transposed)
        if None not in shapes and not isinstance(in_axes, list):
            at_one = [at_one_point(shape or (), axis) for shape, axis in zip(shapes, axes, strict=True)]
            with self._lock:
                known = [known.recording.argument_shapes for known in self._programs.values()]
                certain = in_axes != "auto" or not mistakable(at_one, known)
                if certain and program in self._programs.values():
                    fast = self._while_current(program.fast_batch(axes, transposed))
                    self._fast_batch = in_axes, transposed, fast
        return result

    def _lazy_batch(self, arguments: tuple[Any, ...], in_axes: InAxes, out: Any, transposed: bool) -> Any:
        """The batch of Dask arrays; the first point is computed now, to record the function there."""
        name = self._name
        if out is not None or transposed:
            raise ArgumentError(
                f"{'out' if out is not None else 'transposed'} is given for a batch of Dask arrays; expected neither: "
                "the result is a Dask array, which its own store() writes, and transpose() turns"
            )
        given = [stand_in(x, f"argument {k} of {name}") if is_lazy(x) else x for k, x in enumerate(arguments)]
        static = static_positions(self._static, len(given))
        shapes = [None if k in static else shape_of(x, f"argument {k} of {name}") for k, x in enumerate(given)]
        known = [program.recording.argument_shapes for program in [*self._programs.values()]]
        axes = axes_of_points(in_axes, shapes, known, False, name)
        point = [(first_point if is_lazy(x) else _first_point)(x, a) for x, a in zip(arguments, axes, strict=True)]
        shared = tuple(axis is None for axis, shape in zip(axes, shapes, strict=True) if shape is not None)
        program = self._compiled(point, "batch", shared)
        same = [y if axis is None else x for x, y, axis in zip(arguments, point, axes, strict=True)]
        return program.lazy_batch(axes, same)

    def compile(self, *examples: Any, **keywords: Any) -> Program:
        """The program for arguments of these shapes, compiled now for one point if it is not yet there.

        The code for batches is compiled with the first batch.
        """
        if keywords:
            examples = self._positional(examples, keywords)
        return self._compiled(examples, "point")

    def _positional(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        return positional(self.__wrapped__, arguments, keywords, self._name)

    def _compiled(
        self, examples: Sequence[Any], first: Call, shared: tuple[bool, ...] = (), points: int = 1
    ) -> Program:
        self._renew()
        static, name = static_positions(self._static, len(examples)), self._name
        key = tuple(_signature(example, f"argument {k} of {name}", k in static) for k, example in enumerate(examples))
        program = self._programs.get(key)
        if program is None:
            with self._lock:
                program = self._programs.get(key) or self._build(examples, key, first, shared, points)
        self._last = program
        return program

    def _preferred(
        self, before: tuple[tuple[Program, FastPath], ...], program: Program, fast: FastPath, arguments: Sequence[Any]
    ) -> tuple[tuple[Program, FastPath], ...]:
        """Fast paths with that of this program first; its constant arguments must be identical to these."""
        shapes = program.recording.argument_shapes
        if fast is no_fast_path or (before and before[0][0] is program and None not in shapes):
            return before
        if None in shapes:
            fast = beside_constants(fast, shapes, arguments)
        with self._lock:
            if program not in self._programs.values():  # forgotten by another thread
                return before
            others = [entry for entry in before if entry[0] is not program]
            return ((program, self._while_current(fast)), *others[: MOST_FAST - 1])

    def nonzeros(self, *arguments: Any, **keywords: Any) -> Any:
        """As a call of a sparse derivative, with the values of the nonzeros in the place of SciPy's matrices.

        See `Program.nonzeros`; `pattern` says where they belong.

        >>> import numpy as np, accumulus as acc
        >>> jac = acc.jacobian(lambda x: x[1:] * x[:-1], sparse="csr")
        >>> x = np.array([1.0, 2.0, 3.0])
        >>> A = jac(x)
        >>> A.data[:] = jac.nonzeros(2.0 * x)  # the matrix at another point, in the memory of the first
        >>> print(A.toarray())
        [[4. 2. 0.]
         [0. 6. 4.]]
        """
        if keywords:
            arguments = self._positional(arguments, keywords)
        for _, fast in self._fast_nonzeros:
            result = fast(*arguments)
            if result is not NotImplemented:
                return result
        program = self.compile(*arguments)
        result = program.nonzeros(*arguments)
        self._fast_nonzeros = self._preferred(self._fast_nonzeros, program, program.fast_nonzeros, arguments)
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

    def _build(
        self, examples: Sequence[Any], key: Hashable, first: Call, shared: tuple[bool, ...], points: int
    ) -> Program:
        name = self._name
        with Preparation(name, self._options) as preparation:
            with preparation.stage("trace"):
                recording = self._record(examples)
            argnums = checked_argnums(self._given_argnums, recording.argument_shapes, name)
            if self._scalar and not recording.is_number:
                shapes = ", ".join(map(str, recording.result_shapes))
                raise ArgumentError(
                    f"gradient needs a function that returns one number; {name} returns shape {shapes}: use jacobian"
                )
            positions = argnums[0] if isinstance(self._given_argnums, int) else argnums
            check_size(recording, argnums, points, self._options, name)
            again = partial(self._record, examples)
            program = program_of(recording, self._wanted, positions, preparation, first, shared, again)
        self._programs[key] = program
        self._fast_batch = None  # the next batch checks whether its arguments could also be one point of this program
        return program

    def _record(self, examples: Sequence[Any], *, arrays: bool = True, at_once: bool = False) -> Recording:
        """Record `f`; from now on its captured values, and attributes of objects among the examples, are watched."""
        objects = {id(x): x for x in (*self._objects, *filter(is_changeable, examples))}
        captured = self._captured
        if captured is None or len(objects) > len(self._objects):
            # together, since the function's code says which attributes of the objects matter
            captured = Captured((self._holder, *objects.values()))
        static = static_positions(self._static, len(examples))
        options = self._options
        arrays = arrays and options.takes_arrays
        recording = record(self.__wrapped__, examples, static, check=options.check, arrays=arrays, at_once=at_once)
        captured.settle()
        self._captured, self._objects = captured, tuple(objects.values())
        return recording

    def _while_current(self, fast: Callable[..., Any]) -> Callable[..., Any]:
        """A fast path that returns NotImplemented once a watched value has changed."""
        if not self._captured:
            return fast
        is_current = self._captured.is_current

        def call(*arguments: Any) -> Any:
            return fast(*arguments) if is_current() else NotImplemented

        return call

    def _renew(self) -> None:
        """Forget all programs if a watched value has changed."""
        if self._captured is not None and not self._captured.is_current():
            self._forget()

    def _forget(self) -> None:
        """Drop all programs, so that the next call records `f` anew."""
        with self._lock:
            self._programs, self._captured, self._objects = {}, None, ()
            self._fast, self._fast_nonzeros, self._fast_batch = (), (), None

    def __repr__(self) -> str:
        return f"<{self.__name__}, {len(self._programs)} compiled>"


def _signature(argument: Any, name: str, is_static: bool) -> Hashable:
    """Part of the key of a program: the shape of a numeric argument, the value of any other."""
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


def _points_of(arguments: Sequence[Any], axes: Sequence[int | None]) -> int:
    """How many points a batch has."""
    return next((np.shape(x)[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None), 1)


def _first_point(argument: Any, axis: int | None) -> Any:
    """An argument of a batch as it is at the first point; zeros if there are no points."""
    if axis is None:
        return argument
    points = np.moveaxis(argument, axis, 0)
    return points[0] if len(points) else np.zeros(points.shape[1:])[()]
