"""Ways to hold a value outside of a function's arguments, where Python code names it late or not at all.

Memory that other objects share, texts that name attributes, modules that are looked up in the body, state of threads
and contexts, iterators, clocks. Ways that code names are in `frontends/test_every_change.py`.
"""

# ruff: noqa: B024, E501, PLC3002, PLW0108, SIM905, UP030, UP031, UP032

from __future__ import annotations

import abc
import array
import collections
import contextlib
import contextvars
import copy
import csv
import ctypes
import dataclasses
import datetime
import decimal
import enum
import functools
import gc
import hashlib
import inspect
import io
import itertools
import json
import linecache
import locale
import logging
import mmap
import multiprocessing
import operator
import os
import pickle
import queue
import random
import re
import secrets
import sqlite3
import string
import struct
import sys
import tempfile
import threading
import time
import types
import warnings
import weakref
from types import ModuleType, SimpleNamespace
from xml.etree import ElementTree

import numpy as np

import accumulus as acc
from accumulus.errors import AccumulusError

X = np.array([0.5, 2.0])
OPTIONS = {"effort": "fast", "optimise": False, "cache": False, "time_limit": 0.0}


class Model:
    """An object of a user's class with an attribute."""

    def __init__(self, k=2.0):
        self.k = k


class Point(ctypes.Structure):
    _fields_ = [("k", ctypes.c_double), ("n", ctypes.c_int)]


class Either(ctypes.Union):
    _fields_ = [("k", ctypes.c_double), ("bits", ctypes.c_longlong)]


def set_k(held, value=5.0):
    held.k = value


def put(key, value=5.0):
    return lambda held: held.__setitem__(key, value)


def shared_memory():
    from multiprocessing import shared_memory as memory

    held = memory.SharedMemory(create=True, size=8)
    weakref.finalize(held, held.unlink)
    held.buf[:8] = struct.pack("d", 2.0)
    return held


def mapped():
    held = mmap.mmap(-1, 8)
    held[:8] = struct.pack("d", 2.0)
    return held


def bytes_of(value):
    return bytearray(struct.pack("d", value))


def rewrite(held):
    held[:8] = struct.pack("d", 5.0)


def stream(held):
    held.seek(0)
    held.write(struct.pack("d", 5.0))
    held.seek(0)


def first(stream):
    stream.seek(0)
    return struct.unpack("d", stream.read(8))[0]


#: Name → what is held, the number that a function reads from it, a change of that number.
HELD = {
    # memory of C
    "ctypes scalar": (lambda: ctypes.c_double(2.0), lambda held: held.value, lambda held: setattr(held, "value", 5.0)),
    "ctypes structure": (lambda: Point(2.0), lambda held: held.k, set_k),
    "ctypes union": (lambda: Either(2.0), lambda held: held.k, set_k),
    "ctypes array": (lambda: (ctypes.c_double * 2)(2.0, 3.0), lambda held: held[0], put(0)),
    "ctypes array of structures": (lambda: (Point * 2)(), lambda held: held[1].k, lambda held: set_k(held[1])),
    "ctypes pointer": (
        lambda: ctypes.pointer(ctypes.c_double(2.0)),
        lambda held: held.contents.value,
        lambda held: setattr(held.contents, "value", 5.0),
    ),
    "ctypes cast": (
        lambda: (ctypes.c_double * 2)(2.0, 3.0),
        lambda held: ctypes.cast(held, ctypes.POINTER(ctypes.c_double))[0],
        put(0),
    ),
    "ctypes from a buffer": (lambda: bytes_of(2.0), lambda held: ctypes.c_double.from_buffer(held).value, rewrite),
    "array of ctypes": (lambda: (ctypes.c_double * 2)(2.0, 3.0), lambda held: np.ctypeslib.as_array(held)[0], put(0)),
    "array of a ctypes pointer": (
        lambda: ctypes.cast((ctypes.c_double * 2)(2.0, 3.0), ctypes.POINTER(ctypes.c_double)),
        lambda held: np.ctypeslib.as_array(held, (2,))[0],
        put(0),
    ),
    "ctypes in an object": (
        lambda: Model(ctypes.c_double(2.0)),
        lambda held: held.k.value,
        lambda held: setattr(held.k, "value", 5.0),
    ),
    "large ctypes array": (lambda: (ctypes.c_double * 5000)(2.0), lambda held: held[0], put(0)),
    # buffers
    "frombuffer": (lambda: bytes_of(2.0), lambda held: np.frombuffer(held)[0], rewrite),
    "array from a buffer": (lambda: bytes_of(2.0), lambda held: np.ndarray(1, float, held)[0], rewrite),
    "struct": (lambda: bytes_of(2.0), lambda held: struct.unpack_from("d", held)[0], rewrite),
    "int from bytes": (lambda: bytearray(b"\x02"), lambda held: int.from_bytes(held, "big"), put(0, 5)),
    "long bytearray": (lambda: bytearray(9000), lambda held: held[8000], put(8000, 5)),
    "bytearray that grows": (lambda: bytearray(2), len, lambda held: held.extend(b"abc")),
    "array.array": (lambda: array.array("d", [2.0]), lambda held: np.asarray(held)[0], put(0)),
    "memoryview": (lambda: memoryview(bytes_of(2.0)), lambda held: held.cast("B").cast("d")[0], rewrite),
    "memoryview of every other byte": (
        lambda: memoryview(bytearray(b"\x02\x00\x03"))[::2],
        lambda held: held[1],
        put(1, 5),
    ),
    "memoryview of ctypes": (
        lambda: memoryview((ctypes.c_byte * 2)(2, 3)),
        lambda held: float(held.tobytes()[0]),
        lambda held: held.obj.__setitem__(0, 5),
    ),
    "mmap": (mapped, lambda held: struct.unpack("d", held[:8])[0], rewrite),
    "frombuffer of a mmap": (mapped, lambda held: np.frombuffer(held)[0], rewrite),
    "shared memory": (shared_memory, lambda held: struct.unpack_from("d", held.buf)[0], lambda held: rewrite(held.buf)),
    "multiprocessing.Value": (
        lambda: multiprocessing.Value("d", 2.0),
        lambda held: held.value,
        lambda held: setattr(held, "value", 5.0),
    ),
    "multiprocessing.RawValue": (
        lambda: multiprocessing.RawValue("d", 2.0),
        lambda held: held.value,
        lambda held: setattr(held, "value", 5.0),
    ),
    "multiprocessing.Array": (lambda: multiprocessing.Array("d", [2.0]), lambda held: held[0], put(0)),
    "BytesIO": (lambda: io.BytesIO(struct.pack("d", 2.0)), first, stream),
    "buffer of BytesIO": (
        lambda: io.BytesIO(struct.pack("d", 2.0)),
        lambda held: np.frombuffer(held.getbuffer())[0],
        stream,
    ),
    "value of BytesIO": (
        lambda: io.BytesIO(struct.pack("d", 2.0)),
        lambda held: struct.unpack("d", held.getvalue())[0],
        stream,
    ),
    "StringIO": (lambda: io.StringIO("2.0"), lambda held: float(held.getvalue()), lambda held: held.write("5.0")),
    "lines of StringIO": (
        lambda: io.StringIO("2.0\n5.0\n"),
        lambda held: float(held.seek(0) or next(held)),
        lambda held: (held.seek(0), held.write("5.0")),
    ),
    "BytesIO in an object": (
        lambda: Model(io.BytesIO(b"2.0")),
        lambda held: float(held.k.getvalue()),
        lambda held: held.k.write(b"5.0"),
    ),
    "row of a structured array": (
        lambda: np.array([(2.0, 1)], [("k", float), ("n", int)])[0],
        lambda held: held["k"],
        put("k"),
    ),
    "record": (lambda: np.rec.array([(2.0, 1)], [("k", float), ("n", int)])[0], lambda held: held.k, set_k),
    "recarray": (
        lambda: np.rec.array([(2.0, 1)], [("k", float), ("n", int)]),
        lambda held: held.k[0],
        lambda held: held.k.__setitem__(0, 5.0),
    ),
    "flat": (lambda: np.array([2.0, 3.0]).flat, lambda held: held[0], put(0)),
    "nditer": (
        lambda: np.nditer(np.array([2.0]), op_flags=["readwrite"]),
        lambda held: float(held[0]),
        lambda held: held[0].__setitem__((), 5.0),
    ),
    "interface": (
        lambda: (lambda a: (a, SimpleNamespace(__array_interface__=a.__array_interface__)))(np.array([2.0])),
        lambda held: np.asarray(held[1])[0],
        lambda held: put(0)(held[0]),
    ),
    "strided": (
        lambda: np.array([2.0, 3.0]),
        lambda held: np.lib.stride_tricks.sliding_window_view(held, 2)[0, 0],
        put(0),
    ),
    # texts that name attributes
    "format": (Model, lambda held: float("{0.k}".format(held)), set_k),
    "format by name": (Model, lambda held: float("{held.k}".format(held=held)), set_k),
    "format of format": (Model, lambda held: float("{0.k:.{0.digits}f}".format(held)), set_k),
    "format with a conversion": (Model, lambda held: float("{0.k!r}".format(held)), set_k),
    "format of an item": (lambda: {"k": 2.0}, lambda held: float("{0[k]}".format(held)), put("k")),
    "format of an item's attribute": (
        lambda: [Model()],
        lambda held: float("{0[0].k}".format(held)),
        lambda held: set_k(held[0]),
    ),
    "format of a text that is held": (
        lambda: ("{0.k}", Model()),
        lambda held: float(held[0].format(held[1])),
        lambda held: set_k(held[1]),
    ),
    "format of a computed text": (Model, lambda held: float(("{0." + "k".lower() + "}").format(held)), set_k),
    "format of bytes": (Model, lambda held: float(b"{0.k}".decode().format(held)), set_k),
    "format of a map": (Model, lambda held: float("{k}".format_map(vars(held))), set_k),
    "str.format": (Model, lambda held: float(str.format("{0.k}", held)), set_k),
    "mapped format": (Model, lambda held: float(next(map("{0.k}".format, [held]))), set_k),
    "f-string": (Model, lambda held: float(f"{held.k}"), set_k),
    "f-string with a specification": (Model, lambda held: float(f"{2.0:.{int(held.k)}f}") + held.k, set_k),
    "percent": (lambda: {"k": 2.0}, lambda held: float("%(k)s" % held), put("k")),
    "percent of attributes": (Model, lambda held: float("%(k)s" % vars(held)), set_k),
    "Template": (Model, lambda held: float(string.Template("$k").substitute(vars(held))), set_k),
    "Template of an object": (Model, lambda held: float(string.Template("$k").substitute(k=held.k)), set_k),
    "Formatter": (Model, lambda held: float(string.Formatter().format("{0.k}", held)), set_k),
    "vformat": (Model, lambda held: float(string.Formatter().vformat("{m.k}", (), {"m": held})), set_k),
    "attrgetter": (Model, lambda held: operator.attrgetter("k")(held), set_k),
    "attrgetter of a path": (
        lambda: Model(Model()),
        lambda held: operator.attrgetter("k.k")(held),
        lambda held: set_k(held.k),
    ),
    "attrgetter that is held": (
        lambda: (operator.attrgetter("k.k"), Model(Model())),
        lambda held: held[0](held[1]),
        lambda held: set_k(held[1].k),
    ),
    "attrgetter of a computed name": (Model, lambda held: operator.attrgetter("K".lower())(held), set_k),
    "names that are split": (Model, lambda held: getattr(held, "j k".split()[1]), set_k),
    "path that is split": (
        lambda: Model(Model()),
        lambda held: functools.reduce(getattr, "k.k".split("."), held),
        lambda held: set_k(held.k),
    ),
    "logging record": (
        Model,
        lambda held: float(logging.Formatter("%(k)s").format(logging.makeLogRecord(vars(held)))),
        set_k,
    ),
    # names that are computed, and all names
    "getattr": (Model, lambda held: getattr(held, "K".lower()), set_k),
    "getattr that is held": (
        lambda: (getattr, Model()),
        lambda held: held[0](held[1], "K".lower()),
        lambda held: set_k(held[1]),
    ),
    "getattr by another name": (Model, lambda held: ATTRIBUTE(held, "K".lower()), set_k),
    "object.__getattribute__": (Model, lambda held: object.__getattribute__(held, "K".lower()), set_k),
    "__getattribute__": (Model, lambda held: held.__getattribute__("K".lower()), set_k),
    "hasattr": (Model, lambda held: 5.0 if hasattr(held, "J".lower()) else 2.0, lambda held: setattr(held, "j", 1.0)),
    "vars": (Model, lambda held: vars(held)["K".lower()], set_k),
    "__dict__": (Model, lambda held: held.__dict__["K".lower()], set_k),
    "keys of vars": (Model, lambda held: float(len(vars(held))), lambda held: setattr(held, "j", 1.0)),
    "dir": (
        Model,
        lambda held: float(len([n for n in dir(held) if n[0] != "_"])),
        lambda held: setattr(held, "j", 1.0),
    ),
    "dir of a class": (
        lambda: type("Model", (), {"k": 2.0}),
        lambda held: float(len([n for n in dir(held) if n[0] != "_"])),
        lambda held: setattr(held, "j", 1.0),
    ),
    "dir of an instance, by its class": (
        Model,
        lambda held: float(sum(n.startswith("key") for n in dir(held))),
        lambda held: setattr(type(held), "key", 1.0),
    ),
    "dir and getattr": (
        Model,
        lambda held: sum(getattr(held, n) for n in dir(held) if n[0] != "_"),
        lambda held: setattr(held, "j", 5.0),
    ),
    "__dir__": (
        Model,
        lambda held: float(len([n for n in held.__dir__() if n[0] != "_"])),
        lambda held: setattr(held, "j", 1.0),
    ),
    "dir of a module": (
        lambda: ModuleType("constants"),
        lambda held: float(len(dir(held))),
        lambda held: setattr(held, "j", 1.0),
    ),
    "vars of a module": (
        lambda: ModuleType("constants"),
        lambda held: float(len(vars(held))),
        lambda held: setattr(held, "j", 1.0),
    ),
    "all of a module": (
        lambda: with_k(ModuleType("constants")),
        lambda held: sum(v for n, v in vars(held).items() if n[0] != "_"),
        set_k,
    ),
    "vars of a class": (lambda: type("Model", (), {"k": 2.0}), lambda held: vars(held)["K".lower()], set_k),
    "getmembers": (Model, lambda held: dict(inspect.getmembers(held))["K".lower()], set_k),
    "getattr_static": (Model, lambda held: inspect.getattr_static(held, "K".lower()), set_k),
    "getattr of a class": (
        lambda: Classed(),
        lambda held: getattr(held, "K".lower()),
        lambda held: setattr(Classed, "k", 5.0),
    ),
    "getattr of a class that is held": (
        lambda: Classed,
        lambda held: getattr(held, "K".lower()),
        lambda held: setattr(held, "k", 5.0),
    ),
    "getattr of a base": (
        lambda: type("Derived", (Classed,), {})(),
        lambda held: getattr(held, "K".lower()),
        lambda held: setattr(Classed, "k", 5.0),
    ),
    "getattr of a method": (
        lambda: Classed(),
        lambda held: getattr(held, "read_" + "A".lower())(),
        lambda held: setattr(Classed, "read_a", lambda self: 5.0),
    ),
    "getattr of a property": (
        lambda: Reader(),
        lambda held: getattr(held, "DOUBLE".lower()),
        lambda held: setattr(type(held), "double", property(lambda self: 5.0)),
    ),
    "getattr of objects that answer all names": (
        lambda: (Model(), type("Asked", (), {"answer": Answers()})()),
        lambda held: getattr(held[0], "K".lower()) + getattr(held[1], "J".lower(), 0.0),
        lambda held: set_k(held[0]),
    ),
    "getattr of a function": (
        lambda: with_function(ModuleType("functions")),
        lambda held: getattr(held, "read_" + "A".lower())(),
        lambda held: setattr(held, "read_a", lambda: 5.0),
    ),
    "attribute of a module by __getattr__": (
        lambda: with_getattr(ModuleType("lazy")),
        lambda held: held.anything,
        lambda held: put("anything")(held.table),
    ),
    "attribute of a float": (
        lambda: Unit(2.0),
        lambda held: held * held.scale,
        lambda held: setattr(held, "scale", 5.0),
    ),
    "attribute of a text": (lambda: Name("a"), lambda held: held.scale, lambda held: setattr(held, "scale", 5.0)),
    "attribute of an exception": (lambda: with_k(ValueError("a")), lambda held: held.k, set_k),
    "attribute of an array": (lambda: Labelled(2), lambda held: held.k, set_k),
    "attribute of a stream": (lambda: with_k(Stream()), lambda held: held.k, set_k),
    "attribute of a structure": (
        lambda: Measured(2.0),
        lambda held: held.factor,
        lambda held: setattr(held, "factor", 5.0),
    ),
    "subclass of a generator": (lambda: Dice(1), lambda held: 2.0 + 0.0 * held.random(), lambda held: held.seed(2)),
    "enum by value": (lambda: [1], lambda held: Rate(held[0]).value * 1.0, put(0, 2)),
    "repr of a dataclass": (lambda: Data(), lambda held: float(repr(held).split("=")[1].split(",")[0]), set_k),
    "comparison of dataclasses": (
        lambda: (Data(), Data()),
        lambda held: 2.0 if held[0] == held[1] else 5.0,
        lambda held: set_k(held[1]),
    ),
    "JSON with a default": (Model, lambda held: json.loads(json.dumps(held, default=lambda o: o.__dict__))["k"], set_k),
    "memory map": (lambda: mapped_array(), lambda held: held[0], put(0)),
    "memory map through another": (
        lambda: mapped_array(),
        lambda held: held[0],
        lambda held: put(0)(np.memmap(held.filename, float)),
    ),
    "objects in a structured array": (
        lambda: np.array([(Model(),)], [("k", object)]),
        lambda held: held["k"][0].k,
        lambda held: set_k(held["k"][0]),
    ),
    "row of objects": (
        lambda: np.array([(Model(),)], [("k", object)])[0],
        lambda held: held["k"].k,
        lambda held: set_k(held["k"]),
    ),
    "structure in a structure": (lambda: Pair(Point(2.0)), lambda held: held.first.k, lambda held: set_k(held.first)),
    "pointer in a structure": (
        lambda: Pair(Point(2.0), ctypes.pointer(ctypes.c_double(2.0))),
        lambda held: held.second[0],
        lambda held: put(0)(held.second),
    ),
    "text of C": (
        lambda: ctypes.create_string_buffer(b"2.0"),
        lambda held: float(held.value),
        lambda held: setattr(held, "value", b"5.0"),
    ),
    "function of C": (
        lambda: ctypes.CFUNCTYPE(ctypes.c_double)(lambda: SCALE[0]),
        lambda held: held(),
        lambda held: put(0)(SCALE),
    ),
    "method of a random generator": (
        lambda: random.Random(1).random,
        lambda held: 2.0 + 0.0 * held(),
        lambda held: None,
    ),
    "method of a stream": (
        lambda: io.BytesIO(b"2.0").getvalue,
        lambda held: float(held()),
        lambda held: held.__self__.write(b"5.0"),
    ),
    "clock": (lambda: time.time, lambda held: 2.0 + 0.0 * held(), lambda held: None),
    "class of dates": (lambda: datetime.datetime, lambda held: held.now().year * 1.0, lambda held: None),
    "methodcaller of a computed name": (
        lambda: Reader(),
        lambda held: operator.methodcaller("READ".lower())(held),
        set_k,
    ),
    "thread-local": (lambda: with_k(threading.local()), lambda held: held.k, set_k),
    "own thread-local": (lambda: Local(), lambda held: held.k, set_k),
    "thread-local by a computed name": (
        lambda: with_k(threading.local()),
        lambda held: getattr(held, "K".lower()),
        set_k,
    ),
    "class of a thread-local": (
        lambda: type("Local", (threading.local,), {"k": 2.0})(),
        lambda held: held.k,
        lambda held: setattr(type(held), "k", 5.0),
    ),
    "hidden attribute of a class of a thread-local": (
        lambda: type("Local", (threading.local,), {"k": 2.0})(),
        lambda held: held.k,
        set_k,
    ),
    "context variable": (
        lambda: contextvars.ContextVar("held", default=2.0),
        lambda held: held.get(),
        lambda held: held.set(5.0),
    ),
    "namespace of arguments": (
        lambda: __import__("argparse").Namespace(k=2.0),
        lambda held: vars(held)["K".lower()],
        set_k,
    ),
    "subclass of a thread": (lambda: with_k(Worker()), lambda held: held.k, set_k),
    "counter of a library": (
        lambda: Worker(),
        lambda held: float(len(held.name)),
        lambda held: setattr(held, "name", "M" * 99),
    ),
    "signature": (
        lambda: with_defaults(lambda k=2.0: k),
        lambda held: inspect.signature(held).parameters["k"].default,
        lambda held: setattr(held, "__defaults__", (5.0,)),
    ),
    "closure": (
        lambda: of_cell(2.0),
        lambda held: inspect.getclosurevars(held[0]).nonlocals["k"],
        lambda held: held[1](5.0),
    ),
    "cell": (lambda: of_cell(2.0), lambda held: held[0].__closure__[0].cell_contents, lambda held: held[1](5.0)),
    "cell that is held": (
        lambda: types.CellType(2.0),
        lambda held: held.cell_contents,
        lambda held: setattr(held, "cell_contents", 5.0),
    ),
    "constants of code": (
        lambda: lambda: 2.0,
        lambda held: held.__code__.co_consts[-1],
        lambda held: setattr(held, "__code__", (lambda: 5.0).__code__),
    ),
    "annotations": (
        lambda: type("Model", (), {"__annotations__": {"k": 2.0}}),
        lambda held: held.__annotations__["k"],
        lambda held: held.__annotations__.update(k=5.0),
    ),
    "subclasses": (
        lambda: type("Model", (), {}),
        lambda held: float(len(held.__subclasses__())),
        lambda held: KEPT.append(type("Derived", (held,), {})),
    ),
    "isinstance of a registered class": (
        lambda: abstract(),
        lambda held: 5.0 if isinstance(1.0, held) else 2.0,
        lambda held: held.register(float),
    ),
    "copy": (Model, lambda held: copy.copy(held).k, set_k),
    "deepcopy": (Model, lambda held: copy.deepcopy(held).k, set_k),
    "deepcopy of all": (Model, lambda held: sum(copy.deepcopy(vars(held)).values()), set_k),
    "pickle": (Model, lambda held: pickle.loads(pickle.dumps(held)).k, set_k),
    "repr": (lambda: [2.0], lambda held: float(repr(held)[1:-1]), put(0)),
    "json": (lambda: {"k": [2.0]}, lambda held: json.loads(json.dumps(held))["k"][0], lambda held: put(0)(held["k"])),
    "replace": (lambda: Data(), lambda held: dataclasses.replace(held, n=1).k, set_k),
    "match": (lambda: Data(), lambda held: matched(held), set_k),
    "unpacked": (lambda: {"k": 2.0}, lambda held: (lambda k: k)(**held), put("k")),
    "star": (lambda: [2.0], lambda held: (lambda k: k)(*held), put(0)),
    "eval of an attribute": (Model, lambda held: eval("held.k", {"held": held}), set_k),
    "exec": (Model, lambda held: executed("k = held.k", held), set_k),
    "compiled text": (Model, lambda held: eval(compile("held.k", "text", "eval"), {"held": held}), set_k),
    # weak references, descriptors
    "weak reference": (
        lambda: (lambda m: (weakref.ref(m), [m]))(Model()),
        lambda held: held[0]().k,
        lambda held: set_k(held[1][0]),
    ),
    "weak reference that dies": (
        lambda: (lambda m: (weakref.ref(m), [m]))(Model()),
        lambda held: 2.0 if held[0]() else 5.0,
        lambda held: held[1].clear() or gc.collect(),
    ),
    "weak proxy": (
        lambda: (lambda m: (weakref.proxy(m), [m]))(Model()),
        lambda held: held[0].k,
        lambda held: set_k(held[1][0]),
    ),
    "WeakSet": (
        lambda: (lambda m: (weakref.WeakSet([m]), [m]))(Model()),
        lambda held: sum(m.k for m in held[0]),
        lambda held: set_k(held[1][0]),
    ),
    "WeakKeyDictionary": (
        lambda: (lambda m: (weakref.WeakKeyDictionary({m: 2.0}), m))(Model()),
        lambda held: held[0][held[1]],
        lambda held: put(held[1])(held[0]),
    ),
    "WeakMethod": (
        lambda: (lambda m: (weakref.WeakMethod(m.read), m))(Reader()),
        lambda held: held[0]()(),
        lambda held: set_k(held[1]),
    ),
    "cached property": (
        lambda: Reader(),
        lambda held: held.cached,
        lambda held: (set_k(held), held.__dict__.pop("cached", None)),
    ),
    "slot": (lambda: Slotted(), lambda held: held.k, set_k),
    "slot by its descriptor": (lambda: Slotted(), lambda held: Slotted.k.__get__(held), set_k),
    "property by its class": (lambda: Reader(), lambda held: type(held).double.fget(held) / 2.0, set_k),
    "lru_cache": (
        lambda: (lambda m: (functools.lru_cache(lambda n: m.k), m))(Model()),
        lambda held: held[0](1),
        lambda held: (set_k(held[1]), held[0].cache_clear()),
    ),
    "exit stack": (lambda: Model(), lambda held: entered(held), set_k),
    # containers of C
    "deque": (lambda: collections.deque([2.0], 3), lambda held: held[-1], lambda held: held.append(5.0)),
    "queue": (lambda: queued(queue.Queue()), lambda held: held.queue[0], lambda held: held.queue.appendleft(5.0)),
    "simple queue": (lambda: queued(queue.SimpleQueue()), lambda held: float(held.qsize()), lambda held: held.put(5.0)),
    "element": (
        lambda: ElementTree.fromstring("<a k='2.0'/>"),
        lambda held: float(held.get("k")),
        lambda held: held.set("k", "5.0"),
    ),
    "text of an element": (
        lambda: ElementTree.fromstring("<a><b>2.0</b></a>"),
        lambda held: float(held[0].text),
        lambda held: setattr(held[0], "text", "5.0"),
    ),
    "hash": (lambda: hashlib.sha256(), lambda held: float(held.digest()[0]), lambda held: held.update(b"a")),
    "database": (
        lambda: database(),
        lambda held: held.execute("select k from t").fetchone()[0],
        lambda held: held.execute("update t set k = 5.0"),
    ),
    "Event": (threading.Event, lambda held: 5.0 if held.is_set() else 2.0, lambda held: held.set()),
    "Semaphore": (lambda: threading.Semaphore(2), lambda held: float(held._value), lambda held: held.acquire()),
    "decimal": (lambda: [decimal.Decimal(2)], lambda held: float(held[0]), put(0, decimal.Decimal(5))),
    "mutable default": (
        lambda: with_defaults(lambda k=[2.0]: k[0]),
        lambda held: held(),
        lambda held: put(0)(held.__defaults__[0]),
    ),
    "Path": (lambda: Model(2.0), lambda held: held.__class__.__name__ and held.k, set_k),
    "zip of lists": (
        lambda: [[2.0], [3.0]],
        lambda held: next(zip(*held, strict=True))[0],
        lambda held: put(0)(held[0]),
    ),
    "bound method of a list": (
        lambda: [2.0].__getitem__,
        lambda held: held(0),
        lambda held: held.__self__.__setitem__(0, 5.0),
    ),
    "itemgetter": (
        lambda: (operator.itemgetter(0), [2.0]),
        lambda held: held[0](held[1]),
        lambda held: put(0)(held[1]),
    ),
    "context": (
        lambda: contextvars.copy_context(),
        lambda held: held.get(VARIABLE, 2.0),
        lambda held: held.run(VARIABLE.set, 5.0),
    ),
    # iterators
    "generator": (lambda: numbers(), lambda held: next(held) * 0.0 + 2.0, lambda held: None),
    "iterator of a list": (
        lambda: iter([2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 5.0]),
        lambda held: float(held.__length_hint__()),
        lambda held: next(held),
    ),
    "count": (lambda: itertools.count(2.0, 0.0), next, lambda held: None),
    "tee": (lambda: itertools.tee(iter([2.0] * 9)), lambda held: float(next(copy.copy(held[0]))), lambda held: None),
    "generator by a frame": (lambda: paused(), lambda held: held.gi_frame.f_locals["k"], lambda held: next(held)),
    "reader of csv": (
        lambda: csv.reader(["2.0"] * 99),
        lambda held: float(held.line_num and 0.0) + 2.0,
        lambda held: next(held),
    ),
    "scanner": (lambda: re.finditer("2", "2" * 99), lambda held: float(next(held).group()), lambda held: None),
    # random numbers
    "Random": (lambda: random.Random(1), lambda held: 2.0 + 0.0 * held.random(), lambda held: held.seed(2)),
    "state of Random": (
        lambda: random.Random(1),
        lambda held: held.getstate()[1][0] % 97 * 1.0,
        lambda held: held.seed(2),
    ),
    "default_rng": (
        lambda: np.random.default_rng(1),
        lambda held: 2.0 + 0.0 * held.random(),
        lambda held: held.random(),
    ),
    "state of default_rng": (
        lambda: np.random.default_rng(1),
        lambda held: held.bit_generator.state["state"]["state"] % 97 * 1.0,
        lambda held: held.random(),
    ),
    "RandomState": (
        lambda: np.random.RandomState(1),
        lambda held: held.get_state()[1][0] % 97 * 1.0,
        lambda held: held.seed(2),
    ),
    "bit generator": (
        lambda: np.random.PCG64(1),
        lambda held: held.state["state"]["state"] % 97 * 1.0,
        lambda held: held.random_raw(),
    ),
}


class Pair(ctypes.Structure):
    _fields_ = [("first", Point), ("second", ctypes.POINTER(ctypes.c_double))]


class Measured(Point):
    factor = 2.0


class Classed:
    k = 2.0

    def read_a(self):
        return 2.0


class Answers:
    def __getattr__(self, name):
        raise ValueError(f"asked for {name}")


class Unit(float):
    scale = 2.0


class Name(str):
    scale = 2.0


class Labelled(np.ndarray):
    k = 2.0


class Stream(io.BytesIO):
    pass


class Dice(random.Random):
    pass


class Worker(threading.Thread):
    pass


class Local(threading.local):
    """An object whose attributes each thread sets itself."""

    def __init__(self):
        self.k = 2.0


class Rate(enum.IntEnum):
    SLOW = 1
    FAST = 2


def with_function(held):
    exec("def read_a(): return 2.0", vars(held))
    return held


def with_getattr(held):
    held.table = {"anything": 2.0}
    exec("def __getattr__(name): return table[name]", vars(held))
    return held


def mapped_array():
    held = np.memmap(tempfile.mkstemp()[1], float, "w+", shape=1)
    held[0] = 2.0
    return held


@dataclasses.dataclass
class Data:
    k: float = 2.0
    n: int = 0


class Slotted:
    __slots__ = ("k",)

    def __init__(self):
        self.k = 2.0


class Reader(Model):
    def read(self):
        return self.k

    @functools.cached_property
    def cached(self):
        return self.k

    @property
    def double(self):
        return 2.0 * self.k


ATTRIBUTE = getattr
KEPT = []
VARIABLE = contextvars.ContextVar("VARIABLE")


def with_k(held):
    held.k = 2.0
    return held


def with_defaults(held):
    return held


def with_doc(held):
    held.__doc__ = "2.0"
    return held


def of_cell(k):
    def read():
        return k

    def write(value):
        nonlocal k
        k = value

    return read, write


def abstract():
    class Abstract(abc.ABC):
        pass

    return Abstract


def matched(held):
    match held:
        case Data(k=k):
            return k


def executed(text, held):
    scope = {"held": held}
    exec(text, scope)
    return scope["k"]


def entered(held):
    with contextlib.ExitStack() as stack:
        return stack.enter_context(contextlib.nullcontext(held)).k


def queued(held):
    held.put(2.0)
    return held


def database():
    held = sqlite3.connect(":memory:", check_same_thread=False)
    held.execute("create table t (k real)")
    held.execute("insert into t values (2.0)")
    return held


def numbers():
    while True:
        yield 2.0


def paused():
    def run():
        k = 2.0
        yield k
        k = 5.0
        yield k

    held = run()
    next(held)
    return held


Model.digits = 3


# What is looked up by name, in modules and outside of Python ---------------------------------------------------------


def module(name, **contents):
    made = ModuleType(name)
    vars(made).update(contents)
    sys.modules[name] = made
    return made


def scoped(source, **names):
    """A function of source whose global variables are these."""
    scope = {"np": np, "__name__": "a_users_module", **names}
    exec(source, scope)
    return scope["f"], scope


def replaced(name, source, **names):
    """A function that imports a module of this name, and a change that puts another module in its place."""

    def make():
        module(name, k=2.0)
        return scoped(source, **names)[0], lambda: module(name, k=5.0)

    return make


def removed(name):
    sys.modules.pop(name, None)


def of_submodule(source):
    def make():
        package = module("a_package", __path__=[])
        package.part = module("a_package.part", k=2.0)

        def change():
            package.part = module("a_package.part", k=5.0)

        return scoped(source)[0], change

    return make


def of_missing_module():
    removed("a_missing_module")
    source = "def f(x):\n    try:\n        import a_missing_module\n    except ImportError:\n        return 2.0 * x\n    return 5.0 * x"
    return scoped(source)[0], lambda: module("a_missing_module")


def of_environment(read):
    def make():
        os.environ["ACCUMULUS_OF_THE_TEST"] = "2.0"
        return lambda x: read() * x, lambda: os.environ.update(ACCUMULUS_OF_THE_TEST="5.0")

    return make


def simple(read, change):
    return lambda: (lambda x: read() * x, change)


def simple_gradient():
    held = threading.local()
    held.k = 2.0
    slope = acc.gradient(lambda y: held.k * np.sum(y * y))
    return lambda x: slope(x), lambda: set_k(held)


def of_caller():
    k = 2.0

    def f(x):
        return sys._getframe(0).f_globals["SCALE"][0] * k * x

    return f, lambda: put(0)(SCALE)


def of_locals():
    k = 2.0

    def change():
        nonlocal k
        k = 5.0

    def f(x):
        _ = k
        return locals()["K".lower()] * x

    return f, change


def of_argv():
    sys.argv.append("2")
    return lambda x: float(sys.argv[-1]) * x, lambda: sys.argv.__setitem__(-1, "5")


def of_line_cache():
    linecache.cache["a file of the test"] = 4, None, ["2.0\n"], "a file of the test"
    return (
        lambda x: float(linecache.getline("a file of the test", 1)) * x,
        lambda: linecache.cache.update({"a file of the test": (4, None, ["5.0\n"], "a file of the test")}),
    )


def of_precision():
    context = decimal.getcontext()
    context.prec = 5
    return lambda x: float(decimal.Decimal(1) / decimal.Decimal(3)) * x, lambda: setattr(
        decimal.getcontext(), "prec", 2
    )


def of_log_level():
    held = logging.getLogger("accumulus of the test")
    held.setLevel(10)
    return lambda x: held.getEffectiveLevel() * x, lambda: held.setLevel(50)


def of_warning_filters():
    return lambda x: len(warnings.filters) * x, lambda: warnings.filterwarnings("ignore", "a text of the test")


SCALE = [1.0]
IN_BODY = {
    "import": replaced("a_module", "def f(x):\n    import a_module\n    return a_module.k * x"),
    "import as": replaced("a_module", "def f(x):\n    import a_module as m\n    return m.k * x"),
    "from import": replaced("a_module", "def f(x):\n    from a_module import k\n    return k * x"),
    "from import of all": replaced(
        "a_module",
        "def g():\n    scope = {}\n    exec('from a_module import *', scope)\n    return scope['k']\ndef f(x): return g() * x",
    ),
    "import in a helper": replaced(
        "a_module", "def g():\n    import a_module\n    return a_module.k\ndef f(x): return g() * x"
    ),
    "import_module": replaced(
        "a_module", "import importlib\ndef f(x): return importlib.import_module('a_module').k * x"
    ),
    "import_module of a computed name": replaced(
        "a_module", "import importlib\ndef f(x): return importlib.import_module('A_MODULE'.lower()).k * x"
    ),
    "__import__": replaced("a_module", "def f(x): return __import__('a_module').k * x"),
    "sys.modules": replaced("a_module", "import sys\ndef f(x): return sys.modules['a_module'].k * x"),
    "sys.modules by a computed name": replaced(
        "a_module", "import sys\ndef f(x): return sys.modules['A_MODULE'.lower()].k * x"
    ),
    "import of a submodule": of_submodule("def f(x):\n    import a_package.part\n    return a_package.part.k * x"),
    "import of a submodule as": of_submodule("def f(x):\n    import a_package.part as part\n    return part.k * x"),
    "from import of a submodule": of_submodule("def f(x):\n    from a_package import part\n    return part.k * x"),
    "from submodule import": of_submodule("def f(x):\n    from a_package.part import k\n    return k * x"),
    "import_module of a submodule": of_submodule(
        "import importlib\ndef f(x): return importlib.import_module('a_package.part').k * x"
    ),
    "import of a missing module": of_missing_module,
    "globals": lambda: (lambda f, s: (f, lambda: s.update(k=5.0)))(
        *scoped("def f(x): return globals()['K'.lower()] * x", k=2.0)
    ),
    "eval": lambda: (lambda f, s: (f, lambda: s.update(k=5.0)))(
        *scoped("def f(x): return eval('K'.lower()) * x", k=2.0)
    ),
    "globals of a function": lambda: (lambda f, s: (f, lambda: s.update(k=5.0)))(
        *scoped("def f(x): return f.__globals__['K'.lower()] * x", k=2.0)
    ),
    "frame": of_caller,
    "locals": of_locals,
    "environ": of_environment(lambda: float(os.environ["accumulus_of_the_test".upper()])),
    "environ.get": of_environment(lambda: float(os.environ.get("ACCUMULUS_OF_THE_TEST", "1.0"))),
    "environ in a loop": of_environment(lambda: float(dict(os.environ)["ACCUMULUS_OF_THE_TEST"])),
    "getenvb": of_environment(lambda: float(os.getenvb(b"ACCUMULUS_OF_THE_TEST"))),
    "expandvars": of_environment(lambda: float(os.path.expandvars("$ACCUMULUS_OF_THE_TEST"))),
    "argv": of_argv,
    "line cache": of_line_cache,
    "decimal precision": of_precision,
    "log level": of_log_level,
    "warning filters": of_warning_filters,
    "recursion limit": simple(
        lambda: float(sys.getrecursionlimit()), lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 10)
    ),
    "switch interval": simple(
        lambda: sys.getswitchinterval(), lambda: sys.setswitchinterval(sys.getswitchinterval() * 1.5)
    ),
    "time": simple(lambda: 2.0 + 0.0 * time.time(), lambda: None),
    "counter": simple(lambda: time.perf_counter() // 1e-9 * 0.0 + 2.0, lambda: None),
    "now": simple(lambda: datetime.datetime.now().year * 1.0, lambda: None),
    "today": simple(lambda: datetime.date.today().day * 1.0, lambda: None),
    "import of random": lambda: (
        scoped("from random import random, gauss\ndef f(x): return x * (2.0 + 0.0 * random() + 0.0 * gauss(0.0, 1.0))")[
            0
        ],
        lambda: None,
    ),
    "import of datetime": lambda: (
        scoped("from datetime import datetime\ndef f(x): return x * datetime.now().year")[0],
        lambda: None,
    ),
    "import of time": lambda: (
        scoped("from time import perf_counter as t\ndef f(x): return x * (2.0 + 0.0 * t())")[0],
        lambda: None,
    ),
    "derivative within": simple_gradient,
    "random": simple(lambda: 2.0 + 0.0 * random.random(), lambda: random.seed(2)),
    "np.random": simple(lambda: 2.0 + 0.0 * np.random.rand(), lambda: np.random.seed(2)),  # noqa: NPY002
    "secrets": simple(lambda: 2.0 + 0.0 * secrets.randbelow(9), lambda: None),
    "urandom": simple(lambda: 2.0 + 0.0 * os.urandom(1)[0], lambda: None),
    "working directory": simple(lambda: float(len(os.getcwd())), lambda: os.chdir("/")),
    "exists": simple(
        lambda: 5.0 if os.path.exists("a_file_of_the_test") else 2.0, lambda: open("a_file_of_the_test", "w").close()
    ),
    "mask": simple(lambda: float(os.umask(0o22)) * 0.0 + 2.0, lambda: None),
    "thread": simple(
        lambda: float(len(threading.current_thread().name)),
        lambda: setattr(threading.current_thread(), "name", "M" * 9),
    ),
    "id of the thread": simple(lambda: threading.get_ident() * 0.0 + 2.0, lambda: None),
    "number of objects": simple(lambda: 2.0 + 0.0 * gc.get_count()[0], lambda: None),
    "interned": simple(lambda: 2.0 * len(KEPT[:0]) + 2.0, lambda: None),
    "locale": simple(lambda: float(locale.localeconv()["frac_digits"] > 0) + 2.0, lambda: None),
    "libm": simple(lambda: ctypes.CDLL(None).abs(-2) * 1.0, lambda: None),
}
WAYS = IN_BODY | {
    f"held {name}": (lambda held=held, read=read, change=change: of_held(held(), read, change))
    for name, (held, read, change) in HELD.items()
}


def of_held(held, read, change):
    return (lambda x: read(held) * x), (lambda: change(held))


@contextlib.contextmanager
def restored(monkeypatch, tmp_path):
    """What the ways change in this process, put back after the test."""
    monkeypatch.chdir(tmp_path)
    limit, interval, thread = sys.getrecursionlimit(), sys.getswitchinterval(), threading.current_thread()
    name, modules = thread.name, set(sys.modules)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setenv("ACCUMULUS_OF_THE_TEST", "2.0")
    with warnings.catch_warnings(), np.errstate(), np.printoptions(), decimal.localcontext():
        yield
    Classed.k, Classed.read_a, Reader.double = 2.0, lambda self: 2.0, property(lambda self: 2.0 * self.k)
    sys.setrecursionlimit(limit)
    sys.setswitchinterval(interval)
    thread.name, SCALE[0] = name, 1.0
    for each in set(sys.modules) - modules:
        if each.startswith("a_"):
            del sys.modules[each]


def agree(derivative, f):
    """Return True if a derivative gives the function's value as it is now, or refuses to."""
    try:
        return np.allclose(derivative(X), f(X))
    except AccumulusError:
        return True
