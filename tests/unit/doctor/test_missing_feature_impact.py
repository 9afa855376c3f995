"""``doctor.missing_feature_impact`` counts the results of the manifest that a missing feature blocks."""

from __future__ import annotations

import re

import torch

from conformance.doctor import missing_feature_impact
from conformance.doctor.registration_checks import Fact
from conformance.plan.levels import manifest
from conformance.target import file as target_file

TARGET = target_file.load("hpu-reference").target("eager")


def counts_by_level(text: str) -> dict[str, int]:
    return {level: int(count.replace(",", "")) for count, level in re.findall(r"([\d,]+) of (\w+)", text)}


def planned_result_count(level: str) -> int:
    return len(manifest.load().level_requirements(torch.__version__, "eager", level).entries)


def test_missing_copies_block_all_results() -> None:
    text = missing_feature_impact.impact_text(Fact("prerequisite copies", False, "wrong"), TARGET, "bringup")
    assert counts_by_level(text) == {
        "bringup": planned_result_count("bringup"),
        "full": planned_result_count("full"),
    }
    assert "openreg: csrc/aten/OpenRegMinimal.cpp" in text


def test_a_missing_kernel_blocks_the_results_of_its_operators() -> None:
    kernel_counts = counts_by_level(
        missing_feature_impact.impact_text(Fact("kernels", False, "", operators=("add",)), TARGET, "core")
    )
    two = counts_by_level(
        missing_feature_impact.impact_text(
            Fact("kernels", False, "", operators=("add", "mul")), TARGET, "core"
        )
    )
    assert 0 < kernel_counts["core"] < two["core"] < two["full"] and kernel_counts["full"] > 20


def test_a_missing_capability_blocks_the_results_that_need_it() -> None:
    text = missing_feature_impact.impact_text(
        Fact("streams", False, "declared, but not there"), TARGET, "bringup"
    )
    counted = counts_by_level(text)
    assert "bringup" not in counted and 0 < counted["full"] < 300, "level bringup requires no streams"
    assert text.endswith("openreg: csrc/runtime/OpenRegStream.cpp")


def test_a_present_feature_has_no_impact() -> None:
    assert missing_feature_impact.fact_with_impact(Fact("streams", True, ""), TARGET, "core").impact == ""
    assert missing_feature_impact.fact_with_impact(Fact("streams", False, ""), TARGET, "core").impact
    assert missing_feature_impact.impact_text(Fact("dispatch keys", False, ""), TARGET, "core") == ""
