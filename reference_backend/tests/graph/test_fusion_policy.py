"""Test that frequently launched graphs are fused only on torch releases known to fuse correctly."""

from __future__ import annotations

import pytest
import torch
from habana_frameworks.torch.internal.fusion import policy as fusion_policy


@pytest.mark.parametrize(("version", "runs"), [("2.6.0+cu124", 0), ("2.13.0+cpu", 32), ("2.15.0", 32)])
def test_hot_graphs_are_fused_only_on_reliable_releases(version, runs, monkeypatch):
    monkeypatch.delenv("HPU_REFERENCE_FUSE_AFTER", raising=False)
    monkeypatch.setattr(torch, "__version__", version)
    fusion_policy._is_inductor_reliable.cache_clear()
    assert fusion_policy.runs_before_compilation() == runs
    monkeypatch.undo()
    fusion_policy._is_inductor_reliable.cache_clear()
