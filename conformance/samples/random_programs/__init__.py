"""Random programs: short sequences of calls, views and writes, generated from a seed, checked, shrunk and
written as Python.

The results of a program are compared bit by bit. Its numbers are integers, and all results and partial sums
are exactly representable in the dtype (for products, in the precision class ``tf32``). No program reads
uninitialised memory, and no operator writes an element twice.
"""
