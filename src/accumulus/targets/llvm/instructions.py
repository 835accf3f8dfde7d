"""From operations of a tape to instructions on vectors, one lane a point.

No instruction carries a fast-math flag but ``contract``: a product and the sum that it goes into may be one fused
multiply-add; nothing else is reordered, and NaN and infinity are what IEEE arithmetic gives. Both have to carry it, so
an operation without the flag is rounded by itself, whatever its result goes into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.llvm.callees import Functions
from accumulus.targets.llvm.layouts import Layout
from accumulus.targets.llvm.mathematics import double
from accumulus.targets.llvm.vectors import Vectors

__all__ = ["Instructions"]


class Instructions:
    """Writes the operations of a stretch of a program, in the given order."""

    def __init__(
        self,
        tape: Tape,
        vectors: Vectors,
        layout: Layout,
        functions: Functions,
        slots: Mapping[int, int],
        contract: bool,
        exact: frozenset[int] = frozenset(),
    ) -> None:
        self.tape, self.vectors, self.layout, self.functions, self.slots = tape, vectors, layout, functions, slots
        layout.begin(vectors, self.value)
        self.values: dict[int, str] = {}
        self._contract, self._exact = contract, exact
        self._constants: dict[int, str] = {}
        self._calls: dict[tuple[str, tuple[int, ...]], str] = {}
        self._writers: list[Callable[[int], str]] = [self._writer(code) for code in range(len(OPERATIONS))]

    def constant(self, reference: int) -> str:
        """A constant in all lanes."""
        text = self._constants.get(reference)
        if text is None:
            entry = f"{self.vectors.real} {self._spelled(reference)}"
            text = self._constants[reference] = f"<{', '.join([entry] * self.vectors.lanes)}>"
        return text

    def _spelled(self, reference: int) -> str:
        value = self.tape.constants[-1 - reference]
        if self.vectors.bytes == 4:
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
        return double(value)

    def value(self, reference: int) -> str:
        """Name of the vector with the value of a reference; inputs are loaded when first asked for."""
        if reference < 0:
            return self.constant(reference)
        name = self.values.get(reference)
        if name is None:
            if reference < self.tape.inputs:
                self.values.update(self.layout.load(reference))
                return self.values[reference]
            v = self.vectors
            name = v.load("%frame", self.slots[reference] * v.lanes, v.lanes * v.bytes)
            if self.tape.is_boolean(reference):
                name = v.let(f"fcmp une {v.type} {name}, zeroinitializer")
            self.values[reference] = name
        return name

    def operation(self, reference: int) -> None:
        """Compute one operation, and keep it for later parts of the program if they need it."""
        name = self.values[reference] = self._writers[self.tape.codes[reference]](reference)
        slot = self.slots.get(reference)
        if slot is not None:
            v = self.vectors
            if self.tape.is_boolean(reference):
                name = v.let(f"uitofp {v.mask} {name} to {v.type}")
            v.store(name, "%frame", slot * v.lanes, v.lanes * v.bytes)

    def _writer(self, code: int) -> Callable[[int], str]:
        row = OPERATIONS[code]
        spelling = row.llvm
        if row.arity == 2 and spelling in ("fadd", "fsub", "fmul", "fdiv"):
            return self._arithmetic(spelling)
        if spelling.startswith("fcmp"):
            return self._binary(f"{spelling} {self.vectors.type}")
        if spelling in ("and", "or"):
            return self._binary(f"{spelling} {self.vectors.mask}", truth=True)
        if spelling.startswith("@"):
            return self._call(spelling[1:], row.arity)
        if spelling in ("llvm.minimum", "llvm.maximum"):
            return self._extremum("olt" if spelling == "llvm.minimum" else "ogt")
        if spelling.startswith("llvm."):
            return self._intrinsic(spelling)
        return {
            "": self._nothing,
            "fneg": self._negative,
            "not": self._not,
            "select": self._select,
            "sign": self._sign,
            "attach": lambda reference: self.value(self.tape.first[reference]),
        }[spelling]

    def _nothing(self, reference: int) -> str:
        raise AssertionError(f"reference {reference} is no operation")

    def _truth(self, reference: int) -> str:
        if reference >= 0:
            return self.value(reference)
        held = "true" if self.tape.constants[-1 - reference] else "false"
        return f"<{', '.join([f'i1 {held}'] * self.vectors.lanes)}>"

    def _binary(self, head: str, truth: bool = False) -> Callable[[int], str]:
        first, second, let = self.tape.first, self.tape.second, self.vectors.let
        value = self._truth if truth else self.value
        return lambda reference: let(f"{head} {value(first[reference])}, {value(second[reference])}")

    def _arithmetic(self, instruction: str) -> Callable[[int], str]:
        alone = self._binary(f"{instruction} {self.vectors.type}")
        if not self._contract:
            return alone
        fused, exact = self._binary(f"{instruction} contract {self.vectors.type}"), self._exact
        return (lambda reference: (alone if reference in exact else fused)(reference)) if exact else fused

    def _negative(self, reference: int) -> str:
        return self.vectors.let(f"fneg {self.vectors.type} {self.value(self.tape.first[reference])}")

    def _not(self, reference: int) -> str:
        lanes = ", ".join(["i1 true"] * self.vectors.lanes)
        return self.vectors.let(f"xor {self.vectors.mask} {self._truth(self.tape.first[reference])}, <{lanes}>")

    def _select(self, reference: int) -> str:
        condition, a, b = self.tape.arguments(reference)
        kind = self.vectors.type
        chosen = f"{kind} {self.value(a)}, {kind} {self.value(b)}"
        return self.vectors.let(f"select {self.vectors.mask} {self._truth(condition)}, {chosen}")

    def _sign(self, reference: int) -> str:
        v = self.vectors
        x = self.value(self.tape.first[reference])
        one = {s: f"<{', '.join([f'{v.real} {s}1.0'] * v.lanes)}>" for s in ("", "-")}
        positive = v.let(f"fcmp ogt {v.type} {x}, zeroinitializer")
        negative = v.let(f"fcmp olt {v.type} {x}, zeroinitializer")
        zero = v.let(f"fadd {v.type} {x}, zeroinitializer")  # of positive sign, or NaN
        below = v.let(f"select {v.mask} {negative}, {v.type} {one['-']}, {v.type} {zero}")
        return v.let(f"select {v.mask} {positive}, {v.type} {one['']}, {v.type} {below}")

    def _extremum(self, predicate: str) -> Callable[[int], str]:
        # NaN in either argument is the result, as in NumPy; llvm.maximum also orders zeros, at twice the price
        def write(reference: int) -> str:
            v = self.vectors
            a, b = map(self.value, self.tape.arguments(reference))
            before = v.let(f"fcmp {predicate} {v.type} {a}, {b}")
            chosen = v.let(f"select {v.mask} {before}, {v.type} {a}, {v.type} {b}")
            missing = v.let(f"fcmp uno {v.type} {a}, zeroinitializer")
            return v.let(f"select {v.mask} {missing}, {v.type} {a}, {v.type} {chosen}")

        return write

    def _intrinsic(self, name: str) -> Callable[[int], str]:
        v = self.vectors

        def write(reference: int) -> str:
            function = self.functions.intrinsic(name, 1)
            return v.let(f"call {v.type} {function}({v.type} {self.value(self.tape.first[reference])})")

        return write

    def _call(self, function: str, arity: int) -> Callable[[int], str]:
        v = self.vectors

        def write(reference: int) -> str:
            callee = self.functions.callee(function, arity)
            arguments = self.tape.arguments(reference)
            # sine and cosine come from one call
            key = (callee.name, arguments)
            result = self._calls.get(key)
            if result is None:
                given = ", ".join(f"{v.type} {self.value(argument)}" for argument in arguments)
                result = self._calls[key] = v.let(f"call {callee.kind} @{callee.name}({given})")
            if callee.field is None:
                return result
            return v.let(f"extractvalue {callee.kind} {result}, {callee.field}")

        return write
