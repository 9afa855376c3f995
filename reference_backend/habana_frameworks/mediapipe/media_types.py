"""Enumerations for arguments of the pipeline operators in `fn`."""

from __future__ import annotations

import enum


class dtype(str, enum.Enum):
    """Element types of arrays. The values of the members are names of NumPy dtypes."""

    UINT8 = "uint8"
    INT8 = "int8"
    UINT16 = "uint16"
    INT16 = "int16"
    UINT32 = "uint32"
    INT32 = "int32"
    UINT64 = "uint64"
    INT64 = "int64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class imgtype(str, enum.Enum):
    """Layouts of decoded images: planar (colours in separate planes) or interleaved."""

    RGB_P = "rgb-p"
    RGB_I = "rgb-i"
    GRAY = "gray"


class ftype(enum.IntEnum):
    """Interpolation methods, with the numbers that Pillow uses."""

    NEAREST = 0
    LANCZOS = 1
    BI_LINEAR = 2
    BICUBIC = 3
    BOX = 4


class decoderStage(enum.IntEnum):
    """Stages of an image decoder."""

    ENABLE_ALL_STAGES = 0
    ENABLE_SINGLE_STAGE = 1
    ENABLE_TWO_STAGES = 2


class randomCropType(enum.IntEnum):
    """Methods to select a crop of an image."""

    NO_RANDOM_CROP = 0
    RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP = 1
    RANDOMIZED_ASPECT_RATIO_CROP = 2
    CENTER_CROP = 3
