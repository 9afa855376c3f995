"""``properties.shared.execution`` copies samples to the device and runs operators there."""

from __future__ import annotations

import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind, ResultId
from conformance.properties.shared.execution import copy_sample_to_device
from conformance.samples.operators import Sample
from conformance.target import file as target_file

TARGET = target_file.load("cpu").target("eager")


def test_the_last_copied_form_of_a_sample_decides_about_parity() -> None:
    recorder = Recorder(ResultId.parse("overload-shapes/sum.dim_IntList@float32"), seed=0)
    without_dimensions = Sample(4, torch.tensor(2.0), ([0],))
    with_dimensions = Sample(4, torch.ones(2, 3), ([0],))  # modified calls keep the index of the original
    bases = []
    for sample in (without_dimensions, with_dimensions, without_dimensions):
        copy_sample_to_device(TARGET, recorder, sample)
        scratch = recorder.scratch()
        scratch.fail(Kind.VALUE, "off", sample=4)
        bases.append(scratch.result().failures[0].basis)
    assert bases == [Basis.PARITY, Basis.DOCUMENTED, Basis.PARITY]
