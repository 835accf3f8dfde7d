"""autograd: `jacobian(f)` at one point, the same source run on `autograd.numpy`.

It neither compiles nor runs several points at once. Arrays that an example fills item by item are stacked, as for JAX.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from functions import Example
from peers import require
from peers.jax_batch import Filling, stacked


def jacobian(example: Example) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return the Jacobian, (inputs,) → (outputs, inputs)."""
    autograd, special = require("autograd"), require("autograd.scipy.special")
    run = example.running_on(Filling(require("autograd.numpy"), special))
    return autograd.jacobian(lambda x: stacked(run(x)))  # type: ignore[no-any-return]
