"""Graphs of GradBench's problems at small sizes, for the corpus of graphs: `python benchmarks/graphs.py FOLDER`.

It writes a file for each graph; `accumulus research corpus --output TABLE --add FILE` adds it (docs/corpus.md).
"""

from __future__ import annotations

import sys
from pathlib import Path

import accumulus as acc
from groups import cliffs

#: Functions of `groups/cliffs.py` with their sizes. Larger ones take longer to search, and the file to read.
PROBLEMS = {
    "gmm": (cliffs.mixture, (2, 2, 5)),
    "kmeans": (cliffs.kmeans, (3, "gradient", 3)),
    "lstm": (cliffs.lstm, (1, 2)),
    "llsq": (cliffs.least_squares, (8,)),
    "lse": (cliffs.log_sum_exp, (20,)),
    "det": (cliffs.minors, (4,)),
    "ode": (cliffs.chain, (6, 4)),
    "saddle": (cliffs.saddle, ()),
    "ht": (cliffs.hand_tracking, (1, 1)),
    "ba": (cliffs.bundle_adjustment, (4,)),
}


def graph(name: str) -> acc.DifferentiationGraph:
    """The graph of a problem's function by its first argument."""
    make, sizes = PROBLEMS[name]
    case = make(*sizes)
    read = acc.trace(cliffs.in_numpy(case), *case.arguments[: None if name == "ba" else 1]).linearize(0)
    read.name = name
    return read


if __name__ == "__main__":
    (folder,) = sys.argv[1:]
    for name in PROBLEMS:
        acc.save_graph(graph(name), Path(folder) / f"{name}.json")
