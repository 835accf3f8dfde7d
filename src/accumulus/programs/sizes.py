"""Whether derivatives fit into memory, asked when a function has been recorded, before anything long begins."""

from __future__ import annotations

import math

import numpy as np

from accumulus.frontends.recorder import Recording
from accumulus.memory import check_fits
from accumulus.options import Options
from accumulus.programs.argnums import Selection
from accumulus.programs.kinds import Kind
from accumulus.tape.blocks import BlockTape

__all__ = ["check_size"]


def check_size(
    recording: Recording, kind: Kind, selection: Selection, points: int, options: Options, name: str
) -> None:
    """Refuse dense Jacobians and Hessians, and results of a function's operations, that do not fit into memory.

    Args:
        points: at which the Jacobian is wanted, in memory.

    Raises:
        SizeError: if so.
    """
    columns = sum(math.prod(recording.argument_shapes[k] or ()) for k in selection.positions)
    rows = columns if kind.symmetric else sum(map(math.prod, recording.result_shapes))
    if selection.places is not None:
        rows, columns = selection.places.matrix
    size = np.dtype(options.dtype).itemsize
    if options.sparse is None and not kind.has_seeds:
        where, disk = (f" at {points:,} points", ", or give out=, arrays on disk") if points > 1 else ("", "")
        check_fits(
            points * rows * columns * size,
            f"the {'Hessian' if kind.symmetric else 'Jacobian'} of {name}, {rows:,} × {columns:,} entries{where},",
            f'ask for its nonzeros only: sparse="csr"{disk}',
        )
    if isinstance(recording.tape, BlockTape):
        results = len(recording.tape)
        check_fits(
            2 * size * results,
            f"the {results:,} results of the operations of {name}",
            "expected smaller arrays, or a call for each part of them",
        )
