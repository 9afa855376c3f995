"""`HabanaDataLoader`, the data loader of the Gaudi software, implemented here with torch's DataLoader."""

from __future__ import annotations

from . import habana_dataset
from .loader import HabanaDataLoader, fetch_habana_unet_loader

__all__ = ["HabanaDataLoader", "fetch_habana_unet_loader", "habana_dataset"]
