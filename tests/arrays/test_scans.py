"""Recurrences: the same as written out step by step."""

import numpy as np
import pytest
from contexts import within
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inside import Program, column, emit, evaluate, evaluate_with_bounds, fuse, linearize

import accumulus as acc
from accumulus import Tape
from accumulus.arrays.jacobian import differentiate
from accumulus.arrays.scans import Factor, Recurrence
from accumulus.resubstitution.optimise import optimise_bodies
from accumulus.search.find import find_plan
from accumulus.tape.blocks import SCAN
from accumulus.tape.program import Range
from accumulus.targets.kernel import Segment, Unit
from accumulus.targets.llvm import bodies
from accumulus.targets.target import target_of

# Blocks ----------------------------------------------------------------------------------------------------------

BODY_OPERATIONS = ["add", "subtract", "multiply", "sin", "tanh", "maximum", "select", "floor", "negative"]


def computed(target, tape, maps, point):
    """The outputs of a program by the loops of a target."""
    count = len(tape.outputs)
    result = np.full(count, np.nan)
    segment = Segment(count, slice(0, count), slice(0, count))
    unit = Unit(tape, [segment], arguments=((tape.inputs,),), maps=maps)
    target_of(target).compile(unit).compute([point], [result])
    return result


def random_body(rng, inputs, outputs):
    body = Tape(inputs)
    available = [*range(inputs), body.constant(0.5), body.constant(-1.25)]
    for _ in range(rng.integers(1, 7)):
        name = BODY_OPERATIONS[rng.integers(len(BODY_OPERATIONS))]
        a, b, c = (available[rng.integers(len(available))] for _ in range(3))
        if name == "select":
            available.append(body.select(body.apply("less", a, b), body.multiply(b, c), c))
        elif name in ("sin", "tanh", "floor", "negative"):
            available.append(body.apply("tanh", a) if name == "negative" else body.apply(name, a))
        else:
            available.append(
                body.apply("tanh", body.apply(name, a, b)) if name == "multiply" else body.apply(name, a, b)
            )
    body.outputs = [available[rng.integers(max(0, len(available) - 5), len(available))] for _ in range(outputs)]
    return body


def random_program(seed, jumps=True):
    """A program with recurrences that take inputs, constants, each other, themselves, and operations on them."""
    rng = np.random.default_rng(seed)
    tape = Program(inputs=6)
    known = [np.arange(6), tape.constant_array(np.array([0.25, -0.5]))]
    for _ in range(rng.integers(1, 4)):
        widths = rng.choice([1, 2, 3, 9, 20], rng.integers(1, 6)) if rng.random() < 0.5 else np.ones(rng.integers(1, 9))
        steps = np.append(0, np.cumsum(widths)).astype(int)
        count, inputs, outputs = steps[-1], rng.integers(1, 5), rng.integers(1, 4)
        step_of = np.repeat(np.arange(len(steps) - 1), np.diff(steps))
        body = random_body(rng, inputs, outputs)
        pool = np.concatenate(known)

        def operands(results, count=count, inputs=inputs, steps=steps, step_of=step_of, pool=pool):
            columns = []
            for _ in range(inputs):
                if rng.random() < 0.3:
                    columns.append(Range(int(rng.choice(pool)), 0, int(count)))
                    continue
                result = rng.choice(pool, count)
                lag = rng.integers(1, 3)
                for i in range(count):
                    if rng.random() < 0.9 and step_of[i] >= lag:
                        earlier = rng.integers(steps[step_of[i] - lag], steps[step_of[i] - lag + 1])
                        result[i] = results[rng.integers(len(results))].references[earlier]
                columns.append(column(result))
            return columns

        results = tape.scan(body, operands, steps)
        known += [each.references for each in results]
        if rng.random() < 0.7:
            known.append(tape.apply("add", known[-1], tape.apply("sin", known[-1][::-1])))
    tape.outputs = np.concatenate([*known[-2:], rng.choice(np.concatenate(known), 3)])
    return tape


def written_out(tape):
    flat = Tape(tape.inputs)
    results = {k: k for k in range(tape.inputs)}

    def at(reference):
        return flat.constant(tape.value_of(reference)) if reference < 0 else results[reference]

    for block in tape.blocks:
        for i in range(block.count):
            columns = [each.references if isinstance(each, Range) else each for each in block.operands]
            taken = [at(int(each[i])) for each in columns]
            if block.code == SCAN:
                body = block.body
                values = dict(enumerate(taken))
                for k, constant in enumerate(body.constants):
                    values[-1 - k] = flat.constant(constant)
                for reference in range(body.inputs, len(body)):
                    arguments = [values[a] for a in body.arguments(reference)]
                    values[reference] = flat.apply_code(body.codes[reference], arguments)
                for k, output in enumerate(body.outputs):
                    results[block.start + k * block.count + i] = values[output]
            else:
                results[block.start + i] = flat.apply_code(block.code, taken)
    flat.outputs = [at(int(reference)) for reference in tape.outputs]
    return flat


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_blocks_equal_the_written_out_program(seed):
    tape = random_program(seed)
    points = np.random.default_rng(seed).uniform(-1.0, 1.0, (6, 3))
    expected = np.stack(np.broadcast_arrays(*evaluate(written_out(tape), list(points)), points[0])[:-1])
    assert np.array_equal(evaluate(tape, points[:, 0]), expected[:, 0])
    assert np.array_equal(evaluate(tape, points), expected)
    values, bounds = evaluate_with_bounds(tape, list(points))
    assert np.array_equal(values, expected)
    assert (bounds >= 0).all()
    for target in ("llvm", "numpy"):
        actual = computed(target, tape, fuse(tape), points[:, 0])
        np.testing.assert_allclose(actual, expected[:, 0], rtol=1e-11, atol=1e-11)
    maps = fuse(tape)
    optimise_bodies(maps, within(10.0, effort="fast"))
    actual = computed("llvm", tape, maps, points[:, 0])
    np.testing.assert_allclose(actual, expected[:, 0], rtol=1e-9, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_quick_compilation_changes_no_bit(seed):
    tape = random_program(seed)
    point = np.random.default_rng(seed).uniform(-1.0, 1.0, 6)
    results = []
    for longest in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bodies, "LONG", longest)
            results.append(computed("llvm", tape, fuse(tape), point))
    assert np.array_equal(*results)


def _running(tape, terms):
    body = Tape(2)
    body.outputs = [body.add(0, 1)]
    return tape.scan(
        body,
        lambda results: [column(np.append(tape.constant(0.0), results[0].references[:-1])), column(terms)],
        np.arange(len(terms) + 1),
    )[0]


def test_equal_recurrences_are_one():
    tape = Program(inputs=5)
    first = _running(tape, np.arange(5))
    assert _running(tape, np.arange(5)) == first
    assert _running(tape, np.arange(5)[::-1]) != first
    assert len(tape.blocks) == 2
    assert tape.operations == 10


def test_unused_results_are_not_computed():
    body = Tape(3)
    body.outputs = [body.add(0, 1), body.multiply(0, 2), body.apply("sin", 1)]
    tape = Program(inputs=8)

    def operands(results):
        return [
            column(np.append(0, results[0].references[:-1])),
            column(np.append(1, results[1].references[:-1])),
            column(np.append(2, results[2].references[:-1])),
        ]

    results = tape.scan(body, operands, np.arange(5))
    tape.outputs = results[0].references
    (only,) = fuse(tape)
    assert (only.count, len(only.body.outputs), only.body.inputs) == (4, 3, 3)
    tape = Program(inputs=8)
    body = Tape(2)
    body.outputs = [body.add(0, 1), body.apply("sin", 1)]
    results = tape.scan(body, lambda r: [column(np.append(0, r[0].references[:-1])), Range(1, 0, 4)], np.arange(5))
    tape.outputs = results[0].references[-1:]
    (only,) = fuse(tape)
    assert (only.body.operations, len(only.body.outputs)) == (1, 1)


@pytest.mark.parametrize(
    ("reference", "match"),
    [(lambda r: r[0].references, "own step"), (lambda r: r[0].references[::-1].copy(), "own step"),
     (lambda r: r[0].references + 7, "do not exist"), (lambda r: r[0].references - 100, "do not exist"),
     (lambda r: r[0].references[:2], "one an instance")],
)  # fmt: skip
def test_operands_must_be_earlier_results(reference, match):
    tape = Program(inputs=1)
    body = Tape(1)
    body.outputs = [body.apply("sin", 0)]
    with pytest.raises(acc.errors.ArgumentError, match=match):
        tape.scan(body, lambda results: [column(reference(results))], np.arange(4))


# Derivatives -----------------------------------------------------------------------------------------------------


def jacobian_of(tape, point):
    result = differentiate(tape, range(tape.inputs), within(60.0, effort="fast", objective="operations", cache=False))
    values = computed("llvm", result.tape, fuse(result.tape), point)
    interpreted = evaluate(result.tape, point)
    np.testing.assert_allclose(interpreted, values, rtol=1e-9, atol=1e-12)
    matrix = np.zeros((len(tape.outputs), tape.inputs))
    matrix[result.rows, result.columns] = values[result.values :]
    return values[: result.values], matrix


def written_jacobian(tape, point):
    flat = written_out(tape)
    linearization = linearize(flat)
    accumulation = find_plan(linearization.graph, within(method="forward", cache=False)).accumulation
    values, entries = evaluate(emit(accumulation), list(point)), sorted(accumulation.entries)
    matrix = np.zeros((len(tape.outputs), tape.inputs))
    of_root = {}
    for (root, terminal), value in zip(entries, values[len(flat.outputs) :], strict=True):
        of_root.setdefault(root, []).append((linearization.columns[terminal], value))
    for row, root in enumerate(linearization.rows):
        for column_, value in of_root.get(root, []):
            matrix[row, column_] = value
    return values[: len(flat.outputs)], matrix


WAYS = {"forward": False, "reverse": True, "cheapest": None}


def force(monkeypatch, way):
    if WAYS[way] is None:
        return
    one = Recurrence._way

    def only(self, above, below, is_reverse, limit):
        if is_reverse == WAYS[way] or (self._reverse is None):
            return one(self, above, below, is_reverse, limit)
        return None

    monkeypatch.setattr(Recurrence, "_way", only)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=settings.default.max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_derivatives_equal_those_of_the_written_out_program(way, monkeypatch, seed):
    with monkeypatch.context() as patch:
        force(patch, way)
        tape = random_program(seed)
        point = np.random.default_rng(seed).uniform(-1.0, 1.0, 6)
        values, actual = jacobian_of(tape, point)
    expected_values, expected = written_jacobian(tape, point)
    np.testing.assert_allclose(values, expected_values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("way", ["forward", "reverse"])
def test_internal_mistakes_are_detected(way, monkeypatch):
    """Products of local derivatives are held against the derivatives themselves."""
    force(monkeypatch, way)
    monkeypatch.setattr(Factor, "times", lambda self, body, inputs, other: body.multiply(body.constant(2.0), other))
    tape = Program(inputs=4)
    body = Tape(2)
    body.outputs = [body.multiply(body.apply("sin", 0), 1)]
    tape.scan(body, lambda r: [column(np.append(0, r[0].references[:-1])), Range(1, 1, 3)], np.arange(4))
    tape.outputs = tape.blocks[-1].results.references[-1:]
    with pytest.raises(acc.errors.VerificationError):
        jacobian_of(tape, np.ones(4))


def test_long_running_sums_cost_one_addition_per_entry():
    """Neither way is looked for further than it may be the cheapest: before the sum is, both take n² products."""
    x = np.linspace(0.0, 1.0, 100_000)
    gradient = acc.gradient(lambda x: np.sum(np.cumsum(x * x) ** 2) * np.max(x[:1_000]), cache=False)
    totals = np.cumsum(x * x)
    expected = 2.0 * x * np.cumsum(2.0 * totals[::-1])[::-1] * x[999]
    expected[999] += np.sum(totals**2)
    np.testing.assert_allclose(gradient(x), expected, rtol=1e-9)
    assert gradient.report().products < 20 * len(x)
