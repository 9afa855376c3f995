"""Run the examples of Lightning's page "Accelerator: HPU Training", which use HPU graphs.

The code of the examples is unchanged. This file adds the parts that the page omits (sizes, network, data),
and replaces the few parts of Lightning that the examples use.
"""

from __future__ import annotations

import random

import habana_frameworks.torch.core as htcore
import pytest
import torch
import torch.nn.functional as F
from habana_frameworks.torch.hpu.graphs import cacher
from torch import nn

BATCH = 4


class NetHPUGraphs(nn.Module):
    """The network of the examples."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 8)
        self.fc2 = nn.Linear(8, 5)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


class LightningModule(nn.Module):
    """The part of Lightning's class that the examples use."""

    def __init__(self):
        super().__init__()
        self.logged, self.current_epoch = [], 0

    def log(self, name, value):
        self.logged.append(value.item())

    def optimizers(self):
        return self._optimizer


def train(module, batches, epochs=2):
    """Run the part of `Trainer.fit` that the examples need."""
    module._optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for module.current_epoch in range(epochs):
        for batch_idx, batch in enumerate(batches):
            module.training_step(batch, batch_idx)


def _random_batches(count=4, sizes=(BATCH,)):
    torch.manual_seed(1)
    rows = [sizes[number % len(sizes)] for number in range(count)]
    return [(torch.randn(n, 6).to("hpu"), torch.randint(5, (n,)).to("hpu")) for n in rows]


def _assert_same_parameters(mine, theirs):
    for parameter, expected_parameter in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected_parameter)


@pytest.fixture
def lazy(monkeypatch):
    """Make ``ModuleCacher`` act as in lazy mode. It is active only in lazy mode."""
    monkeypatch.setattr(cacher, "is_lazy", lambda: True)


def test_capture_and_replay_training():
    class HPUGraphsModel(LightningModule):
        def __init__(self, batch_size=BATCH):
            super().__init__()
            self.net = NetHPUGraphs()
            # Create a HPUGraph instance
            self.g = htcore.hpu.HPUGraph()
            # Placeholders for capture. Should be compliant with data and target dims
            self.static_input = torch.rand(batch_size, 6, device="hpu")
            self.static_target = torch.randint(5, (batch_size,), device="hpu")
            # result is available in static_loss tensor after graph is replayed
            self.static_loss = None
            # Set manual optimization training
            self.automatic_optimization = False
            self.training_step = self.train_with_capture_and_replay

        def forward(self, x):
            return self.net(x)

        def train_with_capture_and_replay(self, batch, batch_idx):
            """Manual optimization training step"""
            optimizer = self.optimizers()
            if batch_idx == 0 and self.current_epoch == 0:
                optimizer.zero_grad(set_to_none=True)
                # Capture graphs using HPUGraph ContextManager.
                # Alternatively, use HPUGraph.capture_begin() and HPUGraph.capture_end()
                with htcore.hpu.graph(self.g):
                    static_y_pred = self(self.static_input)
                    self.static_loss = F.cross_entropy(static_y_pred, self.static_target)
                    self.static_loss.backward()
                    optimizer.step()
                    return self.static_loss
            else:
                # Replay the graph
                # data must be copied to existing tensors that were used in the capture phase
                data, target = batch
                self.static_input.copy_(data)
                self.static_target.copy_(target)
                self.g.replay()
                self.log("train_loss", self.static_loss)
                return self.static_loss

    torch.manual_seed(0)
    model = HPUGraphsModel().to("hpu")
    reference_net = NetHPUGraphs().to("hpu")
    reference_net.load_state_dict(model.net.state_dict())
    batches = _random_batches()
    fitted_batches = [(model.static_input.clone(), model.static_target.clone()), *batches[1:], *batches]
    train(model, batches)
    optimizer, losses = torch.optim.SGD(reference_net.parameters(), lr=0.1), []
    for data, target in fitted_batches:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(reference_net(data), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert model.logged == pytest.approx(losses[1:], rel=1e-5)
    _assert_same_parameters(model, reference_net)


def test_capture_and_replay_training_with_begin_and_end():
    """Test ``capture_begin`` and ``capture_end``, which a comment in the example names as an alternative."""
    torch.manual_seed(0)
    model = NetHPUGraphs().to("hpu")
    (data, target), *rest = _random_batches()
    g = htcore.hpu.HPUGraph()
    g.capture_begin()
    loss = F.cross_entropy(model(data), target)
    g.capture_end()
    for batch in rest:
        data.copy_(batch[0])
        target.copy_(batch[1])
        g.replay()
        assert loss.item() == pytest.approx(F.cross_entropy(model(batch[0]), batch[1]).item(), rel=1e-5)


def test_make_graphed_callables():
    class HPUGraphsModel(LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.net = NetHPUGraphs()

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            optimizer.zero_grad()
            loss = F.cross_entropy(self(batch[0]), batch[1])
            loss.backward()
            optimizer.step()
            self.log("train_loss", loss)

    reference_model = HPUGraphsModel().to(torch.device("hpu"))
    # model and sample_args as input to make_graphed_callables.
    model = HPUGraphsModel().to(torch.device("hpu"))
    x = torch.randn(BATCH, 6, device="hpu")
    model = htcore.hpu.make_graphed_callables(model, (x,))
    train(model, _random_batches())
    train(reference_model, _random_batches())
    assert model.logged == pytest.approx(reference_model.logged, rel=1e-5)
    _assert_same_parameters(model, reference_model)


@pytest.mark.usefixtures("lazy")
def test_module_cacher_with_changing_shapes():
    class HPUGraphsModel(LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.net = NetHPUGraphs()

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(self(batch[0]), batch[1])
            loss.backward()
            optimizer.step()
            self.log("train_loss", loss)

    max_graphs = 2
    reference_model = HPUGraphsModel().to("hpu")
    # model is given an input to ModuleCacher.
    model = HPUGraphsModel().to("hpu")
    htcore.hpu.ModuleCacher(max_graphs)(model=model, inplace=True)
    train(model, _random_batches(6, sizes=(4, 3, 4, 2)))
    train(reference_model, _random_batches(6, sizes=(4, 3, 4, 2)))
    assert model.logged == pytest.approx(reference_model.logged, rel=1e-5)
    _assert_same_parameters(model, reference_model)
    assert model.forward.hits > 0
    assert model.forward.evictions > 0


def test_capture_and_replay_inference():
    class HPUGraphsModel(LightningModule):
        def __init__(self, batch_size=BATCH):
            super().__init__()
            self.net = NetHPUGraphs()
            # Create a HPUGraph object
            self.g = htcore.hpu.HPUGraph()
            # Placeholders for capture. Should be compliant with data and target dims
            self.static_input = torch.rand(batch_size, 6, device="hpu")
            self.static_target = torch.randint(5, (batch_size,), device="hpu")
            # Placeholder to store predictions after graph is replayed
            self.static_y_pred = torch.rand(batch_size, 5, device="hpu")
            # loss is available in static_loss tensor after graph is replayed
            self.static_loss = None

        def forward(self, x):
            return self.net(x)

        def test_step(self, batch, batch_idx):
            """Test step"""
            x, y = batch
            if batch_idx == 0:
                with htcore.hpu.graph(self.g):
                    static_y_pred = self.forward(self.static_input)
                    self.static_loss = F.cross_entropy(static_y_pred, self.static_target)
            else:
                self.static_input.copy_(x)
                self.static_target.copy_(y)
                self.g.replay()

    model = HPUGraphsModel().to("hpu").eval()
    with torch.no_grad():
        for batch_idx, batch in enumerate(_random_batches()):
            model.test_step(batch, batch_idx)
            if batch_idx:
                expected = F.cross_entropy(model(batch[0]), batch[1]).item()
                assert model.static_loss.item() == pytest.approx(expected, rel=1e-5)


def test_wrap_in_hpu_graph():
    torch.manual_seed(0)
    reference_net = NetHPUGraphs().to("hpu")
    model = NetHPUGraphs().to(torch.device("hpu"))
    model.load_state_dict(reference_net.state_dict())
    model = htcore.hpu.wrap_in_hpu_graph(model, asynchronous=False, disable_tensor_cache=True)
    with torch.no_grad():
        for data, _ in _random_batches():
            torch.testing.assert_close(model(data), reference_net(data))


@pytest.mark.usefixtures("lazy")
def test_dynamic_control_flow():
    max_graphs = 10

    class HPUGraphsModel(LightningModule):
        def __init__(self, cached):
            super().__init__()
            torch.manual_seed(0)
            # Break Model into separate HPU Graphs for each control flow.
            self.module1 = NetHPUGraphs()
            self.module2 = nn.Identity()
            self.module3 = nn.ReLU()
            if cached:
                htcore.hpu.ModuleCacher(max_graphs)(model=self.module1, inplace=True)
                htcore.hpu.ModuleCacher(max_graphs)(model=self.module2, inplace=True)
                htcore.hpu.ModuleCacher(max_graphs)(model=self.module3, inplace=True)
            self.automatic_optimization = False
            self.training_step = self.dynamic_control_flow_training_step

        def dynamic_control_flow_training_step(self, batch, batch_idx):
            """Training step with HPU Graphs and Dynamic control flow"""
            optimizer = self.optimizers()
            data, target = batch
            optimizer.zero_grad(set_to_none=True)
            # Train with HPU Graph
            tmp = self.module1(data)

            # dynamic control flow
            if random.random() > 0.5:  # noqa: SIM108
                tmp = self.module2(tmp)  # forward ops run as a graph
            else:
                tmp = self.module3(tmp)  # forward ops run as a graph

            loss = F.cross_entropy(tmp, target)
            loss.backward()
            optimizer.step()
            self.log("train_loss", loss)
            return loss

    models = [HPUGraphsModel(cached).to("hpu") for cached in (True, False)]
    for model in models:
        random.seed(3)
        train(model, _random_batches(6))
    assert models[0].logged == pytest.approx(models[1].logged, rel=1e-5)
    _assert_same_parameters(*models)
    assert models[0].module1.forward.hits == 11
    assert all(module.forward.hits > 0 for module in (models[0].module2, models[0].module3))


@pytest.mark.usefixtures("lazy")
def test_dynamic_ops():
    max_graphs = 10

    class HPUGraphsModel(LightningModule):
        def __init__(self, cached):
            super().__init__()
            torch.manual_seed(0)
            # Encapsulate dynamic ops between two separate HPU Graph modules,
            # instead of using one single HPU Graph for whole model
            self.module1 = NetHPUGraphs()
            self.module2 = nn.Identity()
            if cached:
                htcore.hpu.ModuleCacher(max_graphs)(model=self.module1, inplace=True)
                htcore.hpu.ModuleCacher(max_graphs)(model=self.module2, inplace=True)
            self.automatic_optimization = False
            self.training_step = self.dynamic_ops_training_step

        def dynamic_ops_training_step(self, batch, batch_idx):
            """Training step with HPU Graphs and Dynamic ops"""
            optimizer = self.optimizers()
            data, _target = batch
            optimizer.zero_grad(set_to_none=True)
            # Train with HPU graph module
            tmp = self.module1(data)

            # Dynamic op
            htcore.mark_step()
            tmp = tmp[torch.where(tmp < 0)]
            htcore.mark_step()

            # Resume training with HPU graph module
            tmp = self.module2(tmp)
            # The targets of the example do not fit here, so the loss uses only the selected values.
            loss = tmp.square().mean()
            loss.backward()
            optimizer.step()
            self.log("train_loss", loss)
            return loss

    models = [HPUGraphsModel(cached).to("hpu") for cached in (True, False)]
    for model in models:
        train(model, _random_batches(4))
    assert models[0].logged == pytest.approx(models[1].logged, rel=1e-5)
    _assert_same_parameters(*models)
    assert models[0].module1.forward.hits == 7
