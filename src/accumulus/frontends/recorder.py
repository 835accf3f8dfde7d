"""Interface between front ends and shared code, and the table of front ends.

A front end emits functions of one kind to a tape: Python functions of NumPy arrays, or objects of another library, such
as its expressions. It is one module with a `Recorder`, and one row of `FRONT_ENDS`. All other code is shared:
classification of arguments (`kinds`), keywords and structures (`calls`, `trees`), a second recording for the signs of
zeros (`record`), comparison with the function on numbers (`agreement`), variables that the function reads besides its
arguments (`captured`), and errors that name a line (`active`, `location`).

A recorder takes arrays of references for whole arguments and returns arrays of references for whole results. A recorder
that supports array operations emits them as such, if the tape has them.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.calls import Restructured, function_of
from accumulus.frontends.decisions import Guard, as_number, condition_of, without_decided
from accumulus.frontends.location import CodePosition, user_position
from accumulus.frontends.trees import Leaf, Structure, flatten, unflatten
from accumulus.tape.moving import Moving, unroll
from accumulus.tape.passes import moved
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape

#: References to a tape, in the shape of the array that they stand for.
References = NDArray[np.int64]
#: References of each argument; None for arguments that are not numeric.
Inputs = Sequence[References | None]


T = TypeVar("T")


@dataclass(frozen=True)
class Recording:
    """A function as a program, with the shapes and the structure of its arguments and results.

    The program has one input for each entry of each numeric argument and one output for each entry of the results, both
    in order and in C order. `argument_shapes` are () for scalars and None for static arguments; `argument_slices` are
    the ranges of inputs of the arguments. `result_shapes` has one shape for each leaf of the result.
    `why_written` explains why a long loop in Python has no repeating body, and shows the code to write instead.
    `follows_rules` is True for derivatives of values with rules (`accumulus.tape.live.Rules`): those of a gradient need
    not be symmetric.

    If the function decided on values, the recording holds where all `guards` hold (`accumulus.frontends.decisions`).
    The outputs of the program are the entries of the results, followed by one for each guard: 1 where it holds, else 0.
    """

    program: Program
    argument_shapes: tuple[tuple[int, ...] | None, ...]
    argument_slices: tuple[slice, ...]
    result_shapes: tuple[tuple[int, ...], ...]
    structure: Structure
    guards: tuple[Guard, ...] = ()
    why_written: str = ""
    follows_rules: bool = False

    @property
    def tape(self) -> Tape:
        """The straight-line code of a program without loops."""
        assert self.program.scalars is not None
        return self.program.scalars

    @property
    def uses_indices(self) -> bool:
        """Return True if numbers among the arguments are used as indices."""
        return any(guard.answer.startswith(("numbers ", "indices ")) for guard in self.guards)

    def written_out(self) -> Recording:
        """Return the recording in a straight line: all operations on arrays entry by entry, without decided guards."""
        if self.program.is_straight:
            return self
        tape, results = unroll(self.program), self.results
        conditions = [condition_of(tape, holds) for holds in tape.outputs[results:]]
        simpler = without_decided(tape, conditions) if conditions else None
        if simpler is None:
            return self.computing(tape)
        made, to = simpler
        remaining = [
            (guard, position)
            for guard, position in zip(self.guards, moved(conditions, to).tolist(), strict=True)
            if position >= 0
        ]
        made.outputs = [
            *moved(tape.outputs[:results], to).tolist(),
            *(as_number(made, position) for _, position in remaining),
        ]
        return replace(self.computing(made), guards=tuple(guard for guard, _ in remaining))

    def computing(self, tape: Tape) -> Recording:
        """Return the recording with equivalent straight-line code."""
        return replace(self, program=Program.of(tape))

    def returning(self, program: Program, shapes: Sequence[tuple[int, ...]], structure: Structure) -> Recording:
        """Return a recording of the same arguments and guards with the results of another program."""
        return replace(self, program=program, result_shapes=tuple(shapes), structure=structure)

    def weighted_with(self, other: Recording) -> Recording | None:
        """Return a recording of sigma times this number plus the weighted sum of another function's results.

        Both functions have the same arguments. The new arguments are the first of these, sigma, a weight for each
        result, and the remaining ones. Returns None for recordings without loops or with guards.
        """
        if self.program.is_straight or other.program.is_straight or self.guards or other.guards:
            return None
        first, size = self.argument_slices[0].stop, other.results
        made = Program(self.program.inputs + 1 + size)
        inputs = np.arange(self.program.inputs)
        inputs[first:] += 1 + size
        ends = []
        for each in (self.program, other.program):
            moving = Moving(each, made, inputs)
            for block in each.blocks:
                moving.copy(block)
            ends.append(moving.at(each.outputs))
        weights = np.arange(first + 1, first + 1 + size)
        terms = [made.apply("multiply", np.array([first]), ends[0]), made.apply("multiply", weights, ends[1])]
        made.outputs = made.sums(np.concatenate(terms), [0, 1 + size])
        shapes = self.argument_shapes[0], (), (size,), *self.argument_shapes[1:]
        slices = [slice(stop.start + 1 + size, stop.stop + 1 + size) for stop in self.argument_slices[1:]]
        weight_slices = slice(first, first + 1), slice(first + 1, first + 1 + size)
        return replace(
            self.returning(made, self.result_shapes, self.structure),
            argument_shapes=shapes,
            argument_slices=(self.argument_slices[0], *weight_slices, *slices),
        )

    @property
    def results(self) -> int:
        """Number of entries of the results, which are the program's first outputs, before the guards."""
        return sum(map(math.prod, self.result_shapes))

    def unflatten(self, leaves: Sequence[T]) -> Any:
        """Return a structure (scalar, array, list, tuple, named tuple, dict) with one of `leaves` for each leaf.

        Raises:
            ArgumentError: if the number of leaves is wrong.
        """
        return unflatten(self.structure, leaves)

    @property
    def is_number(self) -> bool:
        """True if the function returns a single number, without a container."""
        return self.result_shapes == ((),) and isinstance(self.structure, Leaf)

    def entry_name(self, entry: int) -> str:
        """Return the path and index of an output in the result, as ``['force'][2]``; empty for a single number.

        Raises:
            IndexError: if the results have fewer entries.
        """
        paths = [path for path, _ in flatten(self.unflatten([0.0] * len(self.result_shapes)))[1]]
        for path, shape in zip(paths, self.result_shapes, strict=True):
            size = int(np.prod(shape))
            if entry < size:
                index = [int(i) for i in np.unravel_index(entry, shape)]
                return path + (f"[{', '.join(map(str, index))}]" if index else "")
            entry -= size
        raise IndexError(entry)


class Recorder(ABC):
    """A front end: the functions that it accepts, and their recording on a tape."""

    @abstractmethod
    def takes(self, function: object) -> bool:
        """Return True if this front end records `function`."""

    @abstractmethod
    def run(self, function: Any, tape: Any, arguments: Sequence[Any], inputs: Inputs) -> Any:
        """Record the operations of `function` on `tape`.

        Args:
            function: function to record.
            tape: program, or the body of a loop.
            arguments: example arguments; the values of numeric ones do not matter.
            inputs: for each numeric argument, the tape's inputs that represent it, read-only and in its shape, () for a
                number; None for a constant.

        Returns:
            The result, in the structure that `evaluate` returns. `references` accepts its leaves.

        Raises:
            TraceError: from `accumulus.frontends.active.refuse`, if the function cannot be recorded.
            Exception: any exception of the function.
        """

    def run_nested(self, function: Any, tape: Any, arguments: Sequence[Any], inputs: Inputs) -> Any:
        """Record a function that is differentiated inside of another recorded function; arguments as for `run`."""
        return self.run(function, tape, arguments, inputs)

    @abstractmethod
    def references(self, tape: Any, leaf: Any) -> References | None:
        """Return the references of one leaf of a result of `run`; None if it does not stand for real numbers."""

    def evaluate(self, function: Any, arguments: Sequence[Any]) -> Any:
        """Return the result on numbers, computed independently of `run`, since recordings are compared with it."""
        return function(*arguments)

    def holds(self, function: Any) -> object:
        """Return the object that is watched for changes after the recording, see `accumulus.frontends.captured`."""
        return function

    def position(self) -> CodePosition | None:
        """Return the position in the user's code that is being recorded, for errors."""
        return user_position()


#: Library of each front end → module with its `RECORDER`, which is imported only if the library is. The first front end
#: that takes a function records it; the last one takes every Python function.
FRONT_ENDS: Final[dict[str, str]] = {
    "jax": "accumulus.frontends.jax.tracer",
    "sympy": "accumulus.frontends.sympy.tracer",
    "casadi": "accumulus.frontends.casadi",
    "numpy": "accumulus.frontends.numpy.tracer",
}


def recorder_of(function: object) -> Recorder:
    """Return the recorder of `function`.

    Raises:
        ArgumentError: if no front end takes it.
    """
    function = function_of(function)
    for library, module in FRONT_ENDS.items():
        if library in sys.modules and (recorder := _recorder(module)).takes(function):
            return recorder
    raise ArgumentError(f"f is {function!r:.200}; expected a function")


def is_plain(function: object) -> bool:
    """Return True if a function is called with traced values; other front ends translate their library's objects."""
    return recorder_of(function) is _recorder(FRONT_ENDS["numpy"])


def holder_of(function: Any) -> object:
    """Return the object that is watched for changes after a recording of `function`, with its constant arguments.

    Raises:
        ArgumentError: if no front end takes it.
    """
    held = recorder_of(function).holds(function_of(function))
    return (held, *function.constants()) if isinstance(function, Restructured) else held


@cache
def _recorder(module: str) -> Recorder:
    recorder: Recorder = import_module(module).RECORDER
    return recorder
