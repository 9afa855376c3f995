"""Operators of image pipelines: reader, decoder, image transformations, constants, user-defined functions."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy

from .graph import Node
from .media_types import dtype as _dtype
from .media_types import ftype, imgtype, randomCropType

_ATTEMPTS = 10


class ReadImageDatasetFromDir(Node):
    """Pipeline operator that lists image files from one folder per class: file names and class numbers."""

    RESULTS = 2

    def __init__(
        self, dir: str, format: str = "JPEG", seed: int = 0, shuffle: bool = False,
        drop_remainder: bool = False, label_dtype: Any = _dtype.UINT32, num_slices: int = 1,
        slice_index: int = 0, **unused_options: Any,
    ) -> None:  # fmt: skip
        """Find the files.

        Args:
            dir: folder that contains one folder for each class. Classes are numbered in the order of the
                folder names.
            format: "JPEG" (files .jpg and .jpeg) or another file extension.
            seed: seed of the shuffled order.
            shuffle: use a new random order for each epoch.
            drop_remainder: omit a last batch that is not full. Otherwise the first files of the epoch are
                repeated to fill it.
            label_dtype: dtype of the class numbers.
            num_slices: number of slices into which the files are divided, such as one for each rank.
            slice_index: index of the slice that this reader reads.
            unused_options: hardware arguments, not used.

        Raises:
            FileNotFoundError: the folder does not exist or contains no matching file.
        """
        super().__init__()
        if not os.path.isdir(dir):
            raise FileNotFoundError(
                f"{dir} is not a folder. Use a folder with one folder of images for each class."
            )
        endings = (".jpg", ".jpeg") if format.upper() == "JPEG" else (f".{format.lower()}",)
        self.files: list[tuple[str, int]] = []
        classes = sorted(entry.name for entry in os.scandir(dir) if entry.is_dir())
        for label, name in enumerate(classes):
            folder = os.path.join(dir, name)
            self.files += [
                (os.path.join(folder, file), label)
                for file in sorted(os.listdir(folder))
                if file.lower().endswith(endings)
            ]
        if not self.files:
            raise FileNotFoundError(
                f"no file in the class folders of {dir} ends with {' or '.join(endings)}. Use another format "
                "or folder."
            )
        # All slices have the same number of files. Otherwise ranks would run different numbers of batches,
        # and the collectives of the additional batches would wait forever.
        count = len(self.files)
        each = max(1, count // num_slices if drop_remainder else math.ceil(count / num_slices))
        self.files = [self.files[(slice_index + i * num_slices) % count] for i in range(each)]
        self.shuffle, self.drop_remainder, self.label_dtype = (
            shuffle,
            drop_remainder,
            numpy.dtype(label_dtype.value),
        )
        self._random = numpy.random.default_rng(seed)
        self._batch: tuple[list[str], numpy.ndarray] | None = None
        self._place, self._order = 0, numpy.arange(len(self.files))

    def batch_count(self, size: int) -> int:
        """Return the number of batches of ``size`` files in an epoch."""
        return len(self.files) // size if self.drop_remainder else math.ceil(len(self.files) / size)

    def start_epoch(self) -> None:
        """Begin an epoch: return to the first file, and shuffle the order if requested."""
        self._place = 0
        if self.shuffle:
            self._order = self._random.permutation(len(self.files))

    def select_next_batch(self, size: int) -> None:
        """Select the next ``size`` files as the batch."""
        chosen = [self.files[self._order[(self._place + i) % len(self.files)]] for i in range(size)]
        self._place += size
        self._batch = [file for file, _ in chosen], numpy.array([c for _, c in chosen], self.label_dtype)

    def compute(self) -> tuple[list[str], numpy.ndarray]:
        """Return the file names and class numbers of the batch that `select_next_batch` selected."""
        if self._batch is None:
            raise RuntimeError("the reader has no batch yet: iterate over its pipeline first")
        return self._batch


class ImageDecoder(Node):
    """Pipeline operator that decodes image files to one uint8 array of images of equal size."""

    def __init__(
        self, output_format: imgtype = imgtype.RGB_P, resize: list[int] | None = None,
        resampling_mode: ftype = ftype.BI_LINEAR,
        random_crop_type: randomCropType = randomCropType.NO_RANDOM_CROP, scale_min: float = 0.08,
        scale_max: float = 1.0, ratio_min: float = 3 / 4, ratio_max: float = 4 / 3, seed: int = 0,
        **unused_options: Any,
    ) -> None:  # fmt: skip
        """Create a decoder.

        Args:
            output_format: layout of the result.
            resize: columns and rows of the result.
            resampling_mode: interpolation method.
            random_crop_type: part of each image that is resized: the whole image, the largest central square,
                or a random crop.
            scale_min: minimum share of the area of a random crop.
            scale_max: maximum share of the area.
            ratio_min: minimum width / height.
            ratio_max: maximum width / height.
            seed: seed of the random crops.
            unused_options: hardware arguments, not used.

        Raises:
            ValueError: ``resize`` is missing.
        """
        super().__init__()
        if resize is None:
            raise ValueError("ImageDecoder returns images of one size. Pass resize=[columns, rows].")
        self.output_format, self.size, self.mode = output_format, (resize[0], resize[1]), resampling_mode
        self.crop, self.scale, self.ratio = random_crop_type, (scale_min, scale_max), (ratio_min, ratio_max)
        self._random = numpy.random.default_rng(seed)

    def compute(self, files: list[str]) -> numpy.ndarray:
        """Return the decoded images of a batch of files as one array."""
        try:
            from PIL import Image
        except ImportError as error:
            raise ImportError("ImageDecoder needs Pillow: pip install pillow") from error
        images = []
        for file in files:
            with Image.open(file) as opened:
                image = opened.convert("L" if self.output_format == imgtype.GRAY else "RGB")
            box = self._crop_box(*image.size)
            images.append(numpy.asarray(image.resize(self.size, int(self.mode), box)))
        batch = numpy.stack(images)
        if self.output_format == imgtype.GRAY:
            return batch[:, None]
        return batch.transpose(0, 3, 1, 2) if self.output_format == imgtype.RGB_P else batch

    def _crop_box(self, width: int, height: int) -> tuple[int, int, int, int]:
        if self.crop == randomCropType.NO_RANDOM_CROP:
            return 0, 0, width, height
        if self.crop != randomCropType.CENTER_CROP:
            for _ in range(_ATTEMPTS):
                ratio = math.exp(self._random.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
                area: float = width * height
                if self.crop == randomCropType.RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP:
                    area *= self._random.uniform(*self.scale)
                w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
                if 0 < w <= width and 0 < h <= height:
                    left_column = int(self._random.integers(0, width - w + 1))
                    top = int(self._random.integers(0, height - h + 1))
                    return left_column, top, left_column + w, top + h
        side = min(width, height)
        left_column, top = (width - side) // 2, (height - side) // 2
        return left_column, top, left_column + side, top + side


class MediaFunc(Node):
    """Pipeline operator that calls a user-defined function for each batch."""

    def __init__(self, func: Any, shape: list[int], dtype: Any = _dtype.FLOAT32, **params: Any) -> None:
        """Create the function object: an instance of ``func``, constructed with a dict of all parameters.

        Args:
            func: a class with the interface of `operators.cpu_nodes.cpu_nodes.media_function`.
            shape: shape of the array that the function returns, last dimension first.
            dtype: dtype of this array.
            params: further entries of the dict.
        """
        super().__init__()
        self.function = func({"shape": list(shape), "dtype": numpy.dtype(_numpy_dtype_name(dtype)), **params})

    def compute(self, *inputs: Any) -> numpy.ndarray:
        """Return the user-defined function's array for a batch."""
        return numpy.asarray(self.function(*inputs))


class MediaConst(Node):
    """Pipeline operator that returns the same array for each batch."""

    def __init__(self, data: Any, shape: list[int], dtype: Any = _dtype.FLOAT32) -> None:
        """Store ``data`` as a NumPy array of the given shape and dtype."""
        super().__init__()
        self.value = numpy.asarray(data, numpy.dtype(_numpy_dtype_name(dtype))).reshape(shape)

    def compute(self) -> numpy.ndarray:
        """Return the constant array."""
        return self.value


class RandomFlip(Node):
    """Pipeline operator that mirrors those images of a batch whose entry in the second input is not 0."""

    def __init__(
        self, horizontal: bool | int = True, vertical: bool | int = False, **unused_options: Any
    ) -> None:
        """Select the directions: ``horizontal`` swaps left and right, ``vertical`` swaps top and bottom."""
        super().__init__()
        self.axes = tuple(axis for axis, wanted in ((-1, horizontal), (-2, vertical)) if wanted)

    def compute(self, images: numpy.ndarray, flips: numpy.ndarray) -> numpy.ndarray:
        """Return images [batch, colours, rows, columns], with image i mirrored if ``flips[i]`` is not 0."""
        chosen = numpy.asarray(flips).reshape(-1) != 0
        result: numpy.ndarray = images.copy()
        result[chosen] = numpy.flip(images[chosen], self.axes)
        return result


class CropMirrorNorm(Node):
    """Pipeline operator that crops images [batch, colours, rows, columns] and normalises each colour."""

    def __init__(
        self, crop_w: int, crop_h: int, crop_d: int = 0, crop_pos_x: float = 0.5, crop_pos_y: float = 0.5,
        mirror: int = 0, dtype: Any = _dtype.FLOAT32, **unused_options: Any,
    ) -> None:  # fmt: skip
        """Configure the crop and the dtype of the result.

        Args:
            crop_w: number of columns of the crop; 0 for all columns.
            crop_h: number of rows of the crop; 0 for all rows.
            crop_d: not used.
            crop_pos_x: horizontal position of the crop, from 0 (left) to 1 (right).
            crop_pos_y: vertical position of the crop, from 0 (top) to 1 (bottom).
            mirror: swap left and right.
            dtype: dtype of the result.
            unused_options: hardware arguments, not used.
        """
        super().__init__()
        self.size, self.place, self.mirror = (crop_h, crop_w), (crop_pos_y, crop_pos_x), bool(mirror)
        self.dtype = numpy.dtype(_numpy_dtype_name(dtype))

    def compute(self, images: numpy.ndarray, mean: numpy.ndarray, inverse: numpy.ndarray) -> numpy.ndarray:
        """Return ``(crop - mean) * inverse``, with one mean and one inverse standard deviation per colour."""
        parts = []
        for whole, wanted, position in zip(images.shape[-2:], self.size, self.place, strict=True):
            length = wanted or whole
            if length > whole:
                raise ValueError(
                    f"CropMirrorNorm cannot crop {length} pixels from {whole} pixels. Decode to a larger "
                    "size."
                )
            start = round((whole - length) * position)
            parts.append(slice(start, start + length))
        part = images[..., parts[0], parts[1]].astype(numpy.float32)
        if self.mirror:
            part = part[..., ::-1]
        shape = (-1, 1, 1)
        normalised: numpy.ndarray = ((part - mean.reshape(shape)) * inverse.reshape(shape)).astype(self.dtype)
        return normalised


def _numpy_dtype_name(dtype: Any) -> Any:
    return dtype.value if isinstance(dtype, _dtype) else dtype
