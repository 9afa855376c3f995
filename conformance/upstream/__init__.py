"""Export known deviations for PyTorch's own (upstream) tests, and import upstream's lists of expected
failures as proposed expectations.
"""
