"""From operations of a tape to instructions on vectors, one lane a point.

No instruction carries a fast-math flag but ``contract``: a product and the sum that it goes into may be one fused
multiply-add; nothing else is reordered, and NaN and infinity are what IEEE arithmetic gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.llvm.host import host, vector_symbol
from accumulus.targets.llvm.layouts import Layout
from accumulus.targets.llvm.mathematics import VECTOR_FUNCTIONS, VectorFunction, double
from accumulus.targets.llvm.vectors import POISON, Vectors
from accumulus.targets.schedule import Group

__all__ = ["Functions", "Instructions"]



class Functions:
    """The functions outside a program that it calls, and how each is declared.

    Attributes:
        vectors: of `accumulus.targets.llvm.mathematics`, to be defined in the module, and how often each is called.
        imported: names in the C library or in its vector library, each with its declaration.
        definitions: functions of the module that call a scalar function for each lane.
        intrinsics: declarations of LLVM's own.
    """

    def __init__(self, lanes: int, dtype: str) -> None:
        self.lanes, self.dtype = lanes, dtype
        self.vectors: dict[VectorFunction, int] = {}
        self.imported: dict[str, str] = {}
        self.definitions: dict[str, str] = {}
        self.intrinsics: set[str] = set()
        self._real = "double" if dtype == "float64" else "float"

    def own(self, function: str) -> tuple[VectorFunction, int] | None:
        """The vector function written out here for a function of the C library, and which result it is."""
        return VECTOR_FUNCTIONS.get(function) if self.dtype == "float64" and host().fused else None

    def scalar(self, function: str, arity: int) -> str:
        """Name of the C library's scalar function."""
        name = function if self.dtype == "float64" else f"{function}f"
        self.imported[name] = f"declare {self._real} @{name}({', '.join([self._real] * arity)}) nounwind"
        return name

    def each(self, function: str, arity: int) -> str:
        """Name of a function of the module that calls the scalar function for one lane after the other."""
        name = f"accumulus_each_{function}"
        if name not in self.definitions:
            scalar = self.scalar(function, arity)
            v = Vectors(self.lanes, self.dtype)
            result = POISON
            for lane in range(self.lanes):
                entries = [v.let(f"extractelement {v.type} %a{k}, i32 {lane}") for k in range(arity)]
                value = v.let(f"call {v.real} @{scalar}({', '.join(f'{v.real} {entry}' for entry in entries)})")
                result = v.let(f"insertelement {v.type} {result}, {v.real} {value}, i32 {lane}")
            arguments = ", ".join(f"{v.type} %a{k}" for k in range(arity))
            self.definitions[name] = "\n".join(
                [
                    f"define internal {v.type} @{name}({arguments}) nounwind noinline {{",
                    *v.lines,
                    f"ret {v.type} {result}",
                    "}",
                ]
            )
        return name

    def vector(self, function: str, arity: int) -> str | None:
        """Name of the vector library's function, None if it has none."""
        name = vector_symbol(function, arity, self.lanes, self.dtype)
        if name is not None:
            kind = f"<{self.lanes} x {self._real}>"
            self.imported[name] = f"declare {kind} @{name}({', '.join([kind] * arity)}) nounwind memory(none)"
        return name


class Instructions:
    """Writes a stretch of a program: operations and groups of results, in the given order."""

    def __init__(
        self,
        tape: Tape,
        vectors: Vectors,
        layout: Layout,
        functions: Functions,
        slots: Mapping[int, int],
        contract: bool,
    ) -> None:
        self.tape, self.vectors, self.layout, self.functions, self.slots = tape, vectors, layout, functions, slots
        layout.begin(vectors, self.value)
        self.values: dict[int, str] = {}
        self._flags = "contract " if contract else ""
        self._constants: dict[int, str] = {}
        self._angles: dict[int, str] = {}
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

    # One writer a row of the table ---------------------------------------------------------------------------------

    def _writer(self, code: int) -> Callable[[int], str]:
        row = OPERATIONS[code]
        spelling = row.llvm
        if row.arity == 2 and spelling in ("fadd", "fsub", "fmul", "fdiv"):
            return self._binary(f"{spelling} {self._flags}{self.vectors.type}")
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
        below = v.let(f"select {v.mask} {negative}, {v.type} {one['-']}, {v.type} {x}")  # zero, or NaN
        return v.let(f"select {v.mask} {positive}, {v.type} {one['']}, {v.type} {below}")

    def _extremum(self, predicate: str) -> Callable[[int], str]:
        # NaN in either argument is the result, as in NumPy; llvm.maximum also orders zeros, at twice the price
        def write(reference: int) -> str:
            v = self.vectors
            a, b = map(self.value, self.tape.arguments(reference))
            before = v.let(f"fcmp {predicate} {v.type} {b}, {a}")
            chosen = v.let(f"select {v.mask} {before}, {v.type} {b}, {v.type} {a}")
            missing = v.let(f"fcmp uno {v.type} {b}, zeroinitializer")
            return v.let(f"select {v.mask} {missing}, {v.type} {b}, {v.type} {chosen}")

        return write

    def _intrinsic(self, name: str) -> Callable[[int], str]:
        v = self.vectors
        full = f"@{name}.v{v.lanes}f{8 * v.bytes}"

        def write(reference: int) -> str:
            self.functions.intrinsics.add(f"declare {v.type} {full}({v.type})")
            return v.let(f"call {v.type} {full}({v.type} {self.value(self.tape.first[reference])})")

        return write

    # Functions ------------------------------------------------------------------------------------------------------

    def _call(self, function: str, arity: int) -> Callable[[int], str]:
        own = self.functions.own(function)
        if own is not None:
            return self._own(*own)

        def write(reference: int) -> str:
            v = self.vectors
            arguments = [self.value(argument) for argument in self.tape.arguments(reference)]
            name = self.functions.vector(function, arity) or self.functions.each(function, arity)
            return v.let(f"call {v.type} @{name}({', '.join(f'{v.type} {a}' for a in arguments)})")

        return write

    def _own(self, function: VectorFunction, index: int) -> Callable[[int], str]:
        v = self.vectors
        kind = function.result_type(v.lanes)
        several = len(function.scalars) > 1

        def write(reference: int) -> str:
            arguments = self.tape.arguments(reference)
            both = self._angles.get(arguments[0]) if several else None
            if both is None:
                for scalar in function.scalars:
                    self.functions.scalar(scalar, function.arity)
                self.functions.vectors[function] = self.functions.vectors.get(function, 0) + 1
                given = ", ".join(f"{v.type} {self.value(argument)}" for argument in arguments)
                both = v.let(f"call {kind} @{function.name}({given})")
                if not several:
                    return both
                self._angles[arguments[0]] = both
            return v.let(f"extractvalue {kind} {both}, {index}")

        return write
