"""C that takes little room: the same numbers, fewer bytes by gcc -Os, and estimates that are near what is measured."""

import ctypes
import shutil
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import accumulus as acc
from accumulus import Tape
from accumulus.targets.c.c_tables import TableBody, code_size
from accumulus.targets.c.c_target import Loaded

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["human_heart_dipole", "reprojection", "robot_arm"]
has_gcc = pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("size")), reason="no gcc")


def example(name):
    """Return a function of the examples, and a point."""
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name), module.example_point()


def short(f, *arguments, **options):
    return acc.jacobian(f, objective="code size", cache=False, effort="fast", check=False, **options).compile(
        *arguments
    )


def measured(text, folder):
    """Return bytes of machine code and constant data, apart from the places of nonzeros."""
    (folder / "f.c").write_text(text)
    command = ["gcc", "-std=c99", "-Os", "-ffp-contract=off", "-c", "f.c", "-o", "f.o"]
    subprocess.run(command, cwd=folder, check=True)
    lines = subprocess.run(["size", "-A", "f.o"], cwd=folder, check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in lines.splitlines()]
    return sum(int(row[1]) for row in rows if row and row[0].startswith((".text", ".rodata")))


@has_gcc
@pytest.mark.parametrize("name", NAMES)
def test_it_is_smaller_and_as_estimated(name, tmp_path):
    f, x = example(name)
    program = short(f, x)
    usual = acc.jacobian(f, cache=False, effort="fast", check=False).compile(x)
    small, other = measured(program.source("c"), tmp_path), measured(usual.source("c"), tmp_path)
    assert 2 * small < other
    table_bytes = 4 * sum(segment.count for segment in program.kernel.segments if segment.count < segment.length)
    assert 0.7 * (small - table_bytes) < code_size(program.code) < 1.4 * (small - table_bytes)


def called(program, *arguments):
    """Return what the function of a point computes."""
    text = program.source("c")
    work = [np.empty(100_000)] if program.code.maps is not None else []
    results = [np.full(segment.length, np.nan) for segment in program.kernel.segments]
    buffers = [np.ascontiguousarray(x, float) for x in (*arguments, *results, *work)]
    library = Loaded(text)
    library.function("f")(*(each.ctypes.data_as(ctypes.c_void_p) for each in buffers))
    return buffers[len(arguments)]


def rolled(x):
    return np.array([x[k] * x[k + 1] ** 2 + np.exp(x[k]) for k in range(30)])


def decides(x):
    return np.where(x > 0.3, x**3, np.minimum(x, 0.1)) * x[::-1]


@has_gcc
@pytest.mark.parametrize(
    ("f", "x"),
    [
        example("robot_arm"),
        (rolled, np.linspace(-1.0, 1.0, 31)),
        (decides, np.linspace(-1.0, 1.0, 12)),
        (lambda x: np.sqrt(np.sum(x**2)), np.arange(1.0, 4.0)),
    ],
    ids=["table", "loop", "choices", "short"],
)
def test_it_computes_the_same(f, x):
    reference = acc.jacobian(f, cache=False, effort="fast")(x)
    program = short(f, x)
    np.testing.assert_allclose(called(program, x).reshape(reference.shape), reference, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(program(x), reference, rtol=1e-12, atol=1e-14)


def test_batches_are_compiled_on_request():
    assert "#ifdef F_BATCHES" in short(rolled, np.ones(31)).source("c")


def test_registers_are_taken_again():
    tape = Tape(2)
    value = 0
    for _ in range(100):
        value = tape.add(tape.multiply(value, 1), 0)
    tape.outputs = [value]
    table = TableBody.of(tape)
    assert table is not None
    assert table.registers <= 5
    assert table.kind == "unsigned char"


def test_choices_are_no_table():
    tape = Tape(1)
    tape.outputs = [tape.select(tape.apply("less", 0, tape.constant(1.0)), 0, tape.constant(2.0))]
    assert TableBody.of(tape) is None
