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
    "wrong_batches": ["collective-value/batch_isend_irecv"],
    "input_written": ["collective-value/all_gather"],
    "other_dtype": ["collective-value/all_to_all"],
    "handle_never_done": ["collective-handles/all_reduce"],
    "no_handle": ["collective-handles/broadcast"],
    "groups_are_the_world": ["collective-groups/all_reduce", "members-and-others/groups"],
    "strided_is_dense": ["collective-layouts/all_gather_into_tensor"],
    "results_at_the_start": ["collective-layouts/all_gather_into_tensor"],
    "hpu:side_streams_forgotten": ["collective-order/all_reduce"],
    "refuses_on_one_rank": ["collective-layouts/all_to_all_single"],
    "hpu:wait_holds_the_host": ["collective-order/all_reduce"],
    "hpu:wait_holds_nothing": ["collective-order/all_reduce"],
}


#: Outside the nightly run every fourth fault is injected, because each fault takes seconds and the code of
#: rank pools rarely changes.
@pytest.mark.parametrize("name", every_nth(4, list(FAULTS)))
def test_a_fault_is_detected(name: str, faulty: tuple[Path, pytest.MonkeyPatch]) -> None:
    assert_fault_is_detected(name, FAULTS[name], *faulty)
