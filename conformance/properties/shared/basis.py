"""Choose the basis of a deviation by the operator, by its sample or by the error of the CPU."""

from __future__ import annotations

import functools
import re
from typing import Any

import torch

from conformance.framework import trees
from conformance.model.verdicts import Basis
from conformance.samples.operators import Sample

#: Names of arguments that choose dimensions.
_DIMENSIONS = re.compile(r"(dim|dims|dim\d|dimension|start_dim|end_dim|axis\d?|axes)$")

#: Errors of the CPU that a page announces: sizes that do not broadcast (notes/broadcasting.html), and results
#: that do not fit into the dtype of out= or of an in-place operator (tensor_attributes.html).
_DOCUMENTED_ERRORS = re.compile(
    r"must match the size of tensor|result type \S+ can't be cast"
    r"|output with shape .* doesn't match the broadcast"
)

#: Operators whose pages state the results for NaN, infinities or zeros.
_SPECIAL_VALUES_ON_THE_PAGE = re.compile(
    r"(maximum|minimum|fmax|fmin|isnan|isinf|isfinite|isposinf|isneginf|nan_to_num|fmod|remainder|copysign"
    r"|xlogy|xlog1py|entr|heaviside|median|nanmedian|nansum|nanmean|nanquantile|clamp|clamp_min|clamp_max|clip"
    r"|signbit|round|log|sqrt)$"
)
#: Operators that IEEE 754 defines for every input. torch represents its numbers by this standard
#: (notes/numerical_accuracy.html).
_IEEE_754 = re.compile(
    r"(add|sub|subtract|rsub|mul|multiply|div|divide|true_divide|neg|negative|abs|absolute|eq|ne|lt|le|gt|ge"
    r"|not_equal|less|less_equal|greater|greater_equal|sum|mean|prod|positive)$"
)
#: Reductions that are defined for inputs without elements: by the definition of the reduction or, for the
#: mean, by its page, which states NaN.
_DEFINED_WITHOUT_ELEMENTS = re.compile(r"(sum|nansum|prod|all|any|count_nonzero|mean|nanmean)$")

#: The views that tensor_view.html lists. The page says not to rely on the aliasing of ``reshape`` and similar
#: functions.
_VIEWS_ON_THE_PAGE = re.compile(
    r"(adjoint|as_strided|detach|diagonal|expand|expand_as|movedim|narrow|permute|select|squeeze|transpose|t|T|H"
    r"|mT|mH|real|imag|view_as_real|unflatten|unfold|unsqueeze|view|view_as|unbind|split|hsplit|vsplit"
    r"|tensor_split|split_with_sizes|swapaxes|swapdims|chunk|indices|values|__getitem__)$"
)


def _matches_name_pattern(names: re.Pattern[str], name: str) -> bool:
    """Return True if ``names`` matches a part of the name of an operator or overload.

    For example, ``round`` is a part of ``round.decimals_3`` and of ``round_``.
    """
    return any(names.match(part) or names.match(part.rstrip("_")) for part in name.split("."))


def basis_of_error(cpu_error: str) -> Basis:
    """Return the basis of the requirement that an invalid call raises an error, by the CPU's error."""
    return Basis.DOCUMENTED if _DOCUMENTED_ERRORS.search(cpu_error) else Basis.PARITY


def basis_of_aliasing(name: str) -> Basis:
    """Return the basis of the requirement that an operator's result shares memory with its input."""
    return Basis.DOCUMENTED if _matches_name_pattern(_VIEWS_ON_THE_PAGE, name) else Basis.PARITY


def basis_of_empty_input(name: str, *, reduces: bool) -> Basis:
    """Return the basis of the requirement on an operator's result for an input without elements."""
    is_defined = not reduces or _matches_name_pattern(_DEFINED_WITHOUT_ELEMENTS, name)
    return Basis.DOCUMENTED if is_defined else Basis.PARITY


def basis_of_values(name: str, sample: Sample, outputs: Any) -> Basis:
    """Return the basis of the requirement on the result of a call whose inputs may be extremal.

    The page of an operator defines its results for ordinary numbers. The results for NaN, infinities and
    numbers near overflow or underflow are defined only if the page mentions them, or by IEEE 754.
    """
    if _matches_name_pattern(_SPECIAL_VALUES_ON_THE_PAGE, name):
        return Basis.DOCUMENTED
    if _matches_name_pattern(_IEEE_754, name) and not sample.kwargs.get("rounding_mode"):
        return Basis.DOCUMENTED
    tensors = [*sample.tensors(), *trees.tensors(outputs)]
    return Basis.DOCUMENTED if all(map(_squares_are_representable, tensors)) else Basis.PARITY


def _squares_are_representable(tensor: torch.Tensor) -> bool:
    """Return True if no square of an element of a tensor overflows or underflows."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return True
    if tensor.is_complex():
        return _squares_are_representable(torch.view_as_real(tensor.detach().resolve_conj()))
    if not tensor.is_floating_point():
        return True
    sizes = tensor.detach().to(torch.float64).abs()
    info = torch.finfo(tensor.dtype)
    limits = float(info.tiny) ** 0.5, float(info.max) ** 0.5
    return bool(((sizes == 0) | ((sizes >= limits[0]) & (sizes <= limits[1]))).all())


#: Operators whose pages name the dtypes or dimensions of their inputs, and so limit what is documented.
_CONVOLUTIONS = re.compile(r"_?(conv\dd|conv_transpose\dd|convolution)$")
_WITH_INDEX_PER_ELEMENT = re.compile(r"(gather|scatter|scatter_add|scatter_reduce)$")
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_RECURRENT = re.compile(r"(gru|lstm|rnn_tanh|rnn_relu|(gru|lstm|rnn_tanh|rnn_relu)_cell)$")


#: Operators whose pages allow a Python number in place of the first tensor, although no overload does.
_NUMBER_FIRST_ON_THE_PAGE = re.compile(r"floor_divide$")


def is_undocumented_call(name: str, sample: Sample) -> bool:
    """Return True if no page describes the call.

    No page describes a dimension of a tensor without dimensions, a Python number in place of the first
    tensor, indices of another dtype or rank than the page states, a convolution of integers, a recurrent
    layer of complex numbers, or attention with fewer than four dimensions (``(N, ..., H, L, E)``).
    """
    if passes_dim_for_zero_dim_tensor(name, sample) or passes_number_for_first_tensor(name, sample):
        return True
    tensors = sample.tensors()
    if not tensors:
        return False
    if _matches_name_pattern(_WITH_INDEX_PER_ELEMENT, name):
        if name.startswith("gather") and any(not index.numel() for index in _index_argument(sample)):
            return False  # the page of gather allows every index without elements
        return not all(map(functools.partial(_is_index_for, tensors[0]), _index_argument(sample)))
    if _matches_name_pattern(_CONVOLUTIONS, name):
        return not (tensors[0].is_floating_point() or tensors[0].is_complex())
    if _matches_name_pattern(_RECURRENT, name):
        return tensors[0].is_complex()
    return "scaled_dot_product_attention" in name and any(tensor.dim() < 4 for tensor in tensors[:3])


def _index_argument(sample: Sample) -> list[torch.Tensor]:
    """Return the first tensor of integers after the first argument, which holds the indices, as a list."""
    return [t for t in sample.tensors()[1:] if t.dtype in _INTEGERS][:1]


def _is_index_for(tensor: torch.Tensor, index: torch.Tensor) -> bool:
    """Return True if ``index`` has a dtype and a rank that the pages of ``gather`` and ``scatter`` allow."""
    return index.dtype in (torch.int64, torch.int32) and index.dim() == tensor.dim()


def passes_dim_for_zero_dim_tensor(name: str, sample: Sample) -> bool:
    """Return True if a call chooses a dimension of a tensor without dimensions.

    No page says that such a tensor is treated as if it had one dimension.
    """
    if not isinstance(sample.input, torch.Tensor) or sample.input.dim():
        return False
    if any(_DIMENSIONS.match(key) and value is not None for key, value in sample.kwargs.items()):
        return True
    return bool(sample.args) and _has_dimension_argument(name) and any(map(_is_dimension, sample.args))


def _is_dimension(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_is_dimension, value))
    return type(value) is int and value in (0, -1)


def passes_number_for_first_tensor(name: str, sample: Sample) -> bool:
    """Return True if a call has a Python number in place of the first tensor, and no page allows this.

    torch converts the number to a tensor on the CPU. A number is allowed if the page says so, or if an
    overload has a number as its first argument (``pow``, ``xlogy``).
    """
    if not isinstance(sample.input, (bool, int, float, complex)):
        return False
    return not _matches_name_pattern(_NUMBER_FIRST_ON_THE_PAGE, name) and _takes_only_tensor_first(name)


@functools.cache
def _takes_only_tensor_first(name: str) -> bool:
    """Return True if the first argument of every overload that has tensor arguments is a tensor."""
    types = [[str(a.type) for a in overload._schema.arguments] for overload in _overloads_of(name)]
    first_types = {first for first, *others in types if first == "Tensor" or "Tensor" in others}
    return first_types == {"Tensor"}


@functools.cache
def _has_dimension_argument(name: str) -> bool:
    """Return True if an overload of the operator has an argument that chooses a dimension."""
    names = (argument.name for overload in _overloads_of(name) for argument in overload._schema.arguments)
    return any(map(_DIMENSIONS.match, names))


@functools.cache
def _overloads_of(name: str) -> tuple[Any, ...]:
    """Return the overloads of an operator that have arguments."""
    packets = [
        getattr(torch.ops.aten, spelling.rstrip("_"), None)
        for spelling in sorted({*name.split("."), name.replace(".", "_")})
    ]
    overloads = [
        getattr(packet, overload)
        for packet in packets
        if packet is not None
        for overload in packet.overloads()
    ]
    return tuple(overload for overload in overloads if overload._schema.arguments)
