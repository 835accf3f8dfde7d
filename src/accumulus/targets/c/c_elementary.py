"""Elementary functions of the C of tiles: the algorithms of `accumulus.targets.llvm.mathematics`, written as C.

Loops over points with these become vector instructions whatever the C library has, and take half the time of glibc's
vectors; sine and cosine of one angle share what is the same in both. Points that an algorithm is not for are noted in
a mask, ``unfit``: the tile is computed anew then, point by point, by the C library's functions. A program has them
under ``FP_FAST_FMA``: they need products that are fused with sums.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection
from typing import Final

from accumulus.targets.c.c_writer import CWriter
from accumulus.targets.llvm.vector_functions import VECTOR_FUNCTIONS

__all__ = ["ELEMENTARY", "definitions"]

#: Functions of the C library, by their number of arguments; remainders are quicker as the library has them.
ELEMENTARY: Final = {name: function.arity for name, (function, _) in VECTOR_FUNCTIONS.items() if name != "fmod"}

_BITS: Final = """\
INLINE uint64_t NAME_bits(double x) {
    union { double number; uint64_t bits; } both;
    both.number = x;
    return both.bits;
}

INLINE double NAME_number(uint64_t bits) {
    union { double number; uint64_t bits; } both;
    both.bits = bits;
    return both.number;
}
"""


#: A power of a negative number, from that of its magnitude: the exponent is an odd or an even whole number, or none.
_OF_NEGATIVE: Final = "negative ? (trunc(y) != y ? NAN : trunc(0.5 * y) != 0.5 * y ? -{0} : {0}) : {0}"


class _ElementaryWriter(CWriter):
    """Statements that take numbers apart, too."""

    zero = "0.0"

    def __init__(self, name: str) -> None:
        super().__init__("fma")
        self._name = name

    def comparison(self, predicate: str, a: str | float, b: str | float) -> str:
        """A truth value; of numbers that are not ordered, that of predicates with u."""
        opposite = {"ugt": "<=", "uge": "<", "ult": ">="}.get(predicate)
        if opposite is None:
            return super().comparison(predicate, a, b)
        return self._named("int", f"!({self.operand(a)} {opposite} {self.operand(b)})")

    # Masks of points that an algorithm is not for, as whole numbers, 0 or 1: of bits, since magnitudes are ordered as
    # their bits are, NaN above all; compilers do not vectorise loops that combine many truth values

    def beyond(self, x: str, limit: float) -> str:
        """Whether |x| > limit."""
        return self._above(self.bits(self.call("fabs", x)), self.whole(_bits(limit)))

    def below(self, x: str, limit: float) -> str:
        """Whether x < limit, of numbers that are not negative."""
        return self._above(self.whole(_bits(limit)), self.bits(x))

    def not_normal_and_positive(self, x: str) -> str:
        """Whether it is negative, zero, denormal or infinite."""
        above = self.integer("sub", self.bits(x), _bits(2.0**-1022))
        room = self.integer("sub", self.whole(_bits(math.inf) - _bits(2.0**-1022) - 1), above)
        return self.integer("lshr", self.integer("or", above, room), 63)

    def unordered(self, a: str, b: str) -> str:
        """Whether one of both is NaN."""
        return self.either(self.beyond(a, math.inf), self.beyond(b, math.inf))

    def either(self, a: str, b: str) -> str:
        """Where one or the other holds."""
        return self.integer("or", a, b)

    def _above(self, a: str, b: str) -> str:
        """Whether a > b, of whole numbers below 2⁶³."""
        return self.integer("lshr", self.integer("sub", b, a), 63)

    def fused(self, a: str, b: str | float, c: str | float) -> str:
        """a · b + c."""
        return self.call("fma", a, b, c)

    def whole(self, value: int) -> str:
        """A whole number."""
        return f"UINT64_C({value % 2**64})"

    def bits(self, a: str) -> str:
        """The bits of a number."""
        return self._named("uint64_t", f"{self._name}_bits({a})")

    def number(self, bits: str) -> str:
        """The number that has these bits."""
        return self.let(f"{self._name}_number({bits})")

    def integer(self, operation: str, a: str, b: str | int) -> str:
        """An operation on whole numbers."""
        signs = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "shl": "<<", "lshr": ">>"}
        other = b if isinstance(b, str) else str(b) if operation in ("shl", "lshr") else self.whole(b)
        return self._named("uint64_t", f"{a} {signs[operation]} {other}")

    def negative(self, bits: str) -> str:
        """A truth value: whether the first bit is set."""
        return self._named("int", f"({bits} >> 63) != 0")


def _bits(value: float) -> int:
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return int(bits)


def definitions(name: str, inline: str, functions: Collection[str]) -> list[str]:
    """C of the functions of a program, which are called by the names of the C library behind the program's.

    They are for one point out of several, S of them, of a loop that has a variable ``unfit``.
    """
    texts = [_BITS.replace("INLINE", inline).replace("NAME", name)]
    for each in functions:
        function, which = VECTOR_FUNCTIONS[each]
        w = _ElementaryWriter(name)
        results, unfit = function.write(w)
        result = results[which]
        given = w.arguments[: function.arity]
        lines = [f"if (S == 1) return {each}({', '.join(given)});"]
        if each == "pow":  # the algorithm is of positive numbers
            lines += ["const int negative = x < 0.0;", "x = fabs(x);"]
        lines += w.needed(*([result] if unfit is None else [result, unfit]))
        lines += ["(void)unfit;"] if unfit is None else [f"*unfit |= {unfit};"]
        parameters = ", ".join([*(f"double {x}" for x in given), "ptrdiff_t S", "uint64_t *unfit"])
        texts.append(
            "\n".join(
                [
                    f"{inline} double {name}_own_{each}({parameters}) {{",
                    *(f"    {line}" for line in lines),
                    f"    return {_OF_NEGATIVE.format(result) if each == 'pow' else result};",
                    "}\n",
                ]
            )
        )
        texts.append(f"#define {name}_{each}({', '.join(given)}) {name}_own_{each}({', '.join(given)}, S, &unfit)\n")
    return texts
