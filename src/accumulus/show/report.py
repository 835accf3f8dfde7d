"""The report on a derivative: its costs, the reason for the plan, and the time of the preparation.

There is one report, for straight-line code and for loops: straight-line code has one plan and no loops, a program of
loops has plans of their bodies. Of a program from a file, other methods are not compared, since it has no graphs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from itertools import groupby
from os import PathLike
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from accumulus.elimination.emit import emit
from accumulus.frontends.decisions import Guard
from accumulus.graph.graph import DifferentiationGraph
from accumulus.methods import PROOFS
from accumulus.options import Objective
from accumulus.rewriting.canonical import canonical
from accumulus.search.plan import BodyPlan, Plan
from accumulus.show.bodies import BodyFacts, bodies_of, kinds_of, loops_table, operations_by_kind
from accumulus.show.methods import Comparison, MethodCosts, chosen_because, compared_with_best, comparison_table
from accumulus.show.tables import (
    amount,
    as_html,
    counted,
    duration,
    key_values,
    percent,
    plain_text,
    shape_text,
    table,
    text,
)
from accumulus.tape.prices import WRITTEN

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

    from accumulus.programs.measured import Speed
    from accumulus.resubstitution.identities import Identity
    from accumulus.resubstitution.optimise import ByValue
    from accumulus.show.tables import Compiled


#: Fraction of the time to prepare a derivative that its report takes at most for a lower bound: a larger one makes
#: reports take longer, a smaller one leaves out the bound more often.
BOUND: Final = 0.25


# The report ----------------------------------------------------------------------------------------------------------


#: Number of identities that are printed, and characters of each.
IDENTITIES: Final = 3
IDENTITY_WIDTH: Final = 76


@dataclass(frozen=True, slots=True)
class ByValueFacts:
    """Facts about a program that resubstitution has rewritten.

    Attributes:
        outputs: number of outputs of the program.
        proved: number of outputs that are proved unchanged.
        error: upper bound on the probability that one of these has changed.
        tested: number of complex points at which all outputs were tested.
        identities: identities that the program relies on.
        unexplained: number of values without a known identity.
    """

    outputs: int
    proved: int
    error: float
    tested: int
    identities: tuple[Identity, ...] = ()
    unexplained: int = 0

    @classmethod
    def of(cls, by_value: ByValue) -> ByValueFacts:
        """Return the facts; proving and testing the program takes a moment."""
        proof = by_value.proof
        counts = len(proof.outputs), sum(proof.outputs), proof.error, by_value.tested
        return cls(*counts, tuple(by_value.identities), by_value.unexplained)

    def rows(self) -> list[tuple[str, str]]:
        """Return names and texts for the report."""
        same = f"tested at {counted(self.tested, 'point')}"
        if self.proved:
            which = "proved" if self.proved == self.outputs else f"{self.proved} of {self.outputs} proved"
            same = f"{which} (error < {_power(self.error)}), all {same}"
        rows = [("same results", same)]
        return [*rows, *self._identities()]

    def _identities(self) -> list[tuple[str, str]]:
        """Return rows for the report: the number of identities, and the first of them."""
        if not self.identities and not self.unexplained:
            return []
        proved = sum(each.is_proved for each in self.identities)
        count = f"{len(self.identities)}, proved: {proved}"
        if self.unexplained:
            count += f"; tested only: {counted(self.unexplained, 'value')}"
        first = [("", _shortened(str(each), IDENTITY_WIDTH)) for each in self.identities[:IDENTITIES]]
        more = [("", f"… and {len(self.identities) - IDENTITIES} more")] if len(self.identities) > IDENTITIES else []
        return [("identities", count), *first, *more]


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _power(error: float) -> str:
    """Return a power of ten above a probability.

    >>> _power(3e-21)
    '1e-20'
    """
    _, power = f"{error:.0e}".split("e")
    return f"1e{int(power) + 1}"


# Cases ---------------------------------------------------------------------------------------------------------------


#: Number of conditions of a case that are printed, and characters of each.
CONDITIONS: int = 6
CONDITION_WIDTH: int = 60


@dataclass(frozen=True, slots=True)
class Condition:
    """Decisions of a function at one line.

    Attributes:
        file, line, source: file, number and text of the line.
        answers: answers in order; equal questions are listed once.
    """

    file: str
    line: int
    source: str
    answers: tuple[str, ...]

    def __str__(self) -> str:
        position = f"({PurePath(self.file).name}:{self.line})"
        comparison = _comparison(self.source)
        if comparison is not None and self.answers in (("True",), ("False",)):
            holds = (self.answers == ("True",)) is comparison[1]
            return f"{'' if holds else 'not '}{_shortened(comparison[0], CONDITION_WIDTH)} {position}"
        runs = [(answer, len(list(run))) for answer, run in groupby(_HASH.sub("", each) for each in self.answers)]
        answers = ", ".join(f"{count} times {answer}" if count > 1 else answer for answer, count in runs)
        return f"{_shortened(self.source, CONDITION_WIDTH)} → {answers} {position}"


#: Hash at the end of a long answer, which tells cases apart.
_HASH: Final = re.compile(r" \([0-9a-f]{16}\)$")


def _comparison(source: str) -> tuple[str, bool] | None:
    """Return the comparison that a line decides on, and False if the line negates it; None for all other lines.

    >>> _comparison("if x[0] > 0:"), _comparison("return a if not s <= 1 else b"), _comparison("while a > 0 and b > 0:")
    (('x[0] > 0', True), ('s <= 1', False), None)
    """
    line = source.removeprefix("el")
    try:
        tree = ast.parse(f"{line} pass" if line.endswith(":") else line)
    except SyntaxError:
        return None
    tests = [node.test for node in ast.walk(tree) if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert)]
    if len(tests) != 1 or any(isinstance(node, ast.comprehension) for node in ast.walk(tree)):
        return None
    test, is_plain = tests[0], True
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, is_plain = test.operand, not is_plain
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], _ORDERS)):
        return None
    return ast.unparse(test), is_plain


#: Comparisons that ask one question.
_ORDERS: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


@dataclass(frozen=True, slots=True)
class CaseFacts:
    """One case of a function that decides on values.

    Attributes:
        conditions: conditions of the case, line by line, in the order of the decisions.
        operations: number of operations of its program.
        calls: number of calls at one point.
        points: number of points of batches.
    """

    conditions: tuple[Condition, ...]
    operations: int
    calls: int
    points: int

    @classmethod
    def of(cls, program: Compiled) -> CaseFacts:
        """Return the case of a program."""
        by_line: dict[tuple[str, int, str], list[str]] = {}
        for guard in program.recording.guards:
            by_line.setdefault(_line(guard), []).append(guard.answer)
        conditions = tuple(Condition(*line, tuple(answers)) for line, answers in by_line.items())
        return cls(conditions, program.operations, program.ran.calls, program.ran.points)


def _line(guard: Guard) -> tuple[str, int, str]:
    return guard.file, guard.line, guard.source


def cases_table(cases: Iterable[CaseFacts]) -> Table:
    """Return the cases as a table, the most frequent first."""
    rows = []
    for case in sorted(cases, key=lambda case: -(case.calls + case.points)):
        printed = [str(condition) for condition in case.conditions[:CONDITIONS]]
        if len(case.conditions) > CONDITIONS:
            printed.append(f"… and {len(case.conditions) - CONDITIONS} more lines")
        rows.append(("\n".join(printed), amount(case.operations), amount(case.calls), amount(case.points)))
    return table(("case", "operations", "calls", "points"), rows)


# The report ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GraphSize:
    """Numbers of vertices and edges of a differentiation graph."""

    roots: int
    intermediates: int
    terminals: int
    edges: int

    @classmethod
    def of(cls, graph: DifferentiationGraph) -> GraphSize:
        """Return the numbers of `graph`."""
        return cls(len(graph.roots), len(graph.intermediates), len(graph.terminals), len(graph.sources))

    def __str__(self) -> str:
        return (
            f"inputs {amount(self.terminals)}, intermediates {amount(self.intermediates)}, "
            f"outputs {amount(self.roots)}, edges {amount(self.edges)}"
        )


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """A recorded function, and the compiled code of its derivative.

    Attributes:
        has_loops: True if the code has loops over arrays.
        argument_shapes: shapes of all arguments; None for static ones.
        result_shapes: shapes of the function's results.
        operations: operations of the function itself.
        target, dtype: target and dtype of the compiled code.
        lanes: number of points in one vector instruction; None if unknown.
    """

    argument_shapes: tuple[tuple[int, ...] | None, ...]
    result_shapes: tuple[tuple[int, ...], ...]
    operations: int
    target: str
    dtype: str
    lanes: int | None
    has_loops: bool = False

    @classmethod
    def of(cls, program: Compiled) -> FunctionFacts:
        """Return the facts of `program`."""
        recording, options = program.recording, program.options
        scalars = recording.program.scalars
        return cls(
            argument_shapes=tuple(recording.argument_shapes),
            result_shapes=tuple(recording.result_shapes),
            operations=recording.program.operations if scalars is None else canonical(scalars).operations,
            target=options.target,
            dtype=options.dtype,
            lanes=program.kernel.lanes,
            has_loops=program.code.has_loops,
        )

    def rows(self) -> list[tuple[str, str]]:
        """Return names and texts for the head of the report."""
        rows = [
            ("arguments", ", ".join(map(shape_text, self.argument_shapes))),
            ("results", ", ".join(map(shape_text, self.result_shapes))),
        ]
        if self.operations:  # a program from a file lacks the function
            as_arrays = ", as operations on arrays" * self.has_loops
            rows.append(("recorded", counted(self.operations, "operation") + as_arrays))
        return rows

    def code(self) -> str:
        """Return a description of the compiled code: target, dtype and vector length."""
        if self.has_loops:
            return f"{self.target}, {self.dtype}, a loop for each body"
        lanes = f", vectors of {self.lanes} points" if self.lanes is not None and self.lanes > 1 else ""
        return f"{self.target}, {self.dtype}{lanes}"


@dataclass(frozen=True, slots=True)
class Subject:
    """The program and the function that a report is about, which its page reads; copies of a report lack them."""

    program: Compiled
    function: Callable[..., Any]

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """A program, its plans, their costs and savings; it can be printed, shown as a page, and converted to plain data.

    Attributes:
        name: name of the differentiated function, or of the graph.
        returns: name of the function of `accumulus` that makes the derivative: "jacobian", "gradient", ….
        title: description of the results.
        jacobian_shape: entries of the results × entries of the differentiated arguments.
        nonzeros: number of structural nonzeros of the Jacobian.
        operations: operations of the program, of all instances of loops.
        by_kind: the same, by kind.
        bodies: the loops of the program, in order; empty for straight-line code.
        products: number of products of derivatives between arrays.
        graph: size of the differentiation graph of straight-line code; else None.
        objective: quantity that the plans minimise.
        chosen: costs of the plans, of all instances of loops; None if nothing was planned.
        others: costs of methods for comparison, counted for this report.
        uncounted: methods that were left out since they may need too many products.
        emitted: operations of the plan's tape before rewriting; methods are compared by them.
        seconds: time of each stage of the preparation.
        from_cache: stages whose results were taken from the cache.
        function: the recorded and compiled function; None for a graph from a file.
        cut_short: stage in which the clock ended a search, so that another run may find another program; or empty.
        unwatched: descriptions of captured objects whose changes may be missed.
        changed: side effects of the function at its recording, which compiled code does not repeat.
        differentiates: True if derivatives are computed, not only the function.
        by_value: facts about a program that resubstitution has rewritten.
        cases: all cases for arguments of these shapes, if the function decides on values; all other attributes
            describe the last one.
        written_out: reason why a long loop in Python was unrolled, and code to use instead.
        stages: names of the stages of rewriting, and the operations that each left.
        theorem: theorem that gives derivatives of some values, so that the graph is another one; or empty.
        order_bound: multiplications that every order of the graph takes at least; None if the plan is no order or has
            a lower bound of its own, or if the bound would take more than a tenth of the preparation.
        from_file: True if the program was loaded from a file, which has costs of its plans alone.
        measured: measured speed; None if the report was made without example arguments.
        subject: the program and the function, for `show`; None for a graph from a file, and in copies.

    >>> import numpy as np, accumulus as acc
    >>> jac = acc.jacobian(lambda x: np.array([x[0] * x[1], np.sin(x[0])]))
    >>> report = jac.report(np.ones(2))
    >>> report.splitlines()[0], report.rows()[0][0], report.to_dict()["operations"]
    ('Jacobian of <lambda>', 'arguments', 1)
    >>> report.show("report.html")  # doctest: +SKIP
    PosixPath('report.html')
    >>> report.plot("stages")  # doctest: +SKIP
    <Axes: title={'center': 'Jacobian of <lambda>'}, xlabel='operations'>
    """

    name: str
    returns: str
    title: str
    jacobian_shape: tuple[int, int]
    nonzeros: int
    operations: int
    by_kind: dict[str, int]
    seconds: dict[str, float]
    bodies: tuple[BodyFacts, ...] = ()
    products: int = 0
    graph: GraphSize | None = None
    objective: Objective = Objective.OPERATIONS
    chosen: MethodCosts | None = None
    others: tuple[MethodCosts, ...] = ()
    uncounted: tuple[str, ...] = ()
    emitted: int = 0
    from_cache: tuple[str, ...] = ()
    function: FunctionFacts | None = None
    cut_short: str = ""
    unwatched: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    differentiates: bool = True
    by_value: ByValueFacts | None = None
    cases: tuple[CaseFacts, ...] = ()
    written_out: str = ""
    stages: tuple[tuple[str, int], ...] = ()
    theorem: str = ""
    order_bound: int | None = None
    from_file: bool = False
    measured: Speed | None = None
    subject: Subject | None = field(default=None, compare=False)

    @classmethod
    def of(cls, program: Compiled) -> Report:
        """Return the report on `program`; planning the methods for comparison takes a moment.

        >>> import numpy as np, accumulus as acc
        >>> program = acc.gradient(lambda x: x @ x).compile(np.ones(3))
        >>> Report.of(program).operations == program.operations
        True
        >>> program = acc.gradient(lambda x: np.sum(np.sin(x))).compile_loops(np.ones(10_000))
        >>> report = Report.of(program)
        >>> report.nonzeros, len(report.bodies)
        (10000, 1)
        """
        facts, by_value = program.facts, program.facts.by_value
        summary = cls(
            name=program.name,
            returns=program.kind.name,
            title=program.kind.title,
            jacobian_shape=facts.jacobian_shape,
            nonzeros=facts.nonzeros,
            operations=program.operations,
            by_kind=kinds_of(program.code),
            seconds=dict(program.seconds),
            bodies=bodies_of(program.code),
            products=facts.products,
            objective=program.options.objective,
            emitted=program.operations if facts.plan is None else _emitted(program),
            from_cache=tuple(program.from_cache),
            function=FunctionFacts.of(program),
            cut_short=program.cut_short,
            differentiates=program.kind.derivatives,
            by_value=None if by_value is None else ByValueFacts.of(by_value),
            cases=(CaseFacts.of(program),) if program.recording.guards else (),
            written_out=program.recording.why_written,
            stages=facts.stages,
            theorem=facts.theorem or "",
        )
        if facts.found is not None:
            return replace(summary, chosen=facts.found[0], objective=facts.found[1], from_file=True)
        return summary._compared(facts.bodies) if facts.bodies else summary

    @classmethod
    def of_plan(cls, plan: Plan, seconds: Mapping[str, float]) -> Report:
        """Return the report on a plan for a graph.

        Args:
            plan: the plan.
            seconds: time of each stage that ran.

        >>> import accumulus as acc
        >>> plan = acc.plan(acc.graphs.lion(), "vertex", "fma", cache=False)
        >>> Report.of_plan(plan, {}).chosen.fma
        12
        """
        graph, program = plan.graph, canonical(emit(plan.accumulation))
        summary = cls(
            name=graph.name,
            returns="jacobian",
            title="Jacobian",
            jacobian_shape=(len(graph.roots), len(graph.terminals)),
            nonzeros=len(plan.accumulation.entries),
            operations=program.operations,
            by_kind=operations_by_kind(program),
            seconds=dict(seconds),
            emitted=program.operations,
            cut_short="plan" if plan.cut_short else "",
        )
        return summary._compared([BodyPlan(1, b"", plan, frozenset())])

    def _compared(self, bodies: Sequence[BodyPlan]) -> Report:
        """Return the report with the costs of the plans of bodies, and of other methods."""
        compared = Comparison.of(bodies)
        chosen, others, uncounted = compared.chosen, compared.others, compared.uncounted
        summary = replace(self, chosen=chosen, others=others, uncounted=uncounted, objective=compared.objective)
        if self.has_loops:
            return summary
        plan = bodies[0].plan
        return replace(summary, graph=GraphSize.of(plan.graph), order_bound=_order_bound(plan))

    @property
    def has_loops(self) -> bool:
        """True if the code has loops over arrays."""
        return self.function is not None and self.function.has_loops

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        data: dict[str, Any] = asdict(replace(self, subject=None))
        del data["subject"]
        return data

    def show(self, path: str | PathLike[str] | None = None) -> Any:
        """Show the report as a page, with the operations by source line and output, and the costs behind the plan.

        Args:
            path: file to write; by default the page is opened, inline in a notebook.

        Returns:
            The file; in a notebook without a path, the displayed page.

        Raises:
            ArgumentError: if the file cannot be written; the message names another file with the page.
        """
        # imported by name, since the page depends on this module
        return import_module("accumulus.show.report_page").show_report(self, path)

    def _repr_html_(self) -> str:
        return as_html(self.__rich__())

    def plot(self, kind: str = "methods", ax: Any = None) -> Any:
        """Plot a part of the report with matplotlib.

        Args:
            kind: "methods", costs of the plan and of other methods; "stages", operations after each stage of rewriting;
                "lines", operations by line of the source; "pattern", structural nonzeros with the operations that each
                needs; for a report with measured speed "sizes", time against the size of a batch, or "roofline",
                operations per second against the limits of the machine.
            ax: axes to draw on; by default those of a new figure.

        Returns:
            The axes.

        Raises:
            UnknownNameError: for an unknown plot.
            ArgumentError: if matplotlib is not installed, or the report does not have the numbers.
        """
        # imported by name, since the plots depend on this module
        return import_module("accumulus.show.plots").plot(self, kind, ax)

    def __str__(self) -> str:
        return plain_text(self.__rich__())

    def __repr__(self) -> str:
        return str(self)

    def __contains__(self, text: str) -> bool:
        """Return True if the printed report contains a text."""
        return text in str(self)

    def splitlines(self) -> list[str]:
        """Return the lines of the printed report."""
        return str(self).splitlines()

    def rows(self) -> list[tuple[str, str]]:
        """Return the printed rows of names and texts."""
        return [*self._facts(), *self._program()]

    def __rich__(self) -> Group:
        from rich.console import Group

        title = text(f"{self.title} of {self.name}" + ", from a file" * self.from_file, style="bold")
        parts: list[RenderableType] = [title, "", key_values(self._facts()), ""]
        if self.has_loops:
            parts += [loops_table(self.bodies), ""]
        if self.differentiates and self.chosen is not None:
            parts.append(comparison_table([*self.others, self.chosen], self.chosen.method))
            if self.uncounted:
                parts.append(text(f"Not counted, since too large: {', '.join(self.uncounted)}.", style="dim"))
            reason = chosen_because(self.chosen, self.others, self.objective)
            if self.order_bound is not None:
                reason += f" {compared_with_best(self.chosen.multiplications, self.order_bound)}"
            graphs = "the graphs of the loops' bodies" if self.has_loops else "the graph"
            verified = "" if self.from_file else f", and verified against {graphs}"
            parts += ["", text(f"Chosen{verified}: {reason}"), ""]
        parts.append(key_values(self._program()))
        if self.cases:
            parts += ["", cases_table(self.cases)]
        if self.written_out:
            parts += ["", text(f"Written out turn by turn: {self.written_out}")]
        return Group(*parts)

    def _facts(self) -> list[tuple[str, str]]:
        facts = [] if self.function is None else self.function.rows()
        if not self.differentiates:
            return facts
        rows, columns = self.jacobian_shape
        share = f", {percent(self.nonzeros, rows * columns)}" if rows * columns else ""
        if self.graph is not None:
            facts.append(("graph", str(self.graph)))
        if self.theorem:
            facts.append(("by theorem", self.theorem))
        size = f"{amount(rows)}×{amount(columns)}"
        return [*facts, ("Jacobian", f"{size}, structural nonzeros: {amount(self.nonzeros)}{share}")]

    def _program(self) -> list[tuple[str, str]]:
        program = counted(self.operations, "operation")
        if self.function is not None and self.function.operations:
            ratio = self.operations / self.function.operations
            differences = self.jacobian_shape[1] + 1
            program += f", {ratio:.1f} times the function's own"
            if self.differentiates:
                program += f" (finite differences take {amount(differences)} times)"
        rows = [("program", program)]
        if self.has_loops and self.differentiates:
            rows.insert(0, ("between bodies", counted(self.products, "product") + " of derivatives"))
        if self.emitted > self.operations:
            share = percent(self.emitted - self.operations, self.emitted)
            rows.append(("rewritten", f"from {counted(self.emitted, 'operation')} of the plan, {share} fewer"))
        if self.by_value is not None:
            rows += self.by_value.rows()
        rows += [("of these", ", ".join(f"{kind} {amount(n)}" for kind, n in self.by_kind.items()))]
        if self.function is not None:
            rows.append(("code", self.function.code()))
        return [*rows, *self._preparation()]

    def _preparation(self) -> list[tuple[str, str]]:
        """Return the times of the stages, and notes on limits of the program."""
        stages = ", ".join(
            f"{stage} {duration(seconds)}{' (from cache)' if stage in self.from_cache else ''}"
            for stage, seconds in self.seconds.items()
        )
        rows = [("prepared in", f"{duration(sum(self.seconds.values()))}: {stages}")] if self.seconds else []
        if self.cut_short:
            said = "the clock ran out; a longer time_limit, or a machine that is less busy, gives the same program"
            rows.append(("cut short", f"at {self.cut_short}: {said} everywhere"))
        rows += [("not watched", subject) for subject in self.unwatched]
        rows += [("side effects", f"changes of {subject}, at the recording only") for subject in self.changed]
        if self.measured is not None:
            speed = self.measured
            best = duration(min(speed.seconds))
            words = f"{duration(speed.call)} a call, {best} a point of a batch on one thread ({speed.machine})"
            rows.append(("measured", words))
        return rows


def _order_bound(plan: Plan) -> int | None:
    """Return a lower bound on the multiplications of all orders, if it takes few of the seconds of preparing."""
    if plan.order is None or plan.lower_bound is not None or not (plan.objective.on_tape and plan.graph.wants_all):
        return None
    preparing = WRITTEN.cost(plan.costs[Objective.OPERATIONS], 0).prepare
    bound: int | None = import_module(PROOFS).bound_of_orders(plan.graph, Objective.MULTIPLICATIONS, BOUND * preparing)
    return bound


def _emitted(program: Compiled) -> int:
    """Return the number of operations of the program's plan before rewriting."""
    tape = emit(program.facts.plan.accumulation)
    if not program.kind.values:
        del tape.outputs[: program.recording.results]
    return canonical(tape).operations
