"""Functions that compiled programs call back, with derivatives of any order: shared code of equation solvers.

The user's equations are recorded once, as `Equations`: a tape with flat inputs and outputs, which is compiled alone and
with its Jacobian for the solver. Programs call a `Call`. Its derivative is another `Call` with its own rule, or a
function that calls solvers again and is recorded in turn (`RecordedFunction`), so that higher derivatives need no rule.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, ConvergenceError, IntegrationError, OpaqueError, SizeError
from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.inner import LongBodyError
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.bodies import Body, Place, recorded_body
from accumulus.frontends.numpy.calling import called
from accumulus.frontends.numpy.custom import call_block
from accumulus.frontends.numpy.operands import references_of
from accumulus.frontends.numpy.patching import patched, replaced
from accumulus.frontends.record import record
from accumulus.frontends.trees import Structure
from accumulus.options import Options
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derivative import Derivative
from accumulus.programs.forms import Forms
from accumulus.programs.kinds import COMPILED, JACOBIAN, DerivativeKind
from accumulus.tape.blocks import Opaque
from accumulus.tape.interpreter import copied
from accumulus.tape.tape import Tape

Floats = NDArray[np.float64]
#: Maximum number of operations of equations, which are written out: more take longer and more memory to record and
#: compile, fewer refuse equations that could still be prepared.
MOST: Final = 1_000_000


def compiled_derivative(
    f: Callable[..., Any], kind: DerivativeKind, name: str, by: int | tuple[int, ...] = ()
) -> Derivative:
    """Return a derivative of a function with respect to the arguments `by`, recorded without a check."""
    forms = Forms(f, name, by, None, (), ())
    return Derivative(f, kind, forms, Options.of(check=False, watch=False, progress=False))


def in_row(tape: Any, *values: Any) -> NDArray[np.int64]:
    """Return references of the entries of all values, one after the other."""
    return np.concatenate([np.empty(0, np.int64), *(references_of(tape, each).reshape(-1) for each in values)])


def recorded_equations(
    function: Callable[..., Any],
    user: Callable[..., Any],
    arguments: Sequence[tuple[Structure, Sequence[Place]]],
    tape: Any,
    name: str,
) -> Body:
    """Record equations together with the enclosing values that they use.

    Args:
        function: function to record; it calls the user's functions in the form that `decided` returns.
        user: user's function, whose modules are patched.
        arguments: structure of each argument, and its leaves.
        tape: enclosing tape.
        name: name of the solver's function, for messages.

    Raises:
        OpaqueError: if the function calls an opaque function.
        SizeError: if the equations are too long.
        TraceError: for an operation that cannot be recorded.
    """
    with patched(user):
        try:
            return recorded_body(function, arguments, tape, MOST)
        except LongBodyError as error:
            if error.args:
                where = f"{name}, which is called by a solver,"
                raise refuse(str(OpaqueError.of(error.args[0], where)), OpaqueError) from None
            raise SizeError(
                f"{name} is more than {MOST:,} operations, which are written out one by one; expected fewer equations"
            ) from None


def decided(function: Any) -> Any:
    """Return the form of a user's function that records branches on values as selections."""
    function = replaced(function)
    return function if function is None or ACTIVE.decisions is None else called(function)


class Equations:
    """A function of arguments and parameters with flat results, as a tape.

    Args:
        tape: tape with the entries of the arguments and the parameters as inputs.
        sizes: sizes of the arguments; None for a number.
        name: name of the user's function, for messages.
    """

    def __init__(self, tape: Tape, sizes: Sequence[int | None], name: str) -> None:
        self._tape, self.sizes, self.name = tape, tuple(sizes), name
        self.parameters = tape.inputs - sum(1 if size is None else size for size in sizes)
        self.examples = [*(0.0 if size is None else np.zeros(size) for size in sizes), np.zeros(self.parameters)]
        self.results = len(tape.outputs)
        self._programs: dict[tuple[str, int | tuple[int, ...]], CompiledProgram] = {}

    def __call__(self, *operands: Any) -> Any:
        """Record the function for traced arguments and parameters."""
        tape = ACTIVE.tape
        return TracedArray(tape, np.array(copied(self._tape, tape, in_row(tape, *operands).tolist()), np.int64))

    def program(self, kind: DerivativeKind, by: int | tuple[int, ...] = ()) -> CompiledProgram:
        """Return the compiled function, or its compiled derivative with respect to the arguments `by`."""
        key = kind.name, by
        if key not in self._programs:
            self._programs[key] = compiled_derivative(self, kind, self.name, by).compile(*self.examples)
        return self._programs[key]

    def by_parameters(self, chosen: tuple[int, ...]) -> Equations:
        """Return the derivatives of all results with respect to some parameters, one parameter after the other."""
        position = len(self.sizes)
        jacobian = compiled_derivative(self, JACOBIAN, self.name, position)
        recording = record(lambda *arguments: jacobian(*arguments)[:, list(chosen)].T.reshape(-1), self.examples)
        return Equations(recording.tape, self.sizes, self.name)


class Call:
    """A function from one flat array to another that programs call (`accumulus.tape.program.Opaque`).

    Args:
        returns_nan: if True, it returns NaN where it fails, instead of raising an error.
    """

    name: str
    argument_count: int
    result_count: int
    #: Bound of the error of a result, relative to 1 + |x|, beyond rounding: the tolerance of an iteration.
    accuracy: float = 0.0
    #: Number of points of a batch from which on `computed_together` computes them at once.
    points_together: int = sys.maxsize

    def __init__(self, returns_nan: bool = False) -> None:
        self.returns_nan = returns_nan
        self._derivatives: dict[tuple[int, ...], Opaque] = {}

    def computed(self, x: Floats) -> Any:
        """Return the results, in any shape."""
        raise NotImplementedError

    def computed_together(self, x: Floats) -> Any:
        """Return the results of many points, (arguments, points): in any shape, with points on the last axis."""
        raise NotImplementedError

    def jacobian(self, columns: tuple[int, ...], x: Any) -> Any:
        """Return columns of the Jacobian at traced values `x`, in any shape, row by row."""
        raise NotImplementedError

    def slopes(self, columns: tuple[int, ...]) -> Opaque:
        """Return the function that computes columns of the Jacobian; by default, `jacobian` is recorded."""
        function = partial(self.jacobian, columns)
        results = self.result_count * len(columns)
        return RecordedFunction(
            function, self.name, self.argument_count, results, self.returns_nan, self.points_together
        )

    def recorded(self, x: Any) -> Any:
        """Record a call with flat traced values, and return its results."""
        return TracedArray(ACTIVE.tape, call_block(ACTIVE.tape, self, in_row(ACTIVE.tape, x)))

    def __call__(self, numbers: Floats) -> Floats:
        """Return the results if the condition, the first number, holds; else NaN.

        Raises:
            IntegrationError, ConvergenceError: if the results are not found.
        """
        if numbers[0]:
            try:
                return np.ascontiguousarray(self.computed(numbers[1:].copy())).reshape(-1)
            except (IntegrationError, ConvergenceError, ArgumentError):
                if not self.returns_nan:
                    raise
        return np.full(self.result_count, np.nan)

    def in_lanes(self, numbers: Floats) -> Floats:
        """Return the results of many points, (results, points), for a condition and arguments, (1 + arguments, points).

        Raises:
            IntegrationError, ConvergenceError: if the results of a point are not found.
        """
        results = np.full((self.result_count, numbers.shape[1]), np.nan)
        (which,) = np.nonzero(numbers[0])
        if len(which):
            made = self.computed_together(np.ascontiguousarray(numbers[1:, which]))
            results[:, which] = np.reshape(made, (self.result_count, -1))
        return results

    @property
    def derivative(self) -> Opaque:
        """The whole Jacobian."""
        return self.derivative_by(tuple(range(self.argument_count)))

    def derivative_by(self, columns: tuple[int, ...]) -> Opaque:
        """Return the function that computes these columns of the Jacobian."""
        if columns not in self._derivatives:
            self._derivatives[columns] = self.slopes(columns)
        return self._derivatives[columns]


class RecordedFunction(Call):
    """A function from one flat array to another that is recorded and compiled; so are its derivatives."""

    def __init__(
        self,
        function: Callable[[Any], Any],
        name: str,
        arguments: int,
        results: int,
        returns_nan: bool = False,
        points_together: int = sys.maxsize,
    ) -> None:
        super().__init__(returns_nan)
        self.points_together = points_together
        self._function, self.name = function, name
        self.argument_count, self.result_count = arguments, results

    @cached_property
    def _program(self) -> Derivative:
        return compiled_derivative(self._function, COMPILED, self.name)

    def computed(self, x: Floats) -> Any:
        """Run the compiled function."""
        return self._program(x)

    def computed_together(self, x: Floats) -> Any:
        """Run the compiled function in a batch."""
        return self._program.batch(x, in_axes=1, transposed=True, threads=1)

    def jacobian(self, columns: tuple[int, ...], x: Any) -> Any:
        """Return columns of the Jacobian, as the derivative of a function of the selected arguments."""
        chosen = np.array(columns, np.int64)
        rest = np.setdiff1d(np.arange(self.argument_count), chosen)
        order = np.argsort(np.concatenate([chosen, rest]))

        def parted(some: Any, remaining: Any) -> Any:
            return self._function(np.concatenate([some, remaining])[order])

        return compiled_derivative(parted, JACOBIAN, self.name, 0)(x[chosen], x[rest]).reshape(-1)
