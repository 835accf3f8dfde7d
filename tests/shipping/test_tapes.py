"""Tapes in files: the same tape comes back, and one that was changed is refused or computes something."""

from __future__ import annotations

import random

import numpy as np
import pytest
from inside import Program, evaluate

from accumulus import Tape
from accumulus.errors import FileError
from accumulus.shipping.data_files import Arrays, Fields
from accumulus.shipping.tapes import tape_as_data, tape_from_data
from accumulus.tape.columns import Range, column
from accumulus.tape.sparse_systems import SparseMatrix


def blocks():
    tape = Program(inputs=6)
    x = np.arange(6)
    tape.constant_array(np.array([0.5, 2.0, -3.0]))
    y = tape.apply("multiply", np.roll(x, 1), x)
    z = tape.apply("add", y, tape.constant_array(np.linspace(0.0, 1.0, 6)))
    sums = tape.sums(z, [0, 2, 6])
    product = tape.matmul(z.reshape(2, 3), x.reshape(3, 2)).ravel()
    body = Tape(2)
    body.outputs = [body.add(body.apply("sin", 0), 1)]
    start = tape.constant(0.0)
    (totals,) = tape.scan(
        body, lambda r: [column(np.append(start, r[0].references[:-1])), Range(int(z[0]), 1, 6)], range(7)
    )
    tape.outputs = np.concatenate([sums, product, totals.references])
    return tape


def scalars():
    tape = Tape(2)
    select = tape.select(tape.apply("less", 0, 1), tape.apply("sin", 0), tape.multiply(0, 1))
    tape.outputs = [select, tape.add(select, tape.constant(-0.0)), 1]
    return tape


def arrays_of(arrays):
    return [
        np.frombuffer(arrays.bytes(), dtype, int(np.prod(shape)), at).reshape(shape)
        for dtype, shape, at in arrays.table
    ]


def segments():
    """A program with scalar operations, some of them truth values, that are one block, and with equal blocks."""
    tape = Program(inputs=6)
    truth = tape.apply("less", 0, 1)
    value = 2
    for k in range(6):
        value = tape.select(truth, tape.multiply(value, k), tape.apply("sin", value))
    tape.outputs = np.append(tape.apply("multiply", np.arange(6), value), tape.select(truth, value, 0))
    for _ in range(2):
        tape.outputs = np.append(tape.outputs, tape.apply("multiply", tape.apply("sin", 3), np.arange(2, 6)))
        tape.outputs = np.append(tape.outputs, tape.apply("add", tape.apply("sin", 3), np.arange(2)))
    assert any(block.body is not None for block in tape.blocks)
    return tape


def matrices():
    """A system of equations and a determinant."""
    tape = Program(inputs=6)
    a = np.arange(4).reshape(2, 2)
    tape.outputs = np.concatenate([tape.solve(a, np.array([[4], [5]])).ravel(), tape.log_determinant(a)])
    return tape


def products():
    """Two products with one sparse matrix, which has an empty row."""
    tape = Program(inputs=6)
    matrix = SparseMatrix([0, 2, 2, 3], [1, 0, 1], [0.5, -2.0, np.inf], (3, 2))
    tape.outputs = tape.sparse_product(matrix, np.arange(6).reshape(2, 3)).ravel()
    tape.outputs = np.append(tape.outputs, tape.sparse_product(matrix, np.array([[0], [3]])))
    return tape


@pytest.mark.parametrize(
    "tape",
    [blocks(), scalars(), segments(), matrices(), products()],
    ids=["blocks", "scalars", "segments", "matrices", "products"],
)
def test_there_and_back(tape):
    arrays = Arrays()
    data = tape_as_data(tape, arrays)
    result = tape_from_data(Fields(data, "the tape", arrays_of(arrays)))
    x = np.linspace(0.1, 0.8, tape.inputs)
    run = (lambda t: evaluate(t, x)) if tape.scalars is None else (lambda t: evaluate(t, list(x)))
    np.testing.assert_array_equal(run(result), run(tape))
    assert tape_as_data(result, Arrays()) == data


@pytest.mark.parametrize("tape", [blocks(), scalars(), products()], ids=["blocks", "scalars", "products"])
def test_changed_numbers(tape):
    """References stay inside: what is not refused can be computed."""
    arrays = Arrays()
    data = tape_as_data(tape, arrays)
    generator = random.Random(0)
    refused = 0
    for _ in range(150):
        copies = [array.copy() for array in arrays_of(arrays)]
        target = generator.choice([array for array in copies if array.size])
        offset = generator.randrange(target.size)
        target.flat[offset] = generator.choice([0, 1, 2, 3, 5, 200, -1, -3]) % (
            256 if target.dtype.kind == "u" else 1000
        )
        try:
            result = tape_from_data(Fields(data, "the tape", copies))
        except FileError:
            refused += 1
            continue
        x = np.linspace(0.1, 0.8, result.inputs)
        assert len(evaluate(result, list(x) if result.scalars is not None else x)) == len(result.outputs)
    assert refused > 20


@pytest.mark.parametrize("shape", [[2, 2, 2], [1, 4, 1], [2, 2], [2, 0, 1], [4, 1, 2]])
def test_shapes_of_matrices_are_checked(shape):
    arrays = Arrays()
    data = tape_as_data(matrices(), arrays)
    data["blocks"][0]["shape"] = shape
    with pytest.raises(FileError, match="matrices of"):
        tape_from_data(Fields(data, "the tape", arrays_of(arrays)))


def test_kinds_are_checked():
    tape = scalars()
    truth = next(r for r in range(len(tape)) if tape.is_boolean(r))
    tape.outputs[0] = truth
    arrays = Arrays()
    data = tape_as_data(tape, arrays)
    with pytest.raises(FileError, match="boolean"):
        tape_from_data(Fields(data, "the tape", arrays_of(arrays)))
