"""Data loaders of the device's package: `HabanaDataLoader`, which uses torch's loader here."""

from __future__ import annotations

from . import habana_dataset
from .loader import HabanaDataLoader, fetch_habana_unet_loader

__all__ = ["HabanaDataLoader", "fetch_habana_unet_loader", "habana_dataset"]
