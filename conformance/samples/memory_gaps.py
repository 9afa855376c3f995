"""Memory between the elements of samples, which torch's makers of samples leave unwritten.

A copy to a device copies it too. What was in that memory before is no sample: a device may refuse or round a
number that it does not have, and would fail at one run and pass at the next.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

#: What the memory holds afterwards.
FILLING = 85


def fill(tensors: Iterable[torch.Tensor]) -> None:
    """Fill what no element of these CPU tensors uses, in the storages that dense ones of one dtype have."""
    storages: dict[int, list[torch.Tensor]] = {}
    for tensor in tensors:
        if tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized:
            storages.setdefault(tensor.untyped_storage()._cdata, []).append(tensor.detach())
    for sharing in storages.values():
        storage = sharing[0].untyped_storage()
        size, rest = divmod(storage.nbytes(), sharing[0].itemsize)
        full = any(one.numel() == size and one.is_contiguous() for one in sharing)
        if full or rest or not size or len({one.dtype for one in sharing}) > 1:
            continue
        used = torch.zeros(size, dtype=torch.bool)
        for one in sharing:
            used[_places(one)] = True
        if not bool(used.all()):
            flat = torch.empty(0, dtype=sharing[0].dtype).set_(storage, 0, (size,), (1,))
            flat[~used] = FILLING


def _places(tensor: torch.Tensor) -> torch.Tensor:
    """Positions of the elements in the storage."""
    places = torch.tensor([tensor.storage_offset()])
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    return places.reshape(-1)
