"""The process group backend ``hccl``, and the environment of a rank.

Importing this package registers the backend with `torch.distributed` and reads the variables that a launcher
has set for the rank (`initialize_distributed_hpu`). The import opens no connection and does not acquire
the device.
"""

from __future__ import annotations

from . import operators
from .backend import register_hccl_backend
from .emulated import patch_init_process_group
from .launch import initialize_distributed_hpu

register_hccl_backend()
operators.register_hccl_operators()
patch_init_process_group()
initialize_distributed_hpu()

__all__ = ["initialize_distributed_hpu"]
