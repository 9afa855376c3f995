"""Test compiled training: optimizers, dropout, and the documentation's MNIST example on random data."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn


class MnistNet(nn.Module):
    """The network of the MNIST example, with fewer channels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, 1)
        self.conv2 = nn.Conv2d(4, 8, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(8 * 5 * 5, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(self.dropout2(x)), dim=1)


@pytest.mark.nightly("each case compiles and trains a model", every=2)
def test_mnist_example(compiled) -> None:
    data, target = torch.randn(32, 1, 14, 14), torch.arange(32) % 10
    model = MnistNet().to("hpu")
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    model.train()
    compiled_model = compiled(model)

    def train_function(data: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.nll_loss(compiled_model(data), target)
        loss.backward()
        optimizer.step()
        return loss

    losses = [train_function(data.to("hpu"), target.to("hpu")).item() for _ in range(30)]
    assert losses[-1] < losses[0] * 0.75
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled_model(data.to("hpu")).cpu(), copy.deepcopy(model).cpu()(data))


@pytest.mark.nightly("each case compiles an optimizer", every=3)
@pytest.mark.parametrize(
    "optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW], ids=lambda o: o.__name__
)
def test_compiled_optimizer_step(optimizer, compiled) -> None:
    ours = nn.Linear(6, 3).to("hpu")
    theirs = copy.deepcopy(ours)
    x = torch.randn(4, 6, device="hpu")
    optimizers = [optimizer(model.parameters(), lr=0.05) for model in (ours, theirs)]

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.step()

    function = compiled(step)
    for _ in range(3):
        for model in (ours, theirs):
            model.zero_grad()
            model(x).square().sum().backward()
        function(ours, optimizers[0])
        optimizers[1].step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_gradients_add_up_over_calls(interpreted) -> None:
    layer = nn.Linear(3, 2).to("hpu")
    function = interpreted(layer)
    x = torch.ones(1, 3, device="hpu")
    for _ in range(3):
        function(x).sum().backward()
    assert layer.weight.grad.tolist() == [[3.0] * 3] * 2


def test_checkpointed_dropout(compiled) -> None:
    from torch.utils.checkpoint import checkpoint

    def block(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x.sin(), 0.5, training=True).cos()

    program = compiled(lambda x: checkpoint(block, x, use_reentrant=False))
    x = torch.full((1000,), 2.0, device="hpu", requires_grad=True)
    y = program(x)
    y.sum().backward()
    # A dropped element has the result cos(0) = 1 and the gradient 0. The assertion therefore compares the
    # dropout masks of the forward pass and of the backward pass.
    assert torch.equal(y == 1, x.grad == 0)
    assert 300 < int((y == 1).sum()) < 700


def test_control_flow_operators(compiled) -> None:
    def choose(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x * 1,)) + 1

    program = compiled(choose)
    assert program(torch.ones(2, device="hpu")).tolist() == [3, 3]
    assert program(-torch.ones(2, device="hpu")).tolist() == [-1, -1]


def test_backward_passes_in_reverse_order(compiled) -> None:
    program = compiled(lambda x: (x * x).sum())
    x = torch.ones(3, device="hpu", requires_grad=True)
    first, second = program(x), program(x * 2)
    second.backward()
    first.backward()
    assert x.grad.tolist() == [10, 10, 10]


def test_gradient_twice_over_the_same_graph(interpreted) -> None:
    program = interpreted(lambda x: (x * x).sum())
    x = torch.ones(3, device="hpu", requires_grad=True)
    y = program(x)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 4, 4]
