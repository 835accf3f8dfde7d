"""Graphs of GradBench's problems at small sizes, for the corpus of graphs: `python benchmarks/graphs.py FOLDER`.

It writes a file for each graph; `accumulus research corpus --output TABLE --add FILE` adds it (docs/corpus.md).
"""

from __future__ import annotations

import sys
from pathlib import Path

import accumulus as acc
from cases import models
from groups.cliffs import in_numpy

#: Functions of `cases/models.py` with their sizes. Larger ones take longer to search, and the file to read.
PROBLEMS = {
    "gmm": (models.mixture, (2, 2, 5)),
    "kmeans": (models.kmeans, (3, "gradient", 3)),
    "lstm": (models.lstm, (1, 2)),
    "llsq": (models.least_squares, (8,)),
    "lse": (models.log_sum_exp, (20,)),
    "det": (models.minors, (4,)),
    "ode": (models.chain, (6, 4)),
    "saddle": (models.saddle, ()),
    "ht": (models.hand_tracking, (1, 1)),
    "ba": (models.bundle_adjustment, (4,)),
}


def graph(name: str) -> acc.DifferentiationGraph:
    """The graph of a problem's function by its first argument."""
    make, sizes = PROBLEMS[name]
    case = make(*sizes)
    read = acc.trace(in_numpy(case), *case.arguments[: None if name == "ba" else 1]).linearize(0)
    read.name = name
    return read


if __name__ == "__main__":
    (folder,) = sys.argv[1:]
    for name in PROBLEMS:
        acc.save_graph(graph(name), Path(folder) / f"{name}.json")
