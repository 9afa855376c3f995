"""Test unmodified torchtitan: it trains its debug model on two ranks of hpu, with each kind of parallelism.

torchtitan looks up its device under CUDA names, so it runs with ``PT_HPU_GPU_MIGRATION=1``. Its wheel does
not contain its tokenizer and texts. A tokenizer of bytes and texts of random words replace them. torchtitan
is not a requirement of the project. Without it, these tests are skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torchtitan") is None, reason="torchtitan is not installed."
)

#: Time limit of a training, in seconds.
PATIENCE = 600
STEPS = 6
#: Options of each training: batches of 2 × 128 tokens, and float32, so that the losses of the parallel forms
#: can be compared.
TRAINING = (
    *("--training.seq_len", "128", "--training.local_batch_size", "2", "--training.steps", str(STEPS)),
    *("--training.mixed_precision_param", "float32", "--debug.seed", "1", "--optimizer.lr", "8e-4"),
    *("--lr_scheduler.warmup_steps", "2", "--metrics.log_freq", "1", "--metrics.disable_color_printing"),
)
CHECKPOINTS = (
    *("--checkpoint.enable", "--checkpoint.interval", "3", "--checkpoint.no_last_save_model_only"),
)
#: A step in the log: its number and loss. A rank without the last pipeline stage prints -1.
STEP = re.compile(r"step: +(\d+) +loss: +([0-9.]+)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tokenizer and texts at the paths of torchtitan's debug model."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("torchtitan")
    assets = folder / "tests" / "assets"
    special = ("<|begin_of_text|>", "<|end_of_text|>")
    vocabulary = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *special]
    tokenizer = Tokenizer(
        models.BPE(vocab={token: index for index, token in enumerate(vocabulary)}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    (assets / "tokenizer").mkdir(parents=True)
    tokenizer.save(str(assets / "tokenizer" / "tokenizer.json"))
    names = json.dumps({"bos_token": special[0], "eos_token": special[1]})
    (assets / "tokenizer" / "tokenizer_config.json").write_text(names)
    source = random.Random(0)
    texts = [" ".join(source.choice(["the", "small", "cat", "runs"]) for _ in range(300)) for _ in range(200)]
    (assets / "c4_test").mkdir()
    (assets / "c4_test" / "data.json").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in texts)
    )
    return folder


def train_and_read_losses(folder: Path, output: str, *options: str, ranks: int = 2) -> dict[int, float]:
    """Train with torchtitan. Return the loss of each step. Assert that all ranks report the same loss."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command += ["-m", "torchtitan.train", *TRAINING, "--job.dump_folder", output, *options]
    environment = os.environ | {"PT_HPU_GPU_MIGRATION": "1", "PT_HPU_LAZY_MODE": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-4000:]
    assert "CUDA capacity: GAUDI" in text  # the training ran on hpu
    losses_by_step: dict[int, set[float]] = {}
    for step, loss in STEP.findall(text):
        losses_by_step.setdefault(int(step), set()).add(float(loss))
    assert all(len(of_ranks) == 1 for of_ranks in losses_by_step.values()), losses_by_step
    return {step: of_ranks.pop() for step, of_ranks in sorted(losses_by_step.items())}


@pytest.fixture(scope="module")
def fsdp_losses(folder: Path) -> dict[int, float]:
    """Train the model, sharded by FSDP, and return the losses. Assert that the model learns."""
    sharded_losses = train_and_read_losses(folder, "sharded")
    assert list(sharded_losses) == list(range(1, STEPS + 1))
    assert sharded_losses[STEPS] < sharded_losses[1] - 3
    return sharded_losses


@pytest.mark.parametrize(
    "words",
    [
        ("--compile.enable",),
        ("--activation_checkpoint.mode", "full"),
        ("--activation_checkpoint.mode", "none"),
    ],
    ids=["compile", "checkpointed-activations", "kept-activations"],
)
def test_forms_of_one_computation_have_the_same_losses(
    folder: Path, fsdp_losses: dict[int, float], words: tuple[str, ...]
) -> None:
    assert train_and_read_losses(folder, "form", *words) == pytest.approx(fsdp_losses, rel=1e-4)


@pytest.mark.parametrize(
    ("form", "ranks"),
    [
        ("data_parallel_replicate", 2),
        ("tensor_parallel", 2),
        ("pipeline_parallel", 2),
        ("data_parallel_shard", 1),
    ],
)
def test_parallel_forms_learn(folder: Path, form: str, ranks: int) -> None:
    losses_by_step = train_and_read_losses(
        folder, form, f"--parallelism.{form}_degree", str(ranks), ranks=ranks
    )
    assert list(losses_by_step) == list(range(1, STEPS + 1))
    assert losses_by_step[STEPS] < losses_by_step[1] - 3


def test_stopped_training_resumes_from_its_checkpoint(folder: Path) -> None:
    whole = train_and_read_losses(folder, "stopped", *CHECKPOINTS)
    saved = folder / "stopped" / "checkpoint"
    (saved / f"step-{STEPS}").rename(folder / "last")
    rest = train_and_read_losses(folder, "stopped", *CHECKPOINTS)
    assert rest == {step: loss for step, loss in whole.items() if step > 3}
