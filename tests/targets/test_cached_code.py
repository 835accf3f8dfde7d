"""Machine code from the cache: the same numbers with and without, and a damaged file is never run."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels import assert_same, whole
from strategies import points, programs

import accumulus as acc
from accumulus import Tape, cache
from accumulus.errors import CompileError
from accumulus.options import SWITCH
from accumulus.targets import Segment, compile_tape
from accumulus.targets.kernel import Unit
from accumulus.targets.llvm import host, library, llvm_kernel


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for dtype in ("float64", "float32"):  # what programs share is there before, and not counted
        compile_tape(*program(), dtype=dtype).point()
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "programs"


@pytest.fixture
def compilations(monkeypatch):
    """A list that grows with each compilation."""
    made = []

    def compile_ir(text, plain=host.compile_ir, **options):
        made.append(text)
        return plain(text, **options)

    monkeypatch.setattr(host, "compile_ir", compile_ir)
    return made


def program(factor=3.0, name="sin"):
    tape = Tape(2)
    product = tape.multiply(tape.apply(name, 0), 1)
    tape.outputs = [product, tape.multiply(tape.constant(factor), product), 0]
    return tape, whole(3)


def everything(kernel, inputs=2):
    """Results of every way to call a kernel."""
    X = np.random.default_rng(0).uniform(0.5, 1.5, (37, inputs)).astype(kernel.dtype)
    zeroed = tuple(np.zeros((len(X), segment.length), kernel.dtype) for segment in kernel.segments)
    return [
        *kernel(X[0]),
        *kernel.batch(X),
        *kernel.batch(X, out=zeroed, zeroed=True),
        *kernel.batch(X.T.copy(), transposed=True),
    ]


def test_shared_code_is_compiled_once_per_machine(folder, compilations, monkeypatch):
    x = np.array([0.7, -1.2])
    (expected,) = compile_tape(*program())(x)
    compilations.clear()

    def compiled():
        before = len(compilations)
        monkeypatch.setattr(llvm_kernel, "_LOADED", {})  # as in a new process
        assert_same(compile_tape(*program())(x)[0], expected)
        assert compile_tape(*program(name="tanh"))(x)[0][0] == pytest.approx(np.tanh(x[0]) * x[1], rel=1e-15)
        return len(compilations) - before

    assert compiled() == 3
    (library,) = folder.iterdir()
    assert compiled() == 2
    library.write_bytes(library.read_bytes()[:-1])
    assert compiled() == 3
    assert compiled() == 2


def test_a_second_kernel_is_not_compiled(folder, compilations):
    first = everything(compile_tape(*program(), cache=True))
    assert len(compilations) == len(list(folder.iterdir())) == 4
    kernel = compile_tape(*program(), cache=True)
    second = everything(kernel)
    assert len(compilations) == 4
    assert kernel.seconds["compile"] == kernel.seconds["emit"] == 0 < kernel.seconds["load"]
    assert kernel.from_cache
    for a, b in zip(first, second, strict=True):
        assert_same(a, b)
    assert "define" in kernel.source  # on demand


def test_only_on_request(folder, compilations):
    for _ in range(2):
        everything(compile_tape(*program()))
    assert len(compilations) == 8
    assert not folder.exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_cached_code_changes_no_bit(folder, data):
    drawn = data.draw(programs())
    dtype = data.draw(st.sampled_from(["float64", "float32"]))
    X = data.draw(points(11, drawn.tape.inputs, dtype))
    plain, first, again = (
        compile_tape(drawn.tape, drawn.segments, dtype=dtype, cache=cache) for cache in (False, True, True)
    )
    for kernel in (first, again):
        for actual, expected in zip(kernel.batch(X), plain.batch(X), strict=True):
            assert_same(actual, expected)
        for actual, expected in zip(kernel(X[0]), plain(X[0]), strict=True):
            assert_same(actual, expected)


def other_programs():
    tape, segments = program()
    yield program(factor=np.nextafter(3.0, 4.0))
    yield program(name="cos")
    yield tape, (Segment(3, (0, 1, 2), (0, 2, 1)),)
    yield tape, (Segment(4, (0, 1, 2), (0, 1, 2)),)
    yield tape, (Segment(3, (0, 2, 1), (0, 1, 2)),)
    yield tape, (*segments, Segment(1, (0,), (0,)))
    changed = tape.copy()
    changed.outputs = [tape.outputs[0], tape.outputs[1], 1]
    yield changed, segments


def test_whatever_is_different_has_another_key():
    tape, segments = program()
    single = {"single": True}
    variations = [
        ("float32", (), {}),
        ("float64", (3,), {}),
        ("float64", (), single),
        ("float64", (), {"single": False}),
    ]
    keys = [library.code_key(Unit(tape, segments, "float64", ((2,),)), {})]
    keys += [
        library.code_key(Unit(tape, segments, dtype, ((2,),), exact), changes) for dtype, exact, changes in variations
    ]
    keys += [library.code_key(Unit(tape, segments, "float64", ((), ())), {})]
    keys += [library.code_key(Unit(*other, "float64", ((2,),)), {}) for other in other_programs()]
    assert len(set(keys)) == len(keys)
    again, segments = program()
    assert keys[0] == library.code_key(Unit(again, segments, "float64", ((2,),)), {})


def test_zeros_of_either_sign_are_different_constants():
    keys = set()
    for zero in (0.0, -0.0):
        tape = Tape(1)
        tape.outputs = [tape.constant(zero)]
        keys.add(library.code_key(Unit(tape, whole(1)), {}))
    assert len(keys) == 2


def forget_versions():
    library.version.cache_clear()
    cache.version_of_kind.cache_clear()


def test_another_processor_or_version_has_another_key(monkeypatch):
    tape, segments = program()
    keys = []
    for module, name in ((library, "processor"), (cache, "code_version")):
        forget_versions()
        keys.append(library.code_key(Unit(tape, segments, "float64", ((2,),)), {}))
        monkeypatch.setattr(module, name, lambda *args: "another")
        forget_versions()
        keys.append(library.code_key(Unit(tape, segments, "float64", ((2,),)), {}))
    forget_versions()
    assert len(set(keys)) == 3


def cut(content):
    return content[:-1]


def flipped(content):
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


def empty(content):
    return b""


@pytest.mark.parametrize("damage", [cut, flipped, empty])
def test_damaged_code_is_never_run(damage, folder, compilations):
    expected = everything(compile_tape(*program(), cache=True))
    for file in folder.iterdir():
        file.write_bytes(damage(file.read_bytes()))
    actual = everything(compile_tape(*program(), cache=True))
    assert len(compilations) == 8
    for a, b in zip(actual, expected, strict=True):
        assert_same(a, b)


def test_swapped_code_is_never_run(folder, compilations):
    X = np.random.default_rng(0).uniform(0.5, 1.5, (37, 2))
    expected = [compile_tape(*program(name=name), cache=True).batch(X)[0] for name in ("sin", "cos")]
    first, second = sorted(folder.iterdir())
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    actual = [compile_tape(*program(name=name), cache=True).batch(X)[0] for name in ("sin", "cos")]
    assert len(compilations) == 4
    for a, b in zip(actual, expected, strict=True):
        assert_same(a, b)


def test_code_that_other_users_can_write_is_not_run(folder, compilations):
    everything(compile_tape(*program(), cache=True))
    folder.chmod(0o777)
    with pytest.warns(acc.errors.CacheWarning):
        everything(compile_tape(*program(), cache=True))
    assert len(compilations) == 8


def test_code_with_missing_functions_is_compiled_again(folder, compilations, monkeypatch):
    tape, segments = program()
    compile_tape(tape, segments, cache=True).batch(np.ones((9, 2)))
    real = llvm_kernel.Library

    class Refusing(real):
        def __init__(self, *args):
            monkeypatch.setattr(llvm_kernel, "Library", real)
            raise CompileError("a function is missing")

    monkeypatch.setattr(llvm_kernel, "Library", Refusing)
    compile_tape(tape, segments, cache=True).batch(np.ones((9, 2)))
    assert len(compilations) == 2


def test_tables_are_stored_with_the_code(folder, compilations):
    count = 80
    tape = Tape(count)
    twice = [tape.add(k, k) for k in range(count)]
    tape.outputs = [*(twice[j] for i in range(count) for j in range(i + 1)), tape.constant(4.0)]
    rows, columns = np.tril_indices(count)
    positions = (*(rows * count + columns).tolist(), 1)
    segments = (Segment(count * count, tuple(range(len(positions))), positions),)
    expected = everything(compile_tape(tape, segments), count)
    for _ in range(2):
        for a, b in zip(everything(compile_tape(tape, segments, cache=True), count), expected, strict=True):
            assert_same(a, b)
    assert len(compilations) == 8


def test_code_is_bytes_and_back():
    tables = {"a": np.arange(6, dtype=np.int32).reshape(3, 2), "b": np.array([0.5, np.nan]), "c": np.empty(0)}
    code = library.MachineCode(((b"a\n", ("part0", "part1")), (b"\n\0image", ())), ("sin", "x"), tables)
    again = library.MachineCode.from_bytes(code.to_bytes())
    assert (again.images, again.imports) == (code.images, code.imports)
    for name, table in tables.items():
        assert_same(again.tables[name], table)
        assert again.tables[name].flags.aligned


def test_derivatives_cache_code_by_default(folder, compilations, monkeypatch):
    monkeypatch.setenv(SWITCH, "1")

    def f(x):
        return np.array([x[0] * np.sin(x[1]), x[1] ** 2])

    x = np.array([1.0, 2.0])
    expected = acc.jacobian(f, cache=False)(x)
    assert not folder.exists()
    assert len(compilations) == 1
    for _ in range(3):
        np.testing.assert_array_equal(acc.jacobian(f)(x), expected)
    assert len(compilations) == 2
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(acc.jacobian(f).compile(x).kernel))(x)[0], expected.ravel())
    assert len(compilations) == 2


def test_llvm_links_code_that_the_small_linker_cannot(monkeypatch):
    expected = everything(compile_tape(*program()))
    monkeypatch.setattr(library, "is_supported", lambda: False)
    for a, b in zip(everything(compile_tape(*program())), expected, strict=True):
        assert_same(a, b)


SCRIPT = """
import sys
import numpy as np
import accumulus as acc
from accumulus.tape.tape import Tape
from accumulus.targets import Segment, compile_tape
tape = Tape(2)
tape.outputs = [tape.multiply(tape.apply("sin", 0), 1)]
kernel = compile_tape(tape, [Segment(1, (0,), (0,))], cache=True)
print(kernel(np.array([0.5, 2.0]))[0][0], kernel.batch(np.full((9, 2), 0.5))[0].sum(), "llvmlite" in sys.modules)
"""


@pytest.mark.skipif(not library.is_supported(), reason="LLVM links here")
def test_a_second_process_does_without_llvm(folder):
    runs = [
        subprocess.run([sys.executable, "-c", SCRIPT], env=os.environ, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    (first, total, loaded), (second, again, not_loaded) = (run.stdout.split() for run in runs)
    assert (first, total) == (second, again)
    assert (loaded, not_loaded) == ("True", "False")
