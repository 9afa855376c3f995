"""Fill memory gaps: storage bytes of a sample that no element uses. Torch's sample generators do not write
these bytes.

A copy to a device copies the gaps too. Unwritten memory may hold numbers that the device refuses or rounds,
so a check could fail in one run and pass in the next.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

#: The value written to the gaps.
GAP_VALUE = 85


def fill_gaps(tensors: Iterable[torch.Tensor]) -> None:
    """Fill the memory gaps of CPU tensors with :data:`GAP_VALUE`.

    A storage is skipped if its tensors have several dtypes or are not strided.
    """
    storages: dict[int, list[torch.Tensor]] = {}
    for tensor in tensors:
        if tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized:
            storages.setdefault(tensor.untyped_storage()._cdata, []).append(tensor.detach())
    for tensors_of_storage in storages.values():
        storage = tensors_of_storage[0].untyped_storage()
        size, rest = divmod(storage.nbytes(), tensors_of_storage[0].itemsize)
        full = any(member.numel() == size and member.is_contiguous() for member in tensors_of_storage)
        if full or rest or not size or len({member.dtype for member in tensors_of_storage}) > 1:
            continue
        used = torch.zeros(size, dtype=torch.bool)
        for member in tensors_of_storage:
            used[_element_offsets(member)] = True
        if not bool(used.all()):
            flat = torch.empty(0, dtype=tensors_of_storage[0].dtype).set_(storage, 0, (size,), (1,))
            flat[~used] = GAP_VALUE


def _element_offsets(tensor: torch.Tensor) -> torch.Tensor:
    """Return the storage offsets of the elements."""
    offsets = torch.tensor([tensor.storage_offset()])
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        offsets = offsets.unsqueeze(-1) + torch.arange(size) * stride
    return offsets.reshape(-1)
