"""The llvm target: every operation to the last places, every variant of the code to the last bit."""

from __future__ import annotations

import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside import OPERATIONS
from kernels import Guarded, assert_same, expected, lanes, whole
from strategies import CONSTANTS, EXACT, ROWS, points, programs, tapes

import accumulus as acc
from accumulus import Tape
from accumulus.targets import Batch, Segment, compile_tape
from accumulus.targets.kernel import Unit
from accumulus.targets.llvm import host, library, llvm_kernel, module, ranges
from accumulus.targets.llvm.llvm_kernel import LLVMKernel
from accumulus.targets.llvm.module import Variant, tune
from accumulus.targets.schedule import ResultGroup, groups, order, order_by_critical_path

DTYPES = ("float64", "float32")


def ulps(row):
    """Return the allowed error of a library function in ulp; SciPy's erfc is inaccurate for large arguments."""
    return 0 if row.name in EXACT else 4096 if row.name == "erfc" else 8


every_dtype = pytest.mark.parametrize("dtype", DTYPES)
# fmt: off
SINGLE = np.array([
    0.0, 1.0, 0.5, 2.0, 3.0, 7.0, 20.0, 30.0, 90.0, 110.0, 150.0, 708.0, 710.0, 746.0, 1024.0, 1080.0, 1e5, 1e9, 2e9,
    1e15, 1e22, 1e38, 1e39, 1e300, 1.7976931348623157e308, 1e-5, 1e-20, 1e-45, 1e-300, 1e-310, 5e-324, 2.0**-1022,
    np.pi, np.pi / 2, 0.9999999999999999, 1.0000000000000002, 0.1, 4.5, np.inf, np.nan,
])
# fmt: on
#: NumPy does not say which of two zeros is the larger one.
UNSIGNED = ("minimum", "maximum")
SPECIAL = np.concatenate([SINGLE, -SINGLE])


def base(dtype, **changes):
    return Variant(lanes(dtype), dtype, **changes)


def of_every(row, numbers):
    """Return a tape with one operation, and every combination of the numbers as its arguments."""
    tape = Tape(row.arity)
    # truth values as comparisons with zero in, as numbers out
    zero, one = tape.constant(0.0), tape.constant(1.0)
    arguments = [tape.apply("less", zero, k) if kind == "boolean" else k for k, kind in enumerate(row.arguments)]
    result = tape.apply(row.name, *arguments)
    tape.outputs = [tape.select(result, one, zero) if row.result == "boolean" else result]
    grids = np.meshgrid(*[numbers if row.arity < 3 else numbers[::5]] * row.arity)
    X = np.stack([grid.ravel() for grid in grids], axis=1)
    return tape, X


@every_dtype
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_special_values_are_those_of_numpy(row, dtype):
    with np.errstate(over="ignore"):
        numbers = SPECIAL.astype(dtype)
    tape, X = of_every(row, numbers)
    segments = whole(1)
    actual = LLVMKernel(Unit(tape, segments, dtype), variant=base(dtype)).batch(X)[0]
    reference = expected(tape, segments, X)[0]
    if row.name == "erfc":  # SciPy's is zero from 26.6 on, where it should be a denormal number
        actual, reference = (
            np.where(np.abs(values) < 1e-307, 0, values).astype(dtype) for values in (actual, reference)
        )
    assert_same(actual, reference, ulps=ulps(row), signs=row.name not in UNSIGNED)


@every_dtype
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_one_point_has_the_bits_of_a_batch(row, dtype):
    """Code for one point has one lane, and vector functions of a library have as many as in batches."""
    rng = np.random.default_rng(row.code)
    with np.errstate(over="ignore"):
        tape, X = of_every(row, np.concatenate([SPECIAL[::7], rng.uniform(-2.0, 2.0, 8)]).astype(dtype))
    kernel = LLVMKernel(Unit(tape, whole(1), dtype))
    X = rng.permutation(X)[:100].astype(dtype)
    assert_same(np.array([kernel(x)[0] for x in X]), kernel.batch(X)[0], signs=True)


@every_dtype
@given(data=st.data())
def test_every_operation_agrees_with_numpy_on_the_values_of_the_kernel(dtype, data):
    # no error accumulates: each operation is compared on the arguments that the kernel gave it
    tape = data.draw(tapes())
    X = data.draw(points(data.draw(st.sampled_from([1, 7, 33])), tape.inputs, dtype))
    shown = tape.copy()
    one, zero = shown.constant(1.0), shown.constant(0.0)
    size = len(tape)
    shown.outputs = [shown.select(r, one, zero) if shown.is_boolean(r) else r for r in range(size)]
    kernel = LLVMKernel(Unit(shown, whole(size), dtype), variant=base(dtype, contract=False))
    values = kernel.batch(X)[0]
    for reference in range(tape.inputs, size):
        row = tape.operation(reference)
        arguments = [
            np.full(len(X), tape.value_of(r), dtype) if r < 0 else values[:, r] for r in tape.arguments(reference)
        ]
        arguments = [a != 0 if kind == "boolean" else a for a, kind in zip(arguments, row.arguments, strict=True)]
        expected = np.asarray(row.evaluate(*arguments)).astype(dtype)
        assert_same(values[:, reference], expected, ulps=ulps(row))


@given(data=st.data())
def test_fused_products_are_off_by_no_more_than_their_rounding(data):
    tape = data.draw(tapes(names={"add", "subtract", "multiply", "negative"}))
    X = data.draw(points(9, tape.inputs, special=False))
    segments = whole(len(tape.outputs))
    exact, fused = (
        LLVMKernel(Unit(tape, segments), variant=base("float64", contract=contract)).batch(X)[0]
        for contract in (False, True)
    )
    # running error: what each operation may lose, carried through the program
    magnitude = [np.abs(X[:, k]) for k in range(tape.inputs)]
    error = [np.zeros(len(X)) for _ in range(tape.inputs)]

    def look_up(reference):
        if reference < 0:
            return np.full(len(X), abs(tape.value_of(reference))), np.zeros(len(X))
        return magnitude[reference], error[reference]

    for reference in range(tape.inputs, len(tape)):
        (a, da), *rest = map(look_up, tape.arguments(reference))
        b, db = rest[0] if rest else (0.0, 0.0)
        product = tape.operation(reference).name == "multiply"
        magnitude.append(a * b if product else a + b)
        error.append((a * db + b * da if product else da + db) + 2.0**-52 * magnitude[-1])
    for k, output in enumerate(tape.outputs):
        bound = 4 * look_up(output)[1] + 1e-300
        assert (np.abs(exact[:, k] - fused[:, k]) <= bound).all()


def variants(dtype):
    width = lanes(dtype)
    return st.builds(
        Variant,
        lanes=st.sampled_from(sorted({2 if dtype == "float64" else 4, width, 2 * width})),
        dtype=st.just(dtype),
        contract=st.just(False),
        part_size=st.sampled_from([1, 2, 3, 7, 1000]),
        critical_path=st.booleans(),
    )


@every_dtype
@given(data=st.data())
def test_width_parts_and_orders_change_no_bit(dtype, data):
    # by exact operations: a vector of another width may use another function of another library
    program = data.draw(programs(names=EXACT))
    count = data.draw(st.sampled_from([1, 5, 40]))
    X = data.draw(points(count, program.tape.inputs, dtype))
    expected = LLVMKernel(Unit(program.tape, program.segments, dtype), variant=base(dtype, contract=False)).batch(X)
    variant = data.draw(variants(dtype))
    offsets = tuple(data.draw(st.integers(0, variant.lanes - 1)) for _ in program.segments)
    kernel = LLVMKernel(Unit(program.tape, program.segments, dtype), variant=replace(variant, offsets=offsets))
    out = [Guarded((count, s.length), dtype, data.draw(st.integers(0, 7))) for s in program.segments]
    kernel.batch(X, out=tuple(guard.array for guard in out))
    for guard, result in zip(out, expected, strict=True):
        guard.check()
        assert_same(guard.array, result)
    for actual, result in zip(kernel.batch(np.ascontiguousarray(X.T), transposed=True), expected, strict=True):
        assert_same(actual.T, result)


@every_dtype
@given(data=st.data())
def test_parts_hand_on_all_kinds_of_values(dtype, data):
    tape = data.draw(tapes(max_operations=60))
    count = data.draw(st.sampled_from([3, 20]))
    X = data.draw(points(count, tape.inputs, dtype))
    segments = whole(len(tape.outputs))
    one, cut = (
        LLVMKernel(Unit(tape, segments, dtype), variant=base(dtype, contract=False, part_size=size))
        for size in (10_000, data.draw(st.integers(1, 20)))
    )
    assert_same(cut.batch(X)[0], one.batch(X)[0])


@every_dtype
@given(data=st.data())
def test_a_point_has_the_same_result_wherever_it_stands_in_a_batch(dtype, data):
    program = data.draw(programs())
    X = data.draw(points(2 * lanes(dtype) + 3, program.tape.inputs, dtype))
    kernel = compile_tape(program.tape, program.segments, dtype=dtype)
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(X))
    for forward, shuffled in zip(kernel.batch(X), kernel.batch(np.ascontiguousarray(X[order])), strict=True):
        assert_same(shuffled, forward[order])


def chain(operations):
    tape = Tape(3)
    value = tape.add(0, 1)
    while tape.operations < operations:
        value = tape.add(tape.multiply(value, tape.constant(0.25 + tape.operations % 7 / 8)), tape.operations % 3)
    tape.outputs = [value, tape.apply("sin", value)]
    return tape


def test_a_program_of_many_parts():
    tape = chain(20_000)
    X = np.random.default_rng(0).uniform(-1, 1, (21, 3))
    kernel = LLVMKernel(Unit(tape, whole(2)), variant=base("float64", contract=False))
    assert kernel.source.count("define internal void @part") > 20
    assert_same(kernel.batch(X)[0], expected(tape, whole(2), X)[0], ulps=2)


@pytest.mark.parametrize("is_supported", [True, False])
def test_llvm_is_given_long_programs_some_parts_at_a_time(is_supported, monkeypatch, tmp_path):
    """It cannot be interrupted; modules are bounded, and change no bit."""
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path))
    tape = chain(8_000)
    X = np.random.default_rng(0).uniform(-1, 1, (21, 3))
    whole_kernel = compile_tape(tape, whole(2))
    monkeypatch.setattr(module, "LINES", 1_200)
    monkeypatch.setattr(library, "is_supported", lambda: is_supported)
    lines = []

    def compile_ir(text, plain=host.compile_ir, **options):
        lines.append(text.count("\n"))
        return plain(text, **options)

    monkeypatch.setattr(host, "compile_ir", compile_ir)
    for again in range(2):
        kernel = compile_tape(tape, whole(2), cache=True)
        assert_same(kernel(X[0])[0], whole_kernel(X[0])[0])
        assert_same(kernel.batch(X)[0], whole_kernel.batch(X)[0])
        transposed = np.ascontiguousarray(X.T)
        assert_same(kernel.batch(transposed, transposed=True)[0], whole_kernel.batch(transposed, transposed=True)[0])
        assert (not lines) if again else len(lines) > 3 * 7
        assert max(lines, default=0) < 1_200 + 3_000  # and what modules share
        lines.clear()


def test_scratch_memory_of_any_size():
    # a wide sum: all products are alive from one part to another; few points go through scratch rows
    tape = Tape(40)
    products = [tape.multiply(i, j) for i in range(40) for j in range(i)]
    tape.outputs = [tape.sum(products), tape.sum(reversed(products)), *products]
    X = np.random.default_rng(0).uniform(-1, 1, (9, 40))
    segments = whole(len(tape.outputs))
    kernel = LLVMKernel(Unit(tape, segments), variant=base("float64", contract=False, part_size=50))
    assert "PyMem_RawMalloc(i64" in kernel.source.split("@run(")[1]
    reference = expected(tape, segments, X)[0]
    assert_same(kernel.batch(X)[0], reference)
    assert_same(kernel(X[0])[0], reference[0])
    assert_same(kernel.batch(X[:2])[0], reference[:2])
    assert_same(kernel.batch(np.ascontiguousarray(X.T), transposed=True)[0].T, reference)


def entries(count):
    """A program with `count` results: x + 0, x + 1, …."""
    tape = Tape(1)
    tape.outputs = [tape.add(0, tape.constant(float(k))) for k in range(count)]
    return tape, whole(count)


@pytest.mark.parametrize("length", [*range(1, 20), 31, 32, 33])
def test_rows_of_every_length_at_every_alignment(length):
    tape, segments = entries(length)
    X = np.arange(50.0)[:, None]
    expected = X + np.arange(length)
    for offset in range(8):
        for count in (1, 3, 4, 5, 8, 16, 17, 50):
            guard = Guarded((count, length), "float64", offset)
            LLVM_KERNELS.setdefault(length, compile_tape(tape, segments)).batch(X[:count], out=(guard.array,))
            guard.check()
            np.testing.assert_array_equal(guard.array, expected[:count])


LLVM_KERNELS: dict = {}


def test_code_for_other_alignments_is_compiled_when_it_pays(monkeypatch):
    width = lanes("float64")
    tape, segments = entries(2 * width)
    X = np.arange(100.0)[:, None]
    kernel = compile_tape(tape, segments)
    monkeypatch.setattr(llvm_kernel, "ENTRIES_BEFORE_REALIGNMENT", 2 * 100 * 2 * width)
    kernel.prepare("batch")
    compiled = kernel._batches[(False,), False, False]
    for turn in range(4):
        guard = Guarded((100, 2 * width), "float64", offset=1)
        kernel.batch(X, out=(guard.array,))
        guard.check()
        np.testing.assert_array_equal(guard.array, X + np.arange(2 * width))
        assert len(compiled.realigned) == (turn >= 1)
    before = compiled.slow_entries
    kernel.batch(X, out=(guard.array,))
    assert compiled.slow_entries == before


@every_dtype
def test_large_batches_fetch_lines_ahead_and_agree_with_small_ones(dtype, monkeypatch):
    tape, segments = entries(21)
    X = np.arange(700.0, dtype=dtype)[:, None]
    monkeypatch.setattr(module, "BEYOND_CACHES", 100 * 21 * X.itemsize)
    kernel = LLVMKernel(Unit(tape, segments, dtype))
    assert kernel.source.count("@llvm.prefetch") == 1
    for count in (50, 100, 101, 200, 700):
        guard = Guarded((count, 21), dtype, 3)
        kernel.batch(X[:count], out=(guard.array,))
        guard.check()
        np.testing.assert_array_equal(guard.array, X[:count] + np.arange(21, dtype=dtype))
    long = LLVMKernel(Unit(*entries(1 + module.LARGEST_FETCHED // (8 * X.itemsize)), dtype), variant=Variant(8, dtype))
    assert "@llvm.prefetch" not in long.source


@every_dtype
@pytest.mark.parametrize("zeroed", [False, True])
def test_results_beyond_the_caches_are_streamed_in_tiles_and_agree(dtype, zeroed, monkeypatch):
    tape = chain(20)
    segments = (Segment(21, (0, 1), (3, 10)), Segment(1, (1,), (0,)))
    X = np.random.default_rng(0).uniform(-1, 1, (700, tape.inputs)).astype(dtype)
    expected = LLVMKernel(Unit(tape, segments, dtype)).batch(X)
    monkeypatch.setattr(ranges, "STREAMED", 300 * 22 * X.itemsize / host.last_cache())
    monkeypatch.setattr(ranges, "TILE", 1)
    kernel = LLVMKernel(Unit(tape, segments, dtype, cache=False))
    assert "!nontemporal" in kernel.source
    for count in (5, 300, 301, 448, 700):
        for offset in (0, 1, 2, 5, 8):
            guards = [Guarded((count, segment.length), dtype, offset * (k + 1)) for k, segment in enumerate(segments)]
            for guard in guards:
                guard.array[:] = 0.0 if zeroed else np.nan
            kernel.batch(X[:count], out=[guard.array for guard in guards], zeroed=zeroed)
            for guard, result in zip(guards, expected, strict=True):
                guard.check()
                assert_same(guard.array, result[:count])


@pytest.mark.parametrize("count", [1, 2, 3, 17, 1024, 1027, 2048])
@pytest.mark.parametrize("width", [2, 4, 8])
def test_transposed_batches_agree_however_far_variables_are_apart(width, count):
    # of the two ways to go, narrow vectors take the one for variables that collide where the count is a power of two
    tape = chain(20)
    segments = (Segment(12, (0, 1), (3, 10)), Segment(2, (1, 0), (0, 1)))
    X = np.random.default_rng(0).uniform(-1, 1, (count, tape.inputs))
    kernel = LLVMKernel(Unit(tape, segments), variant=Variant(width, contract=False))
    expected = kernel.batch(X)
    guards = [Guarded((segment.length, count), "float64", 1) for segment in segments]
    kernel.batch(np.ascontiguousarray(X.T), out=[guard.array for guard in guards], transposed=True)
    for guard, result in zip(guards, expected, strict=True):
        guard.check()
        assert_same(guard.array.T, result)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("streamed", [False, True])
def test_transposed_batches_agree_wherever_results_begin(width, dtype, streamed, monkeypatch):
    if streamed:
        monkeypatch.setattr(ranges, "STREAMED", 0.0)
    tape = chain(20)
    segments = (Segment(12, (0, 1), (3, 10)), Segment(2, (1, 0), (0, 1)))
    unit = Unit(tape, segments, dtype, cache=False)
    kernel = LLVMKernel(unit, variant=Variant(width, dtype, contract=False))
    for count in (width, 64, 80, 83, 4 * width + 16, *((256, 400, 1024) if streamed else ())):
        X = np.random.default_rng(0).uniform(-1, 1, (count, tape.inputs)).astype(dtype)
        expected, columns = kernel.batch(X), np.ascontiguousarray(X.T)
        for offset in range(16):
            guards = [Guarded((segment.length, count), dtype, offset * (k + 1)) for k, segment in enumerate(segments)]
            out = [guard.array for guard in guards]
            kernel.batch(columns, out=out, transposed=True)
            for guard, result in zip(guards, expected, strict=True):
                guard.check()
                assert_same(guard.array.T, result)
                guard.array[:] = np.nan
            first, last = offset, count - offset // 2
            kernel.run(Batch((columns,), out, (False,), transposed=True), first, last)
            for guard, result in zip(guards, expected, strict=True):
                guard.check()
                assert_same(guard.array.T[first:last], result[first:last])
                assert np.isnan(guard.array[:, :first]).all()
                assert np.isnan(guard.array[:, last:]).all()


def test_memory_for_code_is_freed_with_the_kernel():
    tape, segments = entries(3)
    kernel = compile_tape(tape, segments)
    kernel.batch(np.zeros((4, 1)))
    kernel.batch(np.zeros((1, 4)), transposed=True)
    np.testing.assert_array_equal(kernel(np.array([1.0]))[0], [1.0, 2.0, 3.0])
    one_point, out = kernel.point(), np.zeros(3)
    libraries = [weakref.ref(compiled.library) for compiled in kernel._batches.values()]
    assert len(libraries) == 2
    del kernel
    assert all(library() is None for library in libraries)
    # what calls the code keeps it
    assert one_point(np.array([1.0]), out) is None
    np.testing.assert_array_equal(out, [1.0, 2.0, 3.0])


def test_many_threads_may_use_one_kernel():
    tape = chain(300)
    kernel = compile_tape(tape, whole(2))
    X = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    expected = kernel.batch(X)[0]
    failures = []

    def work(seed):
        generator = np.random.default_rng(seed)
        for _ in range(50):
            start, count = generator.integers(0, 400), generator.integers(1, 100)
            chunk = np.ascontiguousarray(X[start : start + count])
            transposed = bool(seed % 2)
            actual = kernel.batch(np.ascontiguousarray(chunk.T) if transposed else chunk, transposed=transposed)[0]
            if not np.array_equal(actual.T if transposed else actual, expected[start : start + count]):
                failures.append(seed)
            if not np.array_equal(kernel(X[start])[0], expected[start]):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_two_compilations_give_the_same_bits():
    tape, segments = chain(500), whole(2)
    X = np.random.default_rng(0).uniform(-1, 1, (101, 3))
    first, second = (compile_tape(tape, segments) for _ in range(2))
    assert first.source == second.source
    np.testing.assert_array_equal(first.batch(X)[0], second.batch(X)[0])


@every_dtype
@pytest.mark.parametrize("seed", range(4))
def test_code_for_one_point_is_compiled_quickly_and_has_the_bits_of_batches(dtype, seed):
    # sums of products, some of which are used elsewhere, too; calls at both ends of chains
    rng = np.random.default_rng(seed)
    tape = Tape(6)
    values = list(range(6))
    kinds = ("multiply", "add", "subtract", "divide", "negative", "sin")
    for _ in range(300):
        name = str(rng.choice(kinds, p=(0.4, 0.25, 0.2, 0.05, 0.05, 0.05)))
        taken = rng.integers(len(values), size=1 if name in ("negative", "sin") else 2)
        values.append(tape.apply(name, *(values[k] for k in taken)))
    tape.outputs = values[6::5]
    kernel = compile_tape(tape, whole(60), dtype=dtype)
    emitted = module.module(Unit(tape, kernel.segments, arguments=kernel.arguments), Variant(1, dtype, single=True))
    assert emitted.is_short
    assert "contract" in str(emitted.text)
    X = rng.uniform(-1.2, 1.2, (2 * lanes(dtype) + 1, 6)).astype(dtype)
    together = kernel.batch(X)[0]
    assert np.isfinite(together).mean() > 0.9
    for x, row in zip(X, together, strict=True):
        assert_same(kernel(x)[0], row, signs=True)


def test_long_code_and_loops_are_compiled_with_care():
    def is_short(tape, outputs, **changes):
        return module.module(Unit(tape, whole(outputs), arguments=((tape.inputs,),)), Variant(1, **changes)).is_short

    assert is_short(chain(500), 2, single=True)
    assert not is_short(chain(500), 2)
    assert not is_short(chain(2000), 2, single=True)
    copies = Tape(1)
    copies.outputs = [copies.add(0, copies.constant(float(k))) for k in range(4000)]
    assert not is_short(copies, 4000, single=True)


def test_programs_that_wait_for_long_chains_are_computed_two_vectors_at_a_time():
    tape = Tape(1)
    tape.outputs = [tape.apply("exp", tape.apply("tanh", 0))]
    assert tune(tape, whole(1), "float64") == Variant(2 * lanes("float64"), critical_path=True)
    assert tune(tape, whole(1), "float32").lanes == lanes("float32")
    assert tune(chain(2000), whole(2), "float64") == Variant(lanes("float64"))


def test_transposed_blocks_are_as_wide_as_a_cache_line_or_two():
    one = lanes("float64")
    copies = Tape(1)
    copies.outputs = [copies.add(0, copies.constant(float(k))) for k in range(40)]
    assert tune(copies, whole(40), "float64").lanes == (one // 2 if one == 8 else one)
    assert tune(copies, whole(40), "float64", transposed=True).lanes == one
    multiples = Tape(41)
    slow = multiples.apply("exp", 0)
    multiples.outputs = [multiples.multiply(slow, k) for k in range(1, 41)]
    assert tune(multiples, whole(40), "float64").lanes == one
    assert tune(multiples, whole(40), "float64", transposed=True).lanes == 2 * one


def test_wide_blocks_are_in_the_order_of_the_critical_path_if_that_fits_the_registers():
    def tuned(values):
        tape = Tape(values + 1)
        sums = [tape.add(k, k + 1) for k in range(values)]
        total = sums[0]
        for value in sums[1:]:
            total = tape.add(total, value)
        slow = tape.apply("exp", total)
        tape.outputs = [tape.multiply(slow, value) for value in sums]
        return tune(tape, whole(values), "float64", transposed=True)

    assert tuned(8) == Variant(2 * lanes("float64"), transposed=True, critical_path=True)
    assert tuned(40) == Variant(2 * lanes("float64"), transposed=True)


def test_a_point_and_a_batch_fuse_equally_with_many_results():
    # a long chain of divisions asks for the critical path first; the sums of products, many results, parts
    tape = Tape(40)
    value = 0
    for k in range(200):
        value = tape.divide(tape.constant(1.0), tape.add(value, k % 40))
    products = [
        tape.add(tape.multiply(value, i), tape.multiply(i, j)) for i in range(40) for j in range(i, i + 7) if j < 40
    ]
    tape.outputs = [products[k % len(products)] for k in range(1200)]
    segments = whole(1200)
    assert tune(tape, whole(200), "float64").critical_path
    assert not tune(tape, segments, "float64").critical_path
    kernel = compile_tape(tape, segments)
    assert "@part" in kernel.source
    X = np.random.default_rng(0).uniform(0.5, 1.5, (11, 40))
    together = kernel.batch(X)[0]
    for x, row in zip(X, together, strict=True):
        assert_same(kernel(x)[0], row)


@given(data=st.data())
def test_the_order_of_the_critical_path_is_an_order(data):
    program = data.draw(programs())
    results = groups(program.tape, program.segments, 1)
    usual = order(program.tape, results)
    steps = list(order_by_critical_path(program.tape, results))
    assert [step for step in steps if isinstance(step, ResultGroup)] == results
    assert sorted(step for step in steps if not isinstance(step, ResultGroup)) == sorted(
        step for step in usual if not isinstance(step, ResultGroup)
    )
    ready = set(range(program.tape.inputs))
    for step in steps:
        used = step.references if isinstance(step, ResultGroup) else program.tape.arguments(step)
        assert all(reference is None or reference < 0 or reference in ready for reference in used)
        if not isinstance(step, ResultGroup):
            ready.add(step)


def test_every_row_of_the_table_can_be_compiled_without_a_vector_library(monkeypatch):
    from accumulus.targets.llvm import instructions

    monkeypatch.setattr(instructions, "vector_symbol", lambda *_: None)
    monkeypatch.setattr(instructions, "VECTOR_FUNCTIONS", {})
    tape = Tape(2)
    rows = [
        row for row in OPERATIONS if row.llvm.startswith("@") and "order" not in row.arguments and not row.is_scipys
    ]
    tape.outputs = [tape.apply(row.name, *range(row.arity)) for row in rows]
    X = np.random.default_rng(0).uniform(0.1, 0.9, (7, 2))
    kernel = LLVMKernel(Unit(tape, whole(len(rows))), variant=base("float64"))
    assert "_ZGV" not in kernel.source
    assert_same(kernel.batch(X)[0], expected(tape, whole(len(rows)), X)[0], ulps=8)


def test_constants_and_inputs_as_results():
    tape = Tape(2)
    tape.outputs = [1, tape.constant(2.5), 0, 1, tape.constant(np.inf), tape.constant(np.nan), tape.constant(-0.0)]
    segments = (Segment(9, (0, 1, 2, 3, 4, 5, 6), (8, 1, 2, 3, 4, 5, 6)),)
    X = np.arange(14.0).reshape(7, 2)
    assert_same(compile_tape(tape, segments).batch(X)[0], expected(tape, segments, X)[0])
    assert len(CONSTANTS) > 5


def test_results_before_many_zeros_are_handed_on_to_where_they_are_stored():
    """Columns wait for those beside them, which may be zeros of the next part."""
    x = np.random.default_rng(0).random(400) + 0.5

    def f(x):
        rows = x.reshape(100, 4)
        return np.concatenate([np.tanh(row @ row[::-1]) * row for row in rows])

    jacobian = acc.jacobian(f, cache=False)
    X = np.stack([x, x + 0.01])
    np.testing.assert_array_equal(jacobian.batch(X), [jacobian(point) for point in X])
