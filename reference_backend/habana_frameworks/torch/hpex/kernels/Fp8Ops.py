"""The fp8 operators of ``torch.ops.hpu`` as Python functions."""

from __future__ import annotations

import torch

cast_to_fp8 = torch.ops.hpu.cast_to_fp8
cast_to_fp8_v2 = torch.ops.hpu.cast_to_fp8_v2
cast_to_fp8_hybrid = torch.ops.hpu.cast_to_fp8_hybrid
cast_from_fp8 = torch.ops.hpu.cast_from_fp8
fp8_gemm = torch.ops.hpu.fp8_gemm
fp8_gemm_v2 = torch.ops.hpu.fp8_gemm_v2
