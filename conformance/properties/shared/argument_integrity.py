"""Arguments that an operator does not write keep their values, and so does the memory around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import torch

from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import fact
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.samples.operators import Sample, bits


def check_unwritten_arguments(
    recorder: Recorder,
    sample: Sample,
    copy: Sample,
    written: Collection[int] = (),
    *,
    label: str = "the operator",
) -> None:
    """Compare the arguments of a call with what they were, bit by bit with all of their memory.

    ``sample`` holds the arguments on the CPU, which no operator has seen, ``copy`` those of the call; tensors
    at the places ``written``, counted as ``Sample.tensors`` does, may have changed, and so may what shares
    their memory.
    """
    before, after = sample.tensors(), copy.tensors()
    changed = {_storage_address(tensor) for place, tensor in enumerate(after) if place in written}
    for place, (host, tensor) in enumerate(zip(before, after, strict=True)):
        alike = host.is_conj() == tensor.is_conj() and host.is_neg() == tensor.is_neg()
        if alike and _has_memory(host) and _has_memory(tensor) and _storage_address(tensor) not in changed:
            _check(recorder, host, tensor, f"tensor {place} of the arguments", label, sample.index)


def check_unchanged_bytes(
    recorder: Recorder, before: Iterable[bytes], tensors: Iterable[torch.Tensor], label: str, sample: int
) -> None:
    """Compare tensors with the bytes that `memory` returned for them before."""
    for place, (old, tensor) in enumerate(zip(before, tensors, strict=True)):
        fact(recorder, storage_bytes(tensor) == old, Kind.STATE, f"{label} {place}.", sample=sample)


def storage_bytes(tensor: torch.Tensor) -> bytes:
    """Return the bytes of all the memory behind a strided tensor, on whatever device it is."""
    plain = tensor.detach()
    if plain.is_conj():
        plain = plain.conj()
    if plain.is_neg():
        plain = torch._neg_view(plain)
    count = plain.untyped_storage().nbytes() // plain.itemsize
    if plain.device.type == "cpu":
        return bits(plain)[: count * plain.itemsize]
    return bits(plain.as_strided((count,), (1,), 0).cpu())


def _check(
    recorder: Recorder, host: torch.Tensor, tensor: torch.Tensor, name: str, label: str, sample: int
) -> None:
    now = attempt(lambda: storage_bytes(tensor))
    if not now.ok:
        assert now.error is not None
        recorder.fail(Kind.EXCEPTION, f"reading {name} raised {one_line(now.error)}.", sample=sample)
        return
    before = storage_bytes(host)
    if len(now.value) != len(before):
        # Copied without the memory around it, as arguments are that stay on the host.
        same = attempt(
            lambda: storage_bytes(tensor.contiguous().clone()) == storage_bytes(host.contiguous().clone())
        ).value
    else:
        same = now.value == before
    fact(recorder, bool(same), Kind.STATE, f"{label} has changed {name}.", sample=sample)


def _has_memory(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.numel() > 0 and not tensor.is_quantized


def _storage_address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else 0
