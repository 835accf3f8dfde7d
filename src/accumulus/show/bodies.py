"""The bodies of programs with loops: the number of their runs, and their operations by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from accumulus.search.plan import BodyPlan
from accumulus.show.methods import MethodCosts, counted_plans
from accumulus.show.tables import amount, table
from accumulus.tape.blocks import CALL, CHOLESKY, GATHER, MATMUL, SCATTER, SOLVE, SPARSE_PRODUCT, SPARSE_SOLVE
from accumulus.tape.factorisations import FACTORISATIONS
from accumulus.tape.operations import OPERATIONS, Operation
from accumulus.tape.tape import Tape
from accumulus.targets.target import Code
from accumulus.text import printable

if TYPE_CHECKING:
    from rich.table import Table


#: Number of loops that a report lists, and of these the last ones.
MOST_ROWS: Final = 30
LAST_ROWS: Final = 6


@dataclass(frozen=True, slots=True)
class BodyFacts:
    """A loop of a program.

    Attributes:
        instances: number of runs of its body; for sums, number of sums.
        operations: operations of one instance; for sums, of all together.
        takes: operands of an instance.
        results: results of an instance.
        by_kind: operations of an instance, by kind; empty for sums.
        source: its source files and lines, as ``model.py:12-15``; empty for products of derivatives.
        shape: for matrix operations, (m, k, n), of m × k and k × n entries; operations are then of all entries.
        steps: for recurrences, whose instances take results of earlier ones, the number of consecutive steps.
        code: for matrix operations, the code.
    """

    instances: int
    operations: int
    takes: int
    results: int
    by_kind: dict[str, int]
    source: str = ""
    shape: tuple[int, int, int] | None = None
    steps: int = 0
    code: int = 0
    name: str = ""

    @property
    def is_sum(self) -> bool:
        """Return True if it sums segments of an array."""
        return not self.by_kind and self.results == 0

    @property
    def kind(self) -> str:
        """Description of the body, with sizes for matrix operations."""
        if self.code == CALL:
            return self.name
        if self.shape is not None:
            forms = {
                MATMUL: "product of {0}×{1} and {1}×{2}",
                SOLVE: "{0} equations, {2} sides",
                CHOLESKY: "factor of {0}×{1}",
                SPARSE_SOLVE: "{0} sparse equations, {2} sides",
                SPARSE_PRODUCT: "product of sparse {0}×{1} and {1}×{2}",
                GATHER: "{0} rows by indices",
                SCATTER: "sums of {1} rows by indices",
            }
            name = FACTORISATIONS[self.code].name if self.code in FACTORISATIONS else "determinant"
            return forms.get(self.code, f"{name} of {{0}}×{{1}}").format(*self.shape)
        if self.steps:
            return f"{self.steps:,} steps"
        return "sums" if self.is_sum else "body"


def lines_text(lines: Iterable[tuple[str, int]]) -> str:
    """Return source lines as text, with consecutive lines joined.

    >>> lines_text({("/home/me/model.py", 12), ("/home/me/model.py", 13), ("/home/me/model.py", 20), ("/a/b.py", 3)})
    'b.py:3, model.py:12-13,20'
    """
    by_file: dict[str, list[int]] = {}
    for file, line in sorted(lines):
        by_file.setdefault(PurePath(file).name, []).append(line)
    texts = []
    for file, numbers in sorted(by_file.items()):
        runs: list[list[int]] = []
        for number in sorted(set(numbers)):
            if runs and number == runs[-1][1] + 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        texts.append(f"{file}:{','.join(f'{a}-{b}' if b > a else str(a) for a, b in runs)}")
    return ", ".join(texts)


def bodies_of(code: Code) -> tuple[BodyFacts, ...]:
    """Return the loops of a program in order; none of straight-line code.

    >>> import numpy as np, accumulus as acc
    >>> program = acc.gradient(lambda x: np.sum(np.sin(x))).compile_loops(np.ones(10_000))
    >>> [(each.instances, each.by_kind) for each in bodies_of(program.code)]
    [(10000, {'cos': 1})]
    """
    bodies = []
    for each in code.maps or ():
        block = code.tape.blocks[each.blocks[0]]
        source, count = lines_text(code.tape.lines_of(each.blocks)), each.count
        if each.is_sum:
            bodies.append(BodyFacts(count, block.operations, 1, 0, {}, source))
        elif each.shape is not None:
            name, operands = _called(block.opaque), len(block.operands)
            bodies.append(
                BodyFacts(count, block.operations, operands, 1, {}, source, each.shape, code=block.code, name=name)
            )
        elif each.results:
            body, steps = each.body, 0 if each.steps is None else len(each.steps) - 1
            kinds = operations_by_kind(body)
            bodies.append(BodyFacts(count, body.operations, body.inputs, len(body.outputs), kinds, source, steps=steps))
    return tuple(bodies)


def _called(opaque: Any) -> str:
    """Return the description of a call: iterations of a loop, or a user's function."""
    return getattr(opaque, "title", f"call of {getattr(opaque, 'name', '')}")


def loops_table(bodies: Sequence[BodyFacts]) -> Table:
    """Return a table with a row for each loop."""
    loops = [
        (
            f"{k} {body.kind}",
            amount(body.instances),
            amount(body.operations) if body.by_kind else f"{body.operations / max(body.instances, 1):.3g}",
            "" if body.is_sum else str(body.takes),
            "1" if body.is_sum else str(body.results),
            body.source,
        )
        for k, body in enumerate(bodies, 1)
    ]
    if len(loops) > MOST_ROWS:
        skipped = len(loops) - MOST_ROWS
        between = bodies[MOST_ROWS - LAST_ROWS : -LAST_ROWS]
        left = sum(body.operations * (body.instances if body.by_kind else 1) for body in between)
        more = (f"… {skipped:,} more", "", amount(left) + " in all", "", "", "")
        loops = [*loops[: MOST_ROWS - LAST_ROWS], more, *loops[-LAST_ROWS:]]
    return table(("loop", "instances", "operations each", "operands", "results", "from"), loops)


def plans_of_bodies(bodies: Sequence[BodyPlan]) -> list[tuple[str, int, str, int, str]]:
    """Return a row for each plan: lines, number of instances, method, cost, and distance from the lower bound."""
    lines: dict[int, set[tuple[str, int]]] = {}
    for each in bodies:
        lines.setdefault(id(each.plan), set()).update(each.lines)
    rows = []
    for count, plan in counted_plans(bodies):
        cost, bound = MethodCosts.of(plan).cost(plan.objective), plan.lower_bound
        gap = "–" if bound is None else "optimal" if cost <= bound else f"{bound:,} or more"
        rows.append((printable(lines_text(lines[id(plan)])) or "–", count, plan.method, cost, gap))
    return rows


# Kinds of operations --------------------------------------------------------------------------------------------------


def kinds_of(code: Code) -> dict[str, int]:
    """Return the number of operations of each kind, of all instances, the most frequent first; see `kind_counted`.

    Operations on matrices and calls are counted as such.
    """
    if code.maps is None:
        return operations_by_kind(code.tape)
    counts: Counter[str] = Counter()
    for each in code.maps:
        block = code.tape.blocks[each.blocks[0]]
        if each.is_sum:
            counts["additions"] += block.operations
        elif each.shape is not None:
            counts["calls" if block.code == CALL else "operations on matrices"] += block.operations
        elif each.is_body:
            counts.update({kind: each.count * count for kind, count in operations_by_kind(each.body).items()})
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def operations_by_kind(tape: Tape) -> dict[str, int]:
    """Return the number of operations of each kind on the tape, the most frequent first; see `kind_counted`.

    >>> tape = Tape(2)
    >>> tape.outputs = [tape.multiply(0, tape.apply("sin", tape.add(0, 1)))]
    >>> operations_by_kind(tape)
    {'additions': 1, 'multiplications': 1, 'sin': 1}
    """
    counts = Counter(kind_counted(OPERATIONS[code]) for code in tape.codes[tape.inputs :])
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def kind_counted(operation: Operation) -> str:
    """Return the kind under which a report counts an operation.

    Instructions of similar cost are counted together, functions of the mathematical library by name.
    """
    match operation.llvm:
        case "fadd" | "fsub":
            return "additions"
        case "fmul":
            return "multiplications"
        case "fdiv":
            return "divisions"
        case "fneg":
            return "sign changes"
        case "select" | "and" | "or" | "not":
            return "choices"
    if operation.result == "boolean":
        return "comparisons"
    return operation.name
