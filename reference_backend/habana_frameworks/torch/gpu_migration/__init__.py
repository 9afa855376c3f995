"""Run programs that were written for ``torch.cuda`` on hpu. Importing this package patches torch.

The import replaces the functions of ``torch.cuda`` by functions of ``torch.hpu`` (see `cuda_module`), and
makes functions with a device argument use hpu if a program passes cuda (see `torch_calls`).
``torch.device("cuda")`` itself is unchanged, so that ``device.type == "cuda"`` holds as the program expects.
A tensor that is created with this device is on hpu, and its ``device`` is hpu. With
``PT_HPU_GPU_MIGRATION=1``, the backend imports this package when it is loaded.
"""

from __future__ import annotations

from . import cuda_module, torch_calls

cuda_module.patch_torch_cuda()
torch_calls.patch_torch_functions()
