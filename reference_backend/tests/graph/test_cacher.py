"""Test `ModuleCacher` and `GraphModel`: they capture each input shape once and train like the module."""

from __future__ import annotations

import copy
import pickle
import types

import habana_frameworks.torch as ht
import pytest
import torch
from habana_frameworks.torch.hpu.graphs import cacher as cacher_module
from torch import nn

hpu = ht.hpu


class ForwardCounter(nn.Module):
    """A small network that counts the calls of its Python code."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.calls = 0

    def forward(self, x, scale=1.0):
        self.calls += 1
        return self.layers(x) * scale


@pytest.fixture
def model():
    return ForwardCounter().to("hpu")


@pytest.fixture
def lazy(monkeypatch):
    """Make `ModuleCacher` act as in lazy mode. The capture itself is the same in all modes."""
    monkeypatch.setattr(cacher_module, "is_lazy", lambda: True)


def _random_batch(rows):
    return torch.randn(rows, 3).to("hpu")


def _run_forward_and_backward(model, rows, **arguments):
    model(_random_batch(rows), **arguments).sum().backward()


def test_outside_lazy_mode_the_module_works_as_before(model):
    hpu.ModuleCacher(10)(model=model, inplace=True)
    _run_forward_and_backward(model, 2)
    _run_forward_and_backward(model, 2)
    assert model.calls == 2


@pytest.mark.usefixtures("lazy")
def test_each_shape_is_captured_once_and_trains_like_the_module(model):
    reference_model = copy.deepcopy(model)
    assert hpu.ModuleCacher()(model) is model
    optimizers = [torch.optim.SGD(network.parameters(), lr=0.1) for network in (model, reference_model)]
    for rows in (2, 3, 2, 2, 3, 4):
        x = _random_batch(rows)
        for network, optimizer in zip((model, reference_model), optimizers, strict=True):
            optimizer.zero_grad()
            network(x, scale=2.0).square().sum().backward()
            optimizer.step()
    assert (model.calls, reference_model.calls) == (3, 6)
    for mine, theirs in zip(model.parameters(), reference_model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


class LayerWithDropout(nn.Module):
    """A layer followed by dropout. If `odd` is true, the result is an object that no graph can return."""

    def __init__(self, odd=False):
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(8, 8)
        self.odd = odd

    def forward(self, x):
        y = nn.functional.dropout(self.layer(x), 0.5)
        return types.SimpleNamespace(value=y) if self.odd else y


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize("case", ["captured", "dry run", "no graph"])
def test_cached_module_draws_the_numbers_of_the_module(case):
    """Values and gradients equal the uncached module's, in calls that capture and in calls that replay."""

    def train_and_collect(cached):
        module = LayerWithDropout(odd=case == "no graph").to("hpu")
        if cached:
            hpu.ModuleCacher()(module, dry_run=case == "dry run")
        torch.manual_seed(0)
        results = []
        for rows in (1, 1, 2, 1):
            result = module(torch.ones(rows, 8, device="hpu"))
            result = result.value if case == "no graph" else result
            result.sum().backward()
            results += [result.detach().cpu(), module.layer.weight.grad.cpu()]
        return [*results, torch.rand(3, device="hpu").cpu()]

    torch.testing.assert_close(train_and_collect(cached=True), train_and_collect(cached=False))


def test_graphed_function_draws_the_numbers_of_the_function():
    def function(x):
        return nn.functional.dropout(x * 2, 0.5)

    x = torch.ones(16, device="hpu", requires_grad=True)
    torch.manual_seed(0)
    graphed = hpu.make_graphed_callables(function, (x,), warmups=2)
    actual = [graphed(x) for _ in range(3)]
    torch.manual_seed(0)
    torch.testing.assert_close(actual, [function(x) for _ in range(3)])


@pytest.mark.usefixtures("lazy")
def test_evaluation_runs_without_graphs(model):
    hpu.ModuleCacher()(model)
    _run_forward_and_backward(model, 2)
    model.eval()
    model(_random_batch(2))
    model.train()
    with torch.no_grad():
        model(_random_batch(2))
    assert model.calls == 3
    _run_forward_and_backward(model, 2)
    assert model.calls == 3


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize("use_lfu", [False, True])
def test_full_cache_evicts_graphs(model, use_lfu):
    """When shape 4 (4 rows) needs room, shape 2 was used more often than shape 3, but less recently."""
    hpu.ModuleCacher(max_graphs=2)(model, use_lfu=use_lfu)
    for rows in (2, 2, 2, 3, 4):
        _run_forward_and_backward(model, rows)
    assert model.calls == 3
    _run_forward_and_backward(model, 4)
    assert model.calls == 3
    _run_forward_and_backward(model, 2)
    assert model.calls == (3 if use_lfu else 4)
    _run_forward_and_backward(model, 3)
    assert model.calls == (4 if use_lfu else 5)


@pytest.mark.usefixtures("lazy")
def test_copy_is_cached_if_not_in_place(model):
    cached = hpu.ModuleCacher()(model, inplace=False)
    assert cached is not model
    _run_forward_and_backward(cached, 2)
    _run_forward_and_backward(cached, 2)
    assert (cached.calls, model.calls) == (1, 0)
    _run_forward_and_backward(model, 2)
    assert model.calls == 1
    assert model.layers[0].weight is not cached.layers[0].weight


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_capture_their_own_graphs(model, copied):
    hpu.ModuleCacher()(model)
    _run_forward_and_backward(model, 2)
    model.zero_grad()
    duplicate = copied(model)
    with torch.no_grad():
        duplicate.layers[0].weight.zero_()
    x = _random_batch(2)
    for _ in range(2):
        duplicate.zero_grad()
        duplicate(x).sum().backward()
    assert duplicate.calls == 2
    assert model.calls == 1
    assert model.layers[0].weight.grad is None
    torch.testing.assert_close(duplicate(x), ForwardCounter.forward(duplicate, x))


@pytest.mark.usefixtures("lazy")
def test_control_and_statistics(model, capsys):
    cacher = hpu.ModuleCacher()
    with pytest.raises(RuntimeError, match="Call it with a module first"):
        cacher.log_stats()
    cacher(model, verbose=True, log_frequency=2, have_grad_accumulation=True)
    _run_forward_and_backward(model, 2)
    model.capture_end()
    _run_forward_and_backward(model, 3)
    _run_forward_and_backward(model, 2)
    assert model.calls == 2
    cacher.capture_start()
    _run_forward_and_backward(model, 3)
    assert model.calls == 3
    model.set_iteration_count(7)
    capsys.readouterr()
    model.log_stats()
    assert capsys.readouterr().out == (
        "HPU graphs of ForwardCounter, iteration 7: "
        "2 captured, 1 replayed, 1 calls without a graph, 0 removed\n"
    )


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize("way", ["argument", "variable"])
def test_dry_run(model, monkeypatch, way):
    if way == "variable":
        monkeypatch.setenv("PT_HPUGRAPH_ENABLE_DRY_RUN", "1")
    reference_model = copy.deepcopy(model)
    hpu.ModuleCacher()(model, dry_run=way == "argument")
    x = _random_batch(2)
    for network in (model, reference_model):
        network(x).square().sum().backward()
    for mine, theirs in zip(model.parameters(), reference_model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.usefixtures("lazy")
def test_module_with_hooks_raises(model):
    model.layers[0].register_forward_hook(lambda *arguments: None)
    hpu.ModuleCacher()(model)
    with pytest.raises(AssertionError, match="Linear has hooks"):
        _run_forward_and_backward(model, 2)


@pytest.mark.usefixtures("lazy")
def test_cached_submodules_with_input_gradients(model):
    head = ForwardCounter().to("hpu").layers[2]
    reference_layers = copy.deepcopy(nn.ModuleList([model, head]))
    hpu.ModuleCacher()(model)
    hpu.ModuleCacher()(head)
    for _ in range(2):
        x = _random_batch(2)
        for first, second in ((model, head), reference_layers):
            second(first.layers[0](x).relu()).sum().backward()
    for mine, theirs in zip(head.parameters(), reference_layers[1].parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
    for mine, theirs in zip(model.parameters(), reference_layers[0].parameters(), strict=True):
        if theirs.grad is not None:
            torch.testing.assert_close(mine.grad, theirs.grad)


def test_graph_model(model):
    reference_model = copy.deepcopy(model)
    graphed = hpu.GraphModel(model)
    x = _random_batch(2)
    for call in (lambda m: m(x, 2.0), lambda m: m(x=x, scale=2.0), lambda m: m(x, scale=2.0)):
        call(graphed).square().sum().backward()
        call(reference_model).square().sum().backward()
    assert (model.calls, reference_model.calls) == (1, 3)
    for mine, theirs in zip(graphed.parameters(), reference_model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
    graphed.eval()
    torch.testing.assert_close(graphed(x), reference_model(x))
    assert model.calls == 2


def test_graph_model_rejects_unsupported_modules():
    class Variadic(nn.Module):
        def forward(self, *args):
            return args

    with pytest.raises(AssertionError, match=r"forward of Variadic takes \*args"):
        hpu.GraphModel(Variadic())
    with pytest.raises(AssertionError, match="DataParallel"):
        hpu.GraphModel(nn.DataParallel(nn.Linear(1, 1)))


def test_a_cacher_without_graphs_is_named():
    with pytest.warns(RuntimeWarning, match="max_graphs is 0, so that no graph is captured"):
        ht.hpu.ModuleCacher(max_graphs=0)
