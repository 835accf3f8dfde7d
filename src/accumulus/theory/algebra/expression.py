"""Expressions over edge labels: sums, noncommutative products, and references to shared expressions.

An expression says how a sum over paths is computed (the notes, section "Factorization and Conversion"): a product
multiplies along a path, its first factor nearest to the root; a sum adds paths between the same two vertices; a
reference s_k stands for an expression that is computed once and used in several places.

Expressions are immutable and compare by structure: products of products and sums of sums are flattened, the order
of factors counts, the order of terms does not (they are kept in one canonical order: natural order of the labels
along the path). Equality and hash go by a 128-bit digest of the structure that every node carries, so both take
constant time, however large the expressions. Nothing here recurses: depth is bounded by memory only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeVar

from accumulus.errors import ExpressionError
from accumulus.theory.algebra.names import latex_name, quoted

if TYPE_CHECKING:
    import sympy

__all__ = [
    "Expression",
    "Product",
    "Reference",
    "Sum",
    "Symbol",
    "fold",
    "natural",
    "operands",
    "postorder",
    "product",
    "total",
]

#: How many labels along the path decide the order of terms; further ones leave it to the digest.
_LEADING: Final = 6

Node = TypeVar("Node", bound=Hashable)
Value = TypeVar("Value")


class Expression:
    """Base of `Symbol`, `Reference`, `Product` and `Sum`.

    >>> e1, e2, e3 = Symbol("e1"), Symbol("e2"), Symbol("e3")
    >>> e1 * (e2 + e3) == e1 * (e3 + e2), e1 * e2 == e2 * e1
    (True, False)
    >>> print((e1 + e2) * e3)
    (e1 + e2)*e3
    """

    __slots__ = ("_digest", "_leading")

    _digest: bytes
    _leading: tuple[Any, ...]

    def _identify(self, mark: bytes, parts: Iterable[bytes], leading: tuple[Any, ...]) -> None:
        digest = blake2b(mark, digest_size=16)
        for part in parts:
            digest.update(part)
        object.__setattr__(self, "_digest", digest.digest())
        object.__setattr__(self, "_leading", leading)

    @property
    def multiplications(self) -> int:
        """Products that evaluating the expression as written takes; references are not followed.

        >>> (Symbol("e1") * (Symbol("e2") * Symbol("e3") + Symbol("e4"))).multiplications
        2
        """
        return fold(self, lambda node, inner: sum(inner) + max(0, len(inner) - 1) * isinstance(node, Product))

    def latex(self) -> str:
        """The expression as LaTeX mathematics: products by juxtaposition, trailing digits as indices.

        >>> print((Symbol("e18") * (Symbol("e3") + Symbol("e4"))).latex())
        e_{18} (e_{3} + e_{4})
        """
        return _written(self, latex_name, " ")

    def sympy(self) -> sympy.Expr:
        """The expression in SymPy, over noncommutative symbols, since the order of factors is the path.

        Raises:
            ExpressionError: if SymPy is not installed.
        """
        try:
            import sympy
        except ImportError:
            raise ExpressionError("printing for SymPy needs SymPy: pip install sympy") from None

        def combine(node: Expression, parts: list[sympy.Expr]) -> sympy.Expr:
            if isinstance(node, (Symbol, Reference)):
                return sympy.Symbol(node.name, commutative=False)
            return sympy.Mul(*parts) if isinstance(node, Product) else sympy.Add(*parts)

        return fold(self, combine)

    def __mul__(self, other: Expression) -> Expression:
        return product((self, other)) if isinstance(other, Expression) else NotImplemented

    def __add__(self, other: Expression) -> Expression:
        return total((self, other)) if isinstance(other, Expression) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self._digest == other._digest if isinstance(other, Expression) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._digest)

    def __str__(self) -> str:
        """Text that `accumulus.theory.algebra.parser` reads back."""
        return _written(self, quoted, "*")

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Symbol(Expression):
    """The label of an edge, by name."""

    name: str

    def __post_init__(self) -> None:
        self._identify(b"symbol", (_encoded(self.name),), ((natural(self.name), 0),))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Reference(Expression):
    """An expression that an `ExpressionSet` defines under this name: the notes' reference variable."""

    name: str

    def __post_init__(self) -> None:
        self._identify(b"reference", (_encoded(self.name),), ((natural(self.name), 1),))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Product(Expression):
    """Two or more factors along a path; factors that are products themselves are spliced in.

    Raises:
        ExpressionError: for less than two factors; `product` takes any positive number.
    """

    factors: tuple[Expression, ...]

    def __post_init__(self) -> None:
        factors = _flattened(self.factors, Product)
        object.__setattr__(self, "factors", factors)
        self._identify(b"product", (factor._digest for factor in factors), _leading(factors))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Sum(Expression):
    """Two or more terms between the same two vertices; terms that are sums themselves are spliced in.

    Raises:
        ExpressionError: for less than two terms; `total` takes any positive number.
    """

    terms: tuple[Expression, ...]

    def __post_init__(self) -> None:
        terms = tuple(sorted(_flattened(self.terms, Sum), key=_order))
        object.__setattr__(self, "terms", terms)
        self._identify(b"sum", sorted(term._digest for term in terms), _leading(terms))


def product(factors: Iterable[Expression]) -> Expression:
    """Product of the factors in order; of one, that factor itself."""
    given = tuple(factors)
    return given[0] if len(given) == 1 else Product(given)


def total(terms: Iterable[Expression]) -> Expression:
    """Sum of the terms; of one, that term itself."""
    given = tuple(terms)
    return given[0] if len(given) == 1 else Sum(given)


def operands(expression: Expression) -> tuple[Expression, ...]:
    """Factors of a product, terms of a sum, nothing for a symbol or a reference."""
    if isinstance(expression, Product):
        return expression.factors
    return expression.terms if isinstance(expression, Sum) else ()


def postorder(roots: Iterable[Node], children: Callable[[Node], Sequence[Node]]) -> Iterator[Node]:
    """Every node that can be reached, once, after all of its children (around a cycle: after all but those open)."""
    opened: set[Node] = set()
    for root in roots:
        if root in opened:
            continue
        opened.add(root)
        stack = [(root, iter(children(root)))]
        while stack:
            node, rest = stack[-1]
            child = next((child for child in rest if child not in opened), None)
            if child is None:
                stack.pop()
                yield node
            else:
                opened.add(child)
                stack.append((child, iter(children(child))))


def fold(expression: Expression, combine: Callable[[Expression, list[Value]], Value]) -> Value:
    """Value of the expression, where `combine` makes the value of a node from those of its operands.

    Equal subexpressions are combined once.
    """
    values: dict[Expression, Value] = {}
    for node in postorder([expression], operands):
        values[node] = combine(node, [values[operand] for operand in operands(node)])
    return values[expression]


def _flattened(given: Sequence[Expression], kind: type[Product] | type[Sum]) -> tuple[Expression, ...]:
    parts: list[Expression] = []
    for part in given:
        if not isinstance(part, Expression):
            raise ExpressionError(f"{part!r} in a {kind.__name__}: expected an expression; Symbol(name) makes one")
        parts += operands(part) if isinstance(part, kind) else (part,)
    if len(parts) < 2:
        raise ExpressionError(f"a {kind.__name__} of {len(parts)} expressions; expected at least two")
    return tuple(parts)


def _order(expression: Expression) -> tuple[Any, ...]:
    return expression._leading, expression._digest


def _leading(parts: Sequence[Expression]) -> tuple[Any, ...]:
    leading: tuple[Any, ...] = ()
    for part in parts:
        leading += part._leading
        if len(leading) >= _LEADING:
            break
    return leading[:_LEADING]


def _encoded(name: str) -> bytes:
    if not isinstance(name, str) or not name:
        raise ExpressionError(f"{name!r} as a name: expected a nonempty string")
    return name.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=65536)
def natural(name: str) -> tuple[Any, ...]:
    """Sorts e2 before e10: text and numbers by turns."""
    parts = re.split(r"([0-9]+)", name)
    return tuple(int(part) if k % 2 else part for k, part in enumerate(parts))


def _written(expression: Expression, name: Callable[[str], str], times: str) -> str:
    def combine(node: Expression, parts: list[str]) -> str:
        if isinstance(node, (Symbol, Reference)):
            return name(node.name)
        if isinstance(node, Sum):
            return " + ".join(parts)
        assert isinstance(node, Product)
        factors = zip(node.factors, parts, strict=True)
        return times.join(f"({part})" if isinstance(factor, Sum) else part for factor, part in factors)

    return fold(expression, combine)
