"""The mutation points of kernels: overloads for which a device has a kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

#: Namespaces whose overloads are mutation points.
_NAMESPACES = ("aten::",)

#: Pattern of overloads that are not mutation points -> the reason. A dense device needs no kernels for these
#: overloads. They are excluded because some devices register a kernel for every overload.
EXCLUDED_OVERLOADS: Mapping[str, str] = {
    r"_test_|_foobar|_make_dep_token": "torch's own tests and traces",
    r"\w*_for_cpu|fbgemm_|_dyn_quant_|_saturate_weight|_weight_int8pack|choose_qparams": "CPU libraries",
    r"quantized_(gru|lstm)|_empty_(affine|per_channel)|_make_per_|quantize_per_(tensor|channel)"
    r"|dequantize|_fake_quantize_learnable|_fused_moving_avg_obs": "quantized tensors have their own layout",
    r"_efficientzerotensor": "tensors without memory",
    r"_fused_sdp_choice": "chooses a kernel and computes nothing",
    r"\w*_overrideable": "only for a backend that has no convolution",
    r"_nested|_jagged|_padded_dense|_transform_bias_rescale|_native_multi_head|_transformer_encoder": (
        "nested tensors"
    ),
    r"_to_sparse|_sparse_|_validate_compressed|_convert_indices|_spdiags|sspaddmm": "sparse layouts",
    r"set_|record_stream|from_file|_reshape_from_tensor|is_set_to": "memory and streams, not values",
    r"_?slow_conv|batch_norm_(stats|elemt|gather|update|backward_)|_batch_norm_no_update|_upsample_lanczos"
    r"|_addmm_activation|_add_relu|_int_mm|_compute_linear|_aminmax": "no public function calls them",
    r"range\.out_$": "no public function calls it: torch.range has range.out",
}


#: Overloads that torch's own ``copy_`` and torch's CPU fallback call.
_OF_COPY = frozenset({"aten::_copy_from", "aten::_copy_from_and_resize"})


def mutation_points(key: str) -> list[str]:
    """Return the overloads with a kernel at a dispatch key, sorted, without :data:`EXCLUDED_OVERLOADS`."""
    names = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith(_NAMESPACES))
    names_with_kernel = {name for name in names if torch._C._dispatch_has_kernel_for_dispatch_key(name, key)}
    if "aten::copy_" in names_with_kernel:
        names_with_kernel -= _OF_COPY  # only called on devices without copy_
    return sorted(name for name in names_with_kernel if exclusion_reason(name) is None)


def exclusion_reason(name: str) -> str | None:
    """Return why an overload is not a mutation point, or None if the overload is a mutation point."""
    bare = name.partition("::")[2]
    return next((why for pattern, why in EXCLUDED_OVERLOADS.items() if re.match(pattern, bare)), None)


def schema_of(point: str) -> Any:
    """Return torch's schema of an overload."""
    name, _, overload = point.partition(".")
    return torch._C._get_schema(name, overload)


def is_random(point: str) -> bool:
    """Return whether an overload draws random numbers."""
    namespace, _, rest = point.partition("::")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), name)
    return torch.Tag.nondeterministic_seeded in getattr(packet, overload or "default").tags
