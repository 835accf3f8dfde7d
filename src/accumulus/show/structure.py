"""The report on derivatives of long arrays: their bodies, the number of runs, and their costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from accumulus.options import Objective
from accumulus.search.plan import BodyPlan
from accumulus.show.report import (
    SWEEPS,
    CaseFacts,
    MethodCosts,
    Shown,
    Subject,
    cases_table,
    compared,
    operations_by_kind,
    small_enough,
)
from accumulus.show.tables import amount, counted, key_values, shape_text, table, text
from accumulus.tape.blocks import CALL, CHOLESKY, GATHER, MATMUL, SCATTER, SOLVE, SPARSE_PRODUCT, SPARSE_SOLVE
from accumulus.tape.factorisations import FACTORISATIONS
from accumulus.text import printable

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

    from accumulus.programs.measured import Speed
    from accumulus.show.tables import Compiled


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


@dataclass(frozen=True, slots=True)
class BodiesCompared:
    """Costs of methods for the bodies of a program of loops, of all instances.

    Attributes:
        chosen: costs of the program's own plans.
        others: costs of methods for comparison.
        objective: what the plans minimise.
        uncounted: methods that were left out since they may need too many products.
        rows: for each body its lines, number of instances, method, cost and distance from the lower bound.
    """

    chosen: MethodCosts
    others: tuple[MethodCosts, ...]
    objective: Objective
    uncounted: tuple[str, ...]
    rows: tuple[tuple[str, int, str, int, str], ...]


def compared_bodies(bodies: Sequence[BodyPlan]) -> BodiesCompared:
    """Compare the plans of bodies with other methods; planning these takes a moment."""
    counts: Counter[int] = Counter()
    lines: dict[int, set[tuple[str, int]]] = {}
    plans = {id(each.plan): each.plan for each in bodies}
    for each in bodies:
        counts[id(each.plan)] += each.count
        lines.setdefault(id(each.plan), set()).update(each.lines)
    uncounted = [method for method in SWEEPS if not all(small_enough(plan.graph, method) for plan in plans.values())]
    objective = next(iter(plans.values())).objective
    totals: dict[str, list[tuple[int, MethodCosts]]] = {}
    counted, rows = [], []
    for key, plan in plans.items():
        chosen = MethodCosts.of(plan)
        counted.append((counts[key], chosen))
        for method in SWEEPS:
            if method not in uncounted:
                compared_plans = (
                    [chosen] if method == plan.method else compared(plan.graph, [method], objective=objective)
                )
                totals.setdefault(method, []).extend((counts[key], each) for each in compared_plans)
        cost, bound = chosen.cost(objective), chosen.lower_bound
        gap = "–" if bound is None else "optimal" if cost <= bound else f"{bound:,} or more"
        rows.append((printable(lines_text(lines[key])) or "–", counts[key], chosen.method, cost, gap))
    complete = [_total(method, rows_of) for method, rows_of in totals.items() if len(rows_of) == len(plans)]
    return BodiesCompared(_total("this program", counted), tuple(complete), objective, tuple(uncounted), tuple(rows))


def _total(name: str, costs: Sequence[tuple[int, MethodCosts]]) -> MethodCosts:
    """Return the costs of all instances; the lower bound is known if that of each body is."""
    fma, multiplications, operations = (
        sum(count * each.cost(name) for count, each in costs) for name in ("fma", "multiplications", "operations")
    )
    bounds = [count * each.lower_bound for count, each in costs if each.lower_bound is not None]
    bound = sum(bounds) if len(bounds) == len(costs) else None
    return MethodCosts(name, fma, multiplications, operations, sum(each.seconds for _, each in costs), bound)


def _called(opaque: Any) -> str:
    """Return the description of a call: iterations of a loop, or a user's function."""
    return getattr(opaque, "title", f"call of {getattr(opaque, 'name', '')}")


@dataclass(frozen=True, slots=True, repr=False)
class StructureReport(Shown):
    """A program over arrays: its loops, costs and times.

    Attributes:
        name: name of the differentiated function.
        returns, title: as for `Report`.
        argument_shapes, result_shapes: shapes of the function's arguments and results.
        recorded: operations of the function itself, of all instances.
        jacobian_shape: entries of the results × entries of the arguments.
        nonzeros: number of structural nonzeros of the Jacobian.
        products: number of products of derivatives between arrays.
        operations: operations of the program, of all instances.
        bodies: its loops, in order.
        target: target of the compiled code.
        seconds: time of each stage of the preparation.
        cut_short, differentiates, cases, measured, subject: as for `Report`.
        unwatched: descriptions of captured objects whose changes may be missed.
        changed: side effects of the function at its recording, which compiled code does not repeat.
    """

    name: str
    returns: str
    title: str
    argument_shapes: tuple[tuple[int, ...] | None, ...]
    result_shapes: tuple[tuple[int, ...], ...]
    recorded: int
    jacobian_shape: tuple[int, int]
    nonzeros: int
    products: int
    operations: int
    bodies: tuple[BodyFacts, ...]
    target: str
    seconds: dict[str, float]
    cut_short: str = ""
    unwatched: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    differentiates: bool = True
    cases: tuple[CaseFacts, ...] = ()
    measured: Speed | None = None
    subject: Subject | None = field(default=None, compare=False)

    @classmethod
    def of(cls, program: Compiled) -> StructureReport:
        """Return the report on `program`.

        >>> import numpy as np, accumulus as acc
        >>> program = acc.gradient(lambda x: np.sum(np.sin(x))).compile_loops(np.ones(10_000))
        >>> report = StructureReport.of(program)
        >>> report.nonzeros, len(report.bodies)
        (10000, 1)
        """
        recording, code, facts = program.recording, program.code, program.facts
        bodies = []
        for each in code.maps:
            block = code.tape.blocks[each.blocks[0]]
            source = lines_text(code.tape.lines_of(each.blocks))
            if each.is_sum:
                bodies.append(BodyFacts(each.count, block.operations, 1, 0, {}, source))
            elif each.shape is not None:
                bodies.append(
                    BodyFacts(
                        each.count,
                        block.operations,
                        len(block.operands),
                        1,
                        {},
                        source,
                        each.shape,
                        code=block.code,
                        name=_called(block.opaque),
                    )
                )
            elif each.results:
                body, steps = each.body, 0 if each.steps is None else len(each.steps) - 1
                kinds = operations_by_kind(body)
                bodies.append(
                    BodyFacts(each.count, body.operations, body.inputs, len(body.outputs), kinds, source, steps=steps)
                )
        return cls(
            name=program.name,
            returns=program.kind.name,
            title=program.kind.title,
            argument_shapes=tuple(recording.argument_shapes),
            result_shapes=tuple(recording.result_shapes),
            recorded=recording.program.operations,
            jacobian_shape=facts.jacobian_shape,
            nonzeros=facts.nonzero_count,
            products=facts.products,
            operations=program.operations,
            bodies=tuple(bodies),
            target=program.options.target,
            seconds=dict(program.seconds),
            cut_short=program.cut_short,
            differentiates=program.kind.derivatives,
            cases=(CaseFacts.of(program),) if recording.guards else (),
        )

    def _facts(self) -> list[tuple[str, str]]:
        rows, columns = self.jacobian_shape
        facts = [
            ("arguments", ", ".join(map(shape_text, self.argument_shapes))),
            ("results", ", ".join(map(shape_text, self.result_shapes))),
            ("recorded", f"{counted(self.recorded, 'operation')}, as operations on arrays"),
        ]
        if self.differentiates:
            facts.append(
                ("Jacobian", f"{amount(rows)}×{amount(columns)}, structural nonzeros: {amount(self.nonzeros)}")
            )
        return facts

    def _program(self) -> list[tuple[str, str]]:
        ratio = f", {self.operations / self.recorded:.1f} times the function's own" if self.recorded else ""
        return [
            *([("between bodies", counted(self.products, "product") + " of derivatives")] * self.differentiates),
            ("program", counted(self.operations, "operation") + ratio),
            ("code", f"{self.target}, float64, a loop for each body"),
            *self._preparation(),
        ]

    def __rich__(self) -> Group:
        from rich.console import Group

        loops = [
            (
                f"{k} {body.kind}",
                amount(body.instances),
                amount(body.operations) if body.by_kind else f"{body.operations / max(body.instances, 1):.3g}",
                "" if body.is_sum else str(body.takes),
                "1" if body.is_sum else str(body.results),
                body.source,
            )
            for k, body in enumerate(self.bodies, 1)
        ]
        if len(loops) > MOST_ROWS:
            skipped = len(loops) - MOST_ROWS
            between = self.bodies[MOST_ROWS - LAST_ROWS : -LAST_ROWS]
            left = sum(body.operations * (body.instances if body.by_kind else 1) for body in between)
            more = (f"… {skipped:,} more", "", amount(left) + " in all", "", "", "")
            loops = [*loops[: MOST_ROWS - LAST_ROWS], more, *loops[-LAST_ROWS:]]
        headings = ("loop", "instances", "operations each", "operands", "results", "from")
        cases: tuple[RenderableType, ...] = ("", cases_table(self.cases)) if self.cases else ()
        return Group(
            text(f"{self.title} of {self.name}", style="bold"), "", key_values(self._facts()), "",
            table(headings, loops), "", key_values(self._program()), *cases,
        )  # fmt: skip
