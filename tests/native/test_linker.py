"""The small linker against LLVM's: the same code runs; what it does not know it says."""

from __future__ import annotations

import ctypes
import gc
import struct

import numpy as np
import pytest

from accumulus.native import linker
from accumulus.native.linker import Linked, UnknownObjectError, address_of, is_supported
from accumulus.targets.llvm.host import LinkedByLLVM, compile_ir, host

pytestmark = pytest.mark.skipif(not is_supported(), reason="made for Linux on x86-64")

TEXT = """
@cleared = global [3 x double] zeroinitializer
@filled = global [2 x double] [double 1.5, double 2.5]
@pointer = global ptr @filled
@table = external constant double
@other = external global double
declare double @cos(double)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal double @halved(double %x) noinline {
%y = fmul double %x, 0.5
ret double %y
}
define double @f(double %x) {
%a = call double @cos(double %x)
%b = call double @halved(double %a)
%c = load double, ptr @table
%d = load double, ptr @other
%e = fmul double %c, %d
%place = load ptr, ptr @pointer
%g = load double, ptr %place
%h = fadd double %b, %e
%i = fadd double %h, %g
store double %i, ptr @cleared
ret double %i
}
define void @copy(ptr %to, ptr %from, i64 %size) {
call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
ret void
}
define i64 @choose(i64 %k) {
switch i64 %k, label %none [ i64 0, label %a
 i64 1, label %b
 i64 2, label %c
 i64 3, label %d
 i64 4, label %e ]
a: ret i64 10
b: ret i64 21
c: ret i64 5
d: ret i64 77
e: ret i64 3
none: ret i64 -1
}
"""


@pytest.fixture(scope="module")
def image():
    machine = host()
    return compile_ir(f'target triple = "{machine.triple}"\ntarget datalayout = "{machine.layout}"\n{TEXT}')


TABLES = np.array([3.0, 7.0])
IMPORTS = {"table": TABLES.ctypes.data, "other": TABLES.ctypes.data + 8}
EXPORTS = ("f", "copy", "choose", "cleared", "filled")


@pytest.mark.parametrize("link", [Linked, lambda *given: LinkedByLLVM(*given, ("cos",))], ids=["own", "LLVM"])
def test_code_runs(image, link):
    linked = link(image, EXPORTS, IMPORTS)
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(linked.addresses["f"])
    assert f(0.5) == 0.5 * np.cos(0.5) + 21.0 + 1.5
    assert ctypes.c_double.from_address(linked.addresses["cleared"]).value == f(0.5)
    ctypes.c_double.from_address(linked.addresses["filled"]).value = 100.0
    assert f(0.0) == 121.5
    choose = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(linked.addresses["choose"])
    assert [choose(k) for k in (0, 1, 2, 3, 4, 5, -1)] == [10, 21, 5, 77, 3, -1, -1]
    copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(linked.addresses["copy"])
    there = np.zeros(2)
    copy(there.ctypes.data, TABLES.ctypes.data, 16)
    assert there.tolist() == TABLES.tolist()


def test_each_has_separate_memory_and_frees_it(image):
    first, second = (Linked(image, EXPORTS, IMPORTS) for _ in range(2))
    assert not set(first.addresses.values()) & set(second.addresses.values())

    def pieces():
        with open("/proc/self/maps") as file:
            return len(file.readlines())

    gc.collect()
    before = pieces()
    many = [Linked(image, EXPORTS, IMPORTS) for _ in range(50)]
    del many
    gc.collect()
    assert pieces() < before + 20


def test_code_cannot_be_written(image):
    linked = Linked(image, EXPORTS, IMPORTS)
    with open("/proc/self/maps") as file:
        for line in file:
            span, rights = line.split()[:2]
            start, end = (int(number, 16) for number in span.split("-"))
            if start <= linked.addresses["f"] < end:
                assert rights.startswith("r-x")
                return
    raise AssertionError("the code is not in memory")


def test_addresses():
    assert address_of("cos") == ctypes.cast(ctypes.CDLL(None).cos, ctypes.c_void_p).value
    assert address_of("no_such_function_anywhere") == 0


def test_missing_symbols_are_named(image):
    with pytest.raises(UnknownObjectError, match="nothing is called other"):
        Linked(image, EXPORTS, {"table": 8})
    with pytest.raises(UnknownObjectError, match="does not have nothing"):
        Linked(image, ("f", "nothing"), IMPORTS)


def test_files_that_are_cut_off_or_something_else(image):
    for length in [*range(0, 200, 7), len(image) // 2, len(image) - 1]:
        with pytest.raises(UnknownObjectError):
            Linked(image[:length], EXPORTS, IMPORTS)
    with pytest.raises(UnknownObjectError, match="x86-64"):
        Linked(image[:18] + struct.pack("<H", 183) + image[20:], EXPORTS, IMPORTS)
    with pytest.raises(UnknownObjectError):
        Linked(b"MZ" + image[2:], EXPORTS, IMPORTS)


def test_kinds_of_relocations_that_it_does_not_know(image, monkeypatch):
    monkeypatch.setattr(linker, "_SLOTS", ())
    with pytest.raises(UnknownObjectError, match="relocations of the kinds"):
        Linked(image, EXPORTS, IMPORTS)


def test_a_system_that_forbids_it(image, monkeypatch):
    class Refusing:
        def mprotect(self, *arguments):
            return -1

    monkeypatch.setattr(linker, "_process", Refusing)
    with pytest.raises(UnknownObjectError, match="executed"):
        Linked(image, EXPORTS, IMPORTS | {"cos": address_of("cos")})
