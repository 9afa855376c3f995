"""Test that a graphed callable has the values and gradients of the original, in every order of calls."""

from __future__ import annotations

import copy

import habana_frameworks.torch as ht
import pytest
import torch
from torch import nn

hpu = ht.hpu


def _mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Sigmoid(), nn.LayerNorm(8), nn.Linear(8, 3)).to("hpu")


def _graphed_copy(module, *args, **options):
    """Return a graphed copy of the module."""
    return hpu.make_graphed_callables(copy.deepcopy(module), args, **options)


def _random_input(*shape, grad=False):
    return torch.randn(*shape).to("hpu").requires_grad_(grad)


def _assert_same_gradients(mine, theirs):
    for (name, parameter), expected_parameter in zip(
        mine.named_parameters(), theirs.parameters(), strict=True
    ):
        torch.testing.assert_close(
            parameter.grad, expected_parameter.grad, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_values_and_gradients():
    module = _mlp()
    graphed = _graphed_copy(module, _random_input(4, 5, grad=True))
    for _ in range(3):
        x = _random_input(4, 5, grad=True)
        y = x.detach().clone().requires_grad_()
        mine, theirs = graphed(x), module(y)
        torch.testing.assert_close(mine, theirs)
        weight = torch.randn_like(theirs)
        (mine * weight).sum().backward()
        (theirs * weight).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
        _assert_same_gradients(graphed, module)


def test_the_graph_runs_and_not_the_module():
    calls = []

    class Counting(nn.Linear):
        def forward(self, x):
            calls.append(1)
            return super().forward(x)

    graphed = hpu.make_graphed_callables(Counting(3, 3).to("hpu"), (_random_input(2, 3),), warmups=2)
    assert len(calls) == 3
    graphed(_random_input(2, 3)).sum().backward()
    assert len(calls) == 3
    assert graphed.weight.grad is not None


def test_training_follows_the_optimizer():
    module = _mlp()
    graphed = _graphed_copy(module, _random_input(4, 5))
    for model in (module, graphed):
        torch.manual_seed(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        for _ in range(4):
            optimizer.zero_grad()
            model(_random_input(4, 5)).square().sum().backward()
            optimizer.step()
    for mine, theirs in zip(graphed.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_accumulate(set_to_none):
    module = _mlp()
    graphed = _graphed_copy(module, _random_input(4, 5))
    for model in (module, graphed):
        torch.manual_seed(1)
        for _ in range(2):
            model.zero_grad(set_to_none=set_to_none)
            for _ in range(3):
                model(_random_input(4, 5)).square().sum().backward()
    _assert_same_gradients(graphed, module)


def test_several_forward_passes_before_backward():
    module = _mlp()
    graphed = _graphed_copy(module, _random_input(4, 5))
    x, y = _random_input(4, 5), _random_input(4, 5)
    for model in (module, graphed):
        first, second = model(x), model(y)
        (first.square().sum() + second.exp().sum()).backward()
    _assert_same_gradients(graphed, module)


def test_results_stay_after_the_next_call():
    graphed = _graphed_copy(_mlp(), _random_input(4, 5))
    first = graphed(_random_input(4, 5))
    before = first.detach().clone()
    graphed(_random_input(4, 5))
    assert torch.equal(first, before)


def test_functions_and_several_results():
    def function(x, y):
        return x * y, x.detach() + 1, x

    graphed = hpu.make_graphed_callables(function, (_random_input(3, grad=True), _random_input(3, grad=True)))
    x, y = _random_input(3, grad=True), _random_input(3, grad=True)
    product, more, same = graphed(x, y)
    assert torch.equal(product, x * y)
    assert torch.equal(more, x + 1)
    assert torch.equal(same, x)
    assert not more.requires_grad
    (product.sum() + 2 * same.sum()).backward()
    torch.testing.assert_close(x.grad, y.detach() + 2)
    torch.testing.assert_close(y.grad, x.detach())


def test_several_callables_at_once():
    first, second = nn.Linear(3, 4).to("hpu"), nn.Linear(4, 2).to("hpu")
    reference_layers = copy.deepcopy(first), copy.deepcopy(second)
    graphed = hpu.make_graphed_callables(
        (first, second), ((_random_input(5, 3),), (_random_input(5, 4, grad=True),))
    )
    assert graphed[0] is first
    assert graphed[1] is second
    x = _random_input(5, 3)
    graphed[1](graphed[0](x).relu()).sum().backward()
    reference_layers[1](reference_layers[0](x).relu()).sum().backward()
    _assert_same_gradients(first, reference_layers[0])
    _assert_same_gradients(second, reference_layers[1])


def test_other_training_flag_runs_the_original():
    module = nn.Dropout(0.5).to("hpu")
    hpu.make_graphed_callables(module, (_random_input(50, grad=True),))
    x = torch.ones(50, device="hpu", requires_grad=True)
    assert (module(x) == 0).any()
    module.eval()
    assert (module(x) == 1).all()
    module.train()
    assert (module(x) == 0).any()


def test_dropout_differs_between_calls_and_backward_agrees_with_forward():
    module = nn.Dropout(0.5).to("hpu")
    hpu.make_graphed_callables(module, (_random_input(200, grad=True),))
    masks = []
    for _ in range(3):
        x = torch.ones(200, device="hpu", requires_grad=True)
        y = module(x)
        y.sum().backward()
        assert torch.equal(x.grad, y.detach())
        masks.append(y.detach())
    assert not torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[1], masks[2])


def test_batch_norm_updates_its_statistics():
    module = nn.BatchNorm1d(3).to("hpu")
    graphed = _graphed_copy(module, _random_input(6, 3))
    graphed.load_state_dict(module.state_dict())
    for _ in range(3):
        x = _random_input(6, 3)
        torch.testing.assert_close(graphed(x), module(x))
    torch.testing.assert_close(graphed.running_mean, module.running_mean)
    torch.testing.assert_close(graphed.num_batches_tracked, module.num_batches_tracked)


def test_gradients_of_any_layout():
    def function(x):
        return x.t() * 2

    graphed = hpu.make_graphed_callables(function, (_random_input(3, 4, grad=True),))
    x = _random_input(3, 4, grad=True)
    graphed(x).sum().backward()
    assert x.grad.tolist() == [[2.0] * 4] * 3
    (graphed(x) * torch.ones(4, 3, device="hpu")).sum().backward()
    assert x.grad.tolist() == [[4.0] * 4] * 3


def test_without_gradients():
    module = _mlp()
    graphed = _graphed_copy(module, _random_input(4, 5))
    x = _random_input(4, 5)
    with torch.no_grad():
        result = graphed(x)
    assert not result.requires_grad
    torch.testing.assert_close(result, module(x).detach())
    function = hpu.make_graphed_callables(lambda a: a + 1, (_random_input(3),))
    assert torch.equal(function(torch.zeros(3, device="hpu")), torch.ones(3, device="hpu"))


def test_inputs_without_gradient():
    def function(x, y):
        return x * 2

    samples = _random_input(3, grad=True), _random_input(3, grad=True)
    with pytest.raises(RuntimeError, match="allow_unused"):
        hpu.make_graphed_callables(function, samples)
    graphed = hpu.make_graphed_callables(function, samples, allow_unused_input=True)
    x, y = _random_input(3, grad=True), _random_input(3, grad=True)
    graphed(x, y).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert y.grad is None


def test_autocast():
    module = nn.Linear(4, 4).to("hpu")
    with torch.autocast("hpu"):
        graphed = _graphed_copy(module, _random_input(2, 4))
    x = _random_input(2, 4)
    with torch.autocast("hpu"):
        expected = module(x)
    result = graphed(x)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result, expected)
    result.float().sum().backward()
    expected.float().sum().backward()
    _assert_same_gradients(graphed, module)


@pytest.mark.parametrize(
    "options", [{"dry_run": True}, {"asynchronous": True}, {"disable_tensor_cache": True}]
)
def test_options(options):
    module = _mlp()
    graphed = _graphed_copy(module, _random_input(4, 5), **options)
    x = _random_input(4, 5)
    torch.testing.assert_close(graphed(x), module(x))
    graphed(x).square().sum().backward()
    module(x).square().sum().backward()
    _assert_same_gradients(graphed, module)


def test_unsupported_callables_raise():
    hooked = nn.Sequential(nn.Linear(2, 2)).to("hpu")
    hooked[0].register_forward_hook(lambda *arguments: None)
    with pytest.raises(AssertionError, match="Linear has hooks"):
        hpu.make_graphed_callables(hooked, (_random_input(1, 2),))
    buffered = nn.Linear(2, 2).to("hpu")
    buffered.register_buffer("extra", _random_input(2, grad=True))
    with pytest.raises(AssertionError, match="buffer extra requires grad"):
        hpu.make_graphed_callables(buffered, (_random_input(1, 2),))
    with pytest.raises(AssertionError, match="only tensors, but contain a int"):
        hpu.make_graphed_callables(lambda x, n: x * n, (_random_input(1), 2))
    with pytest.raises(AssertionError, match="one is on cpu"):
        hpu.make_graphed_callables(lambda x: x, (torch.ones(1),))
    with pytest.raises(AssertionError, match="2 callables and 1 tuples"):
        hpu.make_graphed_callables((nn.Identity(), nn.Identity()), ((_random_input(1),),))


def test_a_graphed_module_inside_a_capture():
    module = _mlp()
    graphed, x = _graphed_copy(module, _random_input(4, 5)), _random_input(4, 5)
    graph = hpu.HPUGraph()
    with hpu.graph(graph), torch.no_grad():
        y = graphed(x)
    x.fill_(0.5)
    graph.replay()
    torch.testing.assert_close(y, module(x).detach())


def test_other_shapes_are_errors():
    graphed = _graphed_copy(_mlp(), _random_input(4, 5))
    with pytest.raises(RuntimeError, match="input 0 of this graph"):
        graphed(_random_input(3, 5))


def test_backward_twice_with_a_retained_graph():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).to("hpu")
    sample = torch.randn(5, 3, device="hpu")
    expected = torch.autograd.grad(module(sample).sum(), list(module.parameters()))
    graphed = hpu.make_graphed_callables(module, (sample,))
    loss = graphed(sample).sum()
    for _ in range(2):
        for actual, wanted in zip(
            torch.autograd.grad(loss, list(module.parameters()), retain_graph=True), expected, strict=True
        ):
            torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize("changed", ["argument", "parameter"])
def test_a_change_between_forward_and_backward_is_an_error(changed):
    module = torch.nn.Linear(3, 2).to("hpu")
    graphed = hpu.make_graphed_callables(module, (torch.randn(5, 3, device="hpu", requires_grad=True),))
    x = torch.randn(5, 3, device="hpu").requires_grad_()
    argument = x * 1
    loss = graphed(argument).sum()
    with torch.no_grad():
        (argument if changed == "argument" else module.weight).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation: an argument or parameter"):
        loss.backward()
