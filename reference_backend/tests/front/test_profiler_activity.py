"""The class of profiler activities: torch's own, or the bridge's if asked for."""

from __future__ import annotations

PROGRAM = """
import torch, habana_frameworks.torch
from torch._C._profiler import ProfilerActivity as Native
from torch.profiler import ProfilerActivity, profile, supported_activities
print(isinstance(ProfilerActivity.CPU, Native))
for activity in (ProfilerActivity.CPU, Native.CPU):
    with profile(activities=[activity]) as found:
        torch.ones(3) + 1
    print("aten::add" in {event.key for event in found.key_averages()})
print(ProfilerActivity.CPU in supported_activities())
"""


def test_the_class_is_torchs_by_default(output_of) -> None:
    assert output_of(PROGRAM).split() == ["True"] * 4


def test_the_class_is_the_bridges_if_asked_for(output_of) -> None:
    found = output_of(PROGRAM, HPU_REFERENCE_PROFILER_ACTIVITY="replaced").split()
    assert found == ["False", "True", "True", "True"]


def test_another_choice_is_one_sentence(run_python) -> None:
    done = run_python("import habana_frameworks.torch", HPU_REFERENCE_PROFILER_ACTIVITY="both")
    assert "ValueError: HPU_REFERENCE_PROFILER_ACTIVITY='both' is no choice" in done.stderr
