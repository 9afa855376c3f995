"""Test that queued work uses the settings of the time of its issue, not later settings."""

from __future__ import annotations

import habana_frameworks.torch as ht
import pytest
import torch

C, hpu = ht._C, ht.hpu


@pytest.fixture
def settings_restored():
    yield
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)


def test_default_dtype(settings_restored, cache_output_metadata):
    a, b = torch.arange(1, 5, device="hpu"), torch.full((4,), 2, device="hpu")
    cache_output_metadata(lambda: a / b)
    C.enqueue_delay(0.1)
    quotient = a / b
    torch.set_default_dtype(torch.float64)
    assert quotient.dtype is torch.float32 and quotient.tolist() == [0.5, 1.0, 1.5, 2.0]
    assert (a / b).dtype is torch.float64


@pytest.mark.parametrize(
    "change",
    [
        lambda: torch.use_deterministic_algorithms(True),
        lambda: torch.set_deterministic_debug_mode("warn"),
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_float32_matmul_precision("highest"),
    ],
)
def test_a_change_waits_for_queued_work(settings_restored, cache_output_metadata, change):
    x = torch.zeros(10, device="hpu")
    cache_output_metadata(lambda: x.add_(1))
    with hpu.stream(hpu.Stream()):
        C.enqueue_delay(0.1)
        x.add_(1)
    assert C.engine_counters()["pending"] > 0
    change()
    assert C.engine_counters()["pending"] == 0
    assert x.tolist() == [2.0] * 10


def test_setter_does_not_raise_errors_of_queued_work(settings_restored, cache_output_metadata):
    x, index = torch.ones(10, device="hpu"), torch.tensor([3], device="hpu")
    bad = torch.tensor([99], device="hpu")
    cache_output_metadata(lambda: x.index_select(0, index))
    C.enqueue_delay(0.1)
    selected = x.index_select(0, bad)
    torch.set_default_dtype(torch.float64)
    with pytest.raises((RuntimeError, IndexError), match="index"):
        selected.cpu()


ENDS = """
import time, torch, habana_frameworks.torch as ht
x = torch.ones(4, device='hpu', requires_grad={gradient})
y = (x * 2).sum()
{backward}
print(ht._C.has_backward_threads())
"""


def test_only_a_process_with_a_backward_pass_waits_at_exit(output_of):
    assert output_of(ENDS.format(gradient=False, backward="")) == "False"
    assert output_of(ENDS.format(gradient=True, backward="y.backward()")) == "True"
