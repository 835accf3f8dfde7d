"""Arguments of users and of kernels: checks, conversion, and the axes of points of a batch.

`in_axes` states which arguments of a batch have an axis of points, and where. By default, numbers are the same at all
points, and every array has its points on the first axis, or on the last one in a transposed batch. If another reading
of the arguments is possible, an error asks for `in_axes`:

* the arrays have different numbers of points;
* the arrays also fit shapes that were compiled before, with some of them shared by all points;
* an array of one number for each point is as long as the last axis of another argument at one point, so that it may be
  an array of parameters that all points share; unless the shapes were compiled before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, TraceError
from accumulus.frontends.kinds import shape_of
from accumulus.frontends.location import numbered

Shape = tuple[int, ...]
#: For each argument, the axis of its points, counted from the first; None if all points share it.
Axes = tuple[int | None, ...]
#: As in `jax.vmap`: one axis or None for each argument, or one for all of them.
InAxes = int | None | Sequence[int | None] | Literal["auto"]


@dataclass(frozen=True, slots=True)
class Arguments:
    """Shapes and types of the arguments that a program takes.

    Args:
        name: name of the function, for messages.
        shapes: shape of every argument; None for static ones.
        dtype: dtype of the kernel.
        check_finite: if True, NaN and infinity are errors.
    """

    name: str
    shapes: tuple[tuple[int, ...] | None, ...]
    dtype: np.dtype[Any]
    check_finite: bool

    @property
    def numeric(self) -> list[int]:
        """Positions of the arguments that the kernel takes."""
        return [k for k, shape in enumerate(self.shapes) if shape is not None]

    @property
    def numeric_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the arguments that the kernel takes."""
        return [shape for shape in self.shapes if shape is not None]

    def point(self, arguments: Sequence[Any]) -> list[NDArray[Any]]:
        """Return the arguments of the kernel at one point."""
        self._check_count(arguments)
        arrays = []
        for k in self.numeric:
            x = self._numbers(arguments[k], k)
            if x.shape != self.shapes[k]:
                raise ArgumentError(
                    f"{numbered(self.name, k)} has shape {x.shape}; this program was compiled for {self.shapes[k]}"
                )
            arrays.append(self._converted(x, k))
        return arrays

    def bound(self, arguments: Sequence[Any]) -> list[Any]:
        """Return all arguments, arrays as they are, and numbers as new arrays of shape ().

        Raises:
            ArgumentError: for arrays that the kernel would have to convert at each call.
        """
        self._check_count(arguments)
        bound = []
        for k, (given, shape) in enumerate(zip(arguments, self.shapes, strict=True)):
            is_number = shape == () and not isinstance(given, np.ndarray)
            x = self._converted(self._numbers(given, k), k).copy() if is_number else given
            if shape is not None:
                described = f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
                fits = type(x) is np.ndarray and x.shape == shape and x.dtype == self.dtype
                if not fits or not (x.flags.c_contiguous and x.flags.aligned):
                    raise ArgumentError(
                        f"{numbered(self.name, k)} is {described}{', not C-contiguous or not aligned' * fits}; a bound "
                        f"call reads it again each time: expected an array of {self.dtype}, C-contiguous, of shape "
                        f"{shape}"
                    )
            bound.append(x)
        return bound

    def batch(self, arguments: Sequence[Any], axes: Axes, transposed: bool) -> tuple[list[NDArray[Any]], int]:
        """Return the arguments of the kernel at many points, and the number of points."""
        arrays: list[NDArray[Any]] = []
        points = 0
        for k in self.numeric:
            x, axis = self._numbers(arguments[k], k), axes[k]
            if axis is not None:
                points = x.shape[axis]
                x = np.moveaxis(x, axis, -1 if transposed else 0)
            shape = x.shape if axis is None else x.shape[:-1] if transposed else x.shape[1:]
            if shape != self.shapes[k]:
                suffix = "" if axis is None else " at one point"
                raise ArgumentError(
                    f"{numbered(self.name, k)} has shape {shape}{suffix}; this program was compiled for "
                    f"{self.shapes[k]}. in_axes says which arguments of a batch have an axis of points, and where"
                )
            arrays.append(self._converted(x, k))
        return arrays, points

    def shapes_in(self, arguments: Sequence[Any]) -> list[tuple[int, ...] | None]:
        """Return the shapes of the arguments, None for non-numeric ones, after checking their types."""
        self._check_count(arguments)
        return [
            None if shape is None else self._shape(argument, k)
            for k, (argument, shape) in enumerate(zip(arguments, self.shapes, strict=True))
        ]

    def _check_count(self, arguments: Sequence[Any]) -> None:
        if len(arguments) != len(self.shapes):
            raise ArgumentError(f"{self.name} takes {len(self.shapes)} arguments here; {len(arguments)} were given")

    def _shape(self, argument: Any, k: int) -> tuple[int, ...]:
        shape = shape_of(argument, numbered(self.name, k))
        if shape is None:
            raise ArgumentError(
                f"{numbered(self.name, k)} is a {type(argument).__name__}; expected a number or a NumPy array"
            )
        return shape

    def _numbers(self, argument: Any, k: int) -> NDArray[Any]:
        """Return an argument as an array, without changing its dtype."""
        self._shape(argument, k)
        # NumPy would store integers beyond 64 bits as objects
        return np.array(float(argument)) if isinstance(argument, int) else np.asarray(argument)

    def _converted(self, x: NDArray[Any], k: int) -> NDArray[Any]:
        with np.errstate(over="ignore"):  # values beyond the range of a narrow dtype become infinite
            x = np.require(x, self.dtype, ["C", "A"])
        if self.check_finite and not np.isfinite(x).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
            raise ArgumentError(f"{numbered(self.name, k)} is {x[where]} at index {where}; expected finite numbers")
        return x


def axes_of_points(
    in_axes: InAxes,
    shapes: Sequence[Shape | None],
    compiled_shapes: Collection[tuple[Shape | None, ...]],
    transposed: bool,
    name: str,
) -> Axes:
    """Return the axes of points of a batch's arguments.

    Args:
        in_axes: axes as for `Derivative.batch`.
        shapes: shapes of the arguments of the batch; None for constants.
        compiled_shapes: shapes at one point that were compiled before.
        transposed: if True, points are on the last axis unless `in_axes` says otherwise.
        name: name of the function, for messages.

    Raises:
        ArgumentError: if an argument has no such axis, the numbers of points differ, or the axes are ambiguous.

    >>> axes_of_points("auto", [(), (100, 3)], [], False, "f")
    (None, 0)
    >>> axes_of_points((None, -1), [(4, 2), (3, 100)], [], False, "f")
    (None, 1)
    """
    if isinstance(in_axes, str):
        if in_axes != "auto":
            raise ArgumentError(f"in_axes is {in_axes!r}; expected an axis or None, one for each argument, or 'auto'")
        axes = tuple([None if not shape else len(shape) - 1 if transposed else 0 for shape in shapes])
    else:
        axes = _checked_axes(in_axes, shapes, name)
    counts = {
        k: shape[axis] for k, (shape, axis) in enumerate(zip(shapes, axes, strict=True)) if shape and axis is not None
    }
    if not counts:
        raise ArgumentError(
            f"no argument of {name} has an axis of points; expected at least one array with such an axis"
        )
    if len(set(counts.values())) > 1:
        points = ", ".join(
            f"{numbered(name, k).removesuffix(f' of {name}')} has {count}" for k, count in counts.items()
        )
        raise ArgumentError(
            f"the arguments of {name} have different numbers of points: {points}. {_advice(shapes, axes)}"
        )
    if in_axes == "auto":
        _check_guess(shapes, axes, compiled_shapes, name)
    return axes


def points_of_numbers(
    error: TraceError, shapes: Sequence[Shape | None], axes: Axes, transposed: bool, name: str
) -> ArgumentError | None:
    """Return the error for one point that was given as a batch: its entries are points, which are numbers.

    None if `error` is not that of a function of arrays which is called with numbers.
    """
    if not isinstance(error.__cause__, TypeError | IndexError | AttributeError | ValueError):
        return None
    for k, (shape, axis) in enumerate(zip(shapes, axes, strict=True)):
        if axis is not None and shape is not None and len(shape) == 1:
            expected, single = ("(n, points)", "x[:, np.newaxis]") if transposed else ("(points, n)", "x[np.newaxis]")
            return ArgumentError(
                f"{numbered(name, k)} has shape {shape}, which are {shape[0]} points of one number each, and {name} "
                f"takes no number there ({error.__cause__}); expected shape {expected}, {single} for a single point x. "
                "in_axes says which arguments all points share"
            )
    return None


def at_one_point(shape: Shape, axis: int | None) -> Shape:
    """Return the shape without the axis of points."""
    return shape if axis is None else (*shape[:axis], *shape[axis + 1 :])


def _checked_axes(in_axes: Any, shapes: Sequence[Shape | None], name: str) -> Axes:
    """Return the axes that the caller passed, counted from the first."""
    if in_axes is None or isinstance(in_axes, int):
        entries = [None if shape is None else in_axes for shape in shapes]
    elif isinstance(in_axes, list | tuple):
        entries = list(in_axes)
    else:
        raise ArgumentError(f"in_axes is {in_axes!r}; expected an axis or None, or a tuple of them, one an argument")
    if len(entries) != len(shapes):
        raise ArgumentError(f"in_axes is {in_axes!r}; expected {len(shapes)} entries, as many as {name} has arguments")
    axes: list[int | None] = []
    for k, (entry, shape) in enumerate(zip(entries, shapes, strict=True)):
        if entry is None:
            axes.append(None)
            continue
        if isinstance(entry, bool) or not isinstance(entry, int):
            raise ArgumentError(f"in_axes is {in_axes!r}; entry {k} is {entry!r}, expected a whole number or None")
        if shape is None:
            raise ArgumentError(
                f"in_axes is {in_axes!r}; {numbered(name, k)} is not traced and has no axis: expected None"
            )
        if not -len(shape) <= entry < len(shape):
            description = f"has shape {shape}" if shape else "is a number"
            hint = "" if shape else "; None shares it between all points"
            raise ArgumentError(f"in_axes is {in_axes!r}; {numbered(name, k)} {description} and no axis {entry}{hint}")
        axes.append(entry % len(shape))
    return tuple(axes)


def _check_guess(
    shapes: Sequence[Shape | None], axes: Axes, compiled_shapes: Collection[tuple[Shape | None, ...]], name: str
) -> None:
    arrays = [k for k, axis in enumerate(axes) if axis is not None]
    if len(arrays) < 2:
        return
    guess = tuple(
        None if shape is None else at_one_point(shape, axis) for shape, axis in zip(shapes, axes, strict=True)
    )
    for other in compiled_shapes:
        alike = _other_reading(shapes, guess, other)
        if alike:
            k = alike[0]
            raise ArgumentError(
                f"{numbered(name, k)} has the shape {shapes[k]}, with which it was passed at one point, so it may be "
                f"shared by all points, or hold one entry for each. {_advice(shapes, axes)}"
            )
    if guess in compiled_shapes:
        return
    for k in arrays:
        last_axes = {shape[-1:] for shape in guess if shape}
        if guess[k] == () and shapes[k] in last_axes:
            (length,) = shapes[k] or ()
            raise ArgumentError(
                f"{numbered(name, k)} has {length} entries: the number of points, and the length of the last axis of "
                "another argument, so it may be shared by all points, or hold one entry for each. "
                f"{_advice(shapes, axes)}"
            )


def _other_reading(
    shapes: Sequence[Shape | None], guess: Sequence[Shape | None], other: Sequence[Shape | None]
) -> list[int]:
    """Return arrays that all points would share, if the arguments fit the shapes `other` at one point."""
    if len(other) != len(shapes):
        return []
    alike = []
    for k, (shape, guessed, read) in enumerate(zip(shapes, guess, other, strict=True)):
        if read == shape:
            alike += [k] if shape else []
        elif read != guessed:
            return []
    return alike if len(alike) < sum(1 for shape in shapes if shape) else []


def mistakable(shapes: Sequence[Shape | None], compiled_shapes: Collection[tuple[Shape | None, ...]]) -> bool:
    """Return True if a batch for these shapes can be mistaken for one of compiled shapes with shared arrays."""
    return len(shapes) > 1 and any(
        len(other) == len(shapes)
        and any(a is not None and b is not None and len(b) == len(a) + 1 for a, b in zip(shapes, other, strict=True))
        for other in compiled_shapes
    )


def _advice(shapes: Sequence[Shape | None], axes: Axes) -> str:
    """Return advice on `in_axes`: for points in every array, or in one array only."""
    arrays = [k for k, axis in enumerate(axes) if axis is not None]
    last = max(arrays, key=lambda k: (len(shapes[k] or ()), k))
    alone = tuple(axis if k == last else None for k, axis in enumerate(axes))
    return f"Name the arguments with an axis of points: in_axes={axes} if all arrays have, in_axes={alone} if one has"
