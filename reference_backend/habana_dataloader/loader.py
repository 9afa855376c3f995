"""`HabanaDataLoader`: torch's DataLoader, and a check whether Gaudi's loader supports the data set."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from torch.utils.data import DataLoader

_TRAINING = {"RandomResizedCrop", "RandomHorizontalFlip", "ToTensor", "Normalize"}
_EVALUATION = {"Resize", "CenterCrop", "ToTensor", "Normalize"}
_FOLDERS = ("imagenet", "ilsvrc2012")
_WORKERS = 8


#: Reasons for the use of torch's loader that this process has printed. Each reason is printed once.
_printed_reasons: set[str] = set()


class TorchLoaderWithAeon(DataLoader[Any]):
    """`torch.utils.data.DataLoader` with the attribute ``aeon``, by which programs detect Gaudi's loader."""

    aeon: ClassVar[None] = None


class HabanaDataLoader(DataLoader[Any]):
    """A `torch.utils.data.DataLoader` that reports data sets that Gaudi's loader does not support.

    torch's loader loads every data set, with all arguments. If Gaudi's loader does not support a data set,
    the constructor prints the reason once per process. If ``DATALOADER_FALLBACK_EN`` is false, the
    constructor raises an error instead.
    """

    def __init__(self, dataset: Any, *args: Any, **kwargs: Any) -> None:
        """Create a loader with the arguments of torch's DataLoader.

        Raises:
            ValueError: Gaudi's loader does not support the data set, and ``DATALOADER_FALLBACK_EN`` is false.
        """
        super().__init__(dataset, *args, **kwargs)
        reason = unsupported_reason(dataset, self)
        if reason is None:
            return
        if os.environ.get("DATALOADER_FALLBACK_EN", "True").lower() not in ("true", "1"):
            raise ValueError(f"{reason}. Set DATALOADER_FALLBACK_EN=True to use torch's DataLoader.")
        if reason not in _printed_reasons:
            _printed_reasons.add(reason)
            print(f"Failed to initialize Habana Dataloader, error: {reason}\nRunning with PyTorch Dataloader")

    @property
    def dataloader(self) -> TorchLoaderWithAeon:
        """Return a torch DataLoader that has the attribute ``aeon`` and shares all state with this loader.

        lightning-habana replaces ``__len__`` of `HabanaDataLoader` by a function that calls
        ``len(self.dataloader)``.
        """
        native = TorchLoaderWithAeon.__new__(TorchLoaderWithAeon)
        vars(native).update(vars(self))
        return native


def unsupported_reason(dataset: Any, loader: DataLoader[Any]) -> str | None:
    """Return the reason why Gaudi's loader does not support a data set, or None if it supports the data set.

    Gaudi's loader supports COCO for detection. It also supports ImageNet folders, if the loader has eight
    workers, ``pin_memory`` and ``drop_last``, and all transforms are in `_TRAINING` or all in `_EVALUATION`.
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
    """Raise NotImplementedError: this loader of medical volumes needs kernels that only hardware has.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "fetch_habana_unet_loader reads volumes with hardware kernels, which a simulated device does not "
        "have. Use torch.utils.data.DataLoader."
    )
