"""``oracle.graph_replay_inputs`` chooses replay data for a captured call."""

from __future__ import annotations

import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, ResultId
from conformance.oracle.graph_replay_inputs import replay_data_with_reference, replay_samples
from conformance.oracle.reference import Call, Reference, reference_for
from conformance.properties.operators._captured_calls import GraphReplays
from conformance.properties.shared.comparison import compare_outputs
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import find
from conformance.target.target import Target

NORM = find("operator", "_native_batch_norm_legit")


def first_tensor_values(sample: Sample) -> list[float]:
    return next(iter(sample.tensors())).flatten().tolist()


def test_the_first_accurate_replay_data_is_chosen_or_else_the_first() -> None:
    sample = next(s for s in samples_of(NORM, torch.float16).varied(8) if len(first_tensor_values(s)) > 1)
    seed, second_seed, _ = (
        first_tensor_values(renewal) for renewal in replay_samples(NORM, torch.float16, sample)
    )
    tried = []

    def second(renewal: Sample, reference: Reference) -> bool:
        tried.append(first_tensor_values(renewal))
        return len(tried) == 2

    chosen = replay_data_with_reference(NORM, torch.float16, sample, second)
    assert chosen is not None and first_tensor_values(chosen[0]) == second_seed
    assert tried == [seed, second_seed]
    for answer in (True, False):
        chosen = replay_data_with_reference(
            NORM, torch.float16, sample, lambda *arguments, answer=answer: answer
        )
        assert chosen is not None and first_tensor_values(chosen[0]) == seed


def test_replay_data_with_an_inexact_reference_is_skipped() -> None:
    """Replay data is skipped if the CPU's float16 result is too inexact. An example is the norm of two
    numbers that are so close that their mean, rounded to float16, loses most of their difference.
    """
    target = Target("fake", None, "cpu", frozenset({"float16"}), {})
    recorder = Recorder(ResultId(CaseId("graph_value", NORM.name), "float16"), seed=0)
    passed_over = 0
    for sample in samples_of(NORM, torch.float16).varied(8):
        replays = GraphReplays(target, NORM, recorder).sample_with_replay_data(sample)
        for renewal in replay_samples(NORM, torch.float16, sample):
            reference = reference_for(Call(NORM, torch.float16, renewal))
            accurate = compare_outputs(
                target, recorder.scratch(), reference, [part.clone() for part in reference.outputs]
            )
            passed_over += not accurate
            assert replays is not None
            if not accurate:
                assert first_tensor_values(renewal) != first_tensor_values(replays[0])
    assert passed_over
