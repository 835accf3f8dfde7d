"""The front end of JAX's functions: `jax.make_jaxpr` writes them down, and each equation is recorded by one row."""
