"""The data set class `ImageFolderWithManifest`, created at first use because it needs torchvision."""

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
        """`torchvision.datasets.ImageFolder`; does not write the manifest file that Gaudi's loader needs."""

    ImageFolderWithManifest.__qualname__ = name  # pickle finds a class by this name
    globals()[name] = ImageFolderWithManifest
    return ImageFolderWithManifest
