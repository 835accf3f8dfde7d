"""Opaque functions with rules for their derivatives: `accumulus.custom`.

While a function is recorded, a call of an opaque function is a block of the program (`Program.call`), and compiled code
calls back. The derivative of the block is a dense edge between arrays, whose values are the results of another block: a
call of the rule. Second derivatives therefore need a rule for the rule, and so on. The program knows only inputs and
outputs of the function, so it cannot be written out, nor emitted as source in another language.
"""

from __future__ import annotations

import ctypes
import math
import sys
from _ctypes import CFuncPtr
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise, product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, OpaqueError
from accumulus.frontends.active import ACTIVE, in_opaque, refuse
from accumulus.frontends.decisions import UnmergeableError, point_at
from accumulus.frontends.inner import InnerTape
from accumulus.frontends.location import name_of
from accumulus.frontends.numpy.arrays import as_constant, make
from accumulus.frontends.numpy.operands import depends, references_of
from accumulus.frontends.recorder import References
from accumulus.frontends.trees import Structure, flatten, unflatten
from accumulus.tape.blocks import Opaque
from accumulus.tape.columns import in_shapes

Floats = NDArray[np.float64]
Shape = tuple[int, ...]
#: Type of C functions: pointers to the entries of the arguments, and to the memory for the entries of the results.
_C_FUNCTION: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def custom(
    f: Callable[..., Any] | int,
    derivative: Callable[..., Any] | None = None,
    *,
    jvp: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    shape: Shape | list[Shape] | None = None,
) -> CustomFunction:
    """Return an opaque function that calls `f` instead of recording it, with rules for its derivatives.

    Use it for simulations, table lookups and compiled libraries, which cannot be recorded. On numbers, the returned
    function behaves like `f`. Inside of functions that are compiled and differentiated, `f` is called back at each
    evaluation. Derivatives of order n need n rules, one for each order.

    Args:
        f: function of real numbers and arrays. It receives each argument as a `numpy.float64` or as a new array of
            doubles, and returns a number, an array, or a container of these. Results must have the same shapes for
            arguments of the same shapes, and equal values for equal arguments. Alternatively a C function
            ``void f(const double *x, double *y)``, as an address or an object of ``ctypes``: `x` has the entries of
            all arguments, one argument after the other in C order, and the function writes the entries of all results
            to `y` in the same layout.
        derivative: function of the same arguments that returns the Jacobian in the form of `jax.jacobian`: in place of
            each array of the result an array of shape ``result.shape + argument.shape``, or, for several arguments, a
            tuple of these. If it is itself an `accumulus.custom` with a rule, second derivatives are available, and so
            on.
        jvp: function of two tuples, the arguments and directions of the same shapes. It returns the derivative of the
            result along the directions, in which it is linear. Nothing can check that, since the function is opaque.
        vjp: function of the tuple of arguments and of weights in the structure of the result. It returns the
            derivatives of the weighted sum of all results with respect to the arguments: a tuple, or an array for a
            single argument. It is linear in the weights. Gradients and `acc.vjp` call `vjp` once, and `acc.jvp` calls
            `jvp` once, so that no Jacobian is formed. Products with several weights or directions call it once for each
            of these, up to half the number of the Jacobian's rows or columns; if there is also a `derivative`, they are
            called only for a single weight or direction. If a Jacobian is needed without a `derivative`, also in second
            derivatives, it is formed from `jvp` with unit directions, or `vjp` with unit weights.
        shape: shape of the result: a tuple, or a list of tuples for a function that returns a tuple of arrays. C
            functions need it. Other functions are called once during recording to determine it, at the given arguments,
            or at ones if the recording has no arguments (``guards="error"``).

    Returns:
        A function that accepts arguments by position.

    Raises:
        ArgumentError: if `f` is neither a function nor an address, or `shape` is not a shape. At a call, for arguments
            that are not real numbers, and for results of other shapes than at the first call; for derivatives of an
            order without a rule, before anything is computed.
        OpaqueError: at the first call, if the program cannot call back: under ``dtype="float32"`` or
            ``exact_order=True``, in `accumulus.trace`, in source text and in files.
        Exception: any exception of `f` and its rules while compiled code runs, unchanged.

    >>> import numpy as np
    >>> import accumulus as acc
    >>> def look_up(x):
    ...     return np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 4.0])
    >>> def slope(x):
    ...     return 1.0 if x < 1.0 else 3.0
    >>> table = acc.custom(look_up, derivative=slope)
    >>> float(acc.gradient(lambda x: table(x[0] * x[1]) ** 2)(np.array([0.5, 3.0]))[0])
    45.0
    """
    return CustomFunction(f, derivative, jvp, vjp, shape)


class CustomFunction:
    """An opaque function with its rules, which is called like the function; the result of `custom`.

    >>> cube = CustomFunction(lambda x: x**3, derivative=lambda x: np.diag(3 * x**2))
    >>> at = [np.array([1.0, 2.0])]
    >>> cube.arrays(cube.called(at)), cube.rule(1, "f").called(at).tolist()
    ([array([1., 8.])], [[3.0, 0.0], [0.0, 12.0]])
    >>> print(str(cube.rule(1, "f").no_rule(2, "f")).partition(";")[0])
    a derivative of order 2 of f is needed, which is opaque (accumulus.custom) and has 1 rule
    """

    #: Changes of variables that it reads are not watched.
    is_opaque = True

    def __init__(
        self,
        f: Callable[..., Any] | int,
        derivative: Callable[..., Any] | None = None,
        jvp: Callable[..., Any] | None = None,
        vjp: Callable[..., Any] | None = None,
        shape: Shape | list[Shape] | None = None,
    ) -> None:
        for rule, name in ((derivative, "derivative"), (jvp, "jvp"), (vjp, "vjp")):
            if rule is not None and not callable(rule):
                raise ArgumentError(f"{name} is {rule!r:.60}; expected a function, or acc.custom(…) with a shape")
        self._shapes = None if shape is None else _checked_shapes(shape)
        address = _address_of(f)
        if address is None and not callable(f):
            raise ArgumentError(f"f is {f!r:.60}; expected a function, or the address of one of C")
        if address is not None and self._shapes is None:
            raise ArgumentError("f is a C function, so the shape of its result is unknown; pass shape=")
        self.__name__ = name_of(f) if callable(f) else f"the function at {address:#x}"
        self.__doc__ = getattr(f, "__doc__", None)
        self._is_tuple = isinstance(shape, list)
        self._function: Callable[..., Any]
        if address is None:
            assert callable(f)
            self._function = f
        else:
            assert self._shapes is not None
            self._function = _OfC(f, address, self._shapes, self._is_tuple)
        self._rule: Any = derivative
        if derivative is not None and not isinstance(derivative, CustomFunction):
            self._rule = CustomFunction(derivative)
        #: Rules for products with the Jacobian, and with its transpose.
        self.products = (jvp, vjp)
        #: Calls by the shapes of arguments and results, since equal calls of one function share a block.
        self._calls: dict[Any, _Call] = {}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return results for numbers, and traced values for traced arguments."""
        if keywords:
            raise ArgumentError(f"{self.__name__} is called with {', '.join(keywords)} by name; expected positions")
        tape = ACTIVE.tape
        if tape is not None and depends(arguments):
            return self._recorded(tape, [references_of(tape, argument) for argument in arguments])
        if tape is None:
            return self.called([self._number(argument, k) for k, argument in enumerate(arguments)])
        numbers = [np.array(tape.values_of(references_of(tape, argument)), float)[()] for argument in arguments]
        structure, leaves = flatten(self.called(numbers))
        return unflatten(structure, [as_constant(tape, leaf) for _, leaf in leaves])

    def __repr__(self) -> str:
        return f"<custom {self.__name__}>"

    def called(self, arguments: Sequence[Any], rule: Callable[..., Any] | None = None) -> Any:
        """Call the function itself, or a rule, without recording or watching its code."""
        function = self._function if rule is None else rule
        if ACTIVE.tape is None and sys.getprofile() is None:
            return function(*arguments)
        with in_opaque():
            return function(*arguments)

    def arrays(self, result: Any) -> list[NDArray[Any]]:
        """Return the arrays in a result of any shape and structure, in order.

        Raises:
            ArgumentError: if the result contains anything else.
        """
        plain = result if type(result) is tuple else (result,)
        if all(type(each) is np.ndarray and each.dtype == np.float64 for each in plain):  # the common case
            return list(plain)
        arrays = []
        for path, leaf in flatten(result)[1]:
            arrays.append(np.asarray(leaf))
            if arrays[-1].dtype.kind not in "fiub":
                raise ArgumentError(
                    f"{self.__name__} returned {type(leaf).__name__} {leaf!r:.60}{' at ' + path if path else ''}; "
                    "expected real numbers, arrays of them, or containers of those"
                )
        return arrays

    def rule(self, order: int, name: str) -> CustomFunction:
        """Return the function that computes the Jacobian.

        Args:
            order: order of the requested derivative.
            name: name of the function, for messages.

        Raises:
            ArgumentError: if there is no rule.
        """
        if self._rule is None:
            raise self.no_rule(order, name)
        derivative: CustomFunction = self._rule
        return derivative

    def no_rule(self, order: int, name: str) -> ArgumentError:
        """Return the error for a derivative of an order without a rule."""
        rules = f"{order - 1 or 'no'} rule{'s' * (order > 2)}"
        return ArgumentError(
            f"a derivative of order {order} of {name} is needed, which is opaque (accumulus.custom) and has {rules}; "
            f"use acc.custom({self.__name__}, derivative=…) instead of {self.__name__}, or pass jvp=…, vjp=…"
        )

    @property
    def has_matrix(self) -> bool:
        """True if there is a rule for the whole Jacobian."""
        return self._rule is not None

    def _number(self, argument: Any, position: int) -> Any:
        """Convert an argument to the form that the function receives.

        Raises:
            ArgumentError: if it is not numeric.
        """
        array = np.asarray(argument)
        if array.dtype.kind not in "fiub":
            raise ArgumentError(
                f"argument {position} of {self.__name__} is {type(argument).__name__} {argument!r:.60}; expected real "
                "numbers. Bind constants by functools.partial"
            )
        return np.array(array, np.float64)[()]

    def _recorded(self, tape: Any, entries: Sequence[References]) -> Any:
        """Record a call, and return its results as traced values."""
        check_callable(tape, self.__name__)
        flat = np.concatenate([np.empty(0, np.int64), *(each.reshape(-1) for each in entries)])
        shapes = tuple([each.shape for each in entries])
        example = self._example(point_at(tape, flat), shapes)
        structure, results = flatten(example)[0], tuple([array.shape for array in self.arrays(example)])
        new = _Call(self, self.__name__, shapes, results, structure)
        outputs = call_block(tape, self._calls.setdefault((shapes, results), new), flat)
        pieces = in_shapes(outputs, results)
        return unflatten(structure, [make(tape, piece if piece.ndim else int(piece)) for piece in pieces])

    def _example(self, point: Floats | None, shapes: Sequence[Shape]) -> Any:
        """Return an example of the result for arguments of these shapes: at `point`, or at ones if it is None."""
        if self._shapes is not None:
            zeros = tuple([np.zeros(shape) for shape in self._shapes])
            return zeros if self._is_tuple else zeros[0]
        point = np.ones(sum(map(math.prod, shapes))) if point is None else point
        return self.called([piece[()] for piece in in_shapes(point, shapes)])


def check_callable(tape: Any, name: str) -> None:
    """Check that the program can call an opaque function here.

    Raises:
        OpaqueError: in a program of operations alone.
        TraceError: inside of code that catches errors.
        LongBodyError: in a loop body; its instances are then recorded individually.
        UnmergeableError: in a branch that is recorded next to the other, since only the branch that is taken may call.
    """
    around = tape
    while isinstance(around, InnerTape):
        around = around.outer
    if around is not None and not around.may_loop:
        raise refuse(str(OpaqueError.of(name, "a program of operations only")), OpaqueError)
    if isinstance(tape, InnerTape):
        tape.refuse_call(name)
    if ACTIVE.trying:
        raise refuse(
            f"{name} is opaque (accumulus.custom) and called where errors are caught: compiled code does not catch "
            "errors that it raises. Catch them in the opaque function itself."
        )
    if ACTIVE.merging:
        raise UnmergeableError


def call_block(tape: Any, opaque: Opaque, arguments: References) -> References:
    """Record a call that is made only where all guards so far hold, and return the references of its results.

    Raises:
        Exception: see `check_callable`.
    """
    check_callable(tape, opaque.name)
    decisions = ACTIVE.decisions
    holds = tape.constant(1.0) if decisions is None or decisions.tape is not tape else decisions.guard_conjunction()
    results: References = tape.call(opaque, np.concatenate([[holds], arguments]))
    return results


class _Call:
    """A function for arguments and results of given shapes, as programs call it (`accumulus.tape.blocks.Opaque`).

    Args:
        function: function to call.
        name: name of the original function, whose derivative this may be.
        arguments, results: shapes of the arguments and results of the original function.
        structure: structure of the results of the original function.
        order: order of the derivative. The results are the entries of an array of shape (results, arguments, …,
            arguments).
    """

    def __init__(
        self,
        function: CustomFunction,
        name: str,
        arguments: Sequence[Shape],
        results: Sequence[Shape],
        structure: Structure,
        order: int = 0,
    ) -> None:
        self.name, self._function, self._of, self._structure = function.__name__, function, name, structure
        self._arguments, self._results, self._order = arguments, results, order
        self.argument_count = sum(map(math.prod, arguments))
        axes = [results, *[arguments] * order]
        self._size = tuple(sum(map(math.prod, shapes)) for shapes in axes)
        self.result_count = math.prod(self._size)
        self._argument_slices = [*zip(_slices(arguments), arguments, strict=True)]
        self._products: dict[Any, _Products] = {}
        #: Shapes of the returned arrays, and positions of their entries.
        self._shapes = [sum(shapes, ()) for shapes in product(*axes)]
        self._result_slices = [*product(*map(_slices, axes))]

    def __call__(self, numbers: Floats) -> Floats:
        """Call the function and return the entries of its results; NaN if the guards do not hold.

        Raises:
            ArgumentError: for results that are not numeric, or have other shapes.
        """
        if not numbers[0]:
            return np.full(self.result_count, np.nan)
        return self._entries(self._function.called(self._split(numbers[1:].copy())), self._function.__name__)

    def _split(self, x: Floats) -> list[Any]:
        """Return the arguments as the function receives them; it may store or change them."""
        return [x[span].reshape(shape)[()] for span, shape in self._argument_slices]

    def _entries(self, result: Any, name: str) -> Floats:
        """Return the entries of results, or of their derivatives, after checking the shapes."""
        arrays = self._function.arrays(result)
        shapes = [array.shape for array in arrays]
        if shapes != self._shapes:
            explanation = (
                "result.shape + argument.shape of each array of the result by each argument"
                if self._order
                else "results of one shape for arguments of one shape"
            )
            raise ArgumentError(
                f"{name} returned arrays of shapes {_listed(shapes)}; expected {_listed(self._shapes)}: {explanation}"
            )
        entries = np.empty(self._size)
        for array, span in zip(arrays, self._result_slices, strict=True):
            view = entries[span]
            view[...] = array.reshape(view.shape)
        return entries.reshape(-1)

    @property
    def _rules(self) -> tuple[Any, Any]:
        """Rules for products; empty for a derivative, whose weights have no structure."""
        jvp, vjp = self._function.products
        return jvp, None if self._order else vjp

    @cached_property
    def derivative(self) -> Opaque:
        """The opaque function that computes the Jacobian."""
        order, rules = self._order + 1, self._rules
        if self._function.has_matrix or rules == (None, None):
            rule = self._function.rule(order, self._of)
            return _Call(rule, self._of, self._arguments, self._results, self._structure, order)
        (m, n), (jvp, vjp) = (self.result_count, self.argument_count), rules
        is_transposed = jvp is None or (vjp is not None and m < n)
        return _Products(self, range(n), m if is_transposed else n, is_transposed, is_matrix=True)

    def product(self, by: tuple[int, ...], count: int, is_transposed: bool) -> Opaque | None:
        """Return the opaque function for products, see `Opaque.derivative`; None if forming the Jacobian is better."""
        # up to half as many products as form the Jacobian, which other results may need as well
        size = self.result_count if is_transposed else len(by)
        most = 1 if self._function.has_matrix else max(1, size // 2)
        if self._rules[is_transposed] is None or not 0 < count <= most:
            return None
        return self._products.setdefault(
            (by, count, is_transposed), _Products(self, by, count, is_transposed, is_matrix=False)
        )

    def refused(self, order: int) -> Opaque:
        """Raise an error, since there is no rule for a derivative of this order.

        Raises:
            ArgumentError: always.
        """
        raise self._function.no_rule(order, self._of)

    def along(self, x: Floats, side: Floats, is_transposed: bool) -> Floats:
        """Multiply the Jacobian, or its transpose, with one vector, by calling the user's rule.

        Raises:
            ArgumentError: for results that are not numeric, or have other shapes.
        """
        rule, arguments = self._rules[is_transposed], tuple(self._split(x))
        if not is_transposed:
            return self._entries(self._function.called((arguments, tuple(self._split(side))), rule), name_of(rule))
        weights = [piece[()] for piece in in_shapes(side, self._results)]
        result = self._function.called((arguments, unflatten(self._structure, weights)), rule)
        arrays = self._function.arrays(result)
        if [array.shape for array in arrays] != [*self._arguments]:
            raise ArgumentError(
                f"{name_of(rule)} returned arrays of shapes {_listed([array.shape for array in arrays])}; expected "
                f"{_listed(self._arguments)}: those of the arguments"
            )
        return np.concatenate([np.empty(0), *(array.reshape(-1) for array in arrays)])


class _Products:
    """Products of the Jacobian of an opaque function, or of its transpose, with vectors, as programs call them.

    Args:
        of: opaque function.
        by: positions of the entries of arguments to differentiate with respect to.
        count: number of vectors, whose entries follow the arguments.
        is_transposed: True for products with the transpose.
        is_matrix: True to use unit vectors, which are not passed, so that the products form the Jacobian.
    """

    def __init__(self, of: _Call, by: Sequence[int], count: int, is_transposed: bool, *, is_matrix: bool) -> None:
        self.name, self._of, self._count, self._is_transposed = of.name, of, count, is_transposed
        self._is_matrix, self._by = is_matrix, np.array(by, np.int64)
        self._taken, self._made = of.result_count, len(self._by)
        if not is_transposed:
            self._taken, self._made = self._made, self._taken
        self.argument_count = of.argument_count + (0 if is_matrix else count * self._taken)
        self.result_count = count * self._made

    def __call__(self, numbers: Floats) -> Floats:
        """Call the rule once for each nonzero vector, and return the products; NaN if the guards do not hold."""
        products, n = np.zeros((self._count, self._made)), self._of.argument_count
        if not numbers[0]:
            products[...] = np.nan
            return products.reshape(-1)
        x = numbers[1 : 1 + n]
        sides = np.eye(self._count) if self._is_matrix else numbers[1 + n :].reshape(self._count, -1)
        for row, side in zip(products, sides, strict=True):
            if not side.any():
                continue
            vector = side
            if not self._is_transposed:
                vector = np.zeros(n)
                vector[self._by] = side
            along = self._of.along(x.copy(), vector.copy(), self._is_transposed)
            row[...] = along[self._by] if self._is_transposed else along
        turned = self._is_matrix and not self._is_transposed
        return np.ascontiguousarray(products.T if turned else products).reshape(-1)

    @property
    def derivative(self) -> Opaque:
        """Raise an error, since products have no rule for a derivative.

        Raises:
            ArgumentError: always.
        """
        return self._of.refused(2)


class _OfC:
    """A Python function that calls a C function.

    Args:
        owner: object that keeps the C function alive.
        address: address of the C function.
        shapes: shapes of the results.
        is_tuple: True to return a tuple of results.
    """

    def __init__(self, owner: Any, address: int, shapes: Sequence[Shape], is_tuple: bool) -> None:
        self._owner, self._run = owner, _C_FUNCTION(address)
        self._shapes, self._is_tuple = shapes, is_tuple

    def __call__(self, *arguments: Any) -> Any:
        """Call the C function without the global interpreter lock."""
        inputs = np.concatenate([np.empty(0), *map(np.ravel, arguments)])
        outputs = np.empty(sum(map(math.prod, self._shapes)))
        self._run(*(each.__array_interface__["data"][0] for each in (inputs, outputs)))
        results = tuple([piece[()] for piece in in_shapes(outputs, self._shapes)])
        return results if self._is_tuple else results[0]


def _address_of(f: Any) -> int | None:
    """Return the address of a C function; None for anything else."""
    if isinstance(f, CFuncPtr):
        return ctypes.cast(f, ctypes.c_void_p).value
    return int(f) if isinstance(f, int | np.integer) and not isinstance(f, bool) and f > 0 else None


def _checked_shapes(shape: Any) -> list[Shape]:
    shapes = shape if isinstance(shape, list) else [shape]
    for each in shapes:
        if not isinstance(each, tuple) or not all(isinstance(n, int | np.integer) and n >= 0 for n in each):
            raise ArgumentError(f"shape is {shape!r:.60}; expected a tuple of lengths, or a list of such tuples")
    return shapes


def _slices(shapes: Sequence[Shape]) -> list[slice]:
    """Return the slice of each array in the vector of all entries."""
    return [slice(*ends) for ends in pairwise(accumulate(map(math.prod, shapes), initial=0))]


def _listed(shapes: Sequence[Shape]) -> str:
    return ", ".join(map(str, shapes)) if shapes else "none"
