"""Figures and pages of the coverage map: which of PyTorch's device-generic tests the suite covers."""
