"""Make private copies of samples on a target's device, or on the host in another precision.

A copy preserves shapes, strides, storage offsets, memory shared between arguments, the identity of an
argument that is passed twice, conj and neg bits, ``requires_grad``, sparse layouts and nesting. Copies to a
device are compared bit by bit with the original. On a device that does not declare strides or
non-contiguous inputs, copies are contiguous and share no memory. On a device without conj and neg bits, the
bits are resolved first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import one_line, report_error
from conformance.framework.compare import significant_strides
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.samples.operators import Sample, bytes_of_storage
from conformance.target.target import Target

_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


#: Types of leaves that need no copy: the copier returns the leaf itself. Most leaves that are not tensors
#: have one of these types.
_UNCHANGED = frozenset({type(None), bool, int, float, complex})


class WrongCopy(Exception):
    """A copy to the device is wrong, or cannot be made because of ``__cause__``.

    Copies are a prerequisite of the suite: the failure concerns the prerequisite named in the message, not
    the operator under test.
    """

    def __init__(self, kind: Kind, prerequisite: str, text: str) -> None:
        super().__init__(f"prerequisite {prerequisite}: {text}")
        self.kind = kind


#: Device types on which ``set_`` raised an exception. The copier uses ``as_strided`` there.
_device_types_without_set: set[str] = set()


class Copier:
    """Copies nested tuples, lists and dicts of tensors to one device. Tensors that share memory also share
    memory in the copy.
    """

    def __init__(
        self,
        device: torch.device,
        dtypes: Mapping[torch.dtype, torch.dtype] | None = None,
        *,
        check: bool = True,
        layouts: bool = True,
        conj_neg_bits: bool = True,
    ) -> None:
        self.device = device
        self.dtypes = dict(dtypes or {})
        self.check = check
        self.layouts = layouts
        self.conj_neg_bits = conj_neg_bits
        self._tensors: dict[int, torch.Tensor] = {}
        self._storages: dict[tuple[int, torch.dtype], torch.Tensor] = {}
        self._uses: dict[int, int] = {}
        #: The tensor that was copied last.
        self.last: torch.Tensor | None = None

    def copy_tree(self, tree: Any) -> Any:
        """Return a private copy of a tree. Raise WrongCopy if the copy differs from the original."""
        for tensor in trees.tensors(tree):
            if tensor.layout is torch.strided:
                key = tensor.untyped_storage()._cdata
                self._uses[key] = self._uses.get(key, 0) + 1
        with torch.no_grad():
            return trees.tree_map(self._copy_leaf, tree)

    def _copy_leaf(self, value: Any) -> Any:
        if type(value) in _UNCHANGED:
            return value
        if isinstance(value, torch.Tensor):
            return self._copy_tensor(value)
        if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
            return self.device
        if isinstance(value, torch.dtype):
            return self.dtypes.get(value, value)
        if isinstance(value, torch.Generator):
            copy = torch.Generator(device=self.device)
            copy.manual_seed(value.initial_seed())
            return copy
        return value

    def _copy_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        copy = self._tensors.get(id(tensor))
        if copy is None:
            self.last = tensor
            copy = self._copy_strided(tensor) if tensor.layout is torch.strided else self._copy_sparse(tensor)
            if tensor.requires_grad and (copy.is_floating_point() or copy.is_complex()):
                copy.requires_grad_(True)
            self._tensors[id(tensor)] = copy
        return copy

    def _copy_strided(self, tensor: torch.Tensor) -> torch.Tensor:
        if not self.conj_neg_bits:
            tensor = tensor.detach().resolve_conj().resolve_neg()
        conj, neg = tensor.is_conj(), tensor.is_neg()
        detached = tensor.detach()
        if conj:
            detached = detached.conj()
        if neg:
            detached = torch._neg_view(detached)
        dtype = self.dtypes.get(detached.dtype, detached.dtype)
        if self._may_be_copied_alone(detached):
            copy = self._copy_alone(detached, dtype)
        else:
            copy = self._copy_with_shared_storage(detached, dtype)
        if conj:
            copy = copy.conj()
        if neg:
            copy = torch._neg_view(copy)
        if self.check and dtype == detached.dtype:
            _require_same_metadata(copy, tensor, layouts=self.layouts)
        return copy

    def _may_be_copied_alone(self, detached: torch.Tensor) -> bool:
        """Return whether the copy needs only memory for the tensor's elements.

        This is the case if no other tensor uses the storage and the elements fill the storage in order, or if
        the device does not support layouts.
        """
        if not self.layouts:
            return True
        storage = detached.untyped_storage()
        return (
            self._uses.get(storage._cdata, 1) == 1
            and storage.nbytes() == detached.numel() * detached.itemsize
            and detached.is_contiguous()
            and detached.storage_offset() == 0
        )

    def _copy_alone(self, detached: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if self.layouts:
            copy = torch.empty_strided(detached.shape, detached.stride(), dtype=dtype, device=self.device)
        else:
            copy = torch.empty(detached.shape, dtype=dtype, device=self.device)
        copy.copy_(detached)
        if self.check and dtype == detached.dtype:
            _require_same_bits(copy, detached)
        return copy

    def _copy_with_shared_storage(self, detached: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        storage = detached.untyped_storage()
        key = (storage._cdata, torch.uint8 if dtype == detached.dtype else dtype)
        base = self._storages.get(key)
        if base is None:
            unit = detached.dtype if storage.nbytes() % detached.itemsize == 0 else torch.uint8
            size = storage.nbytes() // unit.itemsize
            flat = torch.empty(0, dtype=unit).set_(storage, 0, (size,), (1,))
            base = torch.empty(size, dtype=unit if dtype == detached.dtype else dtype, device=self.device)
            base.copy_(flat)
            if self.check and dtype == detached.dtype:
                _require_same_bits(base, flat)
            self._storages[key] = base
        copy = _view_with_layout_of(base, dtype, detached)
        if self.check and dtype == detached.dtype:
            _require_same_bits(
                copy.clone(memory_format=torch.contiguous_format), detached.contiguous(), "strided memory"
            )
        return copy

    def _copy_sparse(self, tensor: torch.Tensor) -> torch.Tensor:
        detached = tensor.detach()
        if tensor.layout is torch.sparse_coo:
            indices = self._copy_strided(detached._indices().contiguous())
            values = self._copy_strided(detached._values().contiguous())
            copy = torch.sparse_coo_tensor(
                indices,
                values,
                detached.shape,
                device=self.device,
                is_coalesced=detached.is_coalesced(),
                check_invariants=False,
            )
            return copy
        if tensor.layout in _COMPRESSED:
            by_row = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
            outer = detached.crow_indices() if by_row else detached.ccol_indices()
            inner = detached.col_indices() if by_row else detached.row_indices()
            return torch.sparse_compressed_tensor(
                self._copy_strided(outer.contiguous()),
                self._copy_strided(inner.contiguous()),
                self._copy_strided(detached.values().contiguous()),
                detached.shape,
                layout=tensor.layout,
                device=self.device,
                check_invariants=False,
            )
        dtype = self.dtypes.get(detached.dtype, detached.dtype)
        return detached.to(device=self.device, dtype=dtype, copy=True)


def _view_with_layout_of(base: torch.Tensor, dtype: torch.dtype, template: torch.Tensor) -> torch.Tensor:
    """Return a view of the one-dimensional tensor ``base`` with ``dtype`` and with the shape, strides and
    storage offset of ``template``.
    """
    geometry = (template.storage_offset(), template.shape, template.stride())
    device = base.device.type
    if device not in _device_types_without_set:
        copy = torch.empty(0, dtype=dtype, device=base.device)
        try:
            return copy.set_(base.untyped_storage(), *geometry)
        except Exception:
            _device_types_without_set.add(device)
    try:
        byte_count = base.nbytes // dtype.itemsize * dtype.itemsize // base.itemsize
        flat = base if base.dtype == dtype else base[:byte_count].view(dtype)
        # ``data`` removes the view relation from autograd: the copies share only memory.
        return flat.as_strided(geometry[1], geometry[2], geometry[0]).data
    except Exception as error:
        _device_types_without_set.discard(device)
        text = (
            "the suite lays out inputs with aten::set_ or aten::as_strided, and neither works on the device"
        )
        raise WrongCopy(
            Kind.EXCEPTION, "strided memory", f"{text}: aten::as_strided raised {one_line(error)}"
        ) from error


def _require_same_bits(copy: torch.Tensor, source: torch.Tensor, prerequisite: str = "copies") -> None:
    if copy.numel() == 0:
        return
    back = copy.cpu() if copy.device.type != "cpu" else copy
    if bytes_of_storage(back) == bytes_of_storage(source):
        return
    if bytes_of_storage(back.contiguous().clone()) != bytes_of_storage(source.contiguous().clone()):
        raise WrongCopy(
            Kind.VALUE, prerequisite, f"a copy to the device changed the bits of {_describe_layout(source)}"
        )


def _describe_layout(tensor: torch.Tensor) -> str:
    return (
        f"a {tensor.dtype} tensor of size {list(tensor.shape)}, strides {list(tensor.stride())} and storage "
        f"offset {tensor.storage_offset()}"
    )


def _require_same_metadata(copy: torch.Tensor, source: torch.Tensor, *, layouts: bool) -> None:
    fields: list[tuple[str, Any, Any]] = [
        ("shape", tuple(copy.shape), tuple(source.shape)),
        ("dtype", copy.dtype, source.dtype),
        ("conj bit", copy.is_conj(), source.is_conj()),
        ("neg bit", copy.is_neg(), source.is_neg()),
    ]
    if layouts and source.numel():
        fields += [
            ("strides", significant_strides(copy), significant_strides(source)),
            ("storage offset", copy.storage_offset(), source.storage_offset()),
        ]
    for field, copied, original in fields:
        if copied != original:
            text = (
                f"a copy to the device changed the {field} of {_describe_layout(source)} from "
                f"{original} to {copied}"
            )
            raise WrongCopy(Kind.METADATA, "copies", text)


def make_copier(target: Target, device: torch.device | None = None, *, check: bool = True) -> Copier:
    """Return a copier to ``device``, by default the target's device.

    Copies on the target's device have strides, offsets and lazy bits only if the target declares them.
    """
    if device is not None and device.type != target.torch_device.type:
        return Copier(device, check=check)
    return Copier(
        torch.device(target.device) if device is None else device,
        check=check,
        layouts=target.has_arbitrary_strides,
        conj_neg_bits=target.capable("conj_neg_views"),
    )


def to_device(
    sample: Sample, target: Target, recorder: Recorder | None = None, *, check: bool = True
) -> Sample | None:
    """Return a private copy of ``sample`` on the target's device, or None if the copy is wrong or the device
    raised an error.

    ``check=False`` skips the comparison of the copy with the original. A caller can skip the
    comparison if the caller compares the arguments with the CPU's arguments after the call, and checks the
    copy only if the arguments differ.

    The reason for None is recorded in ``recorder`` (see :func:`report_failed_copy`): kind VALUE for wrong
    bits, METADATA for a wrong layout, REFUSED or EXCEPTION for an error. Without a recorder, the error is
    raised.
    """
    if recorder is not None and recorder.watch is not None:
        recorder.watch(sample)
    copier = make_copier(target, check=check)
    try:
        input, args, kwargs = copier.copy_tree(sample.arguments)
        for position in sample.cpu_positions:
            if position < len(args) and isinstance(args[position], torch.Tensor):
                args = (*args[:position], args[position].cpu(), *args[position + 1 :])
    except Exception as error:
        if recorder is None:
            raise
        report_failed_copy(target, recorder, error, sample=sample.index, tensor=copier.last)
        return None
    return sample.replace(input=input, args=args, kwargs=kwargs)


def report_failed_copy(
    target: Target,
    recorder: Recorder,
    error: Exception,
    sample: int | None = None,
    tensor: torch.Tensor | None = None,
) -> None:
    """Record that a sample could not be copied to the device. The label names the failing prerequisite.
    ``tensor`` is the tensor whose copy failed, if it is known.
    """
    if not isinstance(error, WrongCopy):
        what = (
            "copying" if tensor is None else f"copying a {tensor.dtype} tensor of size {list(tensor.shape)}"
        )
        label = f"prerequisite copies: {what} to the device"
        report_error(target, recorder, error, label=label, sample=sample)
    elif isinstance(error.__cause__, Exception):
        label = "prerequisite strided memory: laying out an input with aten::as_strided, after aten::set_,"
        report_error(target, recorder, error.__cause__, label=label, sample=sample)
    else:
        recorder.fail(error.kind, f"{error}.", sample=sample)


def to_host(sample: Sample, dtypes: Mapping[torch.dtype, torch.dtype] | None = None) -> Sample:
    """Return a private copy of ``sample`` on the CPU. ``dtypes`` maps the dtypes of tensors and of dtype
    arguments.
    """
    input, args, kwargs = Copier(torch.device("cpu"), dtypes, check=False).copy_tree(sample.arguments)
    return sample.replace(input=input, args=args, kwargs=kwargs)
