"""The table of scalar functions of NumPy and of `scipy.special`."""

from __future__ import annotations

import numpy as np
from derivative_cases import Case, mp
from scipy import special

CASES = [
    Case("np.sin", np.sin, mp.sin, (0.0, 1.0, -1.0, 1e-300, 1e-8, 0.5, 3.0, 100.5, 1e5)),
    Case("np.log", np.log, mp.log, (1e-300, 1e-8, 0.5, 1.0, 3.0, 1e8, 1e300), at={0.0: (-np.inf, np.inf)}),
    Case("special.iv(2)", lambda x: special.iv(2, x), lambda x: mp.besseli(2, x), (0.0, 0.5, -2.0, 30.0, 1e-8)),
    Case("np.power", np.power, mp.power, ((0.5, 2.0), (2.0, -1.5), (1e-8, 3.0), (3.0, 0.0))),
]
