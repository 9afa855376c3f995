"""The loaders of `habana_dataloader` under the package name of Gaudi's threaded loader.

On this device, torch's loader reads with worker processes, so this package adds nothing.
"""

from __future__ import annotations

from habana_dataloader import HabanaDataLoader, fetch_habana_unet_loader, habana_dataset

__all__ = ["HabanaDataLoader", "fetch_habana_unet_loader", "habana_dataset"]
