"""Programs that follow the examples in the public guides of the device and of lightning-habana.

``python lightning_guide_program.py NAME`` runs one program in the current folder and prints ``NAME done``.
The programs make the same calls as the examples. Models, data and the parts that the examples omit are small
and written for this project. For a program with several ranks, lightning starts this file again for each
rank.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import habana_frameworks.torch
import habana_frameworks.torch.core as htcore
import torch
import torch.nn.functional as F
from deepspeed.ops.adam import DeepSpeedCPUAdam
from deepspeed.runtime.activation_checkpointing.checkpointing import checkpoint
from habana_frameworks.torch.hpex import hmp
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning_habana.pytorch.accelerator import HPUAccelerator
from lightning_habana.pytorch.plugins import HPUDeepSpeedPrecisionPlugin, HPUFSDPPrecision
from lightning_habana.pytorch.profiler.profiler import HPUProfiler
from lightning_habana.pytorch.strategies import HPUDeepSpeedStrategy, HPUFSDPStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PROGRAMS: dict[str, Callable[[], None]] = {}
HERE = Path.cwd()


def program(run: Callable[[], None]) -> Callable[[], None]:
    """Register a program under the name of its function."""
    PROGRAMS[run.__name__] = run
    return run


class LinearModel(BoringModel):
    """A layer with 32 inputs, and the optimizer that the guide uses for DeepSpeed."""

    def configure_optimizers(self) -> tuple[list[Any], list[Any]]:
        """Return the optimizer and its schedule."""
        optimizer = torch.optim.SGD(self.layer.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)]


class ModelWithCpuOptimizer(LinearModel):
    """`LinearModel` with DeepSpeed's CPU optimizer, which DeepSpeed requires for parameters on the host."""

    def configure_optimizers(self) -> Any:
        """Return the optimizer."""
        return DeepSpeedCPUAdam(self.parameters(), lr=0.1)


def make_trainer(**options: Any) -> Trainer:
    """Return a trainer for the device that writes no files unless the options request them."""
    options = {"devices": 1, "max_epochs": 1, "limit_train_batches": 4, "limit_val_batches": 1, **options}
    return Trainer(
        accelerator=HPUAccelerator(),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=str(HERE),
        **options,
    )


class ParameterChange(Callback):
    """A callback that records sums of squares before and after a training.

    There is one sum for each parameter of the rank, or for the rank's shard of the parameter.
    """

    def __init__(self) -> None:
        self.sums: list[torch.Tensor] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Record the sums of squares before the first step."""
        self.sums.append(self._sum(pl_module))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Record the sums of squares after the last step."""
        self.sums.append(self._sum(pl_module))

    @staticmethod
    def _sum(module: LightningModule) -> torch.Tensor:
        # With ZeRO-3, a parameter is empty. Its attribute `ds_tensor` is the shard of this rank.
        parts = [getattr(parameter, "ds_tensor", parameter).detach() for parameter in module.parameters()]
        return torch.stack([(part.double().cpu() ** 2).sum() for part in parts])


def train_on_two_ranks(model: LightningModule, strategy: Any, **options: Any) -> None:
    """Train on two ranks. Assert that the parameters are finite and have changed."""
    parameter_change = ParameterChange()
    used = make_trainer(devices=2, strategy=strategy, callbacks=[parameter_change], **options)
    used.fit(model)
    assert used.global_step > 0
    first, last = parameter_change.sums
    assert torch.isfinite(last).all() and last.sum() > 0
    assert not torch.equal(first, last), "the training changed no parameter"


def train_with_deepspeed(model: LightningModule | None = None, **options: Any) -> None:
    """Train with DeepSpeed in bfloat16."""
    precision = HPUDeepSpeedPrecisionPlugin(precision="bf16-mixed")
    train_on_two_ranks(model or LinearModel(), HPUDeepSpeedStrategy(**options), plugins=[precision])


def trace_events(folder: Path) -> list[dict[str, Any]]:
    """Return the events of the traces that a profiler wrote."""
    traces = [path for path in folder.rglob("*.json") if "traceEvents" in path.read_text()]
    assert traces, f"no trace in {folder}"
    return [event for path in traces for event in json.loads(path.read_text())["traceEvents"]]


@program
def profiler() -> None:
    """Profile a training. Assert that the trace has device rows if the profiler of this torch has them."""
    used = HPUProfiler(dirpath=str(HERE / "traces"), filename="perf-logs")
    make_trainer(profiler=used).fit(BoringModel())
    # torch 2.6 has no profiler activity for hpu: its profiles contain the rows of the host.
    has_device = "HPU" in torch._C._profiler.ProfilerActivity.__members__
    wanted = ("kernel", "hpu_op") if has_device else ("cpu_op",)
    assert any(event.get("cat") in wanted for event in trace_events(HERE))


@program
def custom_actions() -> None:
    """Profile custom actions in both ways that the guide shows."""

    class Profiled(BoringModel):
        def __init__(self, profiler: HPUProfiler) -> None:
            super().__init__()
            self.profiler = profiler

        def training_step(self, batch: torch.Tensor, batch_idx: int) -> Any:
            with self.profiler.profile("by_context"):
                batch = batch * 1
            self.profiler.start("by_start")
            batch = batch + 0
            self.profiler.stop("by_start")
            return super().training_step(batch, batch_idx)

    used = HPUProfiler(dirpath=str(HERE / "traces"))
    make_trainer(profiler=used).fit(Profiled(used))
    names = " ".join(str(event.get("name")) for event in trace_events(HERE))
    assert "by_context" in names and "by_start" in names


@program
def zero_1() -> None:
    """Train with ZeRO-1."""
    train_with_deepspeed(zero_optimization=True, stage=1)


@program
def zero_2() -> None:
    """Train with ZeRO-2."""
    train_with_deepspeed(zero_optimization=True, stage=2)


@program
def zero_3() -> None:
    """Train with ZeRO-3."""
    train_with_deepspeed(zero_optimization=True, stage=3)


@program
def zero_offload() -> None:
    """Train with ZeRO-2 and the optimizer on the host."""
    train_with_deepspeed(ModelWithCpuOptimizer(), zero_optimization=True, stage=2, offload_optimizer=True)


@program
def bf16_optimizer() -> None:
    """Train with a DeepSpeed configuration: bfloat16, a learning-rate schedule, accumulated gradients."""
    warmup = {
        "warmup_min_lr": 0.02,
        "warmup_max_lr": 0.05,
        "warmup_num_steps": 4,
        "total_num_steps": 8,
        "warmup_type": "linear",
    }
    config = {
        "train_batch_size": 8,
        "bf16": {"enabled": True},
        "fp16": {"enabled": False},
        "train_micro_batch_size_per_gpu": 2,
        "scheduler": {"type": "WarmupDecayLR", "params": warmup},
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": 2},
    }

    class WithAdam(BoringModel):
        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

        def train_dataloader(self) -> DataLoader:
            return DataLoader(torch.randn(64, 32), batch_size=2)

    strategy = HPUDeepSpeedStrategy(config=config, parallel_devices=[torch.device("hpu")] * 2)
    options = {"limit_train_batches": 16, "accumulate_grad_batches": 2, "use_distributed_sampler": False}
    train_on_two_ranks(
        WithAdam(), strategy, plugins=[HPUDeepSpeedPrecisionPlugin(precision="bf16-mixed")], **options
    )


@program
def activation_checkpointing() -> None:
    """Train with activation checkpointing. The saved inputs of recomputed layers are on the host."""

    class Recomputing(ModelWithCpuOptimizer):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.layer[1], self.layer[0](x))

    options = {"offload_optimizer": True, "cpu_checkpointing": True}
    train_with_deepspeed(Recomputing(), zero_optimization=True, stage=3, **options)


class PredictionModel(LightningModule):
    """A model of two layers for prediction."""

    def __init__(self) -> None:
        super().__init__()
        self.l1 = nn.Linear(32, 32)
        self.l2 = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of both layers."""
        return self.l2(F.relu(self.l1(x)))

    def predict_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        """Predict a batch."""
        prediction = self(batch)
        assert prediction.device.type == "hpu" and torch.isfinite(prediction).all()
        return prediction

    def predict_dataloader(self) -> DataLoader:
        """Return the data."""
        return DataLoader(torch.randn(8, 32), batch_size=2)


def predict_on_two_ranks(**options: Any) -> None:
    """Predict with DeepSpeed on two ranks.

    In the guide, DeepSpeed also replaces kernels and splits layers without a policy. DeepSpeed does this only
    for the models of its own list, so these programs omit it.
    """
    precision = HPUDeepSpeedPrecisionPlugin(precision="bf16-mixed")
    strategy = HPUDeepSpeedStrategy(parallel_devices=[torch.device("hpu")] * 2, **options)
    used = make_trainer(devices=2, strategy=strategy, plugins=[precision], use_distributed_sampler=False)
    assert len(used.predict(PredictionModel())) == 4


@program
def inference_by_arguments() -> None:
    """Predict with DeepSpeed, configured by arguments."""
    predict_on_two_ranks(tensor_parallel={"tp_size": 1}, dtype=torch.float, replace_with_kernel_inject=False)


@program
def inference_by_keywords() -> None:
    """Predict with DeepSpeed, configured by keywords, with one layer split over the ranks."""
    predict_on_two_ranks(
        dtype=torch.float,
        tensor_parallel={"tp_size": 2},
        enable_cuda_graph=False,
        replace_method="auto",
        replace_with_kernel_inject=False,
        injection_policy={PredictionModel: ("l1",)},
    )


@program
def inference_by_configuration() -> None:
    """Predict with DeepSpeed, configured by a dictionary."""
    predict_on_two_ranks(
        config={
            "replace_with_kernel_inject": False,
            "tensor_parallel": {"tp_size": 1},
            "dtype": torch.float,
            "enable_cuda_graph": False,
        }
    )


def train_with_fsdp(sharding: str) -> None:
    """Train with FSDP in bfloat16."""

    class Configured(BoringModel):
        def configure_model(self) -> None:
            self.layer = nn.Linear(32, 2)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.layer.parameters(), lr=0.1)

    strategy = HPUFSDPStrategy(
        parallel_devices=[torch.device("hpu")] * 2,
        sharding_strategy=sharding,
        precision_plugin=HPUFSDPPrecision("bf16-mixed"),
    )
    train_on_two_ranks(Configured(), strategy)


@program
def fsdp_full_shard() -> None:
    """Train with FSDP that shards parameters, gradients and optimizer states."""
    train_with_fsdp("FULL_SHARD")


@program
def fsdp_shard_grad_op() -> None:
    """Train with FSDP that shards gradients and optimizer states."""
    train_with_fsdp("SHARD_GRAD_OP")


def assert_loss_falls(step: Callable[[], torch.Tensor]) -> None:
    """Run 60 steps, and assert that the last loss is less than half of the first."""
    losses = [step().item() for _ in range(60)]
    assert losses[-1] < losses[0] / 2, losses


@program
def hmp_mixed_precision() -> None:
    """Train as the old guide does: Habana Mixed Precision casts operators, except in the optimizer step."""
    x, y = torch.randn(64, 64, device="hpu"), torch.randn(64, 4, device="hpu")
    hmp.convert(opt_level="O1", bf16_file_path="", fp32_file_path="", isVerbose=False)
    model = nn.Linear(64, 4).to(torch.device("hpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)

    def step() -> torch.Tensor:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        with hmp.disable_casts():
            optimizer.step()
        return loss.detach()

    assert model(x).dtype == torch.bfloat16
    assert_loss_falls(step)


@program
def digits_compiled() -> None:
    """Train a model that ``torch.compile`` compiles for the device, over batches of a loader."""
    source = torch.Generator().manual_seed(0)
    target = torch.randint(0, 10, (256,), generator=source)
    data = F.one_hot(target, 10).float().repeat(1, 8) + torch.randn(256, 80, generator=source) / 10
    loader = DataLoader(TensorDataset(data, target), batch_size=64)
    model = nn.Sequential(nn.Linear(80, 32), nn.ReLU(), nn.Linear(32, 10), nn.LogSoftmax(1)).to("hpu")
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    model.train()
    compiled = torch.compile(model, backend="hpu_backend")

    def step() -> torch.Tensor:
        for data, target in loader:
            optimizer.zero_grad()
            loss = F.nll_loss(compiled(data.to("hpu")), target.to("hpu"))
            loss.backward()
            optimizer.step()
        return loss.detach()

    assert_loss_falls(step)
    compiled.eval()
    assert torch.compile(model, backend="hpu_backend")(data.to("hpu")).argmax(1).cpu().eq(target).all()


@program
def hpu_graph_inference() -> None:
    """Wrap a model in an HPU graph for inference."""
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)).to("hpu").eval()
    x = torch.randn(8, 32, device="hpu")
    with torch.no_grad():
        expected = model(x).cpu()
        wrapped = habana_frameworks.torch.hpu.wrap_in_hpu_graph(
            model, asynchronous=False, disable_tensor_cache=True
        )
        for _ in range(3):
            torch.testing.assert_close(wrapped(x).cpu(), expected)
        htcore.mark_step()


@program
def torchvision_resnet() -> None:
    """Run a ResNet of torchvision on the device."""
    from torchvision import models

    model = models.resnet50().eval()
    image = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        expected = model(image)
        actual = model.to("hpu")(image.to("hpu"))
    assert actual.device.type == "hpu"
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
    print(f"{sys.argv[1]} done\n", end="", flush=True)  # a single write, because ranks share the pipe
