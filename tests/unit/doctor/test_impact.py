"""Results that a missing thing blocks, counted from the manifest."""

from __future__ import annotations

import re

import torch

from conformance.doctor import impact
from conformance.doctor.registration_checks import Fact
from conformance.plan.levels import manifest
from conformance.target import file as target_file

TARGET = target_file.load("hpu-reference").target("eager")


def counts(words: str) -> dict[str, int]:
    return {level: int(count.replace(",", "")) for count, level in re.findall(r"([\d,]+) of (\w+)", words)}


def due(level: str) -> int:
    return len(manifest.load().demand(torch.__version__, "eager", level).entries)


def test_without_copies_everything_is_blocked() -> None:
    words = impact.of(Fact("prerequisite copies", False, "wrong"), TARGET, "bringup")
    assert counts(words) == {"bringup": due("bringup"), "full": due("full")}
    assert "openreg: csrc/aten/OpenRegMinimal.cpp" in words


def test_a_kernel_blocks_the_results_of_the_operators_that_wait_for_it() -> None:
    one = counts(impact.of(Fact("kernels", False, "", operators=("add",)), TARGET, "core"))
    two = counts(impact.of(Fact("kernels", False, "", operators=("add", "mul")), TARGET, "core"))
    assert 0 < one["core"] < two["core"] < two["full"] and one["full"] > 20


def test_a_capability_blocks_the_results_that_need_it() -> None:
    words = impact.of(Fact("streams", False, "declared, but not there"), TARGET, "bringup")
    found = counts(words)
    assert "bringup" not in found and 0 < found["full"] < 300, "level bringup asks for no streams"
    assert words.endswith("openreg: csrc/runtime/OpenRegStream.cpp")


def test_what_is_there_has_no_stakes() -> None:
    assert impact.with_stakes(Fact("streams", True, ""), TARGET, "core").stakes == ""
    assert impact.with_stakes(Fact("streams", False, ""), TARGET, "core").stakes
    assert impact.of(Fact("dispatch keys", False, ""), TARGET, "core") == ""
