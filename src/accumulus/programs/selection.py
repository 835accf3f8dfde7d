"""Selection of differentiated arguments, of constants, and of rows, columns or entries of a derivative.

The matrix has a row for each entry of all results and a column for each entry of all differentiated arguments, both in
C order, one result or argument after the other. A selection consists of rows and columns, of entries, or of a band;
only the selected entries are planned and compiled.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.calls import Restructured, constant_key
from accumulus.frontends.kinds import shape_of
from accumulus.frontends.location import numbered
from accumulus.frontends.trees import Branch, Leaf, Structure, grafted, together
from accumulus.memory import check_fits
from accumulus.programs.sparse import Nonzeros

Integers = NDArray[np.int64]
Size = tuple[int, int]


# Arguments -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selection:
    """Differentiated arguments, and the structure of the derivatives of a result."""

    positions: tuple[int, ...]  # positions of the numbers and arrays among the arguments
    structure: Structure  # structure with a leaf for each of them
    # positions of the arguments that are directions, one for each differentiated argument, or weights of the results
    seeds: tuple[int, ...] = ()
    # number of directions or weights, along the first axis of each; None for a single one, without an axis
    several: int | None = None
    # selection of rows, columns or entries of the derivatives that is returned; None for all
    places: SelectedEntries | None = None

    @property
    def seed_count(self) -> int:
        """Return the number of directions or weights."""
        return 1 if self.several is None else self.several

    @property
    def whole(self) -> Selection:
        """Return this selection with all entries of the derivatives."""
        return replace(self, places=None)

    @classmethod
    def of(cls, positions: int | Sequence[int]) -> Selection:
        """Return the selection of one argument, or of several, whose derivatives form a tuple."""
        if isinstance(positions, int):
            return cls((positions,), Leaf())
        return cls(tuple(positions), together([Leaf()] * len(positions)))


def checked_argnums(
    argnums: int | Sequence[int] | Selection, shapes: Sequence[tuple[int, ...] | None], name: str
) -> Selection:
    """Return the arguments to differentiate with respect to, counted from the first.

    Args:
        argnums: positions as users pass them, or a selection, which is returned unchanged.
        shapes: shapes of all arguments; None for arguments that are not numeric.
        name: name of the function, for messages.

    Raises:
        ArgumentError: if there is no such argument, it is not numeric, or it is named twice.
    """
    if isinstance(argnums, Selection):
        return argnums
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    checked = []
    for position in positions:
        if not isinstance(position, int) or not -len(shapes) <= position < len(shapes):
            raise ArgumentError(f"argnums is {argnums!r}; {name} was called with {len(shapes)} arguments")
        if shapes[position] is None:
            raise ArgumentError(
                f"argument {position} of {name} is not numeric; expected one to differentiate with respect to"
            )
        checked.append(position % len(shapes))
    if len(set(checked)) < len(checked):
        raise ArgumentError(f"argnums is {argnums!r}; expected each argument once")
    return Selection.of(checked[0] if isinstance(argnums, int) else checked)


def arranged(call: Restructured, requested: int | str | Sequence[int | str], name: str) -> Selection:
    """Return the selection of the numbers in some arguments of a call, with derivatives in the arguments' structure.

    Args:
        call: call with its arguments.
        requested: position or keyword of an argument, or a sequence of these.
        name: name of the function, for messages.

    Raises:
        ArgumentError: if there is no such argument, it contains no numbers, or it is named twice.
    """
    alone = isinstance(requested, int | str)
    places: list[int | str] = []
    for argument in (requested,) if isinstance(requested, int | str) else requested:
        count = len(call.positional)
        if isinstance(argument, int) and not -count <= argument < count:
            raise ArgumentError(f"argnums is {requested!r}; {name} was called with {count} arguments by position")
        if isinstance(argument, str) and argument not in call.keywords:
            raise ArgumentError(f"argnames is {requested!r}; {argument} was not given, and has no default")
        places.append(argument % count if isinstance(argument, int) else argument)
    if len(set(places)) < len(places):
        raise ArgumentError(f"argnums and argnames are {requested!r}; expected each argument once")
    structures: list[Structure] = []
    positions: list[int] = []
    for argument in places:
        structure, numbers = call.place_of(argument)
        if not numbers:
            subject = f"argument {argument}" if isinstance(argument, int) else argument
            raise ArgumentError(
                f"{subject} of {name} holds no numbers; expected numbers to differentiate with respect to"
            )
        _check_independent(structure)
        structures.append(grafted(structure, Leaf()))
        positions += numbers
    return Selection(tuple(positions), structures[0] if alone else together(structures))


def _check_independent(structure: Structure) -> None:
    """Raise an error for an object some of whose attributes may depend on others."""
    if not isinstance(structure, Branch):
        return
    if structure.container.derived:
        kind, name = structure.container.kind.__name__, structure.container.derived[0]
        raise ArgumentError(
            f"{kind}.{name} is not an argument of the constructor, which may compute it from other attributes; "
            f"derivatives with respect to these would miss it. Make {name} a property, or register how a {kind} is "
            f"made from its parts: accumulus.register({kind}, …)"
        )
    for substructure in structure.parts:
        _check_independent(substructure)


def key_of_examples(examples: Sequence[Any], static: frozenset[int], name: str) -> tuple[Hashable, ...]:
    """Return the key of programs: the shapes of numeric arguments, and the values of all others and of static ones."""
    key = []
    for k, example in enumerate(examples):
        shape = None if k in static else shape_of(example, numbered(name, k))
        key.append(constant_key(example, numbered(name, k)) if shape is None else shape)
    return tuple(key)


def static_positions(static: int | Sequence[int], count: int) -> frozenset[int]:
    """Return the positions of static arguments, counted from the first.

    Raises:
        ArgumentError: if there is no such argument.
    """
    positions = (static,) if isinstance(static, int) else tuple(static)
    if any(not isinstance(k, int) or not -count <= k < count for k in positions):
        raise ArgumentError(f"static_argnums is {static!r}; {count} arguments were given")
    return frozenset(k % count for k in positions)


# Rows, columns and entries -------------------------------------------------------------------------------------------


class SelectionRequest:
    """Request for a selection of matrices whose size is not known yet.

    Args:
        rows, columns: positions, a slice, or a mask; None for all.
        entries: row positions and as many column positions; or a sparse matrix whose stored entries are selected.
        banded: numbers of diagonals below and above the main one.
        sparse: True if sparse matrices are returned instead of arrays.

    Raises:
        ArgumentError: for invalid values or combinations.
    """

    def __init__(self, rows: Any, columns: Any, entries: Any, banded: Any, *, sparse: bool) -> None:
        if entries is not None and (rows is not None or columns is not None):
            raise ArgumentError("entries and rows or columns were given; expected either")
        if banded is not None and (rows is not None or columns is not None or entries is not None or sparse):
            raise ArgumentError("banded was given together with rows, columns, entries or sparse; leave these out")
        self._sparse = sparse
        self._rows, self._columns = _choice("rows", rows), _choice("columns", columns)
        self._entries = None if entries is None else _entries(entries)
        self._banded = None if banded is None else _bandwidths(banded)

    def places(self, size: Size, name: str) -> SelectedEntries:
        """Return the selection for a matrix of this size, the derivative of the function with this name.

        Raises:
            ArgumentError: if the selected rows, columns or entries do not exist.
        """
        if self._banded is not None:
            return _Band(size, np.arange(size[0]), np.arange(size[1]), None, name, *self._banded)
        if self._entries is None:
            rows = _positions(self._rows, size[0], f"rows of the derivative of {name}")
            columns = _positions(self._columns, size[1], f"columns of the derivative of {name}")
            return _Block(size, np.sort(rows), np.sort(columns), None, name, rows, columns)
        rows, columns, shape = self._entries
        if shape not in (None, size):
            raise ArgumentError(f"entries is a matrix of shape {shape}; the derivative of {name} has shape {size}")
        rows = _positions(rows, size[0], f"entries, of the derivative of {name}, rows", once=False)
        columns = _positions(columns, size[1], f"entries, of the derivative of {name}, columns", once=False)
        pairs = np.unique(np.stack([rows, columns], axis=1), axis=0)
        if self._sparse and len(pairs) < len(rows):
            raise ArgumentError("entries names a position twice; a sparse matrix holds each position once")
        distinct = np.unique(rows), np.unique(columns)
        return (_Pattern if self._sparse else _Entries)(size, *distinct, pairs, name, rows, columns)


@dataclass(frozen=True, slots=True, eq=False)
class SelectedEntries:
    """Selection of entries of a matrix of known size."""

    size: Size  # size of the matrix
    # rows, columns: rows and columns that contain selected entries, ascending
    rows: Integers
    columns: Integers
    pairs: Integers | None  # selected entries, (n, 2), row by row; None for all entries of these rows and columns
    name: str  # name of the function, for messages

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result, as an array."""
        return self.matrix

    @property
    def matrix(self) -> Size:
        """Shape of the result as a matrix, in which nonzeros have positions."""
        raise NotImplementedError

    def arranged(self, nonzeros: Nonzeros) -> Nonzeros:
        """Return the structural nonzeros of the whole matrix at their places in the result, row by row."""
        raise NotImplementedError

    @property
    def pattern(self) -> Nonzeros | None:
        """Places of the stored entries of a sparse result, if they are not its structural nonzeros."""
        return None

    def lower_triangle(self) -> Integers:
        """Return the places (row, column) on or below the diagonal of a symmetric matrix that the selection needs."""
        pairs = self.pairs
        if pairs is None:
            pairs = np.stack(np.meshgrid(self.rows, self.columns, indexing="ij"), axis=-1).reshape(-1, 2)
        return np.unique(np.sort(pairs, axis=1)[:, ::-1], axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class _Block(SelectedEntries):
    """Rows and columns in the requested order."""

    requested_rows: Integers
    requested_columns: Integers

    @property
    def matrix(self) -> Size:
        return len(self.requested_rows), len(self.requested_columns)

    def arranged(self, nonzeros: Nonzeros) -> Nonzeros:
        coordinates = []
        for positions, selected, count in zip(
            (nonzeros.rows, nonzeros.columns), (self.requested_rows, self.requested_columns), self.size, strict=True
        ):
            rank_of = np.full(count, -1, np.int64)
            rank_of[selected] = np.arange(len(selected))
            coordinates.append(rank_of[positions])
        inside = (coordinates[0] >= 0) & (coordinates[1] >= 0)
        return Nonzeros(coordinates[0][inside], coordinates[1][inside], nonzeros.outputs[inside]).in_order()


@dataclass(frozen=True, slots=True, eq=False)
class _Entries(SelectedEntries):
    """Entries as a vector, in the requested order."""

    requested_rows: Integers
    requested_columns: Integers

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.requested_rows),)

    @property
    def matrix(self) -> Size:
        return 1, len(self.requested_rows)

    def arranged(self, nonzeros: Nonzeros) -> Nonzeros:
        matches, at = self._matches(nonzeros)
        return Nonzeros(np.zeros(len(at), np.int64), at, nonzeros.outputs[matches])

    def _matches(self, nonzeros: Nonzeros) -> tuple[Integers, Integers]:
        """Return nonzeros at the selected entries, and the positions of these entries; all others are zero."""
        width = self.size[1]
        nonzero_keys = nonzeros.rows.astype(np.int64) * width + nonzeros.columns
        order = np.argsort(nonzero_keys)
        keys = self.requested_rows * width + self.requested_columns
        places = np.searchsorted(nonzero_keys, keys, sorter=order)
        inside = np.flatnonzero(places < len(nonzero_keys))
        matches: Integers = order[places[inside]]
        same = nonzero_keys[matches] == keys[inside]
        return matches[same], inside[same]


@dataclass(frozen=True, slots=True, eq=False)
class _Pattern(_Entries):
    """A sparse matrix of the full size that stores the selected entries."""

    @property
    def matrix(self) -> Size:
        return self.size

    def arranged(self, nonzeros: Nonzeros) -> Nonzeros:
        matches, at = self._matches(nonzeros)
        return Nonzeros(self.requested_rows[at], self.requested_columns[at], nonzeros.outputs[matches]).in_order()

    @property
    def pattern(self) -> Nonzeros:
        return Nonzeros(
            self.requested_rows, self.requested_columns, np.zeros(len(self.requested_rows), np.intp)
        ).in_order()


@dataclass(frozen=True, slots=True, eq=False)
class _Band(SelectedEntries):
    """Diagonals: entry (i, j) is at (upper + i - j, j), the format of LAPACK, `scipy.linalg.solve_banded` and LSODA."""

    lower: int
    upper: int

    @property
    def matrix(self) -> Size:
        return self.lower + self.upper + 1, self.size[1]

    def arranged(self, nonzeros: Nonzeros) -> Nonzeros:
        below = nonzeros.rows.astype(np.int64) - nonzeros.columns
        outside = np.flatnonzero((below > self.lower) | (-below > self.upper))
        if len(outside):
            i, j = int(nonzeros.rows[outside[0]]), int(nonzeros.columns[outside[0]])
            needed = max(0, int(below.max())), max(0, int(-below.min()))
            raise ArgumentError(
                f"banded is {(self.lower, self.upper)}, and entry ({i}, {j}) of the derivative of {self.name} is "
                f"outside of that band; expected banded={needed}, which holds all structural nonzeros"
            )
        check_fits(8 * math.prod(self.matrix), f"a band of {self.matrix[0]:,} diagonals", "ask for sparse results")
        return Nonzeros(self.upper + below, nonzeros.columns, nonzeros.outputs).in_order()


def _choice(option: str, selected: Any) -> Any:
    """Return positions or a mask as a copied array; a slice or None unchanged."""
    if selected is None or isinstance(selected, slice):
        return selected
    array = np.array(selected)
    if array.dtype == bool:
        return array.ravel()
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ArgumentError(f"{option} is {selected!r:.80}; expected a sequence of positions, a slice, or a mask")
    return array.astype(np.int64)


def _positions(selected: Any, count: int, subject: str, *, once: bool = True) -> Integers:
    """Return positions, counted from the first, from indices, a slice, a mask, or None for all."""
    if selected is None:
        return np.arange(count)
    if isinstance(selected, slice):
        try:
            return np.arange(count)[selected]
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{subject} are {selected!r}; expected a slice of whole numbers: {error}") from None
    if selected.dtype == bool:
        if len(selected) != count:
            raise ArgumentError(f"{subject} are a mask of {len(selected)} entries; expected {count}")
        return np.flatnonzero(selected)
    wrong = selected[(selected < -count) | (selected >= count)]
    if len(wrong):
        raise ArgumentError(f"{subject} have {wrong[0]}; there are {count}, counted from 0")
    positions: Integers = selected % max(count, 1)
    if once and len(np.unique(positions)) < len(positions):
        raise ArgumentError(f"{subject} have a position twice; expected each once")
    return positions


def _entries(entries: Any) -> tuple[Integers, Integers, Size | None]:
    """Return the rows and columns of entries, and the shape of the matrix if one is passed, else None."""
    wrong = ArgumentError(
        f"entries is {entries!r:.80}; expected a pair (rows, columns) of equally many positions, or a sparse matrix"
    )
    shape = None
    if hasattr(entries, "tocoo"):
        matrix = entries.tocoo()
        rows, columns, shape = matrix.row, matrix.col, (int(matrix.shape[0]), int(matrix.shape[1]))
    else:
        try:
            rows, columns = entries
        except (TypeError, ValueError):
            raise wrong from None
    rows, columns = _choice("rows of entries", rows), _choice("columns of entries", columns)
    if any(not isinstance(each, np.ndarray) or each.dtype == bool for each in (rows, columns)):
        raise wrong
    if len(rows) != len(columns):
        raise wrong
    return rows, columns, shape


def _bandwidths(bandwidths: Any) -> Size:
    whole = isinstance(bandwidths, tuple | list) and len(bandwidths) == 2
    if not whole or any(isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0 for k in bandwidths):
        raise ArgumentError(
            f"banded is {bandwidths!r}; expected the numbers of diagonals below and above the main one, as (1, 2)"
        )
    return int(bandwidths[0]), int(bandwidths[1])
