"""Test that a module of `torch.jit.trace` runs as one graph in lazy mode."""

from __future__ import annotations

CODE = """
import warnings
import torch
import habana_frameworks.torch as ht
warnings.simplefilter("ignore")
ht._C.lazy_start(1)
layers = torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
module = torch.nn.Sequential(*layers).to("hpu").eval()
x = torch.randn(3, 4, device="hpu")
with torch.no_grad():
    traced = torch.jit.trace(module, x)
    for _ in range(3):
        ht._C.lazy_flush(True)
        before = ht._C.lazy_statistics()["flushes"]
        y = traced(x)
        recorded = ht._C.lazy_pending()
        ht._C.lazy_flush(True)
        print(recorded, ht._C.lazy_statistics()["flushes"] - before, torch.equal(y.cpu(), module(x).cpu()))
"""


def test_a_traced_module_is_one_graph(output_of):
    assert output_of(CODE, timeout=120).splitlines() == ["3 1 True"] * 3
