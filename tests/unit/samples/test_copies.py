"""``samples.copies`` copies samples to a device with their memory layout. If the device cannot store a
sample, this is reported.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.framework.recorder import Recorder
from conformance.model.messages import failed_prerequisite, message_pattern
from conformance.model.verdicts import Kind, ResultId
from conformance.report import causes
from conformance.samples import copies
from conformance.samples.copies import Copier, WrongCopy, report_failed_copy
from conformance.samples.modules import ModuleSample
from conformance.samples.operators import Sample
from conformance.target.file import load
from tests.support import ROOT
from tests.support.sample_legs import leg

HOST = torch.device("cpu")


class RefusesOperators(TorchDispatchMode):
    """Dispatch mode of a device that refuses the named operators. ``set_`` is still allowed for
    one-dimensional contiguous tensors at storage offset 0.
    """

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        flat = func._schema.name == "aten::set_" and args[2] == 0 and list(args[4]) == [1]
        if func._schema.name in self.names and not flat:
            raise NotImplementedError(f"Could not run '{func._schema.name}' with arguments from this device")
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def forget_device_types() -> Iterator[None]:
    yield
    copies._device_types_without_set.clear()


def tensors_in_various_layouts() -> list[torch.Tensor]:
    base = torch.arange(60.0)
    wide = torch.arange(40).to(torch.complex128)
    return [
        base[7:47].view(5, 8).t()[::2],
        base[:12].view(1, 3, 2, 2).contiguous(memory_format=torch.channels_last),
        torch.tensor([3.0]).expand(4, 2),
        base.as_strided((3, 3), (1, 1), 2),
        wide[4:][::3].conj(),
        torch.arange(33, dtype=torch.int8)[1:],
        base.view(torch.int8)[3:90:2],
    ]


@pytest.mark.parametrize("without", [(), ("aten::set_",)])
def test_copies_have_the_layout_of_the_originals(without: tuple[str, ...]) -> None:
    originals = tensors_in_various_layouts()
    with RefusesOperators(*without):
        # The originals are views of shared storages in several dtypes. Their copies must share storages too.
        copied = Copier(HOST).copy_tree(originals)
    for copy, tensor in zip(copied, originals, strict=True):
        assert torch.equal(copy, tensor)
        assert copy.stride() == tensor.stride() and copy.storage_offset() == tensor.storage_offset()
        assert copy.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()
    assert len({copy.untyped_storage().data_ptr() for copy in copied}) == len(
        {tensor.untyped_storage().data_ptr() for tensor in originals}
    )
    assert bool(copies._device_types_without_set) is bool(without)


def test_a_copy_made_without_set_is_not_a_view_for_autograd() -> None:
    with RefusesOperators("aten::set_"):
        leaf = Copier(HOST).copy_tree(torch.arange(6.0).view(2, 3).t().requires_grad_())
    assert leaf.is_leaf and leaf.requires_grad and not leaf._is_view()
    detached = leaf.detach()
    detached.add_(1)
    leaf.sum().backward()
    assert leaf.grad is not None


def recorder_after_failed_copy(error: Exception) -> Recorder:
    recorder = Recorder(ResultId.parse("value/cat@float32"), seed=0)
    report_failed_copy(load("cpu").target("eager"), recorder, error, sample=3)
    return recorder


def test_a_device_without_strided_memory_fails_a_prerequisite_and_not_the_operator() -> None:
    originals = tensors_in_various_layouts()[0]
    with RefusesOperators("aten::set_", "aten::as_strided"), pytest.raises(WrongCopy) as caught:
        Copier(HOST).copy_tree(originals)
    assert "Could not run 'aten::as_strided'" in str(caught.value)
    (failure,) = recorder_after_failed_copy(caught.value).result().failures
    assert failure.kind is Kind.REFUSED and failure.sample == 3
    assert failed_prerequisite(failure.message) == "prerequisite strided memory"


def test_a_copy_with_wrong_bits_is_described() -> None:
    class Forgetful(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func._schema.name == "aten::copy_":
                return args[0].zero_()
            return func(*args, **(kwargs or {}))

    with Forgetful(), pytest.raises(WrongCopy) as caught:
        Copier(HOST).copy_tree(torch.arange(6.0).view(2, 3)[:, 1:])
    assert str(caught.value) == (
        "prerequisite copies: a copy to the device changed the bits of a torch.float32 tensor of size [6], "
        "strides [1] and storage offset 0"
    )


def test_all_results_that_a_prerequisite_blocks_are_one_cause() -> None:
    message = "prerequisite strided memory: laying out an input was refused: NotImplementedError: no {}"
    rows = [
        {
            "id": f"layout/{name}@float32",
            "verdict": "fail",
            "seconds": 0.1,
            "failures": [{"kind": "refused", "message": message.format("kernel")}],
        }
        for name in ("cat", "fft.rfft", "nn.functional.conv2d", "sort")
    ]
    cases = {row["id"].partition("@")[0]: "fail" for row in rows}
    (group,) = causes.causes_of([leg("eager", results=rows, cases=cases)])
    assert (group.name(), group.count) == ("prerequisite strided memory", 4)
    assert message_pattern(message, "cat") != message_pattern(
        message.replace("strided memory", "copies"), "cat"
    )


def copy_for_capabilities(sample: Sample, **capabilities: bool) -> Sample:
    """Copy a sample to the CPU as the device of a target that declares these capabilities, and return the
    copy.
    """
    target = dataclasses.replace(load("cpu").target("eager"), capabilities=capabilities)
    copy = copies.to_device(sample, target)
    assert copy is not None
    return copy


@pytest.mark.parametrize("undeclared", ["strides", "non_contiguous"])
def test_without_layouts_copies_are_contiguous_and_share_no_memory(undeclared: str) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    sample = Sample(0, base.t(), (base[:, 1:3], base[0]))
    for tensor, copied in zip(
        sample.tensors(), copy_for_capabilities(sample, **{undeclared: False}).tensors(), strict=True
    ):
        assert copied.is_contiguous() and copied.storage_offset() == 0 and torch.equal(copied, tensor)
    copied_sample = copy_for_capabilities(sample)
    assert copied_sample.input.stride() == (1, 4) and copied_sample.args[0].storage_offset() == 1
    assert copied_sample.args[1].untyped_storage()._cdata == copied_sample.input.untyped_storage()._cdata


def test_without_conj_and_neg_bits_they_are_resolved() -> None:
    sample = Sample(0, torch.tensor([1 + 2j]).conj(), (torch._neg_view(torch.ones(2)),))
    copy = copy_for_capabilities(sample, conj_neg_views=False)
    assert not copy.input.is_conj() and copy.input.tolist() == [1 - 2j]
    assert not copy.args[0].is_neg() and copy.args[0].tolist() == [-1.0, -1.0]
    assert copy_for_capabilities(sample).input.is_conj() and copy_for_capabilities(sample).args[0].is_neg()


def test_strides_without_an_effect_are_not_compared() -> None:
    single = torch.arange(3.0).as_strided((1, 3), (7, 1))
    copies._require_same_metadata(torch.arange(3.0).reshape(1, 3), single, layouts=True)
    with pytest.raises(WrongCopy, match="changed the strides"):
        copies._require_same_metadata(torch.ones(2, 3), torch.ones(3, 2).t(), layouts=True)


def test_modules_and_optimizers_are_copied_with_the_layouts_that_the_device_has() -> None:
    """An attention mask is often an expanded tensor, which some devices cannot represent."""
    expanded = torch.ones(3).expand(3, 3)
    target = dataclasses.replace(load("cpu").target("eager"), capabilities={"strides": False})
    sample = ModuleSample(
        index=0,
        training=False,
        constructor=((), {}),
        call=((expanded,), {}),
        dtype=torch.float32,
        seed=0,
        module_cls=torch.nn.Identity,
    )
    [copied], _ = sample.arguments(copies.make_copier(target))
    assert copied.is_contiguous() and torch.equal(copied, expanded)
    assert not sample.arguments()[0][0].is_contiguous()


def test_properties_copy_to_the_device_by_copier_to() -> None:
    """Properties create copiers with ``make_copier``. A ``Copier`` that a property creates itself would not
    know which layouts the device supports.
    """
    sources = (ROOT / "conformance" / "properties").rglob("*.py")
    assert [str(path) for path in sources if re.search(r"\bCopier\(", path.read_text())] == []
