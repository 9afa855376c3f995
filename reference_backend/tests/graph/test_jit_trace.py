"""Test that a module of `torch.jit.trace` runs as one graph, in eager mode and in lazy mode."""

from __future__ import annotations

import copy
import io
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from habana_frameworks.torch.hpu.metrics import metric_global
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

LAZY_CODE = """
import warnings
import torch
import habana_frameworks.torch as ht
warnings.simplefilter("ignore")
ht._C.lazy_start(1)
layers = torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
module = torch.nn.Sequential(*layers).to("hpu").eval()
x = torch.randn(3, 4, device="hpu")
with torch.no_grad():
    traced = torch.jit.trace.__wrapped__(module, x)  # in a lazy process, the module stays as it is
    for _ in range(3):
        ht._C.lazy_flush(True)
        before = ht._C.lazy_statistics()["flushes"]
        y = traced(x)
        recorded = ht._C.lazy_pending()
        ht._C.lazy_flush(True)
        print(recorded, ht._C.lazy_statistics()["flushes"] - before, torch.equal(y.cpu(), module(x).cpu()))
"""


def test_a_traced_module_is_one_graph_in_lazy_mode(output_of):
    assert output_of(LAZY_CODE, timeout=120).splitlines() == ["3 1 True"] * 3


def compilation_count() -> int:
    return dict(metric_global("graph_compilation").stats())["TotalNumber"]


def make_network() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = (
        *(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()),
        *(torch.nn.Dropout(0.5), torch.nn.Linear(4 * 36, 2)),
    )
    return torch.nn.Sequential(*layers).to("hpu")


@pytest.mark.parametrize("training", [False, True])
@torch.no_grad()
def test_one_compilation_then_launches(training):
    module = make_network().train(training)
    traced = torch.jit.trace(module, torch.randn(2, 3, 8, 8, device="hpu"), check_trace=False)
    before = compilation_count()
    for seed in range(4):
        x = torch.randn(2, 3, 8, 8, device="hpu")
        expected_module = copy.deepcopy(module)
        torch.manual_seed(seed)
        expected = expected_module(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(traced(x), expected)
        torch.testing.assert_close(module[1].running_mean, expected_module[1].running_mean)
    assert compilation_count() == before + 1
    traced(torch.randn(5, 3, 8, 8, device="hpu"))  # a different batch size
    assert compilation_count() == before + 2


def test_calls_that_need_gradients_have_all_features_of_autograd():
    module = make_network().eval()
    traced = torch.jit.trace(module, torch.randn(2, 3, 8, 8, device="hpu"), check_trace=False)
    before = compilation_count()
    values = torch.randn(2, 3, 8, 8, device="hpu")
    penalties = []
    for run in (copy.deepcopy(module), traced):
        x = values.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(run(x).sum(), x, create_graph=True)
        gradient.square().sum().backward(retain_graph=True)
        gradient.square().sum().backward()
        penalties.append(run.get_submodule("0").weight.grad)
    torch.testing.assert_close(penalties[1], penalties[0])
    assert compilation_count() == before


@torch.no_grad()
def test_a_replaced_parameter_is_read_by_the_next_call():
    module = torch.nn.Linear(4, 4).to("hpu")
    traced, x = torch.jit.trace(module, torch.ones(3, 4, device="hpu")), torch.randn(3, 4, device="hpu")
    traced(x)
    module.weight.mul_(2)
    torch.testing.assert_close(traced(x), torch.nn.functional.linear(x, module.weight, module.bias))
    for replacement in (torch.randn(4, 4, device="hpu"), module.weight.data.t()):
        traced.weight.data = replacement
        torch.testing.assert_close(traced(x), torch.nn.functional.linear(x, replacement, module.bias))


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def test_a_buffer_on_the_cpu_is_read_at_each_call():
    traced = torch.jit.trace(Scaled(), torch.ones(3, device="hpu"))
    assert traced(torch.ones(3, device="hpu")).tolist() == [2] * 3
    traced.scale.fill_(3)
    assert traced(torch.ones(3, device="hpu")).tolist() == [3] * 3


@torch.no_grad()
def test_fake_tensors_and_observers_see_the_operators():
    traced = torch.jit.trace(torch.nn.Linear(4, 2).to("hpu"), torch.ones(3, 4, device="hpu"))
    x = torch.ones(3, 4, device="hpu")
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        traced(mode.from_tensor(x))
    with CountOperators() as count:
        expected = traced(x)
    assert count.operators > 0
    assert type(traced(x)) is torch.Tensor
    torch.testing.assert_close(traced(x), expected)


class CountOperators(TorchDispatchMode):
    operators = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.operators += 1
        return function(*args, **(kwargs or {}))


@torch.no_grad()
def test_modules_are_traced_and_called_in_threads():
    def work(seed: int) -> bool:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(3, 4, generator=generator).to("hpu")
        with torch.no_grad():
            results = [traced_layers[seed](x + number) for number in range(5)]
            layer = layers[seed]
            return all(torch.equal(result, layer(x + number)) for number, result in enumerate(results))

    layers = [torch.nn.Linear(4, 2).to("hpu") for _ in range(4)]
    traced_layers = [torch.jit.trace(layer, torch.ones(3, 4, device="hpu")) for layer in layers]
    before = compilation_count()
    with warnings.catch_warnings(), ThreadPoolExecutor(4) as pool:
        warnings.simplefilter("error")
        assert all(pool.map(work, range(4)))
    assert compilation_count() == before + 4


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0] * 2


def test_a_warning_names_a_module_that_cannot_be_captured():
    x = torch.tensor([1.0, -1.0, 2.0], device="hpu")
    traced = torch.jit.trace(Masked().eval(), x)
    with pytest.warns(
        UserWarning, match="^the traced module Masked cannot be captured as a graph, so it runs"
    ) as seen:
        assert traced(x).tolist() == [2, 4]
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert traced(-x).tolist() == [2]


def test_wrong_calls_raise_the_errors_of_the_module():
    traced = torch.jit.trace(torch.nn.Linear(4, 2).to("hpu"), torch.ones(3, 4, device="hpu"))
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        traced(torch.ones(3, 5, device="hpu"))
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor'"):
        traced("text")
    before = compilation_count()
    with torch.no_grad():  # after the failed calls, the module still uses graphs
        traced(torch.ones(3, 4, device="hpu"))
    assert compilation_count() == before + 1


def test_traced_module_is_saved_copied_and_moved():
    traced = torch.jit.trace(torch.nn.Linear(4, 2).to("hpu"), torch.ones(3, 4, device="hpu"))
    x = torch.randn(3, 4, device="hpu")
    expected = traced(x).detach()
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    for module in (torch.jit.load(file), copy.deepcopy(traced)):
        torch.testing.assert_close(module(x).detach(), expected)
    moved = traced.cpu()
    torch.testing.assert_close(moved(x.cpu()).detach(), expected.cpu(), rtol=1e-5, atol=1e-6)


def test_hooks_of_a_traced_module_run_at_each_call():
    traced = torch.jit.trace(torch.nn.Linear(4, 2).to("hpu"), torch.ones(3, 4, device="hpu"))
    called = []
    traced.register_forward_hook(lambda *args: called.append(1))
    for _ in range(3):
        traced(torch.ones(3, 4, device="hpu"))
    assert len(called) == 3


def test_boolean_indices_work_in_torchscript():
    """TorchScript passes the indices as a generic list, not as a list of optional tensors."""
    x = torch.tensor([1.0, -1.0, 2.0], device="hpu")
    scripted = torch.jit.script(_pick_by_condition)
    assert scripted(x).tolist() == [1.0, 2.0]


def _pick_by_condition(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]
