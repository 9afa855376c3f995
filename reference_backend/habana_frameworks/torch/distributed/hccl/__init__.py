"""The process group backend ``hccl``, and the environment of a rank.

Importing this package registers the backend with `torch.distributed` and reads the rank's variables
(`initialize_distributed_hpu`). It opens no connection and does not acquire the device.
"""

from __future__ import annotations

from . import operators
from .backend import register
from .emulated import let_ranks_start_alone
from .launch import initialize_distributed_hpu

register()
operators.register()
let_ranks_start_alone()
initialize_distributed_hpu()

__all__ = ["initialize_distributed_hpu"]
