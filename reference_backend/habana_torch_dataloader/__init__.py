"""The loaders of `habana_dataloader` under the name of the package that holds the threads of the hardware's.

Here torch's own loader reads, in its own processes, so that there is nothing else in it.
"""

from __future__ import annotations

from habana_dataloader import HabanaDataLoader, fetch_habana_unet_loader, habana_dataset

__all__ = ["HabanaDataLoader", "fetch_habana_unet_loader", "habana_dataset"]
