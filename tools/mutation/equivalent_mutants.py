"""Rules that find equivalent mutants among the survivors, each with its reason.

A rule depends on an overload's schema, on torch's database, or on documentation. It never names a single
mutant, and it imports nothing of the suite that the mutants measure: no property, reference or sample.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping

import torch

from conformance import torch_testing_internals
from tools.mutation import points
from tools.mutation.mutant import Mutant

#: Mutation operators that change values of a result.
_VALUE_OPERATORS = frozenset(
    {
        *("last-element", "tail-of-block", "above-size", "scalar-only", "rank", "nan-lost", "infinity-lost"),
        *("signed-zero-lost", "subnormal-flushed", "low-precision", "bool-byte", "stale-result", "flaky"),
        *("empty-input", "late"),
    }
)
#: Mutation operators that pass a different value of an option to the kernel.
_OPTION_OPERATORS = frozenset({"option-ignored", "number-stale"})
#: Overloads whose result is memory that no call has written.
_UNINITIALISED = re.compile(r"(new_)?empty(_like|_strided|_permuted)?$|resize(_as)?$")
#: The operations that IEEE 754 defines (sections 5.4 and 6.3).
_IEEE_754 = re.compile(r"(add|sub|rsub|mul|div|neg|abs|sqrt|copysign)$")
#: Overloads that move or select values.
_MOVES = re.compile(
    r"_?(alias|as_strided|block_diag|cat|channel_shuffle|clamp|clone|complex|concat|conj|constant_pad|copy|diag"
    r"|expand|flip|fmax|fmin|gather|im2col|index|kthvalue|lift|masked|max|median|min|mode|movedim|narrow|pad"
    r"|permute|pixel|put|reflection_pad|relu|repeat|replication_pad|reshape|roll|rot90|scatter|select|slice"
    r"|sort|split|squeeze|stack|t_copy|take|tile|topk|to_copy|transpose|tril|triu|unbind|unfold|unsafe_index"
    r"|unsafe_view|unsqueeze|view|where|amax|amin|aminmax|cummax|cummin|real|imag)"
)
#: Overloads that add or multiply values.
_SUMS_AND_PRODUCTS = re.compile(r"(nan)?(sum|prod|cumsum|cumprod|trace)")
#: Names of arguments that only specify sizes.
_SIZE_ARGUMENTS = frozenset({"size", "n", "m", "window_length"})
#: Torch operators whose documented formula is symmetric in the first two tensors.
_SYMMETRIC = re.compile(
    r"(add|mul|multiply|eq|ne|not_equal|maximum|minimum|fmax|fmin|gcd|lcm|hypot|logaddexp2?|logical_(and|or|xor)"
    r"|bitwise_(and|or|xor)|mse_loss|smooth_l1_loss|huber_loss|dot|equal|clamp_(max|min))$"
)
#: Torch operators whose formula is symmetric in the second and third tensor. Their in-place form writes the
#: first.
_SYMMETRIC_AFTER_FIRST = re.compile("addcmul$")
#: Names of options that the documentation describes as a choice of library or speed.
_OPTIONS_OF_SPEED = frozenset(
    {"allow_tf32", "assume_unique", "benchmark", "cudnn_enabled", "deterministic", "use_fast_accum"}
)


def equivalence_reason(mutant: Mutant) -> str | None:
    """Return why a mutant that altered a call and survived is equivalent, or None if it is not."""
    if not mutant.is_of_kernel:
        return None
    return next((reason for reason, applies in _RULES.items() if applies(mutant)), None)


def _base_name(point: str) -> str:
    """Return the name of a point's operator without namespace, overload and the suffix of the in-place
    form.
    """
    return point.partition("::")[2].partition(".")[0].rstrip("_")


def _has_unspecified_values(mutant: Mutant) -> bool:
    return mutant.operator in _VALUE_OPERATORS and bool(_UNINITIALISED.match(_base_name(mutant.point)))


def _loses_sign_of_computed_zero(mutant: Mutant) -> bool:
    base = _base_name(mutant.point)
    return mutant.operator == "signed-zero-lost" and not (_IEEE_754.match(base) or _MOVES.match(base))


def _loses_small_result_of_function(mutant: Mutant) -> bool:
    base = _base_name(mutant.point)
    is_specified = _IEEE_754.match(base) or _MOVES.match(base) or _SUMS_AND_PRODUCTS.match(base)
    return mutant.operator == "subnormal-flushed" and not is_specified


def _takes_sizes_only(mutant: Mutant) -> bool:
    if mutant.operator != "stale-result":
        return False
    positional = [a for a in points.schema_of(mutant.point).arguments if not a.kwarg_only]
    return all(argument.name in _SIZE_ARGUMENTS for argument in positional)


def _swaps_symmetric_arguments(mutant: Mutant) -> bool:
    symmetric = _SYMMETRIC if mutant.position == 0 else _SYMMETRIC_AFTER_FIRST
    return mutant.operator == "swapped-arguments" and bool(symmetric.match(_base_name(mutant.point)))


def _has_no_meta_kernel(mutant: Mutant) -> bool:
    return mutant.operator == "result-strides" and not torch._C._dispatch_has_kernel_for_dispatch_key(
        mutant.point, "Meta"
    )


def _changes_speed_only(mutant: Mutant) -> bool:
    if mutant.operator not in _OPTION_OPERATORS:
        return False
    return points.schema_of(mutant.point).arguments[mutant.position].name in _OPTIONS_OF_SPEED


def _is_in_unlisted_dtype(mutant: Mutant) -> bool:
    if mutant.dtype is None:
        return False
    listed = _listed_dtypes(_base_name(mutant.point))
    return bool(listed) and getattr(torch, mutant.dtype) not in listed


@functools.cache
def _listed_dtypes(base: str) -> frozenset[torch.dtype]:
    """Return the dtypes that torch's database lists, on any device, for operators with a name. The result is
    empty if the database has no such operator.
    """
    dtypes: set[torch.dtype] = set()
    for info in torch_testing_internals.op_db():
        if base in (info.name.rpartition(".")[2], info.aten_name):
            dtypes |= torch_testing_internals.dtypes_of_any_device(info)
    return frozenset(dtypes)


#: The rules by reason. The first rule that applies gives the reason.
_RULES: Mapping[str, Callable[[Mutant], bool]] = {
    "the values of the result are unspecified": _has_unspecified_values,
    "no document specifies the sign of a computed zero": _loses_sign_of_computed_zero,
    "no document specifies subnormal results of functions": _loses_small_result_of_function,
    "all results of one size are equal": _takes_sizes_only,
    "torch documents the operator as symmetric in the two tensors": _swaps_symmetric_arguments,
    "torch has no Meta kernel that determines strides": _has_no_meta_kernel,
    "torch documents the option as a choice of library or speed": _changes_speed_only,
    "torch's database lists the dtype on no device": _is_in_unlisted_dtype,
}
