"""The table of elementary operations: one row an operation, and nothing else in the package lists them again.

A row holds the operation's name, how NumPy evaluates it, its partial derivatives as expressions, its spelling in
each back end and its domain. To add an operation, add a row: the tracer, the derivatives, the back ends and the
tests read it from here.

Partial derivatives are written over ``x, y, z`` (the arguments) and ``v`` (the value that the operation already
computed), with operators, comparisons, the names of other rows and ``over_x(series, v)``, v/x by its power series near 0 (see
`accumulus.tape.partials`); `accumulus.tape.partials` compiles them. ``None``
is a derivative that is zero wherever it exists, and ``"?"`` one for which there is no formula. Functions that only
SciPy computes have their rows in `accumulus.tape.scipy_rows`. At non-smooth points the values are those of JAX: half a unit for each argument of
a tied maximum or minimum, +1 for abs at 0, 0 for sign, floor and ceil at their jumps. At its jumps fmod has those of
its value there: with n the whole number for which it is x - n·y, they are 1 and -n.

atan and atan2 square their arguments in the derivative, as JAX does, so the derivative (not the value) is 0 for
arguments beyond 1e154, and that of atan2 overflows for two arguments below 1e-150. The derivative of tanh reuses the
value, as JAX's does: where it is near ±1 it is off by as much as its last place is worth. That of power in x rounds
y - 1, which costs up to |log x|/2 units in the last place where y is small. docs/numerics.md has a table of all that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import numpy as np

from accumulus.tape.scipy_rows import ROWS

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row of the table.

    `numpy` is a source template over `{0}`, `{1}`, `{2}`, with the names ``np`` and ``special`` (SciPy's) in scope, and
    those of `helpers`; `jax` is the same with ``jnp``, and empty if JAX does not have the operation.
    `llvm` is an instruction (``fadd``), a comparison (``fcmp olt``), an intrinsic (``llvm.sqrt``), a function of the
    C library (``@sin``) or of SciPy (``@scipy.ellipk``), or ``select``, ``sign``, ``not``, ``attach`` which the back end
    writes out.
    `c` is a template of C, with the numbers ``{zero}`` and ``{one}``, or the name of a function; empty if C99 has none.
    `glibc` is the version, as C's preprocessor compares it, that first has the function for vectors.
    `latex` is a template, or the name of a function.
    `sympy` is an expression over ``x``, ``y``, ``z`` and SymPy's names, or the name of a function; empty if there is none.
    `short` is the name of JAX's primitive and, in capitals, that of CasADi's operation.
    `time` says how long the operation keeps a processor busy at one point of a batch, in vectors of doubles, and
    `search` what it weighs in a search for a shorter program; an addition has 1 of both. `latency` are cycles until the
    result can be used. See the weights below.
    `zero_signs` says what becomes of the result where a zero argument changes its sign: "kept" if it may change its own
    sign, "lost" if it never changes, "seen" if it may become another finite number.
    `domain` gives an interval for each argument in which the tests draw points; `kinks` lists arguments at which the
    operation is not smooth. `bounds` are numbers between which all values are. `sawtooth` marks what has jumps, and a
    slope between them, `special` long functions that few programs have. `largest_order` is the highest order, the first
    argument, that back ends compute. `identity` is what a fold of no entries gives, and `of_truths` names the row that
    is meant where all arguments are truth values, as NumPy has it: true + true is true.
    """

    code: int
    name: str
    numpy: str
    jax: str
    llvm: str
    c: str
    glibc: str = ""
    latex: str
    sympy: str = ""
    short: str
    time: int
    latency: int
    search: int
    partials: tuple[str | None, ...]
    domain: tuple[tuple[float, float], ...]
    arguments: tuple[Kind, ...]
    result: Kind = "real"
    kinks: tuple[tuple[float, ...], ...] = ()
    bounds: tuple[float, float] = (-INFINITY, INFINITY)
    commutative: bool = False
    parity: Parity = None
    sawtooth: bool = False
    zero_signs: ZeroSigns = "kept"
    special: bool = False
    largest_order: float = INFINITY
    identity: float | None = None
    of_truths: str | None = None

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return len(self.arguments)

    @property
    def is_scipys(self) -> bool:
        """True if only SciPy has the function: no language but NumPy's and machine code of this process."""
        return self.llvm.startswith("@scipy.")

    @property
    def kind(self) -> str:
        """Return "comparison", "logic", "jump" or "function": kinds for which domains of the interpreter have rules."""
        if self.result == "boolean":
            return "comparison" if self.arguments[0] == "real" else "logic"
        return "jump" if self.jumps else "function"

    @property
    def jumps(self) -> bool:
        """True if a number that is rounded otherwise may change the result by a whole step: floor, fmod, comparisons."""
        return self.sawtooth or (self.arguments[:1] == ("real",) and set(self.partials) == {None})

    @property
    def ufunc(self) -> str:
        """The name of the universal function, NumPy's or SciPy's."""
        match = re.fullmatch(r"(np|special)\.(\w+)\(.*\)", self.numpy)
        if match is None or match[1] == "special":
            return self.name if match is None else match[2]
        return str(getattr(np, match[2]).__name__)

    @property
    def by_numpy(self) -> Callable[..., Any]:
        """A function that computes the value by NumPy, elementwise, with NumPy's warnings."""
        return _evaluator(self.numpy, self.arity)

    def evaluate(self, *arguments: Any) -> Any:
        """Return the value, by NumPy, elementwise and without warnings."""
        with np.errstate(all="ignore"):
            return self.by_numpy(*arguments)


def _rows() -> list[Operation]:
    rows: list[Operation] = []

    def row(
        name: str, numpy: str, llvm: str, partials: tuple[str | None, ...], *domain: tuple[float, float], **columns: Any
    ) -> None:
        called, arity = llvm.startswith("@"), len(partials)
        escaped = name.replace("_", r"\_")
        usual: dict[str, Any] = {
            "jax": numpy.replace("np.", "jnp.") if "special." not in numpy else "",
            # what is no call is spelled alike in both languages
            "c": llvm.removeprefix("llvm.") if llvm.startswith("llvm.") else "" if called else numpy,
            "latex": rf"\operatorname{{{escaped}}}",
            "short": name,
            "time": 30 if called else 1 if arity else 0,
            "latency": 80 if called else 4 if arity else 0,
            "search": 5 if called else 1 if arity else 0,
            "domain": domain or (REAL,) * arity,
            "arguments": REALS[:arity],
        }
        given = {"code": len(rows), "name": name, "numpy": numpy, "llvm": llvm, "partials": partials}
        rows.append(Operation(**(usual | given | columns)))

    def elementary(
        name: str, numpy: str, partials: tuple[str | None, ...], *domain: tuple[float, float], **columns: Any
    ) -> None:
        """Enter the row of a function that C99 and SymPy have, of the same name if no other is given."""
        usual = {"c": name, "sympy": name}
        row(name, numpy, f"@{columns.get('c', name)}", partials, *domain, **(usual | columns))

    def special(
        name: str, scipys: str, partials: tuple[str | None, ...], *domain: tuple[float, float], **columns: Any
    ) -> None:
        """Enter the row of a function of SciPy's; the first of two arguments is a whole constant order."""
        usual = {"c": name, "special": True, "arguments": ("order", "real")[-len(partials) :]}
        row(name, f"special.{scipys}", f"@{name}", partials, *domain, **(usual | columns))

    REALS: tuple[Kind, ...] = ("real", "real", "real")
    REAL = (-INFINITY, INFINITY)
    POSITIVE = (0.0, INFINITY)
    ORDERS = (0.0, 9.0)
    UNIT = (-1.0, 1.0)
    TRUTHS = ((0.0, 1.0), (0.0, 1.0))
    WIDE = (-1e150, 1e150)
    COSECANT = "(pi / sin(pi * (x - floor(x + 0.5))))"
    TIES = ((0.0, 0.0), (1.0, 1.0), (-2.0, -2.0))

    # fmt: off
    row("input", "", "", (), arguments=())

    row("add", "{0} + {1}", "fadd", ("1", "1"), latex="{0} + {1}", sympy="x + y", commutative=True, identity=0.0, of_truths="logical_or")
    row("subtract", "{0} - {1}", "fsub", ("1", "-1"), short="sub", latex="{0} - {1}", sympy="x - y")
    row("multiply", "{0} * {1}", "fmul", ("y", "x"), short="mul", latex=r"{0} \cdot {1}", sympy="x * y",
        commutative=True, identity=1.0, of_truths="logical_and")
    row("divide", "{0} / {1}", "fdiv", ("1 / y", "-(v * (1 / y))"), short="div", latex=r"\frac{{{0}}}{{{1}}}", sympy="x / y",
        time=15, latency=16, search=3)
    row("negative", "-{0}", "fneg", ("-1",), short="neg", latex="-{0}", sympy="-x", search=0)
    elementary("power", "np.power({0}, {1})",
        ("y * power(x, y - 1)", "v * log(select(x == 0, 1, x))"), POSITIVE, (-300.0, 300.0),
        kinks=((0.0, 0.5), (0.0, 1.0), (0.0, 2.0), (0.0, 3.0), (2.0, 0.0)),
        c="pow", glibc="2, 22", latex="{{{0}}}^{{{1}}}", sympy="x**y", time=105)

    row("sqrt", "np.sqrt({0})", "llvm.sqrt", ("0.5 / v",), POSITIVE, kinks=((0.0,),), latex=r"\sqrt{{{0}}}", sympy="sqrt",
        time=30, latency=25, search=3)
    elementary("cbrt", "np.cbrt({0})", ("1 / (3 * (v * v))",), kinks=((0.0,),), parity="odd",
        glibc="2, 35", sympy="sign(x) * Abs(x) ** Rational(1, 3)", time=25)
    elementary("hypot", "np.hypot({0}, {1})",
        ("select(v == 0, 0.5, x * (1 / v))", "select(v == 0, 0.5, y * (1 / v))"), WIDE, WIDE, kinks=((0.0, 0.0),),
        zero_signs="lost", glibc="2, 35", sympy="sqrt(x**2 + y**2)", time=25)

    elementary("exp", "np.exp({0})", ("v",), zero_signs="lost", glibc="2, 22", latex=r"\exp", time=25)
    elementary("expm1", "np.expm1({0})", ("exp(x)",), glibc="2, 35", sympy="exp(x) - 1", time=35)
    elementary("exp2", "np.exp2({0})", ("ln2 * v",), zero_signs="lost", glibc="2, 35", sympy="2**x", time=25)
    elementary("log", "np.log({0})", ("1 / x",), POSITIVE, kinks=((0.0,),), zero_signs="lost", glibc="2, 22", latex=r"\ln", time=30)
    elementary("log1p", "np.log1p({0})", ("1 / (1 + x)",), (-1.0, INFINITY), kinks=((-1.0,),),
        glibc="2, 35", sympy="log(x + 1)", time=30)
    elementary("log2", "np.log2({0})", ("log2e / x",), POSITIVE, kinks=((0.0,),), zero_signs="lost",
        glibc="2, 35", sympy="log(x, 2)", time=30)
    elementary("log10", "np.log10({0})", ("log10e / x",), POSITIVE, kinks=((0.0,),), zero_signs="lost",
        glibc="2, 35", sympy="log(x, 10)", time=25)

    elementary("sin", "np.sin({0})", ("cos(x)",), (-1e5, 1e5), parity="odd", bounds=UNIT, glibc="2, 22", latex=r"\sin", time=35)
    elementary("cos", "np.cos({0})", ("-sin(x)",), (-1e5, 1e5), parity="even", zero_signs="lost", bounds=UNIT,
        glibc="2, 22", latex=r"\cos", time=35)
    elementary("tan", "np.tan({0})", ("1 + v * v",), (-1e5, 1e5), parity="odd", glibc="2, 35", latex=r"\tan", time=35)
    elementary("asin", "np.arcsin({0})", ("1 / sqrt(1 - x * x)",), UNIT, kinks=((-1.0,), (1.0,)), parity="odd",
        glibc="2, 35", latex=r"\arcsin", time=30)
    elementary("acos", "np.arccos({0})", ("-(1 / sqrt(1 - x * x))",), UNIT, kinks=((-1.0,), (1.0,)), zero_signs="lost",
        glibc="2, 35", latex=r"\arccos", time=35)
    elementary("atan", "np.arctan({0})", ("1 / (1 + x * x)",), parity="odd", bounds=(-1.6, 1.6),
        glibc="2, 35", latex=r"\arctan", time=40)
    elementary("atan2", "np.arctan2({0}, {1})",
        ("y * (1 / (x * x + y * y))", "-(x * (1 / (x * x + y * y)))"), WIDE, WIDE, zero_signs="seen", glibc="2, 35", time=50)

    elementary("sinh", "np.sinh({0})", ("cosh(x)",), parity="odd", glibc="2, 35", latex=r"\sinh", time=65)
    elementary("cosh", "np.cosh({0})", ("sinh(x)",), parity="even", zero_signs="lost", glibc="2, 35", latex=r"\cosh", time=30)
    elementary("tanh", "np.tanh({0})", ("1 - v * v",), parity="odd", bounds=UNIT, glibc="2, 35", latex=r"\tanh", time=30)
    elementary("asinh", "np.arcsinh({0})", ("1 / hypot(1, x)",), WIDE, parity="odd", glibc="2, 35", time=80)
    elementary("acosh", "np.arccosh({0})", ("1 / (sqrt(x - 1) * sqrt(x + 1))",), (1.0, 1e150), kinks=((1.0,),), zero_signs="lost",
        glibc="2, 35", time=80)
    elementary("atanh", "np.arctanh({0})", ("1 / (1 - x * x)",), UNIT, kinks=((-1.0,), (1.0,)), parity="odd", glibc="2, 35", time=45)
    elementary("erf", "special.erf({0})", ("two_over_sqrt_pi * exp(-(x * x))",), parity="odd", bounds=UNIT,
        jax="special.erf({0})", glibc="2, 35", time=65)
    elementary("erfc", "special.erfc({0})", ("-(two_over_sqrt_pi * exp(-(x * x)))",), zero_signs="lost", bounds=(0.0, 2.0),
        jax="special.erfc({0})", glibc="2, 35", time=65)

    row("abs", "np.abs({0})", "llvm.fabs", ("select(x >= 0, 1, -1)",), kinks=((0.0,),), zero_signs="lost",
        latex=r"\left|{0}\right|", sympy="Abs")
    row("sign", "np.sign({0})", "sign", (None,), kinks=((0.0,),), parity="odd", bounds=UNIT, sympy="sign",
        c="{0} > {zero} ? {one} : ({0} < {zero} ? -{one} : {0} + {zero})")
    row("floor", "np.floor({0})", "llvm.floor", (None,), kinks=((0.0,), (1.0,)), sympy="floor")
    row("ceil", "np.ceil({0})", "llvm.ceil", (None,), kinks=((0.0,), (1.0,)), sympy="ceiling")
    # x - v is n·y; the nearest whole number mends what rounding does to it, and to the quotient
    elementary("fmod", "np.fmod({0}, {1})", ("1", "-floor((x - v) / y + 0.5)"),
        kinks=((6.0, 2.0), (-6.0, 2.0), (1.0, -1.0)), sawtooth=True, sympy="x - y * sign(x / y) * floor(Abs(x / y))", time=25)
    # C has functions that ignore NaN under these names: the target writes a choice
    row("minimum", "np.minimum({0}, {1})", "llvm.minimum",
        ("select(x < y, 1, select(x == y, 0.5, 0))", "select(y < x, 1, select(x == y, 0.5, 0))"),
        kinks=TIES, commutative=True, of_truths="logical_and", short="min", latex=r"\min", sympy="Min")
    row("maximum", "np.maximum({0}, {1})", "llvm.maximum",
        ("select(y < x, 1, select(x == y, 0.5, 0))", "select(x < y, 1, select(x == y, 0.5, 0))"),
        kinks=TIES, commutative=True, of_truths="logical_or", short="max", latex=r"\max", sympy="Max")

    for name, symbol, predicate, short, latex in (
        ("less", "<", "olt", "lt", "<"),
        ("less_equal", "<=", "ole", "le", r"\le"),
        ("equal", "==", "oeq", "eq", "="),
        ("not_equal", "!=", "une", "ne", r"\ne"),
    ):
        row(name, f"{{0}} {symbol} {{1}}", f"fcmp {predicate}", (None, None),
            kinks=TIES, result="boolean", commutative="<" not in symbol, zero_signs="lost", bounds=TRUTHS[0],
            short=short, latex=f"{{0}} {latex} {{1}}", sympy=short.capitalize())
    for symbol, c, latex, identity in (("and", "&", r"\land", 1.0), ("or", "|", r"\lor", 0.0)):
        row(f"logical_{symbol}", f"np.logical_{symbol}({{0}}, {{1}})", symbol, (None, None), *TRUTHS,
            arguments=("boolean", "boolean"), result="boolean", commutative=True, zero_signs="lost", bounds=TRUTHS[0],
            identity=identity, c=f"{{0}} {c} {{1}}", latex=f"{{0}} {latex} {{1}}", sympy=symbol.capitalize())
    row("logical_not", "np.logical_not({0})", "not", (None,), TRUTHS[0], arguments=("boolean",), result="boolean",
        zero_signs="lost", bounds=TRUTHS[0], c="!{0}", latex=r"\lnot {0}", sympy="Not")
    # the first argument with the derivative of the second: how implicit functions are written down
    row("attach", "{0}", "attach", (None, "1"), time=0, latency=0, search=0)
    row("select", "np.where({0}, {1}, {2})", "select", (None, "select(x, 1, 0)", "select(x, 0, 1)"),
        TRUTHS[0], REAL, REAL, arguments=("boolean", "real", "real"), c="{0} ? {1} : {2}",
        latex=r"\begin{{cases}} {1} & {0} \\ {2} & \text{{otherwise}} \end{{cases}}", sympy="Piecewise((y, x), (z, True))")

    special("erfinv", "erfinv({0})", ("half_sqrt_pi * exp(v * v)",), UNIT, parity="odd", jax="special.erfinv({0})", time=380)
    special("erfcinv", "erfcinv({0})", ("-(half_sqrt_pi * exp(v * v))",), (0.0, 2.0), zero_signs="lost", time=400)
    special("erfcx", "erfcx({0})", ("-2 * i1erfcx(x)",), (-26.0, 1e9), zero_signs="lost", jax="special.erfcx({0})", time=150)
    special("log_ndtr", "log_ndtr({0})", ("sqrt_two_over_pi / erfcx(-(sqrt_half * x))",), (-1e9, 37.0), zero_signs="lost",
        jax="special.log_ndtr({0})", time=350)
    special("gamma", "gamma({0})", ("v * digamma(x)",), (0.0, 171.0), jax="special.gamma({0})", time=460)
    special("gammaln", "gammaln({0})", ("digamma(x)",), (0.0, 1e100), zero_signs="lost", jax="special.gammaln({0})", time=360)
    # for negative x the derivative of ψ(1 - x) - π cot πx
    special("digamma", "psi({0})",
        (f"select(x < 0, {COSECANT} * {COSECANT}, 0) + select(x < 0, -1, 1) * zeta(2, select(x < 0, 1 - x, x))",),
        (0.0, 1e100), jax="special.digamma({0})", time=370)
    # SciPy adds terms from q to 9 one by one, for ever if q + 1 is q
    special("zeta", "zeta({0}, np.where({1} < 0, np.nan, {1}))", (None, "-(x * zeta(x + 1, y))"), (2.0, 9.0), (0.0, 1e9), jax="special.zeta({0}, {1})", time=1600)
    special("j0", "j0({0})", ("-j1(x)",), (-1e3, 1e3), parity="even", zero_signs="lost", time=2600)
    special("j1", "j1({0})", ("j0(x) - over_x('j1(x)/x', v)",), (-1e3, 1e3), parity="odd", time=5000)
    special("y0", "y0({0})", ("-y1(x)",), (0.0, 1e3), zero_signs="lost", time=7000)
    special("y1", "y1({0})", ("y0(x) - v / x",), (0.0, 1e3), zero_signs="lost", time=5500)
    special("jn", "jv({0}, {1})", (None, "0.5 * (jn(x - 1, y) - jn(x + 1, y))"), ORDERS, (-1e3, 1e3), time=23000)
    special("yn", "yv({0}, {1})", (None, "0.5 * (yn(x - 1, y) - yn(x + 1, y))"), ORDERS, (0.0, 1e3), time=13000)
    special("iv", "iv({0}, {1})", (None, "0.5 * (iv(abs(x - 1), y) + iv(x + 1, y))"), ORDERS, (-700.0, 700.0),
        largest_order=24, time=16000)
    special("ive", "ive({0}, {1})", (None, "0.5 * (ive(abs(x - 1), y) + ive(x + 1, y)) - sign(y) * v"), ORDERS, (-1e4, 1e4),
        largest_order=24, time=15000)
    special("i0", "i0({0})", ("i1(x)",), (-700.0, 700.0), parity="even", zero_signs="lost", jax="special.i0({0})", time=230)
    special("i1", "i1({0})", ("i0(x) - over_x('i1(x)/x', v)",), (-700.0, 700.0), parity="odd", jax="special.i1({0})", time=230)
    special("i0e", "i0e({0})", ("i1e(x) - sign(x) * v",), (-1e4, 1e4), parity="even", zero_signs="lost",
        jax="special.i0e({0})", time=170)
    special("i1e", "i1e({0})", ("i0e(x) - over_x('i1(x)/x', v, exp(-abs(x))) - sign(x) * v",), (-1e4, 1e4), parity="odd",
        jax="special.i1e({0})", time=170)
    special("k0", "k0({0})", ("-k1(x)",), (0.0, 700.0), zero_signs="lost", time=230)
    special("k1", "k1({0})", ("-(k0(x) + v / x)",), (0.0, 700.0), zero_signs="lost", time=250)
    special("k0e", "k0e({0})", ("v - k1e(x)",), (0.0, 1e4), zero_signs="lost", time=240)
    special("k1e", "k1e({0})", ("v - k0e(x) - v / x",), (0.0, 1e4), zero_signs="lost", time=250)
    # exp(x²) iⁿerfc x, repeated integrals of erfc (DLMF 7.18): positive, so that no derivative of erfcx cancels for x > 0
    row("i1erfcx", "_ierfcx(1.0, {0})", "@i1erfcx", ("-4 * ierfcx(2, x)",), (-25.0, 1e9), zero_signs="lost",
        special=True, c="i1erfcx", time=150)
    row("ierfcx", "_ierfcx({0}, {1})", "@ierfcx", (None, "-(2 * (x + 1)) * ierfcx(x + 1, y)"), ORDERS, (-25.0, 1e9),
        arguments=("order", "real"), zero_signs="lost", special=True, largest_order=12, c="ierfcx", time=450)
    # fmt: on
    for name, written, domain, function, result, columns in ROWS:
        if result in ("re", "im"):
            text = f"special.{function}(_complex({{0}}, {{1}})).{'real' if result == 're' else 'imag'}"
        else:
            text = f"special.{function}({', '.join(f'{{{k}}}' for k in range(len(written)))})"
            text += "" if result is None else f"[{result}]"
        usual = {"special": True, "c": "", "time": 6000, "latency": 300}
        called = f"@scipy.{function}" + ("" if result is None else f".{result}")
        row(name, text, called, written, *domain, **(usual | columns))
    return rows


# exp(x²) iⁿerfc x, by the formulas of `accumulus.targets.llvm.special_functions`, with the same coefficients; numbers
# of single precision stay in their range
_IERFCX: Final = """\
def _ierfcx(n, x):
    \"\"\"exp(x²) times the n-fold integral of erfc from x to infinity, for whole n from 0 to 12.\"\"\"
    a = np.abs(x)
    near = np.minimum(a, 1e15)
    root = np.sqrt(near * near + 27.0)
    step = 1.0 / (near + root)
    argument, after = 2.0 * near / root - 1.0, 0.0
    for coefficient in (
            1.441488977756048e-12, 3.0644818956949956e-12, -1.2940596460685005e-12,
            -1.4663007006854974e-12, 1.8425095996970145e-11, 4.226961320756448e-11,
            7.303055850105455e-11, 1.969025636044891e-10, 5.536707142274961e-10,
            1.4293649759617555e-09, 4.358625918624633e-09, 1.0760557125717529e-08,
            3.6442294992371066e-08, 1.1088018577406288e-07, 2.631225743267316e-07,
            1.5823587376381678e-06, 2.2273919232128857e-06, 1.7811810955058632e-05,
            9.20717193721944e-05, -7.496714342803235e-05, 0.0043861988673423325,
            0.00022630661731264638, 0.9953483404981377,
    ):
        after = after * argument + coefficient
    scale = np.where(1e15 < a, 0.5 / np.maximum(a, 1.0), step)
    now = right = 1.0
    for k in range(13, 0, -1):
        after, now = now, 2.0 * near * step * now + 2.0 * k * step * step * after
        if k > 1:
            right = np.where(n < k - 1, now, right * scale)
    right = right * (1.1283791670955126 * scale / now)
    before, now = 1.1283791670955126, special.erfcx(x)
    left, slope = now, 2.0 * np.maximum(-x, 0.0)
    for k in range(1, 13):
        before, now = now, (before + slope * now) / (2.0 * k)
        left = np.where(n < k, left, now)
    return np.where(x < 0.0, left, right)
"""
_COMPLEX: Final = """\
def _complex(x, y):
    \"\"\"x + iy; a zero y has no sign.\"\"\"
    z = np.empty(np.broadcast(x, y).shape, np.result_type(x, y, np.complex64))
    z.real, z.imag = x, y + 0.0
    return z
"""
_ALL: Final = {"_ierfcx(": _IERFCX, "_complex(": _COMPLEX}


def helpers(text: str) -> list[str]:
    """Return definitions of what a text in Python calls that neither NumPy nor SciPy has.

    Programs that are written as NumPy, or as JAX, have them before them.
    """
    return [definition for call, definition in _ALL.items() if call in text]


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


# Weights -------------------------------------------------------------------------------------------------------------

# Weights by which operations are compared, from their rows:
#
# * `TIME`: how long it keeps a processor busy at one point of a batch, in vectors of doubles; an addition takes 1. It
#   decides on the threads of a batch and on the variants of code (`accumulus.targets`).
# * `LATENCY`: cycles until its result can be used; by this operations are scheduled.
# * `IN_SEARCH`: its cost in the search for a shorter program (`accumulus.rewriting`).
#
# Times were measured on the processor of `SECONDS` and rounded to fives, but divisions, roots and fmod take half as long
# there, and twice as long on some. The weights in the search are such that programs are fast as well as short: with these
# the suite of benchmarks needs as few operations as with equal weights, and fewer divisions. Signs weigh nothing, since
# most vanish in the end.
#
# They are rough, and the same on every machine, so that decisions are, too. A sum of times ignores products that are
# fused with sums, signs that go into constants, loads, stores, and values that do not fit the registers.

#: Seconds of an addition at one point, on an AMD EPYC of 2024 (Zen 5, vectors of eight doubles).
SECONDS: Final = 15e-12

#: What an addition weighs in a search for a shorter program.
UNIT: Final = 64
#: The key, among these, of the discount for a product with the sum that alone uses it: a target fuses them into one
#: instruction, but they count as two operations.
FUSED: Final = "sum with product"

#: By code, in additions.
TIME: Final = tuple(row.time for row in OPERATIONS)
#: By code, in cycles.
LATENCY: Final = tuple(row.latency for row in OPERATIONS)
#: By name, an addition `UNIT`; and `FUSED`.
IN_SEARCH: Final = {**{row.name: UNIT * row.search for row in OPERATIONS}, FUSED: 16}


def _check() -> None:
    """Refuse a table that contradicts itself, at import, so that no other module has to ask."""
    assert len(BY_NAME) == len(OPERATIONS) <= 256, "two rows share a name, or a code does not fit a byte"
    for row in OPERATIONS:
        assert len(row.partials) == len(row.domain) == row.arity <= 3, f"{row.name}: rows of different lengths"
        assert all(len(kink) == row.arity for kink in row.kinks), f"{row.name}: a kink has one number an argument"
        assert row.result == "real" or set(row.partials) == {None}, f"{row.name}: a truth value has no derivative"


_check()
