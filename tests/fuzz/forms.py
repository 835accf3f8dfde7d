"""The same random programs in other forms: as Python that branches, fills, nests and loops, for JAX, and for SymPy.

A program of scalars is steps, which the oracle runs (`scalars`). Its text takes some of their values through views,
containers, helpers, loops, nested derivatives and scans in maps, which change nothing; choices become branches, merged
ones and guarded ones. As a function of JAX it goes through `cond`, `switch`, `scan`, `while_loop`, `fori_loop`, `vmap`,
`grad` and `jit`; as a Lambda of SymPy it is what SymPy makes of its expressions.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

#: Statements that leave a value {t} as it is, and how often one follows a step.
THROUGH: Final[dict[str, float]] = {
    "items = np.zeros(2); items[1] = {t}; {t} = items[1]": 0.1,
    "box = np.zeros((2, 3)); view = box.T[1]; view[:] += {t}; {t} = box[0, 1]": 0.02,
    "box = np.zeros(4); box[::-2] = {t}; {t} = box.reshape(2, 2)[0, 1]": 0.02,
    "box = np.full((2, 2), {t}); box[0] -= {t}; {t} = np.ravel(box)[-1]": 0.01,
    "parts = [{t}, None]; parts.append(parts[0]); {t} = parts.pop()": 0.02,
    "parts = {{'a': ({t}, 1.0)}}; parts.update(b=parts['a']); {t} = parts['b'][0]": 0.02,
    "{t}, _ = (lambda u, *rest, k=1.0: (u, rest))({t}, 2.0)": 0.02,
    "for k in range(3):\n        if k == 1:\n            break\n        {t} = {t} * 1.0": 0.02,
    "k = 0\n    while k < 2:\n        k, {t} = k + 1, -{t}": 0.02,
    "try:\n        {t} = [{t}][0]\n    except IndexError:\n        {t} = 0.0": 0.01,
    "{t} = acc.gradient(lambda u: u * {t}, **quick)(1.5)": 0.004,
    "{t} = acc.jvp(lambda u: (u * {t}, u), **quick)((0.5,), (1.0,))[1][0]": 0.003,
    "{t} = acc.gradient(acc.gradient(lambda u: 0.5 * u * u * {t}, **quick), **quick)(0.5)": 0.002,
    "{t} = acc.map(lambda u: u * {t}, np.ones(2))[1]": 0.004,
    "{t} = acc.scan(lambda s, u: (s + u, s), {t}, np.zeros(3))[0]": 0.003,
    "{t} = acc.map(lambda u: acc.scan(lambda s, v: (s + v, s), u, np.zeros(2))[0], np.stack([{t}, {t}]))[0]": 0.003,
}
#: How a choice is written, if not by `np.where`; the last is a guard.
BRANCHES: Final[dict[str, float]] = {
    "if {c}:\n        {t} = {a}\n    else:\n        {t} = {b}": 0.3,
    "{t} = {a} if {c} else {b}": 0.2,
    "{t} = {b}\n    if {c}:\n        {t} = {a}": 0.1,
    "{t} = [{b}, {a}][int({c})]": 0.1,
}
#: The same for JAX, without assignments to items.
THROUGH_JAX: Final[dict[str, float]] = {
    "{t} = np.zeros(2).at[1].set({t})[1]": 0.05,
    "{t} = jax.vmap(lambda u: u + 0.0)(np.stack([{t}, {t}]))[1]": 0.03,
    "{t}, _ = lax.scan(lambda s, u: (s + u, s), {t}, np.zeros(3))": 0.03,
    "{t} = lax.fori_loop(0, 4, lambda k, s: -s, {t})": 0.03,
    "{t} = lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, -s[1]), (0, {t}))[1]": 0.03,
    "{t} = jax.grad(lambda u: u * {t})(1.5)": 0.02,
    "{t} = jax.jvp(lambda u: u * {t}, (0.5,), (1.0,))[1]": 0.02,
    "{t} = jax.jit(lambda u: u)({t})": 0.02,
    "{t} = lax.switch(1, [lambda u: 2.0 * u, lambda u: u, lambda u: -u], {t})": 0.02,
    "{t} = jax.vmap(lambda u: lax.scan(lambda s, v: (s + v, s), u, np.zeros(2))[0])(np.stack([{t}, {t}]))[0]": 0.02,
    "{t} = jax.vmap(lambda u: lax.cond(u > 1.0, lambda v: v, lambda v: 1.0 * v, u))(np.stack([{t}, {t}]))[0]": 0.02,
    "{t} = np.concatenate([np.zeros(0), np.reshape({t}, (1,))])[0]": 0.02,
}
BRANCHES_JAX: Final[dict[str, float]] = {
    "{t} = lax.cond({c}, lambda: 1.0 * {a}, lambda: 1.0 * {b})": 0.4,
    "{t} = lax.select({c}, np.asarray({a}, float), np.asarray({b}, float))": 0.2,
    "{t} = lax.switch(np.asarray({c}, int), [lambda: 1.0 * {b}, lambda: 1.0 * {a}])": 0.2,
}
#: How SymPy writes operations; others are replaced by sums.
SYMPYS: Final[dict[str, str]] = {
    **{"add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "negative": "-({0})"},
    **{name: f"sp.{name}({{0}})" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "asinh", "atan")},
    **{"square": "({0})**2", "abs": "sp.Abs({0})", "atan2": "sp.atan2({0}, {1})", "sqrt": "sp.sqrt({0})"},
    **{"maximum": "sp.Max({0}, {1})", "minimum": "sp.Min({0}, {1})", "log": "sp.log({0})", "erf": "sp.erf({0})"},
    **{"less": "sp.Lt({0}, {1})", "less_equal": "sp.Le({0}, {1})", "select": "sp.Piecewise(({1}, {0}), ({2}, True))"},
    **{f"logical_{name}": f"sp.{name.title()}({{0}}, {{1}})" for name in ("and", "or")},
    **{"logical_not": "sp.Not({0})", "divide": "({0}) / ({1})", "floor": "sp.floor({0})", "ceil": "sp.ceiling({0})"},
}


#: Texts of `THROUGH` and `BRANCHES` by what they are; each program of a run contains one group, in turn.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "views": ("items = ", "view = ", "box[::-2]", "box = np.full("),
    "containers": ("parts = [", "parts = {{"),
    "loops and functions": ("lambda u, *rest", "for k in", "while k", "try:"),
    "branches": (),
    "nested derivatives": ("acc.gradient(", "acc.jvp("),
    "scans and maps": ("acc.map(", "acc.scan("),
}


def group(name: str) -> list[str]:
    """Return the texts of a group."""
    if name == "branches":
        return list(BRANCHES)
    return [text for text in THROUGH if any(part in text for part in GROUPS[name])]


def groups_in(program: Any) -> list[str]:
    """Return the groups that the text of a program contains."""
    if not hasattr(program, "steps"):
        return []
    parts = {name: [part.replace("{{", "{") for part in GROUPS[name]] for name in GROUPS}
    found = [name for name, some in parts.items() if any(part in program.source for part in some)]
    decides = any(mark in program.source for mark in ("    if t", " if t", "[int(t"))
    return [*found, "branches"] if decides else found


def drawn(table: Mapping[str, float], rng: random.Random) -> str | None:
    """Return one text of a table as often as it says, or None."""
    left = rng.random()
    for text, share in table.items():
        left -= share
        if left < 0:
            return text
    return None


def jax_function(program: Any, rng: random.Random) -> tuple[Callable[..., Any], str]:
    """Return a program of scalars as a function of JAX, and its text."""
    from scalars import TABLE
    from with_jax import names

    written = [*program.names, *map(repr, program.constants)]
    lines = []
    for name, arguments in program.steps:
        t, operands = f"t{len(written)}", [written[k] for k in arguments]
        branch = drawn(BRANCHES_JAX, rng) if name == "select" else None
        if branch is None:
            lines.append(f"{t} = {TABLE[name].text.format(*operands)}")
        else:
            lines.append(branch.format(t=t, c=operands[0], a=operands[1], b=operands[2]))
        through = None if TABLE[name].boolean else drawn(THROUGH_JAX, rng)
        lines += [] if through is None else [through.format(t=t)]
        written.append(t)
    results = [f"np.asarray({written[k]}, float)" for k in program.outputs]
    lines.append(f"return np.stack([{', '.join(results)}])")
    text = f"def f({', '.join(program.parameters)}):\n    " + "\n    ".join(lines) + "\n"
    scope = names()
    exec(compile(text, "<random program of JAX>", "exec"), scope)
    return scope["jax"].jit(scope["f"]), text


def sympy_function(program: Any, rng: random.Random) -> tuple[Any, str]:
    """Return a program of scalars as a Lambda of SymPy, and its text; steps that SymPy does not have are changed."""
    import sympy as sp
    from scalars import TABLE, Undecided

    program.steps = [
        (name if name in SYMPYS else "less" if TABLE[name].boolean else "add", arguments)
        if name in SYMPYS or len(arguments) == 2
        else ("add", (arguments[0], arguments[0]))
        for name, arguments in program.steps
    ]
    symbols = sp.symbols(f"x:{program.inputs}", real=True)
    scope = {"sp": sp, **{str(symbol): symbol for symbol in symbols}}
    values: list[Any] = [*symbols, *map(sp.Float, program.constants)]
    lines = []
    for name, arguments in program.steps:
        lines.append(f"t{len(values)} = {SYMPYS[name].format(*(f't{k}' for k in arguments))}")
        operands = {f"t{k}": values[k] for k in arguments}
        values.append(eval(lines[-1].partition(" = ")[2], scope, operands))
        if values[-1] in (sp.zoo, sp.nan, sp.oo, -sp.oo) or getattr(values[-1], "has", lambda *_: False)(
            sp.zoo, sp.nan
        ):
            raise Undecided("SymPy finds that it has no value")
    results = [values[k] for k in program.outputs]
    return sp.Lambda(symbols, sp.Matrix(results)), "\n".join([*lines, f"return {program.outputs}\n"])


#: Forms of other libraries, as far as they are installed.
OTHERS: Final = {
    name: form
    for name, form in (("jax", jax_function), ("sympy", sympy_function))
    if importlib.util.find_spec(name) is not None
}
#: Options of derivatives within a program.
QUICK: Final = {"target": "numpy", "time_limit": 0.0, "cache": False, "effort": "fast"}
