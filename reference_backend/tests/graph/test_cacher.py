"""ModuleCacher and GraphModel."""

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


class Counted(nn.Module):
    """A small network that counts how often its Python code runs."""

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
    return Counted().to("hpu")


@pytest.fixture
def lazy(monkeypatch):
    """Graphs serve as in lazy mode; capture itself is the same in all modes."""
    monkeypatch.setattr(cacher_module, "is_lazy", lambda: True)


def _batch(rows):
    return torch.randn(rows, 3).to("hpu")


def _train(model, rows, **arguments):
    model(_batch(rows), **arguments).sum().backward()


def test_outside_lazy_mode_the_module_works_as_before(model):
    hpu.ModuleCacher(10)(model=model, inplace=True)
    _train(model, 2)
    _train(model, 2)
    assert model.calls == 2


@pytest.mark.usefixtures("lazy")
def test_each_shape_is_captured_once_and_trains_as_without(model):
    plain = copy.deepcopy(model)
    assert hpu.ModuleCacher()(model) is model
    optimizers = [torch.optim.SGD(network.parameters(), lr=0.1) for network in (model, plain)]
    for rows in (2, 3, 2, 2, 3, 4):
        x = _batch(rows)
        for network, optimizer in zip((model, plain), optimizers, strict=True):
            optimizer.zero_grad()
            network(x, scale=2.0).square().sum().backward()
            optimizer.step()
    assert (model.calls, plain.calls) == (3, 6)
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


class Dropped(nn.Module):
    """Draws random numbers in forward and, in `odd` calls, has a result that no graph can give."""

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
def test_one_seed_gives_the_numbers_of_the_module_without_cache(case):
    """In values and gradients, for the calls that capture and those that replay."""

    def train(cached):
        module = Dropped(odd=case == "no graph").to("hpu")
        if cached:
            hpu.ModuleCacher()(module, dry_run=case == "dry run")
        torch.manual_seed(0)
        seen = []
        for rows in (1, 1, 2, 1):
            result = module(torch.ones(rows, 8, device="hpu"))
            result = result.value if case == "no graph" else result
            result.sum().backward()
            seen += [result.detach().cpu(), module.layer.weight.grad.cpu()]
        return [*seen, torch.rand(3, device="hpu").cpu()]

    torch.testing.assert_close(train(cached=True), train(cached=False))


def test_one_seed_gives_the_numbers_of_a_function_without_graphs():
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
    _train(model, 2)
    model.eval()
    model(_batch(2))
    model.train()
    with torch.no_grad():
        model(_batch(2))
    assert model.calls == 3
    _train(model, 2)
    assert model.calls == 3


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize("use_lfu", [False, True])
def test_the_cache_drops_graphs(model, use_lfu):
    """Shape 2 is used most often and longest ago, when shape 4 needs room."""
    hpu.ModuleCacher(max_graphs=2)(model, use_lfu=use_lfu)
    for rows in (2, 2, 2, 3, 4):
        _train(model, rows)
    assert model.calls == 3
    _train(model, 4)
    assert model.calls == 3
    _train(model, 2)
    assert model.calls == (3 if use_lfu else 4)
    _train(model, 3)
    assert model.calls == (4 if use_lfu else 5)


@pytest.mark.usefixtures("lazy")
def test_not_in_place(model):
    cached = hpu.ModuleCacher()(model, inplace=False)
    assert cached is not model
    _train(cached, 2)
    _train(cached, 2)
    assert (cached.calls, model.calls) == (1, 0)
    _train(model, 2)
    assert model.calls == 1
    assert model.layers[0].weight is not cached.layers[0].weight


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_start_without_graphs_and_make_their_own(model, copied):
    hpu.ModuleCacher()(model)
    _train(model, 2)
    model.zero_grad()
    duplicate = copied(model)
    with torch.no_grad():
        duplicate.layers[0].weight.zero_()
    x = _batch(2)
    for _ in range(2):
        duplicate.zero_grad()
        duplicate(x).sum().backward()
    assert duplicate.calls == 2
    assert model.calls == 1
    assert model.layers[0].weight.grad is None
    torch.testing.assert_close(duplicate(x), Counted.forward(duplicate, x))


@pytest.mark.usefixtures("lazy")
def test_control_and_statistics(model, capsys):
    cacher = hpu.ModuleCacher()
    with pytest.raises(RuntimeError, match="Call it with a module first"):
        cacher.log_stats()
    cacher(model, verbose=True, log_frequency=2, have_grad_accumulation=True)
    _train(model, 2)
    model.capture_end()
    _train(model, 3)
    _train(model, 2)
    assert model.calls == 2
    cacher.capture_start()
    _train(model, 3)
    assert model.calls == 3
    model.set_iteration_count(7)
    capsys.readouterr()
    model.log_stats()
    assert capsys.readouterr().out == (
        "HPU graphs of Counted, iteration 7: 2 captured, 1 replayed, 1 calls without a graph, 0 removed\n"
    )


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize("way", ["argument", "variable"])
def test_dry_run(model, monkeypatch, way):
    if way == "variable":
        monkeypatch.setenv("PT_HPUGRAPH_ENABLE_DRY_RUN", "1")
    plain = copy.deepcopy(model)
    hpu.ModuleCacher()(model, dry_run=way == "argument")
    x = _batch(2)
    for one in (model, plain):
        one(x).square().sum().backward()
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.usefixtures("lazy")
def test_what_cannot_be_captured_is_refused(model):
    model.layers[0].register_forward_hook(lambda *arguments: None)
    hpu.ModuleCacher()(model)
    with pytest.raises(AssertionError, match="Linear has hooks"):
        _train(model, 2)


@pytest.mark.usefixtures("lazy")
def test_inputs_with_gradients_and_the_parts_of_a_network(model):
    head = Counted().to("hpu").layers[2]
    plain = copy.deepcopy(nn.ModuleList([model, head]))
    hpu.ModuleCacher()(model)
    hpu.ModuleCacher()(head)
    for _ in range(2):
        x = _batch(2)
        for first, second in ((model, head), plain):
            second(first.layers[0](x).relu()).sum().backward()
    for mine, theirs in zip(head.parameters(), plain[1].parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
    for mine, theirs in zip(model.parameters(), plain[0].parameters(), strict=True):
        if theirs.grad is not None:
            torch.testing.assert_close(mine.grad, theirs.grad)


def test_graph_model(model):
    plain = copy.deepcopy(model)
    graphed = hpu.GraphModel(model)
    x = _batch(2)
    for call in (lambda m: m(x, 2.0), lambda m: m(x=x, scale=2.0), lambda m: m(x, scale=2.0)):
        call(graphed).square().sum().backward()
        call(plain).square().sum().backward()
    assert (model.calls, plain.calls) == (1, 3)
    for mine, theirs in zip(graphed.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
    graphed.eval()
    torch.testing.assert_close(graphed(x), plain(x))
    assert model.calls == 2


def test_graph_model_refuses():
    class Variadic(nn.Module):
        def forward(self, *args):
            return args

    with pytest.raises(AssertionError, match=r"forward of Variadic takes \*args"):
        hpu.GraphModel(Variadic())
    with pytest.raises(AssertionError, match="DataParallel"):
        hpu.GraphModel(nn.DataParallel(nn.Linear(1, 1)))
