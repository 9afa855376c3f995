"""Private copies of samples: on a target's device, or on the host in another precision.

A copy keeps shapes, strides, storage offsets, memory shared between arguments, identity of an argument passed
twice, conj and neg bits, ``requires_grad``, sparse layouts and the nesting. It is checked bit by bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import one_line, report_error
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.samples.operators import Sample, bits
from conformance.target.target import Target

_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


#: Types of most leaves that are no tensors, looked up before anything else is asked of one.
_UNCHANGED = frozenset({type(None), bool, int, float, complex})


class WrongCopy(Exception):
    """A prerequisite of the suite fails: a copy to the device is wrong, or cannot be made for ``__cause__``.

    It says nothing about the operator that the copy was for; the message names the prerequisite.
    """

    def __init__(self, kind: Kind, prerequisite: str, text: str) -> None:
        super().__init__(f"prerequisite {prerequisite}: {text}")
        self.kind = kind


#: Types of devices that refuse to set a tensor's storage, which `as_strided` then does instead.
_without_set: set[str] = set()


class Copier:
    """Copies trees to one device; arguments that share memory share it afterwards too."""

    def __init__(
        self,
        device: torch.device,
        dtypes: Mapping[torch.dtype, torch.dtype] | None = None,
        *,
        check: bool = True,
    ) -> None:
        self.device = device
        self.dtypes = dict(dtypes or {})
        self.check = check
        self._tensors: dict[int, torch.Tensor] = {}
        self._storages: dict[tuple[int, torch.dtype], torch.Tensor] = {}
        self._uses: dict[int, int] = {}

    def tree(self, tree: Any) -> Any:
        """Return a private copy of a tree. Raises WrongCopy if the device holds other bits than the host."""
        for tensor in trees.tensors(tree):
            if tensor.layout is torch.strided:
                key = tensor.untyped_storage()._cdata
                self._uses[key] = self._uses.get(key, 0) + 1
        with torch.no_grad():
            return trees.tree_map(self._leaf, tree)

    def _leaf(self, value: Any) -> Any:
        if type(value) in _UNCHANGED:
            return value
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
            return self.device
        if isinstance(value, torch.dtype):
            return self.dtypes.get(value, value)
        if isinstance(value, torch.Generator):
            copy = torch.Generator(device=self.device)
            copy.manual_seed(value.initial_seed())
            return copy
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        copy = self._tensors.get(id(tensor))
        if copy is None:
            copy = self._strided(tensor) if tensor.layout is torch.strided else self._sparse(tensor)
            if tensor.requires_grad and (copy.is_floating_point() or copy.is_complex()):
                copy.requires_grad_(True)
            self._tensors[id(tensor)] = copy
        return copy

    def _strided(self, tensor: torch.Tensor) -> torch.Tensor:
        conj, neg = tensor.is_conj(), tensor.is_neg()
        plain = tensor.detach()
        if conj:
            plain = plain.conj()
        if neg:
            plain = torch._neg_view(plain)
        dtype = self.dtypes.get(plain.dtype, plain.dtype)
        storage = plain.untyped_storage()
        alone = self._uses.get(storage._cdata, 1) == 1
        full = storage.nbytes() == plain.numel() * plain.itemsize
        if alone and full and plain.is_contiguous() and plain.storage_offset() == 0:
            copy = torch.empty_strided(plain.shape, plain.stride(), dtype=dtype, device=self.device)
            copy.copy_(plain)
            if self.check and dtype == plain.dtype:
                _same_bits(copy, plain)
        else:
            copy = self._shared(plain, dtype)
        if conj:
            copy = copy.conj()
        if neg:
            copy = torch._neg_view(copy)
        if self.check and dtype == plain.dtype:
            _same_metadata(copy, tensor)
        return copy

    def _shared(self, plain: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        storage = plain.untyped_storage()
        key = (storage._cdata, torch.uint8 if dtype == plain.dtype else dtype)
        base = self._storages.get(key)
        if base is None:
            unit = plain.dtype if storage.nbytes() % plain.itemsize == 0 else torch.uint8
            size = storage.nbytes() // unit.itemsize
            flat = torch.empty(0, dtype=unit).set_(storage, 0, (size,), (1,))
            base = torch.empty(size, dtype=unit if dtype == plain.dtype else dtype, device=self.device)
            base.copy_(flat)
            if self.check and dtype == plain.dtype:
                _same_bits(base, flat)
            self._storages[key] = base
        copy = _placed(base, dtype, plain)
        if self.check and dtype == plain.dtype:
            _same_bits(
                copy.clone(memory_format=torch.contiguous_format), plain.contiguous(), "strided memory"
            )
        return copy

    def _sparse(self, tensor: torch.Tensor) -> torch.Tensor:
        plain = tensor.detach()
        if tensor.layout is torch.sparse_coo:
            indices = self._strided(plain._indices().contiguous())
            values = self._strided(plain._values().contiguous())
            copy = torch.sparse_coo_tensor(
                indices,
                values,
                plain.shape,
                device=self.device,
                is_coalesced=plain.is_coalesced(),
                check_invariants=False,
            )
            return copy
        if tensor.layout in _COMPRESSED:
            by_row = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
            outer = plain.crow_indices() if by_row else plain.ccol_indices()
            inner = plain.col_indices() if by_row else plain.row_indices()
            return torch.sparse_compressed_tensor(
                self._strided(outer.contiguous()),
                self._strided(inner.contiguous()),
                self._strided(plain.values().contiguous()),
                plain.shape,
                layout=tensor.layout,
                device=self.device,
                check_invariants=False,
            )
        dtype = self.dtypes.get(plain.dtype, plain.dtype)
        return plain.to(device=self.device, dtype=dtype, copy=True)


def _placed(base: torch.Tensor, dtype: torch.dtype, plain: torch.Tensor) -> torch.Tensor:
    """A tensor in the memory of ``base``, which is flat, laid out as ``plain`` is in its own."""
    where = (plain.storage_offset(), plain.shape, plain.stride())
    device = base.device.type
    if device not in _without_set:
        copy = torch.empty(0, dtype=dtype, device=base.device)
        try:
            return copy.set_(base.untyped_storage(), *where)
        except Exception:
            _without_set.add(device)
    try:
        whole = base.nbytes // dtype.itemsize * dtype.itemsize // base.itemsize
        flat = base if base.dtype == dtype else base[:whole].view(dtype)
        # No view for autograd: the memory is shared, and that is all.
        return flat.as_strided(where[1], where[2], where[0]).data
    except Exception as error:
        _without_set.discard(device)
        text = "inputs are laid out with aten::set_ or aten::as_strided, and neither works on the device"
        raise WrongCopy(
            Kind.EXCEPTION, "strided memory", f"{text}: the second raised {one_line(error)}"
        ) from error


def _same_bits(copy: torch.Tensor, source: torch.Tensor, prerequisite: str = "copies") -> None:
    if copy.numel() == 0:
        return
    back = copy.cpu() if copy.device.type != "cpu" else copy
    if bits(back) == bits(source):
        return
    if bits(back.contiguous().clone()) != bits(source.contiguous().clone()):
        raise WrongCopy(
            Kind.VALUE, prerequisite, f"a copy to the device changed the bits of {_layout(source)}"
        )


def _layout(tensor: torch.Tensor) -> str:
    return (
        f"a {tensor.dtype} tensor of size {list(tensor.shape)}, strides {list(tensor.stride())} and storage "
        f"offset {tensor.storage_offset()}"
    )


def _same_metadata(copy: torch.Tensor, source: torch.Tensor) -> None:
    for word, copied, original in (
        ("shape", tuple(copy.shape), tuple(source.shape)),
        ("strides", copy.stride(), source.stride()),
        ("storage offset", copy.storage_offset(), source.storage_offset()),
        ("dtype", copy.dtype, source.dtype),
        ("conj bit", copy.is_conj(), source.is_conj()),
        ("neg bit", copy.is_neg(), source.is_neg()),
    ):
        if copied != original:
            text = f"a copy to the device changed the {word} of {_layout(source)} from {original} to {copied}"
            raise WrongCopy(Kind.METADATA, "copies", text)


def to_device(
    sample: Sample, target: Target, recorder: Recorder | None = None, *, check: bool = True
) -> Sample | None:
    """Return a private copy of ``sample`` on the target's device; None if the copy is wrong or was refused.

    Without ``check`` nothing is read back: for callers that compare the arguments after the call anyway, and
    look at the copy if something is wrong.

    With a recorder the reason is recorded there (`report_copy`): kind VALUE for wrong bits, METADATA for a
    wrong layout, REFUSED or EXCEPTION for an error. Without one the error is raised.
    """
    if recorder is not None and recorder.watch is not None:
        recorder.watch(sample)
    copier = Copier(torch.device(target.device), check=check)
    try:
        input, args, kwargs = copier.tree(sample.arguments)
        for place in sample.stays:
            if place < len(args) and isinstance(args[place], torch.Tensor):
                args = (*args[:place], args[place].cpu(), *args[place + 1 :])
    except Exception as error:
        if recorder is None:
            raise
        report_copy(target, recorder, error, sample=sample.index)
        return None
    return sample.replace(input=input, args=args, kwargs=kwargs)


def report_copy(target: Target, recorder: Recorder, error: Exception, sample: int | None = None) -> None:
    """Record that a sample could not be copied to the device, under the name of what fails."""
    if not isinstance(error, WrongCopy):
        report_error(
            target, recorder, error, label="prerequisite copies: copying to the device", sample=sample
        )
    elif isinstance(error.__cause__, Exception):
        what = "prerequisite strided memory: laying out an input with aten::as_strided, after aten::set_,"
        report_error(target, recorder, error.__cause__, label=what, sample=sample)
    else:
        recorder.fail(error.kind, f"{error}.", sample=sample)


def to_host(sample: Sample, dtypes: Mapping[torch.dtype, torch.dtype] | None = None) -> Sample:
    """Return a private copy of ``sample`` on the CPU, floating dtypes mapped by ``dtypes``
    (arguments too).
    """
    input, args, kwargs = Copier(torch.device("cpu"), dtypes, check=False).tree(sample.arguments)
    return sample.replace(input=input, args=args, kwargs=kwargs)
