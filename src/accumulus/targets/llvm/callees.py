"""Which code computes an elementary function on a vector: this package's, glibc's, or the C library's, lane by lane.

In that order of preference. A module declares and defines what its program calls, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from accumulus.targets.llvm.host import host, vector_symbol
from accumulus.targets.llvm.special_functions import OF_ORDER, SPECIAL_FUNCTIONS
from accumulus.targets.llvm.vector_functions import VECTOR_FUNCTIONS, VectorFunction, definition, patch
from accumulus.targets.llvm.vectors import POISON, Vectors

__all__ = ["Callee", "Functions"]

_COPYING: Final = (
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
)


@dataclass(frozen=True, slots=True)
class Callee:
    """A function on vectors: its name in the module, the type that it returns, and which field of it is wanted."""

    name: str
    kind: str
    field: int | None = None


class Functions:
    """The functions that a module calls, for vectors of one type.

    Args:
        shared: whether those of this package are defined elsewhere, see `accumulus.targets.llvm.shared`; of one lane.

    Attributes:
        imported: names in the C library or in its vector library, each with its declaration.
    """

    def __init__(self, lanes: int, dtype: str, *, shared: bool = False) -> None:
        self.lanes, self.dtype = lanes, dtype
        self._shared = shared and lanes == 1
        self.imported: dict[str, str] = {}
        self._vectors = Vectors(lanes, dtype)
        self._defined: dict[VectorFunction, None] = {}
        self._each: dict[str, str] = {}
        self._intrinsics: dict[str, None] = {}
        self._wide: Functions | None = None

    def intrinsic(self, name: str, arity: int) -> str:
        """Name of LLVM's own function for vectors."""
        v = self._vectors
        full = f"@{name}.v{v.lanes}f{8 * v.bytes}"
        self._intrinsics[f"declare {v.type} {full}({', '.join([v.type] * arity)})"] = None
        return full

    def callee(self, function: str, arity: int) -> Callee:
        """What to call for a function of the C library."""
        v = self._vectors
        special = SPECIAL_FUNCTIONS.get(function)
        if special is not None:
            if self.dtype != "float64":
                return Callee(self._in_doubles(function, special), v.type)
            self.define(special)
            for needed in special.calls:
                self._provide(needed)
            return Callee(special.name, v.type)
        own = VECTOR_FUNCTIONS.get(function) if self.dtype == "float64" and host().fused else None
        if own is not None:
            vector_function, index = own
            several = len(vector_function.scalars) > 1
            self._provide(vector_function)
            return Callee(vector_function.name, vector_function.result_type(self.lanes), index if several else None)
        name = vector_symbol(function, arity, self.lanes, self.dtype)
        if name is not None:
            self.imported[name] = f"declare {v.type} @{name}({', '.join([v.type] * arity)}) nounwind"
            return Callee(name, v.type)
        return Callee(self._lane_by_lane(function, arity), v.type)

    def _provide(self, function: VectorFunction) -> None:
        """Define an elementary function, or import it from the shared code."""
        if self._shared:
            kind, parameters = function.result_type(self.lanes), ", ".join([self._vectors.type] * function.arity)
            self.imported[function.name] = f"declare {kind} @{function.name}({parameters}) nounwind"
        else:
            self.define(function)

    def _in_doubles(self, function: str, special: VectorFunction) -> str:
        """Name of a special function of single precision: computed in double precision, and rounded."""
        if self._wide is None:
            self._wide = Functions(self.lanes, "float64")
            self._wide.imported, self._wide._intrinsics = self.imported, self._intrinsics
        self._wide.callee(function, special.arity)
        name = f"{special.name}_single"
        if name not in self._each:
            v, wide = Vectors(self.lanes, self.dtype), self._wide._vectors
            given = [v.let(f"fpext {v.type} %a{k} to {wide.type}") for k in range(special.arity)]
            value = v.let(f"call {wide.type} @{special.name}({', '.join(f'{wide.type} {x}' for x in given)})")
            result = v.let(f"fptrunc {wide.type} {value} to {v.type}")
            self._each[name] = self._wrapper(name, special.arity, v, result)
        return name

    def define(self, function: VectorFunction) -> None:
        """Define a function in this module."""
        self._defined[function] = None

    def text(self, *, visible: bool = False) -> list[str]:
        """Declarations and definitions; whether other modules can call what is defined."""
        defined = self._definitions(visible) + ([] if self._wide is None else self._wide._definitions(visible))
        return [
            *_COPYING,
            *sorted(self._intrinsics),
            *(self.imported[name] for name in sorted(self.imported)),
            *(self._each[name] for name in sorted(self._each)),
            *defined,
        ]

    def _definitions(self, visible: bool) -> list[str]:
        """The functions on vectors, and those that compute lanes for which they are not."""
        arities = set()
        for function in self._defined:
            for name, arity in (("fma", 3), *((name, 1) for name in ("fabs", "sqrt", "trunc", "floor", "rint"))):
                self.intrinsic(f"llvm.{name}", arity)
            if function not in SPECIAL_FUNCTIONS.values():  # which are for all lanes
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
                given = [f"{v.real} {entry}" for entry in entries]
                if function in OF_ORDER:
                    given[0] = f"i32 {v.let(f'fptosi {v.real} {entries[0]} to i32')}"
                value = v.let(f"call {v.real} @{scalar}({', '.join(given)})")
                result = v.let(f"insertelement {v.type} {result}, {v.real} {value}, i32 {lane}")
            self._each[name] = self._wrapper(name, arity, v, result)
        return name

    @staticmethod
    def _wrapper(name: str, arity: int, v: Vectors, result: str) -> str:
        """The function of arguments %a0, … whose instructions `v` has."""
        arguments = ", ".join(f"{v.type} %a{k}" for k in range(arity))
        head = f"define internal {v.type} @{name}({arguments}) nounwind noinline {{"
        return "\n".join([head, *v.lines, f"ret {v.type} {result}", "}"])
