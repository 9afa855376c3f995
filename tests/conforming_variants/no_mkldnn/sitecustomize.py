"""Disable mkldnn, whose kernels round differently, in every Python process that has this folder on
PYTHONPATH.

The process that recomputes reference values must compute like the process that runs the suite. A module that
the target file names would be imported only by the latter.
"""

import torch

torch.backends.mkldnn.set_flags(False)
