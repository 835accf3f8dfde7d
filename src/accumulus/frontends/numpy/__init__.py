"""The front end of NumPy: a Python function, run once on traced values, becomes a tape.

The values are in `scalars` and `arrays`, what NumPy's functions do with them in tables (`elementwise`, `ufuncs`,
`moving`, `sequences`, `products`, `linalg`, `ordering`, `statistics`, `various`), what ``np.zeros`` and the like make
in `replacements`, and how the user's code finds that in `patching`. `complex_numbers` are pairs of these values, with
their functions in `complex_functions`; `fourier` transforms both.
"""
