"""Test the patches that the backend applies to torch."""

from __future__ import annotations

import inspect
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
import torch
from habana_frameworks.torch.core import torch_overwrites
from habana_frameworks.torch.internal import patches
from torch.nn.utils import rnn


def test_patches_are_applied_once():
    before = torch.random.fork_rng, torch.random._seed_custom_device
    torch_overwrites.apply_patches()
    assert (torch.random.fork_rng, torch.random._seed_custom_device) == before
    assert (
        _backend_wrapper_count(torch.random.fork_rng)
        == _backend_wrapper_count(torch.random._seed_custom_device)
        == 1
    )


def _backend_wrapper_count(function) -> int:
    """Return the number of the backend's functions in a chain of wrappers."""
    ours = 0
    while function is not None:
        ours += Path(function.__code__.co_filename).parent == Path(patches.__file__).parent
        function = getattr(function, "__wrapped__", None)
    return ours


def test_each_patch_has_a_reason():
    assert all(len(reason.split()) > 4 for reason in torch_overwrites.PATCHES.values())


def test_signatures_are_kept():
    for function in (torch.random.fork_rng, torch.random._seed_custom_device):
        assert inspect.signature(function) == inspect.signature(function.__wrapped__)


def test_tensor_methods():
    tensor = torch.ones(2, 3)
    assert not tensor.is_hpu
    moved = tensor.hpu()
    assert moved.is_hpu
    assert moved.hpu() is moved
    assert moved.hpu("hpu:0", non_blocking=True).device == torch.device("hpu:0")
    image = torch.ones(1, 2, 3, 3).hpu(memory_format=torch.channels_last)
    assert image.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(ValueError, match="Expected a hpu device"):
        tensor.hpu("cpu")


def test_tensor_hpu_respects_subclasses():
    class Logged(torch.Tensor):
        seen: list[object] = []  # noqa: RUF012

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            cls.seen.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    moved = torch.ones(2).as_subclass(Logged).hpu()
    assert type(moved) is Logged
    assert torch.Tensor.hpu in Logged.seen


def test_module_and_packed_sequence():
    module = torch.nn.BatchNorm1d(3)
    assert module.hpu() is module
    assert {tensor.device.type for tensor in module.state_dict().values()} == {"hpu"}
    packed = rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    moved = packed.hpu()
    assert moved.is_hpu
    assert not packed.is_hpu
    assert moved.hpu() is moved


def test_foreach_is_the_default_for_optimizers():
    from torch.optim.optimizer import _default_to_fused_or_foreach
    from torch.utils._foreach_utils import _device_has_foreach_support

    parameters = [torch.nn.Parameter(torch.ones(2, device="hpu"))]
    assert _default_to_fused_or_foreach(parameters, differentiable=False)[1]
    assert _device_has_foreach_support(torch.device("hpu"))
    assert "hpu" in torch.optim.swa_utils._get_foreach_kernels_supported_devices()


@pytest.mark.parametrize("device", ["hpu", "cpu"])
def test_fake_tensors_keep_strides(device):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        image = torch.empty(2, 3, 4, 4, device=device).to(memory_format=torch.channels_last)
        weight = torch.empty(5, 3, 3, 3, device=device).to(memory_format=torch.channels_last)
        for result in (
            image + 1,
            torch.where(image > 0, image, image),
            torch.nn.functional.conv2d(image, weight),
            torch.sigmoid(image),
        ):
            assert result.device.type == device
            assert result.is_contiguous(memory_format=torch.channels_last)


def test_fake_strides_match_eager_strides():
    from torch._subclasses.fake_tensor import FakeTensorMode

    def strides(device: str) -> list[tuple[int, ...]]:
        matrix = torch.empty(4, 6, device=device).t()
        contiguous = torch.empty(2, 3, 5, 5, device=device)
        image = contiguous.to(memory_format=torch.channels_last)
        weight = torch.empty(4, 3, 3, 3, device=device)
        convolve, gradients = torch.ops.aten.convolution, torch.ops.aten.convolution_backward
        rest = [1, 1], [0, 0], [1, 1], False, [0, 0], 1
        results = [matrix + 1, matrix.exp(), matrix * matrix, image.relu(), matrix[torch.tensor([1, 0])]]
        for source in (contiguous, image):
            result = convolve(source, weight, None, *rest)
            results += [result, *gradients(result, source, weight, [4], *rest, [True, True, True])]
        results.append(torch.nn.functional.conv1d(contiguous[0], torch.empty(2, 5, 3, device=device)))
        return [result.stride() for result in results]

    with FakeTensorMode():
        fake = strides("hpu")
    assert fake == strides("hpu") == strides("cpu")


def test_strides_rule_of_torch_refs_is_changed_for_hpu_only():
    import torch._refs
    from torch._subclasses import fake_impls

    for module in (torch._refs, fake_impls):
        assert module.is_noncontiguous_supported(torch.device("hpu"))
        original = module.is_noncontiguous_supported.__wrapped__
        assert not original(torch.device("hpu"))
    assert torch._refs.is_noncontiguous_supported(None)


def test_import_hook_runs_after_the_module_and_leaves_no_trace(tmp_path, monkeypatch):
    from habana_frameworks.torch.internal.patches.import_hooks import run_after_import

    (tmp_path / "front_hooked.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    imported_values = []
    run_after_import("front_hooked", lambda module: imported_values.append(module.value))
    assert "front_hooked" not in sys.modules
    import front_hooked

    assert imported_values == [1]
    assert inspect.getsource(front_hooked) == "value = 1\n"
    assert type(front_hooked.__loader__) is type(front_hooked.__spec__.loader) is SourceFileLoader
    run_after_import("front_hooked", lambda module: imported_values.append("now"))
    assert imported_values == [1, "now"]
    del sys.modules["front_hooked"]
    import front_hooked

    assert imported_values == [1, "now"]


def test_import_hook_survives_a_failing_import(tmp_path, monkeypatch):
    from habana_frameworks.torch.internal.patches.import_hooks import run_after_import

    source = tmp_path / "front_failing.py"
    source.write_text("raise OSError\n")
    monkeypatch.syspath_prepend(tmp_path)
    imported_modules = []
    run_after_import("front_failing", imported_modules.append)
    with pytest.raises(OSError):
        import front_failing
    source.write_text("value = 'of another size, so that no bytecode of before fits'\n")
    import front_failing

    assert imported_modules == [front_failing]
