"""The kernel of repetition: functions in Python that Numba compiles, see `accumulus.native`."""
