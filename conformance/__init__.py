"""Device-generic conformance suite for PyTorch backends."""

__version__ = "0.1.0"
