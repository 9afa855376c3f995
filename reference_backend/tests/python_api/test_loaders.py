"""Test data loaders: `habana_dataloader`, and pipelines of `habana_frameworks.mediapipe` on image files."""

from __future__ import annotations

import importlib
import pathlib
import pickle
import sys
from collections.abc import Callable
from typing import Any

import habana_dataloader
import numpy
import pytest
import torch
from habana_frameworks.mediapipe import fn
from habana_frameworks.mediapipe.media_types import dtype, ftype, imgtype, randomCropType
from habana_frameworks.mediapipe.mediapipe import MediaPipe
from habana_frameworks.mediapipe.operators.cpu_nodes.cpu_nodes import media_function
from habana_frameworks.mediapipe.plugins.iterator_pytorch import HPUResnetPytorchIterator

MEAN, INVERSE = numpy.float32([10, 20, 30]), numpy.float32([0.5, 0.25, 0.1])


class Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((2,), float(index)), index


class ImageFolder(Numbers):
    """A dataset with the class name of torchvision's dataset. `habana_dataloader` checks the class name."""

    def __init__(self, root: str, *transforms: str) -> None:
        self.root = root
        self.transform = type("Compose", (), {"transforms": [type(name, (), {})() for name in transforms]})()


@pytest.fixture(autouse=True)
def forget_printed_reasons(monkeypatch: Any) -> None:
    """Forget the reasons that the loader has printed, so that it prints them again in each test."""
    monkeypatch.setattr(habana_dataloader.loader, "_printed_reasons", set())


def test_other_datasets_get_torchs_loader_and_a_message(capsys: Any, monkeypatch: Any) -> None:
    loader = habana_dataloader.HabanaDataLoader(Numbers(), batch_size=4, drop_last=True)
    assert isinstance(loader, torch.utils.data.DataLoader)
    assert len(loader) == 2 and [labels.tolist() for _, labels in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert "type Numbers is neither" in capsys.readouterr().out
    assert loader.dataloader.aeon is None and loader.batch_size == 4
    habana_dataloader.HabanaDataLoader(Numbers())
    assert capsys.readouterr().out == ""  # the loader prints the reason only once
    monkeypatch.setenv("DATALOADER_FALLBACK_EN", "False")
    with pytest.raises(ValueError, match="DATALOADER_FALLBACK_EN=True"):
        habana_dataloader.HabanaDataLoader(Numbers())


def test_a_replaced_length_can_use_the_native_loader(monkeypatch: Any) -> None:
    def length(self: Any) -> int:
        return len(self.dataloader) + 100

    monkeypatch.setattr(habana_dataloader.HabanaDataLoader, "__len__", length)
    assert len(habana_dataloader.HabanaDataLoader(Numbers(), batch_size=4)) == 103


def _double_factor_in_worker(worker: int) -> None:
    torch.utils.data.get_worker_info().dataset.factor = 2


class Scaled(Numbers):
    factor = 1

    def __getitem__(self, index: int) -> Any:
        return index * self.factor


def test_loader_takes_every_argument_of_torchs_loader() -> None:
    loader = habana_dataloader.HabanaDataLoader(
        Scaled(),
        batch_sampler=torch.utils.data.BatchSampler(range(9, -1, -1), 5, False),
        num_workers=1,
        collate_fn=tuple,
        timeout=60,
        worker_init_fn=_double_factor_in_worker,
        multiprocessing_context="forkserver",
        generator=torch.Generator(),
        prefetch_factor=1,
        persistent_workers=True,
        in_order=True,
    )
    epochs, workers = [], []
    for _ in range(2):
        epochs.append(list(loader))
        workers.append(loader._iterator._workers[0].pid)
    assert epochs == [[(18, 16, 14, 12, 10), (8, 6, 4, 2, 0)]] * 2
    assert workers[0] == workers[1]  # both epochs used the same worker process
    assert loader.persistent_workers and loader.multiprocessing_context.get_start_method() == "forkserver"
    copied = pickle.loads(pickle.dumps(habana_dataloader.HabanaDataLoader(Scaled(), 5)))
    assert type(copied) is habana_dataloader.HabanaDataLoader and len(list(copied)) == 2
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        habana_dataloader.HabanaDataLoader(Scaled(), colour=1)


USUAL_TRANSFORMS = ("Resize", "CenterCrop", "ToTensor", "Normalize")


@pytest.mark.parametrize(
    ("folder", "options", "transforms", "words"),
    [
        ("/data/imagenet/val", {}, USUAL_TRANSFORMS, None),
        ("/data/flowers", {}, USUAL_TRANSFORMS, "contains none of imagenet"),
        ("/data/imagenet", {"num_workers": 2}, USUAL_TRANSFORMS, "num_workers is 2"),
        ("/data/imagenet", {"pin_memory": False}, USUAL_TRANSFORMS, "pin_memory is False"),
        ("/data/imagenet", {"drop_last": False}, USUAL_TRANSFORMS, "drop_last is False"),
        ("/data/ILSVRC2012", {}, (*USUAL_TRANSFORMS, "ColorJitter"), "transforms ColorJitter"),
    ],
)
def test_message_names_the_rule_that_hardware_would_not_meet(
    capsys: Any, folder: str, options: Any, transforms: Any, words: Any
) -> None:
    loader_options = {"batch_size": 2, "num_workers": 8, "pin_memory": True, "drop_last": True} | options
    habana_dataloader.HabanaDataLoader(ImageFolder(folder, *transforms), **loader_options)
    out = capsys.readouterr().out
    assert (words is None and out == "") or (words is not None and words in out)


def test_hardware_only_function_raises() -> None:
    with pytest.raises(NotImplementedError, match="hardware kernels"):
        habana_dataloader.fetch_habana_unet_loader()


class RandomFlips(media_function):
    def __init__(self, params: dict[str, Any]) -> None:
        self.shape, self.dtype = params["shape"][::-1], params["dtype"]

    def __call__(self) -> numpy.ndarray:
        return numpy.arange(self.shape[0]).astype(self.dtype) % 2


class ImagePipe(MediaPipe):
    def __init__(self, folder: pathlib.Path, train: bool = False, **options: Any) -> None:
        super().__init__(device="hpu", batch_size=2, prefetch_depth=3, pipe_name="pipe")
        self.input = fn.ReadImageDatasetFromDir(dir=str(folder), label_dtype=dtype.UINT32, **options)
        crop = (
            randomCropType.RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP if train else randomCropType.NO_RANDOM_CROP
        )
        self.decode = fn.ImageDecoder(
            output_format=imgtype.RGB_P,
            resize=[12, 10],
            resampling_mode=ftype.BI_LINEAR,
            random_crop_type=crop,
            seed=3,
        )
        self.flips = fn.MediaFunc(func=RandomFlips, shape=[self.getBatchSize()], dtype=dtype.UINT8, seed=1)
        self.flip = fn.RandomFlip(horizontal=True)
        self.mean = fn.MediaConst(data=MEAN, shape=[1, 1, 3], dtype=dtype.FLOAT32)
        self.inverse = fn.MediaConst(data=INVERSE, shape=[1, 1, 3], dtype=dtype.FLOAT32)
        self.norm = fn.CropMirrorNorm(crop_w=8, crop_h=6, crop_d=0, crop_pos_x=0.5, crop_pos_y=0.0)

    def definegraph(self) -> Any:
        jpegs, labels = self.input()
        images = self.flip(self.decode(jpegs), self.flips())
        return self.norm(images, self.mean(), self.inverse()), labels


@pytest.fixture
def images(tmp_path: pathlib.Path) -> pathlib.Path:
    image = pytest.importorskip("PIL.Image")
    random = numpy.random.default_rng(1)
    for name, count in (("cats", 3), ("dogs", 2)):
        (tmp_path / name).mkdir()
        for image_index in range(count):
            pixels = random.integers(0, 255, (20, 24, 3), dtype=numpy.uint8)
            image.fromarray(pixels).save(tmp_path / name / f"{image_index}.jpg")
    return tmp_path


def test_pipeline_matches_pillow_and_numpy(images: pathlib.Path) -> None:
    from PIL import Image

    loader = HPUResnetPytorchIterator(mediapipe=ImagePipe(images))
    assert len(loader) == 3
    batches = list(loader)
    assert [labels.tolist() for _, labels in batches] == [
        [0, 0],
        [0, 1],
        [1, 0],
    ]  # the first image fills the last batch
    files = sorted(images.glob("*/*.jpg"))
    for index, file in enumerate([*files, files[0]]):
        pixels = numpy.asarray(Image.open(file).resize((12, 10), Image.Resampling.BILINEAR)).transpose(
            2, 0, 1
        )
        if index % 2:
            pixels = pixels[..., ::-1]
        expected = (pixels[:, :6, 2:10] - MEAN.reshape(3, 1, 1)) * INVERSE.reshape(3, 1, 1)
        actual = batches[index // 2][0][index % 2]
        assert actual.device.type == "hpu"
        numpy.testing.assert_allclose(actual.cpu().numpy(), expected, rtol=1e-6)


def test_shuffling_slices_and_remainders(images: pathlib.Path) -> None:
    assert len(HPUResnetPytorchIterator(ImagePipe(images, drop_remainder=True))) == 2
    first_part, two = (
        ImagePipe(images, num_slices=2, slice_index=slice_index).input.files for slice_index in (0, 1)
    )
    assert len(first_part) == len(two) == 3 and len({*first_part, *two}) == 5  # one file is in both slices
    loader = HPUResnetPytorchIterator(
        ImagePipe(images, train=True, shuffle=True, seed=5, drop_remainder=True)
    )
    epochs = [[labels.tolist() for _, labels in loader] for _ in range(6)]
    iterator = HPUResnetPytorchIterator(
        ImagePipe(images, train=True, shuffle=True, seed=5, drop_remainder=True)
    )
    assert epochs == [[labels.tolist() for _, labels in iterator] for _ in range(6)]
    assert len({str(epoch) for epoch in epochs}) > 1


def test_invalid_arguments_raise(images: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        fn.ReadImageDatasetFromDir(dir=str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match=r"ends with \.png"):
        fn.ReadImageDatasetFromDir(dir=str(images), format="PNG")
    with pytest.raises(ValueError, match="Pass resize"):
        fn.ImageDecoder()
    with pytest.raises(NotImplementedError, match="does not define definegraph"):
        MediaPipe().build()
    with pytest.raises(ValueError, match="cannot crop 8 pixels from 4 pixels"):
        fn.CropMirrorNorm(8, 2).compute(numpy.zeros((1, 3, 4, 4)), MEAN, INVERSE)


class Compose:
    """Transforms in sequence, like torchvision's class of this name."""

    def __init__(self, *transforms: Any) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> torch.Tensor:
        for transform in self.transforms:
            image = transform(image)
        return image


class Resize:
    def __call__(self, image: Any) -> Any:
        return image.resize((12, 10))


class ToTensor:
    def __call__(self, image: Any) -> torch.Tensor:
        return torch.from_numpy(numpy.asarray(image).transpose(2, 0, 1).copy()).float() / 255


class Normalize:
    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return (image - 0.5) / 0.25


def _image_folder(root: pathlib.Path, transform: Callable[[Any], Any]) -> Any:
    """Return torchvision's ImageFolder, or an equivalent class if torchvision is missing."""
    try:
        from torchvision.datasets import ImageFolder as Found
    except ImportError:
        return _MinimalImageFolder(str(root), transform)
    return Found(str(root), transform)


class _MinimalImageFolder(torch.utils.data.Dataset):
    def __init__(self, root: str, transform: Callable[[Any], Any]) -> None:
        self.root, self.transform = root, transform
        self.classes = sorted(class_folder.name for class_folder in pathlib.Path(root).iterdir())
        self.samples = [
            (str(file), number)
            for number, name in enumerate(self.classes)
            for file in sorted((pathlib.Path(root) / name).iterdir())
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        from PIL import Image

        path, number = self.samples[index]
        with Image.open(path) as opened:
            return self.transform(opened.convert("RGB")), number


_MinimalImageFolder.__name__ = "ImageFolder"  # `habana_dataloader` checks the class name


@pytest.fixture
def photographs(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a folder of JPEGs in three classes. Its path contains ``imagenet``, as the loader requires."""
    image = pytest.importorskip("PIL.Image")
    random = numpy.random.default_rng(2)
    for name, count in (("birds", 4), ("cats", 3), ("dogs", 4)):
        folder = tmp_path / "imagenet" / name
        folder.mkdir(parents=True)
        for image_index in range(count):
            pixels = random.integers(0, 255, (14 + image_index, 18, 3), dtype=numpy.uint8)
            image.fromarray(pixels).save(folder / f"{image_index}.jpg", quality=90)
    return tmp_path / "imagenet"


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 4},
        {"batch_size": 4, "drop_last": True},
        {"batch_size": 3, "shuffle": True},
        {"batch_size": 5, "num_workers": 2, "shuffle": True, "drop_last": True},
        {"batch_size": None},
        {"batch_size": 4, "drop_last": True, "num_workers": 8, "pin_memory": True},
    ],
    ids=["plain", "whole_batches", "shuffled", "workers", "single", "as_hardware_takes_it"],
)
def test_image_folder_gives_the_batches_of_torchs_loader(
    photographs: pathlib.Path, options: dict[str, Any], capsys: Any
) -> None:
    dataset = _image_folder(photographs, Compose(Resize(), ToTensor(), Normalize()))
    assert len(dataset) == 11

    def batches(kind: Any) -> list[Any]:
        loader = kind(dataset, generator=torch.Generator().manual_seed(7), **options)
        epochs = [[(x, y) for x, y in loader] for _ in range(2)]
        assert all(options["batch_size"] is None or len(epoch) == len(loader) for epoch in epochs)
        return [batch for epoch in epochs for batch in epoch]

    actual_batches, expected_batches = (
        batches(habana_dataloader.HabanaDataLoader),
        batches(torch.utils.data.DataLoader),
    )
    assert len(actual_batches) == len(expected_batches) > 0
    for (x, y), (wanted, label) in zip(actual_batches, expected_batches, strict=True):
        assert x.dtype == wanted.dtype and x.shape == wanted.shape and x.device == wanted.device
        assert x.is_pinned() == wanted.is_pinned()
        assert torch.equal(x, wanted) and torch.equal(torch.as_tensor(y), torch.as_tensor(label))
    if options["batch_size"] is not None:
        assert actual_batches[0][0].shape == (options["batch_size"], 3, 10, 12)
        labels = torch.cat([y for _, y in actual_batches]).bincount(minlength=3)
        assert options.get("drop_last") or labels.tolist() == [8, 6, 8]
    assert ("Running with PyTorch Dataloader" in capsys.readouterr().out) == ("pin_memory" not in options)


def test_another_folder_falls_back_to_torchs_loader(photographs: pathlib.Path, capsys: Any) -> None:
    renamed_folder = photographs.rename(photographs.parent / "flowers")
    dataset = _image_folder(renamed_folder, Compose(Resize(), ToTensor(), Normalize()))
    loader = habana_dataloader.HabanaDataLoader(
        dataset, batch_size=11, num_workers=8, pin_memory=False, drop_last=True
    )
    assert "flowers of the ImageFolder contains none of imagenet" in capsys.readouterr().out
    assert isinstance(loader.dataloader, torch.utils.data.DataLoader) and loader.dataset is dataset


#: By package: a call that needs the package, and the error message if the package is missing.
MISSING = {
    "torchvision": (
        lambda: habana_dataloader.habana_dataset.ImageFolderWithManifest,
        "ImageFolderWithManifest needs torchvision: pip install torchvision",
    ),
    "PIL": (
        lambda: fn.ImageDecoder(resize=[4, 4]).compute(["nothing.jpg"]),
        "ImageDecoder needs Pillow: pip install pillow",
    ),
    "torchao": (
        lambda: importlib.import_module("habana_frameworks.torch.core.quantizer"),
        "habana_frameworks.torch.core.quantizer needs torchao: pip install torchao",
    ),
    "torchao.quantization.pt2e": (
        lambda: importlib.import_module("habana_frameworks.torch.core.quantize_pt2e"),
        "habana_frameworks.torch.core.quantize_pt2e needs torchao: pip install torchao",
    ),
    "pyhlml": (
        lambda: torch.hpu.utilization(),
        "memory_usage and utilization need the management library, but pyhlml is not installed. "
        "Install habana-pyhlml.",
    ),
}


@pytest.mark.parametrize("package", list(MISSING))
def test_missing_package_is_named_in_the_error(package: str, monkeypatch: Any) -> None:
    part, sentence = MISSING[package]
    monkeypatch.setitem(sys.modules, package, None)
    for name in list(sys.modules):
        if name.startswith((f"{package}.", "habana_frameworks.torch.core.quant")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(vars(habana_dataloader.habana_dataset), "ImageFolderWithManifest", raising=False)
    with pytest.raises(ImportError) as raised:
        part()
    assert str(raised.value) == sentence and isinstance(raised.value.__cause__, ImportError)
