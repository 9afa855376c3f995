"""Imported by the target file beside it: the CPU without mkldnn, whose kernels round in another order."""

import torch

torch.backends.mkldnn.set_flags(False)
