"""The tape's kernel: functions in Python that Numba compiles, see `accumulus.native`."""
