"""Coverage of PyTorch's own device-generic tests by the suite: figures and the pages of docs/upstream-coverage."""
