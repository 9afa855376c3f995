"""Fused kernels as classes; a call is written ``NAME.apply(...)``."""

from __future__ import annotations

from . import Fp8Ops, fbgemm
from .attention import FusedSDPA, PySDPA, PySDPAHinted, fp8_fused_sdpa
from .ctc_loss import CTCLoss
from .embedding_bag import EmbeddingBag, EmbeddingBagPreProc, EmbeddingBagPreproc
from .random_seed import RandomSeed
from .rotary import (
    RotaryPosEmbeddingHelperV1,
    RotaryPosEmbeddingHelperV2,
    RotaryPosEmbeddingHelperV3,
    RotaryPosEmbeddingMode,
    apply_rotary_pos_emb,
)
from .softmax import CustomSoftmax, RaggedSoftmax, Softmax, triu_masked_softmax

__all__ = [
    "CTCLoss",
    "CustomSoftmax",
    "EmbeddingBag",
    "EmbeddingBagPreProc",
    "EmbeddingBagPreproc",
    "Fp8Ops",
    "FusedSDPA",
    "PySDPA",
    "PySDPAHinted",
    "RaggedSoftmax",
    "RandomSeed",
    "RotaryPosEmbeddingHelperV1",
    "RotaryPosEmbeddingHelperV2",
    "RotaryPosEmbeddingHelperV3",
    "RotaryPosEmbeddingMode",
    "Softmax",
    "apply_rotary_pos_emb",
    "fbgemm",
    "fp8_fused_sdpa",
    "triu_masked_softmax",
]
