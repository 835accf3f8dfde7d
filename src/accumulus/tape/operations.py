"""The table of elementary operations: one row an operation, and nothing else in the package lists them again.

A row holds the operation's name, how NumPy evaluates it, its partial derivatives as expressions, its spelling in
each back end and its domain. To add an operation, add a row: the tracer, the derivatives, the back ends and the
tests read it from here.

Partial derivatives are written over ``x, y, z`` (the arguments) and ``v`` (the value that the operation already
computed), with operators, comparisons, the names of other rows and ``over_x(series, v)``, v/x by its power series near 0 (see
`accumulus.tape.removable`); `accumulus.tape.partials` compiles them. ``None``
is a derivative that is zero wherever it exists. At non-smooth points the values are those of JAX: half a unit for each argument of
a tied maximum or minimum, +1 for abs at 0, 0 for sign, floor and ceil at their jumps. At its jumps fmod has those of
its value there: with n the whole number for which it is x - n·y, they are 1 and -n.

atan and atan2 square their arguments in the derivative, as JAX does, so the derivative (not the value) is 0 for
arguments beyond 1e154, and that of atan2 overflows for two arguments below 1e-150. The derivative of tanh reuses the
value, as JAX's does: where it is near ±1 it is off by as much as its last place is worth. That of power in x rounds
y - 1, which costs up to |log x|/2 units in the last place where y is small. docs/numerics.md has a table of all that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import numpy as np

from accumulus.tape.helpers import helpers

__all__ = ["BY_NAME", "INPUT", "OPERATIONS", "Operation"]

#: An order is a number that has to be constant, such as that of a Bessel function: no derivative by it is known.
Kind = Literal["real", "boolean", "order"]
#: Odd: f(-x) is -f(x); even: f(-x) is f(x).
Parity = Literal["odd", "even"] | None
#: What becomes of the sign of a zero argument: that of a result, nothing, or a result that is another number.
ZeroSigns = Literal["kept", "lost", "seen"]
INFINITY: Final = math.inf
#: Names that the expressions of partial derivatives may use for constants.
CONSTANTS: Final = {
    "ln2": math.log(2.0),
    "log2e": 1.0 / math.log(2.0),
    "log10e": 1.0 / math.log(10.0),
    "pi": math.pi,
    "sqrt_half": math.sqrt(0.5),
    "sqrt_two_over_pi": math.sqrt(2.0 / math.pi),
    "half_sqrt_pi": 0.5 * math.sqrt(math.pi),
    "two_over_sqrt_pi": 2.0 / math.sqrt(math.pi),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table.

    `numpy` is a source template over `{0}`, `{1}`, `{2}`, with the names ``np`` and ``special`` (SciPy's) in scope, and
    those of `accumulus.tape.helpers`.
    `llvm` is an instruction (``fadd``), a comparison (``fcmp olt``), an intrinsic (``llvm.sqrt``), a function of the
    C library (``@sin``), or ``select``, ``sign``, ``not``, ``attach`` which the back end
    writes out.
    `zero_signs` says what becomes of the result where a zero argument changes its sign: "kept" if it may change its own
    sign, "lost" if it never changes, "seen" if it may become another finite number.
    `domain` gives an interval for each argument in which the tests draw points; `kinks` lists arguments at which the
    operation is not smooth. `sawtooth` marks what has jumps, and a slope between them, `special` long functions that few
    programs have. `largest_order` is the highest order, the first argument, that back ends compute.
    """

    code: int
    name: str
    numpy: str
    llvm: str
    partials: tuple[str | None, ...]
    domain: tuple[tuple[float, float], ...]
    kinks: tuple[tuple[float, ...], ...] = ()
    arguments: tuple[Kind, ...] = ("real",)
    result: Kind = "real"
    commutative: bool = False
    parity: Parity = None
    sawtooth: bool = False
    zero_signs: ZeroSigns = "kept"
    special: bool = False
    largest_order: float = INFINITY

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return len(self.arguments)

    @property
    def jumps(self) -> bool:
        """Whether a number that is rounded otherwise may change the result by a whole step: floor, fmod, comparisons."""
        return self.sawtooth or (self.arguments[:1] == ("real",) and set(self.partials) == {None})

    @property
    def by_numpy(self) -> Callable[..., Any]:
        """A function that computes the value by NumPy, elementwise, with NumPy's warnings."""
        return _evaluator(self.numpy, self.arity)

    def evaluate(self, *arguments: Any) -> Any:
        """The value, by NumPy, elementwise and without warnings."""
        with np.errstate(all="ignore"):
            return self.by_numpy(*arguments)


def _rows() -> list[Operation]:
    rows: list[Operation] = []

    def row(
        name: str,
        numpy: str,
        llvm: str,
        partials: tuple[str | None, ...],
        *domain: tuple[float, float],
        kinks: tuple[tuple[float, ...], ...] = (),
        arguments: tuple[Kind, ...] | None = None,
        result: Kind = "real",
        commutative: bool = False,
        parity: Parity = None,
        sawtooth: bool = False,
        zero_signs: ZeroSigns = "kept",
        special: bool = False,
        largest_order: float = INFINITY,
    ) -> None:
        kinds = arguments if arguments is not None else REALS[: len(partials)]
        ranges = domain if domain else (REAL,) * len(partials)
        properties = (kinks, kinds, result, commutative, parity, sawtooth, zero_signs, special, largest_order)
        rows.append(Operation(len(rows), name, numpy, llvm, partials, ranges, *properties))

    def special(
        name: str,
        scipys: str,
        partials: tuple[str | None, ...],
        *domain: tuple[float, float],
        of_order: bool = False,
        parity: Parity = None,
        zero_signs: ZeroSigns = "kept",
        largest_order: float = INFINITY,
    ) -> None:
        kinds: tuple[Kind, ...] | None = ("order", "real") if of_order else None
        row(
            name,
            f"special.{scipys}",
            f"@{name}",
            partials,
            *domain,
            arguments=kinds,
            parity=parity,
            zero_signs=zero_signs,
            special=True,
            largest_order=largest_order,
        )

    REALS: tuple[Kind, ...] = ("real", "real", "real")
    REAL = (-INFINITY, INFINITY)
    POSITIVE = (0.0, INFINITY)
    ORDERS = (0.0, 9.0)
    UNIT = (-1.0, 1.0)
    WIDE = (-1e150, 1e150)
    COSECANT = "(pi / sin(pi * (x - floor(x + 0.5))))"
    TIES = ((0.0, 0.0), (1.0, 1.0), (-2.0, -2.0))

    # fmt: off
    row("input", "", "", (), arguments=())

    row("add", "{0} + {1}", "fadd", ("1", "1"), commutative=True)
    row("subtract", "{0} - {1}", "fsub", ("1", "-1"))
    row("multiply", "{0} * {1}", "fmul", ("y", "x"), commutative=True)
    row("divide", "{0} / {1}", "fdiv", ("1 / y", "-(v * (1 / y))"))
    row("negative", "-{0}", "fneg", ("-1",))
    row("power", "np.power({0}, {1})", "@pow",
        ("y * power(x, y - 1)", "v * log(select(x == 0, 1, x))"), POSITIVE, (-300.0, 300.0),
        kinks=((0.0, 0.5), (0.0, 1.0), (0.0, 2.0), (0.0, 3.0), (2.0, 0.0)))

    row("sqrt", "np.sqrt({0})", "llvm.sqrt", ("0.5 / v",), POSITIVE, kinks=((0.0,),))
    row("cbrt", "np.cbrt({0})", "@cbrt", ("1 / (3 * (v * v))",), kinks=((0.0,),), parity="odd")
    row("hypot", "np.hypot({0}, {1})", "@hypot",
        ("select(v == 0, 0.5, x * (1 / v))", "select(v == 0, 0.5, y * (1 / v))"), WIDE, WIDE, kinks=((0.0, 0.0),), zero_signs="lost")

    row("exp", "np.exp({0})", "@exp", ("v",), zero_signs="lost")
    row("expm1", "np.expm1({0})", "@expm1", ("exp(x)",))
    row("exp2", "np.exp2({0})", "@exp2", ("ln2 * v",), zero_signs="lost")
    row("log", "np.log({0})", "@log", ("1 / x",), POSITIVE, kinks=((0.0,),), zero_signs="lost")
    row("log1p", "np.log1p({0})", "@log1p", ("1 / (1 + x)",), (-1.0, INFINITY), kinks=((-1.0,),))
    row("log2", "np.log2({0})", "@log2", ("log2e / x",), POSITIVE, kinks=((0.0,),), zero_signs="lost")
    row("log10", "np.log10({0})", "@log10", ("log10e / x",), POSITIVE, kinks=((0.0,),), zero_signs="lost")

    row("sin", "np.sin({0})", "@sin", ("cos(x)",), (-1e5, 1e5), parity="odd")
    row("cos", "np.cos({0})", "@cos", ("-sin(x)",), (-1e5, 1e5), parity="even", zero_signs="lost")
    row("tan", "np.tan({0})", "@tan", ("1 + v * v",), (-1e5, 1e5), parity="odd")
    row("asin", "np.arcsin({0})", "@asin", ("1 / sqrt(1 - x * x)",), UNIT, kinks=((-1.0,), (1.0,)), parity="odd")
    row("acos", "np.arccos({0})", "@acos", ("-(1 / sqrt(1 - x * x))",), UNIT, kinks=((-1.0,), (1.0,)), zero_signs="lost")
    row("atan", "np.arctan({0})", "@atan", ("1 / (1 + x * x)",), parity="odd")
    row("atan2", "np.arctan2({0}, {1})", "@atan2",
        ("y * (1 / (x * x + y * y))", "-(x * (1 / (x * x + y * y)))"), WIDE, WIDE, zero_signs="seen")

    row("sinh", "np.sinh({0})", "@sinh", ("cosh(x)",), parity="odd")
    row("cosh", "np.cosh({0})", "@cosh", ("sinh(x)",), parity="even", zero_signs="lost")
    row("tanh", "np.tanh({0})", "@tanh", ("1 - v * v",), parity="odd")
    row("asinh", "np.arcsinh({0})", "@asinh", ("1 / hypot(1, x)",), WIDE, parity="odd")
    row("acosh", "np.arccosh({0})", "@acosh", ("1 / (sqrt(x - 1) * sqrt(x + 1))",), (1.0, 1e150), kinks=((1.0,),), zero_signs="lost")
    row("atanh", "np.arctanh({0})", "@atanh", ("1 / (1 - x * x)",), UNIT, kinks=((-1.0,), (1.0,)), parity="odd")
    row("erf", "special.erf({0})", "@erf", ("two_over_sqrt_pi * exp(-(x * x))",), parity="odd")
    row("erfc", "special.erfc({0})", "@erfc", ("-(two_over_sqrt_pi * exp(-(x * x)))",), zero_signs="lost")

    row("abs", "np.abs({0})", "llvm.fabs", ("select(x >= 0, 1, -1)",), kinks=((0.0,),), zero_signs="lost")
    row("sign", "np.sign({0})", "sign", (None,), kinks=((0.0,),), parity="odd")
    row("floor", "np.floor({0})", "llvm.floor", (None,), kinks=((0.0,), (1.0,)))
    row("ceil", "np.ceil({0})", "llvm.ceil", (None,), kinks=((0.0,), (1.0,)))
    # x - v is n·y; the nearest whole number mends what rounding does to it, and to the quotient
    row("fmod", "np.fmod({0}, {1})", "@fmod", ("1", "-floor((x - v) / y + 0.5)"),
        kinks=((6.0, 2.0), (-6.0, 2.0), (1.0, -1.0)), sawtooth=True)
    row("minimum", "np.minimum({0}, {1})", "llvm.minimum",
        ("select(x < y, 1, select(x == y, 0.5, 0))", "select(y < x, 1, select(x == y, 0.5, 0))"),
        kinks=TIES, commutative=True)
    row("maximum", "np.maximum({0}, {1})", "llvm.maximum",
        ("select(y < x, 1, select(x == y, 0.5, 0))", "select(x < y, 1, select(x == y, 0.5, 0))"),
        kinks=TIES, commutative=True)

    for name, symbol, predicate, commutative in (
        ("less", "<", "olt", False),
        ("less_equal", "<=", "ole", False),
        ("equal", "==", "oeq", True),
        ("not_equal", "!=", "une", True),
    ):
        row(name, f"{{0}} {symbol} {{1}}", f"fcmp {predicate}", (None, None),
            kinks=TIES, result="boolean", commutative=commutative, zero_signs="lost")
    for name, symbol in (("logical_and", "and"), ("logical_or", "or")):
        row(name, f"np.{name}({{0}}, {{1}})", symbol, (None, None), (0.0, 1.0), (0.0, 1.0),
            arguments=("boolean", "boolean"), result="boolean", commutative=True, zero_signs="lost")
    row("logical_not", "np.logical_not({0})", "not", (None,), (0.0, 1.0),
        arguments=("boolean",), result="boolean", zero_signs="lost")
    # the first argument with the derivative of the second: how implicit functions are written down
    row("attach", "{0}", "attach", (None, "1"))
    row("select", "np.where({0}, {1}, {2})", "select", (None, "select(x, 1, 0)", "select(x, 0, 1)"),
        (0.0, 1.0), REAL, REAL, arguments=("boolean", "real", "real"))

    special("erfinv", "erfinv({0})", ("half_sqrt_pi * exp(v * v)",), UNIT, parity="odd")
    special("erfcinv", "erfcinv({0})", ("-(half_sqrt_pi * exp(v * v))",), (0.0, 2.0), zero_signs="lost")
    special("erfcx", "erfcx({0})", ("-2 * i1erfcx(x)",), (-26.0, 1e9), zero_signs="lost")
    special("log_ndtr", "log_ndtr({0})", ("sqrt_two_over_pi / erfcx(-(sqrt_half * x))",), (-1e9, 37.0), zero_signs="lost")
    special("gamma", "gamma({0})", ("v * digamma(x)",), (0.0, 171.0))
    special("gammaln", "gammaln({0})", ("digamma(x)",), (0.0, 1e100), zero_signs="lost")
    # for negative x the derivative of ψ(1 - x) - π cot πx
    special("digamma", "psi({0})",
        (f"select(x < 0, {COSECANT} * {COSECANT}, 0) + select(x < 0, -1, 1) * zeta(2, select(x < 0, 1 - x, x))",),
        (0.0, 1e100))
    special("zeta", "zeta({0}, {1})", (None, "-(x * zeta(x + 1, y))"), (2.0, 9.0), (0.0, 1e9), of_order=True)
    special("j0", "j0({0})", ("-j1(x)",), (-1e3, 1e3), parity="even", zero_signs="lost")
    special("j1", "j1({0})", ("j0(x) - over_x('j1(x)/x', v)",), (-1e3, 1e3), parity="odd")
    special("y0", "y0({0})", ("-y1(x)",), (0.0, 1e3), zero_signs="lost")
    special("y1", "y1({0})", ("y0(x) - v / x",), (0.0, 1e3), zero_signs="lost")
    special("jn", "jv({0}, {1})", (None, "0.5 * (jn(x - 1, y) - jn(x + 1, y))"), ORDERS, (-1e3, 1e3), of_order=True)
    special("yn", "yv({0}, {1})", (None, "0.5 * (yn(x - 1, y) - yn(x + 1, y))"), ORDERS, (0.0, 1e3), of_order=True)
    special("iv", "iv({0}, {1})", (None, "0.5 * (iv(abs(x - 1), y) + iv(x + 1, y))"), ORDERS, (-700.0, 700.0),
        of_order=True, largest_order=24)
    special("ive", "ive({0}, {1})", (None, "0.5 * (ive(abs(x - 1), y) + ive(x + 1, y)) - sign(y) * v"), ORDERS, (-1e4, 1e4),
        of_order=True, largest_order=24)
    special("i0", "i0({0})", ("i1(x)",), (-700.0, 700.0), parity="even", zero_signs="lost")
    special("i1", "i1({0})", ("i0(x) - over_x('i1(x)/x', v)",), (-700.0, 700.0), parity="odd")
    special("i0e", "i0e({0})", ("i1e(x) - sign(x) * v",), (-1e4, 1e4), parity="even", zero_signs="lost")
    special("i1e", "i1e({0})", ("i0e(x) - over_x('i1(x)/x', v, exp(-abs(x))) - sign(x) * v",), (-1e4, 1e4), parity="odd")
    special("k0", "k0({0})", ("-k1(x)",), (0.0, 700.0), zero_signs="lost")
    special("k1", "k1({0})", ("-(k0(x) + v / x)",), (0.0, 700.0), zero_signs="lost")
    special("k0e", "k0e({0})", ("v - k1e(x)",), (0.0, 1e4), zero_signs="lost")
    special("k1e", "k1e({0})", ("v - k0e(x) - v / x",), (0.0, 1e4), zero_signs="lost")
    # exp(x²) iⁿerfc x, repeated integrals of erfc (DLMF 7.18): positive, so that no derivative of erfcx cancels for x > 0
    row("i1erfcx", "_ierfcx(1.0, {0})", "@i1erfcx", ("-4 * ierfcx(2, x)",), (-25.0, 1e9), zero_signs="lost", special=True)
    row("ierfcx", "_ierfcx({0}, {1})", "@ierfcx", (None, "-(2 * (x + 1)) * ierfcx(x + 1, y)"), ORDERS, (-25.0, 1e9),
        arguments=("order", "real"), zero_signs="lost", special=True, largest_order=12)
    # fmt: on
    return rows


@cache
def _evaluator(template: str, arity: int) -> Callable[..., Any]:
    names = [f"a{i}" for i in range(arity)]
    scope: dict[str, Any] = {"__name__": __name__, "np": np}
    written = helpers(template)
    if "special." in "".join([template, *written]):  # SciPy takes longer to import than most programs need it
        from scipy import special

        scope["special"] = special
    exec("\n".join(written), scope)
    source = f"lambda {', '.join(names)}: {template.format(*names)}"
    return eval(source, scope)  # type: ignore[no-any-return]  # the table's own text


OPERATIONS: Final[tuple[Operation, ...]] = tuple(_rows())
BY_NAME: Final[dict[str, Operation]] = {operation.name: operation for operation in OPERATIONS}
INPUT: Final = BY_NAME["input"].code


def _check() -> None:
    """Refuse a table that contradicts itself, at import, so that no other module has to ask."""
    assert len(BY_NAME) == len(OPERATIONS) <= 256, "two rows share a name, or a code does not fit a byte"
    for row in OPERATIONS:
        assert len(row.partials) == len(row.domain) == row.arity <= 3, f"{row.name}: rows of different lengths"
        assert all(len(kink) == row.arity for kink in row.kinks), f"{row.name}: a kink has one number an argument"
        assert row.result == "real" or set(row.partials) == {None}, f"{row.name}: a truth value has no derivative"


_check()
