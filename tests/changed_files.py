"""Saved derivatives with a changed field and a right hash: refused when they are read, or called without harm.

A file's hash finds damage, but somebody who changes a file can compute it. Compiled code addresses memory by what a
file says, so whatever a file says has to be checked. Here every field of files of all kinds is changed: each number,
text and list of their JSON, type, shape and position of each array, and its entries; of straight-line programs each
slot of a row, used or not. Mutation k is always the same. Files are read, and called at points and in batches, by
processes of their own, since a crash ends a process. Each prints a line for a mutation when it is done, so that the one
that ends it is known.

    python tests/changed_files.py 4711                   the mutation of this number
    python tests/changed_files.py FIRST LAST FOLDER      the mutations of these numbers, of files that are saved already
"""

from __future__ import annotations

import copy
import enum
import json
import os
import random
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from inside import OPERATIONS

import accumulus as acc
from accumulus.errors import AccumulusError, CompileError, FileError
from accumulus.shipping.data_files import _ALIGNMENT, _HEAD, MAGIC, _digest
from accumulus.text import printable

#: Bytes of memory and seconds of a processor that a mutation may take.
MEMORY: Final = 4 << 30
PATIENCE: Final = 60
#: Mutations of one process: more hide what only the first ones of a process do, fewer start more processes.
CHUNK: Final = 500
#: How far results of machine code may be from NumPy's, relative to the largest: no rounding comes near, and what is
#: read from elsewhere is farther away.
FAR: Final = 1e-3
#: Letters of a message that people read.
LONGEST_MESSAGE: Final = 2000
_QUICK: Final[dict[str, Any]] = {"effort": "fast", "time_limit": 0.0}
_NUMPY: Final[dict[str, Any]] = {**_QUICK, "target": "numpy"}

# Files of all kinds --------------------------------------------------------------------------------------------------


class Rates(NamedTuple):
    """A container whose class a file names."""

    height: Any
    speed: Any


@dataclass
class Rocket:
    """Another one, with a constant."""

    height: Any
    speed: Any
    name: str = "left"


class Drag(enum.Enum):
    """Constants that a file names."""

    LINEAR = 1
    SQUARE = 2


def long_function(count: int) -> Callable[[Any], Any]:
    """A function of about so many operations without repetition: unary, binary, selected ones, and truth values."""

    def function(x: Any) -> Any:
        generator = random.Random(count)
        values = [x[k] for k in range(4)]
        while len(values) < 4 + count // 3:
            a, b = generator.choice(values[-9:]), generator.choice(values)
            values.append(
                generator.choice(
                    [
                        lambda a, b: np.sin(a),
                        lambda a, b: a * b,
                        lambda a, b: np.exp(-a * a),
                        lambda a, b: a - b,
                        lambda a, b: np.where((a < b) | ~(a > 0.1), a, np.tanh(b)),
                        lambda a, b: np.sqrt(a * a + 1.0) / (b * b + 2.0),
                        lambda a, b: np.arctan2(a, b * b + 1.0),
                        lambda a, b: np.minimum(a, np.floor(b)),
                    ]
                )(a, b)
            )
        return np.array([values[-1], values[-2] * values[-3], sum(values)])

    return function


def _decides(x: Any) -> Any:
    if x[0] > 0.5:
        return np.exp(x)
    while x[1] < 0.2:
        x = x * 2.0
    return x * x[0]


def _flight(rocket: Any, t: Any, drag: Drag = Drag.LINEAR) -> Any:
    loss = rocket.speed if drag is Drag.LINEAR else rocket.speed**2
    return Rates(rocket.speed, t * rocket.height - loss)


def _network(p: Any, x: Any) -> Any:
    return [np.tanh(p["W"] @ x + p["b"]).sum(), x * p["b"][0]]


def _matrices(x: Any) -> Any:
    a = x.reshape(33, 33) + 33.0 * np.eye(33)
    symmetric = a @ a.T
    logarithm = np.linalg.slogdet(a)[1]
    return np.linalg.solve(a, x[:33]).sum() + logarithm + np.linalg.cholesky(symmetric)[3, 2] + symmetric[0, 0]


def _factors(x: Any) -> Any:
    a = x[:81].reshape(9, 9)
    values, vectors = np.linalg.eigh(a + a.T)
    return values[0] + vectors[1, 0] ** 2 + np.linalg.qr(a)[1][0, 1] + np.linalg.svd(a)[1][1] + np.linalg.det(a)


def _gathered(x: Any, i: Any) -> Any:
    return np.sum(x[i] * np.roll(x, 1)[i])


def _of_sparse(x: Any) -> Any:
    from scipy.sparse import random_array

    matrix = random_array((400, 300), density=0.05, rng=np.random.default_rng(3)).tocsr()
    return np.sum(np.sin(matrix @ x.reshape(300, 4)))


def _lower(x: Any) -> Any:
    a = x.reshape(45, 45)
    return np.sum(np.linalg.cholesky(a @ a.T + 45.0 * np.eye(45)))


def _orthogonal(x: Any) -> Any:
    return np.sum(np.linalg.qr(x.reshape(45, 45))[1] ** 3)


def _iterated(x: Any) -> Any:
    return acc.scan(lambda carry, row: (carry * 0.5 + np.sin(row), carry * row), x[0], x)[0]


@dataclass(frozen=True)
class Original:
    """A derivative to save.

    Attributes:
        derivative: the derivative.
        calls: arguments that it is called with before it is saved, and when it is loaded.
        batches: arguments and options of batches of what is loaded.
        weight: how often its file is drawn.
    """

    derivative: Any
    calls: list[tuple[Any, ...]]
    batches: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    weight: int = 4


_X: Final = np.array([0.3, 0.7, 1.1])
_POINTS: Final = np.random.default_rng(1).uniform(0.1, 1.2, (7, 4))
_BATCH: Final = [((_POINTS[:, :3].copy(),), {}), ((_POINTS[:, :3].T.copy(),), {"transposed": True})]
_BATCH_4: Final = [((_POINTS,), {}), ((_POINTS.T.copy(),), {"transposed": True})]
_LINE: Final = np.linspace(0.0, 1.0, 90)
_LONGER: Final = np.linspace(0.0, 1.0, 300)
_MATRIX: Final = np.random.default_rng(4).uniform(0.1, 1.2, 45**2)


@cache
def originals() -> dict[str, Original]:
    """The derivatives whose files are changed."""
    x4, square = _POINTS[0], np.random.default_rng(2).uniform(0.1, 1.2, 33**2)
    indices = np.arange(300) % 7
    return {
        "20 operations": Original(acc.jacobian(long_function(20), **_QUICK), [(x4,)], _BATCH_4, 8),
        "400 operations": Original(acc.jacobian(long_function(160), **_QUICK), [(x4,)], _BATCH_4[:1], 2),
        "2,000 operations": Original(acc.jacobian(long_function(700), **_QUICK), [(x4,)], _BATCH_4[:1], 1),
        "20, numpy": Original(acc.value_and_jacobian(long_function(20), **_NUMPY), [(x4,)], _BATCH_4, 8),
        "400, numpy": Original(acc.jacobian(long_function(160), **_NUMPY), [(x4,)], _BATCH_4, 4),
        "2,000, numpy": Original(acc.jacobian(long_function(700), **_NUMPY), [(x4,)], _BATCH_4, 2),
        "float32": Original(acc.jacobian(long_function(20), dtype="float32", **_QUICK), [(x4,)], _BATCH_4),
        "exact": Original(acc.jacobian(long_function(20), exact_order=True, **_QUICK), [(x4,)], _BATCH_4),
        "special": Original(
            acc.jacobian(lambda x: _special().jv(2, x) * _special().erf(x[0]), **_NUMPY), [(_X,)], _BATCH
        ),
        "two shapes": Original(acc.gradient(lambda x: np.prod(np.sin(x)), **_QUICK), [(_X,), (_X[:2],)], _BATCH),
        "csr": Original(acc.jacobian(lambda x: x[1:] * x[:-1], sparse="csr", **_QUICK), [(_X,)], _BATCH),
        "csc": Original(
            acc.value_and_jacobian(lambda x: np.append(x[1:] * x[:-1], x[0]), sparse="csc", **_QUICK), [(_X,)], _BATCH
        ),
        "hessian": Original(acc.hessian(lambda x: np.prod(np.sin(x)) + x[0] ** 3, **_QUICK), [(_X,)], _BATCH),
        "sparse hessian": Original(
            acc.hessian(lambda x: np.sum(x[1:] ** 2 * x[:-1]), sparse=True, **_QUICK), [(_X,)], _BATCH
        ),
        "guards": Original(acc.jacobian(_decides, **_QUICK), [(_X,), (_X + 1.0,), (_X - 0.65,)], _BATCH),
        "sparse guards": Original(acc.jacobian(_decides, sparse=True, **_QUICK), [(_X,), (_X + 1.0,)], _BATCH),
        "directions": Original(acc.jvp(lambda x: np.sin(x) * x[0], **_QUICK), [((_X,), (_X,))]),
        "weights": Original(acc.vjp(lambda x: np.sin(x) * x[0], **_QUICK), [((_X,), _X)]),
        "objects": Original(
            acc.jacobian(_flight, **_QUICK), [(Rocket(1.0, 2.0), 3.0), (Rocket(1.0, 2.0, "right"), 3.0, Drag.SQUARE)]
        ),
        "dicts": Original(
            acc.jacobian(_network, argnums=(0, 1), **_QUICK), [({"W": np.eye(2), "b": np.ones(2)}, [0.1, 0.2])]
        ),
        "static": Original(acc.jacobian(lambda x, n: x**n, static_argnums=1, **_QUICK), [(_X, 2), (_X, 3)]),
        "keywords": Original(
            acc.jacobian(lambda x, *, k=1.0, s="s", d=(1, 2.5): x * k, argnames="k", **_QUICK), [(_X,)], _BATCH
        ),
        "constants": Original(
            acc.jacobian(lambda x, c: x * len(c), static_argnums=1, **_NUMPY), [(_X, b"ab"), (_X, (1j, None))]
        ),
        "loops": Original(
            acc.jacobian(lambda x: np.sin(x) * np.roll(x, 1), sparse=True, **_QUICK), [(np.linspace(0.0, 1.0, 9000),)]
        ),
        "map": Original(_looped(lambda x: np.where(x > 0.5, np.sin(x), x * x)[::-1] * x), [((_LONGER,), _LONGER)]),
        "sums": Original(_looped(lambda x: np.sum(np.sin(x).reshape(-1, 3), axis=1)), [((_LONGER,), _LONGER[:100])]),
        "recurrence": Original(
            acc.gradient(lambda x: np.cumsum(np.sin(np.cumsum(x)))[-1], **_QUICK), [(np.linspace(0.0, 1.0, 9000),)]
        ),
        "scan": Original(acc.gradient(_iterated, **_QUICK), [(_LONGER,)]),
        "loops that decide": Original(
            acc.jacobian(lambda x: np.where((x > 0.5)[::-1], np.sin(x), x * x) * np.sort(x), sparse=True, **_QUICK),
            [(np.linspace(0.0, 1.0, 4000),)],
            weight=2,
        ),
        "matrices": Original(acc.gradient(_matrices, **_QUICK), [(square,)]),
        "factors": Original(acc.gradient(_factors, **_QUICK), [(square,)], weight=2),
        "indices": Original(acc.gradient(_gathered, **_QUICK), [(_LINE, indices)]),
        "products": Original(acc.gradient(_of_sparse, **_QUICK), [(np.tile(_LONGER, 4),)]),
        "lower factor": Original(acc.gradient(_lower, **_QUICK), [(_MATRIX,)], weight=2),
        "orthogonal factor": Original(acc.gradient(_orthogonal, **_QUICK), [(_MATRIX,)], weight=2),
    }


def _special() -> Any:
    from scipy import special

    return special


def _looped(function: Callable[[Any], Any]) -> Any:
    return acc.vjp(function, **_QUICK)


def saved(names: Sequence[str] | None = None) -> dict[str, bytes]:
    """Return the files of the derivatives, by name."""
    files = {}
    with tempfile.TemporaryDirectory(prefix="changed-files-") as folder:
        for name in originals() if names is None else names:
            original = originals()[name]
            for call in original.calls:
                original.derivative(*call)
            acc.save(original.derivative, Path(folder, "file"))
            files[name] = Path(folder, "file").read_bytes()
    return files


# Their fields --------------------------------------------------------------------------------------------------------


@dataclass
class Content:
    """The parts of a file.

    Attributes:
        data: its JSON.
        arrays: its arrays, by position in the table of the JSON.
        described: by position of an array, what the table says of it instead: 0 for its type, 1 for its shape, 2 for
            its position, and the wrong one.
    """

    data: Any
    arrays: list[Any]
    described: dict[int, tuple[int, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, content: bytes) -> Content:
        """Return the parts of a file."""
        start = len(MAGIC) + _HEAD.size
        length = _HEAD.unpack_from(content, len(MAGIC))[2]
        data = json.loads(content[start : start + length])
        rest = content[start + length :]
        arrays = [
            np.frombuffer(rest, kind, int(np.prod(shape)), at).reshape(shape).copy()
            for kind, shape, at in data["arrays"]
        ]
        return cls(data, arrays)

    def written(self) -> bytes:
        """Return the file, with the hash that it should have."""
        parts, table, at = [], [], 0
        for array in self.arrays:
            table.append([array.dtype.str, list(array.shape), at])
            parts.append(array.tobytes() + bytes(-array.nbytes % _ALIGNMENT))
            at += len(parts[-1])
        for k, (what, wrong) in self.described.items():
            table[k][what] = wrong
        text = json.dumps({**self.data, "arrays": table}, separators=(",", ":")).encode()
        text += b" " * (-(len(MAGIC) + _HEAD.size + len(text)) % _ALIGNMENT)
        body = text + b"".join(parts)
        return MAGIC + _HEAD.pack(1, _digest(len(text), body), len(text)) + body


@dataclass(frozen=True)
class Place:
    """A field of a file.

    Attributes:
        label: its place in the form of files, with * for positions in lists.
        kind: "data" for JSON, "table", "array" or "tape".
        at: where to find it.
    """

    label: str
    kind: str
    at: tuple[Any, ...]


_ARITY: Final = np.array([row.arity for row in OPERATIONS])
_SLOTS: Final = ("code", "first", "second", "third")


def places(content: Content) -> dict[str, list[Place]]:
    """Return all fields, by label."""
    found: dict[str, list[Place]] = {}
    names: dict[int, str] = {}
    for path in _paths(content.data):
        if path[0] == "arrays":
            continue
        label = "/".join("*" if isinstance(each, int) else each for each in path)
        found.setdefault(label, []).append(Place(label, "data", path))
        held = _at(content.data, path)
        is_array = path[-1] in ("tape", "constants", "outputs", "positions", "offsets", "steps", "row", "rows")
        is_array |= path[-1] in ("columns", "starts", "entries", "exact", "numpy")
        if is_array and type(held) is int:
            names[held] = label
    for k, array in enumerate(content.arrays):
        label = names[k]
        for position, part in enumerate(("type", "shape", "position")):
            _add(found, Place(f"{label} {part}", "table", (k, position)))
        _add(found, Place(f"{label} length", "array", (k, None)))
        if array.dtype == np.uint8 and label.endswith("tape"):
            for place in of_tape(label, k, array):
                _add(found, place)
            continue
        few = {*range(min(len(array.ravel()), 20)), *range(max(array.size - 20, 0), array.size)}
        few |= {*range(0, array.size, 1 + array.size // 40)}
        for at in sorted(few):
            end = " first" if at == 0 else " last" if at == array.size - 1 else ""
            _add(found, Place(f"{label} entry{end}", "array", (k, at)))
    return found


def _add(found: dict[str, list[Place]], place: Place) -> None:
    found.setdefault(place.label, []).append(place)


def _paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key in list(data) if isinstance(data, dict) else range(len(data)):
        yield (*path, key)
        if isinstance(data[key], dict | list):
            yield from _paths(data[key], (*path, key))


def _at(data: Any, path: Sequence[Any]) -> Any:
    for each in path:
        data = data[each]
    return data


def of_tape(label: str, k: int, array: Any) -> Iterator[Place]:
    """Yield the fields of a straight-line program."""
    inputs, size, constants, outputs = array[:32].view("<i8").tolist()
    for position, name in enumerate(("inputs", "size", "constants", "outputs")):
        yield Place(f"{label}: number of {name}", "tape", (k, 8 * position, "<i8"))
    at = 32
    for name, count, kind in (("constant", constants, "<f8"), ("output", outputs, "<i8")):
        for _ in range(count):
            yield Place(f"{label}: {name}", "tape", (k, at, kind))
            at += 8
    rows = array[at:].view("<i4").reshape(size, 4)
    for reference, row in enumerate(rows):
        arity = _ARITY[row[0]]
        of = "input" if reference < inputs else f"operation of {arity}"
        for slot, name in enumerate(_SLOTS):
            unused = ", unused" if slot > arity else ""
            yield Place(f"{label}: {name} of an {of}{unused}", "tape", (k, at + 16 * reference + 4 * slot, "<i4"))


# Their changes -------------------------------------------------------------------------------------------------------


_EXTREMES: Final = (
    *(0, 1, -1, 2, 3, 7, -2, 127, 128, 255, 256, 1 << 15, 1 << 16, (1 << 31) - 1, -(1 << 31), 1 << 31),
    *(1 << 32, 1 << 40, (1 << 53) + 1, 1 << 62, (1 << 63) - 1, -(1 << 63), 10**30),
)
_FLOATS: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e6, -1e6, 1e18, 1e300, 5e-324, np.inf, -np.inf, np.nan)
_TEXTS: Final = ("", "x", "array", "list of numbers", "__class__", "k = 1\n", "tuple", "dict", "jacobian", "llvm", "\0")
_TYPES: Final = (
    *("<i8", "<i4", "<u8", "|u1", "|i1", "|b1", "<f8", "<f4", "<f2", "<c16", "<f16", ">i8", "|O", "|V8"),
    *("<M8[s]", "U4", "(2,)<i8", "i8,i8", "x", ""),
)


def changed(content: bytes, generator: random.Random, found: dict[str, list[Place]], label: str | None = None) -> Any:
    """Return a file in which a field was changed, and what was done."""
    parts = Content.of(content)
    done = []
    for _ in range(1 if label is not None or generator.random() < 0.8 else 2):
        chosen = generator.choice(found[label or generator.choice(list(found))])
        done.append(f"{chosen.label} at {chosen.at}: {change(parts, chosen, generator)}")
    return parts.written(), "; ".join(done)


def change(parts: Content, place: Place, generator: random.Random) -> str:
    """Change a field; return its old and its new value."""
    if place.kind == "data":
        try:
            holder = _at(parts.data, place.at[:-1])
            before = holder[place.at[-1]]
        except (LookupError, TypeError):
            return "gone"
        if generator.random() < 0.1:
            if isinstance(holder, list) and generator.random() < 0.5:
                holder.insert(place.at[-1], copy.deepcopy(before))
                return "repeated"
            del holder[place.at[-1]]
            return "left out"
        after = _other(before, parts, generator)
        holder[place.at[-1]] = after
        return f"{str(before)[:60]} to {str(after)[:60]}"
    if place.kind == "table":
        k, position = place.at
        array = parts.arrays[k]
        before = [array.dtype.str, list(array.shape), k][position]
        at = sum(-(-each.nbytes // _ALIGNMENT) * _ALIGNMENT for each in parts.arrays[:k])
        size = array.size
        after = [
            generator.choice(_TYPES),
            generator.choice([[], [-1], [1], [size - 1], [size + 1], [size, 1], [1 << 62, 4], [0, 1]]),
            generator.choice([at + 1, at + 8, at - 8, 0, -8, 1 << 62, "0", None, 1.0]),
        ][position]
        parts.described[k] = position, after
        return f"{before} to {after}"
    if place.kind == "array":
        k, at = place.at
        array = parts.arrays[k]
        if at is None:
            flat = array.reshape(-1)
            choices = [flat[:-1], flat[1:], np.append(flat, flat[-1:]), flat[:0], np.repeat(flat, 2)]
            parts.arrays[k] = generator.choice(choices)
            return f"{array.size} to {parts.arrays[k].size} entries"
        if at >= array.size:
            return "gone"
        before = array.flat[at]
        array.flat[at] = after = _number(before, array.dtype, array.reshape(-1), generator)
        return f"{before} to {after}"
    k, at, kind = place.at
    array = parts.arrays[k]
    if at + np.dtype(kind).itemsize > array.size:
        return "gone"
    slot = array[at : at + np.dtype(kind).itemsize].view(kind)
    others = array[at % 16 :: 1][: len(array) // 16 * 16 - 16].view(kind) if kind == "<i4" else slot
    before = slot[0]
    slot[0] = after = _number(before, np.dtype(kind), others, generator)
    return f"{before} to {after}"


def _number(before: Any, dtype: Any, others: Any, generator: random.Random) -> Any:
    """Return another number of a type."""
    if dtype.kind == "b":
        return not before
    if dtype.kind in "fc":
        return generator.choice([*_FLOATS, before * 2, -before])
    info, value = np.iinfo(dtype), int(before)
    candidates = [*_EXTREMES, value - 1, value + 1, value - 1, value + 1, 2 * value, -value, -value - 1]
    candidates += [int(generator.choice(others)) for _ in range(4)]
    inside = [each for each in candidates if info.min <= each <= info.max and each != value]
    return generator.choice(inside)


def _other(before: Any, parts: Content, generator: random.Random) -> Any:
    """Return other JSON in place of some."""
    if generator.random() < 0.15:
        odd = [None, True, False, [], {}, "", 0, -1, 1.5, 10**30, [1, 2], {"class": ["os", "system"]}]
        return generator.choice([*odd, copy.deepcopy(_at(parts.data, generator.choice(list(_paths(parts.data)))))])
    if isinstance(before, bool):
        return not before
    if isinstance(before, int):
        near = [before - 1, before + 1, before - 1, before + 1, 2 * before, -before]
        return generator.choice([*_EXTREMES, *near, *range(len(parts.arrays))][: 40 + len(near)])
    if isinstance(before, str):
        everything = [_at(parts.data, path) for path in _paths(parts.data)]
        texts = [each for each in everything if isinstance(each, str)]
        return generator.choice([*_TEXTS, before + "x", before[:-1], *texts[:40]])
    if isinstance(before, list):
        return generator.choice([before[:-1], before[1:], before[::-1], before + before[-1:], [], before * 2])
    if isinstance(before, dict):
        return generator.choice([{}, {**before, "more": 1}, {**before, "kind": "tuple"}, [before]])
    return generator.choice([0, [], {}, "x", False])


# Reading and calling -------------------------------------------------------------------------------------------------


def outcome(path: Path, original: Original) -> tuple[str, str]:
    """Load a file and call what it holds; return "refused", "called", "differs" or "wrong", and a message."""
    try:
        loaded = acc.load(path)
    except FileError as error:
        message = str(error)
        if str(path) not in message or len(message) > LONGEST_MESSAGE or printable(message) != message:
            return "wrong", f"a message that is long, not printable, or does not name the file: {message[:300]}"
        return "refused", message
    except CompileError as error:  # another target, which this machine has not
        return "refused", str(error)
    except BaseException as error:
        return "wrong", f"loaded: {_described(error)}"
    answers = []
    for use in _uses(loaded, original):
        try:
            answers.append(use())
        except (AccumulusError, np.linalg.LinAlgError):  # the latter is NumPy's, as in the function itself
            answers.append(None)
        except BaseException as error:
            return "wrong", f"use {len(answers)}: {_described(error)}"
    calls, programs = len(original.calls), loaded._compiled_programs()
    # two programs whose guards were changed may both hold at a point, and the last one is taken first
    is_guarded = any(program.is_guarded for program in programs)
    for one, other in zip(answers, [] if is_guarded else answers[calls : 2 * calls], strict=False):
        if not np.array_equal(_numbers(one), _numbers(other), equal_nan=True):
            return "wrong", f"two calls at one point give {one} and {other}"
    remark = _difference(path, loaded, original, answers)
    # NumPy computes blocks, machine code their bodies, which a file has rewritten
    is_loop = any(program.code.maps is not None for program in programs)
    return "called" if not remark else "differs" if is_loop or is_guarded else "wrong", remark


def _uses(loaded: Any, original: Original) -> Iterator[Callable[[], Any]]:
    """Yield calls of all that a loaded derivative can do; those at points first, twice."""
    calls = [partial(loaded, *call) for call in original.calls]
    yield from calls * 2
    yield from [partial(loaded.batch, *arguments, **more) for arguments, more in original.batches] * 2
    yield partial(loaded.nonzeros, *original.calls[0])
    yield lambda: loaded.pattern
    yield lambda: (str(loaded.report()), loaded.report().to_dict(), repr(loaded), loaded.operations)
    yield loaded._repr_html_
    yield loaded.show
    yield lambda: loaded.compile(*original.calls[0]).source("numpy")


def _described(error: BaseException) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({where.filename}, line {where.lineno})"


def _difference(path: Path, loaded: Any, original: Original, answers: list[Any]) -> str:
    """Return a remark if NumPy's results are others than those of machine code."""
    if loaded._options.target == "numpy" or loaded._options.dtype != "float64":
        return ""
    parts = Content.of(path.read_bytes())
    parts.data["options"]["target"] = "numpy"
    other = path.with_name("other")
    other.write_bytes(parts.written())
    try:
        reference = acc.load(other)
    except FileError as error:
        return f"not loaded for NumPy: {error}"
    for call, answer in zip(original.calls, answers, strict=False):
        try:
            expected = reference(*call)
        except AccumulusError:
            expected = None
        if (expected is None) != (answer is None):
            return f"NumPy's {expected} is {answer} by machine code"
        one, two = (np.array([]) if each is None else _numbers(each) for each in (answer, expected))
        if one.shape != two.shape:
            return f"shapes {one.shape} and {two.shape}"
        finite = np.isfinite(one) & np.isfinite(two)
        scale = np.max(abs(two[finite]), initial=1e-300)
        far = np.max(abs(one - two)[finite], initial=0) / scale
        if far > FAR or (np.isnan(one) != np.isnan(two)).any():
            return f"NumPy's results differ by {far:.3g}"
    return ""


def _numbers(tree: Any) -> Any:
    """Return all numbers of a result."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, Rocket):
        tree = [tree.height, tree.speed]
    if hasattr(tree, "tocoo"):
        matrix = tree.tocoo()
        tree = [matrix.data, *matrix.coords]
    if isinstance(tree, list | tuple):
        parts = [_numbers(each) for each in tree]
        return np.concatenate(parts) if parts else np.array([])
    try:
        return np.asarray(tree, np.float64).reshape(-1)
    except (TypeError, ValueError):
        return np.array([])


def mutation(number: int, files: dict[str, bytes], found: dict[str, dict[str, list[Place]]]) -> tuple[str, bytes, str]:
    """Return the name of the file that a mutation changes, the changed file, and what was done."""
    generator = random.Random(number)
    (name,) = generator.choices(list(files), [originals()[each].weight for each in files])
    return name, *changed(files[name], generator, found[name])


def check(folder: Path, first: int, last: int) -> None:
    """Print the outcome of each mutation, one a line."""
    import resource

    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    found = {name: places(Content.of(content)) for name, content in files.items()}
    with tempfile.TemporaryDirectory(prefix="changed-") as scratch:
        path = Path(scratch, "changed")
        for number in range(first, last):
            used = resource.getrusage(resource.RUSAGE_SELF)
            resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + PATIENCE, -1))
            name, content, done = mutation(number, files, found)
            path.write_bytes(content)
            kind, message = outcome(path, originals()[name])
            print(json.dumps([number, kind, name, done, message]), flush=True)


def run(count: int, seed: int, jobs: int) -> tuple[Counter[str], list[str]]:
    """Check so many mutations in processes of their own; return the number of each outcome, and what went wrong."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    first = seed * 10**9
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with tempfile.TemporaryDirectory(prefix="files-") as folder:
        for name, content in saved().items():
            Path(folder, name).write_bytes(content)

        def chunk(start: int) -> list[list[Any]]:
            lines, stop = [], min(start + CHUNK, first + count)
            while start < stop:
                command = [sys.executable, __file__, str(start), str(stop), folder]
                ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
                lines += [json.loads(line) for line in ran.stdout.splitlines() if line.endswith("]")]
                start += len(ran.stdout.splitlines())
                if start < stop:
                    lines.append([start, "crash", "", "", f"exit code {ran.returncode}: {ran.stderr[-300:]}"])
                    start += 1
            return lines

        with ThreadPoolExecutor(jobs) as pool:
            for lines in pool.map(chunk, range(first, first + count, CHUNK)):
                for number, kind, name, done, message in lines:
                    counts[kind] += 1
                    if kind in ("wrong", "crash"):
                        failures.append(f"mutation {number} of {name!r}: {done}: {message}")
    return counts, failures


def main(first: str, last: str = "", folder: str = "") -> None:
    """Check the mutation of one number, or those of a range, of the files in a folder."""
    if folder:
        check(Path(folder), int(first), int(last))
        return
    with tempfile.TemporaryDirectory(prefix="files-") as made:
        for name, content in saved().items():
            Path(made, name).write_bytes(content)
        check(Path(made), int(first), int(first) + 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
