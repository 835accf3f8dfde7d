"""Opaque functions with rules for their derivatives: `accumulus.custom`.

While a function is recorded, a call of an opaque one is a block of the program (`Program.call`), which compiled code
calls back. Its derivative is a dense edge between arrays, whose values are the results of another block: a call of the
rule. So second derivatives need a rule for the rule, and so on. The program knows only the function's inputs and
outputs, so the function is never written out, and cannot be emitted as source in another language.
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

Floats = NDArray[np.float64]
Shape = tuple[int, ...]
#: The C functions that are called: entries of the arguments, and where those of the results go.
_C_FUNCTION: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def custom(
    f: Callable[..., Any] | int,
    derivative: Callable[..., Any] | None = None,
    *,
    jvp: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    shape: Shape | list[Shape] | None = None,
) -> CustomFunction:
    """Return `f` as a function that is called, rather than recorded, with a rule for its derivative.

    For simulations, table look-ups and compiled libraries of which nothing can be recorded. On numbers the result does
    what `f` does. Within functions that are compiled and differentiated it is called back at each evaluation:
    derivatives of the order n need n rules, one for each order.

    Args:
        f: a function of real numbers and arrays, each of which it is given as a `numpy.float64` or as a new array of
            doubles. It returns a number, an array, or a container of these, of the same shapes for arguments of the
            same shapes; equal arguments have equal results. Or a function of C, by its address or as a function of
            ``ctypes``: ``void f(const double *x, double *y)``. `x` are the entries of all arguments, one argument after
            the other in C order, and it writes those of all results to `y` likewise.
        derivative: a function of the same arguments that returns the Jacobian: for each array of the result, in the
            place of that array, an array of shape ``result.shape + argument.shape``; for several arguments a tuple of
            these, one for each argument. That is what `jax.jacobian` returns. Where it is itself an `accumulus.custom`
            with a rule, there are second derivatives, and so on.
        jvp: a function of two tuples, the arguments and as many directions of the same shapes, that returns the
            derivative of the result along them.
        vjp: a function of the tuple of arguments and of weights in the structure of the result, that returns the
            derivatives of the weighted sum of all results by the arguments, a tuple, or an array for one. Gradients and
            products `acc.vjp` call it once, and products `acc.jvp` call `jvp` once, so that no Jacobian is formed; so
            do products with several weights or directions, one by one, up to half as many as the Jacobian has rows or
            columns; beside a `derivative` with single ones alone. Where a Jacobian is needed, in second derivatives
            too, and there is no `derivative`, it is formed by `jvp` of unit directions, or `vjp` of unit weights.
        shape: of the result, a tuple, or a list of tuples for a function that returns a tuple of arrays. Functions of C
            need it. Others are called once while they are recorded to find it, at the given arguments, or with ones
            where the recording knows no arguments (``guards="error"``).

    Returns:
        A function of arguments by position.

    Raises:
        ArgumentError: for what is neither a function nor an address, or a shape that is none. At a call,
            for arguments that are no real numbers, or results of other shapes than at the first call; and for
            derivatives of an order without a rule, before anything is computed.
        OpaqueError: at the first call of a program that is no loop over arrays: under ``dtype="float32"`` or
            ``exact_order=True``, in `accumulus.trace`, in source text and in files.
        Exception: whatever `f` and its rules raise while compiled code runs, as it is.

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
    """An opaque function with its rule, as `custom` returns it."""

    #: Changes of the objects that it holds are not watched.
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
            raise ArgumentError("f is a function of C, of whose result nothing is known; expected its shape=")
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
        #: Rules for products: with the Jacobian, and with its transpose.
        self.products = (jvp, vjp)
        #: Calls by the shapes of arguments and results: equal calls of one function are one block.
        self._calls: dict[Any, _Call] = {}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the results for numbers, and traced values for traced values."""
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
        """Call the function itself, or a rule; nothing of it is recorded or watched, even if something is."""
        function = self._function if rule is None else rule
        if ACTIVE.tape is None and sys.getprofile() is None:
            return function(*arguments)
        with in_opaque():
            return function(*arguments)

    def arrays(self, result: Any) -> list[NDArray[Any]]:
        """Return the arrays of a result, in their order.

        Raises:
            ArgumentError: if there is anything else in it.
        """
        plain = result if type(result) is tuple else (result,)
        if all(type(each) is np.ndarray and each.dtype == np.float64 for each in plain):  # as most are
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
        """Return the function that computes its Jacobian.

        Args:
            order: order of the requested derivative.
            name: name of the function, for messages.

        Raises:
            ArgumentError: if there is none.
        """
        if self._rule is None:
            raise self.no_rule(order, name)
        derivative: CustomFunction = self._rule
        return derivative

    def no_rule(self, order: int, name: str) -> ArgumentError:
        """Say that a derivative of an order is wanted, for which there is no rule."""
        rules = f"{order - 1 or 'no'} rule{'s' * (order > 2)}"
        return ArgumentError(
            f"a derivative of order {order} of {name} is wanted, which is opaque (accumulus.custom) and has {rules}"
            f"; expected acc.custom({self.__name__}, derivative=…) in the place of {self.__name__}, or jvp=…, vjp=…"
        )

    @property
    def has_matrix(self) -> bool:
        """Return True if there is a rule for the whole Jacobian."""
        return self._rule is not None

    def _number(self, argument: Any, position: int) -> Any:
        """Return an argument as the function is given it."""
        array = np.asarray(argument)
        if array.dtype.kind not in "fiub":
            raise ArgumentError(
                f"argument {position} of {self.__name__} is {type(argument).__name__} {argument!r:.60}; expected real "
                "numbers. functools.partial holds what is constant"
            )
        return np.array(array, np.float64)[()]

    def _recorded(self, tape: Any, entries: Sequence[References]) -> Any:
        """Return a call while something is recorded."""
        check_callable(tape, self.__name__)
        flat = np.concatenate([np.empty(0, np.int64), *(each.reshape(-1) for each in entries)])
        shapes = tuple([each.shape for each in entries])
        example = self._example(point_at(tape, flat), shapes)
        structure, results = flatten(example)[0], tuple([array.shape for array in self.arrays(example)])
        new = _Call(self, self.__name__, shapes, results, structure)
        outputs = call_block(tape, self._calls.setdefault((shapes, results), new), flat)
        parts = [piece.reshape(shape) for piece, shape in zip(_split(outputs, results), results, strict=True)]
        return unflatten(structure, [make(tape, piece if piece.ndim else int(piece)) for piece in parts])

    def _example(self, point: Floats | None, shapes: Sequence[Shape]) -> Any:
        """Return an example of the result for arguments of these shapes."""
        if self._shapes is not None:
            zeros = tuple([np.zeros(shape) for shape in self._shapes])
            return zeros if self._is_tuple else zeros[0]
        point = np.ones(sum(map(math.prod, shapes))) if point is None else point
        return self.called(
            [piece.reshape(shape)[()] for piece, shape in zip(_split(point, shapes), shapes, strict=True)]
        )


def check_callable(tape: Any, name: str) -> None:
    """Refuse an opaque function where a program cannot call it.

    Raises:
        OpaqueError: in a program that is operations alone.
        TraceError: where errors are caught.
        LongBodyError: in a body, whose instances are recorded one by one instead.
        UnmergeableError: in a branch that is recorded beside another: only the one that is taken may call.
    """
    around = tape
    while isinstance(around, InnerTape):
        around = around.outer
    if around is not None and not around.may_loop:
        raise refuse(str(OpaqueError.of(name, "a program that is operations alone")), OpaqueError)
    if isinstance(tape, InnerTape):
        tape.refuse_call(name)
    if ACTIVE.trying:
        raise refuse(
            f"{name} is opaque (accumulus.custom), and called where errors are caught: compiled code does "
            "not catch what it raises. Catch it in the opaque function itself."
        )
    if ACTIVE.merging:
        raise UnmergeableError


def call_block(tape: Any, opaque: Opaque, arguments: References) -> References:
    """Record a call, which is made where the decisions so far are as they were: references of its results.

    Raises:
        Exception: as `check_callable`.
    """
    check_callable(tape, opaque.name)
    decisions = ACTIVE.decisions
    holds = tape.constant(1.0) if decisions is None or decisions.tape is not tape else decisions.held()
    results: References = tape.call(opaque, np.concatenate([[holds], arguments]))
    return results


class _Call:
    """A function with arguments and results of certain shapes, as programs call it (`accumulus.tape.blocks.Opaque`).

    Args:
        function: that is called.
        name: name of the function that it is the derivative of.
        arguments, results: shapes of those of that function.
        structure: structure of the results of that function.
        order: of the derivative. The results are the entries of an array of shape (results, arguments, …, arguments).
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
        self._given = [*zip(_slices(arguments), arguments, strict=True)]
        self._products: dict[Any, _Products] = {}
        #: Shapes of the arrays that are returned, and where their entries go.
        self._shapes = [sum(shapes, ()) for shapes in product(*axes)]
        self._places = [*product(*map(_slices, axes))]

    def __call__(self, numbers: Floats) -> Floats:
        """Call the function.

        Raises:
            ArgumentError: for results that are no numbers, or of other shapes.
        """
        if not numbers[0]:
            return np.full(self.result_count, np.nan)
        return self._entries(self._function.called(self._split(numbers[1:].copy())), self._function.__name__)

    def _split(self, x: Floats) -> list[Any]:
        """Return arguments as the function is given them, which it may keep, or change."""
        return [x[span].reshape(shape)[()] for span, shape in self._given]

    def _entries(self, result: Any, name: str) -> Floats:
        """Return the entries of results, or of their derivatives along a direction."""
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
        for array, span in zip(arrays, self._places, strict=True):
            view = entries[span]
            view[...] = array.reshape(view.shape)
        return entries.reshape(-1)

    @property
    def _rules(self) -> tuple[Any, Any]:
        """The rules for products; weights of a Jacobian have no structure."""
        jvp, vjp = self._function.products
        return jvp, None if self._order else vjp

    @cached_property
    def derivative(self) -> Opaque:
        """The Jacobian, as programs call it."""
        order, rules = self._order + 1, self._rules
        if self._function.has_matrix or rules == (None, None):
            rule = self._function.rule(order, self._of)
            return _Call(rule, self._of, self._arguments, self._results, self._structure, order)
        (m, n), (jvp, vjp) = (self.result_count, self.argument_count), rules
        is_transposed = jvp is None or (vjp is not None and m < n)
        return _Products(self, range(n), m if is_transposed else n, is_transposed, is_matrix=True)

    def product(self, by: tuple[int, ...], count: int, is_transposed: bool) -> Opaque | None:
        """Return the opaque function of products with vectors, see `Opaque.derivative`; None if it is not worth it."""
        # of half as many as form the matrix, which may be wanted elsewhere, too
        size = self.result_count if is_transposed else len(by)
        most = 1 if self._function.has_matrix else max(1, size // 2)
        if self._rules[is_transposed] is None or not 0 < count <= most:
            return None
        return self._products.setdefault(
            (by, count, is_transposed), _Products(self, by, count, is_transposed, is_matrix=False)
        )

    def refused(self, order: int) -> Opaque:
        """Refuse a derivative of an order without a rule.

        Raises:
            ArgumentError: always.
        """
        raise self._function.no_rule(order, self._of)

    def along(self, x: Floats, side: Floats, is_transposed: bool) -> Floats:
        """Multiply the Jacobian, or its transpose, with one vector, by the user's rule.

        Raises:
            ArgumentError: for results that are no numbers, or of other shapes.
        """
        rule, arguments = self._rules[is_transposed], tuple(self._split(x))
        if not is_transposed:
            return self._entries(self._function.called((arguments, tuple(self._split(side))), rule), name_of(rule))
        weights = [
            piece.reshape(shape)[()] for piece, shape in zip(_split(side, self._results), self._results, strict=True)
        ]
        result = self._function.called((arguments, unflatten(self._structure, weights)), rule)
        arrays = self._function.arrays(result)
        if [array.shape for array in arrays] != [*self._arguments]:
            raise ArgumentError(
                f"{name_of(rule)} returned arrays of shapes {_listed([array.shape for array in arrays])}; expected "
                f"{_listed(self._arguments)}: those of the arguments"
            )
        return np.concatenate([np.empty(0), *(array.reshape(-1) for array in arrays)])


class _Products:
    """Products of vectors with the Jacobian of an opaque function, or with its transpose, as programs call them.

    Args:
        of: the function.
        by: arguments that derivatives are by.
        count: of the vectors, which follow the arguments.
        is_matrix: True if the vectors are units in the place of arguments, so that the Jacobian is formed.
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
        """Call the rule once for each vector that is not zero; the product with zero is zero."""
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
        """Refuse: there is no rule for it.

        Raises:
            ArgumentError: always.
        """
        return self._of.refused(2)


class _OfC:
    """A function of C as one of Python.

    Args:
        held: what keeps it where it is.
        address: where that is.
        shapes, is_tuple: of its results, and whether there may be several.
    """

    def __init__(self, held: Any, address: int, shapes: Sequence[Shape], is_tuple: bool) -> None:
        self._held, self._run = held, _C_FUNCTION(address)
        self._shapes, self._is_tuple = shapes, is_tuple

    def __call__(self, *arguments: Any) -> Any:
        """Call it, without the lock of Python's interpreter."""
        inputs = np.concatenate([np.empty(0), *map(np.ravel, arguments)])
        outputs = np.empty(sum(map(math.prod, self._shapes)))
        self._run(*(each.__array_interface__["data"][0] for each in (inputs, outputs)))
        parts = zip(_split(outputs, self._shapes), self._shapes, strict=True)
        results = tuple([piece.reshape(shape)[()] for piece, shape in parts])
        return results if self._is_tuple else results[0]


def _address_of(f: Any) -> int | None:
    """Return the address of a function of C; None for anything else."""
    if isinstance(f, CFuncPtr):
        return ctypes.cast(f, ctypes.c_void_p).value
    return int(f) if isinstance(f, int | np.integer) and not isinstance(f, bool) and f > 0 else None


def _checked_shapes(shape: Any) -> list[Shape]:
    shapes = shape if isinstance(shape, list) else [shape]
    for each in shapes:
        if not isinstance(each, tuple) or not all(isinstance(n, int | np.integer) and n >= 0 for n in each):
            raise ArgumentError(f"shape is {shape!r:.60}; expected a tuple of lengths, or a list of such tuples")
    return shapes


def _split(entries: NDArray[Any], shapes: Sequence[Shape]) -> list[NDArray[Any]]:
    """Split a row of entries into pieces, one for each shape."""
    return [entries[span] for span in _slices(shapes)]


def _slices(shapes: Sequence[Shape]) -> list[slice]:
    """Return the places of the entries of each array, in a row of those of all."""
    return [slice(*ends) for ends in pairwise(accumulate(map(math.prod, shapes), initial=0))]


def _listed(shapes: Sequence[Shape]) -> str:
    return ", ".join(map(str, shapes)) if shapes else "none"
