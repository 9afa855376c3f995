"""The loaders of `habana_dataloader`, under the name of the wheel that holds the hardware's threaded loader.

Here torch's loader reads, in processes of its own, so the package adds nothing.
"""

from __future__ import annotations

from habana_dataloader import HabanaDataLoader, fetch_habana_unet_loader, habana_dataset

__all__ = ["HabanaDataLoader", "fetch_habana_unet_loader", "habana_dataset"]
