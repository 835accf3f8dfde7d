"""The targets' kernel: functions in Python that Numba compiles, see `accumulus.native`."""
