"""Data sets that hardware loads itself."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "ImageFolderWithManifest":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from torchvision.datasets import ImageFolder
    except ImportError as error:
        raise ImportError("ImageFolderWithManifest needs torchvision: pip install torchvision") from error

    class ImageFolderWithManifest(ImageFolder):  # type: ignore[misc]
        """`torchvision.datasets.ImageFolder`; without the manifest that hardware's loader needs."""

    ImageFolderWithManifest.__qualname__ = name  # worker processes of loaders find the class by this name
    globals()[name] = ImageFolderWithManifest
    return ImageFolderWithManifest
