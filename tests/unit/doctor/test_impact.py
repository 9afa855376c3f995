"""The number of results that a missing feature blocks, counted from the manifest."""

from __future__ import annotations

import re

import torch

from conformance.doctor import impact
from conformance.doctor.registration_checks import Fact
from conformance.plan.levels import manifest
from conformance.target import file as target_file

TARGET = target_file.load("hpu-reference").target("eager")


def counts(text: str) -> dict[str, int]:
    return {level: int(count.replace(",", "")) for count, level in re.findall(r"([\d,]+) of (\w+)", text)}


def planned_count(level: str) -> int:
    return len(manifest.load().demand(torch.__version__, "eager", level).entries)


def test_without_copies_everything_is_blocked() -> None:
    text = impact.impact_of(Fact("prerequisite copies", False, "wrong"), TARGET, "bringup")
    assert counts(text) == {"bringup": planned_count("bringup"), "full": planned_count("full")}
    assert "openreg: csrc/aten/OpenRegMinimal.cpp" in text


def test_a_kernel_blocks_the_results_of_the_operators_that_wait_for_it() -> None:
    kernel_counts = counts(impact.impact_of(Fact("kernels", False, "", operators=("add",)), TARGET, "core"))
    two = counts(impact.impact_of(Fact("kernels", False, "", operators=("add", "mul")), TARGET, "core"))
    assert 0 < kernel_counts["core"] < two["core"] < two["full"] and kernel_counts["full"] > 20


def test_a_capability_blocks_the_results_that_need_it() -> None:
    text = impact.impact_of(Fact("streams", False, "declared, but not there"), TARGET, "bringup")
    counted = counts(text)
    assert "bringup" not in counted and 0 < counted["full"] < 300, "level bringup requires no streams"
    assert text.endswith("openreg: csrc/runtime/OpenRegStream.cpp")


def test_a_present_feature_has_no_impact() -> None:
    assert impact.with_impact(Fact("streams", True, ""), TARGET, "core").impact == ""
    assert impact.with_impact(Fact("streams", False, ""), TARGET, "core").impact
    assert impact.impact_of(Fact("dispatch keys", False, ""), TARGET, "core") == ""
