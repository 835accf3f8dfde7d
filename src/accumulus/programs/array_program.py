"""Derivatives of functions of long arrays, compiled as loops: the stages of `Program`, for each loop body."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from accumulus.frontends.decisions import holds_of
from accumulus.frontends.recorder import Recording
from accumulus.options import Options
from accumulus.programs.argnums import Selection
from accumulus.programs.arguments import Arguments
from accumulus.programs.derived_blocks import LongResults, differentiated
from accumulus.programs.guarded import Ran
from accumulus.programs.kinds import Kind
from accumulus.programs.preparation import Preparation
from accumulus.programs.program import Program
from accumulus.programs.seeds import inputs_of
from accumulus.resubstitution.bodies import optimise_bodies
from accumulus.rewriting.canonical import canonical
from accumulus.tape.blocks import BlockTape
from accumulus.tape.fusion import Map, fuse
from accumulus.targets import Call
from accumulus.targets.block_kernel import BlockKernel, LongSegment
from accumulus.targets.target import emit_loops, target_of

if TYPE_CHECKING:
    from accumulus.show.structure import StructureReport

__all__ = ["ArrayProgram", "compiled_loops"]


class ArrayProgram(Program):
    """Compiled loops for arguments of one shape; arguments and results are those of `Program`.

    Attributes:
        maps: the bodies that are compiled, each with the number of its instances.
        products: products of derivatives between arrays.
        jacobian_shape: entries of the results, and of the differentiated arguments.
        nonzero_count: structural nonzeros of the Jacobian.
    """

    _layout = LongResults

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
        with preparation.stage("plan"):
            found = differentiated(recording, kind, selection, preparation.context)
        self.products = found.products
        self.jacobian_shape = (recording.results, len(inputs_of(recording, selection.positions)))
        self.nonzero_count = len(found.entries)
        self.tape: BlockTape = found.tape  # type: ignore[assignment]
        parts = [found.values[: recording.results * kind.values], found.entries]
        if self.is_guarded:  # behind all else
            parts.append(np.array([holds_of(self.tape, found.guards)]))
        self.tape.outputs = np.concatenate(parts)
        self.maps: list[Map] = fuse(self.tape)
        with preparation.stage("optimise"):
            if options.rewrites:
                optimise_bodies(self.maps, preparation.context)
            else:
                for each in self.maps:
                    each.body = canonical(each.body, each.sensitive)
        self.cut_short = preparation.context.cut_short
        self.operations = sum(
            each.count * each.body.operations if each.is_body else self.tape.blocks[each.blocks[0]].operations
            for each in self.maps
        )
        dtype = np.dtype(options.dtype)
        self._arguments = Arguments(self.name, recording.argument_shapes, dtype, options.check_finite)
        self.ran = Ran()
        self._selection = selection
        self._nonzeros = found.nonzeros
        self._results = self._laid_out()
        if not (self.is_guarded and options.sparse):  # indices of all nonzeros; other cases are laid out by them
            del self._nonzeros
        del found
        with preparation.stage("compile"):
            self.kernel = self._compile("point", ())

    def _compile(self, first: Call, shared: tuple[bool, ...]) -> BlockKernel:
        segments: Any = self._segments()
        return compiled_loops(self.tape, self.maps, segments, self._arguments.numeric_shapes, self.options)

    def source(self, target: str | None = None, name: str = "f") -> str:
        """The program as text in a target's language, see `Program.source`; C, CUDA, JAX and NumPy have its loops.

        Raises:
            CompileError: for a target whose language has none.
        """
        segments: Any = self.kernel.segments
        shapes = self._arguments.numeric_shapes
        return emit_loops(self.tape, self.maps, segments, target or self.options.target, name, arguments=shapes)

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
    shapes = tuple(map(tuple, arguments))
    loops = target_of(options.target).loops(tape, maps, segments, shapes, options.caches)
    return BlockKernel(loops, segments, arguments, options.threads, time.perf_counter() - start)
