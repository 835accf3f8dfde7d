"""Which code computes an elementary function on a vector: this package's, glibc's, or the C library's, lane by lane.

In that order of preference. A module declares and defines what its program calls, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from accumulus.targets.llvm.host import host, vector_symbol
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

    def intrinsic(self, name: str, arity: int) -> str:
        """Name of LLVM's own function for vectors."""
        v = self._vectors
        full = f"@{name}.v{v.lanes}f{8 * v.bytes}"
        self._intrinsics[f"declare {v.type} {full}({', '.join([v.type] * arity)})"] = None
        return full

    def callee(self, function: str, arity: int) -> Callee:
        """What to call for a function of the C library."""
        own = VECTOR_FUNCTIONS.get(function) if self.dtype == "float64" and host().fused else None
        if own is not None:
            vector_function, index = own
            several = len(vector_function.scalars) > 1
            kind = vector_function.result_type(self.lanes)
            if self._shared:
                parameters = ", ".join([self._vectors.type] * vector_function.arity)
                self.imported[vector_function.name] = f"declare {kind} @{vector_function.name}({parameters}) nounwind"
            else:
                self.define(vector_function)
            return Callee(vector_function.name, kind, index if several else None)
        v = self._vectors
        name = vector_symbol(function, arity, self.lanes, self.dtype)
        if name is not None:
            self.imported[name] = f"declare {v.type} @{name}({', '.join([v.type] * arity)}) nounwind"
            return Callee(name, v.type)
        return Callee(self._lane_by_lane(function, arity), v.type)

    def define(self, function: VectorFunction) -> None:
        """Define a function in this module."""
        self._defined[function] = None

    def text(self, *, visible: bool = False) -> list[str]:
        """Declarations and definitions; whether other modules can call what is defined."""
        arities = {function.arity for function in self._defined}
        for function in self._defined:
            for scalar in function.scalars:
                self._scalar(scalar, function.arity)
            for name, arity in (("fma", 3), ("fabs", 1), ("sqrt", 1), ("trunc", 1)):
                self.intrinsic(f"llvm.{name}", arity)
        return [
            *_COPYING,
            *sorted(self._intrinsics),
            *(self.imported[name] for name in sorted(self.imported)),
            *(self._each[name] for name in sorted(self._each)),
            *(definition(function, self.lanes, "" if visible else "internal ") for function in self._defined),
            *(patch(arity, self.lanes) for arity in sorted(arities)),
        ]

    def _scalar(self, function: str, arity: int) -> str:
        real = self._vectors.real
        name = function if self.dtype == "float64" else f"{function}f"
        self.imported[name] = f"declare {real} @{name}({', '.join([real] * arity)}) nounwind"
        return name

    def _lane_by_lane(self, function: str, arity: int) -> str:
        name = f"accumulus_each_{function}"
        if name not in self._each:
            scalar = self._scalar(function, arity)
            v = Vectors(self.lanes, self.dtype)
            result = POISON
            for lane in range(self.lanes):
                entries = [v.let(f"extractelement {v.type} %a{k}, i32 {lane}") for k in range(arity)]
                value = v.let(f"call {v.real} @{scalar}({', '.join(f'{v.real} {entry}' for entry in entries)})")
                result = v.let(f"insertelement {v.type} {result}, {v.real} {value}, i32 {lane}")
            arguments = ", ".join(f"{v.type} %a{k}" for k in range(arity))
            head = f"define internal {v.type} @{name}({arguments}) nounwind noinline {{"
            self._each[name] = "\n".join([head, *v.lines, f"ret {v.type} {result}", "}"])
        return name
