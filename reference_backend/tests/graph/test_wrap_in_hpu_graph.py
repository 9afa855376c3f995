"""Test `wrap_in_hpu_graph`: one graph for each combination of shapes, layouts, Python values and modes."""

from __future__ import annotations

import collections
import inspect

import habana_frameworks.torch as ht
import pytest
import torch
from torch import nn

hpu = ht.hpu


class ForwardCounter(nn.Module):
    """A linear layer that counts the calls of its Python code."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 2)
        self.calls = 0

    def forward(self, x, scale=1.0, mode="plain"):
        self.calls += 1
        out = self.layer(x) * scale
        return out.relu() if mode == "relu" else out


@pytest.fixture
def module():
    return ForwardCounter().to("hpu").eval()


def _expected_result(module, x, scale=1.0):
    return (x @ module.layer.weight.t() + module.layer.bias) * scale


def test_first_call_captures_and_later_calls_replay(module):
    assert hpu.wrap_in_hpu_graph(module) is module
    for _ in range(3):
        x = torch.randn(4, 3).to("hpu")
        with torch.no_grad():
            torch.testing.assert_close(module(x), _expected_result(module, x))
    assert module.calls == 1
    assert list(inspect.signature(module.forward).parameters) == ["x", "scale", "mode"]


def test_replay_uses_changed_weights(module):
    hpu.wrap_in_hpu_graph(module)
    x = torch.randn(4, 3).to("hpu")
    module(x)
    with torch.no_grad():
        module.layer.weight.fill_(2)
        torch.testing.assert_close(module(x), _expected_result(module, x))
    assert module.calls == 1


@torch.no_grad()
def test_each_kind_of_input_has_a_graph(module):
    hpu.wrap_in_hpu_graph(module)
    kinds = [
        lambda: module(torch.ones(4, 3, device="hpu")),
        lambda: module(torch.ones(5, 3, device="hpu")),
        lambda: module(torch.ones(3, 4, device="hpu").t()),
        lambda: module(torch.ones(4, 3, device="hpu"), 2.0),
        lambda: module(torch.ones(4, 3, device="hpu"), scale=2.0),
        lambda: module(torch.ones(4, 3, device="hpu"), mode="relu"),
    ]
    for number, call in enumerate(kinds, 1):
        call()
        assert module.calls == number
    for call in kinds:
        call()
    assert module.calls == len(kinds)
    with torch.autocast("hpu"):
        assert kinds[0]().dtype == torch.bfloat16
    assert module.calls == len(kinds) + 1
    module.train()
    kinds[0]()
    assert module.calls == len(kinds) + 2


def test_results_are_overwritten_by_the_next_replay(module):
    hpu.wrap_in_hpu_graph(module)
    first = module(torch.zeros(4, 3, device="hpu"))
    second = module(torch.ones(4, 3, device="hpu"))
    assert first.data_ptr() == second.data_ptr()
    assert torch.equal(first, second)


@pytest.mark.parametrize("way", ["argument", "variable"])
def test_results_are_new_without_tensor_cache(module, monkeypatch, way):
    if way == "variable":
        monkeypatch.setenv("PT_HPUGRAPH_DISABLE_TENSOR_CACHE", "1")
    hpu.wrap_in_hpu_graph(module, disable_tensor_cache=way == "argument")
    inputs = [torch.full((4, 3), float(number), device="hpu") for number in range(3)]
    results = [module(x) for x in inputs]
    for x, result in zip(inputs, results, strict=True):
        torch.testing.assert_close(result, _expected_result(module, x).detach())
    assert module.calls == 1


def test_results_do_not_require_grad(module):
    hpu.wrap_in_hpu_graph(module)
    x = torch.ones(4, 3, device="hpu", requires_grad=True)
    assert [module(x).requires_grad, module(x).requires_grad] == [False, False]


def test_inputs_changed_in_place():
    def append(cache, position, value):
        cache.index_copy_(0, position, value)
        return cache.sum()

    wrapped = hpu.wrap_in_hpu_graph_func(append, disable_tensor_cache=True)
    for _ in range(2):
        cache = torch.zeros(4, 2, device="hpu")
        for step in range(3):
            position = torch.tensor([step], device="hpu")
            total = wrapped(cache, position, torch.full((1, 2), step + 1.0, device="hpu"))
        assert cache.tolist() == [[1, 1], [2, 2], [3, 3], [0, 0]]
        assert total.item() == 12


def test_nested_inputs_and_results():
    Result = collections.namedtuple("Result", "value rest")

    def function(batch, *, flags=()):
        return Result(batch["a"] + batch["b"][0], {"n": len(flags), "same": batch["a"]})

    wrapped = hpu.wrap_in_hpu_graph_func(function)
    for number in range(3):
        a = torch.full((2,), float(number), device="hpu")
        result = wrapped({"a": a, "b": [torch.ones(2, device="hpu")]}, flags=(1, 2))
        assert type(result) is Result
        assert result.value.tolist() == [number + 1.0] * 2
        assert result.rest["n"] == 2
        assert result.rest["same"].tolist() == a.tolist()


@pytest.mark.parametrize("disable_tensor_cache", [False, True])
def test_operators_with_several_results(disable_tensor_cache):
    wrapped = hpu.wrap_in_hpu_graph_func(
        lambda x: torch.topk(x, 1), disable_tensor_cache=disable_tensor_cache
    )
    for values in ([1.0, 2.0, 3.0], [7.0, 5.0, 6.0]):
        top = wrapped(torch.tensor(values, device="hpu"))
        assert (top.values.item(), top.indices.item()) == (max(values), values.index(max(values)))


def test_results_that_may_hide_tensors_run_without_graph():
    class Box:
        def __init__(self, value):
            self.value = value

    wrapped = hpu.wrap_in_hpu_graph_func(lambda x: Box(x + 1))
    assert [wrapped(torch.full((1,), n, device="hpu")).value.item() for n in (1.0, 2.0, 3.0)] == [2, 3, 4]


def test_values_on_the_host_are_not_frozen():
    wrapped = hpu.wrap_in_hpu_graph_func(lambda x, t: x + t.to("hpu") if t.dim() else x + t)
    x = torch.zeros(2, device="hpu")
    for value in (1.0, 2.0, 1.0):
        assert wrapped(x, torch.tensor(value)).tolist() == [value] * 2
        assert wrapped(x, torch.full((2,), value)).tolist() == [value] * 2


def test_results_on_the_host_pass_through():
    wrapped = hpu.wrap_in_hpu_graph_func(lambda x, t: (t, x + t, t + 1), disable_tensor_cache=True)
    for number in (1.0, 2.0):
        same, new, host = wrapped(torch.full((2,), number, device="hpu"), torch.tensor(3.0))
        assert (same.item(), new.tolist(), host.item()) == (3.0, [number + 3] * 2, 4.0)


def test_max_graphs(module):
    hpu.wrap_in_hpu_graph(module, max_graphs=1)
    first, second = torch.ones(1, 3, device="hpu"), torch.ones(2, 3, device="hpu")
    for x in (first, second, second, first):
        torch.testing.assert_close(module(x).detach(), _expected_result(module, x).detach())
    assert module.calls == 3


def test_bypass(module):
    hpu.wrap_in_hpu_graph(module)
    x = torch.ones(4, 3, device="hpu")
    assert module(x, bypass_hpu_graphs=True).requires_grad
    module(x, warmup_mode=True, cache_tensors_list=[])
    assert module.calls == 2
    module(x)
    assert module.calls == 2


def test_clear_cache(module):
    hpu.wrap_in_hpu_graph(module)
    x = torch.ones(4, 3, device="hpu")
    module(x)
    module.clear_cache()
    module(x)
    assert module.calls == 2


def test_clear_inputs(module):
    hpu.wrap_in_hpu_graph(module, disable_tensor_cache=True)
    before = hpu.memory_allocated()
    module(torch.ones(1 << 16, 3, device="hpu"))
    module.clear_inputs()
    assert hpu.memory_allocated() - before < (1 << 16) * 3 * 4
    x = torch.full((1 << 16, 3), 2.0, device="hpu")
    torch.testing.assert_close(module(x), _expected_result(module, x).detach())
    assert module.calls == 1


@pytest.mark.parametrize("way", ["argument", "variable"])
def test_dry_run_gives_the_same_results(module, monkeypatch, way):
    if way == "variable":
        monkeypatch.setenv("PT_HPUGRAPH_ENABLE_DRY_RUN", "1")
    hpu.wrap_in_hpu_graph(module, dry_run=True if way == "argument" else None)
    for number in (1.0, 2.0):
        x = torch.full((4, 3), number, device="hpu")
        torch.testing.assert_close(module(x), _expected_result(module, x).detach())
    assert module.calls == 1


def test_asynchronous(module):
    hpu.wrap_in_hpu_graph(module, asynchronous=True)
    for number in (1.0, 2.0):
        x = torch.full((4, 3), number, device="hpu")
        torch.testing.assert_close(module(x), _expected_result(module, x).detach())


def test_a_wrapped_module_inside_a_capture(module):
    hpu.wrap_in_hpu_graph(module)
    x = torch.ones(4, 3, device="hpu")
    graph = hpu.HPUGraph()
    with hpu.graph(graph), torch.no_grad():
        y = module(x) + 1
    x.fill_(3)
    graph.replay()
    torch.testing.assert_close(y, _expected_result(module, x).detach() + 1)


def test_verbose(module, capsys):
    hpu.wrap_in_hpu_graph(module, verbose=True, log_frequency=2)
    for _ in range(4):
        module(torch.ones(4, 3, device="hpu"))
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == "HPU graphs: 1 captured, 1 replayed, 0 calls without a graph"
    )


def test_transformer_layer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0).eval()
    inputs = [torch.randn(2, 6, 16) for _ in range(3)]
    with torch.no_grad():
        expected = [layer(x) for x in inputs]
        wrapped = hpu.wrap_in_hpu_graph(layer.to("hpu"), disable_tensor_cache=True)
        for x, value in zip(inputs, expected, strict=True):
            torch.testing.assert_close(wrapped(x.to("hpu")).cpu(), value, rtol=1e-5, atol=1e-5)
