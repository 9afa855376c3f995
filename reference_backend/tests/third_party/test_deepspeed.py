"""Test unmodified DeepSpeed on two ranks, in every ZeRO stage and training form.

DeepSpeed does not order the work of its streams. Its losses must still equal the losses of synchronous runs.

DeepSpeed is not a requirement of the project. Without it, these tests are skipped. To install it, with torch,
setuptools and wheel already installed: ``DS_BUILD_OPS=0 pip install --no-build-isolation deepspeed==0.19.5``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.ranks import run_ranks

from tests.support.nightly import NIGHTLY

from .deepspeed_program import TrainingCase

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None, reason="DeepSpeed is not installed."
)

PROGRAM = Path(__file__).with_name("deepspeed_program.py")
RANKS = 2
STEPS = 200 if NIGHTLY else 20
RUNS = 10 if NIGHTLY else 1
CASES = [
    TrainingCase(stage, model, dtype, "overlap", STEPS)
    for stage, model, dtype in (
        itertools.product((2, 3), ("mlp", "transformer"), ("fp32", "bf16"))
        if NIGHTLY
        else [(3, "mlp", "fp32")]
    )
]
#: Cases with stages and training forms that ``CASES`` does not contain.
OTHERS = [
    TrainingCase(stage, model, "fp32", form, STEPS)
    for stage, model, form in (
        (0, "mlp", "plain"),
        (2, "mlp", "plain"),
        (2, "mlp", "offload"),
        (3, "mlp", "offload"),
        (1, "transformer", "checkpointing"),
        (1, "mlp", "own-adam"),
        (3, "mlp", "own-adam"),
    )
]
#: Allowed relative difference between a loss and the loss of stage 1. Stages add in different orders.
DIFFERENCE = {"fp32": 1e-5, "bf16": 1e-2}
#: Allowed relative difference between losses of DeepSpeed's own Adam and of torch's Adam. DeepSpeed adds
#: epsilon to the second moment before the bias correction.
OWN_ADAM_DIFFERENCE = 1e-4
#: Time limit for each case on a busy machine, in seconds.
PATIENCE = 300

#: The losses of each rank by case, in the format of `float.hex`.
Losses = dict[TrainingCase, list[list[str]]]


def stage_1_case(case: TrainingCase) -> TrainingCase:
    """Return the case with stage 1 and without overlap. Stage 1 gathers and reduces whole tensors."""
    return case._replace(stage=1, form="plain")


@contextlib.contextmanager
def keep_processors_busy() -> Iterator[None]:
    """Keep each processor busy with a process while the context is active."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def losses_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Losses]:
    """Return a function that trains cases on all ranks, and returns the losses.

    The keyword arguments of the function are environment variables.
    """

    def train_and_read_losses(cases: list[TrainingCase], **environment: str) -> Losses:
        folder = tmp_path_factory.mktemp("losses")
        ended = run_ranks(
            PROGRAM,
            "train",
            RANKS,
            folder / "rendezvous",
            kill_after=PATIENCE * (1 + len(cases)),
            timeout=PATIENCE,
            environment={
                "DEEPSPEED_CASES": " ".join(map(str, cases)),
                "DEEPSPEED_OUTPUT": str(folder),
                "DS_ACCELERATOR": "hpu",
                **environment,
            },
        )
        for rank, process in enumerate(ended):
            assert process.code == 0, f"rank {rank}:\n{process.text[-3000:]}"
        written = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(RANKS)]
        return {case: [results[str(case)]["losses"] for results in written] for case in cases}

    return train_and_read_losses


@pytest.fixture(scope="module")
def synchronous_losses(losses_of: Callable[..., Losses]) -> Losses:
    """Return the losses of ``CASES``, and of all cases changed to stage 1, in synchronous runs.

    In a synchronous run, each operator finishes before the host issues the next operator.
    """
    cases = list(dict.fromkeys([*map(stage_1_case, [*CASES, *OTHERS]), *CASES]))
    return losses_of(cases, PT_HPU_EAGER_PIPELINE_ENABLE="0")


@pytest.mark.parametrize("repetition", range(RUNS))
def test_losses_equal_synchronous_losses(
    losses_of: Callable[..., Losses], synchronous_losses: Losses, repetition: int
) -> None:
    with keep_processors_busy() if NIGHTLY else contextlib.nullcontext():
        losses = losses_of(CASES)
    for case in CASES:
        for rank in range(RANKS):
            pairs = list(zip(losses[case][rank], synchronous_losses[case][rank], strict=True))
            differing = [step for step, (actual_loss, correct) in enumerate(pairs) if actual_loss != correct]
            assert not differing, f"{case}, rank {rank}: {len(differing)} steps differ, first: {differing[0]}"
            assert len(pairs) == STEPS


@pytest.fixture(scope="module")
def losses_of_forms(losses_of: Callable[..., Losses]) -> Losses:
    """Return the losses of the cases in ``OTHERS``."""
    return losses_of(OTHERS)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_losses_are_near_those_of_stage_1(synchronous_losses: Losses, case: TrainingCase) -> None:
    assert_losses_are_near(synchronous_losses, case, synchronous_losses)


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_losses_of_every_training_form_are_near_those_of_stage_1(
    losses_of_forms: Losses, synchronous_losses: Losses, case: TrainingCase
) -> None:
    assert_losses_are_near(losses_of_forms, case, synchronous_losses)


def test_inference_matches_the_model(tmp_path: Path) -> None:
    ended = run_ranks(
        PROGRAM,
        "check_inference",
        1,
        tmp_path / "rendezvous",
        kill_after=PATIENCE,
        timeout=PATIENCE,
        environment={"DS_ACCELERATOR": "hpu"},
    )
    assert ended[0].code == 0, ended[0].text[-3000:]


def assert_losses_are_near(losses: Losses, case: TrainingCase, references: Losses) -> None:
    """Assert that the losses of a case equal the losses of stage 1, up to rounding errors."""
    allowed = OWN_ADAM_DIFFERENCE if case.form == "own-adam" else DIFFERENCE[case.dtype]
    for rank in range(RANKS):
        for step in range(STEPS):
            actual_loss = float.fromhex(losses[case][rank][step])
            expected = float.fromhex(references[stage_1_case(case)][rank][step])
            assert abs(actual_loss - expected) <= allowed * abs(expected), (rank, step)
