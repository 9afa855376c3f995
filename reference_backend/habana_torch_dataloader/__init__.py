"""The data loaders of `habana_dataloader`, under the package name of Gaudi's multi-threaded data loader.

This backend has no multi-threaded data loader; torch's DataLoader reads data with worker processes instead.
"""

from __future__ import annotations

from habana_dataloader import HabanaDataLoader, fetch_habana_unet_loader, habana_dataset

__all__ = ["HabanaDataLoader", "fetch_habana_unet_loader", "habana_dataset"]
