"""JAX: `jit(vmap(jacfwd(f)))` or `jacrev`, in float64 on one thread, the same source run on `jax.numpy`.

Items of JAX arrays cannot be assigned; where an example fills an array item by item, a `Filled` array collects the
items and is stacked when it is used, which is what a JAX user would write by hand.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from functions import Example
from peers import Contender, require

Mode = Literal["jacfwd", "jacrev"]
MODES: tuple[Mode, ...] = ("jacfwd", "jacrev")
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def load() -> Any:
    """The package, in double precision, on the processor."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_FLAGS", ONE_THREAD)
    jax = require("jax")
    jax.config.update("jax_enable_x64", True)
    return jax


def function(example: Example) -> Callable[[Any], Any]:
    """The example as a function of JAX arrays."""
    jax = load()
    run = example.running_on(Filling(jax.numpy, jax.scipy.special))
    return lambda x: jax.numpy.asarray(stacked(run(x)))


def contender(example: Example, X: NDArray[np.float64], mode: Mode) -> Contender:
    """Dense Jacobians at the points X (points, inputs), in JAX's own arrays."""
    jax = load()
    compiled = jax.jit(jax.vmap(getattr(jax, mode)(function(example))))
    points = jax.device_put(X)

    def run() -> Any:
        return compiled(points).block_until_ready()

    return Contender(f"JAX {mode}", run, lambda: np.asarray(run()))


def hessian_contender(example: Example, X: NDArray[np.float64], w: NDArray[np.float64]) -> Contender:
    """Gradient and Hessian of w·f at the points X (points, inputs), in JAX's own arrays."""
    jax = load()
    f = function(example)

    def both(x: Any) -> Any:
        def weighted(x: Any) -> Any:
            return jax.numpy.sum(w * f(x))

        return jax.grad(weighted)(x), jax.hessian(weighted)(x)

    compiled = jax.jit(jax.vmap(both))
    points = jax.device_put(X)

    def run() -> Any:
        return jax.block_until_ready(compiled(points))

    return Contender("JAX", run, lambda: np.asarray(run()[1]))


class Filling:
    """Looks like the module `numpy`; made from `jax.numpy` or `autograd.numpy`, with arrays that can be filled."""

    def __init__(self, jnp: Any, special: Any) -> None:
        self._jnp = jnp
        self.special = special

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._jnp, name)
        return member if name == "linalg" or not callable(member) else _on_stacked(member)

    def zeros(self, shape: Any) -> Filled:
        """Return an array whose items are still to be filled."""
        return Filled(self._jnp, shape)

    empty = zeros


def _operator(combine: Callable[[Any, Any], Any], *, reflected: bool = False) -> Callable[[Filled, Any], Any]:
    def method(self: Filled, other: Any) -> Any:
        pair = (stacked(other), stacked(self)) if reflected else (stacked(self), stacked(other))
        return combine(*pair)

    return method


class Filled:
    """An array that is filled item by item and stacked when it is used as a whole."""

    __array_ufunc__ = None  # NumPy arrays leave their operators to this class

    def __init__(self, jnp: Any, shape: Any) -> None:
        self._jnp = jnp
        self._items = np.zeros(shape, dtype=object)

    def __setitem__(self, key: Any, value: Any) -> None:
        places = np.arange(self._items.size).reshape(self._items.shape)[key]
        values = self._jnp.broadcast_to(stacked(value), np.shape(places)).reshape(-1)
        for place, item in zip(np.ravel(places), values, strict=True):
            self._items.flat[place] = item

    def __getitem__(self, key: Any) -> Any:
        chosen = self._items[key]
        return self._stack(chosen) if isinstance(chosen, np.ndarray) else chosen

    def stacked(self) -> Any:
        """All items as one JAX array."""
        return self._stack(self._items)

    def _stack(self, items: NDArray[np.object_]) -> Any:
        return self._jnp.stack([self._jnp.array(item, dtype=float) for item in items.flat]).reshape(items.shape)

    def __neg__(self) -> Any:
        return -self.stacked()

    __add__ = _operator(operator.add)
    __sub__ = _operator(operator.sub)
    __mul__ = _operator(operator.mul)
    __truediv__ = _operator(operator.truediv)
    __pow__ = _operator(operator.pow)
    __matmul__ = _operator(operator.matmul)
    __radd__ = _operator(operator.add, reflected=True)
    __rsub__ = _operator(operator.sub, reflected=True)
    __rmul__ = _operator(operator.mul, reflected=True)
    __rtruediv__ = _operator(operator.truediv, reflected=True)
    __rmatmul__ = _operator(operator.matmul, reflected=True)


def stacked(value: Any) -> Any:
    """Return a filled array as one array; other values as they are."""
    return value.stacked() if isinstance(value, Filled) else value


def _on_stacked(member: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **options: member(*map(stacked, arguments), **options)
