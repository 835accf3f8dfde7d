"""Options: what is given is checked, reaches where it is used, and is never replaced."""

import inspect
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest
from contexts import within

import accumulus as acc
from accumulus.context import SMALL
from accumulus.errors import ArgumentError, UnknownNameError
from accumulus.options import EFFORTS, OF_PLANS, Objective, OptionKeywords, Options
from accumulus.programs import rewritten


def ignore(progress):
    pass


#: A value that is not the default, for every option.
OTHERS = {
    "method": "vertex",
    "objective": "fma",
    "time_limit": 0.5,
    "effort": "fast",
    "seed": 7,
    "iterations": 20,
    "executor": ThreadPoolExecutor(1),
    "progress": ignore,
    "cache": False,
    "sparse": "csc",
    "target": "numpy",
    "dtype": "float32",
    "threads": 2,
    "check_finite": True,
    "check": False,
    "optimise": True,
    "exact_order": True,
    "guards": "error",
    "most_cases": 3,
    "watch": False,
    "assume": (("x", "positive"),),
}


def swirl(x):
    return np.array([x[0] * np.sin(x[1]), x[0] * x[1] * x[2]])


def test_every_option_is_here():
    assert [option.name for option in fields(Options)] == list(OTHERS)
    assert OptionKeywords.__annotations__.keys() == OTHERS.keys()


@pytest.mark.parametrize("function", [acc.jacobian, acc.value_and_jacobian, acc.gradient, acc.check, acc.plan])
def test_the_signatures_have_the_defaults_of_the_options(function):
    defaults = {option.name: option.default for option in fields(Options)}
    parameters = inspect.signature(function).parameters
    if function is acc.plan:
        assert parameters.keys() >= set(OF_PLANS)
        del defaults["objective"]
    else:
        assert parameters.keys() >= defaults.keys() - ({"assume"} if function is acc.check else set())
    for name in defaults.keys() & parameters.keys():
        assert parameters[name].default == defaults[name], name


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("derivative", [acc.jacobian, acc.value_and_jacobian, acc.gradient])
def test_options_of_a_derivative_are_kept(derivative, name):
    function = (lambda x: swirl(x)[0]) if derivative is acc.gradient else swirl
    made = derivative(function, **{name: OTHERS[name]}).compile(np.ones(3))
    assert getattr(made.options, name) == OTHERS[name]
    assert made.options == Options(**{name: OTHERS[name]})


@pytest.mark.parametrize("name", OTHERS)
def test_options_beside_a_plan_are_kept(name):
    trace = acc.trace(swirl, np.ones(3))
    plan = acc.plan(trace.linearize(), objective="operations")
    if name in ("method", "iterations", "executor", "check", "assume"):
        with pytest.raises(ArgumentError, match=name):
            trace.compile(plan, **{name: OTHERS[name]})
        return
    if name == "sparse":
        assert trace.compile(plan, output="csc").options.sparse == "csc"
        return
    made = trace.compile(plan, **{name: OTHERS[name]})
    assert getattr(made.options, name) == OTHERS[name]


def test_a_program_is_rewritten_as_its_plan_was_searched_for(monkeypatch):
    options = []
    rewrite = rewritten.rewrite

    def watched(tape, context, **rest):
        options.append((context.options.effort, context.options.seed))
        return rewrite(tape, context, **rest)

    monkeypatch.setattr(rewritten, "rewrite", watched)
    trace = acc.trace(swirl, np.ones(3))
    plan = acc.plan(trace.linearize(), effort="fast", seed=3)
    trace.compile(plan)
    trace.compile(plan, seed=4)
    assert options == [("fast", 3), ("fast", 4)]


def test_a_loaded_plan_keeps_its_options():
    graph = acc.trace(swirl, np.ones(3)).linearize()
    for _ in range(2):
        plan = acc.plan(graph, effort="fast", time_limit=0.25)
        assert (plan.effort, plan.time_limit) == ("fast", 0.25)


def test_the_effort_of_the_order_is_replaced_by_one_rule():
    """Only where the tape is rewritten under an objective that is counted on it, and only on small graphs."""
    for effort in EFFORTS:

        def of_order(edges, effort=effort, **options):
            return within(effort=effort, **options).planning(edges).options.effort

        assert of_order(SMALL) == ("thorough" if effort == "thorough" else "fast")
        assert of_order(SMALL + 1) == effort
        assert of_order(1, optimise=False) == effort
        assert of_order(1, dtype="float32") == effort
        assert of_order(1, objective="fma") == effort


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("objective", "flops"),
        ("objective", ["fma"]),
        ("effort", "lazy"),
        ("method", "autto"),
        ("target", "fortran"),
        ("dtype", "float16"),
        ("sparse", "bsr"),
        ("efort", "fast"),
    ],
)
def test_names_that_there_are_not(name, value):
    with pytest.raises(UnknownNameError, match="Known:"):
        Options.of(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time_limit", -1.0),
        ("time_limit", float("nan")),
        ("time_limit", True),
        ("time_limit", "1"),
        ("seed", 1.5),
        ("iterations", -1),
        ("threads", 0),
        ("optimise", "yes"),
        ("cache", 1),
        ("progress", 3),
        ("executor", "processes"),
    ],
)
def test_values_out_of_range(name, value):
    with pytest.raises(ArgumentError, match=name):
        Options.of(**{name: value})


def test_the_removed_objective_names_its_replacement():
    with pytest.raises(UnknownNameError, match=r"'time' was removed.* Use 'operations'"):
        Options.of(objective="time")


def test_objectives_are_their_names():
    assert [str(objective) for objective in Objective] == ["fma", "multiplications", "operations", "code size"]
    assert Options(objective="fma").objective is Objective.FMA
    assert [objective.ranked(1, 2) for objective in Objective] == [(1, 2), (2, 1), (2, 1), (2, 1)]
    assert set(OF_PLANS) < set(OTHERS)


def numbers(x):
    return x[0] * x[1]


#: Calls of all functions that take options, by their names.
CALLS = {
    "jacobian": lambda **options: acc.jacobian(swirl, **options),
    "value_and_jacobian": lambda **options: acc.value_and_jacobian(swirl, **options),
    "gradient": lambda **options: acc.gradient(numbers, **options),
    "value_and_gradient": lambda **options: acc.value_and_gradient(numbers, **options),
    "compile": lambda **options: acc.compile(swirl, **options),
    "hessian": lambda **options: acc.hessian(numbers, **options),
    "value_gradient_hessian": lambda **options: acc.value_gradient_hessian(numbers, **options),
    "hessian_of_lagrangian": lambda **options: acc.hessian_of_lagrangian(numbers, swirl, **options),
    "jvp": lambda **options: acc.jvp(swirl, **options),
    "vjp": lambda **options: acc.vjp(swirl, **options),
    "hvp": lambda **options: acc.hvp(numbers, **options),
    "taylor": lambda **options: acc.taylor(swirl, **options),
    "linear_operator": lambda **options: acc.linear_operator(swirl, **options),
    "check": lambda **options: acc.check(swirl, np.ones(3), **{"points": 0, **options}),
}


def test_every_function_of_options_is_called_here():
    names = {name for name in acc.__all__ if callable(getattr(acc, name)) and not isinstance(getattr(acc, name), type)}
    takes = {
        name for name in names if {"seed", "most_cases"} <= inspect.signature(getattr(acc, name)).parameters.keys()
    }
    assert takes == CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.sampled(2)
def test_signatures_have_the_options_that_are_accepted(name):
    parameters = inspect.signature(getattr(acc, name)).parameters
    for option, value in OTHERS.items():
        if option in parameters:
            CALLS[name](**{option: value})
            CALLS[name](**{option: parameters[option].default})
        else:
            with pytest.raises((ArgumentError, UnknownNameError), match=option):
                CALLS[name](**{option: value})
    for option, parameter in parameters.items():  # options that are not common to all functions
        if option not in OTHERS and parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            CALLS[name](**{option: parameter.default})


@pytest.mark.parametrize("name", [name for name in acc.__all__ if inspect.isfunction(getattr(acc, name))])
def test_signatures_have_all_parameters_of_the_code(name):
    function = getattr(acc, name)
    code = inspect.unwrap(function).__code__
    parameters = inspect.signature(function).parameters
    declared = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)]
    assert set(declared) <= parameters.keys()
    assert list(parameters)[: code.co_argcount] == list(code.co_varnames[: code.co_argcount])
