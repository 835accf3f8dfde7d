"""Survey of graphs on which face elimination does not attain the fewest products of any program.

**Class.** It suffices to examine *reduced* graphs, up to isomorphism and reversal; docs/research.md has the proof. A
reduced graph is connected, every vertex is on a path from a root to a terminal, and there are no parallel edges, no
edges from a root to a terminal, and no intermediates with one incoming and one outgoing edge.

**Enumeration.** In a reduced graph a root is determined by the set of intermediates to which its edges go, and a
terminal by the set of intermediates from which its edges come. So a reduced graph is an acyclic graph on k
intermediates with a multiset of root sets and a multiset of terminal sets. Its canonical form is the least image under
the k! renumberings. The degrees of the k intermediates add up to at least 3k, so k ≤ 2(edges − 1)/3.

**One graph.** By Proposition 1 of the notes, in the form of `accumulus.theory.algebra.values`, face elimination can run
a program at its own cost if and only if the program's elimination dependencies are acyclic. So the fewest face
eliminations exceed the fewest products if and only if every program with the fewest products is circular. Both numbers
are searched separately. If they are equal, the dependencies of the shortest sequence's expressions are checked to be
acyclic.

**All graphs.** `survey` decides every graph of the census. The results are in a file of JSON lines, which a later run
continues.

The first line has the format, every other line the result for one graph: its key, its edges, and the fields of
`Verdict`. A line is written as soon as its graph is decided, so a killed run loses only the graphs in progress, one for
each process. The next run removes an incomplete last line. A run with more steps tries open graphs again; the last line
of a graph counts.

One process writes lines in the order of the census, several processes in the order of completion, with the same
content.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial, reduce
from itertools import permutations, product
from operator import or_
from pathlib import Path
from typing import IO, Any, Final, Literal

from accumulus.context import Context
from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.edges_and_faces import eliminate_faces
from accumulus.errors import AccumulusError, ArgumentError, ExpressionError, GraphError, VerificationError
from accumulus.graph.graph import DifferentiationGraph, derive
from accumulus.options import Objective, Options
from accumulus.search.registry import get
from accumulus.theory.algebra.relations import elimination_dependencies
from accumulus.theory.algebra.sequence import elimination_sequence
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.exact.eliminations import OptimumProof
from accumulus.theory.research.minimum import true_minimum

Edges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, order=True, slots=True)
class ReducedGraph:
    """A reduced graph.

    Attributes:
        intermediates: number of intermediates.
        inner: edges between intermediates.
        roots: for each root the targets of its edges, as bits, in ascending order.
        terminals: for each terminal the sources of its edges, as bits, in ascending order.

    >>> lion = ReducedGraph(2, ((0, 1),), (1, 1), (2, 2, 2, 3))
    >>> lion.key, lion.edges
    ('2:01:0,0:1,1,1,01', 8)
    """

    intermediates: int
    inner: Edges
    roots: tuple[int, ...]
    terminals: tuple[int, ...]

    @property
    def edges(self) -> int:
        """Return the number of edges of the graph."""
        return len(self.inner) + sum(map(int.bit_count, self.roots + self.terminals))

    @property
    def key(self) -> str:
        """Text form of the graph: number of intermediates, inner edges, targets of each root, sources of terminals."""
        inner = ",".join(f"{i}{j}" for i, j in self.inner)
        sides = (",".join("".join(map(str, _members(s))) for s in side) for side in (self.roots, self.terminals))
        return ":".join((str(self.intermediates), inner, *sides))

    @classmethod
    def parse(cls, key: str) -> ReducedGraph:
        """Return the graph of a key.

        Raises:
            GraphError: if the text is not the key of a reduced graph.
        """
        try:
            count, inner, *sides = key.split(":")
            roots, terminals = (tuple(sum(1 << int(v) for v in s) for s in side.split(",")) for side in sides)
            edges = tuple((int(pair[:1]), int(pair[1:])) for pair in inner.split(",")) if inner else ()
            graph = cls(int(count), edges, roots, terminals)
        except ValueError:
            graph = None
        if graph is None or graph.key != key or not _is_reduced(graph):
            raise GraphError(f"{key!r} is no graph of the census; expected a key such as 2:01:0,0:1,1,1,01")
        return graph

    def named_edges(self) -> list[tuple[str, str]]:
        """Return the edges between vertices y1, …, v1, …, x1, …."""
        return [
            *((f"y{k}", f"v{v + 1}") for k, s in enumerate(self.roots, 1) for v in _members(s)),
            *((f"v{i + 1}", f"v{j + 1}") for i, j in self.inner),
            *((f"v{v + 1}", f"x{k}") for k, s in enumerate(self.terminals, 1) for v in _members(s)),
        ]

    def graph(self) -> DifferentiationGraph:
        """Return the differentiation graph, all labels variable."""
        return DifferentiationGraph(
            self.named_edges(),
            [f"y{k}" for k in range(1, len(self.roots) + 1)],
            [f"x{k}" for k in range(1, len(self.terminals) + 1)],
            name=self.key,
        )

    def canonical(self) -> ReducedGraph:
        """Return the canonical form: the least isomorphic graph."""
        inner, ways = _ways(self.intermediates, self.inner)
        roots, terminals = min(
            (tuple(sorted(_image(s, way) for s in self.roots)), tuple(sorted(_image(s, way) for s in self.terminals)))
            for way in ways
        )
        return ReducedGraph(self.intermediates, inner, roots, terminals)

    def reversed(self) -> ReducedGraph:
        """Return the graph with every edge reversed, not in canonical form."""
        return ReducedGraph(self.intermediates, tuple((j, i) for i, j in self.inner), self.terminals, self.roots)


def reduced_graphs(edges: int) -> Iterator[ReducedGraph]:
    """Yield every reduced graph with the given number of edges, once up to isomorphism and reversal, in canonical form.

    >>> [len(list(reduced_graphs(edges))) for edges in range(3, 8)]
    [1, 2, 8, 28, 113]
    """
    for intermediates in range(1, max(1, 2 * (edges - 1) // 3) + 1):
        for inner in range(edges - 1):
            yield from _with_inner(intermediates, inner, edges - inner)


def random_reduced_graph(edges: int, rng: random.Random) -> ReducedGraph:
    """Return a random reduced graph with a number of edges (5 or more), in canonical form.

    The distribution is unspecified. The graph has two to five intermediates and random inner edges. Most roots and
    terminals have one or two edges, and some are equal, since the gain of sharing depends on the number of users.

    >>> random_reduced_graph(12, random.Random(1)).edges
    12
    """
    while True:
        k = rng.randint(2, max(2, min(5, 2 * (edges - 1) // 3)))
        pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
        inner = rng.sample(pairs, min(rng.randint(k - 1, len(pairs)), edges - 2))
        left = edges - len(inner)
        sides: tuple[list[int], list[int]] = ([], [])
        while left > 0:
            members = rng.sample(range(k), min(k, left, rng.choice((1, 1, 1, 2, 2, 3))))
            copies = min(left // len(members), rng.choice((1, 1, 2, 3)))
            sides[rng.randrange(2)].extend([sum(1 << v for v in members)] * copies)
            left -= copies * len(members)
        graph = ReducedGraph(k, tuple(sorted(inner)), tuple(sorted(sides[0])), tuple(sorted(sides[1])))
        if _is_reduced(graph):
            return graph.canonical()


def _is_reduced(graph: ReducedGraph) -> bool:
    """Return True if an acyclic graph is reduced."""
    k, inner = graph.intermediates, graph.inner
    if any(v >= k for edge in inner for v in edge) or any(s >> k for s in (*graph.roots, *graph.terminals)):
        return False
    into = [sum(j == v for _, j in inner) + sum(s >> v & 1 for s in graph.roots) for v in range(k)]
    out = [sum(i == v for i, _ in inner) + sum(s >> v & 1 for s in graph.terminals) for v in range(k)]
    return all(a and b and a + b > 2 for a, b in zip(into, out, strict=True)) and _connected(graph)


def _with_inner(k: int, inner_edges: int, outer: int) -> Iterator[ReducedGraph]:
    if 2 * inner_edges + outer < 3 * k:
        return
    for inner in _acyclic(k, inner_edges):
        into = [sum(j == v for _, j in inner) for v in range(k)]
        out = [sum(i == v for i, _ in inner) for v in range(k)]
        _, ways = _ways(k, inner)
        for above in range(1, outer):
            roots = list(_sides(k, above, into))
            terminals = list(_sides(k, outer - above, out)) if roots else []
            for one, in_degrees in roots:
                for other, out_degrees in terminals:
                    if any(a == 1 == b for a, b in zip(in_degrees, out_degrees, strict=True)):
                        continue
                    graph = ReducedGraph(k, inner, one, other)
                    if _is_canonical(graph, ways) and _connected(graph) and graph <= graph.reversed().canonical():
                        yield graph


def _is_canonical(graph: ReducedGraph, ways: Sequence[tuple[int, ...]]) -> bool:
    """Return True if no automorphism of the inner edges gives a smaller pair of roots and terminals."""
    for way in ways:
        roots = tuple(sorted(_image(s, way) for s in graph.roots))
        if roots > graph.roots:
            continue
        if (roots, tuple(sorted(_image(s, way) for s in graph.terminals))) < (graph.roots, graph.terminals):
            return False
    return True


@lru_cache(maxsize=64)
def _acyclic(k: int, edges: int) -> tuple[Edges, ...]:
    """Return the acyclic graphs on k vertices up to isomorphism, by adding an edge to the graphs with one edge less."""
    if edges == 0:
        return ((),)
    graphs = set()
    for inner in _acyclic(k, edges - 1):
        reach = _reach(k, inner)
        for i, j in product(range(k), repeat=2):
            if i != j and (i, j) not in inner and not reach[j] >> i & 1:
                graphs.add(_ways(k, tuple(sorted((*inner, (i, j)))))[0])
    return tuple(sorted(graphs))


def _reach(k: int, inner: Edges) -> list[int]:
    reach = [1 << v for v in range(k)]
    for _ in range(k):
        for i, j in inner:
            reach[i] |= reach[j]
    return reach


@lru_cache(maxsize=1 << 16)
def _ways(k: int, inner: Edges) -> tuple[Edges, tuple[tuple[int, ...], ...]]:
    """Return the least image of the edges under renumbering, and all renumberings that give this image."""
    colour = [0] * k
    for _ in range(k):
        finer = [
            (
                colour[v],
                tuple(sorted(colour[i] for i, j in inner if j == v)),
                tuple(sorted(colour[j] for i, j in inner if i == v)),
            )
            for v in range(k)
        ]
        order = {c: n for n, c in enumerate(sorted(set(finer)))}
        colour = [order[c] for c in finer]
    classes = [[v for v in range(k) if colour[v] == c] for c in range(max(colour) + 1)]
    best: Edges | None = None
    ways: list[tuple[int, ...]] = []
    for arrangement in product(*(permutations(members) for members in classes)):
        way = [0] * k
        for number, v in enumerate(v for members in arrangement for v in members):
            way[v] = number
        image = tuple(sorted((way[i], way[j]) for i, j in inner))
        if best is None or image < best:
            best, ways = image, []
        if image == best:
            ways.append(tuple(way))
    assert best is not None
    return best, tuple(ways)


def _sides(k: int, edges: int, degrees: Sequence[int]) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """Yield the multisets of vertex sets of a total size with an edge for each vertex on this side, and the degrees."""
    for sets in _multisets(k, edges, 1):
        total = [degrees[v] + sum(s >> v & 1 for s in sets) for v in range(k)]
        if min(total) >= 1:
            yield sets, total


def _multisets(k: int, members: int, first: int) -> Iterator[tuple[int, ...]]:
    if members == 0:
        yield ()
        return
    for s in range(first, 1 << k):
        if s.bit_count() <= members:
            for rest in _multisets(k, members - s.bit_count(), s):
                yield (s, *rest)


def _connected(graph: ReducedGraph) -> bool:
    groups = [1 << v for v in range(graph.intermediates)]
    for s in (*graph.roots, *graph.terminals, *((1 << i) | (1 << j) for i, j in graph.inner)):
        touched = reduce(or_, (group for group in groups if group & s), s)
        groups = [*(group for group in groups if not group & s), touched]
    return len(groups) == 1


def _image(members: int, way: Sequence[int]) -> int:
    return sum(1 << way[v] for v in _members(members))


def _members(members: int) -> list[int]:
    return [v for v in range(members.bit_length()) if members >> v & 1]


# One graph -----------------------------------------------------------------------------------------------------------


Face = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result for a graph, with its evidence.

    Attributes:
        minimum: bounds on the smallest number of products of any program; equal if it is known.
        faces: bounds on the smallest number of face eliminations; equal if it is known.
        verdict: "acyclic": both numbers are equal, and `program` is a minimal program with acyclic dependencies.
            "circular": face elimination needs more products, so every minimal program is circular. "open": the search
            did not decide.
        program: expressions of a verified program of `minimum[1]` products.
        sequence: `faces[1]` faces in the order of elimination, numbered as in
            `accumulus.elimination.edges_and_faces`.
        steps: number of nodes of the search for the minimum.
    """

    minimum: tuple[int, int]
    faces: tuple[int, int]
    verdict: Literal["acyclic", "circular", "open"]
    program: str
    sequence: tuple[Face, ...]
    steps: int


def decide(graph: DifferentiationGraph, steps: int = 1_000_000) -> Verdict:
    """Compare the smallest number of products of any program with the smallest number of face eliminations.

    Args:
        graph: graph; all labels count as variables, also 1.
        steps: largest number of nodes of the search for programs, and of eliminations tried in the search for faces; a
            search that exceeds it gives bounds.

    Raises:
        GraphError: if the graph is too large for the search.

    >>> lion = [("a", 1), ("b", 1), (1, 2), (1, "x5"), (2, "x5"), (2, "x1"), (2, "x2"), (2, "x3")]
    >>> verdict = decide(DifferentiationGraph(lion))
    >>> verdict.minimum, verdict.faces, verdict.verdict
    ((11, 11), (11, 11), 'acyclic')
    """
    fewest = true_minimum(graph, steps=steps)
    sequence = _followed(fewest.accumulation)
    lowest = fewest.lower
    if sequence is None or len(sequence) > lowest:
        lowest, searched = shortest_faces(graph, at_least=lowest, moves=steps)
        sequence = searched if sequence is None else min(searched, sequence, key=len)
    run = eliminate_faces(graph, sequence)
    if sum(run.steps.is_product) != len(sequence):
        raise VerificationError("a face elimination took another number of products than its sequence has faces")
    best = run if fewest.accumulation is None or fewest.upper == len(sequence) else fewest.accumulation
    best.verify()
    minimum = fewest.lower, sum(best.steps.is_product)
    verdict: Literal["acyclic", "circular", "open"] = "open"
    if minimum[0] == len(sequence):
        verdict = "acyclic"
        if not elimination_dependencies(best).is_acyclic:
            raise VerificationError(
                f"the dependencies of a face elimination of {graph.name} are circular; this contradicts the theorem "
                "of accumulus.theory.algebra.values. Please report the graph"
            )
    elif minimum[1] < lowest:
        verdict = "circular"
    expressions = ExpressionSet.from_accumulation(best)
    return Verdict(
        minimum,
        (lowest, len(sequence)),
        verdict,
        "; ".join(str(expressions).splitlines()),
        tuple(sequence),
        fewest.steps,
    )


def shortest_faces(graph: DifferentiationGraph, at_least: int = 0, moves: int = sys.maxsize) -> tuple[int, list[Face]]:
    """Return the shortest sequence of face eliminations, by branch and bound (`accumulus.theory.exact.searches`).

    Args:
        graph: graph to eliminate.
        at_least: known lower bound; the search ends at a sequence of this length.
        moves: largest number of eliminations to try for each independent part.

    Returns:
        A lower bound on the length of all sequences, and a sequence, which has this length if the moves suffice.

    >>> lion = [("a", 1), ("b", 1), (1, 2), (1, "x5"), (2, "x5"), (2, "x1"), (2, "x2"), (2, "x3")]
    >>> shortest_faces(DifferentiationGraph(lion))[0]
    11
    """
    if (graph.sizes > 1).any():  # minimise the number of faces, not their cost
        edges = zip(graph.sources.tolist(), graph.targets.tolist(), range(len(graph.sources)), strict=True)
        graph = derive(graph, graph.vertices, graph.roots, graph.terminals, edges)
    order = get("markowitz")(graph, Context(Options(objective=Objective.FMA))).order
    assert order is not None
    proof = OptimumProof(graph, Objective.FMA, order)
    proof.raise_bound("face", at_least)
    for _ in proof.search_sequences("face", moves):
        pass
    return proof.bound("face"), proof.faces()


def _followed(program: Accumulation | None) -> list[Face] | None:
    """Return the face sequence of a program; None if there is no program, or its dependencies are circular."""
    if program is None:
        return None
    try:
        return list(elimination_sequence(program).faces)
    except ExpressionError:
        return None


# All graphs ----------------------------------------------------------------------------------------------------------


#: Edges of the smallest reduced graph: a root, an intermediate, two terminals.
FEWEST_EDGES: Final = 3
_HEADER: Final = {"format": "accumulus research circular", "version": 1}
_FIELDS: Final = {"graph", "edges", "minimum", "faces", "verdict", "program", "sequence", "steps", "limit"}

Result = dict[str, Any]
#: Callback: number of edges of the present graphs, number of these that are done, their total, circular graphs so far.
Progress = Callable[[int, int, int, int], object]


@dataclass
class Summary:
    """Results of a survey.

    Attributes:
        max_edges: largest number of edges of the requested graphs.
        output: file of results.
        complete: True if every requested graph has a line in the file.
        decided: number of graphs that this run has decided; the others were in the file before.
        seconds: duration of this run.
        by_edges: number of graphs by number of edges and verdict.
        circular: keys of graphs whose minimal programs are all circular.
        open: keys of open graphs.
    """

    max_edges: int
    output: str
    complete: bool = False
    decided: int = 0
    seconds: float = 0.0
    by_edges: dict[int, Counter[str]] = field(default_factory=dict)
    circular: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def count(self, result: Result) -> None:
        """Add a result to the summary."""
        self.by_edges.setdefault(len(result["edges"]), Counter())[result["verdict"]] += 1
        if result["verdict"] == "circular":
            self.circular.append(result["graph"])
        elif result["verdict"] == "open":
            self.open.append(result["graph"])

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as data that JSON can express."""
        rows = [
            {"edges": edges, "graphs": sum(counts.values())}
            | {verdict: counts[verdict] for verdict in ("acyclic", "circular", "open")}
            for edges, counts in sorted(self.by_edges.items())
        ]
        return {
            "max_edges": self.max_edges,
            "complete": self.complete,
            "graphs": sum(row["graphs"] for row in rows),
            "by_edges": rows,
            "circular": self.circular,
            "open": self.open,
            "decided": self.decided,
            "seconds": round(self.seconds, 3),
            "output": self.output,
        }


def survey(
    max_edges: int,
    output: str | os.PathLike[str],
    *,
    jobs: int = 1,
    steps: int = 200_000,
    progress: Progress | None = None,
) -> Summary:
    """Decide all reduced graphs up to a number of edges, except those already in the file.

    Args:
        max_edges: largest number of edges.
        output: file of results; created if it does not exist.
        jobs: number of processes.
        steps: largest number of nodes of a search for one graph.
        progress: function that is called after every graph.

    Returns:
        The summary. Ctrl-C ends the run early, with `complete` False.

    Raises:
        ArgumentError: if a number is too small, or the file is not a file of results.
        OSError: if the file cannot be read or written.
    """
    _check("max_edges", max_edges, FEWEST_EDGES)
    census = range(FEWEST_EDGES, max_edges + 1)
    stages = ((edges, [graph.key for graph in reduced_graphs(edges)]) for edges in census)
    return _run(Summary(max_edges, str(output)), stages, jobs, steps, progress)


def sample(
    edges: int,
    graphs: int,
    output: str | os.PathLike[str],
    *,
    seed: int = 0,
    jobs: int = 1,
    steps: int = 200_000,
    progress: Progress | None = None,
) -> Summary:
    """Decide random reduced graphs of a number of edges, for sizes that the census does not reach.

    Args:
        edges: number of edges of each graph.
        graphs: number of random draws; repeated graphs are decided once.
        output: file of results; created if it does not exist.
        seed: seed of the random graphs; the graphs do not depend on the content of the file.
        jobs: number of processes.
        steps: largest number of nodes of a search for one graph.
        progress: function that is called after every graph.
    """
    _check("edges", edges, 5)
    _check("graphs", graphs, 1)
    rng = random.Random(seed)
    keys = list(dict.fromkeys(random_reduced_graph(edges, rng).key for _ in range(graphs)))
    return _run(Summary(edges, str(output)), [(edges, keys)], jobs, steps, progress)


def _run(
    summary: Summary, stages: Iterable[tuple[int, list[str]]], jobs: int, steps: int, progress: Progress | None
) -> Summary:
    for name, value in (("jobs", jobs), ("steps", steps)):
        _check(name, value, 1)
    path = Path(summary.output)
    start = time.perf_counter()
    previous = read_results(path, repair=True)
    # only the process that writes the file handles Ctrl-C
    ignore = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(jobs, initializer=ignore) if jobs > 1 else None
    try:
        with _opened(path) as file:
            for edges, keys in stages:
                waiting = []
                for key in keys:
                    if key in previous and (previous[key]["verdict"] != "open" or previous[key]["limit"] >= steps):
                        summary.count(previous[key])
                    else:
                        waiting.append(key)
                done = len(keys) - len(waiting)
                for result in _results(pool, waiting, steps):
                    file.write(json.dumps(result, separators=(",", ":"), ensure_ascii=False) + "\n")
                    file.flush()
                    summary.count(result)
                    summary.decided += 1
                    done += 1
                    if progress is not None:
                        progress(edges, done, len(keys), len(summary.circular))
            summary.complete = True
    except KeyboardInterrupt:
        pass
    except BrokenProcessPool:
        raise AccumulusError(
            f"a process of the survey was killed; {path} has all results so far; run the command again to continue"
        ) from None
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    summary.seconds = time.perf_counter() - start
    return summary


def read_results(path: str | os.PathLike[str], *, repair: bool = False) -> dict[str, Result]:
    """Return the results in a file by key of the graph; an empty dict if the file does not exist.

    Args:
        path: file of results.
        repair: if True, remove an incomplete last line, which a killed run leaves.

    Raises:
        ArgumentError: if the file is not a file of results; the message names the line.
    """
    path = Path(path)
    if not path.exists():
        return {}
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].splitlines()
    if not (_parsed(lines[0]) == _HEADER if lines else json.dumps(_HEADER).encode().startswith(data)):
        raise ArgumentError(
            f"{path} is not a file of results: expected {json.dumps(_HEADER)} in its first line. Name another file"
        )
    results: dict[str, Result] = {}
    for number, line in enumerate(lines[1:], 2):
        result = _parsed(line)
        if not isinstance(result, dict) or not result.keys() >= _FIELDS:
            raise ArgumentError(
                f"{path}, line {number}: expected the result for one graph, a JSON object with {sorted(_FIELDS)}; "
                "take the line out, and the next run makes it again"
            )
        results[result["graph"]] = result
    if repair and whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
    return results


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _opened(path: Path) -> IO[str]:
    file = path.open("a", encoding="utf-8")
    if file.tell() == 0:
        file.write(json.dumps(_HEADER) + "\n")
        file.flush()
    return file


def _check(name: str, value: int, minimum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ArgumentError(f"{name} is {value!r}; expected a whole number of at least {minimum}")


def _decided(key: str, steps: int) -> Result:
    graph = ReducedGraph.parse(key)
    verdict = decide(graph.graph(), steps)
    return {"graph": key, "edges": graph.named_edges(), **asdict(verdict), "limit": steps}


def _results(pool: ProcessPoolExecutor | None, keys: Sequence[str], steps: int) -> Iterator[Result]:
    """Return an iterator over the results in the order of completion."""
    if pool is None:
        return (_decided(key, steps) for key in keys)
    futures = [pool.submit(_decided, key, steps) for key in keys]
    return (future.result() for future in as_completed(futures))
