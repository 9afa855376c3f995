"""The loader: torch's, and the rules by which hardware would take a data set."""

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
    """`torch.utils.data.DataLoader` with the attribute by which programs ask for the software accelerator."""

    aeon: ClassVar[None] = None


class HabanaDataLoader:
    """A loader with the constructor of `torch.utils.data.DataLoader`.

    A data set that hardware's loader would not take gets torch's loader and a printed line, or an error if
    ``DATALOADER_FALLBACK_EN`` is false; one that it would take gets torch's loader without a line.
    """

    def __init__(self, dataset: Any, *args: Any, **kwargs: Any) -> None:
        """Make a loader; arguments are those of torch's.

        Raises:
            ValueError: hardware would not take the data set, and ``DATALOADER_FALLBACK_EN`` is not "True".
        """
        self.dataloader = Loader(dataset, *args, **kwargs)
        reason = refusal(dataset, self.dataloader)
        if reason is not None:
            if os.environ.get("DATALOADER_FALLBACK_EN", "True").lower() not in ("true", "1"):
                raise ValueError(f"{reason}; set DATALOADER_FALLBACK_EN=True for torch's DataLoader")
            print(f"Failed to initialize Habana Dataloader, error: {reason}\nRunning with PyTorch Dataloader")

    def __iter__(self) -> Iterator[Any]:
        """Iterate over batches."""
        return iter(self.dataloader)

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.dataloader)

    def __getattr__(self, name: str) -> Any:
        if name == "dataloader":  # while a copy is made
            raise AttributeError(name)
        return getattr(self.dataloader, name)


def refusal(dataset: Any, loader: DataLoader[Any]) -> str | None:
    """Return why hardware's loader does not take a data set, or None if it does.

    Taken are folders of ImageNet with the usual transforms, eight workers, pinned memory and no rest, and
    COCO for detection.
    """
    kinds = {kind.__name__ for kind in type(dataset).__mro__}
    if "CocoDetection" in kinds:
        return None
    if "ImageFolder" not in kinds:
        return f"a data set of type {type(dataset).__name__} is neither an ImageFolder nor COCO"
    root = str(dataset.root).lower()
    if not any(word in root for word in _FOLDERS):
        return (
            f"the folder {dataset.root} is not that of ImageNet: its path has none of {', '.join(_FOLDERS)}"
        )
    if not loader.pin_memory:
        return "pin_memory is False, and only True is supported"
    if loader.num_workers != _WORKERS:
        return f"num_workers is {loader.num_workers}, and only {_WORKERS} is supported"
    if not loader.drop_last:
        return "drop_last is False, and only True is supported"
    used = {type(one).__name__ for one in getattr(dataset.transform, "transforms", [])}
    if not used <= _TRAINING and not used <= _EVALUATION:
        return f"the transforms {', '.join(sorted(used - _TRAINING - _EVALUATION))} are not supported"
    return None


def fetch_habana_unet_loader(*args: Any, **kwargs: Any) -> Any:
    """Refuse: this loader reads medical volumes with kernels of hardware.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "fetch_habana_unet_loader reads volumes with kernels of hardware, which a software device does not "
        "have: use torch.utils.data.DataLoader"
    )
