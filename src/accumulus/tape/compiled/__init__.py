"""The kernel of the tape room: functions in Python that Numba compiles, see `accumulus.native`."""
