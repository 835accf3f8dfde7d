"""Random functions of the idioms that rewriting spoils when it tries identities at numbers near 1 alone.

Roots of squares, lengths with guards against 0/0, quotients of E ± qV with constants of other scales, areas, logarithms
and roots of products, differences of squares, clusters (offsets of 10³ to 10⁸, differences of 10⁻³ to 10⁻¹²),
rotations, small systems of equations, softmax, polynomials, choices. Arguments are drawn over 600 decades. A function
is drawn at its first point: what an idiom is made of is there of a size that its constants fit to, as in programs that
people write. `far_points` are where it is called afterwards.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

#: Values of a text at its first point are 0 or of a size within this, so that their squares are no denormals.
SMALLEST, LARGEST = 1e-140, 1e140
#: Decades of arguments: how often a program has them within how many.
DECADES: Final = {2: 40, 12: 25, 40: 15, 120: 12, 290: 8}
#: How often arguments are of one scale, and how often they are a cluster beside an offset.
OF_ONE_SCALE: Final = 0.7
CLUSTERS: Final = 0.15
#: Idioms of a program, and how many are tried for each that fits.
FEWEST, MOST = 3, 9
TRIES: Final = 30
#: How often the only result is a sum, and results of other programs at most.
ENERGIES: Final = 0.25
MOST_OUTPUTS: Final = 8
#: Variables in a text.
NAME: Final = re.compile(r"\b[xv]\d+\b")


class NoFitError(Exception):
    """An idiom has no value of a fitting size here."""


@dataclass
class Scaled:
    """A random function.

    Attributes:
        source: the function `f` of one array of `inputs` numbers, as text.
        elementwise: whether its text runs on arrays (inputs, n), too.
        first: the point at which it was drawn.
        centres: for each input, numbers at which something that is made of it changes its sign.
        idioms: names of what it consists of.
    """

    source: str
    inputs: int
    outputs: int
    elementwise: bool
    first: list[float]
    centres: dict[int, list[float]]
    idioms: tuple[str, ...]


@dataclass
class Writing:
    """A text that is being written, with its values at the first point.

    Attributes:
        names: variables of numbers, later ones after those that they are made of.
        values: by name.
    """

    rng: random.Random
    point: list[float]
    names: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    centres: dict[int, list[float]] = field(default_factory=dict)
    count: int = 0

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        return self.names[: len(self.point)]

    def value(self, text: str) -> Any:
        """Return the value of an expression at the first point.

        Raises:
            NoFitError: if it is not finite, or of a size whose square is not.
        """
        try:
            found = eval(text, {"np": np, "__builtins__": {}}, dict(self.values))
        except np.linalg.LinAlgError as error:
            raise NoFitError(text) from error
        sizes = np.abs(np.asarray(found, float))
        if not (np.isfinite(sizes) & ((sizes == 0) | ((sizes > SMALLEST) & (sizes < LARGEST)))).all():
            raise NoFitError(text)
        return found

    def let(self, text: str, *, hidden: bool = False) -> str:
        """Write an assignment and return the variable; a hidden one is no operand of later idioms."""
        found = self.value(text)
        name = f"v{self.count}"
        self.count += 1
        self.values[name] = found
        if not hidden and np.ndim(found) == 0:
            self.names.append(name)
        self.lines.append(f"{name} = {text}")
        return name

    def operand(self) -> str:
        """Return a variable, of inputs and of recent ones most often."""
        return self.rng.choice(self.inputs if self.rng.random() < 0.5 else self.names[-6:])

    def operands(self, count: int) -> list[str]:
        """Return several variables, different ones where there are."""
        found = [self.operand()]
        for _ in range(20 * count):
            if len(found) == count:
                break
            other = self.operand()
            found += [other] if other not in found else []
        return (found * count)[:count]

    def alike(self, count: int) -> list[str]:
        """Return several numbers of the size of the first of them, divided by constants where they are of another."""
        first, *others = self.operands(count)
        size = abs(self.values[first]) or 1.0
        found = [first]
        for name in others:
            ratio = abs(self.values[name]) / size
            is_alike = not ratio or 1e-3 < ratio < 1e3
            found.append(name if is_alike else self.let(f"{name} * {self.number(1 / ratio)}", hidden=True))
        return found

    def number(self, x: float, spread: float = 0.3) -> str:
        """Return a constant near a number, with few digits or with all."""
        x = x * 10 ** self.rng.uniform(-spread, spread) if spread else x
        if not 1e-300 < abs(x) < 1e300:
            raise NoFitError(str(x))
        digits = self.rng.choice((1, 2, 3, 3, 4, 17))
        return repr(float(f"{x:.{digits}g}"))

    def constant(self, decades: float = 1.0) -> str:
        """Return a constant about 1."""
        return self.number(self.rng.choice((1.0, 1.0, -1.0)), decades)

    def unit(self, name: str) -> str:
        """Return a number of order 1 that is a multiple of a variable."""
        size = abs(self.values[name])
        if 0.05 < size < 5 or not size:
            return name
        if self.rng.random() < 0.5:
            return self.let(f"{name} / {self.number(size, 0.5)}", hidden=True)
        return self.let(f"{name} * {self.number(1 / size, 0.5)}", hidden=True)

    def beside(self, name: str) -> str:
        """Return a variable less a constant of its size."""
        x = self.values[name]
        share = self.rng.choice((0.5, 0.9, 1.1, 2.0, 3.0, -1.0)) if self.rng.random() < 0.8 else self.rng.gauss(1, 1e-4)
        centre = float(self.number(x * share if x else 1.0, 0.0))
        if centre == x:
            raise NoFitError(name)
        if name in self.inputs:
            self.centres.setdefault(self.inputs.index(name), []).append(centre)
        text = f"{name} - {centre!r}" if self.rng.random() < 0.7 else f"{centre!r} - {name}"
        return self.let(text)

    def guard(self, size: float) -> str:
        """Return a constant that is far below a size, or absolutely small."""
        if self.rng.random() < 0.5:
            return repr(10.0 ** -self.rng.choice((12, 14, 16, 20, 30, 60, 100, 200, 300)))
        return self.number(size * 10.0 ** -self.rng.uniform(9, 60), 0.0)


# Idioms --------------------------------------------------------------------------------------------------------------

Idiom = Callable[[Writing], None]
#: By name: the function that writes it, how often it comes, and whether it runs on arrays.
IDIOMS: Final[dict[str, tuple[Idiom, float, bool]]] = {}


def _idiom(weight: float, elementwise: bool = True) -> Callable[[Idiom], Idiom]:
    def add(write: Idiom) -> Idiom:
        IDIOMS[write.__name__.strip("_").replace("_", " ")] = write, weight, elementwise
        return write

    return add


ROOTS_OF_SQUARES: Final = (
    "np.sqrt({d}**2)",
    "np.sqrt({d} * {d})",
    "({d}**2)**0.5",
    "({d} * {d})**0.5",
    "np.abs({d})",
    "np.cbrt({d}**3)",
    "np.hypot({d}, 0.0)",
    "np.maximum({d}, -{d})",
    "np.where({d} > 0.0, {d}, -{d})",
    "np.sqrt({d}**4)**0.5",
    "({d}**4)**0.25",
)


@_idiom(3)
def _root_of_a_square(w: Writing) -> None:
    d = w.beside(w.operand())
    r = w.let(w.rng.choice(ROOTS_OF_SQUARES).format(d=d))
    if w.rng.random() < 0.7:
        w.let(f"{d} / {r}")
    u = w.unit(r)
    w.let(w.rng.choice((f"np.exp(-{u})", f"1.0 / (1.0 + {u})", f"np.log(1.0 + {u})", f"{u} * np.tanh({u})")))


@_idiom(3)
def _length_with_a_guard(w: Writing) -> None:
    parts = [w.beside(name) if w.rng.random() < 0.7 else name for name in w.alike(w.rng.choice((2, 2, 3)))]
    square = w.let(" + ".join(f"{d}**2" if w.rng.random() < 0.6 else f"{d} * {d}" for d in parts))
    g = w.guard(w.values[square])
    how = w.rng.random()
    if how < 0.5:
        r = w.let(f"np.sqrt({square} + {g})")
    elif how < 0.7:
        r = w.let(f"np.sqrt({square}) + {g}")
    elif how < 0.85:
        r = w.let(f"np.maximum(np.sqrt({square}), {g})")
    else:
        r = w.let(f"np.where({square} > {g}, np.sqrt({square}), 1.0)")
    for d in parts:
        w.let(f"{d} / {r}")
    if w.rng.random() < 0.6:
        w.let(f"np.exp(-{square} / {w.number(w.values[square] or 1.0, 0.5)})")
    if w.rng.random() < 0.4:
        w.let(f"{parts[0]} / {r}**3")


@_idiom(2.5)
def _small_constants(w: Writing) -> None:
    E, V = w.operands(2)
    sizes = abs(w.values[E]), abs(w.values[V])
    if not all(sizes):
        raise NoFitError(E)
    q = w.number(sizes[0] / sizes[1] * 10 ** w.rng.uniform(-3, 1), 0.0)
    up, down = w.let(f"{E} + {q} * {V}"), w.let(f"{E} - {q} * {V}")
    for text in w.rng.sample(
        (f"{up} / {down}", f"{down} / {up}", f"({up} - {down}) / ({up} + {down})", f"{up} * {down} / ({E} * {E})"), 3
    ):
        w.let(text)
    if w.rng.random() < 0.4:
        w.let(f"np.log({up} / {down})")


@_idiom(1)
def _constants_of_nature(w: Writing) -> None:
    T, nu = (w.unit(each) for each in w.operands(2))
    if w.values[T] <= 0 or w.values[nu] <= 0:
        raise NoFitError(T)
    T, nu = w.let(f"300.0 * {T}", hidden=True), w.let(f"1e13 * {nu}", hidden=True)
    how = w.rng.random()
    if how < 0.4:
        x = w.let(f"6.626e-34 * {nu} / (1.381e-23 * {T})")
        w.let(f"1.0 / np.expm1({x})")
        w.let(f"{x} / (np.exp({x}) - 1.0)")
    elif how < 0.7:
        v = w.let(f"1e5 * {T}")
        beta = w.let(f"{v} / 299792458.0")
        w.let(f"1.0 / np.sqrt(1.0 - {beta}**2)")
        w.let(f"np.sqrt((1.0 + {beta}) / (1.0 - {beta}))")
        w.let(f"{beta}**2 / (1.0 + np.sqrt(1.0 - {beta}**2))")
    else:
        E = w.let(f"1.602e-19 * {nu} * 1e-13")
        kT = w.let(f"1.380649e-23 * {T}")
        w.let(f"1.0 / (np.exp({E} / {kT} / 40.0) + 1.0)")
        w.let(f"({E} - {kT}) / ({E} + {kT})")


@_idiom(2)
def _logarithms(w: Writing) -> None:
    a, b = w.alike(2)
    if w.rng.random() < 0.6:
        a, b = w.beside(a) if a in w.names else a, w.beside(b) if b in w.names else b
    sign = "" if w.values[a] * w.values[b] > 0 else "-"
    texts = [
        f"np.log({sign}{a} * {b})",
        f"np.log({sign}{a} / {b})",
        f"np.log({a}**2)",
        f"np.log({a} * {a} * {b} * {b})",
        f"np.log({a}**2 + {b}**2)",
        f"0.5 * np.log({b}**2)",
        f"np.log(np.abs({a}))",
        f"np.log({a}**2) - np.log({b}**2)",
    ]
    for text in w.rng.sample(texts, 2):
        w.let(text)


@_idiom(2)
def _roots_of_products(w: Writing) -> None:
    a, b = w.alike(2)
    if w.rng.random() < 0.6:
        a, b = w.beside(a) if a in w.names else a, w.beside(b) if b in w.names else b
    sign = "" if w.values[a] * w.values[b] > 0 else "-"
    texts = [
        f"np.sqrt({sign}{a} * {b})",
        f"np.sqrt({sign}{a} / {b})",
        f"({sign}{a} * {b})**1.5",
        f"np.sqrt({a} * {a} * {b} * {b})",
        f"({sign}{a} * {b})**0.25",
        f"np.sqrt({a}**2 * {b}**2 + {a}**4)",
        f"({a}**2)**1.5",
        f"np.cbrt({a} * {b})",
    ]
    roots = [w.let(text) for text in w.rng.sample(texts, 2)]
    w.let(f"{a} / {roots[0]}")
    if w.rng.random() < 0.5:
        w.let(f"{roots[0]} / {roots[1]}")


@_idiom(2)
def _differences_of_squares(w: Writing) -> None:
    a, b = w.operands(2) if w.rng.random() < 0.5 else w.alike(2)
    texts = [
        f"({a} - {b}) * ({a} + {b})",
        f"{a}**2 - {b}**2",
        f"({a} - {b})**2",
        f"{a}**2 - 2.0 * {a} * {b} + {b}**2",
        f"({a} + {b})**2 - ({a} - {b})**2",
        f"({a} - {b}) / ({a} + {b})",
        f"({a} - {b})**3",
        f"{a} * ({a} - {b}) - {b} * ({a} - {b})",
    ]
    for text in w.rng.sample(texts, 2):
        w.let(text)


@_idiom(2)
def _areas(w: Writing) -> None:
    x, y, u, v = w.alike(4)
    if w.rng.random() < 0.6:  # relative to a corner that is near
        shares = [w.number(w.rng.gauss(1, 1e-3), 0.0) for _ in range(4)]
        corner = [repr(float(f"{w.values[name] * float(c):.6g}")) for name, c in zip((x, y, u, v), shares, strict=True)]
        x, y, u, v = (w.let(f"{name} - {c}", hidden=True) for name, c in zip((x, y, u, v), corner, strict=True))
    a = w.let(f"{x} * {v} - {u} * {y}")
    if w.rng.random() < 0.5:
        w.let(f"0.5 * (({u} - {x}) * ({v} + {y}) - ({v} - {y}) * ({u} + {x}))")
    if w.rng.random() < 0.5:
        w.let(f"{a} / ({x}**2 + {y}**2 + {u}**2 + {v}**2)")


@_idiom(1.5)
def _sums_that_cancel(w: Writing) -> None:
    a, b, c = w.operands(3)
    texts = [
        f"({a} + {b}) - {a}",
        f"({a} + {b} + {c}) - ({a} + {b})",
        f"({a} + {b}) * {c} - {a} * {c}",
        f"({a} - {b}) + ({b} - {c})",
        f"({a} + {b}) / ({a} + {c}) - 1.0",
        f"{a} * {b} / {c} - {a}",
        f"1.0 / (1.0 / {a} + 1.0 / {b})",
        f"{a} * {b} / ({a} + {b})",
        f"1.0 / {a} - 1.0 / {b}",
        f"{a} * ({b} + {c}) / ({b} - {c})",
        f"({a} * {b}) / ({b} * {c})",
        f"({a} / {b}) * ({b} / {c})",
    ]
    for text in w.rng.sample(texts, 2):
        w.let(text)


@_idiom(1.5)
def _exponentials(w: Writing) -> None:
    u, v = (w.unit(each) for each in w.operands(2))
    texts = [
        f"np.exp({u}) * np.exp(-{v})",
        f"np.exp({u} - {v})",
        f"np.exp(2.0 * {u}) - np.exp({u})**2 * {v}",
        f"np.log(np.exp({u}) + np.exp({v}))",
        f"np.log1p(np.exp({u}))",
        f"np.logaddexp({u}, {v})",
        f"np.maximum({u}, 0.0) + np.log1p(np.exp(-np.abs({u})))",
        f"np.exp(np.log({u}**2) * 0.5)",
        f"np.log(np.exp({u}) * {v}**2)",
        f"np.sinh({u}) / np.cosh({u})",
        f"(np.exp({u}) - np.exp(-{u})) / (np.exp({u}) + np.exp(-{u}))",
        f"np.expm1({u}) / {u}",
        f"({u}**2)**{w.constant()}",
        f"np.exp({u})**2.5",
    ]
    for text in w.rng.sample(texts, 2):
        w.let(text)


@_idiom(1.5)
def _softmax(w: Writing) -> None:
    count = w.rng.choice((2, 3))
    parts = [w.unit(each) for each in w.operands(count)]
    top = parts[0]
    if w.rng.random() < 0.6:
        for each in parts[1:]:
            top = w.let(f"np.maximum({top}, {each})", hidden=True)
        parts = [w.let(f"{each} - {top}", hidden=True) for each in parts]
    exponentials = [w.let(f"np.exp({each})", hidden=True) for each in parts]
    total = w.let(" + ".join(exponentials))
    for each in exponentials[:2]:
        w.let(f"{each} / {total}")
    w.let(f"np.log({total})")


@_idiom(1.5)
def _logistic(w: Writing) -> None:
    u = w.unit(w.operand())
    texts = [
        f"1.0 / (1.0 + np.exp(-{u}))",
        f"np.where({u} > 0.0, 1.0 / (1.0 + np.exp(-{u})), np.exp({u}) / (1.0 + np.exp({u})))",
        f"0.5 * (1.0 + np.tanh(0.5 * {u}))",
        f"np.exp({u}) / (1.0 + np.exp({u}))",
    ]
    p = w.let(w.rng.choice(texts))
    w.let(w.rng.choice((f"{p} * (1.0 - {p})", f"np.log({p}) - np.log(1.0 - {p})", f"-{p} * np.log({p})")))


@_idiom(1.5)
def _gaussian(w: Writing) -> None:
    d = w.beside(w.operand())
    s = w.number(abs(w.values[d]) or 1.0, 0.5)
    z = w.let(f"{d} / {s}")
    g = w.let(w.rng.choice((f"np.exp(-0.5 * {z}**2)", f"np.exp(-{d}**2 / (2.0 * {s}**2))", f"np.exp(-{z} * {z})")))
    w.let(w.rng.choice((f"{g} * {z}", f"{g} / {s}", f"-0.5 * {z}**2 - np.log({s})", f"{g} / (1.0 + {g})")))


@_idiom(1.5)
def _polynomials(w: Writing) -> None:
    a, b = w.alike(2)
    c = [w.constant(0.5) for _ in range(4)]
    size = abs(w.values[a])
    if not 1e-30 < size < 1e30:
        raise NoFitError(a)
    roots = [w.number(w.values[a] * w.rng.choice((1.0, 1.0 + 1e-5, 0.5, 2.0)), 0.0) for _ in range(3)]
    texts = [
        f"({a} - {roots[0]}) * ({a} - {roots[1]}) * ({a} - {roots[2]})",
        f"(({c[0]} * {a} + {c[1]} * {b}) * {a} + {c[2]} * {b}**2) * {a} - {b}**3",
        f"{a}**3 - 3.0 * {a}**2 * {b} + 3.0 * {a} * {b}**2 - {b}**3",
        f"({a} - {b})**4 / ({a} + {roots[0]})**3",
        f"({a} - {roots[0]})**2 * ({b} + {roots[1]}) - ({a} - {roots[0]}) * {b}**2",
    ]
    for text in w.rng.sample(texts, 2):
        w.let(text)
    if w.rng.random() < 0.5:
        w.let(f"(-{b} + np.sqrt({b}**2 + {a}**2)) / {a}")


@_idiom(1.5)
def _rotation(w: Writing) -> None:
    x, y, z = w.alike(3)
    angle = w.unit(w.operand())
    if w.rng.random() < 0.5:
        c, s = w.let(f"np.cos({angle})", hidden=True), w.let(f"np.sin({angle})", hidden=True)
        u, v = w.let(f"{c} * {x} - {s} * {y}"), w.let(f"{s} * {x} + {c} * {y}")
        w.let(w.rng.choice((f"{u}**2 + {v}**2", f"np.arctan2({u}, {v})", f"np.hypot({u}, {v})", f"{u} / {z}")))
        return
    p, q, r = (w.unit(each) for each in w.operands(3))
    square = w.let(f"{p}**2 + {q}**2 + {r}**2", hidden=True)
    n = w.let(f"np.sqrt({square} + {w.guard(1.0)})", hidden=True)
    p, q, r = (w.let(f"{each} / {n}", hidden=True) for each in (p, q, r))
    c, s = w.let(f"np.cos({n})", hidden=True), w.let(f"np.sin({n})", hidden=True)
    dot = w.let(f"({p} * {x} + {q} * {y} + {r} * {z}) * (1.0 - {c})", hidden=True)
    w.let(f"{c} * {x} + {s} * ({q} * {z} - {r} * {y}) + {dot} * {p}")
    w.let(f"{c} * {y} + {s} * ({r} * {x} - {p} * {z}) + {dot} * {q}")


@_idiom(1.5)
def _angles(w: Writing) -> None:
    x, y, z = w.alike(3)
    texts = [
        f"np.arctan2({y}, {x})",
        f"np.hypot({x}, {y})",
        f"np.sqrt({x}**2 + {y}**2)",
        f"np.arctan({y} / {x})",
        f"{x} / np.hypot({x}, {y})",
        f"np.arccos({x} / np.sqrt({x}**2 + {y}**2 + {z}**2))",
        f"np.sqrt({x}**2 + {y}**2 - 2.0 * {x} * {y} * np.cos({w.unit(w.operand())}))",
        f"np.cos(np.arctan2({y}, {x}))",
        f"np.sin(np.arctan2({y}, {x})) * np.hypot({x}, {y})",
    ]
    for text in w.rng.sample(texts, 2):
        w.let(text)


@_idiom(2)
def _choices(w: Writing) -> None:
    a, b = w.alike(2)
    d = w.beside(a) if a in w.names else a
    g = w.guard(abs(w.values[b]) or 1.0)
    texts = [
        f"np.maximum({d}, 0.0)",
        f"np.minimum({a}, {b})",
        f"np.maximum({a}, {b})",
        f"np.abs({d})",
        f"np.where({d} > 0.0, {a}, {b})",
        f"np.where(np.abs({b}) > {g}, {a} / {b}, 0.0)",
        f"np.where({b}**2 > {g}, {a} / np.sqrt({b}**2), 1.0)",
        f"{a} / np.maximum(np.abs({b}), {g})",
        f"np.where(np.abs({d}) < {g}, 1.0, np.sin({w.unit(d)}) / {w.unit(d)})",
        f"np.minimum({d}, 0.0) + np.maximum({d}, 0.0)",
        f"np.where({d} > 0.0, np.sqrt(np.where({d} > 0.0, {d}, 1.0)), 0.0)",
        f"np.where({d} > 0.0, {d} * np.log(np.where({d} > 0.0, {d}, 1.0) / {w.number(abs(w.values[d]))}), 0.0)",
    ]
    for text in w.rng.sample(texts, 2):
        w.let(text)


@_idiom(1.5)
def _averages(w: Writing) -> None:
    a, b = w.alike(2)
    u, v = w.alike(2)
    r, s = w.let(f"np.sqrt(np.abs({a}))", hidden=True), w.let(f"np.sqrt(np.abs({b}))", hidden=True)
    total = w.let(f"{r} + {s}", hidden=True)
    mean = w.let(f"({r} * {u} + {s} * {v}) / {total}")
    w.let(w.rng.choice((f"{u} - {mean}", f"{r} * {s} * ({u} - {v})**2", f"{mean}**2 - {u} * {v}", f"{r} * {s}")))


@_idiom(1.5)
def _variances(w: Writing) -> None:
    parts = w.alike(3)
    mean = w.let(f"({' + '.join(parts)}) / 3.0")
    w.let(" + ".join(f"({each} - {mean})**2" for each in parts))
    if w.rng.random() < 0.5:
        w.let(f"({' + '.join(f'{each}**2' for each in parts)}) / 3.0 - {mean}**2")


@_idiom(1.5)
def _triangular_systems(w: Writing) -> None:
    a, b, c = w.alike(3)
    l11, l21, l22 = (w.number(abs(w.values[a]) or 1.0, 0.5) for _ in range(3))
    sign = w.rng.choice("+-")
    y = w.let(f"{a} / {l11}")
    z = w.let(f"({b} - {l21} * {y}) / {l22}")
    if w.rng.random() < 0.5:
        w.let(f"({c} {sign} {l21} * {y} {sign} {l11} * {z}) / {l22}")
    if w.rng.random() < 0.4:  # Cholesky's factors of [[a² + g, ab], [ab, b² + c²]]
        r = w.let(f"np.sqrt({a}**2 + {w.guard(w.values[a] ** 2)})", hidden=True)
        s = w.let(f"{a} * {b} / {r}")
        w.let(f"np.sqrt({b}**2 + {c}**2 - {s}**2)")


@_idiom(2.5, elementwise=False)
def _symmetric_systems(w: Writing) -> None:
    size = w.rng.choice((2, 3, 3, 4))
    k = 10.0 ** w.rng.choice((0, 0, 2, 4, 6, -6))
    scale = repr(k)
    lam = w.unit(w.operand())
    lam = w.let(f"{k * w.rng.choice((1e-4, 0.1, 1.0))!r} * {lam}", hidden=True)
    if w.rng.random() < 0.6:  # stiffness of a chain
        K = f"{scale} * (2.0 * np.eye({size}) - np.eye({size}, k=1) - np.eye({size}, k=-1))"
        K = w.let(f"{K} {w.rng.choice('+--')} {lam} * np.eye({size})", hidden=True)
    else:  # a covariance with a nugget
        places = [w.unit(each) for each in w.operands(size)]
        at = w.let(f"np.array([{', '.join(places)}])", hidden=True)
        gaps = w.let(f"{at}[:, np.newaxis] - {at}[np.newaxis, :]", hidden=True)
        nugget = w.rng.choice(("1.0", "0.1", "1e-2", "-0.5", lam))
        K = w.let(f"{scale} * (np.exp(-{gaps}**2) + {nugget} * np.eye({size}))", hidden=True)
    right = w.let(f"np.array([{', '.join((w.alike(size) + ['1.0'] * size)[:size])}])", hidden=True)
    how = w.rng.random()
    if how < 0.45:
        y = w.let(f"np.linalg.solve({K}, {right})", hidden=True)
        w.let(f"{y}[0]")
        w.let(f"{y}[{size - 1}]")
        w.let(f"np.sum({right} * {y})")
    elif how < 0.8:
        w.let(f"np.linalg.slogdet({K})[1]")
    elif how < 0.9:
        w.let(f"np.linalg.det({K})")
    else:
        w.let(f"np.linalg.inv({K})[0, {size - 1}]")


@_idiom(1.5, elementwise=False)
def _polygons(w: Writing) -> None:
    corners = w.rng.choice((3, 4))
    names = w.alike(2)
    far = [[repr(float(f"{w.values[n] * (1 + w.rng.gauss(0, 0.3)):.4g}")) for _ in range(corners - 1)] for n in names]
    x, y = (w.let(f"np.array([{n}, {', '.join(each)}])", hidden=True) for n, each in zip(names, far, strict=True))
    if w.rng.random() < 0.4:
        x, y = w.let(f"{x} - {x}[0]", hidden=True), w.let(f"{y} - {y}[0]", hidden=True)
    w.let(f"0.5 * np.sum({x} * np.roll({y}, -1) - np.roll({x}, -1) * {y})")
    if w.rng.random() < 0.5:
        w.let(f"np.sum(({x} - np.roll({x}, 1)) * ({y} + np.roll({y}, 1)))")
    if w.rng.random() < 0.5:
        w.let(f"np.sum(np.sqrt(({x} - np.roll({x}, 1))**2 + ({y} - np.roll({y}, 1))**2))")


@_idiom(1.5, elementwise=False)
def _vectors(w: Writing) -> None:
    x, y, z = w.alike(3)
    a = w.let(f"np.array([{x}, {y}, {z}])", hidden=True)
    c = [repr(float(f"{w.values[n] * w.rng.choice((0.5, 2.0, 1.001, -1.0)):.4g}")) for n in (x, y, z)]
    b = w.let(f"np.array([{', '.join(c)}])", hidden=True)
    d = w.let(f"{a} - {b}", hidden=True)
    square = w.let(f"{d} @ {d}")
    r = w.let(f"np.sqrt({square} + {w.guard(w.values[square])})")
    for k in w.rng.sample(range(3), 2):
        w.let(f"({d} / {r})[{k}]")
    w.let(f"np.cross({a}, {d})[{w.rng.randrange(3)}]")
    w.let(f"{a} @ {d} / {r}**{w.rng.choice((1, 2, 3))}")


# Drawing -------------------------------------------------------------------------------------------------------------


def random_scaled(rng: random.Random, *, elementwise: bool = False) -> Scaled:
    """Return a function; with `elementwise`, one that runs on arrays."""
    with np.errstate(all="ignore"):
        while True:
            found = _drawn(rng, elementwise)
            if found is not None:
                return found


def _drawn(rng: random.Random, elementwise: bool) -> Scaled | None:
    point = _first_point(rng)
    w = Writing(rng, point)
    w.names = [f"x{k}" for k in range(len(point))]
    w.values = dict(zip(w.names, map(np.float64, point), strict=True))
    names = [name for name, (_, _, on_arrays) in IDIOMS.items() if on_arrays or not elementwise]
    weights = [IDIOMS[name][1] for name in names]
    wanted = rng.randint(FEWEST, MOST)
    used: list[str] = []
    for _ in range(TRIES * wanted):
        if len(used) == wanted:
            break
        name = rng.choices(names, weights)[0]
        before = list(w.names), len(w.lines), {k: list(c) for k, c in w.centres.items()}
        try:
            IDIOMS[name][0](w)
            used.append(name)
        except NoFitError:
            w.names, w.centres = before[0], before[2]
            del w.lines[before[1] :]
    made = w.names[len(point) :]
    if len(used) < FEWEST or not made:
        return None
    outputs = _outputs(w, made)
    left = f"{w.inputs[0]}, = x" if len(point) == 1 else f"{', '.join(w.inputs)} = x"
    body = [left, *needed_lines(w.lines, outputs), f"return np.stack([{', '.join(outputs)}])"]
    source = "def f(x):\n    " + "\n    ".join(body) + "\n"
    on_arrays = all(IDIOMS[name][2] for name in used)
    return Scaled(source, len(point), len(outputs), on_arrays, point, w.centres, tuple(used))


def needed_lines(lines: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Return the lines that outputs depend on."""
    needed, kept = set(outputs), []
    for line in reversed(lines):
        target, _, text = line.partition(" = ")
        if target in needed:
            needed.update(NAME.findall(text))
            kept.append(line)
    return kept[::-1]


def _first_point(rng: random.Random) -> list[float]:
    count = rng.choice((2, 3, 3, 4, 5, 6))
    decades = rng.choices(list(DECADES), list(DECADES.values()))[0]
    scale = rng.uniform(-decades, decades)
    if rng.random() < CLUSTERS:
        size = 10.0 ** max(-280.0, min(280.0, scale))
        apart = 10.0 ** -rng.uniform(3, 12)
        return [float(size * (1 + apart * rng.uniform(-1, 1))) for _ in range(count)]
    one = rng.random() < OF_ONE_SCALE
    exponents = [(scale if one else rng.uniform(-decades, decades)) + rng.uniform(-0.5, 0.5) for _ in range(count)]
    digits = rng.choice((2, 17))
    return [
        float(f"{(1 if rng.random() < 0.7 else -1) * 10.0 ** max(-290.0, min(290.0, e)):.{digits}g}") for e in exponents
    ]


def _outputs(w: Writing, made: Sequence[str]) -> list[str]:
    """What is returned: results that nothing takes, and some of several that share them, or one sum as of an energy."""
    taken = set(NAME.findall("\n".join(line.partition(" = ")[2] for line in w.lines)))
    unused = [name for name in made if name not in taken] or list(made[-2:])
    if w.rng.random() < ENERGIES:
        terms = w.rng.sample(unused, min(len(unused), 5))
        sizes = [abs(w.values[name]) or 1.0 for name in terms]
        try:
            factors = [w.number(sizes[0] / size) for size in sizes]
            return [w.let(" + ".join(f"{c} * {name}" for c, name in zip(factors, terms, strict=True)))]
        except NoFitError:
            return terms[:1]
    chosen = unused[-MOST_OUTPUTS:]
    for _ in range(w.rng.choice((0, 1, 2))):
        a, b = w.rng.choice(made), w.rng.choice(made)
        try:
            chosen.append(w.let(w.rng.choice((f"{a} * {b}", f"{a} / {b}", f"{a} + {b}", f"{a} - {b}"))))
        except NoFitError:
            continue
    return list(dict.fromkeys(chosen))


# Points --------------------------------------------------------------------------------------------------------------


def far_points(program: Scaled, rng: random.Random) -> dict[str, list[float]]:
    """Return where a function is called after its first point, by what they are."""
    x, n = program.first, program.inputs

    def some() -> list[int]:
        return [k for k in range(n) if rng.random() < 0.5] or [rng.randrange(n)]

    def moved(change: Callable[[float, int], float], which: Sequence[int]) -> list[float]:
        return [float(change(each, k)) if k in which else each for k, each in enumerate(x)]

    def limited(value: float) -> float:
        return value if value == 0 else math.copysign(min(max(abs(value), 1e-300), 1e300), value)

    def centre(k: int) -> float:
        return rng.choice(program.centres[k]) if k in program.centres else x[k]

    all_of_them, one = range(n), [rng.randrange(n)]
    with_centres = sorted(program.centres) or one
    source, scale = rng.randrange(n), 10 ** rng.uniform(-60, 60)
    points = {
        "near": moved(lambda a, _: a * (1 + 0.1 * rng.gauss(0, 1)), all_of_them),
        "other signs": moved(lambda a, _: -a, some()),
        "far": moved(lambda a, _: limited(a * 10 ** rng.uniform(-4, 4)), all_of_them),
        "very far": moved(lambda a, _: limited(a * 10 ** rng.uniform(-80, 80)), some()),
        "of another scale": moved(lambda a, _: limited(a * scale), all_of_them),
        "on the other side": moved(
            lambda a, k: limited(centre(k) + (centre(k) - a) * 10 ** rng.uniform(-3, 2)), with_centres
        ),
        "at a centre": moved(lambda _, k: centre(k), [rng.choice(with_centres)]),
        "beside a centre": moved(lambda _, k: centre(k) * (1 + 10 ** -rng.uniform(3, 12)), with_centres),
        "nearly equal": moved(lambda *_: x[source] * (1 + 10 ** -rng.uniform(3, 12) * rng.gauss(0, 1)), all_of_them),
        "equal": moved(lambda *_: x[source], some()),
        "zeros": moved(lambda *_: 0.0, some()),
        "about 1": [rng.choice((-1, 1, 1)) * rng.uniform(0.5, 1.5) for _ in x],
    }
    return points
