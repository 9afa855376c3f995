"""Results without promised values: random ones and uninitialised memory."""

from __future__ import annotations

from conformance.samples.operators import Sample

#: Always random, whatever the arguments.
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

#: Random if one of these keyword arguments is true.
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
    """Return whether the operator returns memory that nothing has written."""
    return operator in UNINITIALISED


def is_random(operator: str, sample: Sample) -> bool:
    """Return whether the values of this call depend on a generator."""
    if operator in RANDOM:
        return True
    words = _RANDOM_BY_ARGUMENT.get(operator, ())
    if operator == "nn.functional.multi_head_attention_forward":
        return True
    return any(bool(sample.kwargs.get(word, False)) for word in words)


#: Normalisations that return saved statistics for a backward pass. Their content in evaluation, if they have
#: any, is up to the device: torch's Meta kernels differ between devices there.
_SAVED_STATISTICS = frozenset({"native_batch_norm", "_native_batch_norm_legit"})


def free_parts(operator: str, sample: Sample) -> frozenset[int]:
    """Return the positions of the results of this call about which nothing is promised."""
    if operator == "_ctc_loss":
        return frozenset() if _is_of_full_length(sample) else frozenset({1})
    training = next((value for value in sample.args if isinstance(value, bool)), True)
    return frozenset({1, 2}) if operator in _SAVED_STATISTICS and not training else frozenset()


def _is_of_full_length(sample: Sample) -> bool:
    """Return whether all sequences and targets of a ctc_loss are as long as the longest one.

    The logarithms that it keeps for its backward pass are not written beyond the end of a shorter one.
    """
    steps, targets = ([int(length) for length in lengths] for lengths in sample.args[1:3])
    return set(steps) == {sample.input.shape[0]} and len(set(targets)) == 1


#: Results of normalisations that are kept for the backward pass, by operator: statistics over many elements.
_STATISTICS = {
    "native_layer_norm": frozenset({1, 2}),
    "native_group_norm": frozenset({1, 2}),
    "native_batch_norm": frozenset({1, 2}),
    "_native_batch_norm_legit": frozenset({1, 2}),
    "_batch_norm_with_update": frozenset({1, 2}),
}


def statistics(operator: str) -> frozenset[int]:
    """Return the positions of results that may have the dtype in which the device accumulates.

    No document names their dtype. Of torch's own devices the CPU rounds them to a 16-bit input's dtype, and
    CUDA keeps float32 (torch's Meta kernels say so, device by device).
    """
    return _STATISTICS.get(operator, frozenset())


#: Products of 8-bit numbers with scales.
_SCALED_PRODUCTS = frozenset({"_scaled_mm", "_scaled_mm_v2"})
#: What CUDA's library multiplies is a multiple of so many numbers long.
_WHOLE = 16


def may_be_refused(operator: str, sample: Sample) -> bool:
    """Return whether torch's own devices differ in taking such a call, so that no device has to.

    Of products with scales all take contiguous rows times columns that are contiguous, both of a multiple of
    16 numbers; the CPU takes others, and CUDA and XPU refuse them (torch's Meta kernels say so).
    """
    if operator not in _SCALED_PRODUCTS:
        return False
    rows, columns = sample.input, sample.args[0]
    usual = rows.is_contiguous() and columns.t().is_contiguous()
    scales = all(tensor.is_contiguous() for tensor in sample.tensors()[2:])
    return not (usual and scales and all(size % _WHOLE == 0 for size in columns.shape))


def free_of_values(operator: str, sample: Sample) -> bool:
    """Return whether only the metadata of this call's result is promised."""
    return is_uninitialised(operator) or is_random(operator, sample)
