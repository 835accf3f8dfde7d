"""Formulas as statements of C: what `accumulus.targets.llvm` writes as instructions on vectors, for one number."""

from __future__ import annotations

import re
from collections.abc import Sequence

from accumulus.targets.c.c_expressions import literal
from accumulus.targets.llvm.mathematics import Writer

__all__ = ["CWriter"]


class CWriter(Writer):
    """Statements of one function of doubles; each method returns a name, or a number."""

    arguments = ("x", "y")

    def __init__(self, multiply_add: str) -> None:
        super().__init__(1, "")
        self._multiply_add = multiply_add

    def real(self, value: float) -> str:
        """A number."""
        return literal(value, "float64")

    def let(self, text: str) -> str:
        """Write one statement."""
        return self._named("double", text)

    def _named(self, kind: str, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {kind} {name} = {text};")
        return name

    def binary(self, operation: str, a: str | float, b: str | float) -> str:
        """An operation with two operands."""
        sign = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}[operation]
        return self.let(f"{self.operand(a)} {sign} {self.operand(b)}")

    def comparison(self, predicate: str, a: str | float, b: str | float) -> str:
        """A truth value."""
        sign = {"olt": "<", "ole": "<=", "ogt": ">", "oge": ">=", "oeq": "=="}[predicate]
        return self._named("int", f"{self.operand(a)} {sign} {self.operand(b)}")

    def either(self, a: str, b: str) -> str:
        """Where one or the other holds."""
        return self._named("int", f"{a} | {b}")

    def minus(self, a: str) -> str:
        """-a."""
        return self.let(f"-{a}")

    def call(self, intrinsic: str, *arguments: str | float) -> str:
        """A function that the C library has."""
        return self.let(f"{intrinsic}({', '.join(map(self.operand, arguments))})")

    def function(self, name: str, *arguments: str) -> str:
        """An elementary function of the C library."""
        return self.let(f"{name}({', '.join(arguments)})")

    def select(self, mask: str, a: str | float, b: str | float) -> str:
        """a where the mask holds, else b."""
        return self.let(f"{mask} ? {self.operand(a)} : {self.operand(b)}")

    def polynomial(self, z: str, coefficients: Sequence[float]) -> str:
        """Value at z; even and odd powers apart, so that two chains run at once."""
        square = self.multiply(z, z)
        even, odd = (self._horner(square, half) for half in (coefficients[::2], coefficients[1::2]))
        return self.let(f"{self._multiply_add}({z}, {odd}, {even})")

    def _horner(self, z: str, coefficients: Sequence[float]) -> str:
        value = self.real(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = self.let(f"{self._multiply_add}({z}, {value}, {self.real(coefficient)})")
        return value

    def needed(self, *results: str) -> list[str]:
        """The statements that the results need: formulas share functions that compute more than one of them needs."""
        needed, found = set(results), []
        for line in reversed(self.lines):
            name, *others = re.findall(r"\bv\d+\b", line)
            if name in needed:
                needed.update(others)
                found.append(line)
        return found[::-1]
