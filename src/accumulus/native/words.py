"""Operations on 64-bit words that Python has no operator for, and the log of writes, as Python.

The compiler has its own code for the primitives (`accumulus.native.lowering`).
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeVar, cast

from accumulus.native.decorators import compiled, primitive
from accumulus.native.state import Integers, Undoable

_U = TypeVar("_U", bound=Undoable)
_MASK: Final = (1 << 64) - 1
#: Odd multiplier that spreads definitions over a table.
_SPREAD: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_INTEGER, _FLOAT = struct.Struct("q"), struct.Struct("d")


def signed(bits: int) -> int:
    """Return the lowest 64 bits as a signed integer."""
    return ((bits + (1 << 63)) & _MASK) - (1 << 63)


@primitive
def bits_of(value: float) -> int:
    """Return the bits of a float, as an integer."""
    return int(_INTEGER.unpack(_FLOAT.pack(value))[0])


@primitive
def float_of(bits: int) -> float:
    """Return the float with these bits."""
    return float(_FLOAT.unpack(_INTEGER.pack(bits))[0])


@primitive
def population(bits: int) -> int:
    """Return the number of one bits."""
    return (bits & _MASK).bit_count()


@primitive
def lowest(bits: int) -> int:
    """Return the position of the lowest one bit; `bits` must not be 0."""
    return (bits & -bits).bit_length() - 1


@primitive
def shifted_right(bits: int, places: int) -> int:
    """Shift right, filling with zeros."""
    return signed((bits & _MASK) >> places)


@primitive
def wrapped(value: int) -> int:
    """Return the lowest 64 bits of a sum or product as a signed integer; machine integers wrap by themselves."""
    return signed(value)


@compiled
def bit(index: int) -> int:
    """Return a word with one bit set; ``1 << 63`` has the wrong sign in Python."""
    return wrapped(1 << index)


@compiled
def without_lowest(bits: int) -> int:
    """Return the bits without the lowest one."""
    return wrapped(bits & (bits - 1))


@compiled
def scattered(x: int) -> int:
    """Return a bijection of words that scatters bits (the finaliser of splitmix64, with other constants)."""
    x = wrapped((x ^ shifted_right(x, 30)) * 0x3F58476D1CE4E5B9)
    x = wrapped((x ^ shifted_right(x, 27)) * 0x14D049BB133111EB)
    return x ^ shifted_right(x, 31)


@compiled
def random_bits(state: Integers) -> int:
    """Return the next number of the generator xorshift64* (Vigna 2016), whose state is one word."""
    x = state[0]
    x ^= shifted_right(x, 12)
    x = wrapped(x ^ (x << 25))
    x ^= shifted_right(x, 27)
    state[0] = x
    return wrapped(x * 0x2545F4914F6CDD1D)


@compiled
def definition_hash(code: int, a: int, b: int, c: int, bits: int) -> int:
    """Return the first slot of an operation on three arguments in a table of 2 ** bits entries."""
    x = (a * _SPREAD) ^ (b * 0x2545F4914F6CDD1D) ^ (c * 0x632BE59BD9B4E019) ^ (code << 56)
    x ^= shifted_right(x, 29)
    return shifted_right(x * 0x2545F4914F6CDD1D, 64 - bits)


@compiled
def copy(to: Integers, source: Integers, count: int) -> None:
    """Copy a few integers."""
    for k in range(count):
        to[k] = source[k]


@primitive
def copy_many(to: Integers, source: Integers, count: int) -> None:
    """Copy integers without overlap by the C library's `memcpy`: faster than `copy` from some dozens on."""
    to[:count] = source[:count]


def _note(state: Any, target: Any, index: Any, before: Any) -> None:
    """Log a write; entries beyond the length of the log are dropped."""
    del state.undoing[state.logged :]
    state.undoing.append((target, index, before))
    state.logged += 1


class _Logged:
    """A view of a state that logs all writes."""

    def __init__(self, state: Any) -> None:
        object.__setattr__(self, "state", state)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.state, name)
        return value if isinstance(value, int | float) else _LoggedArray(self.state, value)

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.state
        _note(state, state.__dict__, name, getattr(state, name))
        setattr(state, name, value)


class _LoggedArray:
    def __init__(self, state: Any, array: Any) -> None:
        self.state, self.array = state, array

    def __getitem__(self, index: Any) -> Any:
        return self.array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        _note(self.state, self.array, index, self.array[index])
        self.array[index] = value


@primitive
def logged(state: _U) -> _U:
    """Return a view of the state that logs all writes: ``logged(state).uses[n] = 0``."""
    return cast("_U", _Logged(state))


@primitive
def undo(state: Undoable, length: int) -> None:
    """Undo all writes that were logged since the log had this length."""
    undoing = cast("Any", state).undoing
    del undoing[state.logged :]
    while len(undoing) > length:
        target, index, before = undoing.pop()
        target[index] = before
    state.logged = length
