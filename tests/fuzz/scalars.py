"""Random functions of scalar operations: as source text that users could have written, and as steps for the oracle.

The steps are run in 50 digits with textbook derivatives (`exact.PARTIALS`), so that nothing of the library enters. What
a function decides by (floors, comparisons, maxima) is decided as double precision does it where IEEE arithmetic leaves
no choice: for operands that no operation before has rounded, and for quotients of such, which the library divides as
they are written. Where rounding could decide otherwise, the point tells nothing: `Undecided`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from exact import EXACT, PARTIALS, mp, mpf
from forms import BRANCHES, THROUGH, drawn, group
from inside import BY_NAME


class Undecided(Exception):
    """The result depends on how an intermediate value is rounded, or is out of range."""


@dataclass(frozen=True)
class Row:
    """One operation: how NumPy writes it, its value and partial derivatives in 50 digits, and how often it comes.

    `jumps` says at which values of the arguments, if any, the value or a derivative jumps: a function of the arguments
    that changes its sign there (or is whole there, for `whole`).
    """

    text: str
    value: Callable[..., Any]
    partials: tuple[Callable[..., Any], ...]
    jumps: Callable[..., Any] | None = None
    whole: bool = False
    boolean: bool = False
    arguments: tuple[str, ...] = ("real",)
    weight: float = 1.0


def _nearest(x: Any) -> Any:
    below = mp.floor(x)
    odd = below - 2 * mp.floor(below / 2)
    above = x - below
    return below + 1 if above > 0.5 else below + odd if above == 0.5 else below


def _trunc(x: Any) -> Any:
    return mp.ceil(x) if x < 0 else mp.floor(x)


def _remainder(x: Any, y: Any) -> Any:
    rest = EXACT["fmod"](x, y)
    return rest + y if rest * y < 0 else rest


def _floor_divide(x: Any, y: Any) -> Any:
    return mp.nint(_quotient(x - _remainder(x, y), y))


def _zero(*_: Any) -> Any:
    return mpf(0)


def _quotient(x: Any, y: Any) -> Any:
    return mp.nan if y == 0 else x / y


def _difference(x: Any, y: Any) -> Any:
    return x - y


def _step(x: Any) -> Any:
    return x


#: Operations whose derivative or value jumps, and where.
_JUMPS: Final[dict[str, Callable[..., Any]]] = {
    **dict.fromkeys(("abs", "sign"), _step),
    **dict.fromkeys(("floor", "ceil"), _step),
    "fmod": _quotient,
    **dict.fromkeys(("minimum", "maximum", "less", "less_equal", "equal", "not_equal"), _difference),
}
_WEIGHTS: Final = {
    "add": 4.0,
    "subtract": 4.0,
    "multiply": 5.0,
    "divide": 3.0,
    "select": 2.0,
    "attach": 0.0,
    "input": 0.0,
}


def _table() -> dict[str, Row]:
    rows = {}
    for name, value in EXACT.items():
        row = BY_NAME[name]
        if row.special:  # tested one by one: their 50 digits do not converge wherever programs lead
            continue
        rows[name] = Row(
            row.numpy,
            value,
            PARTIALS.get(name, ()),
            _JUMPS.get(name),
            name in ("floor", "ceil", "fmod"),
            row.result == "boolean",
            row.arguments,
            _WEIGHTS.get(name, 1.0),
        )
    two = ("real", "real")
    one = mpf(1)
    rows |= {
        "trunc": Row("np.trunc({0})", _trunc, (_zero,), _step, True),
        "rint": Row("np.rint({0})", _nearest, (_zero,), lambda x: x + mpf("0.5"), True),
        "floor_divide": Row("{0} // {1}", _floor_divide, (_zero, _zero), _quotient, True, arguments=two),
        "remainder": Row(
            "{0} % {1}",
            _remainder,
            (lambda x, y: one, lambda x, y: -_floor_divide(x, y)),
            _quotient,
            True,
            arguments=two,
        ),
        "square": Row("np.square({0})", lambda x: x * x, (lambda x: 2 * x,)),
        "reciprocal": Row("np.reciprocal({0})", lambda x: _quotient(one, x), (lambda x: -_quotient(one, x * x),)),
        "logaddexp": Row(
            "np.logaddexp({0}, {1})",
            lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
            (lambda x, y: 1 / (1 + mp.exp(y - x)), lambda x, y: 1 / (1 + mp.exp(x - y))),
            arguments=two,
        ),
        "expit": Row(
            "special.expit({0})", lambda x: 1 / (1 + mp.exp(-x)), (lambda x: 1 / (2 + mp.exp(x) + mp.exp(-x)),)
        ),
        "fmax": Row("np.fmax({0}, {1})", EXACT["maximum"], PARTIALS["maximum"], _difference, arguments=two),
        "clip": Row(
            "np.clip({0}, -1.0, 2.0)",
            lambda x: min(max(x, mpf(-1)), mpf(2)),
            (lambda x: mpf("0.5") if x in (-1, 2) else mpf(-1 < x < 2),),
            lambda x: (x + 1) * (x - 2),
        ),
    }
    return rows


TABLE: Final = _table()
#: Whose result a double holds exactly, or rounds as IEEE says.
ROUNDED: Final[dict[str, Callable[..., Any]]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "negative": lambda x: -x,
    "sqrt": np.sqrt,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "abs": abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "floor_divide": np.floor_divide,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "fmax": np.fmax,
    "clip": lambda x: np.clip(x, -1, 2),
    **{name: BY_NAME[name].evaluate for name in ("less", "less_equal", "equal", "not_equal", "select")},
    **{name: BY_NAME[name].evaluate for name in ("logical_and", "logical_or", "logical_not")},
}
#: Whose derivative is computed from the value, and is off by what its last place is worth.
FROM_VALUE: Final = ("tanh", "expm1")
#: How far from where it jumps an operation is decided, and how far rounding may move its arguments then.
NEAR: Final = 1e-5
MOVED: Final = 1e-6
#: Whole numbers beyond this are not decided on.
LARGE: Final = 1e6
#: What quotients are put into, and how often a function has one of these at its beginning.
DECIDING: Final = [name for name, row in TABLE.items() if row.jumps is not None]
IDIOMS: Final = 0.2
#: Most programs are short: a mistake shows in few steps, and what is deep is often beyond what an oracle can tell.
MOST_STEPS: Final = (4, 6, 8, 16)
CONSTANTS: Final = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, 0.1, 1.5, 7.0, 10.0, 49.0, -0.25, 1e-3)
EXPONENTS: Final = (-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
#: Points are mixed of these and of ordinary numbers.
EXACT_POINTS: Final = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, 4.0, 7.0, 49.0, 98.0, 0.25, 10.0, 0.1, 0.3)
ORDINARY: Final = 3.0

Step = tuple[str, tuple[int, ...]]


@dataclass
class Scalars:
    """A random function.

    Attributes:
        names: how the inputs are written, by position.
        shapes: of the arguments, and `parameters` their names.
        constants, steps: values are numbered: inputs, then constants, then one a step.
        outputs: values that are returned, in the order of the flattened result.
        source: the function `f` as text.
    """

    parameters: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    names: list[str]
    constants: tuple[float, ...] = CONSTANTS + EXPONENTS
    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    source: str = ""

    @property
    def inputs(self) -> int:
        """How many numbers the arguments are."""
        return len(self.names)


def random_scalars(rng: random.Random, construct: str | None = None) -> Scalars:
    """A function of one to three arguments, which contains a group of `forms.GROUPS`."""
    layouts: list[dict[str, tuple[int, ...]]] = [
        {"x": (rng.randint(1, 4),)},
        {"x": (rng.randint(2, 4),)},
        {"t": (), "y": (2,)},
        {"x": (2,), "p": (2,), "s": ()},
        {"m": (2, 2)},
        {"s": ()},
    ]
    layout = rng.choice(layouts)
    names = [
        f"{name}[{', '.join(map(str, index))}]" if index else name
        for name, shape in layout.items()
        for index in np.ndindex(*shape)
    ]
    program = Scalars(tuple(layout), tuple(layout.values()), names)
    _draw_steps(program, rng, construct == "branches")
    program.source = _written(program, rng, construct)
    return program


def _draw_steps(program: Scalars, rng: random.Random, decides: bool) -> None:
    inputs = program.inputs
    reals = [*range(inputs)] * 2 + [*range(inputs, inputs + len(CONSTANTS))]
    powers = [*range(inputs + len(CONSTANTS), inputs + len(program.constants))]
    booleans: list[int] = []
    first = inputs + len(program.constants)
    names = [name for name, row in TABLE.items() if row.weight]
    weights = [TABLE[name].weight for name in names]
    if rng.random() < IDIOMS:  # a quotient that something is decided by
        quotient = rng.randrange(inputs), rng.choice([*range(inputs), *range(inputs, inputs + len(CONSTANTS))])
        name = rng.choice([name for name in DECIDING if len(TABLE[name].arguments) == 1 or TABLE[name].boolean])
        one = len(TABLE[name].arguments) == 1
        program.steps += [("divide", quotient), (name, (first,) if one else (first, rng.choice(reals)))]
        reals.append(first)
        (booleans if TABLE[name].boolean else reals).append(first + 1)
    start = first + len(program.steps)
    if decides:
        compared, chosen = rng.choices(reals, k=2), rng.choices(reals, k=2)
        compared[0] = rng.randrange(inputs)
        program.steps += [(rng.choice(("less", "less_equal")), tuple(compared)), ("select", (start, *chosen))]
        booleans.append(start)
        reals.append(start + 1)
        start += 2
    for value in range(start, start + rng.randint(2, rng.choice(MOST_STEPS))):
        name = rng.choices(names, weights)[0]
        row = TABLE[name]
        while "boolean" in row.arguments and not booleans:
            name = rng.choices(names, weights)[0]
            row = TABLE[name]
        # late values make deep functions; no operation has constants alone
        late = rng.random() < 0.6
        drawn = []
        for kind in row.arguments:
            pool = booleans if kind == "boolean" else reals
            drawn.append(rng.choice(pool[-4:]) if late else rng.choice(pool))
        if name == "power":
            drawn[1] = rng.choice(powers)
        if all(inputs <= argument < first for argument in drawn):
            drawn[-1 if name != "power" else 0] = rng.randrange(inputs)
        program.steps.append((name, tuple(drawn)))
        (booleans if row.boolean else reals).append(value)
    # what nothing else takes is returned, so that little is computed in vain
    taken = {argument for _, arguments in program.steps for argument in arguments}
    made = [value for value in reals if value >= first]
    program.outputs = [value for value in made if value not in taken][-6:] or [*made[-1:]] or [0]
    program.outputs += rng.choices([*made, *range(inputs)], k=rng.choice((0, 0, 1, 2)))


def _written(program: Scalars, rng: random.Random, construct: str | None = None) -> str:
    """The steps in Python, some of them into items of an array, and a result of some structure."""
    written = [*program.names, *map(repr, program.constants)]
    lines = []
    selections = [k for k, (name, _) in enumerate(program.steps) if name == "select"]
    numbers = [k for k, (name, _) in enumerate(program.steps) if not TABLE[name].boolean]
    places = selections if construct == "branches" else numbers
    forced = rng.choice(places) if construct and places else None
    for k, (name, arguments) in enumerate(program.steps):
        target, operands = f"t{len(written)}", [written[k] for k in arguments]
        branch = drawn(BRANCHES, rng) if name == "select" else None
        if k == forced and construct == "branches":
            branch = rng.choice(group("branches"))
        if branch is None:
            lines.append(f"{target} = {TABLE[name].text.format(*operands)}")
        else:
            lines.append(branch.format(t=target, c=operands[0], a=operands[1], b=operands[2]))
        through = None if TABLE[name].boolean else drawn(THROUGH, rng)
        if k == forced and construct is not None and construct != "branches":
            through = rng.choice(group(construct))
        lines += [] if through is None else [through.format(t=target)]
        written.append(target)
    results = [written[k] for k in program.outputs]
    form = rng.choice(
        ["array", "filled", "added", "tuple", "dict", "list"] if len(results) > 1 else ["array", "number"]
    )
    if form == "number":
        lines.append(f"return {results[0]}")
    elif form == "array":
        lines.append(f"return np.array([{', '.join(results)}])")
    elif form in ("filled", "added"):
        lines.append(f"r = np.zeros({len(results)})")
        sign = "+=" if form == "added" else "="
        lines += [f"r[{k}] {sign} {result}" for k, result in enumerate(results)]
        lines.append("return r")
    elif form == "tuple":
        lines.append(f"return {results[0]}, np.stack([{', '.join(results[1:])}])")
    elif form == "list":
        lines.append(f"return [{', '.join(results)}]")
    else:
        lines.append(f"return {{{', '.join(f'{chr(97 + k)!r}: {result}' for k, result in enumerate(results))}}}")
    body = "\n    ".join(lines)
    return f"def f({', '.join(program.parameters)}):\n    {body}\n"


@dataclass
class Truth:
    """Values and derivatives in 50 digits, and the numbers that a run in floating point is moved by.

    Attributes:
        values: of the outputs; slopes: of each output by each input.
        spread: how far rounding may move each of (output, 0: the value, 1 …: the slopes).
    """

    values: list[Any]
    slopes: list[list[Any]]
    spread: np.ndarray[Any, Any]


def truth(program: Scalars, point: Sequence[float], *, exact_order: bool, dtype: str, samples: int, seed: int) -> Truth:
    """What the function and its Jacobian are at a point.

    Raises:
        Undecided: if rounding may change it a lot, or something leaves the range of the type.
    """
    number = np.dtype(dtype).type
    run = Run(program, number, exact_order)
    with np.errstate(all="ignore"):
        for x in (*point, *program.constants):
            run.begin(x)
        for name, arguments in program.steps:
            run.step(name, arguments)
        noise = _noise(run, samples, seed)
    return Truth([run.values[k] for k in program.outputs], [run.slopes[k] for k in program.outputs], noise)


class Run:
    """One run of a function in 50 digits.

    Attributes:
        values, slopes: of every value so far; NaN for what is not finite or out of range, and all that depends on it.
        known: the value as the type has it, where IEEE arithmetic leaves no choice, else None.
        active: whether the value depends on the inputs; a factor of a literal zero is taken to be finite.
    """

    def __init__(self, program: Scalars, number: Any, exact_order: bool) -> None:
        self.program, self.number, self.exact_order = program, number, exact_order
        # derivatives square what they are of
        self.limit = mpf(1e15 if number is np.float32 else 1e100)
        self.nothing = [mpf(0)] * program.inputs
        self.values: list[Any] = []
        self.slopes: list[list[Any]] = []
        self.known: list[Any] = []
        self.active: list[bool] = []

    def begin(self, x: float) -> None:
        """The next input or constant."""
        k = len(self.values)
        slope = [mpf(k == j) for j in range(self.program.inputs)] if k < self.program.inputs else self.nothing
        self._append(mpf(x), slope, self.number(x) if float(self.number(x)) == x else None, k < self.program.inputs)

    def skip(self) -> None:
        """Leave out the next constant, which nothing needs."""
        Run._append(self, None, self.nothing, None, False)

    def _append(self, value: Any, slope: list[Any], known: Any, active: bool) -> None:
        self.values.append(value)
        self.slopes.append(slope)
        self.known.append(known)
        self.active.append(active)

    def step(self, name: str, arguments: Sequence[int]) -> None:
        """The next operation."""
        row = TABLE[name]
        active = not row.boolean and any(self.active[k] for k in arguments)
        if name == "select":
            chosen = arguments[1 if self.values[arguments[0]] else 2]
            self._append(self.values[chosen], self.slopes[chosen], self.known[chosen], active)
            return
        values = [self.values[k] for k in arguments]
        known = [self.known[k] for k in arguments]
        if row.boolean and "boolean" in row.arguments:
            result = bool(row.value(*values))
            self._append(result, self.nothing, result, False)
            return
        if not all(map(mp.isfinite, values)):
            if row.boolean:
                raise Undecided(f"{name} of something that is not finite")
            self._append(mp.nan, [mp.nan] * len(self.nothing), None, active)
            return
        certain = all(double is not None for double in known)
        if name == "atan2" and 0 in values and max(arguments) >= self.program.inputs + len(self.program.constants):
            raise Undecided("the angle depends on the sign of a zero")
        if row.jumps is not None and certain:
            doubles = [mpf(float(double)) for double in known]
            # |x| for an x that is rounded is x all the same: their difference is 0
            if row.whole or mp.sign(row.jumps(*doubles)) != mp.sign(row.jumps(*values)):
                values = doubles
        elif row.jumps is not None:
            where = row.jumps(*values)
            distance = abs(where - mp.nint(where)) if row.whole else abs(where)
            # quotients so large have no digit left behind the point
            if not distance > NEAR * max([mpf(1), *map(abs, values)]) or (row.whole and abs(where) > LARGE):
                raise Undecided(f"{name} near a jump")
        if row.boolean:
            result = bool(row.value(*values))
            self._append(result, self.nothing, result, False)
            return
        value = row.value(*values)
        if name == "atan2" and values[0] == 0:  # whose sign these numbers do not have
            angle = mp.pi if certain and np.signbit(known[1]) else mpf(0)
            value = mp.nan if not certain else -angle if np.signbit(known[0]) else angle
        factors = [
            self.factor(name, partial, values) if self.active[k] else None
            for partial, k in zip(row.partials, arguments, strict=True)
        ]
        double = self._rounded(name, known, value) if certain else None
        if not self._in_range(value):
            value = mp.nan
        slope = self.nothing
        for factor, k in zip(factors, arguments, strict=True):
            if self.active[k]:
                finite = factor if self._in_range(factor) else mp.nan
                slope = [a + self.product(finite, b) for a, b in zip(slope, self.slopes[k], strict=True)]
        self._append(value, slope if mp.isfinite(value) else [mp.nan] * len(slope), double, active)

    def factor(self, name: str, partial: Callable[..., Any], values: Sequence[Any]) -> Any:
        """The partial derivative of an operation."""
        return partial(*values)

    def product(self, factor: Any, slope: Any) -> Any:
        """The product of a partial derivative and a slope."""
        return factor * slope

    def _in_range(self, value: Any) -> bool:
        return bool(mp.isfinite(value) and (value == 0 or 1 / self.limit < abs(value) < self.limit))

    def _rounded(self, name: str, known: list[Any], value: Any) -> Any:
        if name not in ROUNDED:
            return None
        rounded = ROUNDED[name](*known)
        exact = np.isfinite(rounded) and mp.isfinite(value) and mpf(float(rounded)) == value
        as_written = self.exact_order or name in ("divide", "reciprocal")
        return self.number(rounded) if exact or as_written else None


def _noise(run: Run, samples: int, seed: int) -> np.ndarray[Any, Any]:
    """How far values and slopes move where every result that is rounded is moved by a unit in the last place."""
    program = run.program
    unit = float(np.finfo(run.number).eps)
    draw = np.random.default_rng(seed)
    n, first = program.inputs, program.inputs + len(program.constants)

    def moved(array: Any) -> Any:
        # some stay: expit(49) is 1, whose logarithm something is divided by
        return array * (1.0 + unit * draw.choice((-1.0, 0.0, 1.0), size=np.shape(array)))

    runs: list[Any] = []
    tangents: list[Any] = []
    #: whether a value is the same however the program is rewritten; quotients may become products with reciprocals
    still: list[bool] = []
    for k in range(first):
        exact = np.full(samples, float(run.values[k]))
        still.append(run.known[k] is not None)
        runs.append(exact if still[k] else moved(exact))
        tangents.append(np.repeat([[float(k == j)] for j in range(n)], samples, axis=1))
    for k, (name, arguments) in enumerate(program.steps, start=first):
        row = TABLE[name]
        if name == "select":
            chosen = arguments[1 if run.values[arguments[0]] else 2]
            still.append(still[chosen])
            runs.append(runs[chosen])
            tangents.append(tangents[chosen])
            continue
        given = [runs[a] for a in arguments]
        if row.jumps is not None and (row.boolean or mp.isfinite(run.values[k])):
            _refuse_moved_decisions(name, given, [run.values[a] for a in arguments])
        if row.boolean or not mp.isfinite(run.values[k]):
            still.append(row.boolean)
            runs.append(np.full(samples, float(run.values[k])))
            tangents.append(np.full((n, samples), 0.0 if row.boolean else np.nan))
            continue
        exact = run.known[k] is not None and mpf(float(run.known[k])) == run.values[k]
        exact &= run.exact_order or name not in ("divide", "reciprocal")
        # what is decided by values that are known stays, however these came about
        decided = row.whole and run.known[k] is not None
        whole = decided or name in ("floor_divide", "sign") or (row.whole and len(arguments) == 1)
        still.append(whole or (exact and all(still[a] for a in arguments)))
        runs.append(np.full(samples, float(run.values[k])) if still[k] else moved(_evaluated(name, given)))
        tangent = np.zeros((n, samples))
        for position, argument in enumerate(arguments):
            if run.active[argument]:
                factor = moved(_partial(name, position, given, [run.values[a] for a in arguments]))
                if name in FROM_VALUE:
                    factor = factor + 2 * unit * runs[k]
                tangent = moved(tangent + moved(factor * tangents[argument]))
        tangents.append(tangent)
    rows = []
    for k in program.outputs:
        true = np.array([float(run.values[k]), *map(float, run.slopes[k])])
        found = np.concatenate([runs[k][None], tangents[k]])
        rows.append(np.max(np.abs(found - true[:, None]), axis=1))
    return np.array(rows)


def _refuse_moved_decisions(name: str, given: Sequence[Any], at: Sequence[Any]) -> None:
    """What is decided must not hang on values of which rounding leaves little."""
    for array, value in zip(given, at, strict=True):
        true = float(value)
        if not np.all(np.abs(array - true) <= MOVED * max(1.0, abs(true))):
            raise Undecided(f"{name} of what rounding has moved far")


_FORMULAS: dict[str, Callable[..., Any]] = {}


def _evaluated(name: str, given: Sequence[Any]) -> Any:
    if name not in _FORMULAS:
        from scipy import special

        letters = "abc"[: len(given)]
        text = f"lambda {', '.join(letters)}: {TABLE[name].text.format(*letters)}"
        _FORMULAS[name] = eval(text, {"np": np, "special": special})
    return _FORMULAS[name](*given)


def _partial(name: str, position: int, given: Sequence[Any], at: list[Any]) -> Any:
    """The partial derivative at the true point, moved along with the arguments to first order."""
    row = TABLE[name]
    partial = row.partials[position]
    true = partial(*at)
    result = np.full(given[0].shape, float(true))
    if row.jumps is not None:
        return result
    for other, value in enumerate(at):
        deviation = np.asarray(given[other], float) - float(value)
        if np.any(deviation):
            step = mpf(2) ** -80 * (abs(value) or 1)
            slope = (partial(*at[:other], value + step, *at[other + 1 :]) - true) / step
            result = result + (float(slope) if mp.isfinite(slope) else np.inf) * deviation
    return result
