"""CUDA source: compiled by NVRTC, which needs no GPU, and run, thread by thread, as C++ for this processor."""

from __future__ import annotations

import ctypes
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from cuda_shim import MACHINES, compiled, gpu
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import OPERATIONS
from kernels import assert_same, expected, whole
from looped import unrolled
from strategies import EXACT, points, programs
from test_c_loops import FUNCTIONS

import accumulus as acc
from accumulus import Tape
from accumulus.errors import ArgumentError
from accumulus.targets import Segment, compile_tape, emit_source, languages, targets
from accumulus.targets.c import cuda_source


def launched(tape, segments, X, transposed, machine="processor"):
    """Results of the kernel on the GPU, or compiled for this processor."""
    arrays = [np.ascontiguousarray(X.T if transposed else X)]
    arrays += [np.full((s.length, len(X)) if transposed else (len(X), s.length), 7.0, X.dtype) for s in segments]
    layout = [((1, len(X)) if transposed else (array.shape[1], 1)) for array in arrays]
    text, grid = emit_source(tape, segments, "cuda", dtype=str(X.dtype)), (len(X) // 64 + 1, 64)
    if machine == "processor":
        placed = [array.ctypes.data for array in arrays]
        run = compiled(text, *([] if transposed else ["F_ROWS"]))
        run(*grid, len(X), *(each for pair in zip(placed, layout, strict=True) for each in (pair[0], *pair[1])))
    else:
        options = ("--fmad=false", *([] if transposed else ["-DF_ROWS"]))
        placed = [gpu().asarray(array) for array in arrays]
        parameters = [each for pair in zip(placed, layout, strict=True) for each in (pair[0], *map(np.int64, pair[1]))]
        run = gpu().RawModule(code=text, options=options).get_function("f")
        run((grid[0],), (grid[1],), (np.int64(len(X)), *parameters))
        arrays = [gpu().asnumpy(array) for array in placed]
    return [array.T if transposed else array for array in arrays[1:]]


needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@needs_a_compiler
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("longest", [None, 7])
@settings(max_examples=4)
@given(data=st.data())
def test_a_thread_computes_a_point(data, machine, longest):
    program = data.draw(programs(names=EXACT - {"multiply"}))
    X = data.draw(points(37, program.tape.inputs, data.draw(st.sampled_from(["float64", "float32"]))))
    with pytest.MonkeyPatch.context() as patch:
        if longest:  # a function for so many operations
            patch.setattr(cuda_source, "LONGEST", longest)
            patch.setattr(cuda_source, "LONGEST_WHOLE", 0)
        actual = launched(program.tape, program.segments, X, data.draw(st.booleans()), machine)
    for one, other in zip(actual, expected(program.tape, program.segments, X), strict=True):
        assert_same(one, other)


def everything():
    """A tape of every operation, those of special functions with order 3."""
    tape = Tape(2)
    rows = [
        row for row in OPERATIONS if row.arity and not row.is_scipys and "boolean" not in (row.result, *row.arguments)
    ]
    tape.outputs = [
        tape.apply(row.name, *(tape.constant(3.0) if kind == "order" else k for k, kind in enumerate(row.arguments)))
        for row in rows
    ]
    return tape, whole(len(rows))


@needs_a_compiler
@pytest.mark.parametrize("longest", [None, 7])
@pytest.mark.parametrize("machine", MACHINES)
def test_every_operation_is_that_of_llvm(machine, longest, monkeypatch):
    if longest:
        monkeypatch.setattr(cuda_source, "LONGEST", longest)
        monkeypatch.setattr(cuda_source, "LONGEST_WHOLE", 0)
    tape, segments = everything()
    X = np.array([[0.3, 0.7], [1.5, 2.5], [0.9, 9.0], [np.nan, 1.0]])
    expected = compile_tape(tape, segments).batch(X)[0]
    (actual,) = launched(tape, segments, X, False, machine)
    np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-14)


class NVRTC:
    """NVIDIA's compiler as a library."""

    def __init__(self):
        result = find_spec("nvidia.cuda_nvrtc") if find_spec("nvidia") else None
        if result is None or not result.submodule_search_locations:
            pytest.skip("needs nvidia-cuda-nvrtc-cu12")
        (folder, *_) = result.submodule_search_locations
        self.library = ctypes.CDLL(str(Path(folder, "lib", "libnvrtc.so.12")))

    def ptx(self, text, *defined):
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        listed = ["--fmad=false", "--gpu-architecture=compute_80", *(f"-D{name}" for name in defined)]
        options = (ctypes.c_char_p * len(listed))(*map(str.encode, listed))
        assert not self.library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"f.cu", 0, None, None)
        failed = self.library.nvrtcCompileProgram(program, len(listed), options)
        self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.library.nvrtcGetProgramLog(program, log)
        assert not failed, log.value.decode()
        assert not log.value.strip(), log.value.decode()
        self.library.nvrtcGetPTXSize(program, ctypes.byref(size))
        ptx = ctypes.create_string_buffer(size.value)
        self.library.nvrtcGetPTX(program, ptx)
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return ptx.value.decode()


@pytest.fixture(scope="module")
def nvrtc():
    return NVRTC()


@pytest.mark.parametrize("defined", [(), ("F_ROWS",)])
@pytest.mark.parametrize(("dtype", "longest"), [("float64", None), ("float32", None), ("float64", 100)])
def test_nvidias_compiler_takes_every_operation(nvrtc, dtype, longest, defined, monkeypatch):
    if longest:
        monkeypatch.setattr(cuda_source, "LONGEST", longest)
        monkeypatch.setattr(cuda_source, "LONGEST_WHOLE", 0)
    tape, segments = everything()
    assert ".entry f(" in nvrtc.ptx(emit_source(tape, segments, "cuda", dtype=dtype), *defined)


def test_values_are_in_registers_and_rounded_as_they_are_to_be(nvrtc):
    tape = Tape(3)
    product = tape.multiply(0, 1)
    tape.outputs = [tape.add(product, 2), tape.apply("floor", tape.add(tape.multiply(0, 2), 1)), tape.constant(np.inf)]
    text = emit_source(tape, (Segment(9, (0, 1, 2), (1, 5, 6)),), "cuda")
    ptx = nvrtc.ptx(text)
    assert ".local" not in nvrtc.ptx(text, "F_ROWS")
    assert ptx.count("fma.rn.f64") == 1  # the other product reaches a jump
    assert ptx.count("mul.f64") + ptx.count("mul.rn.f64") == 1
    assert ".local" not in ptx


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nvidias_compiler_takes_loops_of_every_kind(nvrtc, function):
    with unrolled(0):
        made = acc.value_and_jacobian(function, (0, 1), cache=False, effort="fast").compile(np.ones(24), 1.3)
    text = made.source("cuda")
    assert ".entry f(" in nvrtc.ptx(text)
    assert ".entry f(" in nvrtc.ptx(text, "F_WORK")
    assert "fma(" in text


def test_names_are_those_of_c():
    assert "cuda" in languages()
    assert "cuda" not in targets()
    tape, segments = everything()
    with pytest.raises(ArgumentError, match="of CUDA"):
        emit_source(tape, segments, "cuda", name="while")
