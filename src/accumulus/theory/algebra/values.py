"""Hash-consed programs of products and sums, and the order in which one can run in the line graph.

**Programs.** A program contains every value of an expression set or an accumulation once. Operands have lower numbers
than results. A value is the label of an edge, a product of two or more values along a path, or a sum of two or more
values between the same vertices. Equal products, and equal sums, are one value. Relations between factors, elimination
dependencies and sequences are defined on this form.

Unit edges that an accumulation omits are inserted as factors that cost nothing: in the line graph they are vertices
like all others, and their faces have to be eliminated, too.

An accumulation keeps its brackets. In an expression set a product of several factors is one value, and `running_order`
chooses its brackets.

**Running order.** Take a program whose products have two factors. The program brackets every path of the graph: the
sums of the entry select the path, and the products cut it. At any time, let the *segments* of a path be its largest
parts whose values are computed. The program can run by face elimination, with one eliminated face for each of its
products, one merge for each of its sums, and no other steps, if and only if its values can be ordered such that

1. operands come before results;
2. when the product of l and r is computed, every path that has l and r as neighbouring segments multiplies them;
3. when a sum is computed, every path that has one of its terms as a segment uses it in that sum.

docs/notes.md, section 6, has the proof, and shows that it suffices to compute greedily every value that is possible.

Products of more factors are bracketed on the way: first comes the pair of neighbours that most products multiply. The
search for brackets is not exhaustive; `_PREFERENCES` are the alternatives.

Time: rounds over all pairs of neighbours, which take (depth of the program) × (number of neighbouring values at the
ends of values). Vertex elimination of a layered graph takes half a second for 200 vertices with 2,400 products, and ten
seconds for 500 vertices with 30,000 products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Final, Literal

from accumulus.elimination.accumulation import Accumulation
from accumulus.errors import ExpressionError
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.theory.algebra.expression import (
    Expression,
    Product,
    Reference,
    Sum,
    Symbol,
    edge_names,
    fresh_names,
    postorder,
    product_of_factors,
    sum_of_terms,
)
from accumulus.theory.algebra.matching import Direction, Matching, Occurrence, along_units
from accumulus.theory.algebra.sets import ExpressionSet, uses_of

#: Kinds of values.
LABEL: Final = 0
PRODUCT: Final = 1
SUM: Final = 2


class ValueProgram:
    """A hash-consed program of products and sums over the edges of a graph.

    >>> from accumulus.elimination.vertex import eliminate_vertices
    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "x"), ("b", "x")])
    >>> program = value_program(eliminate_vertices(graph, graph.intermediates))
    >>> [str(program.expression(value)) for value in range(len(program))]
    ['e1', 'e2', 'e3', 'e4', 'e1*e3', 'e2*e4', 'e1*e3 + e2*e4']
    """

    def __init__(self, graph: DifferentiationGraph) -> None:
        self.graph = graph
        edges = len(graph.sources)
        #: `LABEL`, `PRODUCT` or `SUM`, by value; the first values are the edges.
        self.kinds: list[int] = [LABEL] * edges
        self.operands: list[tuple[int, ...]] = [()] * edges
        #: Start and end vertex of the paths of each value.
        self.ends = graph.ends
        #: True for each value that is 1: a unit edge, or a product of unit edges.
        self.units: list[bool] = [kind == Kind.ONE for kind in graph.kinds.tolist()]
        self.entries: dict[tuple[int, int], int] = {}
        #: Names of the values that references denote.
        self.names: dict[int, str] = {}
        self._numbers_by_operation: dict[tuple[int, tuple[int, ...]], int] = {}
        self._expressions: list[Expression] = []
        self._shared: set[int] = set()

    def __len__(self) -> int:
        return len(self.kinds)

    def product(self, factors: Sequence[int]) -> int:
        """Return the value of the product; unit edges are inserted between factors that do not meet.

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
        """Return the value of the sum; unit edges are inserted before and after terms so that their ends are equal.

        Raises:
            ExpressionError: if unit edges cannot join the ends.
        """
        start = self._common([self.ends[term][0] for term in terms], "up")
        end = self._common([self.ends[term][1] for term in terms], "down")
        return self._value(SUM, tuple(sorted(self.fit(term, start, end) for term in terms)), (start, end), False)

    def fit(self, value: int, start: int, end: int) -> int:
        """Return the value from `start` to `end`, with unit edges inserted before and after it."""
        before = self._units_between(start, self.ends[value][0], value, value)
        after = self._units_between(self.ends[value][1], end, value, value)
        return self.product([*before, value, *after]) if before or after else value

    def live(self) -> list[int]:
        """Return the values on which the entries depend, in ascending order."""
        return sorted(postorder(self.entries.values(), lambda value: self.operands[value]))

    def uses(self) -> dict[int, list[int]]:
        """Return the live products and sums that use each live value."""
        uses: dict[int, list[int]] = {value: [] for value in self.live()}
        for value in uses:
            for operand in dict.fromkeys(self.operands[value]):
                uses[operand].append(value)
        return uses

    def path_counts(self) -> dict[int, int]:
        """Return the number of paths of each live value."""
        counts: dict[int, int] = {}
        for value in self.live():
            parts = [counts[operand] for operand in self.operands[value]]
            counts[value] = prod(parts) if self.kinds[value] != SUM else sum(parts)
        return counts

    @property
    def multiplications(self) -> int:
        """Number of products without factors 1; values that are equal up to factors 1 count once."""
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
            first = counted.setdefault((self.kinds[value], *key), value)
            if first == value and self.kinds[value] == PRODUCT:
                total += len(key) - 1
            same[value] = first
        return total

    def expression(self, value: int) -> Expression:
        """Return the value as an expression of labels and references; a value with several uses is a reference."""
        if len(self._expressions) < len(self):
            self._express()
        return self._expressions[value]

    def definitions(self) -> ExpressionSet:
        """Return the program as expressions; values that are used more than once are references."""
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
        # each use counts once, also if the user itself has several uses
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
        return product_of_factors(parts) if self.kinds[value] == PRODUCT else sum_of_terms(parts)

    def _value(self, kind: int, operands: tuple[int, ...], ends: tuple[int, int], units: bool) -> int:
        number = self._numbers_by_operation.setdefault((kind, operands), len(self))
        if number == len(self):
            self.kinds.append(kind)
            self.operands.append(operands)
            self.ends.append(ends)
            self.units.append(units)
        return number

    def _units_between(self, above: int, below: int, left: int, right: int) -> list[int]:
        """Return the unit edges of a shortest path from `above` to `below`."""
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

    def _common(self, vertices: Sequence[int], direction: Direction) -> int:
        """Return the nearest vertex from which ("up") or to which ("down") unit edges join all of the vertices."""
        if len(set(vertices)) == 1:
            return vertices[0]
        common = frozenset.intersection(*(along_units(self.graph, self.units, v, direction) for v in set(vertices)))
        if not common:
            names = ", ".join(repr(self.graph.vertices[v]) for v in sorted(set(vertices)))
            where = "start" if direction == "up" else "end"
            raise ExpressionError(f"the accumulation adds paths with different ends: they {where} at {names}")
        height = {v: k for k, v in enumerate(self.graph.topological_order)}
        return min(common, key=height.__getitem__) if direction == "up" else max(common, key=height.__getitem__)


def value_program(subject: Accumulation | ExpressionSet, graph: DifferentiationGraph | None = None) -> ValueProgram:
    """Return the program of an accumulation or of an expression set.

    Args:
        subject: accumulation or set of expressions.
        graph: graph of an expression set; by default its `to_graph()`.

    Raises:
        ExpressionError: if factors or terms do not meet, or the expressions are not the path sums of the graph.
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
    uses, _ = uses_of(accumulation)
    live = [step for step in range(len(steps)) if uses[first + step]]
    values: dict[int, int] = {e: e for e in range(first)}
    # terms of sums whose only use is another sum, into which they are flattened
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
        if uses[reference] == 1 and reference in into_sum:
            terms[reference] = parts
        else:
            values[reference] = program.sum(parts)
    _enter(program, {key: values[reference] for key, reference in accumulation.entries.items()})
    return program


def _from_set(expressions: ExpressionSet, graph: DifferentiationGraph) -> ValueProgram:
    program = ValueProgram(graph)
    matching = Matching(expressions.references, expressions.entries, graph)
    values: dict[Occurrence, int] = {}
    for occurrence in postorder(matching.entries.values(), matching.parts):
        parts = [values[operand] for operand in matching.parts(occurrence)]
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


# Running order -------------------------------------------------------------------------------------------------------


Preference = Literal["first", "last"]
_NONE: Final[frozenset[int]] = frozenset()
_PREFERENCES: Final[tuple[Preference, ...]] = ("first", "last")


@dataclass(frozen=True, slots=True)
class RunningOrder:
    """A program whose products have two factors, in the order of computation.

    Attributes:
        program: the program.
        complete: True if the order satisfies conditions 1 to 3 (see the module).
        done: number of values that satisfy them; the values from this number on satisfy only condition 1.
    """

    program: ValueProgram
    complete: bool
    done: int


def running_order(program: ValueProgram) -> RunningOrder:
    """Return the program in an order in which face elimination can run it, as far as possible, with all brackets."""
    best = None
    for preference in _PREFERENCES:
        run = _Run(program, preference)
        order = run.finish()
        if order.complete:
            return order
        if best is None or order.done > best.done:
            best = order
    assert best is not None
    return best


def bracketed(program: ValueProgram) -> ValueProgram:
    """Return the program with the brackets that `running_order` chooses, so that all products have two factors."""
    return running_order(program).program


class _Run:
    """State of a greedy computation of a program, and the same program in the order of computation."""

    def __init__(self, program: ValueProgram, preference: Preference) -> None:
        self.original = program
        self.preference = preference
        self.result = ValueProgram(program.graph)
        self.live = program.live()
        # for each computed value of the given program, the value of the result
        self.value: dict[int, int] = {v: v for v in self.live if program.kinds[v] == LABEL}
        # remaining factors of every product: values of the result, or ~v for values v that are not computed yet
        self.lists: dict[int, list[int]] = {}
        self.sums: dict[int, tuple[int, ...]] = {}
        for v in self.live:
            if program.kinds[v] == PRODUCT:
                self.lists[v] = [self._operand(factor) for factor in program.operands[v]]
            elif program.kinds[v] == SUM:
                self.sums[v] = program.operands[v]
        self.waiting: dict[int, list[int]] = {}
        for v in self.lists:
            for factor in program.operands[v]:
                self.waiting.setdefault(factor, []).append(v)

    def finish(self) -> RunningOrder:
        while self.lists or self.sums:
            if not (self._round() or self._merge()):
                break
        done = len(self.result)
        complete = not (self.lists or self.sums)
        if not complete:
            self._force()
        self.result.entries = {key: self.value[v] for key, v in self.original.entries.items()}
        for v, name in self.original.names.items():
            if v in self.value:
                self.result.names.setdefault(self.value[v], name)
        return RunningOrder(self.result, complete, done)

    def _operand(self, v: int) -> int:
        return self.value.get(v, ~v)

    def _computed(self, v: int, value: int) -> None:
        self.value[v] = value
        for user in self.waiting.get(v, ()):
            if user in self.lists:
                self.lists[user] = [value if factor == ~v else factor for factor in self.lists[user]]

    def _round(self) -> bool:
        """Compute all products that are allowed, or bracket longer ones; return True if there were any."""
        allowed = self._allowed()
        chosen = {
            (factors[0], factors[1])
            for factors in self.lists.values()
            if len(factors) == 2 and (factors[0], factors[1]) in allowed
        }
        if not chosen:
            for factors in self.lists.values():
                pairs = [pair for pair in pairwise(factors) if pair in allowed]
                if pairs:
                    most = max(allowed[pair] for pair in pairs)
                    often = [pair for pair in pairs if allowed[pair] == most]
                    chosen.add(often[0] if self.preference == "first" else often[-1])
        # in the order of the products, so that the result does not depend on the order of iteration over sets
        progress = False
        for v in list(self.lists):
            while True:
                factors = self.lists[v]
                at = next((k for k, pair in enumerate(pairwise(factors)) if pair in chosen), None)
                if at is None:
                    break
                progress = True
                value = self.result.product(factors[at : at + 2])
                factors[at : at + 2] = [value]
                if len(factors) == 1:
                    del self.lists[v]
                    self._computed(v, value)
                    break
        return progress

    def _allowed(self) -> Counter[tuple[int, int]]:
        """Return the pairs of neighbouring segments that all their paths may multiply next, with the product counts."""
        allowed: Counter[tuple[int, int]] = Counter()
        for factors in self.lists.values():
            allowed.update(pair for pair in pairwise(factors) if min(pair) >= 0)
        followers: dict[int, set[int]] = {}
        for one, other in allowed:
            followers.setdefault(one, set()).add(other)
        right, left = self._ends(-1), self._ends(0)
        for factors in self.lists.values():
            for one, other in pairwise(factors):
                if min(one, other) >= 0:
                    continue
                firsts = left[~other] if other < 0 else {other}
                for last in right[~one] if one < 0 else (one,):
                    for first in followers.get(last, _NONE) & firsts:
                        followers[last].discard(first)
                        del allowed[last, first]
        return allowed

    def _ends(self, side: Literal[0, -1]) -> dict[int, set[int]]:
        """Return the segments at the right (-1) or left (0) end of every value that is not computed yet."""
        ends: dict[int, set[int]] = {}
        for v in self.live:
            if v in self.lists:
                end = self.lists[v][side]
                ends[v] = ends[~end] if end < 0 else {end}
            elif v in self.sums:
                segments: set[int] = set()
                for term in self.sums[v]:
                    segments |= {self.value[term]} if term in self.value else ends[term]
                ends[v] = segments
        return ends

    def _merge(self) -> bool:
        """Compute the sums whose terms are computed and have no other use; return True if there were any."""
        used: Counter[int] = Counter(factor for factors in self.lists.values() for factor in factors)
        for terms in self.sums.values():
            used.update({self._operand(term) for term in terms})
        progress = False
        for v, terms in list(self.sums.items()):
            values = [self._operand(term) for term in terms]
            if min(values) >= 0 and all(used[value] == 1 for value in values):
                del self.sums[v]
                self._computed(v, self.result.sum(values))
                progress = True
        return progress

    def _force(self) -> None:
        """Compute the remaining values in topological order, factors from left to right."""
        for v in self.live:
            if v in self.lists:
                value, *rest = [self.value[~f] if f < 0 else f for f in self.lists[v]]
                for other in rest:
                    value = self.result.product([value, other])
                self._computed(v, value)
            elif v in self.sums:
                self._computed(v, self.result.sum([self.value[term] for term in self.sums[v]]))
