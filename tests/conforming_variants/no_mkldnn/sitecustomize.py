"""Disable mkldnn, whose kernels round differently, in every Python process that has this folder on
PYTHONPATH.

Two processes must compute with the same kernels: the process that runs the suite, and the process that
recomputes reference values. A target file could name this module too, but then only the first process would
import it.
"""

import torch

torch.backends.mkldnn.set_flags(False)
