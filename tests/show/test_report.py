"""Reports: their numbers are those of the program, and a page of them fits a terminal."""

from __future__ import annotations

import json

import numpy as np
import pytest
from inside import OPERATIONS, count

import accumulus as acc
from accumulus import DifferentiationGraph
from accumulus.options import COUNTED
from accumulus.show.bodies import kind_counted, operations_by_kind
from accumulus.show.methods import SWEEPS, MethodCosts, chosen_because, compared_with_best, small_enough
from accumulus.show.report import Report


def swirl(x, scale):
    return {"a": x[0] * np.sin(x[1]) * scale, "b": np.array([x[2] / x[0], np.exp(x[0] * x[1])])}


@pytest.fixture(scope="module")
def report():
    derivative = acc.value_and_jacobian(swirl, argnums=(0, 1), target="numpy", time_limit=0.2)
    derivative(np.array([0.5, 1.0, 2.0]), 3.0)
    return derivative.report()


def test_numbers_are_the_program_s(report):
    program = acc.value_and_jacobian(swirl, argnums=(0, 1), target="numpy", time_limit=0.2).compile(np.ones(3), 1.0)
    assert report.name == "swirl"
    assert report.returns == "value_and_jacobian"
    assert report.operations == program.operations == sum(report.by_kind.values())
    assert report.jacobian_shape == (3, 4)
    assert report.nonzeros == 7
    assert report.function.argument_shapes == ((3,), ())
    assert report.function.result_shapes == ((), (2,))
    assert report.chosen.cost(report.objective) == program.plan.cost
    for objective in COUNTED:
        assert report.chosen.cost(objective) == count(program.plan.accumulation, objective)


def test_other_methods_are_counted(report):
    assert {other.method for other in report.others} == {name for name in SWEEPS if name != report.chosen.method}
    assert all(other.cost(report.objective) >= report.chosen.cost(report.objective) for other in report.others)


def test_orders_are_compared_with_the_best(report):
    derivative = acc.jacobian(swirl, argnums=(0, 1), target="numpy")
    derivative(np.array([0.5, 1.0, 2.0]), 3.0)
    order = derivative.report()
    best = acc.plan(order.subject.program.facts.plan.graph, "exact-vertex", "multiplications", cache=False)
    assert best.is_optimal
    assert report.order_bound == order.order_bound == best.cost
    assert compared_with_best(order.chosen.multiplications, best.cost) in " ".join(str(order).split())
    hessian = acc.hessian(lambda x: np.sin(x[0] * x[1]) * x[1], target="numpy")
    hessian(np.ones(2))
    assert hessian.report().order_bound is None  # one triangle is planned, for which orders take fewer


def test_the_page_fits_and_says_why(report):
    page = str(report)
    assert max(map(len, page.splitlines())) <= 100
    assert "\x1b" not in page
    for words in ("Value and Jacobian of swirl", "3, number", "verified", "structural nonzeros: 7", "numpy, float64"):
        assert words in page


def test_data_are_json(report):
    data = json.loads(json.dumps(report.to_dict()))
    assert data["chosen"]["method"] == report.chosen.method
    assert data["function"]["target"] == "numpy"


def test_the_width_of_vectors_is_in_the_report_of_machine_code(report):
    assert report.function.lanes is None
    assert "vectors of" not in str(report)
    derivative = acc.value_and_jacobian(swirl, argnums=(0, 1), time_limit=0.2)
    derivative(np.array([0.5, 1.0, 2.0]), 3.0)
    lanes = derivative.compile(np.ones(3), 3.0).kernel.lanes
    assert derivative.report().function.lanes == lanes
    assert (f"vectors of {lanes} points" in str(derivative.report())) == (lanes > 1)


def test_results_that_share_a_root_count_every_entry():
    derivative = acc.jacobian(lambda x: np.array([x[0] * x[1], x[0] * x[1], 1.0]), target="numpy")
    derivative(np.ones(2))
    assert derivative.report().nonzeros == 4
    assert derivative.report().jacobian_shape == (3, 2)


@pytest.mark.parametrize("f", [lambda x: x, lambda x: np.zeros(2), lambda x: x[:0]])
def test_functions_with_nothing_to_do(f):
    derivative = acc.jacobian(f, target="numpy")
    derivative(np.ones(2))
    assert "Jacobian of" in str(derivative.report())


def test_report_on_a_graph_without_a_function():
    graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "x"), ("b", "x"), ("z", "a")], name="fork")
    plan = acc.plan(graph, method="reverse")
    report = Report.of_plan(plan, {"plan": 0.5})
    assert report.function is None
    assert report.jacobian_shape == (2, 1)
    assert report.seconds == {"plan": 0.5}
    assert "Jacobian of fork" in str(report)


def test_large_sweeps_are_left_out():
    graph = DifferentiationGraph([("y", f"x{i}") for i in range(2000)])
    assert not small_enough(graph, "forward")
    assert small_enough(graph, "reverse")
    report = Report.of_plan(acc.plan(graph, method="reverse"), {})
    assert report.uncounted == ("forward",)
    assert "too large: forward" in str(report)


def test_an_optimal_plan_is_called_so():
    best = MethodCosts("vertex", 5, 4, 9, lower_bound=4)
    assert "Proven optimal" in chosen_because(best, [], "multiplications")
    assert "No order needs fewer than 4" in chosen_because(best, [], "operations")


def test_every_operation_has_a_kind():
    kinds = {operation.name: kind_counted(operation) for operation in OPERATIONS}
    assert kinds["add"] == kinds["subtract"] == "additions"
    assert kinds["sin"] == "sin"
    assert kinds["less"] == kinds["equal"] == "comparisons"
    assert kinds["logical_and"] == kinds["select"] == kinds["logical_not"] == "choices"


def test_kinds_are_sorted_by_number():
    tape = acc.trace(lambda x: x[0] * x[1] * x[2] + np.sin(x[0]), np.zeros(3)).tape
    assert list(operations_by_kind(tape).items()) == [("multiplications", 2), ("additions", 1), ("sin", 1)]


def test_reports_on_straight_line_code_have_no_bodies():
    assert acc.gradient(np.sum, cache=False).compile(np.ones(3)).report().bodies == ()
