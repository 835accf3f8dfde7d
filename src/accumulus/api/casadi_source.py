"""C source for CasADi: functions with their Jacobians, nonlinear programs with all derivatives that solvers need.

``casadi.external("f", "f.so")`` finds ``jac_f`` beside ``f``; ``casadi.nlpsol("s", "ipopt", "nlp.so")`` finds
``nlp_f``, ``nlp_g``, ``nlp_grad_f``, ``nlp_jac_g``, ``nlp_hess_l`` and ``nlp_grad`` beside ``nlp``. Each has the
arguments and results of CasADi's own function (``Function.generate_dependencies`` writes the same ones).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.api.jacobians import compile as compiled
from accumulus.api.jacobians import gradient as gradient_of
from accumulus.api.jacobians import hessian, hessian_of_lagrangian, jacobian, value_and_gradient, value_and_jacobian
from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.location import name_of
from accumulus.frontends.recorder import Recording, holder_of, recorder_of
from accumulus.options import refuse_assumptions
from accumulus.programs.derivative import Derivative
from accumulus.programs.sparse import SparsePattern
from accumulus.shipping.c_projects import c_source_of
from accumulus.targets.c.c_casadi import Called, CasadiFunction, Pattern
from accumulus.targets.c.c_header import check_name
from accumulus.targets.c.c_loops import LoopSource
from accumulus.targets.c.c_source import CSource
from accumulus.targets.kernel import Segment, indices

Shape = tuple[int, ...]
#: Number of loop instances computed together from a table of operations: C compilers take a second for a thousand
#: operations. More instances take more stack, fewer read the table more often.
LANES: Final = 8


def by_columns(shape: Shape) -> NDArray[np.intp]:
    """Return the position in CasADi's order of each entry of an array in C order."""
    places: NDArray[np.intp] = np.arange(int(np.prod(shape))).reshape(shape[::-1]).T.ravel()
    return places


def function_source(f: Callable[..., Any], examples: Sequence[Any], name: str, **options: Any) -> str:
    """Return C with first and second derivatives: ``name``, ``jac_name``, ``adj1_name`` and ``jac_adj1_name``.

    The last two are the product of weights with the Jacobian, and the Hessian of the weighted results. They are omitted
    if the function has custom derivatives, which cannot be differentiated.

    Args:
        f: function as `accumulus.jacobian` takes it.
        examples: example arguments of the right shapes.
        name: name of the function in C.
        options: options of `accumulus.jacobian`, except `sparse`, `dtype` and `target`.

    Raises:
        ArgumentError: for arrays of more than two axes, for these options, or for an invalid name of a C function.
        TraceError: if `f` cannot be recorded.
    """
    check_name(name)
    points = [np.array(example, float) for example in examples]
    every = tuple(range(len(points)))
    values = _Written.of(compiled(f, **_checked_options(options)), points, f"{name}_values")
    slopes = _Written.of(
        jacobian(f, every, **_checked_options(options, sparse=True)),
        points,
        f"{name}_jacobian",
        pairs=list(product(values.shapes, [point.shape for point in points])),
    )
    inputs = [(f"i{k}", Pattern.dense(point.shape)) for k, point in enumerate(points)]
    outputs = [(f"o{k}", pattern) for k, pattern in enumerate(values.patterns)]
    blocks = [f"jac_o{k}_i{j}" for k in range(len(outputs)) for j in range(len(inputs))]
    all_inputs = [*inputs, *((f"out_{each}", pattern) for each, pattern in outputs)]
    derived = list(zip(blocks, slopes.patterns, strict=True))
    functions = [
        CasadiFunction(name, inputs, outputs, [values.called(every, range(len(outputs)))]),
        CasadiFunction(f"jac_{name}", all_inputs, derived, [slopes.called(every, range(len(derived)))]),
    ]
    written = [values, slopes]
    try:
        more, seconds = _second(f, points, name, values.shapes, inputs, outputs, options)
    except ArgumentError:  # custom derivatives, which cannot be differentiated
        return _text(written, functions)
    return _text([*written, *more], [*functions, *seconds])


def _second(
    f: Callable[..., Any],
    points: Sequence[NDArray[np.float64]],
    name: str,
    shapes: Sequence[Shape],
    inputs: Sequence[tuple[str, Pattern]],
    outputs: Sequence[tuple[str, Pattern]],
    options: dict[str, Any],
) -> tuple[list[_Written], list[CasadiFunction]]:
    """Return the programs and functions of second derivatives."""
    total, count = WeightedSum(f, len(points)), len(points)
    every = tuple(range(count + len(shapes)))
    all_points = [*points, *map(np.ones, shapes)]
    # the function itself has been compared with its recording
    plain = {**options, "check": False}
    slopes = _Written.of(gradient_of(total, every[:count], **_checked_options(plain)), all_points, f"{name}_weighted")
    sizes = [point.shape for point in all_points]
    pairs = list(product(sizes, sizes))
    curvature = _Written.of(
        hessian(total, every, **_checked_options(plain, sparse=True)), all_points, f"{name}_curvature", pairs=pairs
    )
    weighted = [*inputs, *((f"out_{n}", p) for n, p in outputs), *((f"adj_{n}", p) for n, p in outputs)]
    results = [(f"adj_{n}", p) for n, p in inputs]
    arguments = [*range(count), *range(count + len(outputs), len(weighted))]
    # CasADi passes results as arguments, too; the blocks with respect to them are zero. The rows of the weights
    # equal the Jacobian and are not returned.
    blocks: list[tuple[str, Pattern]] = []
    places: dict[int, int] = {}
    for (row, (n, _)), (column, (m, pattern)) in product(enumerate(results), enumerate(weighted)):
        if column in arguments:
            places[row * len(every) + arguments.index(column)] = len(blocks)
            blocks.append((f"jac_{n}_{m}", curvature.patterns[row * len(every) + arguments.index(column)]))
        else:
            shape = (int(np.prod(points[row].shape)), pattern.size)
            blocks.append((f"jac_{n}_{m}", Pattern.by_columns(shape, [], [])))
    unused = {f"unused{k}": each.size for k, each in enumerate(curvature.patterns) if k not in places}
    into = [places.get(k, f"unused{k}") for k in range(len(curvature.patterns))]
    return [slopes, curvature], [
        CasadiFunction(f"adj1_{name}", weighted, results, [slopes.called(arguments, range(count))]),
        CasadiFunction(
            f"jac_adj1_{name}",
            [*weighted, *((f"out_{n}", p) for n, p in results)],
            blocks,
            [curvature.called(arguments, into)],
            memory=unused,
        ),
    ]


def nlp_source(f: Callable[..., Any], g: Callable[..., Any], x: Any, p: Any = None, **options: Any) -> str:
    """Return C source of a nonlinear program: minimise f(x, p) subject to bounds of x and of g(x, p).

    Args:
        f: objective; returns a number.
        g: constraints; returns an array or a number.
        x: example of the variables, a vector or a number.
        p: example of the parameters, a vector or a number; None if f and g take x alone.
        options: as for `function_source`.

    Raises:
        ArgumentError: if x or p has more axes, or f or g returns anything else; and as `function_source`.
        TraceError: if f or g cannot be recorded.
    """
    points = [np.array(each, float) for each in ([x] if p is None else [x, p])]
    if wrong := [point.shape for point in points if point.ndim > 1]:
        raise ArgumentError(f"an example has shape {wrong[0]}; expected vectors or numbers for x and p")
    dense, sparse, arguments = _checked_options(options), _checked_options(options, sparse=True), range(len(points))
    objective = _Written.of(compiled(f, **dense), points, "nlp_objective")
    constraints = _Written.of(compiled(g, **dense), points, "nlp_constraints")
    _check_results(f, g, objective.shapes, constraints.shapes)
    # both have been compared with their recordings, from which all other functions are derived
    dense["check"] = sparse["check"] = False
    of_f, of_g = objective.recording, constraints.recording
    gradient = _Written.of(value_and_gradient(f, 0, **dense), points, "nlp_gradient", recording=of_f)
    slopes = _Written.of(value_and_jacobian(g, 0, **sparse), points, "nlp_slopes", recording=of_g)
    multipliers = np.ones(constraints.shapes[0])
    weighted = [points[0], np.float64(1.0), multipliers, *points[1:]]
    both = of_f.weighted_with(of_g)
    curvature = _Written.of(_of_lagrangian(f, g, sparse), weighted, "nlp_curvature", upper=True, recording=both)

    first, second = ("f", Pattern.dense(())), ("g", Pattern.dense((multipliers.size,)))
    variables = [("x", Pattern.dense(points[0].shape)), ("p", Pattern.dense((0, 0) if p is None else points[1].shape))]
    weights = [("lam_f", first[1]), ("lam_g", second[1])]
    functions = [
        CasadiFunction(
            "nlp", variables, [first, second], [objective.called(arguments, [0]), constraints.called(arguments, [1])]
        ),
        CasadiFunction("nlp_f", variables, [first], [objective.called(arguments, [0])]),
        CasadiFunction("nlp_g", variables, [second], [constraints.called(arguments, [0])]),
        CasadiFunction(
            "nlp_grad_f", variables, [first, ("grad_f_x", variables[0][1])], [gradient.called(arguments, [0, 1])]
        ),
        CasadiFunction(
            "nlp_jac_g", variables, [second, ("jac_g_x", slopes.patterns[1])], [slopes.called(arguments, [0, 1])]
        ),
        CasadiFunction(
            "nlp_hess_l",
            [*variables, *weights],
            [("triu_hess_gamma_x_x", curvature.patterns[0])],
            [curvature.called([0, 2, 3, *arguments[1:]], [0])],
        ),
    ]
    # the gradient of the Lagrangian, from which CasADi computes multipliers of parameters and bounds after a solve
    written = [objective, constraints, gradient, slopes, curvature]
    calls = [gradient.called(arguments, [0, "slope_x"]), slopes.called(arguments, [1, "slopes_x"])]
    by = {"x": slopes.patterns[1]}
    if p is not None:
        slope_p = _Written.of(gradient_of(f, 1, **dense), points, "nlp_gradient_p", recording=of_f)
        slopes_p = _Written.of(jacobian(g, 1, **sparse), points, "nlp_slopes_p", recording=of_g)
        written += [slope_p, slopes_p]
        calls += [slope_p.called(arguments, ["slope_p"]), slopes_p.called(arguments, ["slopes_p"])]
        by["p"] = slopes_p.patterns[0]
    memory = {f"slope_{each}": pattern.shape[1] for each, pattern in by.items()}
    memory |= {f"slopes_{each}": pattern.size for each, pattern in by.items()}
    lines = [line for k, (each, pattern) in enumerate(by.items()) for line in _weighted(k + 2, each, pattern)]
    results = [first, second, *((f"grad_gamma_{each}", pattern) for each, pattern in variables)]
    functions.append(CasadiFunction("nlp_grad", [*variables, *weights], results, calls, lines, memory))
    return _text(written, functions)


def _weighted(result: int, of: str, pattern: Pattern) -> list[str]:
    """Return C that stores lam_f times a gradient plus a transposed Jacobian times lam_g in a result."""
    assert pattern.starts is not None
    return [
        "{",
        f"    static const int starts[] = {{{', '.join(map(str, pattern.starts))}}};",
        f"    static const int rows[] = {{{', '.join(map(str, (*pattern.rows, 0)))}}};",
        f"    for (int j = 0; j < {pattern.shape[1]}; j++) {{",
        f"        double total = a2[0] * slope_{of}[j];",
        f"        for (int k = starts[j]; k < starts[j + 1]; k++) total += a3[rows[k]] * slopes_{of}[k];",
        f"        r{result}[j] = total;",
        "    }",
        "}",
    ]


def _checked_options(options: dict[str, Any], *, sparse: bool = False) -> Any:
    """Return the options of a derivative that is written as C; refuse `sparse`, `dtype` and `target`."""
    alone = {"sparse": (None, False), "dtype": ("float64",), "target": ()}
    if wrong := [key for key, allowed in alone.items() if key in options and options[key] not in allowed]:
        raise ArgumentError(
            f"{wrong[0]} was given; a function for CasADi computes in double and lists its nonzeros itself: leave "
            f"{wrong[0]} out"
        )
    refuse_assumptions(options, "a function for CasADi", "whose arguments have other names")
    return {**options, "target": "numpy"} | ({"sparse": "coo"} if sparse else {})


def _check_results(f: Any, g: Any, value: Sequence[Shape], constraints: Sequence[Shape]) -> None:
    if list(value) != [()]:
        raise ArgumentError(f"{name_of(f)} returns shapes {list(value)}; expected one number, which is minimised")
    if len(constraints) != 1 or len(constraints[0]) > 1:
        raise ArgumentError(f"{name_of(g)} returns shapes {list(constraints)}; expected one vector, or a number")


def _of_lagrangian(f: Callable[..., Any], g: Callable[..., Any], options: Any) -> Derivative:
    """Return the Hessian of sigma·f + multipliers·g; Python functions are recorded together, so arrays become loops."""
    plain = recorder_of(_of_lagrangian)
    if not (recorder_of(f) is recorder_of(g) is plain):
        return hessian_of_lagrangian(f, g, **options)

    def lagrangian(x: Any, sigma: Any, multipliers: Any, *parameters: Any) -> Any:
        return sigma * f(x, *parameters) + np.sum(multipliers * g(x, *parameters))

    return hessian(lagrangian, 0, **options)


class WeightedSum:
    """Weighted sum of a function's results, as a function of the arguments and the weights."""

    def __init__(self, f: Any, count: int) -> None:
        self.__name__ = f"weighted {name_of(f)}"
        self._function, self._count, self.holder = f, count, holder_of(f)
        # call Python functions directly, so that operations on their arrays become loops
        self._recordable = f if recorder_of(f) is recorder_of(leaves) else compiled(f)

    def __call__(self, *operands: Any) -> Any:
        """Return the sum, for numbers or traced values."""
        arguments, weights = operands[: self._count], operands[self._count :]
        if ACTIVE.tape is None:
            results = recorder_of(self._function).evaluate(self._function, arguments)
        else:
            results = self._recordable(*arguments)
        return sum(np.sum(weight * result) for weight, result in zip(weights, leaves(results), strict=True))


def leaves(tree: Any, kinds: Any = object) -> Iterator[Any]:
    """Yield the leaves of results in containers; `kinds` are the types of leaves that are containers themselves."""
    if isinstance(tree, kinds) and not (kinds is object and isinstance(tree, dict | list | tuple)):
        yield tree
    else:
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(item, kinds)


@dataclass(frozen=True)
class _Written:
    """A program as C source, with its results in CasADi's order."""

    name: str  # name of the C function
    source: CSource | LoopSource
    patterns: list[Pattern]  # patterns of the results
    shapes: list[Shape]  # shapes of the dense results
    guarded: bool  # True if it is one of several cases
    recording: Recording  # recording of the differentiated function

    @classmethod
    def of(
        cls,
        derivative: Derivative,
        points: Sequence[Any],
        name: str,
        *,
        pairs: Sequence[tuple[Shape, Shape]] = (),
        upper: bool = False,
        recording: Recording | None = None,
    ) -> _Written:
        """Return the C program of a derivative.

        Args:
            derivative: derivative whose program is written.
            points: example arguments.
            name: name of the program in C.
            pairs: for each sparse result, the shapes of the differentiated array and of the argument, if these are not
                vectors.
            upper: if True, sparse results are upper triangles.
            recording: recording of the function, if there is one.
        """
        program = derivative.compile_loops(*points, recording=recording)
        results = program._results
        fixed = results.fixed_patterns("a function of CasADi")
        dense = len(results.segments) - len(fixed)
        segments, patterns = [], []
        for k, segment in enumerate(results.segments):
            if k < dense:
                shape = results.shapes[k]
                order, pattern = by_columns(shape), Pattern.dense(shape)
            else:
                pair = pairs[k - dense] if pairs else None
                order, pattern = _sorted(fixed[k - dense], pair, upper=upper)
            segments.append(_moved(segment, order, pattern.size))
            patterns.append(pattern)
        guards = program.kernel.segments[len(segments) :]
        source = c_source_of(program, name, [*segments, *guards], 1 if program.code.compact else LANES)
        return cls(name, source, patterns, list(results.shapes[:dense]), program.is_guarded, program.recording)

    def called(self, arguments: Sequence[int], results: Sequence[int | str]) -> Called:
        """Return a call of this program."""
        return Called(self.source, self.name, arguments, results, self.guarded)


def _sorted(
    pattern: SparsePattern, pair: tuple[Shape, Shape] | None, *, upper: bool
) -> tuple[NDArray[np.intp], Pattern]:
    """Return the position of each nonzero in CasADi's order, -1 if it is dropped, and the pattern by columns."""
    rows, columns = np.asarray(pattern.rows, np.intp), np.asarray(pattern.columns, np.intp)
    if pair is not None:
        rows, columns = by_columns(pair[0])[rows], by_columns(pair[1])[columns]
    retained = np.flatnonzero(rows <= columns) if upper else np.arange(len(rows))
    chosen = retained[np.lexsort((rows[retained], columns[retained]))]
    order = np.full(len(rows), -1, np.intp)
    order[chosen] = np.arange(len(chosen))
    return order, Pattern.by_columns(pattern.shape, rows[chosen], columns[chosen])


def _moved(segment: Segment, order: NDArray[np.intp], size: int) -> Segment:
    """Return a result array with its entries in another order; entries without a position are left out."""
    places, outputs = order[segment.positions], indices(segment.outputs)
    outputs, places = outputs[places >= 0], places[places >= 0]
    # in the order of their places, so that consecutive entries can be stored at once
    by_place = np.argsort(places)
    return Segment(size, outputs[by_place], places[by_place], segment.name)


def _text(written: Sequence[_Written], functions: Sequence[CasadiFunction]) -> str:
    """Return one file with the programs and the functions that call them."""
    about = [
        "/* Functions with CasADi's interface, to be loaded by casadi.external or casadi.nlpsol. Compile with",
        " * gcc -O3 -march=native -std=c99 -ffp-contract=off -fno-math-errno -fno-trapping-math -fPIC -shared",
        " * and -lm. Nothing is allocated, there is no state. */",
        "",
        "#define _XOPEN_SOURCE 600",
        "",
    ]
    return "\n".join([*about, *(each.source.text for each in written), *(each.text for each in functions)])
