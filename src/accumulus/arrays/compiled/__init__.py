"""The kernels of derivatives between arrays: functions in Python that Numba compiles, see `accumulus.native`."""
