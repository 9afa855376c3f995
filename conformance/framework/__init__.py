"""The building blocks of checks: the recorder, comparisons, calls with error classification, and
tolerances.
"""
