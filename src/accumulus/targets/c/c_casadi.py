"""C with the interface of CasADi's external functions, which ``casadi.external`` and ``nlpsol`` load.

A function takes an array of pointers to its arguments (null for zeros), an array of pointers to its results (null for
unused ones), and a work space. Further functions return the numbers and names of arguments and results, their nonzeros
by columns, and the size of the work space (CasADi's manual, section 5.3, "the C API").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from accumulus.errors import ArgumentError
from accumulus.targets.c.c_header import function_text, table_text
from accumulus.targets.c.c_loops import LoopSource
from accumulus.targets.c.c_source import CSource
from accumulus.targets.kernel import Shape


@dataclass(frozen=True)
class Pattern:
    """Pattern of the nonzeros of a matrix, in CasADi's form.

    Attributes:
        shape: shape of the matrix.
        starts, rows: first nonzero of each column, and row of each nonzero; `starts` is None for a dense matrix.
    """

    shape: tuple[int, int]
    starts: tuple[int, ...] | None = None
    rows: tuple[int, ...] = ()

    @classmethod
    def dense(cls, shape: Shape) -> Pattern:
        """Return the pattern of an array: a column for a vector.

        Raises:
            ArgumentError: for more than two axes.
        """
        if len(shape) > 2:
            raise ArgumentError(f"an array has shape {shape}; CasADi has matrices, of two axes at most")
        rows, columns = (*shape, *[1] * (2 - len(shape)))
        return cls((rows, columns))

    @classmethod
    def by_columns(cls, shape: tuple[int, int], rows: ArrayLike, columns: ArrayLike) -> Pattern:
        """Return the pattern of nonzeros that are sorted by column, then by row."""
        starts = np.searchsorted(columns, np.arange(shape[1] + 1))
        return cls(shape, tuple(starts.tolist()), tuple(np.asarray(rows).tolist()))

    @property
    def size(self) -> int:
        """Number of nonzeros."""
        return prod(self.shape) if self.starts is None else len(self.rows)

    @property
    def words(self) -> list[int]:
        """Integers that describe the pattern to CasADi."""
        return [*self.shape, 1] if self.starts is None else [*self.shape, *self.starts, *self.rows]


@dataclass(frozen=True)
class Called:
    """A program that a CasADi function calls."""

    source: CSource | LoopSource  # source of the program
    name: str  # name of its function of a point
    arguments: Sequence[int]  # for each argument of the program, the argument of the CasADi function
    # destination of each result of the program: a result of the CasADi function, or the name of an array in `memory`
    results: Sequence[int | str]
    guarded: bool = False  # True if there is one more result, which is positive where the others hold


@dataclass(frozen=True)
class CasadiFunction:
    """A function with CasADi's interface."""

    name: str  # name of the function
    # inputs, outputs: names and patterns; arguments are dense
    inputs: Sequence[tuple[str, Pattern]]
    outputs: Sequence[tuple[str, Pattern]]
    calls: Sequence[Called]  # programs to call, in order
    more: Sequence[str] = ()  # lines after the calls, in which arguments are a0, a1, … and results r0, r1, …
    memory: dict[str, int] = field(default_factory=dict)  # names and lengths of arrays that are not results

    @property
    def text(self) -> str:
        """Text of the function, and of the functions that describe it."""
        function, work = self._function()
        return "\n".join([*self._tables(), function, *self._descriptions(work)])

    def _function(self) -> tuple[str, int]:
        """Return the text of the function, and the number of doubles in its work space."""
        used = {k for each in self.calls for k in each.arguments}
        arguments = list(range(len(self.inputs))) if self.more else sorted(used)
        lines, size = [], 0
        # missing arguments are zero; CasADi's column-major matrices are copied row by row
        for k in arguments:
            _, pattern = self.inputs[k]
            rows, columns = pattern.shape
            at = f"w + {size}"
            size += pattern.size
            lines.append(f"const double *a{k} = arg[{k}];")
            if min(rows, columns) > 1:
                index = f"(i % {columns}) * {rows} + i / {columns}"
                lines.append(f"for (long long i = 0; i < {pattern.size}; i++) ({at})[i] = a{k} ? a{k}[{index}] : 0.0;")
                lines.append(f"a{k} = {at};")
            elif pattern.size:
                lines.append(f"if (!a{k}) {{")
                lines.append(f"    for (long long i = 0; i < {pattern.size}; i++) ({at})[i] = 0.0;")
                lines.append(f"    a{k} = {at};")
                lines.append("}")
        for k, (_, pattern) in enumerate(self.outputs):
            lines.append(f"double *r{k} = res[{k}] ? res[{k}] : w + {size};")
            size += pattern.size
        for name, length in self.memory.items():
            lines.append(f"double *{name} = w + {size};")
            size += length
        lines += [f"(void)a{k};" for k in arguments] + [f"(void)r{k};" for k in range(len(self.outputs))]
        guard = f"w + {size}"
        size += any(each.guarded for each in self.calls)
        for each in self.calls:
            call_arguments = [f"a{k}" for k in each.arguments]
            call_arguments += [f"r{k}" if isinstance(k, int) else k for k in each.results]
            call_arguments += [guard] * each.guarded
            call_arguments += [f"w + {size}"] * isinstance(each.source, LoopSource)
            lines.append(f"{each.name}({', '.join(call_arguments)});")
            if each.guarded:  # the program is one of several cases, and another one may cover this point
                lines.append(f"if (!(({guard})[0] > 0.0)) return 1;")
        lines += self.more
        work = max((each.source.work for each in self.calls if isinstance(each.source, LoopSource)), default=0)
        head = f"int {self.name}(const double **arg, double **res, long long *iw, double *w, int mem)"
        unused = ["(void)arg;", "(void)res;", "(void)iw;", "(void)w;", "(void)mem;"]
        return function_text(head, [*lines, *unused, "return 0;"]), size + work

    def _tables(self) -> list[str]:
        texts = []
        for kind, arrays in (("in", self.inputs), ("out", self.outputs)):
            for k, (_, pattern) in enumerate(arrays):
                texts.append(table_text(f"static const long long {self.name}_{kind}{k}", list(map(str, pattern.words))))
        return texts

    def _descriptions(self, work: int) -> list[str]:
        name = self.name
        texts = []
        for kind, arrays in (("in", self.inputs), ("out", self.outputs)):
            texts.append(f"long long {name}_n_{kind}(void) {{ return {len(arrays)}; }}\n")
            for query, result, values in (
                ("name", "const char *", [f'"{each}"' for each, _ in arrays]),
                ("sparsity", "const long long *", [f"{name}_{kind}{k}" for k in range(len(arrays))]),
            ):
                cases = [f"if (i == {k}) return {value};" for k, value in enumerate(values)]
                head = f"{result}{name}_{query}_{kind}(long long i)"
                texts.append(function_text(head, [*(cases or ["(void)i;"]), "return 0;"]))
        sizes = {"arg": len(self.inputs), "res": len(self.outputs), "iw": 0, "w": work}
        parameters = ", ".join(f"long long *sz_{each}" for each in sizes)
        lines = [f"if (sz_{each}) *sz_{each} = {size};" for each, size in sizes.items()]
        return [*texts, function_text(f"int {name}_work({parameters})", [*lines, "return 0;"])]
