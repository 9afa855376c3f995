"""Random programs: short sequences of calls, views and writes, generated from a seed, checked, shrunk and
written as Python.

The results of a program can be compared bit by bit, because all its numbers are integers. All results and
partial sums are exactly representable in the dtype, and the factors of matrix products also in ``tf32``. No
program reads uninitialised memory, and no operator writes an element twice.
"""
