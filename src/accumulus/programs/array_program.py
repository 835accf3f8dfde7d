"""Derivatives of functions of long arrays, compiled as loops: the stages of `Program`, for each loop body."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.jacobian import differentiate
from accumulus.frontends.decisions import holds_of
from accumulus.frontends.record import Recording
from accumulus.options import Options
from accumulus.programs.argnums import Selection
from accumulus.programs.arguments import Arguments
from accumulus.programs.guarded import Ran
from accumulus.programs.kinds import Kind
from accumulus.programs.preparation import Preparation
from accumulus.programs.program import Program
from accumulus.programs.results import Nonzeros, Results
from accumulus.rewriting.bodies import optimise_bodies
from accumulus.rewriting.canonical import canonical
from accumulus.search.plans.plan_cache import is_enabled
from accumulus.tape.blocks import BlockTape
from accumulus.tape.fusion import Map, fuse
from accumulus.targets import Call
from accumulus.targets.block_kernel import BlockKernel, LongSegment, as_slice
from accumulus.targets.target import target_of

if TYPE_CHECKING:
    from accumulus.show.structure import StructureReport

__all__ = ["ArrayProgram", "compiled_loops"]


class _LongResults(Results):
    """Results of so many entries that their layout is kept in arrays."""

    def _segment(self, length: int, outputs: NDArray[np.intp], places: NDArray[np.intp]) -> LongSegment:
        return LongSegment(length, outputs, places)

    def _in_order(self, outputs: NDArray[np.intp], first: int) -> LongSegment:
        found = as_slice(outputs)
        chosen = slice(found.start + first, found.stop + first) if isinstance(found, slice) else found + first
        return LongSegment(len(outputs), chosen, slice(0, len(outputs)))


class ArrayProgram(Program):
    """Compiled loops for arguments of one shape; arguments and results are those of `Program`.

    Attributes:
        maps: the bodies that are compiled, each with the number of its instances.
        products: products of derivatives between arrays.
        jacobian_shape: entries of the results, and of the differentiated arguments.
        nonzero_count: structural nonzeros of the Jacobian.
    """

    _layout = _LongResults

    def __init__(
        self,
        recording: Recording,
        kind: Kind,
        selection: Selection,
        preparation: Preparation,
    ) -> None:
        options = preparation.options
        self.name, self.recording, self.options = preparation.name, recording, options
        self.kind = kind
        self.seconds = preparation.seconds
        self.from_cache = []
        given = recording.tape
        assert isinstance(given, BlockTape)
        chosen = [np.arange(given.inputs)[recording.argument_slices[k]] for k in selection.positions]
        inputs = np.concatenate([*chosen, np.empty(0, np.int64)], dtype=np.int64)
        with preparation.stage("plan"):
            found = differentiate(given, inputs, options, preparation.deadline)
        self.products = found.products
        results = recording.results
        self.jacobian_shape = (results, len(inputs))
        self.nonzero_count = len(found.rows)
        self.tape: BlockTape = found.tape  # type: ignore[assignment]
        outputs = self.tape.outputs
        parts = [outputs[: results * kind.values], outputs[found.values :]]
        if self.is_guarded:  # behind all else
            parts.append(np.array([holds_of(self.tape, outputs[results : found.values])]))
        self.tape.outputs = np.concatenate(parts)
        self.maps: list[Map] = fuse(self.tape)
        with preparation.stage("optimise"):
            if options.rewrites:
                optimise_bodies(self.maps, effort=options.effort, seed=options.seed, deadline=preparation.deadline)
            else:
                for each in self.maps:
                    each.body = canonical(each.body, each.sensitive)
        self.operations = sum(
            each.count * each.body.operations if each.is_body else self.tape.blocks[each.blocks[0]].operations
            for each in self.maps
        )
        dtype = np.dtype(options.dtype)
        self._arguments = Arguments(self.name, recording.argument_shapes, dtype, options.check_finite)
        self.ran = Ran()
        self._selection = selection
        self._nonzeros = Nonzeros(found.rows, found.columns, np.arange(len(found.rows), dtype=np.int32))
        self._results = self._laid_out()
        if not (self.is_guarded and options.sparse):  # indices of all nonzeros; other cases are laid out by them
            del self._nonzeros
        del found
        with preparation.stage("compile"):
            self.kernel = self._compile("point", ())

    def _compile(self, first: Call, shared: tuple[bool, ...]) -> BlockKernel:
        segments: Any = self._segments()
        return compiled_loops(self.tape, self.maps, segments, self._arguments.numeric_shapes, self.options)

    def report(self) -> StructureReport:  # type: ignore[override]
        """Which bodies there are, how often they run, and what they cost. Printable."""
        from accumulus.show.structure import StructureReport

        return StructureReport.of(self)


def compiled_loops(
    tape: BlockTape,
    maps: Sequence[Map],
    segments: Sequence[LongSegment],
    arguments: Sequence[tuple[int, ...]],
    options: Options,
) -> BlockKernel:
    """The kernel of a program over arrays.

    Args:
        maps: its bodies, as they are compiled.
        arguments: shapes of the arrays that the inputs are the entries of.
    """
    start = time.perf_counter()
    loops = target_of(options.target).loops(tape, maps, segments, options.cache and is_enabled())
    return BlockKernel(loops, segments, arguments, options.threads, time.perf_counter() - start)
