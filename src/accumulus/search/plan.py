"""Plans with their accumulation, origin and cost; plans as JSON files, and in the cache.

**Files.** `save_plan` writes a file; `load_plan` reads, checks and verifies it. A file contains the graph by numbers,
with its tape if it comes from a function, the accumulation of the Jacobian, and the method and options of the search.
``docs/plans.md`` describes the format key by key; `VERSION` counts its changes. Nothing in a file is executed.
References must exist, the cost is counted again, and the plan is verified with random residues that the author of the
file could not know. Only the lower bound and the origin of the plan cannot be checked.

Time: linear in the file, as for the verification of a plan.

**Keys.** The graph without its names, the options, and the version of the search code determine a plan. Two graphs have
the same hash (`graph_hash`) if they have the same numbered vertices and edges: ends of each edge, kinds and known
values of the labels, sizes, order of roots and terminals, mirror, and selected entries. If the labels come from a tape,
the tapes must be equal, too, since the cost of a plan includes the function's operations. Names of vertices and of the
graph do not matter; symbols matter only by their equality. So the same function traced again has the same hash, in
every process. A statement about a graph in terms of vertex numbers, such as an order, holds for every graph with the
same hash.

Gap: the same graph with other vertex or edge numbers has another hash. To recognise it, graph isomorphism would have to
be solved. Nor would that suffice, since searches break ties by number and may find another plan.

Time: linear in the graph and the tape; 0.1 ms for a few hundred operations.

**The cache.** The key of a plan is a hash of its graph, its method, all options of the search, including seed and time
limit, the work that remains for the search, and the version of the search code. So a search would find the plan that is
loaded, and a seed gives the same plan with and without the cache. The work of the search is stored with the plan and
spent again when it is loaded, so that later stages have the same work left. The plan of a search that was interrupted,
or cut short by the clock, is not stored.

Each plan is JSON in a file of the cache (`accumulus.cache`). A loaded plan is checked and verified like a plan file; if
the file is damaged, a new search replaces it. Without a writable cache every plan is searched.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus import cache
from accumulus.cache import digest_of_parts, version_of
from accumulus.context import Context
from accumulus.elimination.accumulation import Accumulation, Steps
from accumulus.elimination.emit import count
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.errors import ArgumentError, GraphError, OrderError, PlanError, VerificationError
from accumulus.graph.files import LARGEST_NUMBER, check_keys, graph_as_data, graph_from_data, parsed_json, whole_numbers
from accumulus.graph.graph import DifferentiationGraph
from accumulus.options import COUNTED, OF_PLANS, TIME_WAS_REMOVED, Effort, Objective
from accumulus.tape.tape import to_bytes
from accumulus.text import printable


@dataclass(frozen=True)
class Plan:
    """A verified accumulation of a graph's Jacobian, and its origin.

    Attributes:
        graph: the differentiation graph.
        accumulation: the products and sums.
        method: name of the method that found the plan; for "auto" the method that won, "order" for an elimination order
            of the caller.
        objective: name of the minimised cost.
        cost: cost under the objective.
        order: intermediate vertices by number, if the plan is a vertex elimination.
        lower_bound: lower bound for the eliminations of the plan's `scope`; None if no bound is known.
        seconds: duration of the search that found the plan.
        seed: seed of the search.
        effort, time_limit: options of the search; also the defaults of programs that are compiled with this plan.
        cut_short: True if the clock ended the search before its work was done, so that another run may find another
            plan.
        recalled: True if the plan was loaded from the cache.

    >>> from accumulus import plan
    >>> swept = plan(DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x")]), "reverse", "fma")
    >>> swept.method, swept.cost, swept.costs[Objective.MULTIPLICATIONS]
    ('reverse', 4, 4)
    >>> swept.verify()
    >>> swept.show("page.html")  # doctest: +SKIP
    PosixPath('page.html')
    """

    graph: DifferentiationGraph
    accumulation: Accumulation
    method: str
    objective: Objective
    cost: int
    order: tuple[int, ...] | None = None
    lower_bound: int | None = None
    seconds: float = field(default=0.0, compare=False)
    seed: int = 0
    effort: Effort = field(default="balanced", compare=False)
    time_limit: float = field(default=2.0, compare=False)
    recalled: bool = field(default=False, compare=False)
    cut_short: bool = field(default=False, compare=False)

    @cached_property
    def costs(self) -> dict[Objective, int]:
        """Cost under every objective."""
        return {
            objective: self.cost if objective == self.objective else count(self.accumulation, objective)
            for objective in COUNTED
        }

    @property
    def scope(self) -> str:
        """Return the class of eliminations for which `lower_bound` holds: "vertex", "edge" or "face".

        Each class contains the previous one, so a bound for face eliminations holds for all three. A method that shares
        and factors in other ways could be cheaper than the best face elimination; no such case is known.
        """
        return {"exact-vertex": "vertex", "exact-edge": "edge"}.get(self.method, "face")

    @property
    def is_optimal(self) -> bool:
        """Return True if the plan meets its lower bound, so no elimination of the plan's `scope` is cheaper.

        Labels count by kind. A sum of constants counts as a constant even if it happens to be ±1; only known numbers on
        parallel edges of the graph count by their sum.

        >>> from accumulus import plan
        >>> graph = DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x")])
        >>> plan(graph, "exact-vertex").is_optimal
        True
        """
        return self.lower_bound is not None and self.cost <= self.lower_bound

    @property
    def gap(self) -> float | None:
        """Return the largest fraction of the cost that a better elimination could save: (cost − bound) / cost.

        The gap is 0 if the plan is optimal, and None if no lower bound is known.
        """
        if self.lower_bound is None:
            return None
        return (self.cost - self.lower_bound) / self.cost if self.cost else 0.0

    def verify(self) -> None:
        """Check that the plan computes its graph's Jacobian, and that its order, cost and lower bound are consistent.

        `Accumulation.verify` checks the Jacobian. The cost is counted again, except under objectives that count the
        operations of the emitted tape, which would take longer than all other checks.

        Raises:
            VerificationError: if the Jacobian or an attribute is wrong.
        """
        self.accumulation.verify()
        if self.accumulation.graph is not self.graph:
            raise VerificationError("the plan's accumulation is for another graph than the plan; make the plan again")
        if self.order is not None and sorted(self.order) != list(self.graph.intermediates):
            raise VerificationError(f"the plan's order is {self.order!r:.60}; expected every intermediate vertex once")
        counted = self.cost if self.objective.on_tape else count(self.accumulation, self.objective)
        if counted != self.cost or (self.lower_bound is not None and self.lower_bound > self.cost):
            raise VerificationError(
                f"the plan states a cost of {self.cost} {self.objective} and a lower bound of {self.lower_bound}; its "
                f"cost is {counted}"
            )

    def show(self, path: str | PathLike[str] | None = None) -> Any:
        """Show the steps of the plan on the graph, the line graph and expressions, as an HTML page.

        Args:
            path: file for the page. If its name ends in .svg, .pdf, .png, .tex or .dot, a picture of the graph is
                written instead. If None, the page opens in a browser, or inline in a notebook.

        Returns:
            The file, or the object that the notebook displays.

        Raises:
            ArgumentError: if the file cannot be written; the message names a file that has the page instead.
        """
        # imported by name to avoid a circular import
        return import_module("accumulus.show.explorer").show_plan(self, path)

    def __str__(self) -> str:
        name = f" of {self.graph.name}" if self.graph.name else ""
        return printable(f"plan{name} by {self.method}: {self.cost} {self.objective}")

    def _repr_html_(self) -> str:
        from accumulus.text import facts, paragraph, stacked

        bound = "proven optimal" if self.is_optimal else f"{self.lower_bound:,}" if self.lower_bound else "not known"
        costs = ", ".join(f"{cost:,} {objective}" for objective, cost in self.costs.items())
        graph = f"{len(self.graph.vertices):,} vertices, {len(self.graph.sources):,} edges"
        pairs = [
            ("method", self.method), ("minimised", f"{self.cost:,} {self.objective}"), ("lower bound", bound),
            ("costs", costs), ("graph", graph), ("steps", f"{len(self.accumulation.steps):,}"),
        ]  # fmt: skip
        title = f"Plan of {self.graph.name}" if self.graph.name else "Plan"
        return stacked(paragraph(title, bold=True), facts(pairs))

    def __repr__(self) -> str:
        return f"<{self}>"


FORMAT: Final = "accumulus plan"
#: Version of the file format; raised by every change that an older reader would misread.
VERSION: Final = 1

_FOUND: Final = ("method", "objective", "cost", "lower_bound", "seed", "seconds", "order", "steps", "entries")
#: Key that is present only if its value is true.
_CUT_SHORT: Final = "cut_short"
_KEYS: Final = ("format", "version", "accumulus", "graph", *_FOUND, _CUT_SHORT)
#: Largest plausible duration of a search in seconds, beyond any real one: files with more are rejected as damaged.
_LONGEST: Final = 1e12
_SIGNS: Final = {True: "*", False: "+"}


@dataclass(frozen=True, slots=True)
class BodyPlan:
    """The plan of a loop's body, for reports."""

    count: int  # number of instances
    body: bytes  # the function's own body
    plan: Plan
    lines: frozenset[tuple[str, int]]  # files and lines of the source


def save_plan(plan: Plan, path: str | PathLike[str]) -> None:
    """Write a plan and its graph to a JSON file that `load_plan` reads.

    ``docs/plans.md`` describes the format.

    Args:
        plan: plan to write.
        path: path of the file.

    Raises:
        OSError: if the file cannot be written.

    >>> import tempfile
    >>> from accumulus import plan
    >>> best = plan(DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x")]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_plan(best, f"{folder}/plan.json")
    ...     load_plan(f"{folder}/plan.json").cost == best.cost
    True
    """
    head = {"format": FORMAT, "version": VERSION, "accumulus": version_of("accumulus")}
    text = _text({**head, **plan_as_data(plan), "graph": graph_as_data(plan.graph)})
    Path(path).write_text(text, encoding="utf-8")


def load_plan(path: str | PathLike[str], graph: DifferentiationGraph | None = None) -> Plan:
    """Read a plan from a file that `save_plan` wrote, check it and verify it.

    Args:
        path: file that `save_plan` wrote.
        graph: graph for the plan, with the same numbered vertices and edges as the file's graph. So a trace of the same
            function can be compiled with the plan. Values of constants and names may differ; the cost is counted on
            this graph. By default the plan gets the file's graph.

    Raises:
        PlanError: if the file has not the format of ``docs/plans.md``, the cost is wrong, the plan does not compute the
            Jacobian of its graph, or the plan is for a graph other than `graph`.
        ArgumentError: if `graph` is not a graph.
        OSError: if the file cannot be read.

    >>> load_plan("plan.json").cost  # doctest: +SKIP
    4
    """
    if graph is not None and not isinstance(graph, DifferentiationGraph):
        raise ArgumentError(f"graph is a {type(graph).__name__}; expected a DifferentiationGraph that the plan is for")
    data = parsed_json(path, PlanError, infinite=False)
    try:
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise PlanError(f'expected an object with "format": "{FORMAT}", as save_plan writes it')
        version = data.get("version")
        if type(version) is not int or version < 1:
            raise PlanError(f"'version' is {shortened(version)}; expected a whole number from 1 to {VERSION}")
        if version > VERSION:
            raise PlanError(
                f"its form has version {version}, this accumulus reads up to {VERSION}; install a newer one"
            )
        check_keys(data, _KEYS, "the file", PlanError)
        loaded = plan_from_data(data, graph_from_data(data.get("graph")))
        return loaded if graph is None else _moved(loaded, graph)
    except (GraphError, PlanError) as error:
        raise PlanError(f"{path}: {error}") from None


def is_plan_file(path: str | PathLike[str]) -> bool:
    """Return True if a file declares itself a plan; it may still be malformed."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            return re.match(rf'\s*\{{\s*"format"\s*:\s*"{FORMAT}"', file.read(200)) is not None
    except (OSError, ValueError):
        return False


def plan_as_data(plan: Plan) -> dict[str, Any]:
    """Return a plan without its graph as plain data.

    The accumulation is stored as an order if the order determines it, else as its steps.
    """
    accumulation = plan.accumulation
    data: dict[str, Any] = {
        "method": plan.method,
        "objective": plan.objective,
        "cost": int(plan.cost),
        "lower_bound": None if plan.lower_bound is None else int(plan.lower_bound),
        "seed": int(plan.seed),
        "seconds": float(plan.seconds),
        "order": None if plan.order is None else [int(v) for v in plan.order],
    }
    if plan.order is None or eliminate_vertices(plan.graph, plan.order) != accumulation:
        data["steps"] = [[_SIGNS[bool(is_product)], left, right] for is_product, left, right in accumulation.steps]
        data["entries"] = [[row, column, entry] for (row, column), entry in accumulation.entries.items()]
    return data | {_CUT_SHORT: True} if plan.cut_short else data


def plan_from_data(data: Mapping[str, Any], graph: DifferentiationGraph) -> Plan:
    """Return the plan for `graph` from plain data, checked and verified.

    Raises:
        PlanError: if an item is wrong; the message names it.
    """
    method, objective = data.get("method"), data.get("objective")
    if not isinstance(method, str) or not method:
        raise PlanError(f"'method' is {shortened(method)}; expected a name")
    names = [member.value for member in COUNTED]
    if objective == "time":
        raise PlanError(f"{TIME_WAS_REMOVED}, and make the plan again")
    if objective not in names:
        raise PlanError(f"'objective' is {shortened(objective)}; expected {' or '.join(map(repr, names))}")
    cost, bound, seed = data.get("cost"), data.get("lower_bound"), data.get("seed")
    if type(cost) is not int:
        raise PlanError(f"'cost' is {shortened(cost)}; expected a whole number")
    if bound is not None and (type(bound) is not int or not 0 <= bound <= cost):
        raise PlanError(
            f"'lower_bound' is {shortened(bound)}; expected null or a whole number from 0 to the cost {cost}"
        )
    if type(seed) is not int:
        raise PlanError(f"'seed' is {shortened(seed)}; expected a whole number")
    seconds = data.get("seconds")
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds <= _LONGEST:
        raise PlanError(f"'seconds' is {shortened(seconds)}; expected a number of at least 0")
    order = data.get("order")
    if order is not None:
        order = tuple(whole_numbers(order, "order", len(graph.vertices), PlanError))
    accumulation = _read_accumulation(data, graph, order)
    counted = count(accumulation, objective)
    if counted != cost:
        raise PlanError(f"'cost' is {cost}, but the plan costs {counted} {objective}")
    cut_short = data.get(_CUT_SHORT, False)
    if not isinstance(cut_short, bool):
        raise PlanError(f"'{_CUT_SHORT}' is {shortened(cut_short)}; expected true or false")
    return Plan(
        graph, accumulation, method, Objective(objective), cost, order, bound, float(seconds), seed, cut_short=cut_short
    )


def _read_accumulation(
    data: Mapping[str, Any], graph: DifferentiationGraph, order: tuple[int, ...] | None
) -> Accumulation:
    steps, entries = data.get("steps"), data.get("entries")
    try:
        if steps is None and entries is None:
            if order is None:
                raise PlanError("there is neither 'order' nor 'steps' and 'entries'; expected one of them")
            accumulation = eliminate_vertices(graph, order)
        else:
            if order is not None and sorted(order) != list(graph.intermediates):
                raise PlanError(f"'order' is {shortened(order)}; expected every intermediate vertex once")
            accumulation = Accumulation(graph, _read_steps(steps, graph), _read_entries(entries))
        accumulation.verify(seed=int.from_bytes(os.urandom(8), "little"))
    except OrderError as error:
        raise PlanError(f"'order': {error}") from None
    except VerificationError as error:
        reason = str(error).split(". This is")[0]
        raise PlanError(f"{reason}. The file was changed, or is not for this graph; make the plan again") from None
    return accumulation


def _read_steps(data: Any, graph: DifferentiationGraph) -> Steps:
    edges = len(graph.sources)
    steps = Steps(edges)
    if not isinstance(data, list):
        raise PlanError(f"'steps' is {shortened(data)}; expected a list of [sign, left, right]")
    for k, step in enumerate(data):
        if not isinstance(step, list) or len(step) != 3 or step[0] not in ("*", "+"):
            raise PlanError(f"steps[{k}] is {shortened(step)}; expected ['*' or '+', left, right]")
        sign, left, right = step
        if not (type(left) is type(right) is int and 0 <= left < edges + k and 0 <= right < edges + k):
            raise PlanError(f"steps[{k}] is {shortened(step)}; expected references from 0 to {edges + k - 1}")
        (steps.product if sign == "*" else steps.sum)(left, right)
    return steps


def _read_entries(data: Any) -> dict[tuple[int, int], int]:
    if not isinstance(data, list):
        raise PlanError(f"'entries' is {shortened(data)}; expected a list of [root, terminal, reference]")
    entries: dict[tuple[int, int], int] = {}
    for k, entry in enumerate(data):
        row, column, reference = whole_numbers(entry, f"entries[{k}]", LARGEST_NUMBER, PlanError, length=3)
        if (row, column) in entries:
            raise PlanError(f"entries[{k}] is {entry}; expected each root and terminal once")
        entries[row, column] = reference
    return entries


def _moved(plan: Plan, graph: DifferentiationGraph) -> Plan:
    """Return the plan for a graph with the same numbered vertices and edges, or raise `PlanError`."""
    mine = plan.graph
    for aspect, a, b in (
        ("number of vertices", len(mine.vertices), len(graph.vertices)),
        ("number of edges", len(mine.sources), len(graph.sources)),
        ("roots", mine.roots, graph.roots),
        ("terminals", mine.terminals, graph.terminals),
        ("edges", mine.sources.tolist(), graph.sources.tolist()),
        ("edges", mine.targets.tolist(), graph.targets.tolist()),
        ("kinds of the labels", mine.kinds.tolist(), graph.kinds.tolist()),
        ("sizes", mine.sizes.tolist(), graph.sizes.tolist()),
        ("mirrors", _listed(mine.mirror), _listed(graph.mirror)),
        ("selected entries", _listed(mine.selected), _listed(graph.selected)),
    ):
        if a != b:
            raise PlanError(
                f"the plan is for another graph than the one given: the {aspect} differ, {shortened(a)} and "
                f"{shortened(b)}; make a plan for this graph"
            )
    accumulation = Accumulation(graph, plan.accumulation.steps, plan.accumulation.entries)
    accumulation.verify()
    cost = count(accumulation, plan.objective)
    # a different cost means other operations, for which the bound does not hold
    same = cost == plan.cost and mine.constant_sums == graph.constant_sums
    bound = plan.lower_bound if same else None
    return replace(plan, graph=graph, accumulation=accumulation, cost=cost, lower_bound=bound)


def _listed(numbers: NDArray[Any] | None) -> list[Any] | None:
    return None if numbers is None else numbers.tolist()


def _text(data: Mapping[str, Any]) -> str:
    """Return JSON with a line for each key, also of nested objects; lists stay on one line."""
    lines = []
    for key, value in data.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(k)}: {_line(v)}" for k, v in value.items())
            lines.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {_line(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _line(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(", ", ": "))


def graph_hash(graph: DifferentiationGraph) -> str:
    """Return the hash of a graph, 32 hexadecimal digits; graphs that differ only in names have the same hash.

    >>> named = DifferentiationGraph([("y", "a"), ("a", "x", -1.0)], name="named")
    >>> graph_hash(named) == graph_hash(DifferentiationGraph([(2, 1), (1, 0, -1.0)]))
    True
    >>> graph_hash(named) == graph_hash(DifferentiationGraph([(2, 1), (1, 0, 2.0)]))
    False
    """
    constants = sorted(graph.constants.items())
    parts: list[Any] = [
        array("q", [len(graph.vertices), len(graph.sources), len(constants)]),
        array("q", graph.roots),
        array("q", graph.terminals),
        np.ascontiguousarray(graph.sources, "<i4"),
        np.ascontiguousarray(graph.targets, "<i4"),
        np.ascontiguousarray(graph.kinds, "u1"),
        np.ascontiguousarray(graph.sizes, "<i8"),
        array("q", [e for e, _ in constants]),
        array("d", [value for _, value in constants]),
        array("q", _numbered_symbols(graph.symbols)),
    ]
    if graph.tape is not None:
        parts += [array("q", graph.labels), to_bytes(graph.tape)]
    if not graph.wants_all:
        for chosen in (graph.mirror, graph.selected):
            parts += [b"all"] if chosen is None else [b"chosen", np.ascontiguousarray(chosen, "<i8")]
    return digest_of_parts(map(bytes, parts))


def _numbered_symbols(symbols: tuple[str | None, ...]) -> list[int]:
    """Return the position of the first equal symbol for each edge, −1 for none; empty if there are no symbols."""
    if symbols.count(None) == len(symbols):
        return []
    first: dict[str, int] = {}
    return [-1 if symbol is None else first.setdefault(symbol, e) for e, symbol in enumerate(symbols)]


# The cache -----------------------------------------------------------------------------------------------------------


def plan_key(graph: DifferentiationGraph, context: Context) -> str:
    """Return the cache key of the plan for a search in this context."""
    options = context.options
    settings = {name: getattr(options, name) for name in OF_PLANS}
    settings["rewritten"] = options.counts_rewritten
    # the plan depends on the use of an executor, but not on the executor itself
    settings["executor"] = options.executor is not None
    settings["work"] = context.left
    # 1 and 1.0 are the same time limit
    settings["time_limit"] = float(options.time_limit)
    # JSON does not accept NumPy scalars
    settings = {name: value.item() if hasattr(value, "item") else value for name, value in settings.items()}
    everything = json.dumps([VERSION, graph_hash(graph), settings], sort_keys=True)
    return cache.key_of("plans", everything.encode())


def stored_plan(key: str, graph: DifferentiationGraph) -> tuple[Plan, int] | None:
    """Return the verified plan that is stored under the key, and the work of its search.

    Return None if there is no such plan, or if it is damaged.
    """
    text = cache.fetch("plans", key)
    if text is None:
        return None
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or type(work := data.get("work")) is not int or work < 0:
            return None
        return plan_from_data(data, graph), work
    except (PlanError, ValueError, RecursionError):
        return None


def store_plan(key: str, plan: Plan, work: int) -> None:
    """Store a plan and the work of its search under the key, if the cache can be written."""
    cache.store("plans", key, json.dumps(plan_as_data(plan) | {"work": work}, separators=(",", ":")).encode())
