"""Conversion of a tape's operations to instructions on vectors, with one lane per point.

No instruction has a fast-math flag except ``contract``: a product and the sum that uses it may be one fused
multiply-add. Nothing else is reordered, and NaN and infinity follow IEEE arithmetic. Both instructions need the flag,
so an operation without it is always rounded separately.

An elementary function on a vector is computed by this package's code, by glibc's, or by the C library, lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.llvm.host import host, vector_symbol
from accumulus.targets.llvm.mathematics import VECTOR_FUNCTIONS, VectorFunction, definition, double, patch
from accumulus.targets.llvm.scipy_functions import PREFIX, function_of
from accumulus.targets.llvm.special_functions import OF_ORDER, SPECIAL_FUNCTIONS
from accumulus.targets.llvm.vectors import POISON, Vectors
from accumulus.targets.schedule import Fused

# Functions that are called --------------------------------------------------------------------------------------------


_COPYING: Final = (
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
)


@dataclass(frozen=True, slots=True)
class Callee:
    """A vector function: its name in the module, its return type, and the field of the result that holds the value."""

    name: str
    kind: str
    field: int | None = None


class Functions:
    """The functions that a module calls, for vectors of one type.

    Args:
        lanes: entries of a vector.
        dtype: "float64" or "float32".
        single: True for code for one point. Functions of this package are then defined in another library, see
            `llvm_kernel`; those of a vector library get the point in all lanes, so that it has the bits of a batch.

    Attributes:
        imported: declarations of functions of the C library or its vector library, by name.
    """

    def __init__(self, lanes: int, dtype: str, *, single: bool = False) -> None:
        self.lanes, self.dtype = lanes, dtype
        self._single = single and lanes == 1
        self.imported: dict[str, str] = {}
        self._vectors = Vectors(lanes, dtype)
        self._defined: dict[VectorFunction, None] = {}
        self._each: dict[str, str] = {}
        self._intrinsics: dict[str, None] = {}
        self._wide: Functions | None = None

    def intrinsic(self, name: str, arity: int) -> str:
        """Return the name of an LLVM intrinsic for vectors."""
        v = self._vectors
        full = f"@{name}.v{v.lanes}f{8 * v.bytes}"
        self._intrinsics[f"declare {v.type} {full}({', '.join([v.type] * arity)})"] = None
        return full

    def callee(self, function: str, arity: int) -> Callee:
        """Return the vector function for a function of the C library, and define or import it."""
        v = self._vectors
        if function.startswith(PREFIX):
            return self._of_scipy(*function.removeprefix(PREFIX).split("."), arity=arity)
        special = SPECIAL_FUNCTIONS.get(function)
        if special is not None:
            if self.dtype != "float64":
                return Callee(self._in_doubles(function, special), v.type)
            self.define(special)
            for needed in special.calls:
                self._provide(needed)
            return Callee(special.name, v.type)
        implementation = VECTOR_FUNCTIONS.get(function) if self.dtype == "float64" and host().fused else None
        if implementation is not None:
            vector_function, index = implementation
            several = len(vector_function.scalars) > 1
            self._provide(vector_function)
            return Callee(vector_function.name, vector_function.result_type(self.lanes), index if several else None)
        library = Vectors(host().vector_bytes // v.bytes, self.dtype) if self._single else v
        name = vector_symbol(function, arity, library.lanes, self.dtype)
        if name is None:
            return Callee(self._lane_by_lane(function, arity), v.type)
        self.imported[name] = f"declare {library.type} @{name}({', '.join([library.type] * arity)}) nounwind"
        return Callee(self._in_all_lanes(name, arity, library) if self._single else name, v.type)

    def _provide(self, function: VectorFunction) -> None:
        """Define an elementary function, or import it from the shared library."""
        if self._single:
            kind, parameters = function.result_type(self.lanes), ", ".join([self._vectors.type] * function.arity)
            self.imported[function.name] = f"declare {kind} @{function.name}({parameters}) nounwind"
        else:
            self.define(function)

    def _in_doubles(self, function: str, special: VectorFunction) -> str:
        """Return the name of a special function in single precision: computed in double precision, then rounded."""
        if self._wide is None:
            self._wide = Functions(self.lanes, "float64")
            self._wide.imported, self._wide._intrinsics = self.imported, self._intrinsics
        self._wide.callee(function, special.arity)
        name = f"{special.name}_single"
        if name not in self._each:
            v, wide = Vectors(self.lanes, self.dtype), self._wide._vectors
            widened = [v.let(f"fpext {v.type} %a{k} to {wide.type}") for k in range(special.arity)]
            value = v.let(f"call {wide.type} @{special.name}({', '.join(f'{wide.type} {x}' for x in widened)})")
            result = v.let(f"fptrunc {wide.type} {value} to {v.type}")
            self._each[name] = self._wrapper(name, special.arity, v, result)
        return name

    def define(self, function: VectorFunction) -> None:
        """Define a function in this module."""
        self._defined[function] = None

    def text(self, *, visible: bool = False) -> list[str]:
        """Return declarations and definitions; if `visible`, other modules can call the definitions."""
        defined = self._definitions(visible) + ([] if self._wide is None else self._wide._definitions(visible))
        return [
            *_COPYING,
            *sorted(self._intrinsics),
            *(self.imported[name] for name in sorted(self.imported)),
            *(self._each[name] for name in sorted(self._each)),
            *defined,
        ]

    def _definitions(self, visible: bool) -> list[str]:
        """Return the functions on vectors, and the functions for lanes that they do not cover."""
        arities = set()
        for function in self._defined:
            for name, arity in (("fma", 3), *((name, 1) for name in ("fabs", "sqrt", "trunc", "floor", "rint"))):
                self.intrinsic(f"llvm.{name}", arity)
            if function not in SPECIAL_FUNCTIONS.values():  # special functions cover all lanes
                arities.add(function.arity)
                for scalar in function.scalars:
                    self._scalar(scalar, function.arity)
        return [
            *(definition(function, self.lanes, "" if visible else "internal ") for function in self._defined),
            *(patch(arity, self.lanes) for arity in sorted(arities)),
        ]

    def _scalar(self, function: str, arity: int) -> str:
        real = self._vectors.real
        name = function if self.dtype == "float64" else f"{function}f"
        kinds = [real] * arity
        if function in OF_ORDER:
            kinds[0] = "i32"
        self.imported[name] = f"declare {real} @{name}({', '.join(kinds)}) nounwind"
        return name

    def _lane_by_lane(self, function: str, arity: int) -> str:
        name = f"accumulus_each_{function}"
        if name not in self._each:
            scalar = self._scalar(function, arity)
            v = Vectors(self.lanes, self.dtype)
            result = POISON
            for lane in range(self.lanes):
                entries = [v.let(f"extractelement {v.type} %a{k}, i32 {lane}") for k in range(arity)]
                arguments = [f"{v.real} {entry}" for entry in entries]
                if function in OF_ORDER:
                    arguments[0] = f"i32 {v.let(f'fptosi {v.real} {entries[0]} to i32')}"
                value = v.let(f"call {v.real} @{scalar}({', '.join(arguments)})")
                result = v.let(f"insertelement {v.type} {result}, {v.real} {value}, i32 {lane}")
            self._each[name] = self._wrapper(name, arity, v, result)
        return name

    def _of_scipy(self, function: str, result: str = "0", *, arity: int) -> Callee:
        """Return the function that calls one of SciPy's lane by lane, in doubles, for all of its results."""
        is_complex = result in ("re", "im")
        called = function_of(function, arity, is_complex=is_complex)
        v = Vectors(self.lanes, self.dtype)
        name = f"accumulus_each_{function}" + ("_complex" if is_complex else "")
        count = 2 if is_complex else max(called.parameters.count("p"), 1)
        kind = v.type if count == 1 else f"{{ {', '.join([v.type] * count)} }}"
        if name not in self._each:
            returned = {"d": "double", "v": "void", "c": "{ double, double }"}[called.returned]
            kinds = {"d": ["double"], "c": ["double", "double"], "p": ["ptr"], "i": ["i32"]}
            parameters = ", ".join(each for letter in called.parameters for each in kinds[letter])
            self.imported[called.symbol] = f"declare {returned} @{called.symbol}({parameters}) nounwind"
            places = [f"ptr {v.let('alloca double')}" for _ in range(called.parameters.count("p"))]
            numbers = [
                v.let(f"fpext {v.type} %a{k} to <{v.lanes} x double>") if v.bytes == 4 else f"%a{k}"
                for k in range(arity)
            ]
            results = [POISON] * count
            for lane in range(self.lanes):
                entries = [v.let(f"extractelement <{v.lanes} x double> {x}, i32 {lane}") for x in numbers]
                if is_complex:  # a zero has no sign, as in NumPy
                    entries[1] = v.let(f"fadd double {entries[1]}, 0.0")
                arguments = [
                    *(f"double {x}" for x in entries),
                    *places,
                    *(["i32 0"] if "i" in called.parameters else []),
                ]
                call = f"call {returned} @{called.symbol}({', '.join(arguments)})"
                if returned == "void":
                    v.lines.append(call)
                    values = [v.let(f"load double, {place}") for place in places]
                elif is_complex:
                    both = v.let(call)
                    values = [v.let(f"extractvalue {returned} {both}, {k}") for k in range(2)]
                else:
                    values = [v.let(call)]
                for k, value in enumerate(values):
                    rounded = v.let(f"fptrunc double {value} to {v.real}") if v.bytes == 4 else value
                    results[k] = v.let(f"insertelement {v.type} {results[k]}, {v.real} {rounded}, i32 {lane}")
            joined = results[0] if count == 1 else POISON
            for k, value in enumerate(results if count > 1 else []):
                joined = v.let(f"insertvalue {kind} {joined}, {v.type} {value}, {k}")
            self._each[name] = self._wrapper(name, arity, v, joined, kind)
        position = ("re", "im").index(result) if is_complex else int(result)
        return Callee(name, kind, None if count == 1 else position)

    def _in_all_lanes(self, function: str, arity: int, library: Vectors) -> str:
        """Return the name of a function of one lane that calls a function of vectors with the same value in all."""
        name = f"accumulus_one_{function}"
        if name not in self._each:
            v = Vectors(self.lanes, self.dtype)
            mask = f"<{library.lanes} x i32> zeroinitializer"
            spread = [v.let(f"shufflevector {v.type} %a{k}, {v.type} {POISON}, {mask}") for k in range(arity)]
            several = v.let(f"call {library.type} @{function}({', '.join(f'{library.type} {x}' for x in spread)})")
            first = f"shufflevector {library.type} {several}, {library.type} {POISON}, <1 x i32> zeroinitializer"
            self._each[name] = self._wrapper(name, arity, v, v.let(first))
        return name

    @staticmethod
    def _wrapper(name: str, arity: int, v: Vectors, result: str, kind: str = "") -> str:
        """Return a function with arguments %a0, … and the instructions of `v`; its type is that of `v` by default."""
        arguments = ", ".join(f"{v.type} %a{k}" for k in range(arity))
        head = f"define internal {kind or v.type} @{name}({arguments}) nounwind noinline {{"
        return "\n".join([head, *v.lines, f"ret {kind or v.type} {result}", "}"])


# Operations -----------------------------------------------------------------------------------------------------------


class Instructions:
    """Writer of the operations of a part of a program, in a given order.

    Args:
        tape: tape of the program.
        vectors: writer of vector instructions.
        load: function that writes the load of an input, and of neighbours if that is cheaper; returns input → vector.
        functions: functions that the module calls.
        slots: slots of the frame for values that parts pass to each other, by reference.
        contract: True if products and sums may be fused, except `exact` ones.
        exact: references of operations that must be rounded separately.
        fused: products that are fused, by the sum that uses them; their own operations are not written.
    """

    def __init__(
        self,
        tape: Tape,
        vectors: Vectors,
        load: Callable[[int], Mapping[int, str]],
        functions: Functions,
        slots: Mapping[int, int] = MappingProxyType({}),
        contract: bool = False,
        exact: frozenset[int] = frozenset(),
        fused: Mapping[int, Fused] = MappingProxyType({}),
    ) -> None:
        self.tape, self.vectors, self.functions, self.slots = tape, vectors, functions, slots
        self._load = load
        self.values: dict[int, str] = {}
        self._contract, self._exact, self._fused = contract, exact, fused
        self._constants: dict[int, str] = {}
        self._calls: dict[tuple[str, tuple[int, ...]], str] = {}
        self._writers: list[Callable[[int], str]] = [self._writer(code) for code in range(len(OPERATIONS))]

    def constant(self, reference: int) -> str:
        """Return a constant in all lanes."""
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
        """Return the name of the vector with a value; inputs are loaded at their first use."""
        if reference < 0:
            return self.constant(reference)
        name = self.values.get(reference)
        if name is None:
            if reference < self.tape.inputs:
                self.values.update(self._load(reference))
                return self.values[reference]
            v = self.vectors
            name = v.load("%frame", self.slots[reference] * v.lanes, v.lanes * v.bytes)
            if self.tape.is_boolean(reference):
                name = v.let(f"fcmp une {v.type} {name}, zeroinitializer")
            self.values[reference] = name
        return name

    def operation(self, reference: int) -> None:
        """Write one operation, and store its value if later parts of the program need it."""
        fused = self._fused.get(reference)
        if fused is not None:
            name = self._sum_with_product(reference, fused)
        else:
            name = self._writers[self.tape.codes[reference]](reference)
        self.values[reference] = name
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

    def _sum_with_product(self, reference: int, fused: Fused) -> str:
        tape, kind = self.tape, self.vectors.type
        a, b = map(self.value, tape.arguments(fused.product))
        rest = self.value(tape.second[reference] if fused.first else tape.first[reference])
        if OPERATIONS[tape.codes[reference]].llvm == "fsub":
            if fused.first:
                rest = self.vectors.let(f"fneg {kind} {rest}")
            else:
                a = self.vectors.let(f"fneg {kind} {a}")
        function = self.functions.intrinsic("llvm.fma", 3)
        return self.vectors.let(f"call {kind} {function}({kind} {a}, {kind} {b}, {kind} {rest})")

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
        zero = v.let(f"fadd {v.type} {x}, zeroinitializer")  # +0, or NaN
        below = v.let(f"select {v.mask} {negative}, {v.type} {one['-']}, {v.type} {zero}")
        return v.let(f"select {v.mask} {positive}, {v.type} {one['']}, {v.type} {below}")

    def _extremum(self, predicate: str) -> Callable[[int], str]:
        # as in NumPy, the result is NaN if either argument is; llvm.maximum also orders zeros, at twice the cost
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
            # sine and cosine share one call
            key = (callee.name, arguments)
            result = self._calls.get(key)
            if result is None:
                operands = ", ".join(f"{v.type} {self.value(argument)}" for argument in arguments)
                result = self._calls[key] = v.let(f"call {callee.kind} @{callee.name}({operands})")
            if callee.field is None:
                return result
            return v.let(f"extractvalue {callee.kind} {result}, {callee.field}")

        return write
