"""Multiplication relations: which factors are multiplied as neighbours, and which through a parenthesis.

Two factors of an expression set have a *direct* relation, s1·s2, where they stand next to each other in a product, and
an *indirect* one where a parenthesis is between them (the notes, section "Multi-Root or Multi-Terminal"):

    s1|s2s3      in s1(s2s3 + Δ): s2 is multiplied by s3 first
    s3s1|s2      in (Δ + s3s1)s2: s1 is multiplied by s3 first
    s3s1|s2s4    in (Δ + s3s1)(s2s4 + Δ'): both
    s1|s2        in s1(s2 + Δ) or (Δ + s1)s2 or (Δ + s1)(s2 + Δ'): the parenthesis only adds

The notes count four forms (proof of Lemma 1) and leave out those with a parenthesis on both sides; these occur in
least-cost sets, as in (e1e3 + e2e4)(e5e7 + e6e8). The Δ may be missing: what is shared is in parentheses too, and a
reference opens one wherever it is used.

Every relation says what face elimination has to look out for: ⟨s1,s2⟩, if it is multiplied somewhere, must not be
eliminated while a path still has s1 and s2 as neighbours that belong to different parentheses. `Relation.awaits`
lists the faces of which one has to go before: one for s1|s2s3 and s3s1|s2 (Lemma 2), either of two for s3s1|s2s4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from accumulus.elimination.accumulation import Accumulation
from accumulus.graph.graph import DifferentiationGraph
from accumulus.theory.algebra.expression import Expression, Product, Sum, Symbol, postorder
from accumulus.theory.algebra.names import plain
from accumulus.theory.algebra.parser import fail
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.values import PRODUCT, ValueProgram, program_of

__all__ = ["Face", "Joint", "Relation", "joints", "relation_of", "relations"]

_FACTOR: Final = re.compile(r"\s*[*·]?\s*([^\W\d_]+(?:_\{-?\w+\}|_?\d+)?[′']*)\s*")


@dataclass(frozen=True, slots=True)
class Face:
    """Two values that are neighbours on a path: an edge of the line graph."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"⟨{self.left}, {self.right}⟩"


@dataclass(frozen=True, slots=True)
class Relation:
    """A direct or indirect multiplication relation.

    Attributes:
        before: the left factor, and before it the factor that it is multiplied by first, if any.
        after: the right factor, and after it the factor that it is multiplied by first, if any.
        direct: whether nothing is between the two.

    >>> relation = Relation.parse("s1|s2s3")
    >>> print(relation.face, "awaits", *relation.awaits)
    ⟨s1, s2⟩ awaits ⟨s2, s3⟩
    """

    before: tuple[Expression, ...]
    after: tuple[Expression, ...]
    direct: bool = False

    @classmethod
    def parse(cls, text: str) -> Relation:
        """A relation in the notes' spelling: ``s1|s2s3``, ``s3s1|s2``, ``s3s1|s2s4``, ``s1|s2``, or direct ``s1s2``.

        Raises:
            ExpressionError: pointing at the character where the text stops being a relation.
        """
        sides: list[list[Expression]] = [[]]
        position = 0
        while position < len(text):
            if text[position] == "|" and len(sides) == 1 and sides[0]:
                sides.append([])
                position += 1
                continue
            match = _FACTOR.match(text, position)
            if match is None or len(sides[-1]) == 2:
                fail(text, position, "expected a relation such as s1|s2s3, s3s1|s2 or, direct, s1s2")
            sides[-1].append(Symbol(plain(match[1])))
            position = match.end()
        if len(sides) == 1 and len(sides[0]) == 2:
            return cls((sides[0][0],), (sides[0][1],), direct=True)
        if len(sides) == 1 or not sides[1]:
            fail(text, len(text), "expected a relation such as s1|s2s3, s3s1|s2 or, direct, s1s2")
        return cls(tuple(sides[0]), tuple(sides[1]))

    @property
    def face(self) -> Face:
        """The two factors."""
        return Face(self.before[-1], self.after[0])

    @property
    def awaits(self) -> tuple[Face, ...]:
        """Faces of which one has to be eliminated before this relation's face may be."""
        sides = (side for side in (self.before, self.after) if len(side) == 2)
        return tuple(Face(*side) for side in sides)

    def __str__(self) -> str:
        sides = ["*".join(_parenthesized(factor) for factor in side) for side in (self.before, self.after)]
        return ("*" if self.direct else "|").join(sides)


@dataclass(frozen=True, slots=True)
class Joint:
    """A place in a program where two values are neighbours, with what each of them goes into next.

    `left_next` and `right_next` are the values that take `left` and `right` up; `product` is where the two
    sides meet: one of the three, if they are factors of it themselves. `left_factor` and `right_factor` are what
    they are multiplied by there, on their other side; None where they are added.
    """

    left: int
    right: int
    product: int
    left_next: int
    right_next: int
    left_factor: int | None = None
    right_factor: int | None = None

    @property
    def direct(self) -> bool:
        """Whether the two are factors of one product."""
        return self.left_next == self.right_next == self.product


#: A value at one end of another, what it goes into there, and the factor on its other side.
_End = tuple[int, int, int | None]


def joints(program: ValueProgram) -> Iterator[Joint]:
    """Every way in which two values of the program are neighbours on some path, once."""
    rights, lefts = _ends(program, -1), _ends(program, 0)
    for product in program.live():
        if program.kinds[product] != PRODUCT:
            continue
        factors = program.operands[product]
        for one, other in pairwise(factors):
            for left, left_next, left_factor in ((one, product, None), *rights[one]):
                for right, right_next, right_factor in ((other, product, None), *lefts[other]):
                    yield Joint(left, right, product, left_next, right_next, left_factor, right_factor)


def relations(subject: ExpressionSet | Accumulation, graph: DifferentiationGraph | None = None) -> tuple[Relation, ...]:
    """All multiplication relations of a set, references looked into; direct ones first.

    Between labels, references and sums; terms that are products without a name of their own are looked into.
    Factors are named as in ``program_of(subject, graph).definitions()``. Quadratic in the depth of parentheses.

    >>> expressions = ExpressionSet.parse("e18*(e3*e7 + e4*e8)*e15")
    >>> print(*relations(expressions), sep="; ")
    e3*e7; e4*e8; e18*(e3*e7 + e4*e8); (e3*e7 + e4*e8)*e15; e18|e3*e7; e18|e4*e8; e3*e7|e15; e4*e8|e15
    """
    program = program_of(subject, graph)
    found = dict.fromkeys(relation_of(program, joint) for joint in joints(program))
    named = (relation for relation in found if not any(isinstance(end, Product) for end in _ends_of(relation)))
    return tuple(sorted(named, key=lambda relation: not relation.direct))


def _ends_of(relation: Relation) -> tuple[Expression, Expression]:
    return relation.before[-1], relation.after[0]


def relation_of(program: ValueProgram, joint: Joint) -> Relation:
    """The relation that the factors at a joint have."""
    before = tuple(v for v in (joint.left_factor, joint.left) if v is not None)
    after = tuple(v for v in (joint.right, joint.right_factor) if v is not None)
    """The relation that the factors at a joint have."""
    return Relation(
        tuple(program.expression(v) for v in before), tuple(program.expression(v) for v in after), joint.direct
    )


def _ends(program: ValueProgram, side: int) -> dict[int, tuple[_End, ...]]:
    """What stands inside each value at its right (-1) or left (0) end, and inside that, and so on."""
    ends: dict[int, tuple[_End, ...]] = {}
    for v in postorder(program.entries.values(), lambda value: program.operands[value]):
        operands = program.operands[v]
        found: dict[_End, None] = {}
        if program.kinds[v] == PRODUCT:
            outer, inner = (operands[-1], operands[-2]) if side else (operands[0], operands[1])
            found[outer, v, inner] = None
            found.update(dict.fromkeys(ends[outer]))
        else:
            for term in operands:
                found[term, v, None] = None
                found.update(dict.fromkeys(ends[term]))
        ends[v] = tuple(found)
    return ends


def _parenthesized(factor: Expression) -> str:
    return f"({factor})" if isinstance(factor, (Sum, Product)) else str(factor)
