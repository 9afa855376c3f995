"""Known deviations in the terms of PyTorch's own tests, and upstream's lists as proposed expectations."""
