"""Face elimination sequences from expressions: Proposition 1 of the notes, made to run.

`elimination_sequence` orders the products of a set and runs them in the line graph twice (the theorem is stated and
proven in `accumulus.theory.algebra.running_order`):

* exactly as written: every product eliminates one face, every sum merges its terms, which by then have the same P and
  S (this is checked); the cost is that of the set;
* by Naumann's rules (`accumulus.elimination.face.FaceElimination`), which merge at once whatever has the same P and S:
  the cost is that of the set, or less where the set keeps apart what could be added up. Where two values that the
  program keeps apart merge, the products of the younger are left out.

A set whose elimination dependencies are circular has no such sequence; the error names the cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.face import FaceElimination
from accumulus.errors import ExpressionError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.theory.algebra.dependencies import program_dependencies
from accumulus.theory.algebra.relations import Face
from accumulus.theory.algebra.replay import LineReplay
from accumulus.theory.algebra.running_order import running_order
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.values import LABEL, PRODUCT, ValueProgram, program_of

__all__ = ["FaceSequence", "elimination_sequence"]


@dataclass(frozen=True)
class FaceSequence:
    """A face elimination sequence that computes a set of expressions.

    Attributes:
        products: the faces in the order of elimination, as pairs of factors; those with unit edges, which cost nothing,
            included.
        definitions: what the references in `products` stand for.
        accumulation: the set's own products and sums in that order, as run in the line graph.
        faces: the sequence for `accumulus.elimination.face.eliminate_faces`, by numbers of line-graph vertices.
        naumann: what that gives; never more products.
    """

    products: tuple[Face, ...]
    definitions: ExpressionSet
    accumulation: Accumulation
    faces: tuple[tuple[int, int], ...]
    naumann: Accumulation


def elimination_sequence(
    subject: ExpressionSet | Accumulation, graph: DifferentiationGraph | None = None
) -> FaceSequence:
    """The face elimination sequence that computes exactly what the set says, at the set's own cost.

    What a set writes twice is computed once: the cost is that of ``subject.shared()``.

    Args:
        graph: of an expression set; its own `to_graph()` if not given.

    Raises:
        ExpressionError: naming the cycle, if the elimination dependencies are circular; naming the culprit, if the
            expressions are not the path sums of the graph.

    >>> expressions = ExpressionSet.parse("e18*(e3*e7 + e4*e8)*e15")
    >>> print(*elimination_sequence(expressions).products)
    ⟨e3, e7⟩ ⟨e4, e8⟩ ⟨e18, e3*e7 + e4*e8⟩ ⟨e18*(e3*e7 + e4*e8), e15⟩
    """
    found = running_order(program_of(subject, graph))
    program = found.program
    if not found.complete:
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
    """Run the program in the line graph as it stands; its sums merge what has the same P and S, which is checked."""
    line = LineReplay(program.graph)
    for v in range(len(program)):
        if program.kinds[v] == PRODUCT:
            left, right = program.operands[v]
            line.eliminate(left, right, v)
        elif program.kinds[v] != LABEL:
            line.merge(program.operands[v], v)
    return line.finish()


def _by_naumann(program: ValueProgram) -> tuple[list[tuple[int, int]], Accumulation]:
    """The same sequence with merging as soon as possible."""
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
            (kept,) = operands  # the others have merged with it
            vertex[v] = vertex[kept]
            holds[vertex[v]] = v
    return faces, elimination.finish()


class _Needed:
    """What is still to be computed when the paths of some values follow the brackets of others."""

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
        """The paths of v go another way: so do those of all that needs it, and what only these need is not needed."""
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
