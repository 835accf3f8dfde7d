"""Complex numbers inside a recorded function: pairs of real ones.

`values` has what stands for them, `formulas` the universal functions, `functions` all other functions. The tape knows
of real numbers only, so derivatives and compiled code are what they are without.
"""

from accumulus.frontends.numpy.complex_numbers import formulas, functions  # noqa: F401  # fill the tables
