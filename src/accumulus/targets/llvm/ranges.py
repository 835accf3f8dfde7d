"""LLVM IR of the function `run`, which computes a range of points in whole blocks, and the remaining points.

Rows: the first blocks start at the row whose results have the alignment that the blocks' code expects. The rows before
it are computed in an additional block, and the rows left over at the end in a block that ends at the last point; such
blocks recompute some rows. A range of fewer points than lanes goes through scratch memory, in which the last point
fills the remaining lanes. Results that exceed the caches are computed tile by tile in scratch memory and streamed.

Columns: the first whole block starts where cache lines of the results begin, if that is the same point for all
variables, since a vector across two lines takes up to twice as long to store. If variables would evict each other from
the cache, if no cache holds the results, and for a range of fewer points than lanes, the points go tile by tile through
scratch memory, copied in runs of neighbouring points, and streamed as rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from accumulus.targets.llvm.host import last_cache
from accumulus.targets.llvm.vectors import ATTRIBUTES, UNOPTIMISED, Signature, again, unless, when
from accumulus.targets.schedule import ResultGroup

#: Scratch memory beyond this number of bytes is on the heap. More may overflow the stacks of threads, less allocates
#: memory in more calls.
LARGEST_ON_STACK: Final = 1 << 16
#: Bytes of a cache line.
LINE: Final = 64
#: Results of more than `STREAMED` of the last cache are computed in tiles of about `TILE` bytes, at most
#: `LARGEST_TILE`, and copied to memory by non-temporal stores, which write whole lines without reading them first.
#: Points took 0.35 to 0.9 of the time. Tiles of 16 KB took up to 1.2 times as long: memory idles while one is computed.
#: From a quarter of the cache on, points took 1.0 to 1.7 times as long, and a sum over the results twice as long.
#: `make bench ARGS=beyond` measures such batches.
STREAMED, TILE, LARGEST_TILE = 0.5, 1 << 12, 1 << 16
#: Transposed batches go through tiles if the number of variables, times the largest power of two in their distance in
#: bytes, a page at most, exceeds `COLLIDING`, and that power of two is at least `APART`, or twice that if vectors are
#: as wide as lines. Direct stores took 1.4 to 9 times as long in that case; otherwise tiles take 1.1 to 2.5 times as
#: long.
COLLIDING, APART, PAGE = 1 << 17, 1 << 10, 1 << 12
#: Fewest variables of results of a transposed batch that are streamed, unless they collide. The processor follows fewer
#: variables to fetch their lines ahead. Points then took 0.4 to 0.9 of the time; with fewer variables, up to 1.9 times.
MANY_VARIABLES: Final = 64


class _Scratch:
    """Scratch memory in pieces that each start at a cache line; on the stack if it is small."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[str] = []

    def take(self, name: str, size: int) -> None:
        """Reserve a piece of `size` bytes, and define the pointer %name."""
        self._pieces.append(f"%{name} = getelementptr inbounds i8, ptr %scratch, i64 {self.size}")
        self.size += size + -size % 64

    def opening(self) -> list[str]:
        """Return instructions for the start of a function; the label %start ends them."""
        if self.size <= LARGEST_ON_STACK:
            return [f"%scratch = alloca i8, i64 {self.size + 64}, align 64", "br label %start", "start:", *self._pieces]
        return [
            f"%heap = call ptr @PyMem_RawMalloc(i64 {self.size + 64})",
            *when("heap.none", "icmp eq ptr %heap, null", "out.of.memory", "start"),
            "ret i32 1",
            "start:",
            "%heap.at = ptrtoint ptr %heap to i64",
            "%heap.odd = and i64 %heap.at, 63",
            "%heap.skip = sub i64 64, %heap.odd",
            "%scratch = getelementptr i8, ptr %heap, i64 %heap.skip",
            *self._pieces,
        ]

    def closing(self) -> list[str]:
        """Return instructions for the end of a function."""
        free = ["call void @PyMem_RawFree(ptr %heap)"] if self.size > LARGEST_ON_STACK else []
        return [*free, "ret i32 0", "}"]


def _head(signature: Signature) -> str:
    pointers = ", ".join(f"ptr %{name}" for name in signature.names)
    return f"define i32 @run({pointers}, i64 %first, i64 %last, i64 %points) {UNOPTIMISED} {{"


def run_one(signature: Signature, slots: int, lanes: int, body: Sequence[str]) -> list[str]:
    """Return the function for one point, or one block, without a loop; arguments as for `run_rows`."""
    scratch = _Scratch()
    scratch.take("frame", slots * lanes * signature.size)
    pointers = ", ".join(f"ptr noalias %{name}" for name in signature.names)
    return [
        f"define internal i32 @run({pointers}, i64 %first, i64 %last, i64 %points) {ATTRIBUTES} {{",
        *scratch.opening(),
        *body,
        *scratch.closing(),
    ]


def run_rows(signature: Signature, slots: int, lanes: int, offsets: Sequence[int], zeroed: bool) -> list[str]:
    """Return the function that computes a range of points, for batches in C order.

    Args:
        signature: arguments and results of the function.
        slots: number of vectors in the frame, through which parts of the program pass values.
        lanes: entries of a vector.
        offsets: expected position, within a vector, of the first entry of each result array.
        zeroed: if True, blocks do not write structural zeros.
    """
    strides = {name: stride * signature.size for name, stride in signature.strides.items()}
    moving, results = signature.moving, signature.results
    arguments = [name for name in moving if name not in results]
    scratch = _Scratch()
    scratch.take("frame", slots * lanes * signature.size)
    for name in moving:
        scratch.take(f"few.{name}", strides[name] * lanes)
    tile = _tile_points(signature, lanes)
    for name in results if tile else ():
        scratch.take(f"tile.{name}", strides[name] * tile + LINE)

    def blocks(prefix: str, count: str) -> str:
        pointers = ", ".join(f"ptr %{prefix}.{name}" if name in moving else f"ptr %{name}" for name in signature.names)
        return f"call void @blocks({pointers}, ptr %frame, i64 {count})"

    def moved(prefix: str, row: str, source: str = "from.", names: Sequence[str] = moving) -> list[str]:
        """Return instructions that define pointers %prefix.x and so on, to a row."""
        return [
            line
            for name in names
            for line in (
                f"%{prefix}.by.{name} = mul i64 {row}, {strides[name]}",
                f"%{prefix}.{name} = getelementptr inbounds i8, ptr %{source}{name}, i64 %{prefix}.by.{name}",
            )
        ]

    def copied(tag: str, name: str, to: str, to_row: str, source: str, source_row: str) -> list[str]:
        pointers = f"ptr %{tag}.to.{name}, ptr %{tag}.of.{name}"
        return [
            *moved(f"{tag}.to", to_row, to, [name]),
            *moved(f"{tag}.of", source_row, source, [name]),
            f"call void @llvm.memcpy.p0.p0.i64({pointers}, i64 {strides[name]}, i1 false)",
        ]

    rest = "%rest" if tile else "%skip"
    main = [*(_streamed(signature, lanes, tile, moved, zeroed) if tile else ()), *moved("main", rest)]
    return [
        *(_STREAM if tile else ()),
        _head(signature),
        *scratch.opening(),
        "%count = sub i64 %last, %first",
        *moved("from", "%first", ""),
        *when("enough", f"icmp sge i64 %count, {lanes}", "whole", "gather"),
        *_skipped_rows(signature, lanes, offsets),
        *_by_blocks(lanes, blocks, "from", main, rest, "%count", "%count", moved("end", "%back")),
        # fewer points than lanes
        "gather:",
        "%lane = phi i64 [ 0, %start ], [ %lane.next, %gather ]",
        "%lane.last = sub i64 %count, 1",
        "%lane.has = icmp slt i64 %lane, %lane.last",
        "%lane.row = select i1 %lane.has, i64 %lane, i64 %lane.last",
        *(line for name in arguments for line in copied("gather", name, "few.", "%lane", "from.", "%lane.row")),
        *again("lane", "1", f"{lanes}", "lane.more", "gather", "few"),
        *(
            f"call void @llvm.memset.p0.i64(ptr %few.{name}, i8 0, i64 {strides[name] * lanes}, i1 false)"
            for name in results
            if zeroed
        ),
        blocks("few", str(lanes)),
        "br label %scatter",
        "scatter:",
        "%point = phi i64 [ 0, %few ], [ %point.next, %scatter ]",
        *(line for name in results for line in copied("scatter", name, "from.", "%point", "few.", "%point")),
        *again("point", "1", "%count", "point.more", "scatter", "done"),
        *scratch.closing(),
    ]


def _by_blocks(
    lanes: int,
    blocks: Callable[[str, str], str],
    begin: str,
    main: Sequence[str],
    rest: str,
    count: str,
    end: str,
    back: Sequence[str],
) -> list[str]:
    """Return code for a first block, whole blocks after %skip points, and a block that ends at the last point.

    Args:
        lanes: points of a block.
        blocks: function that writes the call for a number of blocks from a point on.
        begin: position of the first point.
        main: instructions that find the points from `rest` on.
        rest: the first of the whole blocks.
        count: number of points.
        end: end of the range of points.
        back: instructions that find the points from %back on.
    """
    return [
        *when("skips", "icmp ne i64 %skip, 0", "begin", "main"),
        blocks(begin, str(lanes)),
        "br label %main",
        "main:",
        *main,
        f"%unskipped = sub i64 {count}, {rest}",
        f"%full = and i64 %unskipped, {-lanes}",
        blocks("main", "%full"),
        *unless("exact", "icmp eq i64 %full, %unskipped", "done", "end"),
        f"%back = sub i64 {end}, {lanes}",
        *back,
        blocks("end", str(lanes)),
        "br label %done",
    ]


def _tile_points(signature: Signature, lanes: int) -> int:
    """Return the number of points of a tile, which are whole cache lines; 0 if there are no results, or too many."""
    row = sum(signature.lengths) * signature.size
    minimum = max(lanes, LINE // signature.size)
    return max(1, TILE // (row * minimum)) * minimum if 0 < row * minimum <= LARGEST_TILE else 0


def _streamed(signature: Signature, lanes: int, tile: int, moved: Callable[..., list[str]], zeroed: bool) -> list[str]:
    """Return code for %rest, the first point after those that are computed in tiles: %skip if caches hold the results.

    Tiles have the same position relative to cache lines as the rows that they are copied to. At least one block of
    points is left.

    Args:
        signature: arguments and results of the function.
        lanes: points of a block.
        tile: points of a tile.
        moved: function that writes pointers to a row.
        zeroed: if True, blocks do not write structural zeros.
    """
    results = signature.results
    strides = {name: stride * signature.size for name, stride in signature.strides.items()}
    names = ("" if name not in signature.moving else "to." if name in results else "at." for name in signature.names)
    pointers = ", ".join(f"ptr %{prefix}{name}" for prefix, name in zip(names, signature.names, strict=True))
    find, copy = [], []
    for name in results:
        find += [
            f"%line.at.{name} = ptrtoint ptr %main.at.{name} to i64",
            f"%line.off.{name} = and i64 %line.at.{name}, {LINE - 1}",
            f"%to.{name} = getelementptr inbounds i8, ptr %tile.{name}, i64 %line.off.{name}",
        ]
        copy.append(f"call void @stream(ptr %at.{name}, ptr %to.{name}, i64 {strides[name] * tile})")
        if zeroed:
            find.append(f"call void @llvm.memset.p0.i64(ptr %to.{name}, i8 0, i64 {strides[name] * tile}, i1 false)")
    return [
        f"%all.bytes = mul i64 %points, {sum(strides[name] for name in results)}",
        f"%is.large = icmp ugt i64 %all.bytes, {round(STREAMED * last_cache())}",
        f"%tiles.end = sub i64 %count, {lanes + tile - 1}",
        "%has.tiles = icmp slt i64 %skip, %tiles.end",
        *when("streams", "and i1 %is.large, %has.tiles", "find", "unstreamed"),
        *moved("main.at", "%skip", names=results),
        *find,
        "br label %stream",
        "stream:",
        "%tiled = phi i64 [ %skip, %find ], [ %tiled.next, %stream ]",
        *moved("at", "%tiled"),
        f"call void @blocks({pointers}, ptr %frame, i64 {tile})",
        *copy,
        *again("tiled", f"{tile}", "%tiles.end", "more.tiles", "stream", "streamed"),
        "fence seq_cst",
        "br label %unstreamed",
        "unstreamed:",
        "%rest = phi i64 [ %skip, %main ], [ %tiled.next, %streamed ]",
    ]


#: Function that copies %bytes between addresses with the same position relative to cache lines: whole lines by stores
#: that bypass the caches.
_STREAM: Final = (
    "define internal void @stream(ptr noalias %to, ptr noalias %from, i64 %bytes) nounwind noinline {",
    "start:",
    "%at = ptrtoint ptr %to to i64",
    "%gap.negative = sub i64 0, %at",
    f"%gap = and i64 %gap.negative, {LINE - 1}",
    "%gap.bytes = call i64 @llvm.umin.i64(i64 %gap, i64 %bytes)",
    "call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %gap.bytes, i1 false)",
    "%left = sub i64 %bytes, %gap.bytes",
    f"%whole = and i64 %left, {-LINE}",
    "%lines.end = add i64 %gap.bytes, %whole",
    *when("some", "icmp ne i64 %whole, 0", "line", "rest"),
    "%k = phi i64 [ %gap.bytes, %start ], [ %k.next, %line ]",
    "%line.to = getelementptr inbounds i8, ptr %to, i64 %k",
    "%line.from = getelementptr inbounds i8, ptr %from, i64 %k",
    f"%values = load <8 x i64>, ptr %line.from, align {LINE}",
    f"store <8 x i64> %values, ptr %line.to, align {LINE}, !nontemporal !2",
    *again("k", f"{LINE}", "%lines.end", "more", "line", "rest"),
    "%rest.to = getelementptr inbounds i8, ptr %to, i64 %lines.end",
    "%rest.from = getelementptr inbounds i8, ptr %from, i64 %lines.end",
    "%rest.bytes = sub i64 %bytes, %lines.end",
    "call void @llvm.memcpy.p0.p0.i64(ptr %rest.to, ptr %rest.from, i64 %rest.bytes, i1 false)",
    "ret void",
    "}",
    "declare i64 @llvm.umin.i64(i64, i64)",
)


def _skipped_rows(signature: Signature, lanes: int, offsets: Sequence[int]) -> list[str]:
    """Return code for %skip, the first row of the widest result with the expected alignment; 0 if there is none."""
    widest, lengths = signature.widest, signature.lengths
    if widest is None or lengths[widest] % lanes == 0:
        return ["%skip = add i64 0, 0"]
    lines = [
        f"%widest.at = ptrtoint ptr %from.o{widest} to i64",
        f"%widest.entry = udiv i64 %widest.at, {signature.size}",
        f"%many = icmp sge i64 %count, {4 * lanes}",
    ]
    selected = "0"
    for row in reversed(range(lanes)):
        lines += [
            f"%row.{row} = add i64 %widest.entry, {row * lengths[widest] - offsets[widest]}",
            f"%lane.{row} = and i64 %row.{row}, {lanes - 1}",
            f"%fits.{row} = icmp eq i64 %lane.{row}, 0",
            f"%found.{row} = select i1 %fits.{row}, i64 {row}, i64 {selected}",
        ]
        selected = f"%found.{row}"
    return [*lines, f"%skip = select i1 %many, i64 {selected}, i64 0"]


def run_columns(
    signature: Signature,
    results: Sequence[ResultGroup],
    slots: int,
    lanes: int,
    tile: int,
    pitch: int,
    zeroed: bool,
    direct: bool,
) -> list[str]:
    """Return the function that computes a range of points, for transposed batches.

    Args:
        signature: arguments and results of the function.
        results: entries of the result arrays in order.
        slots: number of vectors in the frame.
        lanes: entries of a vector.
        tile: points of a tile.
        pitch: distance between the variables of a tile, in entries.
        zeroed: if True, structural zeros are not written.
        direct: if True, blocks may work in the arrays themselves.
    """
    size, strides = signature.size, signature.strides
    moving = signature.moving
    arguments = [name for name in moving if name not in signature.results]
    scratch = _Scratch()
    scratch.take("frame", slots * lanes * size)
    scratch.take("line.at", 8)
    for name in moving:
        scratch.take(f"tile.{name}", strides[name] * pitch * size)

    def blocks(prefix: str, count: str) -> str:
        pointers = ", ".join(f"ptr %{prefix}.{name}" if name in moving else f"ptr %{name}" for name in signature.names)
        return f"call void @blocks({pointers}, ptr %frame, i64 {count}, ptr %line.at)"

    def moved(prefix: str, point: str) -> list[str]:
        """Return instructions that define pointers %prefix.x0 and so on, to a point."""
        by = f"%{prefix}.by = mul i64 {point}, {size}"
        return [by, *(f"%{prefix}.{name} = getelementptr i8, ptr %{name}, i64 %{prefix}.by" for name in moving)]

    inward: list[str] = []
    for name in arguments:
        inward += [
            f"call void @copy(ptr %tile.{name}, i64 {pitch * size}, ptr %here.{name}, i64 %line, i64 {strides[name]}, "
            "i64 %bytes)",
            f"call void @pad(ptr %tile.{name}, i64 {strides[name]}, i64 %used, i64 %count)",
        ]
    stored = [group for group in results if not group.is_zero]
    outward: list[str] = []
    for k, (segment, start, count) in enumerate(_runs(stored)):
        outward += [
            f"%skip.{k} = mul i64 %line, {start}",
            f"%to.{k} = getelementptr inbounds i8, ptr %here.o{segment}, i64 %skip.{k}",
            f"%from.{k} = getelementptr inbounds i8, ptr %tile.o{segment}, i64 {start * pitch * size}",
            f"call void @copy_out(ptr %to.{k}, i64 %line, ptr %from.{k}, i64 {pitch * size}, i64 {count}, i64 %bytes, "
            "i1 %streams)",
        ]
    clear: list[str] = []
    for k, (segment, start, count) in enumerate(_runs([] if zeroed else [each for each in results if each.is_zero])):
        clear += [
            f"%zero.by.{k} = mul i64 %line, {start}",
            f"%zero.{k} = getelementptr i8, ptr %first.o{segment}, i64 %zero.by.{k}",
            f"call void @clear(ptr %zero.{k}, i64 %line, i64 {count}, i64 %all.bytes, i1 %streams)",
        ]
    main = ["%main.at = add i64 %first, %skip", *moved("main", "%main.at")]
    whole = [
        "whole:",
        *_skipped_points(signature, lanes),
        *_by_blocks(lanes, blocks, "first", main, "%skip", "%all", "%last", moved("end", "%back")),
    ]
    variables = sum(strides[name] for name in arguments) + sum(len(group.references) for group in stored)
    choice = [
        f"%enough = icmp sge i64 %all, {lanes}",
        "%by.tiles = or i1 %collide, %streams",
        "%separate = xor i1 %by.tiles, true",
        "%direct = and i1 %enough, %separate",
        "br i1 %direct, label %whole, label %tiled",
        *whole,
        "tiled:",
    ]
    return [
        *_copy(tile * size, size),
        *_STREAM,
        *_copy_out(),
        *_pad(pitch, "double" if size == 8 else "float"),
        *_CLEAR,
        _head(signature),
        *scratch.opening(),
        f"%line = mul i64 %points, {size}",
        *_collide(variables, lanes * size),
        *_streams(signature, tile * size),
        f"store i64 {'%line' if direct else pitch * size}, ptr %line.at",
        "%all = sub i64 %last, %first",
        *moved("first", "%first"),
        f"%all.bytes = mul i64 %all, {size}",
        *clear,
        *(choice if direct else ("br label %tiled", "tiled:")),
        f"store i64 {pitch * size}, ptr %line.at",
        "br label %loop",
        "loop:",
        "%at = phi i64 [ %first, %tiled ], [ %next, %loop ]",
        "%left = sub i64 %last, %at",
        f"%fills = icmp sge i64 %left, {tile}",
        f"%used = select i1 %fills, i64 {tile}, i64 %left",
        f"%bytes = mul i64 %used, {size}",
        *moved("here", "%at"),
        f"%up = add i64 %used, {lanes - 1}",
        f"%count = and i64 %up, {-lanes}",
        *inward,
        blocks("tile", "%count"),
        *outward,
        f"%next = add i64 %at, {tile}",
        *unless("more", "icmp slt i64 %next, %last", "loop", "done"),
        "fence seq_cst",
        *scratch.closing(),
    ]


def _streams(signature: Signature, full: int) -> list[str]:
    """Return code for %streams: true if no cache holds the results, and each variable begins a line at the first point.

    They also have to be many, or to %collide. Tiles of a range that begins elsewhere, or with runs of parts of lines,
    are copied as usual.
    """
    strides = [signature.strides[name] for name in signature.results]
    if full % LINE:
        return ["%streams = and i1 false, false"]
    lines = [f"%odd.0 = and i64 %line, {LINE - 1}"]
    for k, name in enumerate(signature.results):
        lines += [f"%begin.{k} = ptrtoint ptr %{name} to i64", f"%odd.{k + 1} = or i64 %odd.{k}, %begin.{k}"]
    return [
        *lines,
        f"%odd = and i64 %odd.{len(strides)}, {LINE - 1}",
        "%even = icmp eq i64 %odd, 0",
        f"%results.bytes = mul i64 %line, {sum(strides)}",
        f"%is.large = icmp ugt i64 %results.bytes, {round(STREAMED * last_cache())}",
        f"%suits = or i1 %collide, {'true' if sum(strides) >= MANY_VARIABLES else 'false'}",
        "%streamed = and i1 %is.large, %suits",
        "%streams = and i1 %streamed, %even",
    ]


def _skipped_points(signature: Signature, lanes: int) -> list[str]:
    """Return code for %skip, the first point at which the widest result begins a cache line; 0 if not worthwhile."""
    if signature.widest is None:
        return ["%skip = add i64 0, 0"]
    boundary = min(LINE, lanes * signature.size)
    return [
        f"%widest.at = ptrtoint ptr %first.o{signature.widest} to i64",
        "%widest.to = sub i64 0, %widest.at",
        f"%widest.gap = and i64 %widest.to, {boundary - 1}",
        f"%widest.points = udiv i64 %widest.gap, {signature.size}",
        f"%line.beyond = and i64 %line, {boundary - 1}",
        "%alike = icmp eq i64 %line.beyond, 0",
        f"%many = icmp sge i64 %all, {4 * lanes}",
        "%pays = and i1 %alike, %many",
        "%skip = select i1 %pays, i64 %widest.points, i64 0",
    ]


def _collide(variables: int, vector_bytes: int) -> list[str]:
    """Return code for %collide: true if variables evict each other from the cache before their lines are full.

    Lines whose addresses differ by a multiple of a large power of two share few sets. Vectors as wide as a line fill it
    at once, so that more of them may share a set.
    """
    apart = APART if vector_bytes < LINE else 2 * APART
    return [
        "%line.negative = sub i64 0, %line",
        "%line.power = and i64 %line, %line.negative",
        f"%within.page = icmp ult i64 %line.power, {PAGE}",
        f"%line.apart = select i1 %within.page, i64 %line.power, i64 {PAGE}",
        f"%apart = mul i64 %line.apart, {variables}",
        f"%share.sets = icmp ugt i64 %apart, {COLLIDING}",
        f"%are.apart = icmp uge i64 %line.power, {apart}",
        "%collide = and i1 %share.sets, %are.apart",
    ]


#: Function that clears %count runs of %bytes, one every %step bytes, by stores that bypass the caches if wanted.
_CLEAR: Final = (
    "define internal void @clear(ptr %to, i64 %step, i64 %count, i64 %bytes, i1 %streams) nounwind noinline {",
    "start:",
    "%at = ptrtoint ptr %to to i64",
    f"%odd = and i64 %at, {LINE - 1}",
    "%even = icmp eq i64 %odd, 0",
    "%lines = and i1 %even, %streams",
    "%joined = icmp eq i64 %step, %bytes",
    "%runs = select i1 %joined, i64 1, i64 %count",
    "%all = mul i64 %count, %bytes",
    "%length = select i1 %joined, i64 %all, i64 %bytes",
    f"%whole = and i64 %length, {-LINE}",
    "%end = select i1 %lines, i64 %whole, i64 0",
    "%left = sub i64 %length, %end",
    "br label %each",
    "each:",
    "%k = phi i64 [ 0, %start ], [ %k.next, %rest ]",
    "%by = mul i64 %k, %step",
    "%here = getelementptr i8, ptr %to, i64 %by",
    *when("some", "icmp ne i64 %end, 0", "line", "rest"),
    "%j = phi i64 [ 0, %each ], [ %j.next, %line ]",
    "%line.at = getelementptr i8, ptr %here, i64 %j",
    f"store <8 x i64> zeroinitializer, ptr %line.at, align {LINE}, !nontemporal !2",
    *again("j", f"{LINE}", "%end", "j.more", "line", "rest"),
    "%rest.at = getelementptr i8, ptr %here, i64 %end",
    "call void @llvm.memset.p0.i64(ptr %rest.at, i8 0, i64 %left, i1 false)",
    *again("k", "1", "%runs", "more", "each", "done"),
    "ret void",
    "}",
)


def _runs(results: Sequence[ResultGroup]) -> list[tuple[int, int, int]]:
    """Return segment, start and length of each run of neighbouring entries."""
    runs: list[tuple[int, int, int]] = []
    for group in results:
        count = len(group.references)
        if runs and runs[-1][0] == group.segment and runs[-1][1] + runs[-1][2] == group.start:
            runs[-1] = (group.segment, runs[-1][1], runs[-1][2] + count)
        else:
            runs.append((group.segment, group.start, count))
    return runs


def _copy(full: int, size: int) -> list[str]:
    """Return the function that copies %count runs of %bytes each; runs of `full` or `size` bytes without a call."""
    lines = [
        "define internal void @copy(ptr noalias %to, i64 %to.step, ptr noalias %from, i64 %from.step, "
        "i64 %count, i64 %bytes) nounwind noinline {",
        "start:",
        *when("some", "icmp sgt i64 %count, 0", "choose", "done"),
        *unless("full", f"icmp eq i64 %bytes, {full}", "whole", "short"),
        f"%single = icmp eq i64 %bytes, {size}",
        "br i1 %single, label %one, label %part",
    ]
    for label, amount, before in (("whole", full, "choose"), ("one", size, "short"), ("part", "%bytes", "short")):
        lines += [
            f"{label}:",
            f"%k.{label} = phi i64 [ 0, %{before} ], [ %next.{label}, %{label} ]",
            f"%to.by.{label} = mul i64 %k.{label}, %to.step",
            f"%from.by.{label} = mul i64 %k.{label}, %from.step",
            f"%to.{label} = getelementptr inbounds i8, ptr %to, i64 %to.by.{label}",
            f"%from.{label} = getelementptr inbounds i8, ptr %from, i64 %from.by.{label}",
            f"call void @llvm.memcpy.p0.p0.i64(ptr %to.{label}, ptr %from.{label}, i64 {amount}, i1 false)",
            f"%next.{label} = add i64 %k.{label}, 1",
            f"%more.{label} = icmp slt i64 %next.{label}, %count",
            f"br i1 %more.{label}, label %{label}, label %done",
        ]
    return [*lines, "done:", "ret void", "}"]


def _copy_out() -> list[str]:
    """Return the function that does as `copy`, by stores that bypass caches if wanted, for runs that begin lines."""
    arguments = "ptr %to, i64 %to.step, ptr %from, i64 %from.step, i64 %count, i64 %bytes"
    return [
        f"define internal void @copy_out({arguments}, i1 %streams) nounwind noinline {{",
        "start:",
        "%at = ptrtoint ptr %to to i64",
        f"%odd = and i64 %at, {LINE - 1}",
        "%even = icmp eq i64 %odd, 0",
        *when("by.lines", "and i1 %even, %streams", "run", "plain"),
        "%k = phi i64 [ 0, %start ], [ %k.next, %run ]",
        "%to.by = mul i64 %k, %to.step",
        "%from.by = mul i64 %k, %from.step",
        "%to.run = getelementptr inbounds i8, ptr %to, i64 %to.by",
        "%from.run = getelementptr inbounds i8, ptr %from, i64 %from.by",
        "call void @stream(ptr %to.run, ptr %from.run, i64 %bytes)",
        *again("k", "1", "%count", "k.more", "run", "done"),
        "ret void",
        "plain:",
        f"call void @copy({arguments})",
        "ret void",
        "}",
    ]


def _pad(pitch: int, real: str) -> list[str]:
    """Return the function that fills %count runs up to %end.of.run, from %used on, with the entry before %used.

    Runs begin every `pitch` entries.
    """
    return [
        "define internal void @pad(ptr %tile, i64 %count, i64 %used, i64 %end.of.run) nounwind noinline {",
        "start:",
        "%full = icmp eq i64 %used, %end.of.run",
        "%none = icmp eq i64 %count, 0",
        *unless("nothing", "or i1 %full, %none", "done", "run"),
        "%k = phi i64 [ 0, %start ], [ %k.next, %run.end ]",
        f"%begin = mul i64 %k, {pitch}",
        "%end = add i64 %begin, %used",
        "%before = sub i64 %end, 1",
        f"%from = getelementptr inbounds {real}, ptr %tile, i64 %before",
        f"%value = load {real}, ptr %from",
        "br label %fill",
        "fill:",
        "%j = phi i64 [ %used, %run ], [ %j.next, %fill ]",
        "%at = add i64 %begin, %j",
        f"%to = getelementptr inbounds {real}, ptr %tile, i64 %at",
        f"store {real} %value, ptr %to",
        *again("j", "1", "%end.of.run", "j.more", "fill", "run.end"),
        *again("k", "1", "%count", "k.more", "run", "done"),
        "ret void",
        "}",
    ]
