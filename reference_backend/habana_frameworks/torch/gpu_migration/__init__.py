"""Runs programs that were written for ``torch.cuda`` on hpu: importing this package changes torch.

After the import, functions of ``torch.cuda`` are those of ``torch.hpu`` (see `cuda_module`), and functions
of torch that take a device take hpu when a program says cuda (see `torch_calls`). ``torch.device("cuda")``
itself stays as it is, so that ``device.type == "cuda"`` holds as the program expects; a tensor that is made
with it is on hpu, and says so. ``PT_HPU_GPU_MIGRATION=1`` imports the package at start.
"""

from __future__ import annotations

from . import cuda_module, torch_calls

cuda_module.replace_functions()
torch_calls.replace_functions()
