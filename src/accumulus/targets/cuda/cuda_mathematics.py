"""The functions that a CUDA program calls: CUDA's own, and those of the C target that it does not have."""

from __future__ import annotations

from accumulus.targets.c.c_mathematics import Mathematics, definition
from accumulus.targets.llvm.special_functions import SPECIAL_FUNCTIONS

__all__ = ["CudaMathematics"]


class CudaMathematics(Mathematics):
    """What a kernel calls: CUDA's own functions, and what it does not have."""

    truth = "bool"

    def __init__(self, name: str, dtype: str) -> None:
        super().__init__(name, dtype)
        self.multiply_add = f"fma{self._suffix}"

    def function(self, function: str) -> str:
        """What a function is called."""
        if function in SPECIAL_FUNCTIONS:
            self._special[function] = None
            return f"{self._name}_{function}"
        return f"{function}{self._suffix}"

    def prelude(self) -> list[str]:
        """Numbers that have no literal, and special functions."""
        lines = [
            "#ifndef INFINITY",
            "#define INFINITY __int_as_float(0x7f800000)",
            "#endif",
            "#ifndef NAN",
            "#define NAN __int_as_float(0x7fffffff)",
            "#endif",
            "",
        ]
        for function in self._special:
            own = f"{self._name}_{function}"
            head = f"static __device__ double {own}{'_double' if self._suffix else ''}"
            lines.append(definition(head, function, "fma"))
            if self._suffix:
                arguments = ("x", "y")[: SPECIAL_FUNCTIONS[function].arity]
                lines += [
                    f"static __device__ float {own}({', '.join(f'float {each}' for each in arguments)}) {{",
                    f"    return (float){own}_double({', '.join(arguments)});",
                    "}\n",
                ]
        return lines
