"""Front end for NumPy: a Python function runs once on traced values, and becomes a tape.

`scalars` and `arrays` have the traced values. Tables register how NumPy's functions are recorded (`elementwise`,
`ufuncs`, `moving`, `sequences`, `products`, `linalg`, `ordering`, `statistics`, `various`). `replacements` replaces
``np.zeros`` and other functions that make arrays, and `patching` installs the replacements in the user's modules.
`complex_numbers` are pairs of traced values, with their functions in `complex_functions`; `fourier` transforms both
kinds.
"""
