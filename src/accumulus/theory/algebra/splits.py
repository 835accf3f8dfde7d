"""The fewest splits that let face elimination compute a set whose elimination dependencies are circular.

A face ⟨l,r⟩ that some paths multiply now, and others only after something else, can be eliminated for the former alone
once l is split by its predecessors, or r by its successors, such that the paths part (interior vertex split: Griewank
and Walther 2008, p. 205; the notes: explicit splitting). Likewise a vertex that some paths add to others, and some
multiply. Splits cost no product, and two copies have one label, so what both are multiplied by is one product: the
set keeps its cost. With enough splits every path has vertices of its own, so some number always suffices.

`least_splits` looks for the least number by iterative deepening. Between splits it does whatever the theorem of
`accumulus.theory.algebra.running_order` allows, and joins copies again that go the same way. At every split it tries,
for each vertex that is in the way, to part the neighbours whose paths all go on from those that do not, then every
single neighbour. It works on explicit paths and stops at a number of states: a search for small sets, whose result is
the least number *found*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from operator import methodcaller
from typing import Final, Literal

from accumulus.elimination.accumulation import Accumulation
from accumulus.errors import ExpressionError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.theory.algebra.expression import Expression
from accumulus.theory.algebra.replay import LineReplay
from accumulus.theory.algebra.running_order import bracketed
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.values import LABEL, PRODUCT, ValueProgram, program_of

__all__ = ["Split", "Splitting", "least_splits"]

_PATHS: Final = 2_000
_STATES: Final = 2_000
_SPLITS: Final = 6

Side = Literal["predecessors", "successors"]


@dataclass(frozen=True, slots=True)
class Split:
    """One interior vertex split: the value of the vertex, and the neighbours that go to its copy.

    Roots and terminals among the neighbours stand as "root y", "terminal x".
    """

    vertex: Expression
    side: Side
    moved: tuple[Expression | str, ...]

    def __str__(self) -> str:
        return f"{self.vertex} with {self.side} {', '.join(map(str, self.moved))} on its own"


@dataclass(frozen=True)
class Splitting:
    """How face elimination with splits computes a set.

    Attributes:
        splits: in order; empty if the set needs none.
        faces: how many faces are eliminated; copies that are multiplied by the same count each, though their
            product is computed once.
        accumulation: what the line graph computes, at the cost of the set.
        definitions: what the references in `splits` stand for.
    """

    splits: tuple[Split, ...]
    faces: int
    accumulation: Accumulation
    definitions: ExpressionSet


def least_splits(
    subject: ExpressionSet | Accumulation,
    graph: DifferentiationGraph | None = None,
    *,
    most: int = _SPLITS,
    states: int = _STATES,
) -> Splitting:
    """The fewest splits found that let face elimination compute exactly the set.

    Args:
        graph: of an expression set; its own `to_graph()` if not given.
        most: splits at most.
        states: line graphs to look at, at most, for each number of splits.

    Raises:
        ExpressionError: if no way is found within these bounds, or the graph has more than 2,000 paths.

    >>> expressions = ExpressionSet.parse('''
    ...     s1 = b*c;  s2 = a1*b;  s3 = c*d1
    ...     ∂y1/∂x1 = a1*s1*d1;  ∂y1/∂x2 = s2*c*d2
    ...     ∂y2/∂x1 = a2*b*s3;   ∂y2/∂x2 = a2*s1*d2
    ... ''')
    >>> print(*least_splits(expressions).splits, sep="; ")
    b with predecessors a2 on its own; c with successors d1 on its own
    """
    program = bracketed(program_of(subject, graph))
    roots = _derivations(program)
    for number in range(most + 1):
        search = _Search(program, states)
        found = search.run(_State.start(program, roots), number)
        if found is not None:
            return _result(program, found)
    raise ExpressionError(
        f"no way with at most {most} splits was found within {states} states each; allow more with most=…, states=…"
    )


class _Node:
    """A value at a place of a path, and what it goes into there."""

    __slots__ = ("parent", "value")

    def __init__(self, value: int, parent: _Node | None) -> None:
        self.value = value
        self.parent = parent


def _derivations(program: ValueProgram) -> list[list[_Node]]:
    """For every path of every entry, its edges as nodes, linked upwards to what they are computed into."""
    counts: dict[int, int] = {}
    for v in program.live():
        parts = [counts[operand] for operand in program.operands[v]]
        counts[v] = 1 if not parts else prod(parts) if program.kinds[v] == PRODUCT else sum(parts)
    if sum(counts[entry] for entry in program.entries.values()) > _PATHS:
        raise ExpressionError(f"the graph has more than {_PATHS} paths; expected a small graph to search for splits")
    result = []
    for entry in program.entries.values():
        for number in range(counts[entry]):
            leaves: list[_Node] = []
            stack: list[tuple[_Node | None, int, int]] = [(None, entry, number)]
            while stack:
                parent, v, k = stack.pop()
                node = _Node(v, parent)
                if program.kinds[v] == LABEL:
                    leaves.append(node)
                elif program.kinds[v] == PRODUCT:
                    left, right = program.operands[v]
                    row, column = divmod(k, counts[right])
                    stack += [(node, right, column), (node, left, row)]
                else:
                    for term in program.operands[v]:
                        if k < counts[term]:
                            stack.append((node, term, k))
                            break
                        k -= counts[term]
            result.append(leaves)
    return result


@dataclass
class _State:
    """A line graph, as the paths through it.

    `paths` has, for every path, its vertices and the nodes that they stand for there; the first and last vertex
    are its root and terminal, which stand for nothing.
    """

    value: dict[int, int]
    paths: list[list[tuple[int, _Node | None]]]
    fresh: int
    #: What was done so far, to be done again in a line graph.
    operations: list[Callable[[LineReplay], None]] = field(default_factory=list)
    splits: list[tuple[int, Side, frozenset[int]]] = field(default_factory=list)
    faces: int = 0

    @classmethod
    def start(cls, program: ValueProgram, derivations: Sequence[Sequence[_Node]]) -> _State:
        graph = program.graph
        rows = {root: -1 - row for row, root in enumerate(graph.roots)}
        columns = {terminal: -1 - len(rows) - column for column, terminal in enumerate(graph.terminals)}
        paths: list[list[tuple[int, _Node | None]]] = []
        for leaves in derivations:
            first, last = rows[program.ends[leaves[0].value][0]], columns[program.ends[leaves[-1].value][1]]
            paths.append([(first, None), *((leaf.value, leaf) for leaf in leaves), (last, None)])
        edges = range(len(graph.sources))
        return cls({e: e for e in edges}, paths, max(len(program), len(edges)))

    def copy(self) -> _State:
        paths = [list(path) for path in self.paths]
        return _State(dict(self.value), paths, self.fresh, list(self.operations), list(self.splits), self.faces)

    def new(self, value: int) -> int:
        self.fresh += 1
        self.value[self.fresh - 1] = value
        return self.fresh - 1

    def places(self) -> dict[int, list[tuple[int, int]]]:
        """Where each vertex is: paths, and positions in them."""
        places: dict[int, list[tuple[int, int]]] = {}
        for k, path in enumerate(self.paths):
            for position, (vertex, node) in enumerate(path):
                if node is not None:
                    places.setdefault(vertex, []).append((k, position))
        return places

    def done(self) -> bool:
        return all(node is None or node.parent is None for path in self.paths for _, node in path)

    def neighbours(self, places: Sequence[tuple[int, int]]) -> tuple[frozenset[int], frozenset[int]]:
        """P and S of a vertex that is at these places."""
        return (
            frozenset(self.paths[k][position - 1][0] for k, position in places),
            frozenset(self.paths[k][position + 1][0] for k, position in places),
        )

    def rename(self, places: Sequence[tuple[int, int]], vertex: int, up: bool) -> None:
        """Put another vertex at these places, which stands for what the old one goes into if `up`."""
        for k, position in places:
            node = self.paths[k][position][1]
            assert node is not None
            self.paths[k][position] = (vertex, node.parent if up else node)


class _Search:
    def __init__(self, program: ValueProgram, states: int) -> None:
        self.program = program
        self.states = states

    def run(self, state: _State, splits: int) -> _State | None:
        """The state with everything eliminated, after at most so many splits."""
        self._advance(state)
        if state.done():
            return state
        if splits == 0 or self.states <= 0:
            return None
        for vertex, side, moved in self._candidates(state):
            self.states -= 1
            if self.states < 0:
                return None
            child = state.copy()
            self._split(child, vertex, side, moved)
            found = self.run(child, splits - 1)
            if found is not None:
                return found
        return None

    def _advance(self, state: _State) -> None:
        while self._join(state) or self._multiply(state) or self._add(state):
            pass

    def _multiply(self, state: _State) -> bool:
        """Eliminate a face that all of its paths multiply."""
        faces: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for k, path in enumerate(state.paths):
            for position in range(1, len(path) - 2):
                faces.setdefault((path[position][0], path[position + 1][0]), []).append((k, position))
        for (i, j), places in faces.items():
            if not all(_meets(state.paths[k], position) for k, position in places):
                continue
            node = state.paths[places[0][0]][places[0][1]][1]
            assert node is not None
            assert node.parent is not None
            vertex = state.new(node.parent.value)
            state.operations.append(methodcaller("eliminate", i, j, vertex))
            state.faces += 1
            for k, position in places:
                one = state.paths[k][position][1]
                assert one is not None
                state.paths[k][position : position + 2] = [(vertex, one.parent)]
            return True
        return False

    def _add(self, state: _State) -> bool:
        """Merge vertices that all of their paths add up, where every term is there with the same P and S."""
        groups: dict[tuple[int, frozenset[int], frozenset[int]], dict[int, int]] = {}
        all_places = state.places()
        for vertex, places in all_places.items():
            target = self._target(state, places)
            if target is not None and self.program.kinds[target] != PRODUCT:
                group = groups.setdefault((target, *state.neighbours(places)), {})
                group.setdefault(state.value[vertex], vertex)
        for (target, _, _), terms in groups.items():
            if len(terms) == len(self.program.operands[target]):
                merged = state.new(target)
                vertices = [terms[term] for term in self.program.operands[target]]
                state.operations.append(methodcaller("merge", vertices, merged))
                for vertex in vertices:
                    state.rename(all_places[vertex], merged, up=True)
                return True
        return False

    def _join(self, state: _State) -> bool:
        """Join two copies with the same P or S that all of their paths treat alike."""
        ready: dict[tuple[int, int], list[int]] = {}
        all_places = state.places()
        for vertex, places in all_places.items():
            target = self._target(state, places)
            if target is not None:
                ready.setdefault((state.value[vertex], target), []).append(vertex)
        for copies in ready.values():
            for number, one in enumerate(copies):
                P, S = state.neighbours(all_places[one])
                for other in copies[number + 1 :]:
                    above, below = state.neighbours(all_places[other])
                    if (P == above and not S & below) or (S == below and not P & above):
                        state.operations.append(methodcaller("join", one, other))
                        state.rename(all_places[other], one, up=False)
                        return True
        return False

    def _target(self, state: _State, places: Sequence[tuple[int, int]]) -> int | None:
        """What all paths compute next from the vertex at these places, if that is one value."""
        parents = {node.parent.value if node and node.parent else -1 for node in _nodes(state, places)}
        target = parents.pop()
        return None if parents or target < 0 else target

    def _split(self, state: _State, vertex: int, side: Side, moved: frozenset[int]) -> None:
        copy = state.new(state.value[vertex])
        step = -1 if side == "predecessors" else 1
        places = [(k, at) for k, at in state.places()[vertex] if state.paths[k][at + step][0] in moved]
        state.rename(places, copy, up=False)
        state.operations.append(methodcaller("split", vertex, copy, **{side: moved}))
        state.splits.append((vertex, side, moved))

    def _candidates(self, state: _State) -> Iterator[tuple[int, Side, frozenset[int]]]:
        """Splits worth trying: those that part the paths of what is in the way first."""
        natural: dict[tuple[int, Side, frozenset[int]], None] = {}
        single: dict[tuple[int, Side, frozenset[int]], None] = {}
        all_places = state.places()
        for vertex, places in all_places.items():
            # by what they go into next, and with which neighbour
            ways: dict[object, list[tuple[int, int]]] = {}
            for k, at in places:
                node = state.paths[k][at][1]
                assert node is not None
                parent = node.parent.value if node.parent else -1
                ways.setdefault(parent, []).append((k, at))
            if len(ways) < 2:
                continue
            sides: tuple[tuple[Side, int], ...] = (("predecessors", -1), ("successors", 1))
            for side, step in sides:
                whole = {state.paths[k][at + step][0] for k, at in places}
                reach = {way: {state.paths[k][at + step][0] for k, at in found} for way, found in ways.items()}
                for way, found in reach.items():
                    others = set().union(*(found for other, found in reach.items() if other != way))
                    for moved in (found - others, others - found, found):
                        if moved and moved < whole:
                            natural[vertex, side, frozenset(moved)] = None
                for neighbour in sorted(whole):
                    if len(whole) > 1:
                        single[vertex, side, frozenset([neighbour])] = None
        yield from natural
        yield from (candidate for candidate in single if candidate not in natural)


def _nodes(state: _State, places: Sequence[tuple[int, int]]) -> list[_Node | None]:
    return [state.paths[k][position][1] for k, position in places]


def _meets(path: Sequence[tuple[int, _Node | None]], position: int) -> bool:
    one, other = path[position][1], path[position + 1][1]
    return one is not None and other is not None and one.parent is not None and one.parent is other.parent


def _result(program: ValueProgram, state: _State) -> Splitting:
    """Run what was found in a line graph that knows nothing of paths."""
    line = LineReplay(program.graph)
    for operation in state.operations:
        operation(line)
    accumulation = line.finish()
    accumulation.verify()
    splits = (
        Split(
            program.expression(state.value[vertex]),
            side,
            tuple(_shown(program, state, neighbour) for neighbour in sorted(moved)),
        )
        for vertex, side, moved in state.splits
    )
    return Splitting(tuple(splits), state.faces, accumulation, program.definitions())


def _shown(program: ValueProgram, state: _State, vertex: int) -> Expression | str:
    graph = program.graph
    if vertex >= 0:
        return program.expression(state.value[vertex])
    if vertex >= -len(graph.roots):
        return f"root {graph.vertices[graph.roots[-1 - vertex]]}"
    return f"terminal {graph.vertices[graph.terminals[-1 - len(graph.roots) - vertex]]}"
