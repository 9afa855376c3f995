"""If a collective is faulty, the properties of this collective fail, and also the multi-rank properties that
call the collective.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.faulty_rank_pools import assert_fault_is_detected
from tests.support.nightly import every_nth

#: Name of a fault -> cases of the suite that must fail with the fault. Faults whose names start with ``hpu:``
#: run on the reference device. All other faults run on the CPU.
FAULTS: dict[str, list[str]] = {
    "wrong_values": [
        *(
            f"collective-value/{name}"
            for name in ("all_reduce", "all_reduce_coalesced", "reduce", "broadcast")
        ),
        *(f"collective-value/{name}" for name in ("all_gather", "all_gather_into_tensor", "reduce_scatter")),
        *(
            f"collective-value/{name}"
            for name in ("reduce_scatter_tensor", "all_to_all", "all_to_all_single")
        ),
        *(f"collective-value/{name}" for name in ("gather", "scatter", "isend_irecv", "send_recv")),
        "collective-value/functional.all_reduce",
        *(f"collective-value/{name}" for name in ("functional.broadcast", "functional.all_gather_tensor")),
        *("collective-handles/broadcast", "collective-order/all_gather", "collective-groups/all_to_all"),
        *("collective-layouts/scatter", "started-again/groups", "groups-beside-each-other/groups"),
        *("mesh-of-two-dimensions/mesh",),
    ],
    "wrong_batch_isend_irecv": ["collective-value/batch_isend_irecv"],
    "all_gather_changes_input": ["collective-value/all_gather"],
    "wrong_result_dtype": ["collective-value/all_to_all"],
    "work_never_completed": ["collective-handles/all_reduce"],
    "broadcast_returns_no_work": ["collective-handles/broadcast"],
    "subgroup_reduces_over_all_ranks": ["collective-groups/all_reduce", "members-and-others/groups"],
    "strided_input_read_as_dense": ["collective-layouts/all_gather_into_tensor"],
    "result_storage_offset_ignored": ["collective-layouts/all_gather_into_tensor"],
    "hpu:side_streams_not_awaited": ["collective-order/all_reduce"],
    "error_on_one_rank_only": ["collective-layouts/all_to_all_single"],
    "hpu:wait_blocks_host": ["collective-order/all_reduce"],
    "hpu:wait_does_nothing": ["collective-order/all_reduce"],
}


#: Outside the nightly run every fourth fault is injected, because each fault takes seconds and the code of
#: rank pools rarely changes.
@pytest.mark.parametrize("name", every_nth(4, list(FAULTS)))
def test_a_fault_is_detected(name: str, folder_and_monkeypatch: tuple[Path, pytest.MonkeyPatch]) -> None:
    assert_fault_is_detected(name, FAULTS[name], *folder_and_monkeypatch)
