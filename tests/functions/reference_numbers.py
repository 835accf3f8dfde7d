"""Compute the reference numbers of the tables of functions: value and partial derivatives of orders 1 to 4 by mpmath.

    python tests/functions/reference_numbers.py               cases that have none, or that of other points
    python tests/functions/reference_numbers.py NAME…         these cases
    python tests/functions/reference_numbers.py --all         all of them, anew

Derivatives are differences of values with so many digits that 50 remain, which two steps have to confirm.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent))
from derivative_cases import DATA, all_cases, computed


def main(names: list[str]) -> int:
    """Write what is missing, and return how many cases failed."""
    failures = 0
    DATA.mkdir(exist_ok=True)
    known = {case.name for cases in all_cases().values() for case in cases}
    if unknown := set(names) - known - {"--all"}:
        sys.exit(f"no case is named {', '.join(sorted(unknown))}")
    for table, cases in all_cases().items():
        path = DATA / f"{table}.npz"
        before = dict(np.load(path)) if path.exists() else {}
        after = {case.name: before[case.name] for case in cases if case.name in before}
        for case in cases:
            stored, wanted = before.get(case.name), np.array(case.regular).reshape(-1, case.arity)
            fresh = stored is not None and np.array_equal(stored[:, : case.arity], wanted)
            if fresh and case.name not in names and "--all" not in names:
                continue
            start = time.perf_counter()
            try:
                after[case.name] = computed(case)
            except (ArithmeticError, ValueError, TypeError) as error:
                failures += 1
                print(f"{case.name}: {error!r}")
                continue
            taken = time.perf_counter() - start
            print(f"{case.name}: {len(wanted)} points, {taken:.1f} s", flush=True)
            if taken > 5.0:
                np.savez_compressed(path, allow_pickle=False, **after)
        np.savez_compressed(path, allow_pickle=False, **after)
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
