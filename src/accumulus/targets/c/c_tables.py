"""Long bodies of loops in C as tables: operations are numbers, and one short function interprets them.

Compilers take seconds for a body of thousands of operations, and its machine code takes 10 to 25 bytes for each. In a
table an operation is four small numbers: its code, the register of its result, and the registers of its arguments. A
few instances, the lanes, go through the table together, with one number per lane in each register. So they share the
cost of decoding, and the operation itself is a loop that becomes a vector instruction. Registers are reused after their
last use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.c.c_expressions import Mathematics, WrittenBody
from accumulus.targets.c.c_header import Result
from accumulus.targets.kernel import Segment
from accumulus.targets.schedule import ResultGroup, groups, order
from accumulus.targets.target import Code

#: Largest number of arguments of an operation in a table: more make every row longer, fewer write out bodies that could
#: be tables.
MOST_ARGUMENTS: Final = 2
#: Bytes of machine code and constant data with gcc 12, -Os, x86-64: of a function that interprets a table, of each kind
#: of operation in it, of an operation that is written out, of a loop, and of each array that a loop reads or writes.
#: Over the examples estimates are within a quarter of measurements (`tests/targets/test_code_size.py`). Wrong ones
#: choose the longer of two forms.
FOLLOWER: Final = 60
OF_KIND: Final = 35
WRITTEN: Final = 11
LOOP: Final = 60
OF_ARRAY: Final = 14
#: Largest number of registers: their numbers have 16 bits.
MOST_REGISTERS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class TableBody:
    """A body as a table.

    Attributes:
        codes: codes of the operations that occur, by their numbers in the table.
        operations: for each operation its number, the register of its result, and the registers of its arguments.
        registers: number of registers; the first hold the constants, then come the inputs.
        constants: values of the constants.
        outputs: register of each output.
    """

    codes: tuple[int, ...]
    operations: NDArray[np.int64]
    registers: int
    constants: tuple[float, ...]
    outputs: tuple[int, ...]

    @property
    def kind(self) -> str:
        """Type of the numbers in the table."""
        return "unsigned char" if self.registers <= 1 << 8 else "unsigned short"

    @property
    def size(self) -> int:
        """Approximate number of bytes of its machine code and constant data."""
        entry = 1 if self.kind == "unsigned char" else 2
        return FOLLOWER + OF_KIND * len(self.codes) + entry * self.operations.size + 8 * len(self.constants)

    @classmethod
    def of(cls, body: Tape) -> TableBody | None:
        """Return the table of a body; None if it has truth values, or operations with more arguments."""
        stored = [Segment(1, (k,), (0,)) for k in range(len(body.outputs))]
        references = [step for step in order(body, groups(body, stored, 1)) if not isinstance(step, ResultGroup)]
        rows = {code: OPERATIONS[code] for code in set(body.codes[body.inputs :])}
        if any(
            row.result != "real" or row.arity > MOST_ARGUMENTS or set(row.arguments) != {"real"}
            for row in rows.values()
        ):
            return None
        codes = tuple(sorted(rows))
        number = {code: k for k, code in enumerate(codes)}
        fixed = len(body.constants)
        register_of = {-1 - k: k for k in range(fixed)} | {k: fixed + k for k in range(body.inputs)}
        last = {a: reference for reference in references for a in body.arguments(reference)}
        last |= dict.fromkeys(body.outputs, len(body))
        count, free = fixed + body.inputs, [register_of[k] for k in range(body.inputs) if k not in last]
        operations = np.zeros((len(references), 2 + MOST_ARGUMENTS), np.int64)
        for k, reference in enumerate(references):
            arguments = body.arguments(reference)
            taken = [register_of[a] for a in arguments]
            free += [register_of[a] for a in dict.fromkeys(arguments) if a >= 0 and last[a] == reference]
            if not free:
                free.append(count)
                count += 1
            register_of[reference] = free.pop()
            operations[k, : 2 + len(taken)] = [number[body.codes[reference]], register_of[reference], *taken]
        if count > MOST_REGISTERS:
            return None
        outputs = tuple(register_of[output] for output in body.outputs)
        return cls(codes, operations, count, tuple(body.constants), outputs)


def written_size(body: Tape) -> int:
    """Return the approximate number of bytes of machine code of a body whose operations are written out."""
    return WRITTEN * (body.operations + len(body.outputs))


def code_size(code: Code) -> int:
    """Return the approximate number of bytes of machine code and constant data of compact C."""
    if code.maps is None:
        return _smallest_size(code.tape)
    sizes = [LOOP + OF_ARRAY * (len(each.operands(code.tape)) + len(each.arrays(code.tape))) for each in code.maps]
    return sum(sizes) + sum(map(_smallest_size, code.bodies))


def _smallest_size(body: Tape) -> int:
    table = TableBody.of(body)
    return written_size(body) if table is None else min(table.size, written_size(body))


def follower(name: str, macro: str, table: TableBody, lanes: int, mathematics: Mathematics) -> str:
    """Return the function that interprets tables of some operations, for `lanes` instances at a time."""
    lines = [
        f"static void {name}(double *registers, const {table.kind} *table, ptrdiff_t count) {{",
        f"    for (; count > 0; count--, table += {2 + MOST_ARGUMENTS}) {{",
        f"        double *const result = registers + {lanes} * (ptrdiff_t)table[1];",
        f"        const double *const a = registers + {lanes} * (ptrdiff_t)table[2];",
        f"        const double *const b = registers + {lanes} * (ptrdiff_t)table[3];",
        "        switch (table[0]) {",
    ]
    for number, code in enumerate(table.codes):
        tape = Tape(OPERATIONS[code].arity)
        tape.outputs = [tape.apply_code(code, [*range(tape.inputs)])]
        results = [Result("result", Segment(1, (0,), (0,)))]
        written = WrittenBody(tape, [("a", 0), ("b", 0)][: tape.inputs], results, mathematics)
        statements, _ = written.statements(written.parts[0], lambda array, _: f"{array}[k]")
        label = "default:" if number == len(table.codes) - 1 else f"case {number}:"
        if lanes == 1:
            statements, _ = written.statements(written.parts[0], lambda array, _: f"*{array}")
            lines += [
                f"        {label} {{",
                *(f"            {line}" for line in statements),
                "            break;",
                "        }",
            ]
            continue
        lines += [
            f"        {label}",
            f"            {macro}_LANES",
            f"            for (ptrdiff_t k = 0; k < {lanes}; k++) {{",
            *(f"                {line}" for line in statements),
            "            }",
            "            break;",
        ]
    return "\n".join([*lines, "        }", "    }", "}\n"])
