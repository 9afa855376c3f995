"""Every multi-rank property fails with at least one injected fault, and passes without a fault."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from conformance.model.verdicts import Verdict
from conformance.plan.plan import Case, build_plan
from conformance.properties.registry import properties
from conformance.worker.executor import Executor
from tests.injected_faults.collective import test_detection as collectives
from tests.support.faulty_rank_pools import assert_fault_is_detected, target_with_faulty_ranks
from tests.support.nightly import every_nth

#: Name of a fault -> cases of the suite that must fail with the fault. Faults whose names start with ``hpu:``
#: run on the reference device. All other faults run on the CPU.
FAULTS: dict[str, list[str]] = {
    "wrong_rank_numbers": ["group-facts/groups"],
    "no_default_backend": ["backend-of-device/groups"],
    "non_members_have_a_rank": ["members-and-others/groups"],
    "barrier_does_not_wait": ["barrier-holds/groups"],
    "invalid_arguments_accepted": ["wrong-calls-are-refused/failures"],
    "all_reduce_errors_swallowed": ["a-rank-dies/failures", "a-rank-stays-away/failures"],
    "all_reduce_hangs_instead_of_error": ["a-rank-dies/failures"],
    "non_member_tensors_zeroed": ["calls-outside-of-a-group/failures"],
    "gathered_objects_reversed": ["objects-travel/objects", "tensors-travel-as-objects/objects"],
    "store_not_shared": ["stores-are-shared/objects"],
    "wrong_shard_values": ["distributed-tensors/mesh", "gradients-of-distributed-tensors/mesh"],
    "batches_scaled_on_other_ranks": [
        *("data-parallel/ddp", "data-parallel-adamw/ddp", "data-parallel-static-graph/ddp"),
        *("data-parallel-gradient-views/ddp", "data-parallel-small-buckets/ddp"),
        *("data-parallel-accumulation/ddp", "data-parallel-hooks/ddp", "data-parallel-checkpointing/ddp"),
        *("data-parallel-autocast/ddp", "columns-and-rows/tensor-parallel", "sequences/tensor-parallel"),
        *("fully-sharded/fsdp2", "fully-sharded-kept-after-forward/fsdp2", "fully-sharded-clipping/fsdp2"),
        *("fully-sharded-accumulation/fsdp2", "fully-sharded-mixed-precision/fsdp2"),
        *("compiled-data-parallel/compiled-training", "compiled-fully-sharded/compiled-training"),
    ],
    "ddp_keeps_initial_weights": ["data-parallel-starts-from-the-first-rank/ddp"],
    "ddp_skips_gradient_reduction": ["data-parallel-uneven-inputs/ddp"],
    "checkpoint_load_does_nothing": [
        "saved-by-all-loaded-by-all/checkpoints",
        "saved-by-one-loaded-by-all/checkpoints",
    ],
    "checkpoint_saves_zeros": ["saved-by-all-loaded-by-one/checkpoints"],
    "hpu:dtensor_rand_returns_ones": ["random-distributed-tensors/mesh"],
    "hpu:batches_scaled_on_other_ranks": [
        *("full-shard/fsdp1", "shard-grad-op/fsdp1", "no-shard/fsdp1", "hybrid-shard/fsdp1"),
        *("full-shard-on-the-host/fsdp1", "full-shard-mixed-precision/fsdp1", "full-state-dicts/fsdp1"),
        *(
            "sharded-state-dicts/fsdp1",
            "fully-sharded-on-the-host/fsdp2",
            "synchronised-batch-norm/batch-norm",
        ),
    ],
    "hpu:wrong_values": ["host-and-device-in-one-group/groups"],
    "zero_grad_does_nothing": ["data-parallel-unused-parameters/ddp"],
    "functional_all_reduce_breaks_graph": ["collectives-in-compiled-functions/compiled-training"],
}


#: Outside the nightly run every sixth fault is injected, because each fault takes seconds and the code of
#: rank pools rarely changes.
@pytest.mark.parametrize("name", every_nth(6, list(FAULTS)))
def test_a_fault_is_detected(name: str, folder_and_monkeypatch: tuple[Path, pytest.MonkeyPatch]) -> None:
    assert_fault_is_detected(name, FAULTS[name], *folder_and_monkeypatch)


def test_every_property_has_a_fault() -> None:
    faulted_properties = {
        case.partition("/")[0] for cases in (*FAULTS.values(), *collectives.FAULTS.values()) for case in cases
    }
    property_names = {entry.name for kind in ("collective", "world") for entry in properties(kind)}
    assert faulted_properties == property_names


@pytest.mark.nightly("`nox -s conformance` runs all of them without a fault, in mode distributed")
def test_every_property_passes_without_a_fault(
    folder_and_monkeypatch: tuple[Path, pytest.MonkeyPatch],
) -> None:
    """Every property passes without a fault. One rank pool runs all properties."""
    target = target_with_faulty_ranks("none", *folder_and_monkeypatch)
    executor = Executor(target)
    verdict_counts: collections.Counter[Verdict] = collections.Counter()
    done: set[str] = set()
    for case in build_plan(target, "full").cases:
        if case.property in done or case.subject.endswith("stacked"):
            continue
        done.add(case.property)
        for result in executor.run(Case(case.kind, case.property, case.subject, case.dtypes[:1])):
            verdict_counts[result.verdict] += 1
            gloo = case.id in ("collective-layouts/all_reduce",)
            assert result.verdict is Verdict.PASS or gloo, (str(result.id), result.failures)
    assert verdict_counts[Verdict.PASS] > 35
