"""Place tensors in other memory layouts on their device, and check that no surrounding memory changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import torch

from conformance.samples.operators import bytes_of_storage

#: The canary: the value of the elements around an integer tensor, whose elements may be counts or indices.
_CANARY = 3
#: The canaries of all other tensors. Some layouts use a value above the tensor's values, others a value below
#: them. If a kernel reads a canary, it finds a number larger or smaller than every element of the tensor.
_ABOVE, _BELOW = 96, -96


@dataclasses.dataclass
class EmbeddedTensor:
    """A tensor in larger memory: the ``view``, and the ``base`` that holds it."""

    view: torch.Tensor
    base: torch.Tensor

    def __post_init__(self) -> None:
        self._before = self.base.cpu().clone()
        self._place = self._place_of_view()

    def is_unchanged(self, *, whole: bool) -> bool:
        """Return whether the memory around the view, or with ``whole`` all memory, has its original bytes.

        A call may resize ``out=`` and then use other elements of the memory. If the view was resized, return
        True, because the memory around it is not known.
        """
        if not whole and self._place_of_view() != self._place:
            return True
        before, now = self._before.clone(), self.base.cpu().clone()
        if not whole:
            for host in (before, now):
                host.as_strided(*self._place).zero_()
        return bytes_of_storage(before) == bytes_of_storage(now)

    def _place_of_view(self) -> tuple[torch.Size, tuple[int, ...], int]:
        return self.view.shape, self.view.stride(), int(self.view.storage_offset())


#: Places a tensor in another layout on its device; returns None if the tensor cannot have the layout.
Layout = Callable[[torch.Tensor], EmbeddedTensor | None]


def _canary_memory(shape: tuple[int, ...], like: torch.Tensor, extreme: int) -> torch.Tensor:
    """Return memory filled with a canary value that differs from the tensor's values.

    If every element of the tensor is one, the canary is zero, because ``torch.all`` does not distinguish
    nonzero values. If every element of an integer tensor is the usual canary, the canary is one.
    """
    canary = extreme if like.is_floating_point() or like.is_complex() else _CANARY
    if bool((like == 1).all()):
        canary = 0
    elif canary == _CANARY and bool((like == _CANARY).all()):
        canary = 1
    return torch.empty(shape, dtype=like.dtype, device=like.device).fill_(canary)


def with_gaps(tensor: torch.Tensor) -> EmbeddedTensor | None:
    """Place a tensor in memory in which every second element is unused."""
    if tensor.dim() == 0 or tensor.numel() < 2:
        return None
    base = _canary_memory((*tensor.shape, 2), tensor, _ABOVE)
    return _copy_into_memory(base[..., 0], base, tensor)


def at_offset(tensor: torch.Tensor) -> EmbeddedTensor | None:
    """Place a tensor as the second of three slices of larger memory."""
    if tensor.numel() == 0:
        return None
    base = _canary_memory((3, *tensor.shape), tensor, _BELOW)
    return _copy_into_memory(base[1], base, tensor)


def with_gaps_at_offset(tensor: torch.Tensor) -> EmbeddedTensor | None:
    """Place a tensor in every second element of memory, after an offset of one element."""
    if tensor.dim() == 0 or tensor.numel() < 2:
        return None
    base = _canary_memory((*tensor.shape, 2), tensor, _BELOW)
    return _copy_into_memory(base[..., 1], base, tensor)


def transposed_at_offset(tensor: torch.Tensor) -> EmbeddedTensor | None:
    """Place a tensor with reversed strides in the second half of larger memory."""
    if tensor.dim() < 2 or tensor.numel() < 2:
        return None
    order = tuple(reversed(range(tensor.dim())))
    base = _canary_memory((2, *(tensor.shape[i] for i in order)), tensor, _ABOVE)
    return _copy_into_memory(base[1].permute(order), base, tensor)


def channels_last_at_offset(tensor: torch.Tensor) -> EmbeddedTensor | None:
    """Place a tensor in the second half of larger memory, with its channels in the innermost dimension.

    The result is None for a tensor with one channel or one pixel: its strides do not show whether it is in
    this layout.
    """
    spatial = tensor.shape[2:]
    if tensor.dim() not in (4, 5) or tensor.numel() == 0 or tensor.shape[1] == 1 or spatial.numel() == 1:
        return None
    base = _canary_memory((2, tensor.shape[0], *spatial, tensor.shape[1]), tensor, _BELOW)
    return _copy_into_memory(base[1].movedim(-1, 1), base, tensor)


def with_equal_slices(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a copy of a tensor in which all slices along one dimension equal the first slice.

    The dimension is the first dimension with several elements. The result is None if none has several.
    """
    dimensions = [dimension for dimension, size in enumerate(tensor.shape) if size > 1]
    if not dimensions or tensor.numel() == 0:
        return None
    return tensor.detach().narrow(dimensions[0], 0, 1).expand(tensor.shape).clone()


def with_expanded_dimension(tensor: torch.Tensor) -> EmbeddedTensor | None:
    """Place one slice of a tensor, expanded with a stride of zero to the tensor's shape.

    The expanded dimension is the first dimension that has several elements.
    """
    dimensions = [dimension for dimension, size in enumerate(tensor.shape) if size > 1]
    if not dimensions or tensor.numel() == 0:
        return None
    base = _canary_memory(tuple(tensor.shape), tensor, _ABOVE)
    first = base.narrow(dimensions[0], 0, 1)
    with torch.no_grad():
        first.copy_(tensor.narrow(dimensions[0], 0, 1))
    return EmbeddedTensor(first.expand(tensor.shape), base)


def _copy_into_memory(view: torch.Tensor, base: torch.Tensor, tensor: torch.Tensor) -> EmbeddedTensor:
    with torch.no_grad():
        view.copy_(tensor)
    return EmbeddedTensor(view, base)


#: Layouts by their name in messages.
LAYOUTS: Mapping[str, Layout] = {
    "gaps": with_gaps,
    "a storage offset": at_offset,
    "gaps and an offset": with_gaps_at_offset,
    "transposed memory at an offset": transposed_at_offset,
    "channels_last at an offset": channels_last_at_offset,
}
