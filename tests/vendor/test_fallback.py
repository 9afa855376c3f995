"""The suite reports the placement ``fallback`` for a device that implements only memory and copies, while
torch runs all other kernels on the CPU.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.vendor import harness

#: Matches the names of operators that view, allocate or copy memory, and of the ``_copy`` variants of these
#: operators. The device itself implements these operators.
OWN = re.compile(
    r"(alias|as_strided|atleast|bool|broadcast|chunk|clone|conj|contiguous|diagonal|double|empty|expand|flatten"
    r"|float|int|linalg.diagonal|long|meshgrid|movedim|narrow|new_empty|permute|positive|ravel|real|reshape"
    r"|resize|resolve|select|slice|split|squeeze|tensor_split|to|transpose|unbind|unflatten|unsafe_chunk"
    r"|unsafe_split|unsqueeze|view|[dhv]split|[HTt]|m[HT])"
    r"(_\dd|_(to|shapes|tensors|as|like|strided|permuted|physical|conj|neg|with_sizes)|_)*(_copy|_scatter)?(\..*)?$"
)
#: Matches the names of operators that call only operators of ``OWN``. A dropout outside training returns its
#: input, and the other operators move elements.
MOVING = re.compile(r"nn\.functional\.(pad\.circular|\w*dropout.*|pixel_\w+)$")


def test_operators_without_device_kernels_have_placement_fallback(tmp_path: Path) -> None:
    file = harness.write_target(tmp_path, asynchronous=False, cpu_fallback=True)
    options = ("--level", "full", "-k", "placement", "-n", "2", "-o", "out")
    ran = harness.run_conformance(tmp_path, "run", "--target", file, *options, stage=2, TINY_FALLBACK="1")
    assert ran.returncode in (0, 1), ran.stderr
    placements = {
        row["id"].partition("/")[2].rpartition("@")[0]: row.get("placement")
        for row in harness.result_rows(tmp_path / "out")
        if row["id"].startswith("placement/") and row["verdict"] == "pass"
    }
    not_fallback = {name: placement for name, placement in placements.items() if placement != "fallback"}
    assert len(placements) > 600
    assert {name for name in not_fallback if not OWN.match(name) and not MOVING.match(name)} == set()
    assert set(not_fallback.values()) == {"native", "composite"}
    assert not {"add", "sum", "nn.functional.layer_norm", "nn.functional.batch_norm"} & set(not_fallback)
