"""Fused optimizers: the device updates a whole list of parameters in one operator call."""

from __future__ import annotations

from .adagrad import FusedAdagrad
from .adamw import FusedAdamW
from .lamb import FusedLamb
from .lars import FusedLars
from .momentum import FusedResourceApplyMomentum
from .sgd import FusedSGD
from .sparse import SparseAdagrad, SparseSGD

__all__ = [
    "FusedAdagrad",
    "FusedAdamW",
    "FusedLamb",
    "FusedLars",
    "FusedResourceApplyMomentum",
    "FusedSGD",
    "SparseAdagrad",
    "SparseSGD",
]
