"""Formulas on vectors, as Python writes them: operators that write the instructions of `mathematics.Writer`."""

from __future__ import annotations

from dataclasses import dataclass

from accumulus.targets.llvm.mathematics import Writer
from accumulus.targets.llvm.special_coefficients import Fit

__all__ = ["Mask", "Term", "fused", "polynomial", "where"]


@dataclass(frozen=True, eq=False, slots=True)
class Mask:
    """A truth value in each lane."""

    writer: Writer
    name: str

    def __or__(self, other: Mask) -> Mask:
        return Mask(self.writer, self.writer.either(self.name, other.name))


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """A number in each lane. Every operation is rounded by itself; `fused` is the exception."""

    writer: Writer
    name: str

    def __add__(self, other: Term | float) -> Term:
        return self._binary("fadd", self, other)

    def __radd__(self, other: float) -> Term:
        return self._binary("fadd", other, self)

    def __sub__(self, other: Term | float) -> Term:
        return self._binary("fsub", self, other)

    def __rsub__(self, other: float) -> Term:
        return self._binary("fsub", other, self)

    def __mul__(self, other: Term | float) -> Term:
        return self._binary("fmul", self, other)

    def __rmul__(self, other: float) -> Term:
        return self._binary("fmul", other, self)

    def __truediv__(self, other: Term | float) -> Term:
        return self._binary("fdiv", self, other)

    def __rtruediv__(self, other: float) -> Term:
        return self._binary("fdiv", other, self)

    def __neg__(self) -> Term:
        return Term(self.writer, self.writer.minus(self.name))

    def __abs__(self) -> Term:
        return self._intrinsic("fabs")

    def __lt__(self, other: Term | float) -> Mask:
        return self._comparison("olt", other)

    def __le__(self, other: Term | float) -> Mask:
        return self._comparison("ole", other)

    def __gt__(self, other: Term | float) -> Mask:
        return self._comparison("ogt", other)

    def __ge__(self, other: Term | float) -> Mask:
        return self._comparison("oge", other)

    def equals(self, other: Term | float) -> Mask:
        """Where both are the same number."""
        return self._comparison("oeq", other)

    def sqrt(self) -> Term:
        """The square root."""
        return self._intrinsic("sqrt")

    def floor(self) -> Term:
        """The greatest whole number that is not greater."""
        return self._intrinsic("floor")

    def rounded(self) -> Term:
        """The nearest whole number, of two the even one."""
        return self._intrinsic("rint")

    def exp(self) -> Term:
        """The exponential function, of `mathematics`."""
        return self._function("exp")

    def log(self) -> Term:
        """The natural logarithm, of `mathematics`."""
        return self._function("log")

    def power(self, exponent: Term) -> Term:
        """The power, of `mathematics`."""
        return self._function("pow", exponent)

    def _binary(self, instruction: str, a: Term | float, b: Term | float) -> Term:
        return Term(self.writer, self.writer.binary(instruction, _operand(a), _operand(b)))

    def _comparison(self, predicate: str, other: Term | float) -> Mask:
        return Mask(self.writer, self.writer.comparison(predicate, self.name, _operand(other)))

    def _intrinsic(self, name: str) -> Term:
        return Term(self.writer, self.writer.call(name, self.name))

    def _function(self, name: str, *others: Term) -> Term:
        return Term(self.writer, self.writer.function(name, self.name, *(term.name for term in others)))


def _operand(value: Term | float) -> str | float:
    return value.name if isinstance(value, Term) else value


def where(mask: Mask, a: Term | float, b: Term | float) -> Term:
    """a where the mask holds, else b."""
    return Term(mask.writer, mask.writer.select(mask.name, _operand(a), _operand(b)))


def fused(a: Term, b: Term, c: Term) -> Term:
    """a · b + c, rounded once."""
    return Term(a.writer, a.writer.fused(a.name, b.name, c.name))


def polynomial(fit: Fit, x: Term) -> Term:
    """The value of a fit at x."""
    low, high, coefficients = fit
    w, scale = x.writer, 2.0 / (high - low)
    t = x.name if (low, high) == (-1.0, 1.0) else w.fused(x.name, scale, -0.5 * (low + high) * scale)
    return Term(w, w.polynomial(t, coefficients))
