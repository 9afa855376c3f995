"""Other data for a captured call: which of it is taken."""

from __future__ import annotations

import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, ResultId
from conformance.oracle.reference import Reference, reference_for
from conformance.oracle.replay_data import renewals, renewed_with_oracle
from conformance.properties.operators._graph_replay import Replays
from conformance.properties.shared.comparison import compare_outputs
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import find
from conformance.target.target import Target

NORM = find("operator", "_native_batch_norm_legit")


def first_of(sample: Sample) -> list[float]:
    return next(iter(sample.tensors())).flatten().tolist()


def test_the_first_data_that_is_accurate_enough_or_the_first_of_all() -> None:
    sample = next(s for s in samples_of(NORM, torch.float16).varied(8) if len(first_of(s)) > 1)
    seed, second_seed, _ = (first_of(renewal) for renewal in renewals(NORM, torch.float16, sample))
    asked = []

    def second(fresh: Sample, want: Reference) -> bool:
        asked.append(first_of(fresh))
        return len(asked) == 2

    chosen = renewed_with_oracle(NORM, torch.float16, sample, second)
    assert chosen is not None and first_of(chosen[0]) == second_seed
    assert asked == [seed, second_seed]
    for answer in (True, False):
        chosen = renewed_with_oracle(NORM, torch.float16, sample, lambda *given, answer=answer: answer)
        assert chosen is not None and first_of(chosen[0]) == seed


def test_data_for_which_the_cpu_itself_is_too_inexact_is_passed_over() -> None:
    """Two numbers so close that their mean, rounded to float16, leaves little of their difference."""
    target = Target("fake", None, "cpu", frozenset({"float16"}), {})
    recorder = Recorder(ResultId(CaseId("graph_value", NORM.name), "float16"), seed=0)
    passed_over = 0
    for sample in samples_of(NORM, torch.float16).varied(8):
        fresh = Replays(target, NORM, recorder).fresh_data(sample)
        for renewal in renewals(NORM, torch.float16, sample):
            want = reference_for(NORM, torch.float16, renewal)
            held = compare_outputs(
                target, recorder.trial(), NORM, renewal, [part.clone() for part in want.outputs], want
            )
            passed_over += not held
            assert fresh is not None
            if not held:
                assert first_of(renewal) != first_of(fresh[0])
    assert passed_over
