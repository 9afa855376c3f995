"""Export known deviations for PyTorch's own tests, and import upstream's lists as proposed expectations."""
