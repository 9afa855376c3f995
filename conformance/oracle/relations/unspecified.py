"""Outputs whose values are unspecified: random values, uninitialised memory and device-specific intermediate
results.
"""

from __future__ import annotations

import math
import re

import torch

from conformance.samples.operators import Sample

#: Operators that are random for all arguments.
RANDOM = frozenset(
    {
        "bernoulli",
        "cauchy",
        "exponential",
        "geometric",
        "log_normal",
        "multinomial",
        "normal",
        "normal.in_place",
        "normal.number_mean",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "uniform",
        "nn.functional.alpha_dropout",
        "nn.functional.dropout",
        "nn.functional.dropout2d",
        "nn.functional.dropout3d",
        "nn.functional.feature_alpha_dropout.with_train",
        "nn.functional.fractional_max_pool2d",
        "nn.functional.fractional_max_pool3d",
    }
)

#: Operators that are random if one of these keyword arguments is true.
_RANDOM_BY_ARGUMENT = {
    "nn.functional.rrelu": ("training",),
    "nn.functional.scaled_dot_product_attention": ("dropout_p",),
    "nn.functional.multi_head_attention_forward": ("dropout_p",),
}

UNINITIALISED = frozenset(
    {
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
    }
)


def is_uninitialised(operator: str) -> bool:
    """Return whether the operator returns memory without writing it."""
    return operator in UNINITIALISED


def is_random(operator: str, sample: Sample) -> bool:
    """Return whether the values of this call depend on a random generator."""
    if operator in RANDOM:
        return True
    argument_names = _RANDOM_BY_ARGUMENT.get(operator, ())
    if operator == "nn.functional.multi_head_attention_forward":
        return True
    return any(bool(sample.kwargs.get(name, False)) for name in argument_names)


#: Normalisations that return saved statistics for a backward pass. In evaluation mode, the values of these
#: statistics are unspecified, because torch's Meta kernels for different devices return different statistics.
_SAVED_STATISTICS = frozenset({"native_batch_norm", "_native_batch_norm_legit"})


def unspecified_outputs(operator: str, sample: Sample) -> frozenset[int]:
    """Return the positions of the outputs of this call whose values are unspecified."""
    if operator == "log_sigmoid_forward":
        return frozenset({1})  # a buffer for the backward pass, which torch leaves empty on some devices
    if operator == "_ctc_loss":
        return frozenset() if _is_of_full_length(sample) else frozenset({1})
    unspecified = frozenset({0}) if _normalises_two_elements_in_16_bits(operator, sample) else frozenset()
    if operator in _SAVED_STATISTICS and not _is_in_training(sample):
        unspecified |= {1, 2}
    return unspecified


#: Normalisations of a channel by its elements in all instances of a batch.
_BATCH_NORMALISATIONS = re.compile(
    r"(nn\.functional\.|_?native_)?_?batch_norm(_legit|_with_update)?(_functional)?(\.|$)"
)


def _is_in_training(sample: Sample) -> bool:
    """Return whether a normalisation uses the statistics of its input."""
    # batch_norm has the keyword ``training``. The native operators have it as their first bool.
    positional = next((value for value in sample.args if isinstance(value, bool)), True)
    return bool(sample.kwargs.get("training", positional))


def _normalises_two_elements_in_16_bits(operator: str, sample: Sample) -> bool:
    """Return whether a batch_norm or instance_norm normalises two elements of 16 bits.

    The exact results are 1 and -1 for all pairs. A mean that is rounded to 16 bits can lie outside the
    pair, so the computed results can be any numbers.
    """
    tensor = sample.input
    if not isinstance(tensor, torch.Tensor) or tensor.dtype not in (torch.float16, torch.bfloat16):
        return False
    count = math.prod(tensor.shape[2:])
    if operator == "nn.functional.instance_norm":
        return count == 2 and bool(sample.kwargs.get("use_input_stats", True))
    over_batch = _BATCH_NORMALISATIONS.match(operator) is not None and tensor.dim() >= 2
    return over_batch and tensor.shape[0] * count == 2 and _is_in_training(sample)


def _is_of_full_length(sample: Sample) -> bool:
    """Return whether all sequences and targets of a ctc_loss have the maximal length.

    ctc_loss saves logarithms for its backward pass, and does not write the logarithms beyond the end of a
    shorter sequence.
    """
    steps, targets = ([int(length) for length in lengths] for lengths in sample.args[1:3])
    return set(steps) == {sample.input.shape[0]} and len(set(targets)) == 1


#: Positions of the outputs that a normalisation saves for the backward pass: statistics over many elements.
_STATISTICS = {
    "native_layer_norm": frozenset({1, 2}),
    "native_group_norm": frozenset({1, 2}),
    "native_batch_norm": frozenset({1, 2}),
    "_native_batch_norm_legit": frozenset({1, 2}),
    "_batch_norm_with_update": frozenset({1, 2}),
}


def saved_statistics(operator: str) -> frozenset[int]:
    """Return the positions of outputs that may have the dtype in which the device accumulates.

    Documentation does not specify their dtype. For a 16-bit input, the CPU rounds them to the dtype of the
    input, and CUDA keeps float32. torch's Meta kernels define both cases.
    """
    return _STATISTICS.get(operator, frozenset())


#: Overloads that return values and their indices.
_RETURNS_INDICES = re.compile(
    r"(sort|topk|kthvalue|median|nanmedian|cummax|cummin|\w*max_pool\dd_with_indices|adaptive_max_pool\dd"
    r"|fractional_max_pool\dd)$"
)


def unspecified_indices(overload: str, sample: Sample) -> frozenset[int]:
    """Return the positions of the outputs that contain unspecified indices. ``overload`` is the base name of
    the overload.

    Indices of equal values and of NaN are unspecified. The values themselves are specified.
    """
    if not _RETURNS_INDICES.match(overload) or not isinstance(sample.input, torch.Tensor):
        return frozenset()
    values = sample.input.detach()
    if bool(values.isfinite().all()) and len(torch.unique(values)) == values.numel():
        return frozenset()
    return frozenset({1})


#: Products of 8-bit matrices with scales.
_SCALED_PRODUCTS = frozenset({"_scaled_mm", "_scaled_mm_v2"})
#: CUDA's library requires matrix sizes that are multiples of this number.
_SIZE_MULTIPLE = 16


def is_refusable(operator: str, sample: Sample) -> bool:
    """Return whether a device may refuse this call, because some of torch's own devices refuse this call.

    All devices accept a product with scales if the rows of the left matrix and the columns of the right
    matrix are contiguous and the sizes are multiples of 16. The CPU accepts other products with scales, and
    CUDA and XPU refuse them (see torch's Meta kernels).
    """
    if operator not in _SCALED_PRODUCTS:
        return False
    rows, columns = sample.input, sample.args[0]
    is_common_layout = rows.is_contiguous() and columns.t().is_contiguous()
    scales = all(tensor.is_contiguous() for tensor in sample.tensors()[2:])
    return not (is_common_layout and scales and all(size % _SIZE_MULTIPLE == 0 for size in columns.shape))


def has_unspecified_values(operator: str, sample: Sample) -> bool:
    """Return whether only the metadata of the call's result is specified."""
    return is_uninitialised(operator) or is_random(operator, sample)
