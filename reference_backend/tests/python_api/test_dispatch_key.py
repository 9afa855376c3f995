"""Test the choice of the dispatch key, and the device refdev, whose key is PrivateUse1."""

from __future__ import annotations

from pathlib import Path

import habana_frameworks.torch as ht
import pytest
from habana_frameworks.torch.internal import core_builds

IS_BUILT = any(Path(ht.__file__).parent.glob("_builds/*_privateuse1/_C*.so"))
needs_core = pytest.mark.skipif(not IS_BUILT, reason="the core with the key PrivateUse1 is not built")

ON_REFDEV = """
import copy, io
import habana_frameworks.torch
import torch

assert torch.accelerator.current_accelerator().type == torch._C._get_privateuse1_backend_name() == "refdev"
assert not hasattr(torch, "hpu")
x = torch.arange(6.0).reshape(2, 3).refdev().requires_grad_()
assert x.is_refdev and str(x.device) == "refdev:0" and torch.nn.Linear(2, 2).refdev().weight.is_refdev
(x @ x.t()).softmax(-1).sum().backward()
assert x.grad.device.type == "refdev"
with torch.autocast("refdev"):
    assert (x @ x.t()).dtype == torch.get_autocast_dtype("refdev") == torch.float16
stream, event = torch.refdev.Stream(), torch.refdev.Event()
with torch.refdev.stream(stream):
    y = x.detach() * 2
    event.record()
event.synchronize()
assert torch.equal(y.cpu(), torch.arange(6.0).reshape(2, 3) * 2)
torch.manual_seed(3)
first = torch.rand(4, device="refdev")
torch.refdev.manual_seed(3)
assert torch.equal(first, torch.rand(4, device="refdev"))
buffer = io.BytesIO()
torch.save(y, buffer)
buffer.seek(0)
assert torch.equal(torch.load(buffer).cpu(), y.cpu()) and copy.deepcopy(y).is_refdev
assert torch.from_dlpack(torch.utils.dlpack.to_dlpack(y)).data_ptr() == y.data_ptr()
matrix = torch.sparse_coo_tensor([[0], [1]], torch.ones(1, device="refdev"), (2, 2))
assert matrix.to_dense().tolist() == [[0.0, 1.0], [0.0, 0.0]]
nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], device="refdev")
assert torch.nn.functional.linear(nested, torch.ones(5, 3, device="refdev")).unbind()[1].shape == (4, 5)
assert nested.cpu().device.type == "cpu"
assert torch.ones(2).pin_memory().is_pinned()
for module in (torch.nn.LSTM(3, 4), torch.nn.GRU(3, 4)):
    sequence = torch.randn(5, 2, 3)
    on_cpu = module(sequence)[0]
    on_cpu.square().sum().backward()
    gradients = {name: p.grad.clone() for name, p in module.named_parameters()}
    module.zero_grad()
    module.refdev()
    on_device = module(sequence.refdev())[0]
    on_device.square().sum().backward()
    torch.testing.assert_close(on_device.cpu(), on_cpu)
    for name, p in module.named_parameters():
        torch.testing.assert_close(p.grad.cpu(), gradients[name])
default = torch.refdev.default_stream()
assert default.device.type == "refdev"
default.wait_event(event)
graph = torch.refdev.HPUGraph()
static = torch.ones(3, device="refdev")
with torch.refdev.graph(graph):
    doubled = static * 2
static.fill_(5)
graph.replay()
assert doubled.tolist() == [10.0] * 3
with torch.refdev.device_of(static):
    pass
with torch.profiler.profile() as profile:
    (torch.ones(64, 64, device="refdev") @ torch.ones(64, 64, device="refdev")).cpu()
rows = [row for row in profile.events() if row.device_type.name == "REFDEV"]
assert rows and sum(row.device_time_total for row in profile.key_averages()) > 0
cell = torch.nn.LSTMCell(3, 4).refdev()
inputs = torch.randn(2, 3, device="refdev")
compiled = torch.compile(cell, backend="hpu_backend")
torch.testing.assert_close(compiled(inputs)[0], cell(inputs)[0])
try:
    torch.ones(2, device="refdev") + torch.ones(2, 3)[0, :2].reshape(2)
except RuntimeError as error:
    assert "refdev:0" in str(error), error
else:
    raise AssertionError("tensors of two devices were added")
print("all right")
"""


@needs_core
def test_device_with_the_key_privateuse1(run_python):
    done = run_python(ON_REFDEV, HPU_REFERENCE_KEY="PrivateUse1")
    assert done.stdout.strip().endswith("all right"), done.stderr


@needs_core
def test_gpu_migration_is_refused(run_python):
    variables = {"HPU_REFERENCE_KEY": "PrivateUse1", "PT_HPU_GPU_MIGRATION": "1"}
    done = run_python("import habana_frameworks.torch", **variables)
    assert "PT_HPU_GPU_MIGRATION=1 replaces cuda by hpu, but the device is refdev" in done.stderr


@needs_core
@pytest.mark.parametrize(
    ("key", "code", "advice"),
    [
        ("PrivateUse1", "torch.ones(1, device='hpu')", "Write 'refdev', or unset HPU_REFERENCE_KEY"),
        ("PrivateUse1", "torch.hpu.synchronize()", "Write torch.refdev, or unset HPU_REFERENCE_KEY"),
        ("HPU", "torch.ones(1, device='refdev')", "Start the process with HPU_REFERENCE_KEY=PrivateUse1"),
    ],
)
def test_name_of_the_other_device_is_explained(run_python, key, code, advice):
    done = run_python(f"import habana_frameworks.torch, torch\n{code}", HPU_REFERENCE_KEY=key)
    assert advice in done.stderr.splitlines()[-1]


def test_unknown_key_raises(run_python):
    done = run_python("import habana_frameworks.torch", HPU_REFERENCE_KEY="XLA")
    assert "HPU_REFERENCE_KEY='XLA' is not a dispatch key" in done.stderr
    assert "Use HPU or PrivateUse1" in done.stderr


@pytest.mark.parametrize(
    ("keys", "requested", "expected"),
    [
        ({"HPU"}, "", "HPU"),
        ({"HPU", "PrivateUse1"}, "", "HPU"),
        ({"HPU", "PrivateUse1"}, "PrivateUse1", "PrivateUse1"),
        ({"PrivateUse1"}, "", "PrivateUse1"),
        (set(), "", "HPU"),
    ],
)
def test_choice_of_the_key(monkeypatch, keys, requested, expected):
    class Info:
        def __init__(self, key):
            self.KEY = key

    monkeypatch.setattr(core_builds, "build_infos", lambda _: {key: Info(key) for key in keys})
    monkeypatch.setenv("HPU_REFERENCE_KEY", requested)
    assert core_builds.dispatch_key.__wrapped__() == expected
