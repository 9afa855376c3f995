"""Layouts of a tensor in memory, made of views on the device it is on, and the memory around it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import torch

from conformance.samples.operators import bits

#: The value of elements around a tensor that counts, or is an index.
_CANARY = 3
#: Those of others, of some layouts above and of some below what tensors hold, so that what is read beside a
#: tensor shows as its largest or its smallest element.
_ABOVE, _BELOW = 96, -96


@dataclasses.dataclass
class EmbeddedTensor:
    """A tensor in memory that is larger: the ``view``, and the ``base`` that holds it."""

    view: torch.Tensor
    base: torch.Tensor

    def __post_init__(self) -> None:
        self._before = self.base.cpu().clone()

    def kept(self, *, whole: bool) -> bool:
        """Return whether the memory around the view, or all of it, is as it was at first."""
        before, now = self._before, self.base.cpu().clone()
        if not whole:
            for host in (before, now):
                host.as_strided(self.view.shape, self.view.stride(), self.view.storage_offset()).zero_()
        return bits(before) == bits(now)


#: Puts a tensor into memory of some layout, on the device it is on; None if the tensor cannot have it.
Layout = Callable[[torch.Tensor], EmbeddedTensor | None]


def _filled(shape: tuple[int, ...], like: torch.Tensor, extreme: int) -> torch.Tensor:
    """Return memory full of the canary; of zeros if the tensor is all ones, as ``torch.all`` of both is the
    same otherwise; of ones if all its numbers are the canary.
    """
    canary = extreme if like.is_floating_point() or like.is_complex() else _CANARY
    if bool((like == 1).all()):
        canary = 0
    elif canary == _CANARY and bool((like == _CANARY).all()):
        canary = 1
    return torch.empty(shape, dtype=like.dtype, device=like.device).fill_(canary)


def with_gaps(tensor: torch.Tensor) -> EmbeddedTensor | None:
    """Every second element of the memory belongs to something else."""
    if tensor.dim() == 0 or tensor.numel() < 2:
        return None
    base = _filled((*tensor.shape, 2), tensor, _ABOVE)
    return _put(base[..., 0], base, tensor)


def at_offset(tensor: torch.Tensor) -> EmbeddedTensor | None:
    """The second of three in memory of one more dimension."""
    if tensor.numel() == 0:
        return None
    base = _filled((3, *tensor.shape), tensor, _BELOW)
    return _put(base[1], base, tensor)


def with_gaps_at_offset(tensor: torch.Tensor) -> EmbeddedTensor | None:
    """The odd elements of the memory."""
    if tensor.dim() == 0 or tensor.numel() < 2:
        return None
    base = _filled((*tensor.shape, 2), tensor, _BELOW)
    return _put(base[..., 1], base, tensor)


def transposed_at_offset(tensor: torch.Tensor) -> EmbeddedTensor | None:
    """The first dimension innermost, after another tensor of the same size."""
    if tensor.dim() < 2 or tensor.numel() < 2:
        return None
    order = tuple(reversed(range(tensor.dim())))
    base = _filled((2, *(tensor.shape[i] for i in order)), tensor, _ABOVE)
    return _put(base[1].permute(order), base, tensor)


def channels_last_at_offset(tensor: torch.Tensor) -> EmbeddedTensor | None:
    """Channels innermost, after another tensor of the same size; one place alone has no order."""
    spatial = tensor.shape[2:]
    if tensor.dim() not in (4, 5) or tensor.numel() == 0 or tensor.shape[1] == 1 or spatial.numel() == 1:
        return None
    base = _filled((2, tensor.shape[0], *spatial, tensor.shape[1]), tensor, _BELOW)
    return _put(base[1].movedim(-1, 1), base, tensor)


def alike(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor whose slices along its first dimension of several are all its first one; None if it
    has no such dimension.
    """
    several = [dimension for dimension, size in enumerate(tensor.shape) if size > 1]
    if not several or tensor.numel() == 0:
        return None
    return tensor.detach().narrow(several[0], 0, 1).expand(tensor.shape).clone()


def expanded(tensor: torch.Tensor) -> EmbeddedTensor | None:
    """One slice for all along the first dimension of several, with a stride of zero."""
    several = [dimension for dimension, size in enumerate(tensor.shape) if size > 1]
    if not several or tensor.numel() == 0:
        return None
    base = _filled(tuple(tensor.shape), tensor, _ABOVE)
    first = base.narrow(several[0], 0, 1)
    with torch.no_grad():
        first.copy_(tensor.narrow(several[0], 0, 1))
    return EmbeddedTensor(first.expand(tensor.shape), base)


def _put(view: torch.Tensor, base: torch.Tensor, tensor: torch.Tensor) -> EmbeddedTensor:
    with torch.no_grad():
        view.copy_(tensor)
    return EmbeddedTensor(view, base)


#: Layouts by the words that messages have for them.
LAYOUTS: Mapping[str, Layout] = {
    "gaps": with_gaps,
    "a storage offset": at_offset,
    "gaps and an offset": with_gaps_at_offset,
    "transposed memory at an offset": transposed_at_offset,
    "channels_last at an offset": channels_last_at_offset,
}
