"""Face elimination sequences that compute expressions, and the vertex splits that some expressions need.

**Replay.** A sequence is replayed in a line graph, which checks every step.

`LineReplay` is a `accumulus.elimination.edges_and_faces.FaceElimination` in which only the operations of the sequence
absorb or merge vertices. A product with the label 1 is free, and equal products of labels are computed once: the
elimination of both ⟨l,r⟩ and ⟨l',r⟩ for a copy l' of l takes one product.

Every operation keeps the sum over all paths from every root to every terminal, so `finish` returns the Jacobian for
every sequence.

**Sequences (Proposition 1).** `elimination_sequence` orders the products of a set and runs them in the line graph twice
(`accumulus.theory.algebra.values` states the theorem):

* exactly as written: every product eliminates one face, and every sum merges its terms, which by then have the same P
  and S (this is checked). The cost is the cost of the set.
* by Naumann's rules (`accumulus.elimination.edges_and_faces.FaceElimination`), which merge vertices with the same P and
  S at once. The cost is the cost of the set, or lower if the set has separate values that could be added. If two
  separate values of the program merge, the remaining products of one of them are left out.

A set whose elimination dependencies are circular has no such sequence; the error names the cycle.

**Splits.** Suppose that some paths multiply a face ⟨l,r⟩ now, and others only after another product. The face can be
eliminated for the former paths alone after l is split by its predecessors, or r by its successors, so that the two
groups of paths use different copies (the notes: explicit splitting). A split costs no product. Both copies have the
same label, so their products with a common neighbour are one product, and the set keeps its cost. With enough splits
every path has its own vertices, so a finite number always suffices.

`least_splits` searches for the smallest number by iterative deepening. Between splits it makes all products and sums
that the theorem of `accumulus.theory.algebra.values` allows, and joins copies again if the same value uses them next.
For a split it tries, at each vertex whose paths use different values next, to separate the neighbours by these values,
then to separate single neighbours. The search enumerates paths and examines a limited number of states. It is meant for
small sets, and its result is the smallest number *found*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, combinations, islice
from operator import methodcaller
from typing import Final, Literal

from accumulus.elimination.accumulation import Accumulation, SharedSteps
from accumulus.elimination.edges_and_faces import FaceElimination
from accumulus.errors import ExpressionError, OrderError
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.theory.algebra.expression import Expression
from accumulus.theory.algebra.relations import Face, program_dependencies
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.values import LABEL, PRODUCT, ValueProgram, bracketed, running_order, value_program


class LineReplay(FaceElimination):
    """State of the replay of a sequence in a line graph: every product and every sum is a new vertex.

    >>> line = LineReplay(DifferentiationGraph([("y", "a"), ("a", "x"), ("y", "b"), ("b", "x")]))
    >>> line.merge([line.eliminate(0, 1), line.eliminate(2, 3)])
    8
    >>> list(line.finish().steps)
    [(1, 0, 1), (1, 2, 3), (0, 4, 5)]
    """

    def __init__(self, graph: DifferentiationGraph) -> None:
        ones = frozenset(e for e, kind in enumerate(graph.kinds.tolist()) if kind == Kind.ONE)
        super().__init__(graph, _Steps(len(graph.sources), ones=ones))

    def eliminate(self, i: int, j: int) -> int:
        """Replace face ⟨i,j⟩ by a vertex with P_i and S_j, and return it; isolated vertices are removed.

        Raises:
            OrderError: if the face does not exist.
        """
        self.check_face(i, j)
        self._disconnect(i, j)
        k = self._made(self.steps.product(self.labels[i], self.labels[j]), i, j)
        self._settle()
        return k

    def merge(self, terms: Sequence[int]) -> int:
        """Replace vertices with the same P and S by a vertex with the sum of their labels, and return it.

        Raises:
            OrderError: if they do not have the same P and S.
        """
        first, *rest = terms
        for v in rest:
            if first not in self or v not in self or not self._equal(first, v, v):
                raise OrderError(f"{self.name(first)} and {self.name(v)} do not have the same P and S")
        k = self._made(reduce(self.steps.sum, sorted(self.labels[v] for v in terms)), first, first)
        for v in terms:
            self._remove(v)
        self._settle()
        return k

    def join(self, v: int, copy: int) -> None:
        """Undo a split: v takes over the faces of a vertex with the same label, and the same P or the same S.

        Raises:
            OrderError: if the labels or both P and S differ, or if the vertices have the same P and S, or common faces.
        """
        P, S = self.predecessors, self.successors
        same_p, same_s = P[v].keys() == P[copy].keys(), S[v].keys() == S[copy].keys()
        apart = S[v].keys().isdisjoint(S[copy]) if same_p else P[v].keys().isdisjoint(P[copy])
        if self.labels[v] != self.labels[copy] or same_p == same_s or not apart:
            raise OrderError(f"{self.name(v)} and {self.name(copy)} are not the two parts of a split")
        above, below = list(P[copy]), list(S[copy])
        self._remove(copy)
        for p in above if same_s else ():
            self._connect(p, v)
        for s in below if same_p else ():
            self._connect(v, s)
        self._settle()

    def finish(self) -> Accumulation:
        """Return the accumulation of the Jacobian; vertices between the same root and terminal are added up.

        Raises:
            OrderError: if a face remains.
        """
        for v in self.vertices():
            self._touch(v)
        super()._settle()
        return super().finish()

    def _made(self, label: int, i: int, j: int) -> int:
        """Return a new vertex with P_i and S_j."""
        k = self._vertex(label)
        for p in self.predecessors[i]:
            self._connect(p, k)
        for s in self.successors[j]:
            self._connect(k, s)
        return k

    def _settle(self) -> None:
        """Remove isolated vertices; the index stays empty, so no vertex is absorbed or merged."""
        while self._queue:
            v = self._queue.popleft()
            if v in self._changed and not (self.predecessors[v] and self.successors[v]):
                self._remove(v)
            self._changed.discard(v)


@dataclass(slots=True)
class _Steps(SharedSteps):
    """Steps without duplicates and without products with 1."""

    ones: frozenset[int] = frozenset()

    def product(self, left: int, right: int) -> int:
        if left in self.ones:
            return right
        return left if right in self.ones else SharedSteps.product(self, left, right)


# Sequences (Proposition 1) -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FaceSequence:
    """A face elimination sequence that computes a set of expressions.

    Attributes:
        products: the faces in the order of elimination, as pairs of factors, including products with unit edges, which
            cost nothing.
        definitions: definitions of the references in `products`.
        accumulation: the products and sums of the set in this order, as replayed in the line graph.
        faces: the sequence for `accumulus.elimination.edges_and_faces.eliminate_faces`, by numbers of line-graph
            vertices.
        naumann: the result of `faces`, which never has more products than `accumulation`.
    """

    products: tuple[Face, ...]
    definitions: ExpressionSet
    accumulation: Accumulation
    faces: tuple[tuple[int, int], ...]
    naumann: Accumulation


def elimination_sequence(
    subject: ExpressionSet | Accumulation, graph: DifferentiationGraph | None = None
) -> FaceSequence:
    """Return the face elimination sequence that computes exactly the set, at the cost of the set.

    Repeated subexpressions are computed once, so the cost is the cost of ``subject.shared()``.

    Args:
        subject: set of expressions, or an accumulation.
        graph: graph of an expression set; by default its `to_graph()`.

    Raises:
        ExpressionError: if the elimination dependencies are circular (the message names the cycle), or if the
            expressions are not the path sums of the graph.

    >>> expressions = ExpressionSet.parse("e18*(e3*e7 + e4*e8)*e15")
    >>> print(*elimination_sequence(expressions).products)
    ⟨e3, e7⟩ ⟨e4, e8⟩ ⟨e18, e3*e7 + e4*e8⟩ ⟨e18*(e3*e7 + e4*e8), e15⟩
    """
    order = running_order(value_program(subject, graph))
    program = order.program
    if not order.complete:
        cycle = program_dependencies(program).explain_cycle()
        raise ExpressionError(
            f"the elimination dependencies are circular, so no face elimination computes exactly this set:\n{cycle}\n"
            "least_splits(…) looks for vertices of the line graph to split"
        )
    faces, naumann = _by_naumann(program)
    return FaceSequence(
        tuple(
            Face(program.expression(left), program.expression(right))
            for left, right in (program.operands[v] for v in range(len(program)) if program.kinds[v] == PRODUCT)
        ),
        program.definitions(),
        _exactly(program),
        tuple(faces),
        naumann,
    )


def _exactly(program: ValueProgram) -> Accumulation:
    """Return the accumulation of the program, replayed in the line graph; sums check that P and S are equal."""
    line = LineReplay(program.graph)
    vertex: dict[int, int] = {}
    for v in range(len(program)):
        operands = [vertex[operand] for operand in program.operands[v]]
        if program.kinds[v] == LABEL:
            vertex[v] = v
        else:
            vertex[v] = line.eliminate(*operands) if program.kinds[v] == PRODUCT else line.merge(operands)
    return line.finish()


def _by_naumann(program: ValueProgram) -> tuple[list[tuple[int, int]], Accumulation]:
    """Return the faces and the accumulation of the program by Naumann's rules, which merge as soon as possible."""
    elimination = FaceElimination(program.graph)
    needed = _Needed(program)
    vertex = {v: v for v in range(len(program)) if program.kinds[v] == LABEL}
    holds = dict(vertex)
    merges = 0

    def settle() -> None:
        nonlocal merges
        for removed in islice(elimination.merged, merges, None):
            needed.drop(holds.pop(removed))
        merges = len(elimination.merged)

    settle()
    faces = []
    for v in range(len(program)):
        if program.kinds[v] == LABEL or v in needed.gone:
            continue
        needed.computed.add(v)
        operands = [operand for operand in program.operands[v] if operand not in needed.gone]
        if program.kinds[v] == PRODUCT:
            i, j = (vertex[operand] for operand in operands)
            absorbed = elimination.find(i, j) is not None
            if not absorbed:
                alone = len(elimination.successors[i]) == 1, len(elimination.predecessors[j]) == 1
                vertex[v] = i if alone[0] else j if alone[1] else len(elimination.labels)
                holds[vertex[v]] = v
            elimination.eliminate(i, j)
            faces.append((i, j))
            if absorbed:
                needed.drop(v)
            settle()
        else:
            (survivor,) = operands  # the other terms have been merged into it
            vertex[v] = vertex[survivor]
            holds[vertex[v]] = v
    return faces, elimination.finish()


class _Needed:
    """Bookkeeping of the values that need not be computed after vertices of the line graph have merged."""

    def __init__(self, program: ValueProgram) -> None:
        self.program = program
        self.users = program.uses()
        self.uses = {v: len(users) for v, users in self.users.items()}
        self.terms = {v: len(program.operands[v]) for v in self.users}
        for entry in program.entries.values():
            self.uses[entry] += 1
        self.computed = {v for v in self.users if program.kinds[v] == LABEL}
        self.gone: set[int] = set()

    def drop(self, v: int) -> None:
        """Drop v, all products that use it, sums without remaining terms, and values that only dropped ones need."""
        stack = [v]
        while stack:
            v = stack.pop()
            if v in self.gone:
                continue
            self.gone.add(v)
            for user in self.users.get(v, ()):
                self.terms[user] -= 1
                if user not in self.computed and (self.program.kinds[user] == PRODUCT or self.terms[user] == 0):
                    stack.append(user)
            if v not in self.computed:
                for operand in self.program.operands[v]:
                    self.uses[operand] -= 1
                    if self.uses[operand] == 0 and operand not in self.computed:
                        stack.append(operand)


# Splits --------------------------------------------------------------------------------------------------------------


#: Largest number of paths of a graph that is searched for splits, of states of the search, and of splits in one result:
#: the time of the search against the graphs that it covers. Not measured.
_PATHS: Final = 2_000
_STATES: Final = 2_000
_SPLITS: Final = 6

Side = Literal["predecessors", "successors"]


@dataclass(frozen=True, slots=True)
class Split:
    """Split of an interior vertex.

    Attributes:
        vertex: value of the vertex.
        side: side of the moved neighbours.
        moved: neighbours that are moved to the copy; roots and terminals as "root y", "terminal x".
    """

    vertex: Expression
    side: Side
    moved: tuple[Expression | str, ...]

    def __str__(self) -> str:
        return f"{self.vertex} with {self.side} {', '.join(map(str, self.moved))} on its own"


@dataclass(frozen=True)
class Splitting:
    """Face elimination with splits that computes a set.

    Attributes:
        splits: the splits in order; empty if the set needs none.
        faces: number of eliminated faces; faces of copies count separately, although their product is computed once.
        accumulation: the accumulation of the line graph, at the cost of the set.
        definitions: definitions of the references in `splits`.
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
    """Return the fewest splits found with which face elimination computes exactly the set.

    Args:
        subject: set of expressions, or an accumulation.
        graph: graph of an expression set; by default its `to_graph()`.
        most: largest number of splits.
        states: largest number of line graphs to examine for each number of splits.

    Raises:
        ExpressionError: if no solution is found within these bounds, or the graph has more than 2,000 paths.

    >>> expressions = ExpressionSet.parse('''
    ...     s1 = b*c;  s2 = a1*b;  s3 = c*d1
    ...     ∂y1/∂x1 = a1*s1*d1;  ∂y1/∂x2 = s2*c*d2
    ...     ∂y2/∂x1 = a2*b*s3;   ∂y2/∂x2 = a2*s1*d2
    ... ''')
    >>> print(*least_splits(expressions).splits, sep="; ")
    b with predecessors a2 on its own; c with successors d1 on its own
    """
    program = bracketed(value_program(subject, graph))
    for number in range(most + 1):
        state = _searched(_State.start(program), number, iter(range(states)))
        if state is not None:
            return state.result()
    raise ExpressionError(
        f"no way with at most {most} splits was found within {states} states each; allow more with most=…, states=…"
    )


def _searched(state: _State, splits: int, budget: Iterator[int]) -> _State | None:
    """Return a state without faces after at most the given number of splits; None if the search finds none.

    Each state after a split takes one item of the budget.
    """
    while state.join() or state.multiply() or state.add():
        pass
    if state.done():
        return state
    for vertex, side, moved in state.candidates() if splits else ():
        if next(budget, None) is None:
            return None
        child = state.copy()
        child.split(vertex, side, moved)
        final = _searched(child, splits - 1, budget)
        if final is not None:
            return final
    return None


class _Node:
    """Value of a segment of a path, and its parent: the node that uses it on the path; None for ends and entries."""

    __slots__ = ("parent", "value")

    def __init__(self, value: int, parent: _Node | None) -> None:
        self.value = value
        self.parent = parent


_Path = list[tuple[int, _Node]]
_Places = list[tuple[_Path, int]]


@dataclass
class _State:
    """A line graph, represented by its paths.

    Attributes:
        program: program to compute.
        value: value of each vertex.
        paths: vertices of every path, numbered as by `LineReplay`, with their nodes on the path; the first and last
            vertex are the root and the terminal.
        fresh: number of the next vertex.
        operations: operations so far, for the replay in a line graph.
        splits: splits so far: vertex, side and moved neighbours.
        faces: number of faces eliminated so far.
    """

    program: ValueProgram
    value: dict[int, int]
    paths: list[_Path]
    fresh: int
    operations: list[Callable[[LineReplay], object]] = field(default_factory=list)
    splits: list[tuple[int, Side, frozenset[int]]] = field(default_factory=list)
    faces: int = 0

    @classmethod
    def start(cls, program: ValueProgram) -> _State:
        """Return the initial state: all paths of all entries, with the nodes of their edges."""
        graph, counts = program.graph, program.path_counts()
        if sum(counts[entry] for entry in program.entries.values()) > _PATHS:
            raise ExpressionError(
                f"the graph has more than {_PATHS} paths; expected a small graph to search for splits"
            )
        edges = len(graph.sources)
        ends = {v: edges + k for k, v in enumerate((*graph.roots, *graph.terminals))}
        state = cls(program, {e: e for e in range(edges)}, [], edges + len(ends))
        nothing = _Node(-1, None)
        for entry in program.entries.values():
            first, last = (ends[v] for v in program.ends[entry])
            for number in range(counts[entry]):
                path = [(first, nothing)]
                stack: list[tuple[_Node | None, int, int]] = [(None, entry, number)]
                while stack:
                    parent, v, k = stack.pop()
                    node = _Node(v, parent)
                    if program.kinds[v] == LABEL:
                        path.append((v, node))
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
                state.paths.append([*path, (last, nothing)])
        return state

    def copy(self) -> _State:
        paths = [list(path) for path in self.paths]
        values, operations, splits = dict(self.value), list(self.operations), list(self.splits)
        return _State(self.program, values, paths, self.fresh, operations, splits, self.faces)

    def done(self) -> bool:
        return all(node.parent is None for path in self.paths for _, node in path)

    def multiply(self) -> bool:
        """Eliminate a face that all of its paths multiply next; return False if there is none."""
        faces: dict[tuple[int, int], _Places] = {}
        for path in self.paths:
            for at in range(1, len(path) - 2):
                faces.setdefault((path[at][0], path[at + 1][0]), []).append((path, at))
        for (i, j), places in faces.items():
            parents = [(path[at][1].parent, path[at + 1][1].parent) for path, at in places]
            if any(one is None or one is not other for one, other in parents):
                continue
            made = parents[0][0]
            assert made is not None
            vertex = self._new(made.value)
            self.operations.append(methodcaller("eliminate", i, j))
            self.faces += 1
            for (path, at), (parent, _) in zip(places, parents, strict=True):
                assert parent is not None
                path[at : at + 2] = [(vertex, parent)]
            return True
        return False

    def add(self) -> bool:
        """Merge the terms of a sum that all of their paths compute next, if P and S are equal; else return False."""
        groups: dict[tuple[int, frozenset[int], frozenset[int]], dict[int, int]] = {}
        all_places = self._places()
        for vertex, places in all_places.items():
            target = _target(places)
            if target is not None and self.program.kinds[target] != PRODUCT:
                group = groups.setdefault((target, _neighbours(places, -1), _neighbours(places, 1)), {})
                group.setdefault(self.value[vertex], vertex)
        for (target, _, _), terms in groups.items():
            if len(terms) == len(self.program.operands[target]):
                merged = self._new(target)
                vertices = [terms[term] for term in self.program.operands[target]]
                self.operations.append(methodcaller("merge", vertices))
                for path, at in (occurrence for vertex in vertices for occurrence in all_places[vertex]):
                    parent = path[at][1].parent
                    assert parent is not None
                    path[at] = (merged, parent)
                return True
        return False

    def join(self) -> bool:
        """Join two copies with the same P or S if all of their paths compute the same value next; else return False."""
        ready: dict[tuple[int, int], list[int]] = {}
        all_places = self._places()
        for vertex, places in all_places.items():
            target = _target(places)
            if target is not None:
                ready.setdefault((self.value[vertex], target), []).append(vertex)
        for one, other in chain.from_iterable(combinations(copies, 2) for copies in ready.values()):
            (P, above), (S, below) = ((_neighbours(all_places[v], step) for v in (one, other)) for step in (-1, 1))
            if (P == above and not S & below) or (S == below and not P & above):
                self.operations.append(methodcaller("join", one, other))
                _rename(all_places[other], one)
                return True
        return False

    def split(self, vertex: int, side: Side, moved: frozenset[int]) -> None:
        """Move some neighbours of a vertex to a copy."""
        step = -1 if side == "predecessors" else 1
        places = [(path, at) for path, at in self._places()[vertex] if path[at + step][0] in moved]
        _rename(places, self._new(self.value[vertex]))
        self.operations.append(methodcaller("split", vertex, **{side: moved}))
        self.splits.append((vertex, side, moved))

    def candidates(self) -> Iterator[tuple[int, Side, frozenset[int]]]:
        """Yield candidates for the next split; splits that separate paths by their next value come first."""
        natural: dict[tuple[int, Side, frozenset[int]], None] = {}
        single: dict[tuple[int, Side, frozenset[int]], None] = {}
        sides: tuple[tuple[Side, int], ...] = (("predecessors", -1), ("successors", 1))
        for vertex, places in self._places().items():
            # places by the next value of their paths
            ways: dict[int, _Places] = {}
            for path, at in places:
                parent = path[at][1].parent
                ways.setdefault(parent.value if parent else -1, []).append((path, at))
            for side, step in sides if len(ways) > 1 else ():
                whole = _neighbours(places, step)
                reach = {way: _neighbours(occurrences, step) for way, occurrences in ways.items()}
                for way, neighbours in reach.items():
                    rest = frozenset().union(*(neighbours for other, neighbours in reach.items() if other != way))
                    for moved in (neighbours - rest, rest - neighbours, neighbours):
                        if moved and moved < whole:
                            natural[vertex, side, moved] = None
                for neighbour in sorted(whole) if len(whole) > 1 else ():
                    single[vertex, side, frozenset([neighbour])] = None
        yield from natural
        yield from (candidate for candidate in single if candidate not in natural)

    def result(self) -> Splitting:
        """Return the splitting, after the replay of its operations in a line graph."""
        program, graph = self.program, self.program.graph
        line = LineReplay(graph)
        for operation in self.operations:
            operation(line)
        accumulation = line.finish()
        accumulation.verify()
        shown: dict[int, Expression | str] = {v: program.expression(value) for v, value in self.value.items()}
        for role, first, ends in (("root", 0, graph.roots), ("terminal", len(graph.roots), graph.terminals)):
            for k, v in enumerate(ends, len(graph.sources) + first):
                shown[k] = f"{role} {graph.vertices[v]}"
        splits = (
            Split(program.expression(self.value[vertex]), side, tuple(shown[neighbour] for neighbour in sorted(moved)))
            for vertex, side, moved in self.splits
        )
        return Splitting(tuple(splits), self.faces, accumulation, program.definitions())

    def _new(self, value: int) -> int:
        self.fresh += 1
        self.value[self.fresh - 1] = value
        return self.fresh - 1

    def _places(self) -> dict[int, _Places]:
        """Return the places of each vertex: paths with positions."""
        places: dict[int, _Places] = {}
        for path in self.paths:
            for at in range(1, len(path) - 1):
                places.setdefault(path[at][0], []).append((path, at))
        return places


def _neighbours(places: _Places, step: int) -> frozenset[int]:
    """Return the vertices before (-1) or after (1) these places on their paths."""
    return frozenset(path[at + step][0] for path, at in places)


def _rename(places: _Places, vertex: int) -> None:
    """Replace the vertex at these places."""
    for path, at in places:
        path[at] = (vertex, path[at][1])


def _target(places: _Places) -> int | None:
    """Return the value that all paths at these places compute next; None if it is not unique, or there is none."""
    parents = {node.value if (node := path[at][1].parent) else -1 for path, at in places}
    target = parents.pop()
    return None if parents or target < 0 else target
