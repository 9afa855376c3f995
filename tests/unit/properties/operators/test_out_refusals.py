"""If a device runs torch's composite kernel, it is not at fault for accepting an out= that this kernel
accepts.
"""

from __future__ import annotations

import pytest

from conformance.framework.calls import CallOutcome
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import ResultId, Verdict
from conformance.properties.operators import out_refusals
from conformance.properties.shared import cpu_control
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import find
from conformance.target.file import load

#: A target whose device has no loaded kernels, so an operator that has a composite kernel runs it.
XPU = load("xpu").target("eager")


@pytest.mark.parametrize(("operator", "verdict"), [("addr", Verdict.PASS), ("add", Verdict.FAIL)])
def test_the_verdict_of_an_accepted_out(operator: str, verdict: Verdict) -> None:
    subject = find("operator", operator)
    recorder = Recorder(ResultId.parse(f"out_device/{operator}@float32"), seed=0)
    accepted, check = CallOutcome(value=None), out_refusals.check_wrong_device
    out_refusals._check_rejection_error(
        XPU, subject, recorder, Sample(0, None), accepted, "an out= on another device"
    )
    cpu_control._all_failures_excused_by_cpu(getattr(check, "__wrapped__"), XPU, subject, recorder)  # noqa: B009
    assert recorder.result().verdict is verdict
