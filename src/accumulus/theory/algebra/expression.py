"""Expressions over edge labels: nodes, names, text, and their values as noncommutative polynomials.

**Nodes.** An expression is a way to compute a sum over paths (the notes, section "Factorization and Conversion"). A
product multiplies along a path, and its first factor is nearest to the root. A sum adds paths between the same two
vertices. A reference s_k denotes an expression that is computed once and used in several places.

Expressions are immutable and compare by structure. Products of products and sums of sums are flattened. The order of
factors matters; the order of terms does not, and terms are stored in a canonical order, the natural order of the labels
along the path. Equality and hash use a 128-bit digest of the structure, which every node stores, so both take constant
time for expressions of any size. No function recurses, so only memory bounds the depth.

**Names.** The name of an edge is its symbol, without TeX's braces (e_{10} is e10), or e1, e2, … by number if it has no
symbol. Several edges may have the same label, such as those of the copies of a split vertex in the notes' drawings.
They keep the same name if names still determine a path. That needs no unit edges, which expressions may omit, and
different names for all edges out of one vertex, or for all edges into one vertex. Otherwise the later edges get primes.

**Text.** The parser never evaluates its input. The grammar is:

    expression = product {"+" product}
    product    = factor {("*" | "·") factor}
    factor     = name | "(" expression ")"
    name       = letter {letter | digit | "_" | "′" | "'"} ["_{" … "}"] | "`" anything but a backquote "`"

TeX's index braces are not part of a name: e_{10} is e10. A set of expressions has one statement on each line, or
several between semicolons. Lines that begin with # are comments:

    s1 = e8*e11 + e9*e12                                 defines a reference
    ∂v1/∂v9 = e1*(e3*e7*e11 + e4*s1) + e2*…              an entry of the Jacobian; d is accepted for ∂

Parsing is linear in the text, and only memory bounds the nesting of parentheses.

**Polynomials.** `expand` multiplies out: every word is a path, and its coefficient is the multiplicity of the path. The
number of words is exponential in general, so there is a limit. `equivalent` expands small expressions. Otherwise it
evaluates both sides at random k×k matrices modulo the prime p = 2³¹ − 1, with 2k greater than the degree. No nonzero
polynomial of degree below 2k vanishes on all k×k matrices (Amitsur and Levitzki 1950), so two different polynomials
agree with probability about degree/p in each of three trials (Schwartz and Zippel). Above degree 127 k stays at 64:
unequal values still prove a difference, but the probability of a false agreement is not bounded.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.compiled.residues_kernel import PRIME
from accumulus.arrays.residues import matrix_product, residues_of
from accumulus.errors import ExpressionError
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.text import fresh, printable

if TYPE_CHECKING:
    import sympy


#: Number of leading labels that determine the order of terms; the digest decides between terms with equal ones. More
#: take memory in each expression, fewer leave more terms in an order that readers cannot follow.
_LEADING: Final = 6

#: Names of a root and a terminal.
Entry = tuple[Hashable, Hashable]
Node = TypeVar("Node", bound=Hashable)
Value = TypeVar("Value")


class Expression:
    """Base class of `Symbol`, `Reference`, `Product` and `Sum`.

    >>> e1, e2, e3 = Symbol("e1"), Symbol("e2"), Symbol("e3")
    >>> e1 * (e2 + e3) == e1 * (e3 + e2), e1 * e2 == e2 * e1
    (True, False)
    >>> print((e1 + e2) * e3)
    (e1 + e2)*e3
    """

    __slots__ = ("_digest", "_leading")

    _digest: bytes
    _leading: tuple[Any, ...]

    def _identify(self, mark: bytes, chunks: Iterable[bytes], leading: tuple[Any, ...]) -> None:
        digest = blake2b(mark, digest_size=16)
        for chunk in chunks:
            digest.update(chunk)
        object.__setattr__(self, "_digest", digest.digest())
        object.__setattr__(self, "_leading", leading)

    @property
    def multiplications(self) -> int:
        """Number of products of the expression as written; the definitions of references do not count.

        >>> (Symbol("e1") * (Symbol("e2") * Symbol("e3") + Symbol("e4"))).multiplications
        2
        """
        return folded([self], lambda node, inner: sum(inner) + max(0, len(inner) - 1) * isinstance(node, Product))[self]

    def latex(self) -> str:
        """Return the expression in LaTeX: products by juxtaposition, trailing digits as indices.

        >>> print((Symbol("e18") * (Symbol("e3") + Symbol("e4"))).latex())
        e_{18} (e_{3} + e_{4})
        """
        return _written(self, latex_name, " ")

    def sympy(self) -> sympy.Expr:
        """Return the expression in SymPy, with noncommutative symbols, since the order of factors is the path.

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

        return folded([self], combine)[self]

    def __mul__(self, other: Expression) -> Expression:
        return product_of_factors((self, other)) if isinstance(other, Expression) else NotImplemented

    def __add__(self, other: Expression) -> Expression:
        return sum_of_terms((self, other)) if isinstance(other, Expression) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self._digest == other._digest if isinstance(other, Expression) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._digest)

    def __str__(self) -> str:
        """Return the text form, which `parse` reads back."""
        return _written(self, quoted, "*")

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Symbol(Expression):
    """Label of an edge."""

    name: str

    def __post_init__(self) -> None:
        self._identify(b"symbol", (_encoded(self.name),), ((natural(self.name), 0),))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Reference(Expression):
    """Name of an expression that an `ExpressionSet` defines: the notes' reference variable."""

    name: str

    def __post_init__(self) -> None:
        self._identify(b"reference", (_encoded(self.name),), ((natural(self.name), 1),))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Product(Expression):
    """Product of two or more factors along a path; nested products are flattened.

    Raises:
        ExpressionError: for fewer than two factors; `product_of_factors` accepts any positive number.
    """

    factors: tuple[Expression, ...]

    def __post_init__(self) -> None:
        factors = _flattened(self.factors, Product)
        object.__setattr__(self, "factors", factors)
        self._identify(b"product", (factor._digest for factor in factors), _leading(factors))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Sum(Expression):
    """Sum of two or more terms between the same two vertices; nested sums are flattened.

    Raises:
        ExpressionError: for fewer than two terms; `sum_of_terms` accepts any positive number.
    """

    terms: tuple[Expression, ...]

    def __post_init__(self) -> None:
        terms = tuple(sorted(_flattened(self.terms, Sum), key=lambda term: (term._leading, term._digest)))
        object.__setattr__(self, "terms", terms)
        self._identify(b"sum", sorted(term._digest for term in terms), _leading(terms))


def product_of_factors(factors: Iterable[Expression]) -> Expression:
    """Return the product of the factors in order; a single factor is returned unchanged."""
    factors = tuple(factors)
    return factors[0] if len(factors) == 1 else Product(factors)


def sum_of_terms(terms: Iterable[Expression]) -> Expression:
    """Return the sum of the terms; a single term is returned unchanged."""
    terms = tuple(terms)
    return terms[0] if len(terms) == 1 else Sum(terms)


def operands(expression: Expression) -> tuple[Expression, ...]:
    """Return the factors of a product or the terms of a sum; () for a symbol or a reference."""
    if isinstance(expression, Product):
        return expression.factors
    return expression.terms if isinstance(expression, Sum) else ()


def postorder(roots: Iterable[Node], children: Callable[[Node], Sequence[Node]]) -> Iterator[Node]:
    """Yield every reachable node once, after its children; in a cycle, after all children that do not lead back."""
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


def folded(
    expressions: Iterable[Expression],
    combine: Callable[[Expression, list[Value]], Value],
    references: Mapping[str, Expression] | None = None,
) -> dict[Expression, Value]:
    """Return the value of every subexpression; `combine` computes each once from the values of its operands.

    Args:
        expressions: expressions to evaluate.
        combine: function of a node and its operands' values.
        references: definitions; the operand of a reference is its definition. If None, references have no operands.
    """
    values: dict[Expression, Value] = {}
    for node in nodes(expressions, references):
        values[node] = combine(node, [values[child] for child in inside(node, references)])
    return values


def inside(node: Expression, references: Mapping[str, Expression] | None) -> tuple[Expression, ...]:
    """Return the operands of an expression; with definitions, the operand of a reference is its definition."""
    if isinstance(node, Reference) and references is not None:
        return (references[node.name],)
    return operands(node)


def nodes(expressions: Iterable[Expression], references: Mapping[str, Expression] | None) -> Iterator[Expression]:
    """Yield all subexpressions, definitions of references included, operands first."""
    return postorder(expressions, lambda node: inside(node, references))


def _flattened(expressions: Sequence[Expression], kind: type[Product] | type[Sum]) -> tuple[Expression, ...]:
    parts: list[Expression] = []
    for operand in expressions:
        if not isinstance(operand, Expression):
            raise ExpressionError(f"{operand!r} in a {kind.__name__}: expected an expression; Symbol(name) makes one")
        parts += operands(operand) if isinstance(operand, kind) else (operand,)
    if len(parts) < 2:
        raise ExpressionError(f"a {kind.__name__} of {len(parts)} expressions; expected at least two")
    return tuple(parts)


def _leading(parts: Sequence[Expression]) -> tuple[Any, ...]:
    leading: tuple[Any, ...] = ()
    for operand in parts:
        leading += operand._leading
        if len(leading) >= _LEADING:
            break
    return leading[:_LEADING]


def _encoded(name: str) -> bytes:
    if not isinstance(name, str) or not name:
        raise ExpressionError(f"{name!r} as a name: expected a nonempty string")
    return name.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=65536)
def natural(name: str) -> tuple[Any, ...]:
    """Return a sort key that puts e2 before e10: text and numbers alternate."""
    tokens = re.split(r"([0-9]+)", name)
    return tuple(int(token) if k % 2 else token for k, token in enumerate(tokens))


def _written(expression: Expression, name: Callable[[str], str], times: str) -> str:
    def combine(node: Expression, parts: list[str]) -> str:
        if isinstance(node, (Symbol, Reference)):
            return name(node.name)
        if isinstance(node, Sum):
            return " + ".join(parts)
        assert isinstance(node, Product)
        factors = zip(node.factors, parts, strict=True)
        return times.join(f"({text})" if isinstance(factor, Sum) else text for factor, text in factors)

    return folded([expression], combine)[expression]


# Names ---------------------------------------------------------------------------------------------------------------


_NAME: Final = re.compile(r"[^\W\d][\w′']*")
_INDEXED: Final = re.compile(r"([^\W\d_]+)(-?\d+)([′']*)")
_ESCAPED: Final = {
    "\\": r"\backslash{}",
    "^": r"\hat{}",
    "~": r"\sim{}",
    " ": r"\ ",
    **{character: f"\\{character}" for character in "{}_$&#%"},
}
_TEX: Final = re.compile(r"([^\W\d_]+)_(?:\{(-?\w+)\}|(-?\w+))")


def plain_name(name: object) -> str:
    """Return a name without TeX's braces.

    >>> plain_name("e_{10}"), plain_name("v_{-2}"), plain_name("s_1"), plain_name("e18"), plain_name("a_b_c")
    ('e10', 'v-2', 's1', 'e18', 'a_b_c')
    """
    match = _TEX.fullmatch(str(name))
    if match is None or "_" in (match[2] or match[3]):
        return str(name)
    return match[1] + (match[2] or match[3])


def edge_names(graph: DifferentiationGraph, *, apart: bool = True) -> list[str]:
    """Return the name of every edge, by number.

    Args:
        graph: graph with labels.
        apart: if True, edges with equal labels get primes if their paths cannot be distinguished.

    >>> edge_names(DifferentiationGraph([("y", "a", "e_{1}"), ("a", "x")]))
    ['e1', 'e2']
    """
    symbols = sorted({symbol for symbol in graph.symbols if symbol})
    plains = Counter(map(plain_name, symbols))
    short = {symbol: plain_name(symbol) if plains[plain_name(symbol)] == 1 else symbol for symbol in symbols}
    taken = set(short.values())
    names: list[str] = []
    begun: dict[str, int] = {}
    for number, symbol in enumerate(graph.symbols):
        names.append(short[symbol] if symbol else fresh(f"e{number + 1}", taken, begun))
    taken.update(names)
    units = bool((graph.kinds == Kind.ONE).any())
    if apart and (units or (_repeats(names, graph.out_edges) and _repeats(names, graph.in_edges))):
        seen: set[str] = set()
        for number, name in enumerate(names):
            if name in seen:
                names[number] = fresh(name, taken, begun)
                taken.add(names[number])
            seen.add(name)
    return names


def fresh_names(letter: str, taken: Container[str]) -> Iterator[str]:
    """Return an iterator over the names letter1, letter2, … that are not taken."""
    return (name for name in map(f"{letter}{{}}".format, count(1)) if name not in taken)


def _repeats(names: Sequence[str], groups: Iterable[Sequence[int]]) -> bool:
    return any(len({names[e] for e in group}) < len(group) for group in groups)


def quoted(name: str) -> str:
    """Return the name for text: in backquotes unless it consists of letters, digits, underscores and primes.

    Backquotes and line breaks in a name cannot be written; they become quotes and spaces.
    """
    if _NAME.fullmatch(name) and plain_name(name) == name:
        return name
    return "`" + name.replace("`", "'").replace("\n", " ") + "`"


def latex_name(name: str) -> str:
    r"""Return a name in LaTeX: trailing digits become an index, names of several letters are upright.

    >>> print(latex_name("e18"), latex_name("v-2"), latex_name("flux_x"))
    e_{18} v_{-2} \mathrm{flux\_x}
    """
    name = printable(name)
    match = _INDEXED.fullmatch(plain_name(name))
    letters, index, primes = match.groups() if match else (name.rstrip("′'"), "", name[len(name.rstrip("′'")) :])
    escaped = "".join(_ESCAPED.get(c, c) for c in letters)
    base = letters if len(letters) == 1 and letters == escaped else f"\\mathrm{{{escaped}}}"
    return base + (f"_{{{index}}}" if index else "") + "'" * len(primes)


# Text ----------------------------------------------------------------------------------------------------------------


_TOKEN: Final = re.compile(r"(?P<space>\s+)|(?P<name>[^\W\d](?:[\w′']*_\{-?\w+\}|[\w′']*)|`[^`\n]+`)|(?P<sign>[*·+()])")
_STATEMENT: Final = re.compile(r"(?:[^\n;`]|`[^`\n]*`|`)+")
_LEFT: Final = re.compile(r"(?:[^=`]|`[^`]*`)*=")
_VERTEX: Final = r"(`[^`]*`|\S.*?)"
_ENTRY: Final = re.compile(rf"\s*[∂d]\s*{_VERTEX}\s*/\s*[∂d]\s*{_VERTEX}\s*=")
_END: Final = "the end"
_HINTS: Final = {
    "-": "there are no differences in sums over paths; a sign is part of a label",
    "−": "there are no differences in sums over paths; a sign is part of a label",
    "/": "there are no quotients in sums over paths",
    "^": "there are no powers in sums over paths: no edge comes twice on a path",
}


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a set: the defined name or entry, and the position of its expression in the text."""

    #: Name of a reference, or root and terminal of an entry; None for an expression without a left side.
    key: str | tuple[str, str] | None
    start: int
    stop: int


def parse(text: str, references: Collection[str] = (), *, start: int = 0, stop: int | None = None) -> Expression:
    """Return the expression that the text from `start` to `stop` represents.

    Args:
        text: text to parse.
        references: names that are references; all others are symbols.
        start: position of the first character.
        stop: position after the last character; None for the end.

    Raises:
        ExpressionError: if the text is not an expression; the message points at the first wrong character.

    >>> print(parse("e1*(e3*e7*e11 + e4*s1)", references=["s1"]))
    e1*(e3*e7*e11 + e4*s1)
    >>> parse("e1*(e3 + )")
    Traceback (most recent call last):
        ...
    accumulus.errors.ExpressionError: expected a name or '(' here, found ')'
      e1*(e3 + )
               ^
    """
    stop = len(text) if stop is None else stop
    # for the whole text and every open parenthesis: its position, its terms so far, the factors of the last term
    levels: list[tuple[int, list[Expression], list[Expression]]] = [(start, [], [])]
    expects_operand = True
    for position, token in _tokens(text, start, stop):
        opened, terms, factors = levels[-1]
        if expects_operand and token == "(":
            levels.append((position, [], []))
        elif expects_operand:
            if token in ("*", "·", "+", ")", _END):
                fail(text, position, f"expected a name or '(' here, found {_shown_token(token)}")
            name = token.strip("`") if token[0] == "`" else plain_name(token)
            factors.append(Reference(name) if name in references else Symbol(name))
            expects_operand = False
        elif token == "+":
            terms.append(product_of_factors(factors))
            factors.clear()
            expects_operand = True
        elif token in ("*", "·"):
            expects_operand = True
        elif token == ")" and len(levels) > 1:
            levels.pop()
            levels[-1][2].append(sum_of_terms([*terms, product_of_factors(factors)]))
        elif token == ")":
            fail(text, position, "this ')' closes nothing")
        elif token == _END and len(levels) > 1:
            fail(text, opened, "this '(' is never closed")
        elif token != _END:
            fail(text, position, f"expected '*', '+' or ')' here, found {_shown_token(token)}; write products as e3*e7")
    _, terms, factors = levels[0]
    return sum_of_terms([*terms, product_of_factors(factors)])


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a set, in order.

    Raises:
        ExpressionError: if a left side is neither a name nor ∂root/∂terminal; the message points at it.
    """
    for match in _STATEMENT.finditer(text):
        line = match[0]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        left = _LEFT.match(line)
        if left is None:
            yield Statement(None, match.start(), match.end())
            continue
        entry = _ENTRY.fullmatch(left[0])
        key: str | tuple[str, str]
        if entry:
            key = (_bare(entry[1]), _bare(entry[2]))
        else:
            name = left[0][:-1].strip()
            token = _TOKEN.fullmatch(name)
            if token is None or not token["name"]:
                at = match.start() + len(line) - len(line.lstrip())
                fail(text, at, "expected a name, or ∂root/∂terminal, before '='")
            key = _bare(name)
        yield Statement(key, match.start() + left.end(), match.end())


def fail(text: str, position: int, message: str) -> NoReturn:
    """Raise ExpressionError with the line of the text and a caret under the position."""
    first = text.rfind("\n", 0, position) + 1
    last = text.find("\n", position)
    line = text[first : len(text) if last < 0 else last]
    column = position - first
    begin = max(0, column - 60)
    shown = line[begin : column + 60].replace("\t", " ")
    before, after = "…" if begin else "", "…" if column + 60 < len(line) else ""
    where = f" (line {text.count(chr(10), 0, position) + 1})" if "\n" in text.strip() else ""
    caret = " " * (len(before) + column - begin) + "^"
    raise ExpressionError(f"{message}{where}\n  {before}{shown}{after}\n  {caret}")


def _tokens(text: str, start: int, stop: int) -> Iterator[tuple[int, str]]:
    position = start
    while position < stop:
        match = _TOKEN.match(text, position, stop)
        if match is None:
            character = text[position]
            hint = _HINTS.get(character, "a name begins with a letter; other names stand in `backquotes`")
            fail(text, position, f"{character!r} is not part of an expression: {hint}")
        if not match["space"]:
            yield position, match[0]
        position = match.end()
    yield len(text[:stop].rstrip()) if text[start:stop].strip() else stop, _END


def _bare(name: str) -> str:
    return name[1:-1] if name[0] == name[-1] == "`" and len(name) > 2 else plain_name(name.strip("()"))


def _shown_token(token: str) -> str:
    return "the end of the expression" if token == _END else repr(token)


# Polynomials ---------------------------------------------------------------------------------------------------------


T = TypeVar("T")
Word = tuple[str, ...]
Definitions = Mapping[str, Expression]

#: Largest number of rows of the matrices that replace labels, number of comparisons, and number of words up to which
#: expressions are expanded instead. Larger numbers take time and memory, smaller ones make it likelier that distinct
#: expressions are taken for equal.
_LARGEST: Final = 64
_ROUNDS: Final = 3
_CHEAP: Final = 2000


def expand(expression: Expression, references: Definitions | None = None, limit: int = 100_000) -> Counter[Word]:
    """Return the expression multiplied out: the multiplicity of every word of labels.

    Raises:
        ExpressionError: if there are more than `limit` words, counted with multiplicity.

    >>> from accumulus.theory.algebra.expression import parse
    >>> sorted(expand(parse("(e1*e3 + e2*e4)*e5")))
    [('e1', 'e3', 'e5'), ('e2', 'e4', 'e5')]
    """
    definitions = references or {}
    words = word_counts([expression], definitions)[expression]
    if words > limit:
        raise ExpressionError(f"the expression stands for {words} products of labels; expected at most {limit}")

    def label(name: str) -> Counter[Word]:
        return Counter({(name,): 1})

    return _values([expression], definitions, label, expanded_product, added_up)[expression]


def added_up(summands: Iterable[Counter[tuple[T, ...]]]) -> Counter[tuple[T, ...]]:
    """Return the sum of polynomials: each word with its total count."""
    value: Counter[tuple[T, ...]] = Counter()
    for summand in summands:
        value.update(summand)
    return value


def expanded_product(factors: Iterable[Counter[tuple[T, ...]]]) -> Counter[tuple[T, ...]]:
    """Return the product of polynomials: each word of a factor followed by each word of the next."""
    value: Counter[tuple[T, ...]] = Counter({(): 1})
    for factor in factors:
        longer: Counter[tuple[T, ...]] = Counter()
        for word, times in value.items():
            for end, more in factor.items():
                longer[word + end] += times * more
        value = longer
    return value


def word_counts(expressions: Iterable[Expression], references: Definitions) -> dict[Expression, int]:
    """Return the number of words, with multiplicity, of every subexpression."""
    return _values(expressions, references, lambda _: 1, prod, sum)


def degrees(expressions: Iterable[Expression], references: Definitions) -> dict[Expression, int]:
    """Return the number of labels in the longest word of every subexpression."""
    return _values(expressions, references, lambda _: 1, sum, max)


def _values(
    expressions: Iterable[Expression],
    references: Definitions,
    label: Callable[[str], Value],
    multiply: Callable[[list[Value]], Value],
    add: Callable[[list[Value]], Value],
) -> dict[Expression, Value]:
    """Evaluate every subexpression: labels by their names, products and sums from the values of their operands."""

    def combine(node: Expression, parts: list[Value]) -> Value:
        if isinstance(node, Symbol):
            return label(node.name)
        return parts[0] if isinstance(node, Reference) else (multiply if isinstance(node, Product) else add)(parts)

    return folded(expressions, combine, references)


def equivalent(
    left: Expression,
    right: Expression,
    left_references: Definitions | None = None,
    right_references: Definitions | None = None,
    seed: int = 0,
) -> bool:
    """Return True if two expressions are equal as noncommutative polynomials; the module's docstring bounds the error.

    >>> from accumulus.theory.algebra.expression import parse
    >>> equivalent(parse("(a + b)*c"), parse("a*c + b*c")), equivalent(parse("a*b"), parse("b*a"))
    (True, False)
    """
    sides = [(left, left_references or {}), (right, right_references or {})]
    if all(word_counts([side], references)[side] <= _CHEAP for side, references in sides):
        return expand(*sides[0]) == expand(*sides[1])
    degree = max(degrees([side], references)[side] for side, references in sides)
    k = min(degree // 2 + 1, _LARGEST)
    for attempt in range(_ROUNDS):
        one, other = (_evaluate(side, references, k, f"{seed}/{attempt}") for side, references in sides)
        if not np.array_equal(one, other):
            return False
    return True


def _evaluate(expression: Expression, references: Definitions, k: int, seed: str) -> NDArray[np.int64]:
    values: dict[Expression, NDArray[np.int64]] = {}
    order = list(nodes([expression], references))
    uses = Counter(child for node in order for child in inside(node, references))
    for node in order:
        if isinstance(node, Symbol):
            # a generator for each name, so that both sides get the same matrix
            generator = np.random.default_rng(random.Random(f"{seed}/{node.name}").getrandbits(64))
            values[node] = generator.integers(PRIME, size=(k, k), dtype=np.int64)
        elif isinstance(node, Reference):
            values[node] = values[references[node.name]]
        else:
            value, *rest = (values[operand] for operand in operands(node))
            for other in rest:
                value = matrix_product(value, other) if isinstance(node, Product) else residues_of(value + other)
            values[node] = value
        for child in inside(node, references):
            uses[child] -= 1
            if not uses[child]:
                del values[child]
    return values[expression] % PRIME  # residues are reduced only partly until here
