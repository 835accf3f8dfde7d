"""JAX as an oracle: the same random program in `jax.numpy`, its Jacobian by `jax.jacfwd` in double precision.

A program of scalars is run step by step, one of arrays by its text in a functional form. How far rounding may move the
results is seen by moving every step, or where there are none every argument, by a unit in the last place. What JAX has
no function for, or takes other arguments for, tells nothing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from arrays import Arrays, flat, namespace
from calls import function
from scalars import ROUNDED, TABLE, Scalars

#: Why this oracle is not asked; None if it is.
MISSING: Final = None if importlib.util.find_spec("jax") else "JAX is not installed"
UNIT: Final = float(np.finfo(float).eps)
#: Units in the last place by which XLA's elementary functions may be off: its exp2(7) is two below 128.
ULPS: Final = 4
#: Of which JAX takes the slope from a quotient that it rounds: -100 for 10 % 0.1, which holds 0.1 but 99 times.
OFF_BY_ONE: Final = frozenset(("remainder", "fmod"))


class Unavailable(Exception):
    """JAX cannot run this program."""


@cache
def _jax() -> tuple[Any, dict[str, Any]]:
    """JAX in double precision, and what the text of a program may use."""
    import jax
    from jax.scipy import special

    jax.config.update("jax_enable_x64", True)
    return jax, {"np": jax.numpy, "special": special}


def names() -> dict[str, Any]:
    """What the text of a function of JAX may use."""
    jax, scope = _jax()
    return {**scope, "jax": jax, "lax": jax.lax}


def jacobian(
    program: Scalars | Arrays, point: Sequence[Any], samples: int, seed: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Values and slopes (outputs, 1 + inputs) by all arguments, and how far rounding may move each of them.

    Raises:
        Unavailable: if JAX has no such function, or it takes other arguments than NumPy's.
    """
    if isinstance(program, Scalars) and OFF_BY_ONE & {name for name, _ in program.steps}:
        raise Unavailable("its slopes of remainders may be off by one")
    jax, _ = _jax()
    draw = np.random.default_rng(seed)
    runs = []
    with np.errstate(all="ignore"):
        own = flat(function(program)(*map(np.copy, point)))
    for k in range(1 + samples):
        if isinstance(program, Scalars):
            x, f = np.array([float(n) for a in point for n in np.ravel(a)]), _steps(program, draw if k else None)
        else:
            moved = [a * (1 + UNIT * draw.normal(size=np.shape(a)) * bool(k)) for a in point]
            x, f = np.concatenate([np.ravel(a) for a in moved]), _text(program)
        try:
            values, slopes = np.asarray(f(x)), np.asarray(jax.jacfwd(f)(x))
        except (TypeError, AttributeError, NotImplementedError, ValueError, IndexError, jax.errors.JAXTypeError) as why:
            raise Unavailable(f"{type(why).__name__}: {why}") from why
        if not k and not np.allclose(values, own, rtol=1e-3, atol=1e-3, equal_nan=True):
            raise Unavailable("JAX's function is another: its eigvalsh takes both halves, its exp2 rounds whole powers")
        runs.append(np.concatenate([values[:, None], slopes.reshape(len(values), x.size)], axis=1))
    return runs[0], np.max([np.abs(run - runs[0]) for run in runs[1:]], axis=0)


def hessian(program: Arrays, point: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Second derivatives of the sum of all results, (inputs, inputs).

    Raises:
        Unavailable: as `jacobian`.
    """
    jax, names = _jax()
    f, x = _text(program), np.concatenate([np.ravel(np.asarray(a, float)) for a in point])
    try:
        return np.asarray(jax.hessian(lambda at: names["np"].sum(f(at)))(x))
    except (TypeError, AttributeError, NotImplementedError, ValueError, IndexError, jax.errors.JAXTypeError) as why:
        raise Unavailable(f"{type(why).__name__}: {why}") from why


def _steps(program: Scalars, draw: np.random.Generator | None) -> Callable[[Any], Any]:
    """The outputs of a program of scalars, every real number in between moved in its last place if `draw` is given."""
    _, names = _jax()
    signs = [
        1.0 if draw is None else 1.0 + (1 if name in ROUNDED else ULPS) * UNIT * draw.choice((-1.0, 1.0))
        for name, _ in program.steps
    ]

    def f(x: Any) -> Any:
        values = [*x, *program.constants]
        for (name, arguments), sign in zip(program.steps, signs, strict=True):
            result = _formula(TABLE[name].text, len(arguments))(*(values[k] for k in arguments))
            values.append(result if TABLE[name].boolean or name == "select" else result * sign)
        return names["np"].stack([names["np"].asarray(values[k], float) for k in program.outputs])

    return f


@cache
def _formula(text: str, arguments: int) -> Callable[..., Any]:
    letters = "abc"[:arguments]
    return eval(f"lambda {', '.join(letters)}: {text.format(*letters)}", _jax()[1])  # type: ignore[no-any-return]


def _text(program: Arrays) -> Callable[[Any], Any]:
    _, names = _jax()
    scope = {**namespace(names["np"]), "special": names["special"]}
    exec(compile(program.functional, "<random program>", "exec"), scope)
    ends = np.cumsum([int(np.prod(shape)) for shape in program.shapes])

    def f(x: Any) -> Any:
        parts = names["np"].split(x, ends[:-1])
        result = scope["f"](*(part.reshape(shape) for part, shape in zip(parts, program.shapes, strict=True)))
        # in the order of dicts, which JAX would sort
        return names["np"].concatenate(
            [names["np"].ravel(names["np"].asarray(leaf, float)) for leaf in _leaves(result)]
        )

    return f


def _leaves(result: Any) -> list[Any]:
    if isinstance(result, dict):
        return [leaf for key in result for leaf in _leaves(result[key])]
    if isinstance(result, (tuple, list)):
        return [leaf for each in result for leaf in _leaves(each)]
    return [result]
