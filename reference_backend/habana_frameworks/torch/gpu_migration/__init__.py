"""Run programs that were written for ``torch.cuda`` on hpu. Importing this package changes torch.

After the import, functions of ``torch.cuda`` are replaced by functions of ``torch.hpu`` (see `cuda_module`).
Functions of torch with a device argument use hpu if a program passes cuda (see `torch_calls`).
``torch.device("cuda")`` itself is unchanged, so that ``device.type == "cuda"`` holds as the program expects.
A tensor that is created on this device is on hpu, and its ``device`` is hpu. ``PT_HPU_GPU_MIGRATION=1``
imports the package at start.
"""

from __future__ import annotations

from . import cuda_module, torch_calls

cuda_module.replace_functions()
torch_calls.replace_functions()
