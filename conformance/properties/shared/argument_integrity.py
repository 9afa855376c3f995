"""Check that an operator changes neither the arguments that it does not write nor the memory around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import torch

from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import fact
from conformance.framework.recorder import Recorder
from conformance.framework.storages import has_storage
from conformance.model.verdicts import Kind
from conformance.samples.operators import Sample, bytes_of_storage


def check_unwritten_arguments(
    recorder: Recorder,
    sample: Sample,
    copy: Sample,
    written: Collection[int] = (),
    *,
    label: str = "the operator",
) -> None:
    """Compare the arguments after a call with the arguments before it, bit by bit, including memory gaps.

    ``sample`` holds the unchanged arguments on the CPU, ``copy`` the arguments of the call. Tensors at the
    indices ``written`` of ``Sample.tensors``, and tensors that share memory with them on the CPU, may have
    changed. If the tensors of the device have no storage, only their elements are compared.
    """
    before, after = sample.tensors(), copy.tensors()
    changed = {_storage_address(host) for index, host in enumerate(before) if index in written}
    for index, (host, tensor) in enumerate(zip(before, after, strict=True)):
        alike = host.is_conj() == tensor.is_conj() and host.is_neg() == tensor.is_neg()
        if alike and _has_memory(host) and _has_memory(tensor) and _storage_address(host) not in changed:
            _check_tensor(recorder, host, tensor, f"tensor {index} of the arguments", label, sample.index)


def check_unchanged_bytes(
    recorder: Recorder, before: Iterable[bytes], tensors: Iterable[torch.Tensor], label: str, sample: int
) -> None:
    """Compare tensors with the bytes that :func:`storage_or_element_bytes` returned for them earlier."""
    for index, (old, tensor) in enumerate(zip(before, tensors, strict=True)):
        fact(
            recorder, storage_or_element_bytes(tensor) == old, Kind.STATE, f"{label} {index}.", sample=sample
        )


def storage_bytes(tensor: torch.Tensor) -> bytes:
    """Return the bytes of the whole storage of a strided tensor on any device."""
    detached = tensor.detach()
    if detached.is_conj():
        detached = detached.conj()
    if detached.is_neg():
        detached = torch._neg_view(detached)
    count = detached.untyped_storage().nbytes() // detached.itemsize
    if detached.device.type == "cpu":
        return bytes_of_storage(detached)[: count * detached.itemsize]
    return bytes_of_storage(detached.as_strided((count,), (1,), 0).cpu())


def element_bytes(tensor: torch.Tensor) -> bytes:
    """Return the bytes of the elements of a strided tensor on any device, in the order of its indices."""
    return bytes_of_storage(tensor.detach().cpu().contiguous().clone())


def storage_or_element_bytes(tensor: torch.Tensor) -> bytes:
    """Return the bytes of the storage of a tensor, or of its elements if it has no storage."""
    return storage_bytes(tensor) if has_storage(tensor) else element_bytes(tensor)


def _check_tensor(
    recorder: Recorder, host: torch.Tensor, tensor: torch.Tensor, name: str, label: str, sample: int
) -> None:
    bytes_of = storage_bytes if has_storage(tensor) else element_bytes
    now = attempt(lambda: bytes_of(tensor))
    if not now.ok:
        assert now.error is not None
        recorder.fail(Kind.EXCEPTION, f"reading {name} raised {one_line(now.error)}.", sample=sample)
        return
    before = bytes_of(host)
    if len(now.value) != len(before):
        # The storages differ in size, because ``tensor`` is a copy on the host without the memory gaps of
        # ``host``. Compare only the elements.
        same = attempt(lambda: element_bytes(tensor) == element_bytes(host)).value
    else:
        same = now.value == before
    fact(recorder, bool(same), Kind.STATE, f"{label} has changed {name}.", sample=sample)


def _has_memory(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.numel() > 0 and not tensor.is_quantized


def _storage_address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else 0
