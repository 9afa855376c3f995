"""Version of the backend, which is also the driver version and ``torch.hpu.__version__``."""

__version__ = "1.21.0"
