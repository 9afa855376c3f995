"""Tests of ``torch.compile(backend="hpu_backend")``."""
