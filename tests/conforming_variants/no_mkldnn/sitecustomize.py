"""Disable mkldnn, whose kernels round differently, in every Python process that has this folder on
PYTHONPATH.

Two processes must compute with the same kernels: the one that runs the suite, and the one that recomputes
reference values. If the target file named this module, only the process that runs the suite would import it.
"""

import torch

torch.backends.mkldnn.set_flags(False)
