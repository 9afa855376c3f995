"""Test ``HPU_REFERENCE_POISON=1``: unwritten memory reads as NaN, and pending work keeps its memory."""

from __future__ import annotations

import pytest

START = "import torch, habana_frameworks.torch as ht\nC, hpu = ht._C, ht.hpu\n"
FRESH = "print(*(torch.empty(size, device='hpu').isnan().all().item() for size in (5000, 3)))"
FREED = """
import ctypes
value = torch.ones(5000, device='hpu')
view = C.host_view(value)
memory = (ctypes.c_float * 5000).from_address(view.data_ptr())
stale = torch.frombuffer(memory, dtype=torch.float32)
del value, view
hpu.synchronize()
print(stale.isnan().all().item())
"""


@pytest.fixture
def poisoned(output_of):
    def run_poisoned(code, **environment):
        return output_of(START + code, **{"HPU_REFERENCE_POISON": "1", **environment})

    return run_poisoned


def test_fresh_memory(poisoned):
    assert poisoned(FRESH) == "True True"


def test_freed_memory(poisoned):
    assert poisoned(FREED) == "True"


def test_poison_is_off_by_default(output_of):
    assert output_of(START + FREED) == "False"


def test_memory_of_pending_work_keeps_its_values(poisoned):
    """The memory is freed while work of its own stream, of another stream or of a lazy graph is pending."""
    code = """
side = hpu.Stream()
{start}
def work(stream, i):
    with hpu.stream(stream):
        C.enqueue_delay(0.02)
        value = torch.full((3000,), float(i), device='hpu')
        doubled = value * 2
    with hpu.stream(side):
        tripled = value * 3
    del value
    other = [torch.empty(3000, device='hpu') for _ in range(4)]
    return bool((doubled == 2 * i).all()), bool((tripled == 3 * i).all())
print(all(all(work(stream, i)) for i in range(1, 6) for stream in (hpu.current_stream(), hpu.Stream(), side)))
"""
    assert poisoned(code.format(start="")) == "True"
    assert poisoned(code.format(start="C.lazy_start(1, 5)")) == "True"


def test_training_gives_the_same_loss(poisoned, output_of):
    code = """
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(),
                            torch.nn.Linear(8 * 36, 10)).to('hpu')
optimizer = torch.optim.Adam(model.parameters())
for step in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 3, 8, 8, device='hpu')).square().mean()
    loss.backward()
    optimizer.step()
print(loss.item().hex())
"""
    unpoisoned = output_of(START + code)
    assert poisoned(code) == unpoisoned
    assert poisoned(code, HPU_REFERENCE_QUEUE_ALL="50,1") == unpoisoned
