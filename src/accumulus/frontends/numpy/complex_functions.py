"""Functions of complex arrays, linear algebra, and `cmath`, from functions of real and imaginary parts.

Linear functions are applied to both parts, and products of several arrays to all combinations of parts. Functions that
are written with operators and other functions (`polyval`, `gradient`, `interp`) need nothing here. Each of the others
is a formula. A system of linear equations becomes a real one with twice as many unknowns. Functions of `cmath` accept
only plain numbers, so NumPy's functions replace them for traced values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import FILLING, refuse
from accumulus.frontends.numpy.arrays import as_array, as_constant
from accumulus.frontends.numpy.complex_numbers import UFUNCS, ComplexArray, make_complex, parts_of
from accumulus.frontends.numpy.linalg.factorisations import result_type
from accumulus.frontends.numpy.moving import ALL, MOVING, ZERO_FILLING, positional
from accumulus.frontends.numpy.operands import concrete, depends, holds_complex
from accumulus.frontends.numpy.table import (
    COMPLEX_FUNCTIONS,
    PROTOCOLS,
    borrows,
    function_name,
    implements,
    implements_complex,
    unsupported,
)
from accumulus.tape.tape import Tape

# Linear functions --------------------------------------------------------------------------------------------

#: Linear functions → number of leading arguments, arrays or lists of arrays, in which they are linear.
LINEAR: Final[dict[Callable[..., Any], int]] = {
    **MOVING,
    **ZERO_FILLING,
    **dict.fromkeys((np.sum, np.mean, np.cumsum, np.trace, np.linalg.trace), 1),
    **dict.fromkeys((np.diff, np.pad, np.ediff1d), 1),
}


def _parted(tape: Tape, value: Any, part: int) -> Any:
    """Return one part of all entries of `value`, which may be a list of arrays; zeros as imaginary parts of reals."""
    if isinstance(value, list | tuple):
        return [_parted(tape, item, part) for item in value]
    pair = parts_of(tape, value)
    if part and not holds_complex(value):
        return np.zeros(np.shape(as_array(tape, pair.re)))
    return pair[part]


def _joined(tape: Tape, re: Any, im: Any) -> Any:
    """Join the results for both parts, which may be several, to complex results."""
    if isinstance(re, list | tuple):
        parts = [_joined(tape, *pair) for pair in zip(re, im, strict=True)]
        return type(re)(*parts) if hasattr(re, "_fields") else type(re)(parts)
    return make_complex(tape, re, im)


def _enter_linear(function: Callable[..., Any], arrays: int) -> None:
    @implements_complex(function)
    def record(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
        arguments, keywords = positional(function, arguments, keywords)
        count = len(arguments) if arrays == ALL else arrays
        if holds_complex(arguments[count:]) or holds_complex(list(keywords.values())):
            raise refuse(
                f"{function_name(function)} is recorded for complex arrays, not with other complex arguments. Write it "
                "with np.concatenate, or for the real and the imaginary part."
            )
        re, im = (
            function(*(_parted(tape, value, part) for value in arguments[:count]), *arguments[count:], **keywords)
            for part in (0, 1)
        )
        if arrays == ALL and count > 1:  # each result belongs to one argument
            pairs = zip(arguments, re, im, strict=True)
            return type(re)(
                [make_complex(tape, *pair) if holds_complex(argument) else pair[0] for argument, *pair in pairs]
            )
        return _joined(tape, re, im)


for _function, _arrays in LINEAR.items():
    _enter_linear(_function, _arrays)


@implements_complex(np.insert)
def _insert(tape: Tape, arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """Return the array with `values` inserted before the positions `obj`."""
    return make_complex(tape, *(np.insert(_parted(tape, arr, k), obj, _parted(tape, values, k), axis) for k in (0, 1)))


# Products -----------------------------------------------------------------------------------------------------

#: Multilinear functions → number of array arguments, and position of the argument that is conjugated.
MULTILINEAR: Final[dict[Callable[..., Any], tuple[int, int | None]]] = {
    **dict.fromkeys((np.dot, np.inner, np.outer, np.matmul, np.tensordot, np.kron, np.convolve, np.cross), (2, None)),
    **dict.fromkeys((np.linalg.matmul, np.linalg.outer, np.linalg.tensordot, np.linalg.cross), (2, None)),
    **dict.fromkeys((np.vdot, np.vecdot, np.linalg.vecdot), (2, 0)),
}
for _name, _conjugated in (("matvec", None), ("vecmat", 0)):
    if hasattr(np, _name):  # new in NumPy 2.2
        MULTILINEAR[getattr(np, _name)] = (2, _conjugated)


def expanded(tape: Tape, operands: Sequence[Any], product: Callable[[Sequence[Any]], Any]) -> Any:
    """Return the product of complex operands, expanded into products of real and imaginary parts."""
    for k, operand in enumerate(operands):
        if holds_complex(operand):
            re, im = (
                expanded(tape, [*operands[:k], part, *operands[k + 1 :]], product) for part in parts_of(tape, operand)
            )
            if holds_complex(re) or holds_complex(im):
                return re + 1j * im
            return make_complex(tape, re, im)
    return product(operands)


def _enter_product(function: Callable[..., Any], count: int, conjugated: int | None) -> None:
    @implements_complex(function)
    def record(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
        arguments, keywords = positional(function, arguments, keywords)
        operands = list(arguments[:count])
        if conjugated is not None and holds_complex(operands[conjugated]):
            operands[conjugated] = np.conjugate(as_array(tape, operands[conjugated]))
        return expanded(tape, operands, lambda parts: function(*parts, *arguments[count:], **keywords))


for _product, (_count, _which) in MULTILINEAR.items():
    _enter_product(_product, _count, _which)


@implements_complex(np.einsum)
def _einsum(
    tape: Tape, *operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, **memory: Any
) -> Any:
    """Return Einstein's sum, with labels as text or as lists of integers."""
    if isinstance(operands[0], str):
        return expanded(tape, operands[1:], lambda parts: np.einsum(operands[0], *parts))
    labels, last = operands[1::2], operands[len(operands) // 2 * 2 :]

    def product(parts: Sequence[Any]) -> Any:
        pairs = [item for pair in zip(parts, labels, strict=True) for item in pair]
        return np.einsum(*pairs, *last)

    return expanded(tape, operands[: len(operands) // 2 * 2 : 2], product)


# Folds --------------------------------------------------------------------------------------------------------


@implements_complex(np.prod)
def _prod(tape: Tape, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Return the product along one axis, several axes, or all."""
    a = as_array(tape, a)
    axes = range(a.ndim) if axis is None else [k % a.ndim for k in np.atleast_1d(axis)]
    remaining = [k for k in range(a.ndim) if k not in axes]
    lines = a.transpose([*remaining, *axes]).reshape((*(a.shape[k] for k in remaining), -1))
    result: Any = reduce(operator.mul, (lines[..., k] for k in range(lines.shape[-1])), np.complex128(1.0))
    result = np.broadcast_to(result, lines.shape[:-1]) if not lines.shape[-1] else result
    return np.reshape(result, [1 if k in axes else n for k, n in enumerate(a.shape)]) if keepdims else result


@implements_complex(np.cumprod)
def _cumprod(tape: Tape, a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative product along one axis, or of all entries."""
    lines = np.ravel(as_array(tape, a)) if axis is None else np.moveaxis(as_array(tape, a), axis, -1)
    running = [lines[..., 0]]
    for k in range(1, lines.shape[-1]):
        running.append(running[-1] * lines[..., k])
    return np.moveaxis(np.stack(running, axis=-1), -1, axis or 0)


@implements_complex(np.var)
def _var(
    tape: Tape, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> Any:
    """Return the variance: the mean squared absolute deviation from the mean."""
    a = as_array(tape, a)
    apart = a - np.mean(a, axis=axis, keepdims=True)
    total = np.sum(apart.real * apart.real + apart.imag * apart.imag, axis=axis, keepdims=keepdims)
    count = a.size // max(np.mean(a, axis=axis, keepdims=True).size, 1)
    return total / (count - ddof)


@implements_complex(np.any, np.all)
def _refused_truth(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
    raise refuse("np.any and np.all of complex numbers are not recorded: write z != 0 in them.")


# Parts --------------------------------------------------------------------------------------------------------


@implements_complex(np.angle)
def _angle(tape: Tape, z: Any, deg: bool = False) -> Any:
    """Return the angle from the positive real axis, in (-π, π]."""
    result = UFUNCS[np.log](tape, parts_of(tape, z)).im
    return result * (180.0 / np.pi) if deg else result


@implements_complex(np.where)
def _where(tape: Tape, condition: Any, x: Any = None, y: Any = None) -> Any:
    """Return x where the condition holds, else y."""
    if x is None or y is None:
        raise refuse(unsupported(np.where))
    if holds_complex(condition):
        condition = as_array(tape, condition) != 0
    first, second = parts_of(tape, x), parts_of(tape, y)
    return make_complex(tape, *(np.where(condition, a, b) for a, b in zip(first, second, strict=True)))


def _rounded(tape: Tape, a: Any, decimals: int = 0, out: Any = None) -> Any:
    return make_complex(tape, *(np.round(part, decimals) for part in parts_of(tape, a)))


def _normed(tape: Tape, x: Any, *arguments: Any, **keywords: Any) -> Any:
    """Return the norm of the absolute values, which is correct for all norms except spectral ones."""
    return np.linalg.norm(np.absolute(as_array(tape, x)), *arguments, **keywords)


#: Functions as formulas of the parts or of other functions, which take the tape and NumPy's arguments.
FORMULAS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    np.real: lambda tape, val: as_array(tape, val).real if np.ndim(val) else parts_of(tape, val).re,
    np.imag: lambda tape, val: as_array(tape, val).imag if np.ndim(val) else parts_of(tape, val).im,
    np.iscomplex: lambda tape, x: parts_of(tape, x).im != 0,
    np.isreal: lambda tape, x: parts_of(tape, x).im == 0,
    np.iscomplexobj: lambda tape, x: True,
    np.isrealobj: lambda tape, x: False,
    np.shape: lambda tape, a: np.shape(parts_of(tape, a).re),
    np.ndim: lambda tape, a: np.ndim(parts_of(tape, a).re),
    np.size: lambda tape, a, *axis: np.size(parts_of(tape, a).re, *axis),
    np.std: lambda tape, *arguments, **keywords: np.sqrt(_var(tape, *arguments, **keywords)),
    np.nan_to_num: lambda tape, x, copy=True, nan=0.0, posinf=None, neginf=None: make_complex(
        tape, *(np.nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf) for part in parts_of(tape, x))
    ),
    np.round: _rounded,
    np.around: _rounded,
    np.linalg.multi_dot: lambda tape, arrays, out=None: reduce(np.matmul, arrays),  # from left to right
    **dict.fromkeys((np.linalg.norm, np.linalg.vector_norm, np.linalg.matrix_norm), _normed),
}
for _function, _formula in FORMULAS.items():
    implements_complex(_function)(_formula)


# Functions that make arrays or write into them -----------------------------------------------------------------------


def _enter_writing(function: Callable[..., Any], source: int) -> None:
    """Register a function that writes its argument number `source` into its first argument."""

    @implements_complex(function)
    def record(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
        arguments, keywords = positional(function, arguments, keywords)
        target, value = arguments[0], parts_of(tape, arguments[source])
        if not isinstance(target, ComplexArray):
            raise refuse(FILLING)
        for part, source_part in zip((target.re, target.im), value, strict=True):
            function(part, *arguments[1:source], source_part, *arguments[source + 1 :], **keywords)


for _writing, _source in ((np.copyto, 1), (np.put, 2), (np.fill_diagonal, 1), (np.place, 2), (np.putmask, 2)):
    _enter_writing(_writing, _source)


# Methods of universal functions ---------------------------------------------------------------------------------------


def _refused(function: Any) -> Exception:
    return refuse(
        f"{function_name(function)} of complex numbers that depend on the function's arguments is not recorded. Write "
        "it with operators, or with z.real and z.imag."
    )


def _fold(tape: Tape, ufunc: np.ufunc, inputs: Sequence[Any], keywords: Any, running: bool) -> Any:
    names: dict[Any, Any] = {np.add: (np.sum, np.cumsum), np.multiply: (np.prod, np.cumprod)}
    if ufunc not in names:
        raise _refused(ufunc)
    array, *rest = inputs
    options = {"axis": 0, **keywords}
    if rest:
        options["axis"] = rest[0]
    return COMPLEX_FUNCTIONS[names[ufunc][running]](tape, array, **options)


def _at(tape: Tape, ufunc: np.ufunc, inputs: Sequence[Any], keywords: Any) -> None:
    target, index, value = inputs
    if ufunc not in (np.add, np.subtract) or not isinstance(target, ComplexArray):
        raise _refused(ufunc)
    for part, operand in zip((target.re, target.im), parts_of(tape, value), strict=True):
        ufunc.at(part, index, operand)


PROTOCOLS["complex reduce"] = lambda tape, ufunc, inputs, keywords: _fold(tape, ufunc, inputs, keywords, False)
PROTOCOLS["complex accumulate"] = lambda tape, ufunc, inputs, keywords: _fold(tape, ufunc, inputs, keywords, True)
PROTOCOLS["complex at"] = _at


# Linear algebra -------------------------------------------------------------------------------------------------------

#: Maximum number of rows of complex matrices whose determinants are recorded. Each further row multiplies the cofactors
#: by their number, each one fewer refuses matrices.
MOST_ROWS: Final = 4


def doubled(a: Any) -> Any:
    """Return the real matrix that acts like `a` on vectors of real parts followed by imaginary parts."""
    return np.block([[a.real, -a.imag], [a.imag, a.real]])


@implements_complex(np.linalg.solve)
def _solve(tape: Tape, a: Any, b: Any) -> Any:
    """Return the solution x of a·x = b."""
    matrix, side = as_array(tape, a) + 0j, as_array(tape, b) + 0j
    if matrix.shape[-1] == 1:
        return side / (matrix[..., 0] if side.ndim == 1 else matrix)
    vector = side.ndim == 1
    columns = side[:, None] if vector else side
    both = np.linalg.solve(doubled(matrix), np.concatenate([columns.real, columns.imag], axis=-2))
    n = matrix.shape[-1]
    solution = make_complex(tape, both[..., :n, :], both[..., n:, :])
    return solution[..., 0] if vector else solution


@implements_complex(np.linalg.inv)
def _inv(tape: Tape, a: Any) -> Any:
    """Return the inverse."""
    a = as_array(tape, a)
    return _solve(tape, a, np.broadcast_to(np.eye(a.shape[-1]), a.shape))


@implements_complex(np.linalg.det)
def _det(tape: Tape, a: Any) -> Any:
    """Return the determinant of up to four rows, by cofactors."""
    a = as_array(tape, a)
    n = a.shape[-1]
    if n > MOST_ROWS:
        raise refuse(
            f"np.linalg.det of a complex matrix is recorded for up to {MOST_ROWS} rows, since its pivots are chosen "
            f"by absolute value; this matrix has {n}. np.linalg.solve and inv are recorded for any number of rows."
        )
    return _by_cofactors(a, list(range(n)))


def _by_cofactors(a: Any, columns: list[int]) -> Any:
    row = a.shape[-1] - len(columns)
    if len(columns) == 1:
        return a[..., row, columns[0]]
    terms = []
    for k, column in enumerate(columns):
        product = a[..., row, column] * _by_cofactors(a, columns[:k] + columns[k + 1 :])
        terms.append(-product if k % 2 else product)
    return sum(terms[1:], terms[0])


# Eigenvalues and roots, which NumPy computes when the program runs (`accumulus.programs.matrix_functions`) ------------


def _programs() -> Any:
    """Return the module of a higher layer, which compiles derivatives."""
    return import_module("accumulus.programs.matrix_functions")


def _hermitian(tape: Tape, a: Any, triangle: str, name: str) -> tuple[Any, Any, int, tuple[int, ...]]:
    """Return real and imaginary parts of stacked matrices from one triangle, their rows, and the stack's shape."""
    if triangle.upper() not in ("L", "U"):
        raise ValueError(f"{name}: UPLO is 'L' or 'U', not {triangle!r}")
    a = as_array(tape, a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError(f"{name}: the last two axes must be of equal length; the shape is {a.shape}")
    *stack, n, _ = a.shape
    half = np.tril if triangle.upper() == "L" else np.triu
    strict = -1 if triangle.upper() == "L" else 1
    re, im = (part.reshape((-1, n, n)) for part in (a.real, a.imag))
    beside = half(im, strict)
    return half(re) + half(re, strict).mT, beside - beside.mT, n, tuple(stack)


@implements_complex(np.linalg.eigvalsh)
def _eigvalsh(tape: Tape, a: Any, UPLO: str = "L") -> Any:
    """Return ascending eigenvalues of Hermitian matrices; one triangle is read."""
    re, im, n, stack = _hermitian(tape, a, UPLO, "np.linalg.eigvalsh")
    if n == 1:
        return re.reshape((*stack, n))
    if n == 2:  # in closed form, for programs that cannot call back
        middle, apart = 0.5 * (re[:, 0, 0] + re[:, 1, 1]), 0.5 * (re[:, 0, 0] - re[:, 1, 1])
        square = apart * apart + re[:, 1, 0] * re[:, 1, 0] + im[:, 1, 0] * im[:, 1, 0]
        radius = np.where(square == 0.0, 0.0, np.sqrt(np.where(square == 0.0, 1.0, square)))
        return np.stack([middle - radius, middle + radius], axis=-1).reshape((*stack, n))
    function = _programs().hermitian_eigenvalues(n, UPLO.upper(), False)
    return np.stack([function.recorded(np.stack(pair)) for pair in zip(re, im, strict=True)]).reshape((*stack, n))


@implements_complex(np.linalg.eigh)
def _eigh(tape: Tape, a: Any, UPLO: str = "L") -> Any:
    """Return eigenvalues of Hermitian matrices, and vectors with LAPACK's phases; one triangle is read."""
    re, im, n, stack = _hermitian(tape, a, UPLO, "np.linalg.eigh")
    function = _programs().hermitian_eigenvalues(n, UPLO.upper(), True)
    results = np.stack([function.recorded(np.stack(pair)) for pair in zip(re, im, strict=True)])
    vectors = make_complex(tape, *(results[:, n + n * n * k :][:, : n * n] for k in (0, 1)))
    return result_type("eigh")(results[:, :n].reshape((*stack, n)), vectors.reshape((*stack, n, n)))


def _roots(tape: Tape, p: Any, ascends: bool = False) -> Any:
    """Return the roots of a polynomial, as complex numbers, in NumPy's order.

    Raises:
        TraceError: if the last coefficients are constant zeros, which NumPy would strip.
    """
    coefficients = as_array(tape, p)
    if coefficients.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    coefficients = coefficients[::-1] if ascends else coefficients
    parts = list(parts_of(tape, coefficients)) if holds_complex(coefficients) else [coefficients]
    constant = [all(not depends(part[k]) and concrete(part[k]) == 0.0 for part in parts) for k in range(len(parts[0]))]
    leading = constant.index(False) if False in constant else len(constant)
    degree = len(constant) - leading - 1
    if degree < 1:
        return as_constant(tape, np.zeros(0))
    if constant[-1]:
        raise refuse("The last coefficient of a polynomial is the constant 0: leave it out, and add its root 0.")
    roots = _programs().polynomial_roots(degree, len(parts) > 1, ascends)
    results = roots.recorded(np.concatenate([part[leading:] for part in parts]))
    return make_complex(tape, results[:degree], results[degree:])


implements(np.roots)(_roots)
implements_complex(np.roots)(_roots)


import_module("numpy.polynomial")  # NumPy would load it at its first use, after names have been replaced


@borrows("numpy.polynomial.polynomial", "polyroots")
def _polyroots(tape: Tape, c: Any) -> Any:
    """Return the roots of a polynomial with ascending coefficients, as complex numbers."""
    return _roots(tape, c, ascends=True)


# Functions of cmath ---------------------------------------------------------------------------------------------------

#: Functions of one number → NumPy's functions.
CMATH: Final[dict[str, Callable[..., Any]]] = {
    **{name: getattr(np, name) for name in ("exp", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: getattr(np, name) for name in ("isnan", "isinf", "isfinite")},
}
#: Other functions, which take the tape and their own arguments.
_OTHERS: Final[dict[str, Callable[..., Any]]] = {
    "log": lambda tape, z, base=None: np.log(z + 0j) if base is None else np.log(z + 0j) / np.log(base + 0j),
    "phase": lambda tape, z: np.angle(z),
    "polar": lambda tape, z: (np.absolute(z), np.angle(z)),
    "rect": lambda tape, r, phi: make_complex(tape, r * np.cos(phi), r * np.sin(phi)),
    "isclose": lambda tape, a, b, *, rel_tol=1e-09, abs_tol=0.0: (
        abs(a - b) <= np.maximum(rel_tol * np.maximum(abs(a), abs(b)), abs_tol)
    ),
}


def _enter_cmath(name: str, function: Callable[..., Any]) -> None:
    @borrows("cmath", name)
    def record(tape: Tape, z: Any) -> Any:
        return function(z + 0j)


for _name, _function in CMATH.items():
    _enter_cmath(_name, _function)
for _name, _formula in _OTHERS.items():
    borrows("cmath", _name)(_formula)
