"""Front end for functions of JAX: `jax.make_jaxpr` traces them, and each primitive is recorded by a row of a table."""
