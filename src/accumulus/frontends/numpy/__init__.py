"""The front end of NumPy: a Python function, run once on traced values, becomes a tape.

The values are in `scalars` and `arrays`, what NumPy's functions do with them in tables (`elementwise`, `ufuncs`,
`moving`, `along_axes`, `products`, `linalg`, `various`), what ``np.zeros`` and the like make in `creation`, how the
user's code finds that in `patching`, and what to write instead of what cannot be recorded in `refusals`.
"""
