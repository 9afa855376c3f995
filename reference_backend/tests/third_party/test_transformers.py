"""Test the unmodified Trainer of transformers: it trains a small language model on one and two ranks of hpu.

transformers and accelerate are not requirements of the project. Without them, these tests are skipped.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from .run_trainer import ROUNDING, ROUNDING_OF_BFLOAT16, run_trainer

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None or importlib.util.find_spec("accelerate") is None,
    reason="transformers and accelerate are not installed.",
)

#: Arguments of Python that start a program on two ranks.
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ACCELERATE = (
    *("-m", "accelerate.commands.launch", "--num_processes", "2", "--num_machines", "1"),
    *("--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"),
)


@pytest.fixture(scope="module")
def cpu_losses(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """Return the losses of the training on the CPU. Assert that the model learns."""
    report = run_trainer(tmp_path_factory.mktemp("cpu"), "--cpu")
    losses = report["losses"]
    assert (report["device"], report["ranks"], len(losses)) == ("cpu", 1, 12)
    assert losses[12] < losses[1] - 1
    return losses


@pytest.mark.parametrize(
    ("words", "tolerance"),
    [((), ROUNDING), (("--compile",), ROUNDING), (("--bf16",), ROUNDING_OF_BFLOAT16)],
    ids=["fp32", "compile", "bf16"],
)
def test_training_on_hpu_has_the_losses_of_the_cpu(
    tmp_path: Path, cpu_losses: dict[int, float], words: tuple[str, ...], tolerance: float
) -> None:
    report = run_trainer(tmp_path, *words)
    assert (report["device"], report["ranks"]) == ("hpu", 1)
    assert report["losses"] == pytest.approx(cpu_losses, rel=tolerance)


@pytest.mark.parametrize("launcher", [TORCHRUN, ACCELERATE], ids=["torchrun", "accelerate"])
def test_two_ranks_have_the_losses_of_one_rank_with_the_whole_batch(
    tmp_path: Path, cpu_losses: dict[int, float], launcher: tuple[str, ...]
) -> None:
    report = run_trainer(tmp_path, "--batch", "4", launcher=launcher)
    assert (report["device"], report["ranks"]) == ("hpu", 2)
    assert report["losses"] == pytest.approx(cpu_losses, rel=1e-3)


def test_stopped_training_resumes_from_its_checkpoint(tmp_path: Path, cpu_losses: dict[int, float]) -> None:
    run_trainer(tmp_path, "--steps", "6", "--save-at", "6")
    report = run_trainer(tmp_path, "--resume")
    assert report["losses"] == pytest.approx(cpu_losses, rel=ROUNDING)
