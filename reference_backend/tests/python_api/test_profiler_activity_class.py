"""Test `ProfilerActivity`: torch's own class, or the backend's class if a variable selects it."""

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


def test_torchs_class_is_the_default(output_of) -> None:
    assert output_of(PROGRAM).split() == ["True"] * 4


def test_class_of_the_bridge_if_requested(output_of) -> None:
    output_fields = output_of(PROGRAM, HPU_REFERENCE_PROFILER_ACTIVITY="replaced").split()
    assert output_fields == ["False", "True", "True", "True"]


def test_invalid_choice_raises(run_python) -> None:
    done = run_python("import habana_frameworks.torch", HPU_REFERENCE_PROFILER_ACTIVITY="both")
    assert "ValueError: HPU_REFERENCE_PROFILER_ACTIVITY='both' is not supported" in done.stderr


OLDER = """
import warnings
import torch, habana_frameworks.torch
from habana_frameworks.torch.internal.patches import profiler_activity

class Native:
    __members__ = {"CPU": 0}
    CPU = torch._C._profiler.ProfilerActivity.CPU

profiler_activity.Native = Native
own = torch.profiler.ProfilerActivity
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with torch.profiler.profile(activities=[own.CPU, own.HPU]) as profile:
        torch.ones(2, device="hpu") + 1
print(any("does not have the activity HPU" in str(one.message) for one in caught))
print(any(event.name == "aten::add" for event in profile.events()))
"""


def test_torch_without_the_activity_profiles_only_the_host(output_of) -> None:
    assert output_of(OLDER, HPU_REFERENCE_PROFILER_ACTIVITY="replaced").split() == ["True", "True"]
