"""The report on a derivative: its costs, the reason for the plan, and the time of the preparation.

**Comparison.** Plans of several methods for one graph, side by side: their costs under every objective, and the time to
find them.

Forward and reverse elimination can need far more products than the chosen plan. An upper bound is known in advance:
every vertex has at most as many derivatives as there are terminals (roots). Methods whose bound exceeds `LARGEST_SWEEP`
products are left out of reports.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from itertools import groupby
from os import PathLike
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from accumulus.elimination.emit import emit
from accumulus.errors import TimeLimitWarning
from accumulus.frontends.decisions import Guard
from accumulus.graph.graph import DifferentiationGraph
from accumulus.methods import PROOFS
from accumulus.options import Objective
from accumulus.rewriting.canonical import canonical
from accumulus.search.find import plan
from accumulus.search.plan import Plan
from accumulus.show.tables import (
    amount,
    as_html,
    change,
    counted,
    duration,
    key_values,
    percent,
    plain_text,
    shape_text,
    table,
    text,
)
from accumulus.tape.operations import OPERATIONS, Operation
from accumulus.tape.prices import WRITTEN
from accumulus.tape.tape import Tape

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table

    from accumulus.programs.measured import Speed
    from accumulus.resubstitution.identities import Identity
    from accumulus.resubstitution.optimise import ByValue
    from accumulus.show.tables import Compiled


#: Methods without a search, which every report compares with the chosen one.
SWEEPS: Final = ("forward", "reverse", "markowitz")
#: Largest bound on the products of a method that a report counts; counting takes about two seconds. A larger one delays
#: reports, a smaller one leaves the method out of them.
LARGEST_SWEEP: Final = 2_000_000
#: Fraction of the time to prepare a derivative that its report takes at most for a lower bound: a larger one makes
#: reports take longer, a smaller one leaves out the bound more often.
BOUND: Final = 0.25


@dataclass(frozen=True, slots=True)
class MethodCosts:
    """One method's plan for a graph: its costs, and the seconds that finding it took.

    Operations are counted on the plan's tape before rewriting.
    """

    method: str
    fma: int
    multiplications: int
    operations: int
    seconds: float = 0.0
    lower_bound: int | None = None

    @classmethod
    def of(cls, plan: Plan, method: str | None = None) -> MethodCosts:
        """Return the costs of a plan, under the name `method` or the plan's own."""
        return cls(method or plan.method, **plan.costs, seconds=plan.seconds, lower_bound=plan.lower_bound)

    def cost(self, objective: str) -> int:
        """Return the cost under one objective."""
        return int(getattr(self, Objective.of(objective).counted))

    def to_dict(self) -> dict[str, Any]:
        """Return the costs as plain data."""
        return asdict(self)


def compared(graph: DifferentiationGraph, methods: Iterable[str], **options: Any) -> Iterator[MethodCosts]:
    """Plan with each method in turn; leave out methods that do not finish in their time.

    Args:
        graph: graph to plan.
        methods: names of the methods.
        options: as for `accumulus.plan`; the cache is not used, so that times include the search.
    """
    for method in methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TimeLimitWarning)
            candidate = plan(graph, method=method, **{"cache": False, **options})
        if method in ("auto", candidate.method):
            yield MethodCosts.of(candidate, method)


def small_enough(graph: DifferentiationGraph, method: str) -> bool:
    """Return True if a report counts this method, see the module's docstring."""
    ends = {"forward": len(graph.terminals), "reverse": len(graph.roots)}.get(method, 1)
    return len(graph.sources) * ends <= LARGEST_SWEEP


def comparison_table(candidates: Iterable[MethodCosts], chosen: str | None = None) -> Table:
    """Return a table with a row for each candidate; the chosen one is highlighted."""
    rows = [
        (
            candidate.method,
            amount(candidate.fma),
            amount(candidate.multiplications),
            amount(candidate.operations),
            duration(candidate.seconds),
        )
        for candidate in candidates
    ]
    headings = ("method", "fma", "multiplications", "operations", "found in")
    return table(headings, rows, marked=chosen)


def distinct(candidates: Sequence[MethodCosts], objective: str, count: int) -> list[MethodCosts]:
    """Return the forward, reverse, Markowitz and automatic candidates and the best others, by cost.

    Of candidates with equal costs, the quickest is returned.

    >>> costs = [MethodCosts("forward", 9, 9, 9), MethodCosts("a", 5, 5, 5, seconds=1.0), MethodCosts("b", 5, 5, 5)]
    >>> [each.method for each in distinct(costs, "fma", 2)]
    ['b', 'forward']
    """
    ranked = sorted(candidates, key=lambda each: (each.cost(objective), each.seconds))
    best = {(each.fma, each.multiplications, each.operations): each for each in reversed(ranked)}.values()
    always = [each for each in ranked if each.method in (*SWEEPS, "auto")]
    alternatives = [each for each in ranked if each in best and each not in always]
    return [each for each in ranked if each in always or each in alternatives[: max(count - len(always), 0)]]


def chosen_because(chosen: MethodCosts, alternatives: Iterable[MethodCosts], objective: str) -> str:
    """Return a comparison of the chosen plan with the others, and with the lower bound if it is known.

    >>> chosen = MethodCosts("vertex", 9, 6, 30, lower_bound=25)
    >>> chosen_because(chosen, [MethodCosts("forward", 12, 8, 40), MethodCosts("reverse", 12, 8, 40)], "operations")
    'vertex with 30 operations, 25 % fewer than forward and reverse. No order needs fewer than 25.'
    """
    cost = chosen.cost(objective)
    names_by_change: dict[str, list[str]] = {}
    for other in alternatives:
        if other.method != chosen.method:
            names_by_change.setdefault(change(cost, other.cost(objective)), []).append(other.method)
    phrases = [f"{words} {_listed(names)}" for words, names in names_by_change.items()]
    sentence = ", ".join([f"{chosen.method} with {amount(cost)} {objective}", *phrases])
    if chosen.lower_bound is None:
        return f"{sentence}."
    if chosen.lower_bound >= cost:
        return f"{sentence}. Proven optimal."
    return f"{sentence}. No order needs fewer than {amount(chosen.lower_bound)}."


def compared_with_best(cost: int, lower_bound: int) -> str:
    """Return a comparison of an order's multiplications with a lower bound on those of all orders of vertices.

    >>> compared_with_best(184, 172)
    'It takes 184 multiplications, and every order of vertices takes at least 172.'
    >>> compared_with_best(151, 151)
    'It takes 151 multiplications, and no order of vertices takes fewer.'
    """
    bound = (
        "no order of vertices takes fewer"
        if lower_bound >= cost
        else f"every order of vertices takes at least {lower_bound:,}"
    )
    return f"It takes {cost:,} multiplications, and {bound}."


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


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

    @classmethod
    def of(cls, program: Compiled) -> FunctionFacts:
        """Return the facts of `program`."""
        recording, options = program.recording, program.options
        return cls(
            argument_shapes=tuple(recording.argument_shapes),
            result_shapes=tuple(recording.result_shapes),
            operations=canonical(recording.tape).operations,
            target=options.target,
            dtype=options.dtype,
            lanes=program.kernel.lanes,
        )

    def rows(self) -> list[tuple[str, str]]:
        """Return names and texts for the head of the report."""
        return [
            ("arguments", ", ".join(map(shape_text, self.argument_shapes))),
            ("results", ", ".join(map(shape_text, self.result_shapes))),
            ("recorded", counted(self.operations, "operation")),
        ]

    def code(self) -> str:
        """Return a description of the compiled code: target, dtype and vector length."""
        lanes = f", vectors of {self.lanes} points" if self.lanes is not None and self.lanes > 1 else ""
        return f"{self.target}, {self.dtype}{lanes}"


@dataclass(frozen=True, slots=True)
class Subject:
    """The program and the function that a report is about, which its page reads; copies of a report lack them."""

    program: Compiled
    function: Callable[..., Any]

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


class Shown:
    """A report that can be printed, shown in notebooks and as a page, and converted to plain data.

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

    __slots__ = ()

    if TYPE_CHECKING:
        seconds: dict[str, float]
        cut_short: str
        unwatched: tuple[str, ...]
        changed: tuple[str, ...]
        subject: Subject | None
        measured: Speed | None

        def __rich__(self) -> Group: ...
        def _facts(self) -> list[tuple[str, str]]: ...
        def _program(self) -> list[tuple[str, str]]: ...

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        data: dict[str, Any] = asdict(replace(self, subject=None))  # type: ignore[type-var, call-overload]  # dataclasses
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

    def _preparation(self, from_cache: Collection[str] = ()) -> list[tuple[str, str]]:
        """Return the times of the stages, and notes on limits of the program."""
        stages = ", ".join(
            f"{stage} {duration(seconds)}{' (from cache)' if stage in from_cache else ''}"
            for stage, seconds in self.seconds.items()
        )
        rows = [("prepared in", f"{duration(sum(self.seconds.values()))}: {stages}")]
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


@dataclass(frozen=True, slots=True, repr=False)
class Report(Shown):
    """A plan, its costs and savings, and the program compiled from it.

    Attributes:
        name: name of the differentiated function, or of the graph.
        returns: name of the function of `accumulus` that makes the derivative: "jacobian", "gradient", ….
        title: description of the results.
        graph: size of the differentiation graph.
        jacobian_shape: entries of the results × entries of the differentiated arguments.
        nonzeros: number of structural nonzeros of the Jacobian.
        objective: quantity that the plan minimises.
        chosen: costs of the plan.
        others: costs of methods for comparison, counted for this report.
        uncounted: methods that were left out since they may need too many products.
        operations: operations of the program.
        emitted: operations of the plan's tape before rewriting; methods are compared by them.
        by_kind: operations of the program, by kind.
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
        measured: measured speed; None if the report was made without example arguments.
        subject: the program and the function, for `show`; None for a graph from a file, and in copies.
    """

    name: str
    returns: str
    title: str
    graph: GraphSize
    jacobian_shape: tuple[int, int]
    nonzeros: int
    objective: Objective
    chosen: MethodCosts
    others: tuple[MethodCosts, ...]
    uncounted: tuple[str, ...]
    operations: int
    emitted: int
    by_kind: dict[str, int]
    seconds: dict[str, float]
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
    measured: Speed | None = None
    subject: Subject | None = field(default=None, compare=False)

    @property
    def bodies(self) -> tuple[()]:
        """Bodies of loops, of which straight-line code has none; as in reports on loops."""
        return ()

    @classmethod
    def of(cls, program: Compiled) -> Report:
        """Return the report on `program`; planning the methods for comparison takes a moment.

        >>> import numpy as np, accumulus as acc
        >>> program = acc.gradient(lambda x: x @ x).compile(np.ones(3))
        >>> Report.of(program).operations == program.operations
        True
        """
        linearization, plan, by_value = program.facts.linearization, program.facts.plan, program.facts.by_value
        nonzeros_of_root = Counter(root for root, _ in plan.accumulation.entries)
        nonzeros = sum(nonzeros_of_root[root] for root in linearization.rows)
        if program.kind.symmetric:  # the plan has one triangle
            nonzeros = sum(len(block.rows) for block in program.blocks())
        return replace(
            cls.of_plan(plan, program.seconds, program.code.tape),
            name=program.name,
            emitted=_emitted(program),
            returns=program.kind.name,
            title=program.kind.title,
            from_cache=tuple(program.from_cache),
            cut_short=program.cut_short,
            jacobian_shape=(len(linearization.rows), len(linearization.columns)),
            nonzeros=nonzeros,
            function=FunctionFacts.of(program),
            differentiates=program.kind.derivatives,
            by_value=None if by_value is None else ByValueFacts.of(by_value),
            cases=(CaseFacts.of(program),) if program.recording.guards else (),
            written_out=program.recording.why_written,
            stages=program.facts.stages,
            theorem=program.facts.theorem or "",
        )

    @classmethod
    def of_plan(cls, plan: Plan, seconds: Mapping[str, float], tape: Tape | None = None) -> Report:
        """Return the report on a plan for a graph.

        Args:
            plan: the plan.
            seconds: time of each stage that ran.
            tape: the program; by default the plan's own tape.

        >>> import accumulus as acc
        >>> plan = acc.plan(acc.graphs.lion(), "vertex", "fma", cache=False)
        >>> Report.of_plan(plan, {}).chosen.fma
        12
        """
        graph = plan.graph
        program = canonical(emit(plan.accumulation)) if tape is None else tape
        methods = [method for method in SWEEPS if method != plan.method]
        counted = [method for method in methods if small_enough(graph, method)]
        return cls(
            name=graph.name,
            returns="jacobian",
            title="Jacobian",
            graph=GraphSize.of(graph),
            jacobian_shape=(len(graph.roots), len(graph.terminals)),
            nonzeros=len(plan.accumulation.entries),
            objective=plan.objective,
            chosen=MethodCosts.of(plan),
            others=tuple(compared(graph, counted, objective=plan.objective)),
            uncounted=tuple(method for method in methods if method not in counted),
            operations=program.operations,
            emitted=program.operations,
            by_kind=operations_by_kind(program),
            seconds=dict(seconds),
            cut_short="plan" if plan.cut_short else "",
            order_bound=_order_bound(plan),
        )

    def __rich__(self) -> Group:
        from rich.console import Group

        parts: list[RenderableType] = [text(self._title(), style="bold"), "", key_values(self._facts()), ""]
        if self.differentiates:
            parts.append(comparison_table([*self.others, self.chosen], self.chosen.method))
            if self.uncounted:
                parts.append(text(f"Not counted, since too large: {', '.join(self.uncounted)}.", style="dim"))
            reason = chosen_because(self.chosen, self.others, self.objective)
            if self.order_bound is not None:
                reason += f" {compared_with_best(self.chosen.multiplications, self.order_bound)}"
            parts += ["", text(f"Chosen, and verified against the graph: {reason}"), ""]
        parts.append(key_values(self._program()))
        if self.cases:
            parts += ["", cases_table(self.cases)]
        if self.written_out:
            parts += ["", text(f"Written out turn by turn: {self.written_out}")]
        return Group(*parts)

    def _title(self) -> str:
        return f"{self.title} of {self.name}"

    def _facts(self) -> list[tuple[str, str]]:
        if not self.differentiates:
            return [] if self.function is None else self.function.rows()
        rows, columns = self.jacobian_shape
        share = f", {percent(self.nonzeros, rows * columns)}" if rows * columns else ""
        facts = [
            ("graph", str(self.graph)),
            *([("by theorem", self.theorem)] if self.theorem else []),
            ("Jacobian", f"{rows}×{columns}, structural nonzeros: {amount(self.nonzeros)}{share}"),
        ]
        return facts if self.function is None else [*self.function.rows(), *facts]

    def _program(self) -> list[tuple[str, str]]:
        program = counted(self.operations, "operation")
        if self.function is not None and self.function.operations:
            ratio = self.operations / self.function.operations
            differences = self.jacobian_shape[1] + 1
            program += f", {ratio:.1f} times the function's own"
            if self.differentiates:
                program += f" (finite differences take {differences} times)"
        rows = [("program", program)]
        if self.emitted > self.operations:
            share = percent(self.emitted - self.operations, self.emitted)
            rows.append(("rewritten", f"from {counted(self.emitted, 'operation')} of the plan, {share} fewer"))
        if self.by_value is not None:
            rows += self.by_value.rows()
        rows += [("of these", ", ".join(f"{kind} {n}" for kind, n in self.by_kind.items()))]
        if self.function is not None:
            rows.append(("code", self.function.code()))
        return [*rows, *self._preparation(self.from_cache)]


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
