"""Conversion of tapes to arrays and back, with checks, since compiled code accesses memory as the tapes describe it.

The checks ensure that references exist and precede their use, that operations have operands of their kinds, and that
loops neither access memory beyond their operands nor need more memory than is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, FileError, OpaqueError
from accumulus.shipping.data_files import Arrays, Fields
from accumulus.tape.blocks import (
    CHOLESKY,
    FACTORS,
    GATHER,
    LOG_DETERMINANT,
    MATMUL,
    OF_MATRICES,
    ORTHOGONAL,
    SCAN,
    SCATTER,
    SINGULAR_VECTORS,
    SPARSE_PRODUCT,
    SPARSE_SOLVE,
    SUM,
    Block,
    operand_shapes,
)
from accumulus.tape.columns import Column, Range, references_in
from accumulus.tape.factorisations import FACTORISATIONS
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.program import MANY_BLOCKS, Program
from accumulus.tape.sparse_systems import SparseMatrix
from accumulus.tape.tape import Tape, from_bytes, to_bytes

#: Operations whose first argument is a constant order, by code.
_TAKES_ORDER: Final = np.array([row.arguments[:1] == ("order",) for row in OPERATIONS])
_ARITY: Final = [operation.arity for operation in OPERATIONS]
#: Largest order of a function that is accepted.
_LARGEST_ORDER: Final = 1e6


def tape_as_data(tape: Tape | Program, arrays: Arrays) -> dict[str, Any]:
    """Return a tape as data."""
    if tape.scalars is not None:
        return {"tape": arrays.add(np.frombuffer(to_bytes(tape.scalars), np.uint8))}
    matrices: dict[SparseMatrix, dict[str, int]] = {}  # so that each is written once
    return {
        "inputs": tape.inputs,
        "signed_zeros": tape.signed_zeros,
        "constants": arrays.add(tape.constants),
        "outputs": arrays.add(tape.outputs, np.int64),
        "blocks": [_block_as_data(block, arrays, matrices) for block in tape.blocks],
    }


def _add_constants(tape: Program, values: NDArray[np.float64]) -> None:
    """Add constants, each with a separate reference; the last one gets the lowest reference."""
    if len(values) > 1 and len(np.unique(values.view(np.int64))) > 1:
        tape.constant_array(values[::-1])
    else:
        for value in values.tolist():
            tape.constant_apart(value)


def _block_as_data(block: Block, arrays: Arrays, matrices: dict[SparseMatrix, dict[str, int]]) -> dict[str, Any]:
    held = block.opaque if isinstance(block.opaque, SparseMatrix) else None
    if block.opaque is not None and held is None:
        raise OpaqueError.of(block.opaque.name, "a file")
    data: dict[str, Any] = {
        "code": block.code,
        "count": block.count,
        "operands": [
            [each.start, each.step, each.count] if isinstance(each, Range) else {"row": arrays.add(each, np.int64)}
            for each in block.operands
        ],
    }
    if block.offsets is not None:
        data["offsets"] = arrays.add(block.offsets, np.int64)
    if block.body is not None:
        data["body"] = tape_as_data(block.body, arrays)
        data["steps"] = arrays.add(block.steps, np.int64)
    if block.shape is not None:
        data["shape"] = list(block.shape)
    if held is not None:
        if held not in matrices:
            matrices[held] = {name: arrays.add(getattr(held, name)) for name in ("starts", "columns", "entries")}
        data["matrix"] = matrices[held]
    return data


def tape_from_data(record: Fields) -> Program:
    """Return the program that data describe.

    Raises:
        FileError: if the data do not describe a valid program.
    """
    if "tape" in record.data:
        return Program.of(scalars_from_data(record))
    # blocks of scalar operations may be equal, and must stay separate
    tape = Program(record.number("inputs", most=1 << 40), signed_zeros=record.truth("signed_zeros"), joins=False)
    _add_constants(tape, record.array("constants", "f").astype(np.float64))
    blocks = record.records("blocks")
    if len(blocks) > MANY_BLOCKS:
        raise FileError(f"{record.subject} has {len(blocks)} blocks; expected at most {MANY_BLOCKS}")
    matrices: dict[Any, SparseMatrix] = {}
    for each in blocks:
        _append(tape, each, matrices)
    outputs = record.array("outputs").astype(np.int64)
    _check_references([outputs], tape, record.subject)
    tape.outputs = outputs
    return tape


def scalars_from_data(record: Fields, *, in_loop: bool = False) -> Tape:
    """Return the straight-line tape that data describe.

    Args:
        record: data of the tape.
        in_loop: if True, the tape is the body of a loop, which may store truth values as numbers.

    Raises:
        FileError: if the data do not describe a valid tape.
    """
    content = record.array("tape", "u")
    try:
        tape = from_bytes(content.tobytes())
    except ValueError as error:
        raise FileError(f"{record.subject}: {error}") from None
    _check_orders(tape, record.subject)
    if not in_loop and any(map(tape.is_boolean, tape.outputs)):
        raise FileError(f"{record.subject} has an output that is a boolean")
    return tape


def _check_orders(tape: Tape, subject: str) -> None:
    """Raise an error for orders of functions that are not constant."""
    codes, first = np.frombuffer(bytes(tape.codes), np.uint8), np.asarray(tape.first)
    has_order = _TAKES_ORDER[codes]
    for order, code in {*zip(first[has_order].tolist(), codes[has_order].tolist(), strict=True)}:
        _check_order(tape.value_of(order) if order < 0 else None, code, subject)


def _append(tape: Program, record: Fields, matrices: dict[Any, SparseMatrix]) -> None:
    """Append one block to a tape."""
    code, count = record.number("code", most=255), record.number("count", minimum=1, most=1 << 40)
    operands = tuple([_column(each, record) for each in record.items("operands")])
    record.check_fits(len(tape) + count + sum(map(len, operands)))
    if code == SUM:
        offsets = record.array("offsets").astype(np.int64)
        _check_lengths(operands, [len(each) for each in operands[:1]] or [0], record.subject)
        _check_increasing(offsets, len(operands[0]), record.subject)
        if len(offsets) != count + 1:
            raise FileError(f"{record.subject} has {len(offsets) - 1} sums; expected {count}")
        _check_references(operands, tape, record.subject)
        tape.sums(references_in(operands[0]), offsets)
    elif code == SCAN:
        body, steps = scalars_from_data(record.record("body"), in_loop=True), record.array("steps").astype(np.int64)
        if not body.outputs:
            raise FileError(f"{record.subject} has a body without results; expected at least one")
        record.check_fits(len(tape) + count * len(body.outputs))
        _check_increasing(steps, count, record.subject)
        _check_lengths(operands, [count] * body.inputs, record.subject)
        try:
            tape.scan(body, lambda _: operands, steps)
        except ArgumentError as error:
            raise FileError(f"{record.subject}: {error}") from None
    elif code in OF_MATRICES and code != SPARSE_SOLVE:
        sizes = record.shape(record.data.get("shape"))
        if len(sizes) != 3:
            raise FileError(f"{record.subject} works on matrices of {sizes}; expected three numbers")
        m, k, n = sizes
        has_sides = code not in (LOG_DETERMINANT, *FACTORS)
        taken = 1 if code in (CHOLESKY, SPARSE_PRODUCT) or not has_sides else 2
        lengths = [rows * columns for rows, columns in operand_shapes(code, (m, k, n), None, taken)]
        results = 2 if code == LOG_DETERMINANT else m * n
        if code in FACTORS:
            results = sum(FACTORISATIONS[code].sizes(m, k))
        by_indices = code in (GATHER, SCATTER)
        is_square = m >= k if code in (ORTHOGONAL, SINGULAR_VECTORS) else code == MATMUL or by_indices or m == k
        matrix = None
        if code == SPARSE_PRODUCT:
            held = record.record("matrix")
            made = _sparse_matrix(held, (m, k))
            key = *(held.data[name] for name in ("starts", "columns", "entries")), m, k
            matrix, is_square = matrices.setdefault(key, made), True
        if (
            0 in lengths
            or results != count
            or not is_square
            or (code == CHOLESKY and k != n)
            or (n != 0 and not has_sides)
        ):
            raise FileError(f"{record.subject} works on matrices of {sizes}, which do not have {count} results")
        _check_lengths(operands, lengths, record.subject)
        _check_references(operands, tape, record.subject)
        tape.of_matrices(code, (m, k, n), [references_in(each) for each in operands], matrix)
    elif 1 <= code < len(OPERATIONS):
        _check_lengths(operands, [count] * _ARITY[code], record.subject)
        _check_references(operands, tape, record.subject)
        for each, kind in zip(operands, OPERATIONS[code].arguments, strict=True):
            if kind == "order":
                _check_order(tape.uniform(each), code, record.subject)
        tape.apply_code(code, operands)
    else:
        raise FileError(f"{record.subject} has the code {code}, which does not exist")


def _sparse_matrix(record: Fields, shape: tuple[int, int]) -> SparseMatrix:
    """Return a constant sparse matrix."""
    starts, columns = (record.array(name).astype(np.int64) for name in ("starts", "columns"))
    entries = record.array("entries", "f")
    if (
        max(shape) >= 1 << 31
        or len(starts) != shape[0] + 1
        or starts[0] != 0
        or (np.diff(starts) < 0).any()
        or not starts[-1] == len(columns) == len(entries)
        or (len(columns) and not 0 <= int(columns.min()) <= int(columns.max()) < shape[1])
    ):
        raise FileError(f"{record.subject} is not a sparse matrix of {shape[0]} × {shape[1]} entries")
    return SparseMatrix(starts, columns, entries, shape)


def _check_lengths(operands: Sequence[Column], expected: list[int], subject: str) -> None:
    if [len(each) for each in operands] != expected:
        raise FileError(f"{subject} has operands of {[len(each) for each in operands]} entries; expected {expected}")


def _check_order(value: float | None, code: int, subject: str) -> None:
    """Raise an error for an order of a function that is not a constant integer in range."""
    largest = min(_LARGEST_ORDER, OPERATIONS[code].largest_order)
    if value is None or not abs(value) <= largest or value != int(value):
        raise FileError(
            f"{subject} has {OPERATIONS[code].name} of the order {value}; expected a constant whole number of at most "
            f"{largest:,.0f}"
        )


def _check_references(columns: Iterable[Column], tape: Program, subject: str) -> None:
    for each in columns:
        ends = each.ends if isinstance(each, Range) else (int(each.min(initial=0)), int(each.max(initial=0)))
        if len(each) and (min(ends) < -len(tape.constants) or max(ends) >= len(tape)):
            raise FileError(f"{subject} has references from {min(ends)} to {max(ends)}, which do not exist")


def _check_increasing(offsets: NDArray[np.int64], last: int, subject: str) -> None:
    """Raise an error unless offsets begin at 0, increase, and end at `last`."""
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != last or (np.diff(offsets) < 1).any():
        raise FileError(f"{subject} has segments that do not follow each other from 0 to {last}")


def _column(data: Any, record: Fields) -> Column:
    """Return a column of references."""
    if isinstance(data, list) and len(data) == 3 and all(type(n) is int and abs(n) < 1 << 48 for n in data):
        start, step, count = data
        if step in (-1, 0, 1) and count >= 0:
            return Range(start, step, count)
    elif isinstance(data, dict):
        return references_in(
            Fields(data, f"an operand of {record.subject}", record.arrays).array("row").astype(np.int64)
        )
    raise FileError(f"{record.subject} has an operand that is not a row of references")
