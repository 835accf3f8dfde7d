"""The rules by which the optimiser changes a program, one row each, and where each of them is applied.

The search is compiled code, and the rows say what that may do. `test_rules` proves each row, measures its rounding,
sees it win on a program, and holds the table in ``docs/algebra-on-the-tape.md`` against this one.

Expressions are Python's over the names of `accumulus.tape.operations`. Variables: a, b, c, d are values of the program;
p, q are numbers that are known when it is optimised; u is a condition. ``odd`` and ``even`` stand for every operation
of that parity. An expression with commas is several values of one program.

Rounding is given in units of 2⁻⁵² of the *magnitude* of what stood there before: the same expression with all values
positive and all differences sums, so that of a sum all terms count, even if they cancel. One operation rounds by half
a unit; elementary functions are taken to be within two, roots within a half. ``units`` bounds the error of what stands
there after; where it is 0 the result is the same to the last bit (but for the sign of a zero) or exact.

Left out on purpose: identities of exp and log, terms that cancel (a - a), powers of sums; see the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    """One row.

    Attributes:
        name: what it is called, in the documentation and in the tests.
        before: the expression that it replaces.
        after: what it is replaced by.
        assumes: what must hold for both to be equal, besides that no value is infinite or NaN.
        units: bound of the rounding error of `after`, as said above.
        rounding: what that means beside `before`.
    """

    name: str
    before: str
    after: str
    assumes: str
    units: float
    rounding: str


SAME: Final = "none"
NONE: Final = ""

RULES: Final[tuple[Rule, ...]] = (
    # neutral elements and numbers
    Rule("zero term", "a + 0", "a", NONE, 0.0, SAME),
    Rule("factor one", "1 * a", "a", NONE, 0.0, SAME),
    Rule("divisor one", "a / 1", "a", NONE, 0.0, SAME),
    Rule("factor zero", "0 * a", "0", "a finite", 0.0, SAME),
    Rule("dividend zero", "0 / a", "0", "a not 0", 0.0, SAME),
    Rule("equal terms", "a + a", "2 * a", NONE, 0.0, SAME),
    Rule("numbers folded", "(a + p) + q", "a + (p + q)", NONE, 1.0, "as two sums have; their order differs"),
    Rule("factors folded", "(a * p) * q", "a * (p * q)", "p · q in range", 1.0,
         "as two products have; their order differs"),
    Rule("number as divisor", "a / p", "a * (1 / p)", "p not 0, 1 / p in range", 1.0,
         "1 instead of ½; none if p is a power of two"),
    # signs
    Rule("sign of a sum", "-a - b", "-(a + b)", NONE, 0.5, SAME),
    Rule("sign of a term", "a + -b", "a - b", NONE, 0.5, SAME),
    Rule("sign of a factor", "-a * b", "-(a * b)", NONE, 0.5, SAME),
    Rule("sign of a quotient", "a / -b", "-(a / b)", "b not 0", 0.5, SAME),
    Rule("sign twice", "-(-a)", "a", NONE, 0.0, SAME),
    Rule("difference turned round", "-(a - b)", "b - a", NONE, 0.5, SAME),
    Rule("number takes the sign", "-(p * a)", "(-p) * a", NONE, 0.5, SAME),
    Rule("term takes the sign", "-(p + a)", "(-p) - a", NONE, 0.5, SAME),
    Rule("odd function", "odd(-a)", "-odd(a)", NONE, 2.0, SAME),
    Rule("even function", "even(-a)", "even(a)", NONE, 2.0, SAME),
    Rule("sign of a choice", "select(u, -a, -b)", "-select(u, a, b)", NONE, 0.0, SAME),
    # sums
    Rule("terms in another order", "(a + b) + c", "(a + c) + b", NONE, 1.0, "n terms: (n - 1)/2 units, in any order"),
    Rule("common factor", "a * b + a * c", "a * (b + c)", NONE, 1.0, "as before"),
    Rule("multiples of one value", "p * a + q * a", "(p + q) * a", "p + q not 0", 1.0, "as before"),
    Rule("common divisor", "a / c + b / c", "(a + b) / c", "c not 0", 1.0, "as before"),
    Rule("factor that is a term", "a + a * b", "a * (1 + b)", NONE, 1.0,
         "as before; digits of b below 2⁻⁵² go with 1 + b"),
    Rule("multiplied out", "a * (b + c)", "a * b + a * c", "b, c no numbers", 1.0,
         "as before, of the magnitude; where b + c cancels without rounding, worse by (|b| + |c|) / |b + c|"),
    Rule("divided out", "(a + b) / c", "a / c + b / c", "c not 0; a, b no numbers", 1.0, "as for multiplied out"),
    Rule("difference of squares", "a * a - b * b", "(a + b) * (a - b)", NONE, 1.5,
         "better: 1½ units of the result itself"),
    Rule("one less a square", "1 - a * a", "(1 + a) * (1 - a)", NONE, 1.5, "better: 1½ units of the result itself"),
    Rule("sum by difference", "(a + b) * (a - b)", "a * a - b * b", NONE, 1.0,
         "worse where a and b are close, by (a² + b²) / |a² - b²|: half of what errors of a and b are magnified by"),
    # products
    Rule("factors in another order", "(a * b) * c", "(a * c) * b", "products in range", 1.0,
         "n factors: (n - 1)/2 units, in any order"),
    Rule("factor of a quotient", "(a / b) * c", "(a * c) / b", "b not 0, products in range", 1.0, "as before"),
    Rule("quotient in a product", "(a * b) / c", "a * (b / c)", "c not 0, products in range", 1.0, "as before"),
    Rule("divisors together", "(a / b) / c", "a / (b * c)", "b, c not 0, products in range", 1.0, "as before"),
    Rule("divisor of a divisor", "a / (b / c)", "(a * c) / b", "b, c not 0, products in range", 1.0, "as before"),
    Rule("reciprocal as factor", "a * (1 / b)", "a / b", "b not 0", 0.5, "better: ½ instead of 1"),
    Rule("one reciprocal", "a / c, b / c", "a * (1 / c), b * (1 / c)", "|c| > 6e-309", 1.0, "1 instead of ½"),
    Rule("divisor that cancels", "a / a", "1", "a not 0", 0.0, "exact"),
    Rule("factor that cancels", "(a * b) / b", "a", "b not 0, a · b in range", 0.0, "exact"),
    # roots and angles
    Rule("square of a root", "sqrt(a) * sqrt(a)", "a", "a ≥ 0", 0.0, "exact"),
    Rule("value over its root", "a / sqrt(a)", "sqrt(a)", "a > 0", 0.5, "better: ½ instead of 1"),
    Rule("root over its value", "sqrt(a) / a", "1 / sqrt(a)", "a > 0", 1.0, "as before"),
    Rule("squares of sine and cosine", "sin(a) * sin(a) + cos(a) * cos(a)", "1", NONE, 0.0, "exact"),
    Rule("one less a sine's square", "1 - sin(a) * sin(a)", "cos(a) * cos(a)", "cos(a) is computed anyway", 4.5,
         "better: 4½ units of the result itself"),
    Rule("one less a cosine's square", "1 - cos(a) * cos(a)", "sin(a) * sin(a)", "sin(a) is computed anyway", 4.5,
         "better: 4½ units of the result itself"),
    # powers
    Rule("whole power", "power(a, 5)", "a * ((a * a) * (a * a))", "exponent at most 64", 2.5,
         "at most n/2 units for aⁿ, whose condition number is n"),
    Rule("negative power", "power(a, -3)", "(1 / a) * ((1 / a) * (1 / a))", "a not 0, exponent at least -64", 3.0,
         "at most n units for a⁻ⁿ"),
    Rule("half power", "power(a, 2.5)", "(a * a) * sqrt(a)", "a ≥ 0, exponent at most 64", 2.0,
         "at most n/2 + 1 units"),
    Rule("negative half power", "power(a, -1.5)", "(1 / sqrt(a)) * ((1 / sqrt(a)) * (1 / sqrt(a)))",
         "a > 0, exponent at least -64", 4.5, "at most 3 n units for a⁻ⁿ"),
    Rule("powers one apart", "power(a, p + 1), power(a, p)", "a * power(a, p), power(a, p)", "a ≥ 0, p > 0", 2.5,
         "that of one pow and one product"),
    Rule("falling powers one apart", "power(a, -p - 1), power(a, -p)", "power(a, -p) / a, power(a, -p)",
         "a > 0, p > 0", 2.5, "that of one pow and one quotient"),
    Rule("power zero", "power(a, 0)", "1", NONE, 0.0, "exact"),
    Rule("power one", "power(a, 1)", "a", NONE, 0.0, SAME),
    # choices and conditions
    Rule("equal branches", "select(u, a, a)", "a", NONE, 0.0, SAME),
    Rule("sum of a choice", "select(u, a, b) + c", "select(u, a + c, b + c)", NONE, 0.5, SAME),
    Rule("product of a choice", "select(u, a, b) * c", "select(u, a * c, b * c)", NONE, 0.5, SAME),
    Rule("choice over a value", "select(u, a, b) / c", "select(u, a / c, b / c)", "c not 0", 0.5, SAME),
    Rule("value over a choice", "c / select(u, a, b)", "select(u, c / a, c / b)", "a, b not 0", 0.5, SAME),
    Rule("choices of one condition", "select(u, a, b) + select(u, c, d)", "select(u, a + c, b + d)", NONE, 0.5, SAME),
    Rule("products of choices", "select(u, a, b) * select(u, c, d)", "select(u, a * c, b * d)", NONE, 0.5, SAME),
    Rule("term of both branches", "select(u, a + b, a + c)", "a + select(u, b, c)", NONE, 0.5, SAME),
    Rule("factor of both branches", "select(u, a * b, a * c)", "a * select(u, b, c)", NONE, 0.5, SAME),
    Rule("factor that is a branch", "select(u, a, a * b)", "a * select(u, 1, b)", NONE, 0.5, SAME),
    Rule("divisor of both branches", "select(u, a / c, b / c)", "select(u, a, b) / c", "c not 0", 0.5, SAME),
    Rule("sums as branches", "select(u, a + b, c + d)", "select(u, a, c) + select(u, b, d)", NONE, 0.5, SAME),
    Rule("products as branches", "select(u, a * b, c * d)", "select(u, a, c) * select(u, b, d)", NONE, 0.5, SAME),
    Rule("quotients as branches", "select(u, a / b, c / d)", "select(u, a, c) / select(u, b, d)",
         "b, d not 0", 0.5, SAME),
    Rule("not twice", "logical_not(logical_not(u))", "u", NONE, 0.0, SAME),
    Rule("not equal", "logical_not(equal(a, b))", "not_equal(a, b)", NONE, 0.0, "none, NaN included"),
    Rule("both the same", "logical_and(u, u), logical_or(u, u)", "u, u", NONE, 0.0, SAME),
    # the rest
    Rule("attachment", "attach(a, b)", "a", "derivatives have been taken", 0.0, SAME),
)  # fmt: skip

BY_NAME: Final[Mapping[str, Rule]] = {rule.name: rule for rule in RULES}

_NEUTRAL: Final = ("zero term", "factor one", "divisor one", "factor zero", "dividend zero", "equal terms")
_SIGNS: Final = ("sign of a sum", "sign of a factor", "sign of a quotient", "odd function", "even function")
_QUOTIENTS: Final = (
    *("factors in another order", "factor of a quotient", "quotient in a product", "divisors together"),
    *("divisor of a divisor", "factor that cancels"),
)

#: What each piece of the optimiser applies: functions of ``compiled/rewrite_*.py``, and modules.
APPLIED: Final[Mapping[str, tuple[str, ...]]] = {
    "tape.py": (
        *_NEUTRAL,
        *("number as divisor", "sign of a term", "sign twice", "difference turned round", "number takes the sign"),
        *("equal branches", "not twice", "not equal", "both the same", "power zero", "power one"),
        *(name for name in _SIGNS if name != "sign of a sum"),
    ),
    "canonical.py": (
        *("whole power", "negative power", "half power", "negative half power", "powers one apart"),
        *("falling powers one apart", "one reciprocal", "number as divisor", "attachment"),
    ),
    "make_node": (
        *_NEUTRAL,
        *_SIGNS,
        *("numbers folded", "factors folded", "number as divisor", "sign of a choice", "equal branches"),
        *("divisor that cancels", "square of a root", "value over its root", "root over its value"),
    ),
    "pair_terms": ("terms in another order", "numbers folded"),
    "sum_of": (
        *("squares of sine and cosine", "one less a sine's square", "one less a cosine's square"),
        *("difference of squares", "one less a square"),
    ),
    "pair_factors": (*_QUOTIENTS, "factors folded"),
    "multiplied": ("reciprocal as factor",),
    "product_of": ("sum by difference",),
    "split_quotient": ("one reciprocal",),
    "common_factor": ("common factor", "common divisor", "factor that is a term"),
    "combine_terms": ("multiples of one value", "common factor", "numbers folded", "terms in another order"),
    "distribute": ("multiplied out", "divided out"),
    "select_within": (
        *("sum of a choice", "product of a choice", "choice over a value", "value over a choice"),
        *("choices of one condition", "products of choices"),
    ),
    "select_outside": (
        *("term of both branches", "factor of both branches", "factor that is a branch", "divisor of both branches"),
        *("sums as branches", "products as branches", "quotients as branches"),
    ),
    "signs.py": (
        *("sign of a sum", "sign of a term", "sign of a factor", "sign of a quotient", "difference turned round"),
        *("number takes the sign", "term takes the sign", "odd function", "even function", "sign of a choice"),
    ),
}


def table() -> str:
    """The rules as a table in Markdown, as it stands in the documentation."""
    where = {rule.name: [piece for piece, names in APPLIED.items() if rule.name in names] for rule in RULES}
    head = [
        "| rule | before | after | assumes | units | rounding | where |",
        "| --- | --- | --- | --- | --: | --- | --- |",
    ]
    rows = []
    for rule in RULES:
        pieces = ", ".join(f"`{piece}`" for piece in where[rule.name])
        cells = (
            rule.name,
            f"`{rule.before}`",
            f"`{rule.after}`",
            rule.assumes,
            f"{rule.units:g}",
            rule.rounding,
            pieces,
        )
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*head, *rows])


def _check() -> None:
    """Refuse a table that contradicts itself, at import."""
    assert len(BY_NAME) == len(RULES), "two rules share a name"
    named = {name for names in APPLIED.values() for name in names}
    assert named == BY_NAME.keys(), f"rules without a row, or that nothing applies: {named ^ BY_NAME.keys()}"


_check()
