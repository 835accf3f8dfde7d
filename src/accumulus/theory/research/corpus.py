"""The corpus: graphs with the best known cost and lower bound of each, for comparison by everyone.

A graph is either generated from its name, which is a call of `accumulus.graphs`, or stored by numbers. For each
objective and class of eliminations (vertex, edge, face) the corpus has the cheapest known plan and the largest known
lower bound, both with the command that found them. A plan of a class is a plan of all wider classes, and a bound for a
class holds for all narrower ones, so a plan or bound is stored only once. ``docs/corpus.md`` describes the file key by
key.

`improve` runs one search and keeps what is better. A plan is recounted and verified before it is stored. A bound that
exceeds the cost of a known plan is an error, since one of the two has to be wrong. So no entry gets worse.

A lower bound by blocks (`accumulus.theory.exact.orders`) is stored with its blocks, from which `block_bound` computes
it again. Other bounds are repeated by their command.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final

from accumulus.cache import version_of
from accumulus.errors import AccumulusError, ArgumentError, FileError, VerificationError
from accumulus.graph.files import check_keys, graph_as_data, graph_from_data, parsed_json
from accumulus.graph.generators import generate, with_labels, with_sizes
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.options import Objective
from accumulus.search.elimination import Elimination
from accumulus.search.find import plan
from accumulus.search.plan import Plan, plan_as_data, plan_from_data
from accumulus.theory.exact.eliminations import LEVELS, Level
from accumulus.theory.exact.orders import OrderSearch
from accumulus.theory.reductions import independent_parts, reduced_part

FORMAT: Final = "accumulus corpus"
#: Version of the file format; raised by every change that an older reader would misread.
VERSION: Final = 1
#: The table that is part of the package.
SHIPPED: Final = Path(__file__).with_name("corpus.json")
OBJECTIVES: Final = (Objective.FMA, Objective.MULTIPLICATIONS)
#: Methods whose plans belong to a class of eliminations; other methods may share and factor in other ways.
_CLASSES: Final[dict[str, Level]] = {"edge": "edge", "exact-edge": "edge", "face": "face", "exact-face": "face"}
_KEYS: Final = ("name", "source", "graph", "intermediates", "edges", "results")
_BOUND_KEYS: Final = ("bound", "command", "by", "seconds", "blocks")
_CHANGES: Final = {"with_labels": with_labels, "with_sizes": with_sizes}


@dataclass
class CorpusResults:
    """Plans and bounds of a graph under one objective, by class of eliminations.

    Attributes:
        plans: plan of a class as data of a plan file, with the command that found it; only if it costs less than those
            of narrower classes.
        bounds: lower bound of a class, with the command that found it; only if it exceeds those of wider classes.
    """

    plans: dict[str, dict[str, Any]] = field(default_factory=dict)
    bounds: dict[str, dict[str, Any]] = field(default_factory=dict)

    def cost(self, level: str = "vertex") -> int | None:
        """Return the cost of the cheapest known elimination of a class; None if none is known."""
        narrower = LEVELS[: LEVELS.index(_level(level)) + 1]
        return min((self.plans[each]["cost"] for each in narrower if each in self.plans), default=None)

    def bound(self, level: str = "vertex") -> int:
        """Return the largest known lower bound for a class of eliminations."""
        wider = LEVELS[LEVELS.index(_level(level)) :]
        return max((self.bounds[each]["bound"] for each in wider if each in self.bounds), default=0)

    def proven(self, level: str = "vertex") -> bool:
        """Return True if the cheapest known elimination of a class is optimal."""
        return self.cost(level) == self.bound(level)

    def gap(self, level: str = "vertex") -> float:
        """Return the largest fraction of the known cost that a better elimination could save."""
        cost = self.cost(level)
        return (cost - self.bound(level)) / cost if cost else 0.0


@dataclass(frozen=True)
class CorpusGraph:
    """A graph of the corpus.

    Attributes:
        name: name of the graph; the call that makes it if it is generated.
        source: file and publication of the graph.
        intermediates, edges: numbers of intermediate vertices and of edges.
        results: results by objective. If no label is a constant, both objectives agree and only "fma" is present.
        data: the graph by numbers; None if it is generated.
    """

    name: str
    source: str
    intermediates: int
    edges: int
    results: dict[str, CorpusResults]
    data: Mapping[str, Any] | None = field(default=None, repr=False)

    @cached_property
    def graph(self) -> DifferentiationGraph:
        """The differentiation graph."""
        graph = generated(self.name) if self.data is None else graph_from_data({"name": self.name, **self.data})
        if (len(graph.intermediates), len(graph.sources)) != (self.intermediates, self.edges):
            raise FileError(f"{self.name} has not {self.intermediates} intermediates and {self.edges} edges")
        return graph

    def plan(self, objective: str = "fma", level: str = "vertex") -> Plan:
        """Return the cheapest known plan of a class of eliminations, recounted and verified, with its lower bound.

        Raises:
            ArgumentError: if the corpus has no plan for the objective and class.
            PlanError: if the stored plan is damaged.
        """
        results = self.results.get(objective, CorpusResults())
        cost = results.cost(level)
        stored = next((each for each in results.plans.values() if each["cost"] == cost), None)
        if stored is None:
            objectives = ", ".join(self.results) or "none"
            raise ArgumentError(f"there is no plan of {self.name} for {objective!r}; expected one of {objectives}")
        data = {key: value for key, value in stored.items() if key not in ("command", "by")}
        return plan_from_data({**data, "objective": objective, "lower_bound": results.bound(level)}, self.graph)

    def proven(self, objective: str, method: str = "exact-vertex") -> bool:
        """Return True if the optimum of the class that a method searches is proven."""
        level = _CLASSES.get(method, "vertex")
        return objective in self.results and self.results[objective].proven(level)

    def improve(
        self, method: str, objective: str, time_limit: float, seed: int = 0, effort: str = "balanced"
    ) -> list[str]:
        """Run a search, keep what is better than the stored results, and say what it was.

        Raises:
            VerificationError: if a bound exceeds the cost of a plan, so that one of them is wrong.
        """
        new = plan(self.graph, method, objective, time_limit, seed, effort=effort, cache=False)  # type: ignore[arg-type]
        new.verify()
        origin = {
            "command": f'accumulus research corpus "{self.name}" --method {method} --objective {objective} '
            f"--time-limit {time_limit:g} --effort {effort} --seed {seed}",
            "by": f"accumulus {version_of('accumulus')}",
        }
        results, better = self.results.setdefault(objective, CorpusResults()), []
        level = "vertex" if new.order is not None else _CLASSES.get(new.method)
        previous = None if level is None else results.cost(level)
        if level is not None and (previous is None or new.cost < previous):
            data = {key: value for key, value in plan_as_data(new).items() if key not in ("objective", "lower_bound")}
            results.plans[level] = {**data, "seconds": round(new.seconds, 3), **origin}
            for wider in LEVELS[LEVELS.index(level) + 1 :]:
                if wider in results.plans and results.plans[wider]["cost"] >= new.cost:
                    del results.plans[wider]
            better.append(f"{level} cost {new.cost}" + ("" if previous is None else f", was {previous}"))
        scope = _level(new.scope)
        if new.lower_bound is not None and new.lower_bound > results.bound(scope):
            better.append(f"{scope} bound {new.lower_bound}, was {results.bound(scope)}")
            bound = {"bound": new.lower_bound, **origin, "seconds": round(new.seconds, 3)}
            if scope == "vertex" and not new.is_optimal:
                by_blocks, blocks = block_bound(self.graph, objective)
                if by_blocks == new.lower_bound:
                    bound["blocks"] = blocks
            results.bounds[scope] = bound
            for narrower in LEVELS[: LEVELS.index(scope)]:
                if narrower in results.bounds and results.bounds[narrower]["bound"] <= new.lower_bound:
                    del results.bounds[narrower]
        for each in LEVELS:
            cost = results.cost(each)
            if cost is not None and results.bound(each) > cost:
                raise VerificationError(
                    f"{self.name}: the {each} bound {results.bound(each)} exceeds the known {objective} cost {cost}"
                )
        return better

    def __str__(self) -> str:
        cells = [f"{self.name[:60]:60} {self.intermediates:6,} {self.edges:7,}"]
        for objective, results in self.results.items():
            cost, wider = results.cost(), results.cost("face")
            cell = f"{objective} {'none' if cost is None else f'{cost:,}'} {_relation(results, 'vertex')}"
            if cost is not None and wider is not None and wider < cost:
                cell += f", faces {wider:,} {_relation(results, 'face')}"
            elif results.proven("face"):
                cell += ", faces too"
            cells.append(cell)
        return "  ".join(cells)


def _relation(results: CorpusResults, level: Level) -> str:
    """Return whether the cost of a class is proven, or its lower bound."""
    return "proven" if results.proven(level) else f"≥ {results.bound(level):,}"


def corpus(path: str | PathLike[str] | None = None) -> dict[str, CorpusGraph]:
    """Return the graphs of the corpus by name.

    Args:
        path: file of the table; by default the table that is part of the package.

    Raises:
        FileError: if the file is malformed; the message names the place.
        OSError: if the file cannot be read.

    >>> roe = corpus()["RoeFlux_1d"]
    >>> roe.intermediates, roe.plan("fma").cost, roe.plan("fma").is_optimal
    (98, 295, True)
    """
    path = SHIPPED if path is None else path
    data = parsed_json(path, FileError, infinite=False)
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != VERSION:
        raise FileError(f'{path}: expected an object with "format": "{FORMAT}" and "version": {VERSION}')
    if not isinstance(data.get("graphs"), list):
        raise FileError(f"{path}: 'graphs' is {shortened(data.get('graphs'))}; expected a list")
    graphs: dict[str, CorpusGraph] = {}
    for k, item in enumerate(data["graphs"]):
        try:
            read = _read_graph(item)
            if read.name in graphs:
                raise FileError(f"the name {read.name!r} is there twice; expected once")
        except FileError as error:
            raise FileError(f"{path}: graphs[{k}]: {error}") from None
        graphs[read.name] = read
    return graphs


def save_corpus(graphs: Mapping[str, CorpusGraph], path: str | PathLike[str]) -> None:
    """Write a table that `corpus` reads, with one line for each graph, plan and bound."""
    texts = []
    for each in graphs.values():
        facts = {"name": each.name, "source": each.source, "intermediates": each.intermediates, "edges": each.edges}
        lines = [_line(facts)[1:-1]]
        if each.data is not None:
            lines.append(f'"graph": {_line(each.data)}')
        rows = []
        for objective, results in each.results.items():
            parts = [
                f'   "{name}": {{\n' + ",\n".join(f'    "{level}": {_line(row)}' for level, row in table.items()) + "}"
                for name, table in (("plans", results.plans), ("bounds", results.bounds))
            ]
            rows.append(f'  "{objective}": {{\n' + ",\n".join(parts) + "}")
        lines.append('"results": {\n' + ",\n".join(rows) + "}")
        texts.append("{" + ",\n ".join(lines) + "}")
    head = f'{{"format": "{FORMAT}", "version": {VERSION}, "graphs": [\n'
    target = Path(path)
    partial = target.with_name(f"{target.name}.part")
    partial.write_text(head + ",\n".join(texts) + "\n]}\n", encoding="utf-8", newline="\n")
    partial.replace(target)  # a killed run leaves the old table


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def new_graph(graph: DifferentiationGraph, source: str) -> CorpusGraph:
    """Return a graph as an entry of the corpus without results; it is stored unless its name is the call that makes it.

    Raises:
        ArgumentError: if the graph has no name.
    """
    if not graph.name:
        raise ArgumentError("the graph has no name; give it one, under which the corpus lists it")
    sizes = len(graph.intermediates), len(graph.sources)
    try:
        again = generated(graph.name)
    except ArgumentError:
        bare = DifferentiationGraph.from_arrays(
            graph.sources, graph.targets, graph.kinds, vertices=range(len(graph.vertices)), roots=graph.roots,
            terminals=graph.terminals, sizes=graph.sizes,
        )  # fmt: skip
        data = {key: value for key, value in graph_as_data(bare).items() if key != "name"}
        return CorpusGraph(graph.name, source, *sizes, {}, data)
    if graph_as_data(again) != graph_as_data(graph):
        raise ArgumentError(f"{graph.name} is not the graph that this call makes; give it another name")
    return CorpusGraph(graph.name, source, *sizes, {})


def objectives(graph: DifferentiationGraph) -> tuple[Objective, ...]:
    """Return the objectives of a graph: without constants, products are free under none of them."""
    return OBJECTIVES if (graph.kinds != Kind.VARIABLE).any() else OBJECTIVES[:1]


def generated(call: str) -> DifferentiationGraph:
    """Return the graph that a call of `accumulus.graphs` makes, from the text of the call; nothing else is executed.

    Raises:
        ArgumentError: if the text is not such a call.

    >>> generated("with_sizes(layered(layers=2, width=3), largest=4)").name
    'with_sizes(layered(layers=2, width=3), largest=4)'
    """
    try:
        graph = _called(ast.parse(call, mode="eval").body)
    except (SyntaxError, TypeError, ValueError, RecursionError, AccumulusError) as error:
        raise ArgumentError(f"{shortened(call)} is not a call of accumulus.graphs: {error}") from None
    graph.name = call
    return graph


def _called(node: ast.expr) -> DifferentiationGraph:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError("expected name(key=value, …)")
    arguments = {str(each.arg): _literal(each.value) for each in node.keywords}
    change = _CHANGES.get(node.func.id)
    if change is not None and len(node.args) == 1:
        return change(_called(node.args[0]), **arguments)  # type: ignore[operator, no-any-return]
    if node.args:
        raise ValueError("expected name(key=value, …)")
    return generate(node.func.id, **arguments)


def _literal(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def block_bound(
    graph: DifferentiationGraph, objective: str, blocks: Sequence[Sequence[int]] | None = None
) -> tuple[int, list[list[int]]]:
    """Return the lower bound on vertex eliminations by blocks, and the blocks.

    Args:
        graph: graph to eliminate.
        objective: "fma" or "multiplications".
        blocks: blocks of vertices by number, as an earlier call returned them; by default they are searched.

    Raises:
        ArgumentError: if the blocks are not a partition of the vertices that are left after the reductions.
    """
    state, total, used = Elimination.of(graph, Objective(objective)), 0, list[list[int]]()
    block_of = {v: k for k, block in enumerate(blocks or ()) for v in block}
    if len(block_of) != sum(map(len, blocks or ())):
        raise ArgumentError("two blocks share a vertex; expected a partition")
    for part in independent_parts(state):
        smaller = reduced_part(state, part)
        search = OrderSearch(smaller.state, (1 << 47) - 1, 0)
        total += smaller.cost
        if search.failed or not search.vertices:
            total += search.lower_bound
            continue
        if blocks is None:
            for _ in search.partitions():
                pass
            chosen = search.blocks
        else:
            groups: dict[int, list[int]] = {}
            for k, v in enumerate(search.vertices):
                groups.setdefault(block_of.get(smaller.members[v][0], -1), []).append(k)
            if -1 in groups:
                raise ArgumentError(f"vertex {smaller.members[search.vertices[groups[-1][0]]][0]} is in no block")
            chosen = tuple(map(tuple, groups.values()))
            search.raise_by_blocks(chosen)
        total += search.lower_bound
        used += [[smaller.members[search.vertices[k]][0] for k in block] for block in chosen]
    if blocks is not None and sum(map(len, used)) != len(block_of):
        raise ArgumentError("a block has a vertex that is not left after the reductions")
    return total, used


def _level(level: str) -> Level:
    for each in LEVELS:
        if each == level:
            return each
    raise ArgumentError(f"{level!r} is no class of eliminations; expected {', '.join(LEVELS)}")


def _read_graph(item: Any) -> CorpusGraph:
    if not isinstance(item, dict):
        raise FileError(f"expected an object, not {shortened(item)}")
    check_keys(item, _KEYS, "the graph", FileError)
    name, source, data, results = (item.get(key) for key in ("name", "source", "graph", "results"))
    if not isinstance(name, str) or not isinstance(source, str) or not isinstance(results, dict):
        raise FileError("expected texts 'name' and 'source', and an object 'results'")
    if data is not None and not isinstance(data, dict):
        raise FileError(f"'graph' is {shortened(data)}; expected an object")
    intermediates, edges = (_whole(item.get(key), key) for key in ("intermediates", "edges"))
    read = {}
    for objective, row in results.items():
        if objective not in OBJECTIVES or not isinstance(row, dict) or set(row) != {"plans", "bounds"}:
            raise FileError(f"results: expected {' or '.join(OBJECTIVES)}, each with 'plans' and 'bounds'")
        plans, bounds = row["plans"], row["bounds"]
        if not all(isinstance(table, dict) and set(table) <= set(LEVELS) for table in (plans, bounds)):
            raise FileError(f"results of {objective}: expected objects with the keys {', '.join(LEVELS)}")
        for level, each in (*plans.items(), *bounds.items()):
            if not isinstance(each, dict) or not isinstance(each.get("command"), str):
                raise FileError(f"results of {objective}, {level}: expected an object with a 'command'")
        for each in plans.values():
            _whole(each.get("cost"), "cost")
        for each in bounds.values():
            check_keys(each, _BOUND_KEYS, "the bound", FileError)
            _whole(each.get("bound"), "bound")
        read[objective] = CorpusResults(plans, bounds)
    return CorpusGraph(name, source, intermediates, edges, read, data)


def _whole(value: Any, key: str) -> int:
    if type(value) is not int or value < 0:
        raise FileError(f"'{key}' is {shortened(value)}; expected a whole number of at least 0")
    return value
