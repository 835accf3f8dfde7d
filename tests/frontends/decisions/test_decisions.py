"""Decisions on traced values: answered as at the given arguments, and kept as guards on the recording."""

from __future__ import annotations

import numpy as np
import pytest
from inside import outputs_at

import accumulus as acc
from accumulus.errors import EndlessRecordingError, TraceError
from accumulus.frontends import decisions
from accumulus.frontends.agreement import where_it_holds
from accumulus.frontends.record import record


def halved(x):
    total = 0.0
    while x > 1:
        total = total + x
        x = x / 2
    return total + np.sin(x)


def table(x, n):
    for _ in range(int(x[0])):
        x = x * x[1]
    for _ in range(n):
        x = x + 1
    return x


def recorded(function, *arguments, **options):
    return record(function, arguments, decides=True, check=True, **options)


def test_answers_are_those_at_the_point_and_equal_questions_are_one_guard():
    recording = recorded(lambda x: halved(x) + halved(x), 5.0)
    assert [guard.answer for guard in recording.guards] == ["True", "True", "True", "False"]
    assert {guard.source for guard in recording.guards} == {"while x > 1:"}
    assert {guard.file for guard in recording.guards} == {__file__}
    value, *guards = outputs_at(recording.program, np.array([[5.0]]))[:, 0]
    assert value == 2 * halved(5.0)
    assert guards == [1.0] * 4


def test_a_recording_holds_where_the_function_goes_the_same_way():
    recording = recorded(halved, 5.0)
    x = np.array([4.0, 4.0 + 1e-12, 5.0, 8.0, 8.1, 0.5, -np.inf, np.nan])
    assert where_it_holds(recording, x[:, np.newaxis]).tolist() == [False, True, True, True, False, False, False, False]


@pytest.mark.parametrize(
    ("point", "holds", "fails"),
    [
        (2.5, [2.0, 2.999], [1.999, 3.0, -2.5, np.nan]),
        (0.5, [-0.999, 0.0, 0.999], [-1.0, 1.0]),
        (-2.5, [-2.0, -2.999], [-3.0, -1.999, 2.5]),
    ],
)
def test_whole_numbers_hold_between_their_neighbours(point, holds, fails):
    recording = recorded(lambda x: x * int(x), point)
    assert outputs_at(recording.program, np.array([[point]]))[0, 0] == point * int(point)
    assert where_it_holds(recording, np.array([holds]).T).all()
    assert not where_it_holds(recording, np.array([fails]).T).any()


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "as loops"])
def test_many_whole_numbers_are_one_guard(at_once):
    point = np.array([2.5, 0.5, -2.5, 0.0, 1e15, -0.5])
    fails = np.array([3.0, -1.0, -3.0, 1.0, 1e15 + 1, 1.0]), np.array([1.9, 1.0, -1.9, -1.0, 1e15 - 1, np.nan])
    recording = recorded(lambda x: x * x.astype(int), point, arrays=at_once, at_once=at_once)
    assert len(recording.guards) == 1
    points = [point, np.array([2.0, -0.9, -2.9, 0.9, 1e15, 0.9])]
    for k in range(len(point)):
        for far in fails:
            points.append(point.copy())
            points[-1][k] = far[k]
    assert where_it_holds(recording, np.array(points)).tolist() == [True, True] + [False] * 12


@pytest.mark.parametrize("count", [10, 5_000])
def test_indices_that_are_arguments(count):
    generator = np.random.default_rng(8)
    x, weights = generator.normal(size=300), generator.normal(size=count)

    def f(x, indices, weights):
        return np.sum(np.sin(x)[indices] * weights * x[indices])

    gradient = acc.gradient(f, effort="fast", cache=False)
    for _ in range(2):
        indices = generator.integers(0, 300, count)
        expected = np.zeros(300)
        np.add.at(expected, indices, weights * (np.cos(x) * x + np.sin(x))[indices])
        np.testing.assert_allclose(gradient(x, indices, weights), expected, rtol=1e-12, atol=1e-12)


KNOTS = [0.0, 1.0, 2.5, 4.0, 6.0, 8.0, 10.0, 13.0]


def interpolated(x):
    low, high = 0, len(KNOTS) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if x < KNOTS[middle]:
            high = middle
        else:
            low = middle
    share = (x - KNOTS[low]) / (KNOTS[high] - KNOTS[low])
    return (1.0 - share) * low**2 + share * high**2


def test_integers_selected_by_conditions_are_guarded_by_them():
    recording = recorded(interpolated, 3.0)
    assert len(recording.guards) == 3
    tape = recording.tape
    names = [tape.operation(t).name for t in range(tape.inputs, len(tape))]
    assert names.count("floor") == names.count("fmod") == 0
    assert names.count("less") == 3  # than KNOTS[3], KNOTS[1], KNOTS[2]
    x = np.array([2.5, 3.9, 2.4, 4.0, np.nan])
    assert where_it_holds(recording, x[:, np.newaxis]).tolist() == [True, True, False, False, False]
    x = np.linspace(-1.0, 14.0, 61)
    expected = [interpolated(number) for number in x]
    np.testing.assert_allclose(acc.value_and_jacobian(interpolated).batch(x)[0], expected, rtol=1e-14)


def test_conditions_of_a_choice_that_conditions_choose():
    def f(x, y):
        n = 1 if x > 0 else 2
        if n == 1:
            n = 3 if y > x else 4
        return x**n * y if n < 4 else y**n

    jac = acc.value_and_jacobian(f, (0, 1))
    points = [(1.0, 2.0), (2.0, 1.0), (-1.0, 2.0), (-1.0, -2.0)]
    for x, y in points:
        value, slopes = jac(x, y)
        assert value == f(x, y)
        n = 2 if x <= 0 else 3 if y > x else 4
        assert tuple(map(float, slopes)) == ((0, 4 * y**3) if n == 4 else (n * x ** (n - 1) * y, x**n))


def test_an_index_has_to_be_whole():
    recording = recorded(table, np.array([2.5, 3.0]), 2)
    assert [guard.answer for guard in recording.guards] == ["2", "2"]
    assert where_it_holds(recording, np.array([[2.5, 3.0, 2.0], [2.5, 3.0, 2.5]])).tolist() == [True, False]
    with pytest.raises(TypeError, match=r"the number 2\.5 cannot be an index"):
        recorded(table, np.array([2.5, 3.0]), 2.5)


def test_an_order_is_guarded_with_ties_and_nan():
    def ordered(x):
        return x[decisions.sorting_order(x.tape, x.references)]

    points = np.array([[3.0, 1.0, 3.0, np.nan, 2.0], [3.0, 3.0, 3.0, 3.0, 3.0], [np.nan, 1.0, np.nan, 0.0, 2.0]])
    for k, point in enumerate(points):
        recording = record(ordered, [point], decides=True)
        assert recording.tape.outputs[:5] == np.argsort(point, kind="stable").tolist()
        assert np.flatnonzero(where_it_holds(recording, points)).tolist() == [k]
    assert where_it_holds(recording, np.array([[np.nan, 3.0, np.nan, 2.5, 4.0]])).all()


def test_decisions_on_long_arrays():
    def reaction(u):
        if np.sum(u[:3]) < 5:
            return 2 * u * u
        return u

    recording = recorded(reaction, np.linspace(0.0, 1.0, 30_000), arrays=True)
    (guard,) = recording.guards
    assert (guard.source, guard.answer) == ("if np.sum(u[:3]) < 5:", "True")
    assert where_it_holds(recording, np.stack([np.zeros(30_000), np.ones(30_000), np.full(30_000, 2.0)])).tolist() == [
        True,
        True,
        False,
    ]


def test_refused_unless_requested():
    with pytest.raises(TraceError, match="A loop must run a constant number of times"):
        record(halved, [5.0])
    with pytest.raises(TraceError, match="needs a plain number"):
        record(table, [np.ones(2), 2])


def test_endless_recordings_raise(monkeypatch):
    def grows(x):
        while x > 0:
            x = x + 1
        return x

    def asks(x):
        while x > 0:
            pass
        return x

    def calls_itself(x):
        return 1.0 if x < 0 else x * calls_itself(x + 1)

    monkeypatch.setattr(decisions, "MOST_GUARDS", 500)
    monkeypatch.setattr(decisions, "MOST_QUESTIONS", 5_000)
    for function, line in ((grows, "while x > 0"), (asks, "while x > 0")):
        with pytest.raises(EndlessRecordingError, match=line):
            record(function, [1.0], decides=True)
    monkeypatch.setattr(decisions, "MOST_GUARDS", 50_000)
    with pytest.raises(EndlessRecordingError, match=r"test_decisions\.py, line \d+: .*calls itself deeper"):
        record(calls_itself, [1.0], decides=True)


def test_bodies_that_run_many_times_do_not_decide():
    def instance(x):
        return x if x > 0 else -x

    with pytest.raises(TraceError, match="runs for many instances"):
        record(lambda x: acc.map(instance, x), [np.ones(4)], decides=True)


def test_a_branch_that_is_recorded_beside_another_does_not_decide():
    def merged(x):
        vars(decisions.ACTIVE).update(merging=1)
        try:
            with pytest.raises(decisions.UnmergeableError):
                decisions.truth(x.tape, (x > 0).reference)
        finally:
            vars(decisions.ACTIVE).update(merging=0)
        return x

    assert record(merged, [1.0], decides=True).guards == ()
