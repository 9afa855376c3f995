"""Program of each rank in the tests with DeepSpeed: small models, trained with ZeRO in several forms.

`helpers.ranks` runs `train` on each rank. ``DEEPSPEED_CASES`` lists the cases to train, separated by blanks
(``stage:model:dtype:form:steps``, such as ``3:mlp:fp32:overlap:200``). Each rank writes ``rank<number>.json``
to the folder ``DEEPSPEED_OUTPUT``: for each case the exact losses of the rank's batches (`float.hex`), and
the duration in seconds.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

BATCH = 16
WORDS = 12
WIDTH = 32
CLASSES = 10
#: Learning rate.
RATE = 1e-3
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
#: Training forms. The first four use torch's Adam: plain, with overlapping communication, with optimizer
#: states on the host, and with recomputed layers. The last one uses DeepSpeed's own Adam for the device.
FORMS = ("plain", "overlap", "offload", "checkpointing", "own-adam")


class TrainingCase(NamedTuple):
    """One training run. Its text is ``stage:model:dtype:form:steps``; the form is one of ``FORMS``."""

    stage: int
    model: str
    dtype: str
    form: str
    steps: int

    def __str__(self) -> str:
        return ":".join(map(str, self))

    @classmethod
    def from_text(cls, text: str) -> TrainingCase:
        """Parse a text of the form ``stage:model:dtype:form:steps``."""
        stage, model, dtype, form, steps = text.split(":")
        assert form in FORMS, text
        return cls(int(stage), model, dtype, form, int(steps))


class Transformer(nn.Module):
    """Two encoder layers over a sequence of embeddings, and class scores from their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.randn(WORDS, WIDTH) * 0.1)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes."""
        return self.head(self.encoder(embeddings + self.position).mean(1))


def build_model(model: str) -> nn.Module:
    """Return the model on the CPU, with equal parameters on every rank and in every run."""
    torch.manual_seed(0)
    if model == "transformer":
        return Transformer()
    sizes = (WORDS * WIDTH, 128, 128, 128, 128)
    layers = [part for ends in itertools.pairwise(sizes) for part in (nn.Linear(*ends), nn.Tanh())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(sizes[-1], CLASSES))


def random_batches(rank: int, steps: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the inputs and classes of a rank, one pair for each step.

    A fifth of the classes is noise, so that no loss is near zero. Relative differences of such losses would
    be meaningless.
    """
    source = torch.Generator().manual_seed(1)
    truth = torch.randn(WORDS * WIDTH, CLASSES, generator=source)
    source.manual_seed(100 + rank)
    created = []
    for _ in range(steps):
        embeddings = torch.randn(BATCH, WORDS, WIDTH, generator=source)
        classes = (embeddings.flatten(1) @ truth).argmax(1)
        noise = torch.randint(0, CLASSES, (BATCH,), generator=source)
        noisy = torch.rand(BATCH, generator=source) < 0.2
        created.append((embeddings, torch.where(noisy, noise, classes)))
    return created


def deepspeed_configuration(case: TrainingCase) -> dict[str, Any]:
    """Return the configuration that DeepSpeed receives.

    The limits are small, so that every parameter is gathered when it is used, ahead of its use, and gradients
    are reduced in many parts.
    """
    zero = {
        "stage": case.stage,
        "overlap_comm": case.form == "overlap",
        "contiguous_gradients": True,
        "reduce_scatter": True,
        "reduce_bucket_size": 20_000,
        "allgather_bucket_size": 20_000,
    }
    if case.stage == 3:
        zero |= {
            "stage3_param_persistence_threshold": 0,
            "stage3_prefetch_bucket_size": 20_000,
            "stage3_max_live_parameters": 60_000,
            "stage3_max_reuse_distance": 60_000,
            "sub_group_size": 30_000,
        }
    if case.form == "offload":
        zero["offload_optimizer"] = {"device": "cpu"}
        if case.stage == 3:
            zero["offload_param"] = {"device": "cpu"}
    whole: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": case.dtype == "bf16"},
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        # Allow torch's optimizer on the host. Otherwise DeepSpeed first compiles its own host optimizer.
        "zero_force_ds_cpu_optimizer": False,
    }
    if case.form == "own-adam":
        whole["optimizer"] = {"type": "Adam", "params": {"lr": RATE}}
    return whole


def recompute_layers(model: nn.Module, calls: list[None]) -> None:
    """Make DeepSpeed recompute the layers of a transformer in the backward pass.

    Each call of a layer appends an element to ``calls``.
    """
    from deepspeed.runtime.activation_checkpointing import checkpointing

    checkpointing.configure(None, partition_activations=False)
    for layer in model.encoder.layers:
        whole = layer.forward

        def forward(embeddings: torch.Tensor, whole: Any = whole, **_: Any) -> torch.Tensor:
            # The masks that the encoder also passes to its layers are omitted, because all of them are None.
            def count_and_call(embeddings: torch.Tensor) -> torch.Tensor:
                calls.append(None)
                return whole(embeddings)

            return checkpointing.checkpoint(count_and_call, embeddings)

        layer.forward = forward


def check_inference(rank: int, size: int) -> None:
    """Assert that DeepSpeed's inference engine gives the result of the model itself."""
    import deepspeed

    model = build_model("transformer").eval()
    embeddings = random_batches(0, 1)[0][0]
    with torch.no_grad():
        expected = model(embeddings)
        engine = deepspeed.init_inference(model.to("hpu"), dtype=torch.float32)
        torch.testing.assert_close(engine(embeddings.to("hpu")).cpu(), expected)


def train_case(case: TrainingCase, rank: int) -> list[str]:
    """Train one case, and return its losses. The host reads the losses after it has issued all steps."""
    import deepspeed

    model = build_model(case.model)
    optimizer = None if case.form == "own-adam" else torch.optim.Adam(model.parameters(), lr=RATE)
    parameters_option = {} if optimizer is not None else {"model_parameters": model.parameters()}
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=optimizer, config=deepspeed_configuration(case), **parameters_option
    )
    calls: list[None] = []
    if case.form == "checkpointing":
        recompute_layers(engine.module, calls)
    if case.form == "own-adam":
        from deepspeed.ops.adam import FusedAdam

        assert isinstance(engine.basic_optimizer, FusedAdam), type(engine.basic_optimizer)
    losses = []
    for embeddings, classes in random_batches(rank, case.steps):
        embeddings = embeddings.to(DTYPES[case.dtype]).to(engine.device, non_blocking=True)
        classes = classes.to(engine.device, non_blocking=True)
        loss = nn.functional.cross_entropy(engine(embeddings).float(), classes)
        engine.backward(loss)
        engine.step()
        losses.append(loss.detach())
    read = [loss.item().hex() for loss in losses]
    if case.form == "checkpointing":
        assert len(calls) == 2 * 2 * case.steps, len(calls)  # two layers, forward and again in backward
    if case.form == "offload":
        states = (
            state_value for state in engine.basic_optimizer.state.values() for state_value in state.values()
        )
        assert {
            state_value.device.type
            for state_value in states
            if torch.is_tensor(state_value) and state_value.dim()
        } == {"cpu"}
    engine.destroy()
    return read


def train(rank: int, size: int) -> None:
    """Train all cases, and write the losses of this rank."""
    import deepspeed

    deepspeed.init_distributed("hccl")
    results = {}
    for case in map(TrainingCase.from_text, os.environ["DEEPSPEED_CASES"].split()):
        begin = time.monotonic()
        losses = train_case(case, rank)
        results[str(case)] = {"losses": losses, "seconds": time.monotonic() - begin}
        gc.collect()
    Path(os.environ["DEEPSPEED_OUTPUT"], f"rank{rank}.json").write_text(json.dumps(results))
