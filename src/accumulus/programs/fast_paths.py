"""Fast paths: calls of compiled code with as little Python as possible.

A fast path takes arguments unconverted. The compiled code checks their shapes and dtypes itself. If it cannot take
them, the fast path returns NotImplemented and has stored nothing; the slow path then converts them or raises an error.
It checks arrays of the caller alike: Python compares their shapes, compiled code their dtypes, memory order, and
overlaps.

The text of a fast path is generated for the number of arguments and for the structure of results. In the text, each of
them is a variable, and the tree of results one expression: loops over results and calls of further functions take
longer than most programs. Compiled code makes the arrays for new results (`Kernel.making`), in a third of the time that
NumPy's functions take from Python; if it returns what the caller gets, it is the fast path, without a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from accumulus.frontends.calls import MOST, FunctionSource
from accumulus.options import check_threads
from accumulus.programs.arguments import InAxes
from accumulus.programs.calls import Ran, Settle, where_guards_settle
from accumulus.programs.results import Finish, Results, Shape
from accumulus.targets import Kernel
from accumulus.targets.kernel import MOST_MADE, WORTH_ALIGNING, Made, UsualCall, aligned, share_memory

#: Function from arguments to results, or to NotImplemented.
FastPath = Callable[..., Any]
#: Least number of entries of a result that is noted if vectors straddle cache lines, so that code for its alignment is
#: compiled at last. A smaller one adds the note's time to batches of few points, a larger one leaves more of them slow.
WORTH_NOTING: Final = 1024
_REFUSE: Final = "return NotImplemented"


def no_fast_path(*arguments: Any) -> Any:
    """Return NotImplemented: the fast path of programs that have none."""
    return NotImplemented


class _Path:
    """The text of a fast path; arguments are variables if they are few, and results likewise, else in one list.

    Args:
        count: number of numeric arguments.
        results: layout of the results.
        finish: conversion of each result; None if there is none.
        objects: objects of the text, by name.

    Attributes:
        arguments: names of the arguments, with `lines` that define them.
        passed: arguments and results as they are passed to compiled code.
        arrays: results as a sequence.
    """

    def __init__(self, count: int, results: Results, finish: Finish, **objects: Any) -> None:
        self.lines: list[str] = []
        self._source, self._shapes = FunctionSource(), results.shapes
        names = [self._source.fresh() for _ in results.shapes]
        tree = results.expression(names, finish, self._source) if names else None
        self._names = names if tree is not None else []
        self.arguments = [f"x{k}" for k in range(count)] if count <= MOST else []
        self.passed = ", ".join((*(self.arguments or ["*arguments"]), *(self._names or ["*arrays"])))
        self.arrays = f"({', '.join(self._names)},)" if self._names else "arrays"
        self._count = count
        in_tuple = f"({''.join(f'{name}, ' for name in names)})"
        #: True if results are made in a tuple, and if what `Kernel.making` returns needs no further conversion.
        self.in_tuple = tree is None or tree == in_tuple
        self.is_direct = tree is not None and tree in (names[0], in_tuple)
        self._tree = tree if tree is not None else f"{self._source.named(results.making(finish))}(arrays)"
        self._source.bind(ndarray=np.ndarray, empty=np.empty, **objects)

    def bind(self, **objects: Any) -> None:
        """Bind further objects to their names."""
        self._source.bind(**objects)

    def unpack(self) -> None:
        """Add lines that define the arguments."""
        self.lines.append(f"if len(arguments) != {self._count}: {_REFUSE}")
        if self.arguments:
            self.lines.append(f"[{', '.join(self.arguments)}] = arguments")

    def shapes(self, points: str = "", *, last: bool = False) -> list[str]:
        """Return expressions of the shapes of results; at many points, with their number on the first or last axis."""
        sources = []
        for shape in self._shapes if self._names else ():
            axes = [self._source.named(length) for length in shape]
            with_points = [*axes, points] if last else [points, *axes]
            sources.append(f"({', '.join(with_points if points else axes)}{',' * bool(shape or points)})")
        if self._names:
            return sources
        # all in one list
        each = ("(*shape, {})" if last else "({}, *shape)").format(points) if points else "shape"
        return [f"[{each} for shape in {self._source.named(self._shapes)}]"]

    def allocate(self, shapes: Sequence[str], function: str = "empty", indent: str = "") -> None:
        """Add lines that make new arrays."""
        if self._names:
            made = zip(self._names, shapes, strict=True)
            self.lines += [f"{indent}{name} = {function}({shape}, dtype)" for name, shape in made]
        else:
            self.lines.append(f"{indent}arrays = [{function}(shape, dtype) for shape in {shapes[0]}]")

    def made(self, call: str, lines: Sequence[str] = (), indent: str = "") -> None:
        """Add lines that return the results of a call of `Kernel.making`, with `lines` before that."""
        if self.is_direct and not lines:
            self.lines.append(f"{indent}return {call}")
            return
        names = ", ".join(self._names) or "arrays"
        names = f"[{names}]" if self._names and (self.in_tuple or len(self._names) > 1) else names
        more = [
            f"made = {call}",
            f"if made is NotImplemented: {_REFUSE}",
            *lines,
            f"{names} = made",
        ]
        self.lines += [indent + line for line in (*more, f"return {self._tree}")]

    def take(self, shapes: Sequence[str], results: Results, indent: str = "", *, counted: bool = False) -> None:
        """Add lines that take the arrays from `out`: an array, a sequence of them, or a tree.

        Args:
            shapes: expressions of the shapes that they have to have.
            results: layout of the results.
            indent: spaces before each line.
            counted: if True, compiled code compares the number of entries with that at one point.
        """
        count = len(self._shapes)
        differs = [
            self._wrong(name, shape, at_one_point if counted else None)
            for name, shape, at_one_point in zip(self._names, shapes, self._shapes, strict=False)
        ]
        self._source.bind(sequence=partial(_sequence, count, results.reader()))
        if count == 1 and self._names:
            (name,), (wrong,) = self._names, differs
            lines = [
                f"{name} = out",
                f"if type({name}) is not ndarray:",
                "    out = sequence(out)",
                f"    if out is None or type(out[0]) is not ndarray: {_REFUSE}",
                f"    {name} = out[0]",
                f"if {wrong}: {_REFUSE}",
            ]
        else:
            lines = [
                f"if (type(out) is not tuple and type(out) is not list) or len(out) != {count}:",
                "    out = sequence(out)",
                f"    if out is None: {_REFUSE}",
            ]
            if self._names:
                no_array = (f"type({name}) is not ndarray" for name in self._names)
                wrong = " or ".join(each for pair in zip(no_array, differs, strict=True) for each in pair)
                lines += [f"[{', '.join(self._names)}] = out", f"if {wrong}: {_REFUSE}"]
            else:
                given = "[array.shape if type(array) is ndarray else None for array in arrays]"
                lines += ["arrays = out", f"if {given} != {shapes[0]}: {_REFUSE}"]
        self.lines += [indent + line for line in lines]

    def _wrong(self, name: str, shape: str, counted: Shape | None) -> str:
        """Return a condition that an array has another shape; where entries are `counted`, lengths need not be."""
        if counted is None or len(counted) > 2 or (len(counted) == 2 and not counted[0]):
            return f"{name}.shape != {shape}"
        first = f" or len({name}) != {self._source.named(counted[0])}" if len(counted) == 2 else ""
        return f"{name}.ndim != {len(counted)}{first}"

    def compute_point(self, ran: Ran | None, mark: str = "") -> None:
        """Add lines that compute one point, and refuse it where guards fail; `mark` is a last argument."""
        if ran is None:
            self.lines.append(f"if compute({self.passed}{mark}) is not None: {_REFUSE}")
            return
        self._source.bind(ran=ran)
        self.lines += [
            "holds = empty((), dtype)",
            f"if compute({self.passed}, holds{mark}) is not None or not holds: {_REFUSE}",
            "ran.calls += 1",
        ]

    def function(self, head: str) -> FastPath:
        """Return the function of the text, which returns the results in their structure at its end."""
        self.lines.append(f"return {self._tree}")
        return self.text(head)

    def text(self, head: str) -> FastPath:
        """Return the function of the text."""
        self._source.lines = self.lines
        made: FastPath = self._source.function(head)
        return made


def _sequence(count: int, read: Callable[[Any], Sequence[Any] | None], out: Any) -> Sequence[Any] | None:
    """Return `count` objects in an `out` that is a sequence of them, or a tree; None for another object."""
    if (type(out) is tuple or type(out) is list) and len(out) == count:
        return out
    return read(out)


def one_point(kernel: Kernel, results: Results, ran: Ran | None = None, *, matrices: bool = True) -> FastPath:
    """Return the fast path for the numeric arguments of one point.

    Args:
        kernel: kernel to call.
        results: layout of the results.
        ran: counter of calls for a guarded program, whose last array is 1 if the guards hold; else its results are
            invalid.
        matrices: if True, return sparse derivatives as matrices, else as values of their nonzeros.
    """
    compute, count, conversions = kernel.point(), len(kernel.arguments), results.finish(matrices)
    path = _Path(count, results, _beside_numbers(results, conversions))
    shapes = [*results.shapes, *([()] if ran is not None else [])]
    making = kernel.making(compute, Made(shapes, True, path.in_tuple, ran is not None))
    if making is not None:
        if path.is_direct and ran is None:
            return making
        path.bind(making=making, ran=ran)
        path.made("making(*arguments)", ["ran.calls += 1"] if ran is not None else [])
        return path.text("*arguments")
    path = _Path(count, results, conversions, compute=compute, dtype=kernel.dtype)
    path.unpack()
    path.allocate(path.shapes())
    path.compute_point(ran)
    return path.function("*arguments")


def into_arrays(
    kernel: Kernel,
    compute: Callable[..., Any] | None,
    results: Results,
    shapes: Sequence[object],
    ran: Ran | None = None,
) -> FastPath:
    """Return the fast path that writes results at one point to arrays of the caller.

    It takes the arguments, and the array, a sequence of arrays, or arrays in the structure of the results.

    Args:
        kernel: kernel to call.
        compute: compiled function of the numeric arguments and the results, see `Kernel.point`; None if there is none.
        results: layout of the results.
        shapes: shapes of all arguments; None for constants.
        ran: as for `one_point`.
    """
    if compute is None or not results.takes_out:
        return no_fast_path
    numeric = [k for k, shape in enumerate(shapes) if shape is not None]
    path = _Path(len(numeric), results, results.finish(True), compute=compute, dtype=results.dtype)
    path.take(path.shapes(), results, counted=True)
    if None in shapes:
        path.bind(share_memory=share_memory)
        constant = "".join(f"arguments[{k}], " for k, shape in enumerate(shapes) if shape is None)
        path.lines += [
            f"if len(arguments) != {len(shapes)} or share_memory(({constant}), {path.arrays}): {_REFUSE}",
            f"arguments = ({''.join(f'arguments[{k}], ' for k in numeric)})",
        ]
    path.unpack()
    path.compute_point(ran, ", None")
    function = path.function("arguments, out")
    path = _Path(len(numeric), results, _beside_numbers(results, results.finish(True)))
    if ran is not None or None in shapes or not path.is_direct:
        return function
    return kernel.taking(compute, Made(results.shapes, True, path.in_tuple), function)


def _beside_numbers(results: Results, conversions: Finish) -> Finish:
    """Return the conversions of results that `Kernel.making` returns: it makes numbers itself."""
    return [None if shape == () else convert for shape, convert in zip(results.shapes, conversions, strict=True)]


def many_points(
    kernel: Kernel,
    results: Results,
    shared: tuple[bool, ...],
    transposed: bool,
    in_axes: InAxes,
    threads: int,
    ran: Ran | None = None,
    settle: Settle | None = None,
) -> FastPath:
    """Return the fast path for batches on one thread.

    It takes a sequence of numeric arguments, and `out`, `threads`, `in_axes` and `transposed` of `Derivative.batch`;
    it refuses other `in_axes` and `transposed` than these.

    Args:
        kernel: kernel to call.
        results: layout of the results.
        shared: for each numeric argument, True if all points share it.
        transposed: if True, points are on the last axis.
        in_axes: axes of points as the caller passes them.
        threads: number of threads if the caller passes None.
        ran: as for `one_point`.
        settle: for a guarded program, the function that handles points where guards fail.
    """
    compute = kernel.many(shared, transposed)
    if compute is None:
        return no_fast_path
    if ran is not None and settle is not None:
        compute = where_guards_settle(compute, settle, ran, shared, transposed, kernel.dtype)
    path = _Path(len(shared), results, results.finish_batch(transposed), compute=compute, dtype=kernel.dtype)
    longest = max([1, *(segment.length for segment in results.segments)])
    made = Made(results.shapes, in_tuple=path.in_tuple, points=2 if transposed else 1)
    making = kernel.making(compute, made)
    worth_aligning = WORTH_ALIGNING if making is None else MOST_MADE
    few, noted, most = -(-worth_aligning // longest), -(-WORTH_NOTING // longest), kernel.most_points
    path.bind(
        aligned=aligned,
        for_axes=in_axes,
        default_threads=threads,
        check_threads=check_threads,
        most=most,  # a longer call of compiled code could not be interrupted
        few=few,
        noted=noted,
        threads_for=kernel.threads_for,
        misaligned=kernel.misaligned(shared, transposed),
    )
    leading = shared.index(False)
    shapes = path.shapes("count", last=transposed)
    points = path.arguments[leading] if path.arguments else f"arguments[{leading}]"
    path.unpack()
    path.lines += [
        f"if transposed is not {bool(transposed)}: {_REFUSE}",
        f"if in_axes is not for_axes and (type(in_axes) is not type(for_axes) or in_axes != for_axes): {_REFUSE}",
        "threads = default_threads if threads is None else check_threads(threads)",
        f"points = {points}",
        f"if type(points) is not ndarray or points.ndim != {len(kernel.arguments[leading]) + 1}: {_REFUSE}",
        f"count = {'points.shape[-1]' if transposed else 'len(points)'}",
        f"if count > most or (threads > 1 and threads_for(count, threads) > 1): {_REFUSE}",
        "if out is None:",
        "    if count < few:",
    ]
    if making is None:
        path.allocate(shapes, indent="        ")
    else:
        path.bind(making=making)
        path.made(f"making(count, {', '.join(path.arguments or ['*arguments'])})", indent="        ")
    path.lines.append("    else:")
    path.allocate(shapes, "aligned", indent="        ")
    path.lines.append("else:")
    if results.takes_out:
        path.take(shapes, results, indent="    ")
    else:
        path.lines.append(f"    {_REFUSE}")
    path.lines += [
        f"answer = compute({path.passed})",
        "if answer is not None:",
        f"    if answer is not Ellipsis: {_REFUSE}",
        f"    if out is not None and count >= noted: misaligned({path.arrays})",
    ]
    function = path.function("arguments, out, threads, in_axes, transposed")
    if not path.is_direct:
        return function
    axes, given = len(kernel.arguments[leading]) + 1, noted if results.takes_out else 0
    usual = UsualCall(leading, axes, min(few, most + 1), min(given, most + 1), in_axes, transposed, threads == 1)
    return kernel.taking(compute, made, function, usual)


def beside_constants(fast: FastPath, shapes: Sequence[object], arguments: Sequence[Any]) -> FastPath:
    """Return the fast path for all arguments; constants must be identical (``is``) to those in `arguments`."""
    constants = [(k, arguments[k]) for k, shape in enumerate(shapes) if shape is None]
    numeric = [k for k, shape in enumerate(shapes) if shape is not None]
    if any(isinstance(constant, np.ndarray) for _, constant in constants):
        return no_fast_path  # entries of the array may change

    def call(*operands: Any) -> Any:
        if len(operands) != len(shapes):
            return NotImplemented
        for k, constant in constants:
            if operands[k] is not constant:
                return NotImplemented
        return fast(*[operands[k] for k in numeric])

    return call
