"""Hash-consed programs: what an expression set or an accumulation computes, each value once.

Values are numbered, operands before results: labels of edges, products of two or more values along a path, sums of two
or more values between the same vertices. Equal products and equal sums are one value. Relations between factors,
elimination dependencies and sequences are properties of this form.

Unit edges that an accumulation leaves out are put back, as factors that cost nothing: in the line graph they are
vertices like all others, and the faces around them have to go too.

An accumulation keeps its brackets; in an expression set a product of several factors is one value, whose bracketing
`accumulus.theory.algebra.running_order` chooses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from accumulus.elimination.accumulation import Accumulation
from accumulus.errors import ExpressionError
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.theory.algebra.expression import Expression, Product, Reference, Sum, Symbol, postorder, product, total
from accumulus.theory.algebra.matching import Matching, Occurrence
from accumulus.theory.algebra.names import edge_names, fresh_names
from accumulus.theory.algebra.sets import ExpressionSet

__all__ = ["LABEL", "PRODUCT", "SUM", "ValueProgram", "program_of"]

LABEL: Final = 0
PRODUCT: Final = 1
SUM: Final = 2


class ValueProgram:
    """Values of a hash-consed program over the edges of `graph`.

    >>> from accumulus.elimination.vertex import eliminate_vertices
    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "x"), ("b", "x")])
    >>> program = program_of(eliminate_vertices(graph, graph.intermediates))
    >>> [str(program.expression(value)) for value in range(len(program))]
    ['e1', 'e2', 'e3', 'e4', 'e1*e3', 'e2*e4', 'e1*e3 + e2*e4']
    """

    def __init__(self, graph: DifferentiationGraph) -> None:
        self.graph = graph
        edges = len(graph.sources)
        #: `LABEL`, `PRODUCT` or `SUM`, by value; the first values are the edges.
        self.kinds: list[int] = [LABEL] * edges
        self.operands: list[tuple[int, ...]] = [()] * edges
        #: Between which vertices the paths of a value run.
        self.ends: list[tuple[int, int]] = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
        #: Whether a value is 1: a unit edge, or a path of such.
        self.units: list[bool] = [kind == Kind.ONE for kind in graph.kinds.tolist()]
        self.entries: dict[tuple[int, int], int] = {}
        #: Names of values that references stand for.
        self.names: dict[int, str] = {}
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}
        self._expressions: list[Expression] = []
        self._shared: set[int] = set()

    def __len__(self) -> int:
        return len(self.kinds)

    def product(self, factors: Sequence[int]) -> int:
        """Value of the product, unit edges put in where two factors do not meet.

        Raises:
            ExpressionError: if two factors neither meet nor are joined by unit edges.
        """
        path = [factors[0]]
        for factor in factors[1:]:
            path += self._units_between(self.ends[path[-1]][1], self.ends[factor][0], path[-1], factor)
            path.append(factor)
        units = all(self.units[factor] for factor in path)
        return self._value(PRODUCT, tuple(path), (self.ends[path[0]][0], self.ends[path[-1]][1]), units)

    def sum(self, terms: Sequence[int]) -> int:
        """Value of the sum, unit edges put before and after terms that start lower or end higher than others."""
        start = self._common([self.ends[term][0] for term in terms], "up")
        end = self._common([self.ends[term][1] for term in terms], "down")
        return self._value(SUM, tuple(sorted(self.fit(term, start, end) for term in terms)), (start, end), False)

    def fit(self, value: int, start: int, end: int) -> int:
        """The value from `start` to `end`, by unit edges before and after it."""
        before = self._units_between(start, self.ends[value][0], value, value)
        after = self._units_between(self.ends[value][1], end, value, value)
        return self.product([*before, value, *after]) if before or after else value

    def live(self) -> list[int]:
        """Values that the entries depend on, in ascending order."""
        return sorted(postorder(self.entries.values(), lambda value: self.operands[value]))

    def uses(self) -> dict[int, list[int]]:
        """The live products and sums that use each live value."""
        uses: dict[int, list[int]] = {value: [] for value in self.live()}
        for value in uses:
            for operand in dict.fromkeys(self.operands[value]):
                uses[operand].append(value)
        return uses

    @property
    def multiplications(self) -> int:
        """Products that are not with 1, what is equal but for factors 1 counted once."""
        counted: dict[tuple[int, ...], int] = {}
        same: dict[int, int] = {}
        total = 0
        for value in self.live():
            key = [same[operand] for operand in self.operands[value] if not self.units[operand]]
            if self.kinds[value] == SUM:
                key = sorted(same[operand] for operand in self.operands[value])
            elif len(key) < 2:
                same[value] = key[0] if key else value
                continue
            known = counted.setdefault((self.kinds[value], *key), value)
            if known == value and self.kinds[value] == PRODUCT:
                total += len(key) - 1
            same[value] = known
        return total

    def expression(self, value: int) -> Expression:
        """The value as an expression over labels and references: a reference itself where it is one."""
        if len(self._expressions) < len(self):
            self._express()
        return self._expressions[value]

    def definitions(self) -> ExpressionSet:
        """The whole program as expressions; references are the values that are used more than once."""
        if len(self._expressions) < len(self):
            self._express()
        graph = self.graph
        references = {
            name: self._combined(value) for value, name in sorted(self.names.items()) if value in self._shared
        }
        entries = {
            (graph.vertices[graph.roots[row]], graph.vertices[graph.terminals[column]]): self._expressions[value]
            for (row, column), value in self.entries.items()
        }
        return ExpressionSet(references, entries)

    def _express(self) -> None:
        # a value counts once for each place, however often what it stands in is used
        counts = Counter(self.entries.values())
        live = self.live()
        for value in live:
            counts.update(self.operands[value])
        names = edge_names(self.graph)
        fresh = fresh_names("s", {*names, *self.names.values()})
        self._shared = {value for value in live if counts[value] > 1 and self.kinds[value] != LABEL}
        self._expressions = [Symbol(name) for name in names]
        for value in range(len(names), len(self)):
            if value in self._shared:
                if value not in self.names:
                    self.names[value] = next(fresh)
                self._expressions.append(Reference(self.names[value]))
            else:
                self._expressions.append(self._combined(value))

    def _combined(self, value: int) -> Expression:
        parts = [self._expressions[operand] for operand in self.operands[value]]
        return product(parts) if self.kinds[value] == PRODUCT else total(parts)

    def _value(self, kind: int, operands: tuple[int, ...], ends: tuple[int, int], units: bool) -> int:
        known = self._known.setdefault((kind, operands), len(self))
        if known == len(self):
            self.kinds.append(kind)
            self.operands.append(operands)
            self.ends.append(ends)
            self.units.append(units)
        return known

    def _units_between(self, above: int, below: int, left: int, right: int) -> list[int]:
        """The unit edges of a shortest way from one vertex to the other."""
        if above == below:
            return []
        came: dict[int, int] = {above: -1}
        queue = [above]
        for v in queue:
            for e in self.graph.out_edges[v]:
                target = int(self.graph.targets[e])
                if self.units[e] and target not in came:
                    came[target] = e
                    queue.append(target)
        if below not in came:
            names = self.graph.vertices
            one, other = (f"one from {names[s]!r} to {names[t]!r}" for s, t in (self.ends[left], self.ends[right]))
            raise ExpressionError(f"the accumulation multiplies values that do not meet: {one} and {other}")
        way: list[int] = []
        while below != above:
            way.append(came[below])
            below = int(self.graph.sources[came[below]])
        return way[::-1]

    def _common(self, vertices: Sequence[int], direction: str) -> int:
        """The nearest vertex from which (to which) unit edges lead to (from) all of the vertices."""
        if len(set(vertices)) == 1:
            return vertices[0]
        edges, ends = (
            (self.graph.in_edges, self.graph.sources)
            if direction == "up"
            else (self.graph.out_edges, self.graph.targets)
        )
        reached: Counter[int] = Counter()
        for vertex in set(vertices):
            found = {vertex}
            stack = [vertex]
            while stack:
                for e in edges[stack.pop()]:
                    if self.units[e] and int(ends[e]) not in found:
                        found.add(int(ends[e]))
                        stack.append(int(ends[e]))
            reached.update(found)
        common = [v for v, times in reached.items() if times == len(set(vertices))]
        if not common:
            names = ", ".join(repr(self.graph.vertices[v]) for v in sorted(set(vertices)))
            where = "start" if direction == "up" else "end"
            raise ExpressionError(f"the accumulation adds paths with different ends: they {where} at {names}")
        height = {v: k for k, v in enumerate(self.graph.topological_order)}
        return min(common, key=height.__getitem__) if direction == "up" else max(common, key=height.__getitem__)


def program_of(subject: Accumulation | ExpressionSet, graph: DifferentiationGraph | None = None) -> ValueProgram:
    """The program of an accumulation, or of an expression set on a graph (by default its own `to_graph()`).

    Raises:
        ExpressionError: if what is multiplied or added does not meet, or the path sums are not those of the graph.
        VerificationError: if the accumulation does not compute the Jacobian of its graph.
    """
    if isinstance(subject, Accumulation):
        subject.verify()
        return _from_accumulation(subject)
    graph = subject.to_graph() if graph is None else graph
    subject.to_accumulation(graph)
    return _from_set(subject, graph)


def _from_accumulation(accumulation: Accumulation) -> ValueProgram:
    program = ValueProgram(accumulation.graph)
    steps = accumulation.steps
    first = steps.edges
    live = _live(accumulation)
    users: Counter[int] = Counter(accumulation.entries.values())
    for step in live:
        users.update((steps.left[step], steps.right[step]))
    values: dict[int, int] = {e: e for e in range(first)}
    # terms of sums that only another sum uses: sums are of as many terms as there are
    terms: dict[int, list[int]] = {}
    into_sum = {
        operand for step in live if not steps.is_product[step] for operand in (steps.left[step], steps.right[step])
    }
    for step in live:
        reference, left, right = first + step, steps.left[step], steps.right[step]
        if steps.is_product[step]:
            values[reference] = program.product([values[left], values[right]])
            continue
        parts = [term for operand in (left, right) for term in terms.pop(operand, None) or [values[operand]]]
        if users[reference] == 1 and reference in into_sum:
            terms[reference] = parts
        else:
            values[reference] = program.sum(parts)
    _enter(program, {key: values[reference] for key, reference in accumulation.entries.items()})
    return program


def _live(accumulation: Accumulation) -> list[int]:
    steps = accumulation.steps
    needed = set(accumulation.entries.values())
    live = []
    for step in reversed(range(len(steps))):
        if steps.edges + step in needed:
            live.append(step)
            needed.update((steps.left[step], steps.right[step]))
    return live[::-1]


def _from_set(expressions: ExpressionSet, graph: DifferentiationGraph) -> ValueProgram:
    program = ValueProgram(graph)
    matching = Matching(expressions, graph)
    values: dict[Occurrence, int] = {}
    for occurrence in postorder(matching.entries.values(), matching.parts):
        parts = [values[part] for part in matching.parts(occurrence)]
        if isinstance(occurrence[0], Symbol):
            values[occurrence] = matching.edge(occurrence)
        elif isinstance(occurrence[0], Product):
            values[occurrence] = program.product(parts)
        elif isinstance(occurrence[0], Sum):
            values[occurrence] = program.sum(parts)
        else:
            values[occurrence] = parts[0]
            if isinstance(occurrence[0], Reference) and program.kinds[parts[0]] != LABEL:
                program.names.setdefault(parts[0], occurrence[0].name)
    _enter(program, {key: values[occurrence] for key, occurrence in matching.entries.items()})
    return program


def _enter(program: ValueProgram, entries: Mapping[tuple[int, int], int]) -> None:
    graph = program.graph
    for (row, column), value in sorted(entries.items()):
        program.entries[row, column] = program.fit(value, graph.roots[row], graph.terminals[column])
