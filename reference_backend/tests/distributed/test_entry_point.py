"""Test the entry point in the group ``torch.distributed.backends``, by which torch 2.14 finds hccl."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import torch.distributed as dist

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
GROUP = "torch.distributed.backends"


def test_entry_point_registers_hccl(monkeypatch):
    monkeypatch.delitem(dist.Backend._plugins, "HCCL")
    ((name, value),) = tomllib.loads(PROJECT.read_text())["project"]["entry-points"][GROUP].items()
    registrar = EntryPoint(name, value, GROUP).load()
    registrar.cache_clear()
    registrar()
    assert name == "hccl"
    assert "HCCL" in dist.Backend._plugins
