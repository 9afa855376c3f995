"""`HabanaDataLoader`: torch's DataLoader, and the check whether Gaudi's loader supports a data set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, ClassVar

from torch.utils.data import DataLoader

_TRAINING = {"RandomResizedCrop", "RandomHorizontalFlip", "ToTensor", "Normalize"}
_EVALUATION = {"Resize", "CenterCrop", "ToTensor", "Normalize"}
_FOLDERS = ("imagenet", "ilsvrc2012")
_WORKERS = 8


class Loader(DataLoader[Any]):
    """`torch.utils.data.DataLoader` with the attribute ``aeon``, by which programs detect Gaudi's loader."""

    aeon: ClassVar[None] = None


class HabanaDataLoader:
    """A loader with the constructor of `torch.utils.data.DataLoader`.

    torch's DataLoader loads every data set. For a data set that Gaudi's loader does not support, the
    constructor prints a line, or raises an error if ``DATALOADER_FALLBACK_EN`` is false.
    """

    def __init__(self, dataset: Any, *args: Any, **kwargs: Any) -> None:
        """Create a loader. The arguments are the arguments of torch's DataLoader.

        Raises:
            ValueError: Gaudi's loader does not support the data set, and ``DATALOADER_FALLBACK_EN`` is false.
        """
        self.dataloader = Loader(dataset, *args, **kwargs)
        reason = unsupported_reason(dataset, self.dataloader)
        if reason is not None:
            if os.environ.get("DATALOADER_FALLBACK_EN", "True").lower() not in ("true", "1"):
                raise ValueError(f"{reason}. Set DATALOADER_FALLBACK_EN=True to use torch's DataLoader.")
            print(f"Failed to initialize Habana Dataloader, error: {reason}\nRunning with PyTorch Dataloader")

    def __iter__(self) -> Iterator[Any]:
        """Iterate over batches."""
        return iter(self.dataloader)

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.dataloader)

    def __getattr__(self, name: str) -> Any:
        if name == "dataloader":  # copy and pickle create an object without this attribute
            raise AttributeError(name)
        return getattr(self.dataloader, name)


def unsupported_reason(dataset: Any, loader: DataLoader[Any]) -> str | None:
    """Return the reason why Gaudi's loader does not support a data set, or None if it supports the data set.

    Gaudi's loader supports COCO for detection. It also supports ImageNet folders, if the transforms are the
    usual ones and the loader has eight workers, pinned memory and no incomplete last batch.
    """
    kinds = {kind.__name__ for kind in type(dataset).__mro__}
    if "CocoDetection" in kinds:
        return None
    if "ImageFolder" not in kinds:
        return f"a data set of type {type(dataset).__name__} is neither an ImageFolder nor COCO"
    root = str(dataset.root).lower()
    if not any(name in root for name in _FOLDERS):
        return f"the path {dataset.root} of the ImageFolder contains none of {', '.join(_FOLDERS)}"
    if not loader.pin_memory:
        return "pin_memory is False, but only True is supported"
    if loader.num_workers != _WORKERS:
        return f"num_workers is {loader.num_workers}, but only {_WORKERS} is supported"
    if not loader.drop_last:
        return "drop_last is False, but only True is supported"
    used = {type(transform).__name__ for transform in getattr(dataset.transform, "transforms", [])}
    if not used <= _TRAINING and not used <= _EVALUATION:
        return f"the transforms {', '.join(sorted(used - _TRAINING - _EVALUATION))} are not supported"
    return None


def fetch_habana_unet_loader(*args: Any, **kwargs: Any) -> Any:
    """Raise NotImplementedError: the loader reads medical volumes with kernels that only hardware has.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "fetch_habana_unet_loader reads volumes with hardware kernels, which a simulated device does not "
        "have. Use torch.utils.data.DataLoader."
    )
