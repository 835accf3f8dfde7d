"""Values and derivatives of JAX's functions by JAX, in double precision."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import accumulus as acc

FAST = {"cache": False, "time_limit": 0, "optimise": False}


def agree(f, *arguments, rtol=1e-9, points=0):
    """Compare value and Jacobian by the first argument with JAX's; at a batch of points around it, too."""
    derivative = acc.value_and_jacobian(f, **FAST)
    with jax.enable_x64(True):
        inputs = [jnp.asarray(x, float) for x in arguments]
        quick = {"xla_backend_optimization_level": 0}  # to compile, not to run
        compute = jax.jit(lambda *x: (f(*x), jax.jacfwd(f)(*x)), compiler_options=quick)
        _compare(derivative(*arguments), compute(*inputs), rtol)
        if points:
            around = [x + 0.01 * np.arange(points).reshape(-1, *(1,) * np.ndim(x)) for x in arguments]
            for k in range(points):
                got = jax.tree.map(lambda leaf, k=k: leaf[k], derivative.batch(*around))
                _compare(got, compute(*(jnp.asarray(x[k]) for x in around)), rtol)
    return derivative


def _compare(got, reference, rtol):
    leaves, structure = jax.tree.flatten_with_path(reference)
    assert jax.tree.structure(got) == structure
    for (path, expected), actual in zip(leaves, jax.tree.leaves(got), strict=True):
        np.testing.assert_allclose(actual, expected, rtol, 1e-11, err_msg=jax.tree_util.keystr(path))
