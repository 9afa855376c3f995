"""DeepSpeed, unchanged, trains on two ranks, in every stage and form: its streams, which it does not order,
compute what one does.

DeepSpeed is not a requirement of the project: without it, these tests are skipped. To have it, next to torch,
setuptools and wheel: ``DS_BUILD_OPS=0 pip install --no-build-isolation deepspeed==0.19.5``.
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

from .deepspeed_program import Case

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None, reason="DeepSpeed is not installed."
)

PROGRAM = Path(__file__).with_name("deepspeed_program.py")
RANKS = 2
STEPS = 200 if NIGHTLY else 20
RUNS = 10 if NIGHTLY else 1
CASES = [
    Case(stage, model, dtype, "overlap", STEPS)
    for stage, model, dtype in (
        itertools.product((2, 3), ("mlp", "transformer"), ("fp32", "bf16"))
        if NIGHTLY
        else [(3, "mlp", "fp32")]
    )
]
#: The other stages, and the other forms of training.
OTHERS = [
    Case(stage, model, "fp32", form, STEPS)
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
#: By how much, relatively, a loss may differ from stage 1's: sums are taken in other orders.
DIFFERENCE = {"fp32": 1e-5, "bf16": 1e-2}
#: The same of DeepSpeed's own Adam, which adds epsilon to the second moment before its bias is corrected.
OF_OWN_ADAM = 1e-4
#: Seconds for a rank, for each case that it trains, beside load.
PATIENCE = 300

#: By case, the losses of each rank, as `float.hex` writes them.
Losses = dict[Case, list[list[str]]]


def stage_1_of(case: Case) -> Case:
    """The same training with stage 1, which gathers and reduces whole, and without overlap."""
    return case._replace(stage=1, form="plain")


@contextlib.contextmanager
def load() -> Iterator[None]:
    """A busy process for each processor."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def losses_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Losses]:
    """Function that trains cases on the ranks, with environment variables, and returns the losses."""

    def losses(cases: list[Case], **environment: str) -> Losses:
        folder = tmp_path_factory.mktemp("losses")
        ended = run_ranks(
            PROGRAM,
            "train",
            RANKS,
            folder / "meeting",
            limit=PATIENCE * (1 + len(cases)),
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

    return losses


@pytest.fixture(scope="module")
def without_pipeline(losses_of: Callable[..., Losses]) -> Losses:
    """Losses of all cases, and of stage 1, with each operator run before the next is issued."""
    cases = list(dict.fromkeys([*map(stage_1_of, [*CASES, *OTHERS]), *CASES]))
    return losses_of(cases, PT_HPU_EAGER_PIPELINE_ENABLE="0")


@pytest.mark.parametrize("repetition", range(RUNS))
def test_losses_are_those_without_pipeline(
    losses_of: Callable[..., Losses], without_pipeline: Losses, repetition: int
) -> None:
    with load() if NIGHTLY else contextlib.nullcontext():
        losses = losses_of(CASES)
    for case in CASES:
        for rank in range(RANKS):
            pairs = list(zip(losses[case][rank], without_pipeline[case][rank], strict=True))
            differing = [step for step, (got, correct) in enumerate(pairs) if got != correct]
            assert not differing, f"{case}, rank {rank}: {len(differing)} steps, the first {differing[0]}"
            assert len(pairs) == STEPS


@pytest.fixture(scope="module")
def others(losses_of: Callable[..., Losses]) -> Losses:
    """Losses of the other forms of training."""
    return losses_of(OTHERS)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_losses_are_near_those_of_stage_1(without_pipeline: Losses, case: Case) -> None:
    near(without_pipeline, case, without_pipeline)


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_every_form_of_training_gives_near_losses(
    others: Losses, without_pipeline: Losses, case: Case
) -> None:
    near(others, case, without_pipeline)


def test_inference_computes_what_the_model_does(tmp_path: Path) -> None:
    ended = run_ranks(
        PROGRAM,
        "infer",
        1,
        tmp_path / "meeting",
        limit=PATIENCE,
        timeout=PATIENCE,
        environment={"DS_ACCELERATOR": "hpu"},
    )
    assert ended[0].code == 0, ended[0].text[-3000:]


def near(losses: Losses, case: Case, references: Losses) -> None:
    """Assert that the losses of a case are those of stage 1, but for the order of sums."""
    allowed = OF_OWN_ADAM if case.form == "own-adam" else DIFFERENCE[case.dtype]
    for rank in range(RANKS):
        for step in range(STEPS):
            got = float.fromhex(losses[case][rank][step])
            expected = float.fromhex(references[stage_1_of(case)][rank][step])
            assert abs(got - expected) <= allowed * abs(expected), (rank, step)
