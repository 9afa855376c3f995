"""Version of the backend, reported as driver version and as ``torch.hpu.__version__``."""

__version__ = "1.21.0"
