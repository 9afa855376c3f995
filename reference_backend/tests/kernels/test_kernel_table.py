"""Test that the device registers a kernel for every CPU kernel, and that a table lists all registrations.

``python test_kernel_table.py`` writes the table of the installed torch.
"""

from __future__ import annotations

import pathlib

import pytest
import torch
from habana_frameworks.torch import _C

TABLES = pathlib.Path(__file__).parent / "tables"
RELEASE = ".".join(torch.__version__.split(".")[:2])
KEYS = {
    "CPU": "HPU",
    "SparseCPU": "SparseHPU",
    "SparseCsrCPU": "SparseCsrHPU",
    "QuantizedCPU": "QuantizedHPU",
    "NestedTensorCPU": "NestedTensorHPU",
}
has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key


def table_lines() -> list[str]:
    return [" ".join(row) for row in _C.kernel_table()]


def test_table_of_this_release():
    path = TABLES / f"torch-{RELEASE}.txt"
    if not path.exists():
        pytest.skip(f"no table for torch {RELEASE}; write one with: python {pathlib.Path(__file__).name}")
    expected = path.read_text().splitlines()
    registered = table_lines()
    assert sorted(set(registered) - set(expected)) == [], (
        "the device registers operators that the table does not list"
    )
    assert sorted(set(expected) - set(registered)) == [], (
        "the table lists operators that the device does not register"
    )


def test_every_cpu_kernel_of_aten_is_covered():
    registered = {tuple(row.split()[:2]) for row in table_lines()}
    missing = []
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::") or "mkldnn" in name:
            continue
        native = has_kernel(name, "HPU")
        if has_kernel(name, "CPU") and ("HPU", name) not in registered and not native:
            missing.append(name)
    assert missing == []


@pytest.mark.parametrize(
    "name",
    ["native_layer_norm", "native_group_norm", "_stack", "addr", "all.dims", "any.dims", "linalg__powsum"],
)
def test_cpu_kernels_next_to_a_composite_kernel_are_registered(name):
    assert ["HPU", "aten::" + name, "host"] in [list(row) for row in _C.kernel_table()]


def test_collectives_are_not_registered_as_kernels():
    assert not any(row.split()[1].startswith("c10d::") for row in table_lines())
    with pytest.raises(Exception, match=r"HPU|hccl|backend"):
        import torch.distributed as dist

        store = dist.HashStore()
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        try:
            dist.all_reduce(torch.ones(1, device="hpu"))
        finally:
            dist.destroy_process_group()


if __name__ == "__main__":
    TABLES.mkdir(exist_ok=True)
    (TABLES / f"torch-{RELEASE}.txt").write_text("\n".join(table_lines()) + "\n")
