"""Complex numbers inside a recorded function: pairs of real ones.

`values` has what stands for them, `formulas` the universal functions, `functions` the array functions, `algebra`
linear algebra, and `modules` the module `cmath`. The tape knows of real numbers only, so derivatives and compiled code
are what they are without.
"""

from accumulus.frontends.numpy.complex_numbers import algebra, formulas, functions, modules  # noqa: F401  # fill the tables
