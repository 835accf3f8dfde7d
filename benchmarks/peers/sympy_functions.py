"""SymPy's value and Jacobian of a function, in two ways, and f alone, as numbers of operations.

* `cse(jacobian)`: the function is run on symbols, `Matrix.jacobian` differentiates, `cse` finds what value and Jacobian
  have in common.
* forward with cse: `cse` of f first; then the chain rule goes through what it found, one intermediate after the other,
  each derivative getting a name unless it is a number or a name; then `cse` again of everything together.

Counted is what SymPy's printers of C code write: a sum with a negative term subtracts it, factors with negative powers
are one division by their product.

Symbolic expressions grow beyond all bounds for some functions, so each measurement has a process of its own and a time
limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from apart import NotDone, TookTooLong, apart
from counting import Kind, Tally, products_of_power
from functions import Example
from peers import require
from peers.object_arrays import ObjectNamespace

SECONDS = 60.0
FUNCTIONS = {
    **{name: name for name in ("sqrt", "cbrt", "exp", "log", "erf", "sign")},
    **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{"arctan2": "atan2", "maximum": "Max", "minimum": "Min", "floor": "floor", "ceil": "ceiling"},
}


@cache
def measure(example: Example, way: str, seconds: float = SECONDS) -> Tally | None:
    """Operations by one of `WAYS`; None if it did not end within the time limit.

    Raises:
        NotInstalled: without SymPy.
        RuntimeError: if it failed.
    """
    require("sympy")
    try:
        return Tally(apart(_kinds_of, example.name, example.folder, way, seconds=seconds))
    except TookTooLong:
        return None
    except NotDone as why:
        raise RuntimeError(f"SymPy, {way} of {example.name}: {why}") from why


def _kinds_of(name: str, folder: Path, way: str) -> dict[Kind, int]:
    program = WAYS[way](Example(name, folder))
    return dict(count(program.definitions, program.results).kinds)


@dataclass(frozen=True)
class Program:
    """Expressions, some of them named.

    Attributes:
        inputs: the symbols of the variables.
        definitions: expression by name; some may not be needed.
        results: values of f, then the entries of the Jacobian by rows if it was asked for.
    """

    inputs: list[Any]
    definitions: Mapping[Any, Any]
    results: list[Any]


def traced(example: Example) -> tuple[list[Any], list[Any]]:
    """Symbols for the inputs, and the outputs as expressions."""
    sp = require("sympy")
    functions = {name: getattr(sp, theirs) for name, theirs in FUNCTIONS.items()}
    functions["absolute"] = _absolute()
    x = [sp.Symbol(f"x{k}", real=True) for k in range(example.inputs)]
    y = example.running_on(ObjectNamespace(functions))(np.array(x, dtype=object))
    return x, [_exact(sp.sympify(value)) for value in y]


def _exact(expression: Any) -> Any:
    """Whole numbers as such, so that SymPy sees ones and zeros: what its users would write."""
    sp = require("sympy")
    whole = {number: sp.Integer(int(number)) for number in expression.atoms(sp.Float) if float(number).is_integer()}
    return expression.xreplace(whole)


@cache
def _absolute() -> Any:
    """|x| of an argument that is real, though SymPy may not know it: the derivative is the sign."""
    sp = require("sympy")

    def slope(self: Any, argindex: int = 1) -> Any:
        return sp.sign(self.args[0])

    def of_number(cls: Any, argument: Any) -> Any:
        return abs(argument) if argument.is_Number else None

    members = {"fdiff": slope, "eval": classmethod(of_number), "is_extended_real": True}
    return type("absolute", (sp.Function,), members)


def function_alone(example: Example) -> Program:
    """`cse` of f."""
    sp = require("sympy")
    x, y = traced(example)
    definitions, reduced = sp.cse(y)
    return Program(x, dict(definitions), reduced)


def cse_of_jacobian(example: Example) -> Program:
    """`cse` of value and `jacobian` together."""
    sp = require("sympy")
    x, y = traced(example)
    J = sp.Matrix(y).jacobian(x)
    definitions, reduced = sp.cse([*y, *J])
    return Program(x, dict(definitions), reduced)


def forward_with_cse(example: Example) -> Program:
    """The chain rule through `cse` of f, then `cse` of everything."""
    return forward(*traced(example))


def forward(x: list[Any], y: list[Any]) -> Program:
    """Return the same for expressions y of symbols x; other symbols are parameters."""
    sp = require("sympy")
    steps, values = sp.cse(y, symbols=sp.numbered_symbols("v", real=True))
    names = sp.numbered_symbols("d", real=True)
    known: dict[Any, Any] = {}
    definitions = dict(steps)
    # name of an intermediate → column → its derivative
    gradients: dict[Any, dict[int, Any]] = {symbol: {column: sp.Integer(1)} for column, symbol in enumerate(x)}

    def gradient(expression: Any) -> dict[int, Any]:
        partials = {name: expression.diff(name) for name in sorted(expression.free_symbols & gradients.keys(), key=str)}
        columns = sorted({column for name in partials for column in gradients[name]})
        return {
            column: sp.Add(*(d * gradients[name][column] for name, d in partials.items() if column in gradients[name]))
            for column in columns
        }

    def named(expression: Any) -> Any:
        if expression.is_Atom or (-expression).is_Atom:
            return expression
        if expression not in known:
            known[expression] = next(names)
            definitions[known[expression]] = expression
        return known[expression]

    for name, expression in steps:
        gradients[name] = {column: named(d) for column, d in gradient(expression).items()}
    rows = [gradient(value) for value in values]
    results = [*values, *(row.get(column, sp.Integer(0)) for row in rows for column in range(len(x)))]
    everything = [*definitions.values(), *results]
    shared, reduced = sp.cse(everything, symbols=sp.numbered_symbols("s", real=True))
    defined = dict(shared) | dict(zip(definitions, reduced, strict=False))
    return Program(x, defined, reduced[len(definitions) :])


#: What can be measured, by name.
WAYS: Mapping[str, Callable[[Example], Program]] = {
    "function": function_alone,
    "cse(jacobian)": cse_of_jacobian,
    "forward with cse": forward_with_cse,
}


def count(definitions: Mapping[Any, Any], results: Iterable[Any]) -> Tally:
    """Operations of the results and of those definitions that they need, each of which is computed once."""
    waiting = list(results)
    expressions = list(waiting)
    seen = set()
    while waiting:
        for symbol in waiting.pop().free_symbols - seen:
            seen.add(symbol)
            if symbol in definitions:
                waiting.append(definitions[symbol])
                expressions.append(definitions[symbol])
    return Tally.of(kind for expression in expressions for kind in kinds(expression))


def kinds(expression: Any) -> Iterator[Kind]:
    """The operations of an expression as a tree; whatever holds no symbol is a constant."""
    sp = require("sympy")
    if not expression.free_symbols:
        return
    if expression.is_Symbol:
        return
    if expression.is_Add:
        yield from _sum(expression)
    elif expression.is_Mul:
        yield from _product(expression)
    elif expression.is_Pow:
        yield from _power(expression.base, expression.exp)
    else:
        for argument in expression.args:
            yield from kinds(argument)
        if isinstance(expression, sp.Max | sp.Min):
            yield from ["arithmetic"] * (len(expression.args) - 1)
        elif isinstance(expression, _absolute() | sp.Abs | sp.sign | sp.floor | sp.ceiling | sp.Heaviside):
            yield "arithmetic"
        elif expression.func in {getattr(sp, theirs) for theirs in FUNCTIONS.values()}:
            yield "function"
        else:
            raise ValueError(f"cannot count {expression.func}")


def _sum(expression: Any) -> Iterator[Kind]:
    terms = expression.args
    negative = [term.could_extract_minus_sign() and bool(term.free_symbols) for term in terms]
    for term, is_negative in zip(terms, negative, strict=True):
        yield from kinds(-term if is_negative and term.is_Mul else term)
    yield from ["arithmetic"] * (len(terms) - 1)
    if all(negative):
        yield "sign"


def _product(expression: Any) -> Iterator[Kind]:
    factors = [factor for factor in expression.args if factor.free_symbols]
    constant = float(np.prod([float(factor) for factor in expression.args if not factor.free_symbols]))
    above, below = 0, 0
    for factor in factors:
        base, exponent = factor.as_base_exp() if factor.is_Pow else (factor, None)
        if exponent is not None and exponent.is_number and exponent.is_negative:
            yield from _power(base, -exponent)
            below += 1
        else:
            yield from kinds(factor)
            above += 1
    if abs(constant) != 1.0:
        above += 1
    elif constant == -1.0:
        yield "sign"
    yield from ["arithmetic"] * (max(above - 1, 0) + max(below - 1, 0))
    if below:
        yield "division"


def _power(base: Any, exponent: Any) -> Iterator[Kind]:
    yield from kinds(base)
    if not exponent.is_number:
        yield from kinds(exponent)
        yield "function"
        return
    power = abs(float(exponent))
    if exponent.is_negative:
        yield "division"
    if power == 0.5:
        yield "root"
    elif power.is_integer():
        yield from ["arithmetic"] * products_of_power(int(power))
    else:
        yield "function"
