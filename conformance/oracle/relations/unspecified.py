"""Outputs whose values are unspecified: random values, uninitialised memory and device-specific intermediate
results.
"""

from __future__ import annotations

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


def outputs_unspecified(operator: str, sample: Sample) -> frozenset[int]:
    """Return the positions of the outputs of this call whose values and metadata are unspecified."""
    if operator == "log_sigmoid_forward":
        return frozenset({1})  # a buffer for the backward pass, which torch leaves empty on some devices
    if operator == "_ctc_loss":
        return frozenset() if _have_sequences_full_length(sample) else frozenset({1})
    if operator in _SAVED_STATISTICS and not _bool_argument(sample, "training"):
        return frozenset({1, 2})
    return frozenset()


#: Matches operators that normalise each channel over all instances of a batch.
_BATCH_NORMALISATIONS = re.compile(
    r"(nn\.functional\.|_?native_)?_?batch_norm(_legit|_with_update)?(_functional)?(\.|$)"
)
#: Two elements are close if rounding their mean can change their normalised values by more than 1 / 16.
_CLOSE_UNITS = 16


def _bool_argument(sample: Sample, keyword: str, default: bool = True) -> bool:
    """Return a bool argument of the call: the keyword, or the first positional bool."""
    positional = next((value for value in sample.args if isinstance(value, bool)), default)
    return bool(sample.kwargs.get(keyword, positional))


def outputs_with_unspecified_values(operator: str, sample: Sample) -> frozenset[int]:
    """Return the positions of the outputs of this call whose values are unspecified although their metadata
    is specified.

    A batch_norm or instance_norm subtracts a mean, which it may round to the dtype of its input. If it
    normalises two float16 or bfloat16 elements that are close to each other, the rounding decides the
    results.
    """
    tensor = sample.input
    if not isinstance(tensor, torch.Tensor) or tensor.dtype not in (torch.float16, torch.bfloat16):
        return frozenset()
    if tensor.dim() < 2:
        return frozenset()
    if operator == "nn.functional.instance_norm" and tensor.dim() > 2:
        groups = tensor.flatten(2) if _bool_argument(sample, "use_input_stats") else tensor[..., :0]
    elif _BATCH_NORMALISATIONS.match(operator):
        # nn.functional.batch_norm has the default False. Calls of native operators always pass the argument.
        in_training = _bool_argument(sample, "training", default=False)
        groups = tensor.transpose(0, 1).flatten(1) if in_training else tensor[..., :0]
    else:
        return frozenset()
    if groups.shape[-1] != 2:
        return frozenset()
    pairs = groups.detach().to(torch.float64)
    distances = (pairs[..., 0] - pairs[..., 1]).abs()
    close = _CLOSE_UNITS * torch.finfo(tensor.dtype).eps * pairs.mean(-1).abs()
    return frozenset({0}) if bool((distances < close).any()) else frozenset()


def _have_sequences_full_length(sample: Sample) -> bool:
    """Return whether all sequences of a ctc_loss have the maximal length and all targets have equal lengths.

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


def outputs_with_unspecified_dtype(operator: str) -> frozenset[int]:
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


def outputs_with_unspecified_indices(overload: str, sample: Sample) -> frozenset[int]:
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


#: Operators that multiply 8-bit matrices with scales.
_SCALED_PRODUCTS = frozenset({"_scaled_mm", "_scaled_mm_v2"})
#: CUDA's library requires matrix sizes that are multiples of this number.
_SIZE_MULTIPLE = 16


def may_device_refuse(operator: str, sample: Sample) -> bool:
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


def is_only_metadata_specified(operator: str, sample: Sample) -> bool:
    """Return whether only the metadata of the call's result is specified."""
    return is_uninitialised(operator) or is_random(operator, sample)
