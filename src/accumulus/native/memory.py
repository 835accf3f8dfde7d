"""How the search kernels reach memory, in Numba: integers, floats and bits at addresses, and random numbers.

Numba would count references to arrays on every call, which costs more than the work itself. So kernels take
addresses, of memory that their callers own, and read and write it directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.extending import intrinsic

__all__ = [
    "bits_of",
    "compiled",
    "copy",
    "float_of",
    "get",
    "get_float",
    "lowest",
    "population",
    "put",
    "put_float",
    "random_bits",
    "shifted_right",
    "whole",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_I64, _F64 = ir.IntType(64), ir.DoubleType()
_int, _float = numba.types.int64, numba.types.float64

#: Cast to a machine integer. Constants among the arguments of a helper need it, or each compiles a version of its own.
whole = cast("Callable[[float], int]", numba.types.int64)


def compiled(function: _F) -> _F:
    """Decorator of functions that are compiled into the kernel that calls them."""
    helper: Any = numba.njit(error_model="numpy")(function)
    return cast("_F", helper)


def _integer(make: Callable[..., Any]) -> Callable[..., int]:
    function: Any = intrinsic(make)
    return cast("Callable[..., int]", function)


def _real(make: Callable[..., Any]) -> Callable[..., float]:
    function: Any = intrinsic(make)
    return cast("Callable[..., float]", function)


def _at(builder: Any, arguments: Any, kind: Any) -> Any:
    return builder.gep(builder.inttoptr(arguments[0], kind.as_pointer()), [arguments[1]], inbounds=True)


@_integer
def get(context: Any, array: Any, position: Any) -> Any:
    """Integer at a position of the array at an address."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load(_at(builder, arguments, _I64))

    return _int(_int, _int), code


@_integer
def put(context: Any, array: Any, position: Any, value: Any) -> Any:
    """Write an integer to a position of the array at an address."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _at(builder, arguments, _I64))
        return _context.get_dummy_value()

    return numba.types.void(_int, _int, _int), code


@_real
def get_float(context: Any, array: Any, position: Any) -> Any:
    """Float at a position of the array at an address."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load(_at(builder, arguments, _F64))

    return _float(_int, _int), code


@_integer
def put_float(context: Any, array: Any, position: Any, value: Any) -> Any:
    """Write a float to a position of the array at an address."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _at(builder, arguments, _F64))
        return _context.get_dummy_value()

    return numba.types.void(_int, _int, _float), code


@_integer
def bits_of(context: Any, value: Any) -> Any:
    """The bits of a float, as an integer."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _I64)

    return _int(_float), code


@_real
def float_of(context: Any, bits: Any) -> Any:
    """The float that an integer's bits are."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _F64)

    return _float(_int), code


@_integer
def population(context: Any, bits: Any) -> Any:
    """Number of ones."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return _int(_int), code


@_integer
def lowest(context: Any, bits: Any) -> Any:
    """Position of the lowest one; there must be one."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return _int(_int), code


@_integer
def shifted_right(context: Any, bits: Any, places: Any) -> Any:
    """Logical shift."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.lshr(arguments[0], arguments[1])

    return _int(_int, _int), code


@compiled
def random_bits(state: int) -> int:
    """Next number of the generator xorshift64* (Vigna 2016), whose state is at an address."""
    x = get(state, 0)
    x ^= shifted_right(x, 12)
    x ^= x << 25
    x ^= shifted_right(x, 27)
    put(state, 0, x)
    return x * 0x2545F4914F6CDD1D


@compiled
def copy(to: int, source: int, count: int) -> None:
    """Copy integers."""
    for k in range(count):
        put(to, k, get(source, k))
