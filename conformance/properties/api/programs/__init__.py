"""Properties of random programs: generated sequences of operators, views and writes, checked in every
mode.
"""
