"""A fault at least for every property of collectives and of worlds: each must turn red."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.distributed import team
from conformance.model.verdicts import Verdict
from conformance.plan.plan import Case, build
from conformance.properties.registry import properties
from conformance.target import file as target_file
from conformance.target.target import Target
from conformance.worker.executor import Executor

HERE = Path(__file__).parent
GLOO = """
schema = 1
name = "faulty"
device = "cpu"
module = "faulty_ranks"
modes = ["distributed"]
[compile]
backend = "aot_eager"
[distributed]
backend = "gloo"
"""
HCCL = """
schema = 1
name = "faulty"
device = "hpu"
module = "faulty_ranks"
modes = ["distributed"]
[hooks]
synchronize = "torch:hpu.synchronize"
delay = "habana_frameworks.torch._C:enqueue_delay"
[compile]
backend = "hpu_backend"
[distributed]
backend = "hccl"
"""
#: What each fault must turn red: cases of the suite. Those below ``hpu:`` run on the reference device.
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
    "wrong_facts": ["group-facts/groups"],
    "no_default_backend": ["backend-of-device/groups"],
    "outsiders_are_members": ["members-and-others/groups"],
    "open_barrier": ["barrier-holds/groups"],
    "everything_accepted": ["wrong-calls-are-refused/failures"],
    "silent_errors": ["a-rank-dies/failures", "a-rank-stays-away/failures"],
    "endless_errors": ["a-rank-dies/failures"],
    "outsiders_are_touched": ["calls-outside-of-a-group/failures"],
    "lost_objects": ["objects-travel/objects", "tensors-travel-as-objects/objects"],
    "own_stores": ["stores-are-shared/objects"],
    "shards_of_others": ["distributed-tensors/mesh", "gradients-of-distributed-tensors/mesh"],
    "other_batches": [
        *("data-parallel/ddp", "data-parallel-adamw/ddp", "data-parallel-static-graph/ddp"),
        *("data-parallel-gradient-views/ddp", "data-parallel-small-buckets/ddp"),
        *("data-parallel-accumulation/ddp", "data-parallel-hooks/ddp", "data-parallel-checkpointing/ddp"),
        *("data-parallel-autocast/ddp", "columns-and-rows/tensor-parallel", "sequences/tensor-parallel"),
        *("fully-sharded/fsdp2", "fully-sharded-kept-after-forward/fsdp2", "fully-sharded-clipping/fsdp2"),
        *("fully-sharded-accumulation/fsdp2", "fully-sharded-mixed-precision/fsdp2"),
        *("compiled-data-parallel/compiled-training", "compiled-fully-sharded/compiled-training"),
    ],
    "own_starts": ["data-parallel-starts-from-the-first-rank/ddp"],
    "own_steps": ["data-parallel-uneven-inputs/ddp"],
    "loads_nothing": ["saved-by-all-loaded-by-all/checkpoints", "saved-by-one-loaded-by-all/checkpoints"],
    "saves_zeros": ["saved-by-all-loaded-by-one/checkpoints"],
    "hpu:wait_holds_the_host": ["collective-order/all_reduce"],
    "hpu:wait_holds_nothing": ["collective-order/all_reduce"],
    "hpu:random_alike": ["random-distributed-tensors/mesh"],
    "hpu:other_batches": [
        *("full-shard/fsdp1", "shard-grad-op/fsdp1", "no-shard/fsdp1", "hybrid-shard/fsdp1"),
        *("full-shard-on-the-host/fsdp1", "full-shard-mixed-precision/fsdp1", "full-state-dicts/fsdp1"),
        *(
            "sharded-state-dicts/fsdp1",
            "fully-sharded-on-the-host/fsdp2",
            "synchronised-batch-norm/batch-norm",
        ),
    ],
    "hpu:wrong_values": ["host-and-device-in-one-group/groups"],
    "stale_gradients": ["data-parallel-unused-parameters/ddp"],
    "breaks_graphs": ["collectives-in-compiled-functions/compiled-training"],
}

#: The kinds of failure that may show a fault, where they are not other values.
KINDS: dict[str, set[str]] = {
    "other_dtype": {"dtype"},
    "handle_never_done": {"state"},
    "no_handle": {"state"},
    "refuses_on_one_rank": {"state"},
    "no_default_backend": {"state"},
    "open_barrier": {"state"},
    "everything_accepted": {"refused"},
    "silent_errors": {"state"},
    "endless_errors": {"timeout"},
    "hpu:wait_holds_the_host": {"state"},
    "hpu:random_alike": {"state"},
    "breaks_graphs": {"exception"},  # torch refuses to make one graph of it
}


@pytest.fixture()
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, pytest.MonkeyPatch]]:
    """A folder for target files, with ranks that find the faults; worlds end with the test."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield tmp_path, monkeypatch
    for world in team._worlds.values():
        world.kill()
    team._worlds.clear()


def target_with(name: str, folder: Path, patch: pytest.MonkeyPatch) -> Target:
    """The target whose ranks have a fault."""
    device, _, fault = name.rpartition(":")
    file = folder / "faulty.toml"
    file.write_text(HCCL if device else GLOO)
    patch.setenv("FAULT_DEVICE", device)
    patch.setenv("FAULT", "" if fault == "none" else fault)
    return target_file.load(str(file)).target("distributed")


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_seen(name: str, faulty: tuple[Path, pytest.MonkeyPatch]) -> None:
    if name.startswith("hpu:"):
        pytest.importorskip("habana_frameworks.torch", reason="the reference device is not built")
    target = target_with(name, *faulty)
    executor = Executor(target)
    planned = {case.id: case for case in build(target, "full").cases}
    unseen = {}
    for wanted in FAULTS[name]:
        case = planned[wanted]
        dtype = "any" if "any" in case.dtypes else "float32"
        (result,) = executor.run(Case(case.kind, case.property, case.subject, (dtype,)))
        kinds = {failure.kind.value for failure in result.failures}
        if result.verdict is not Verdict.FAIL or not kinds & KINDS.get(name, {"value"}):
            unseen[wanted] = (result.verdict, kinds, [failure.message for failure in result.failures])
    assert not unseen


def test_every_property_has_a_fault() -> None:
    planted = {case.partition("/")[0] for cases in FAULTS.values() for case in cases}
    known = {entry.name for kind in ("collective", "world") for entry in properties(kind)}
    assert planted == known


def test_without_a_fault_they_pass(faulty: tuple[Path, pytest.MonkeyPatch]) -> None:
    """What is held against the faulty world is sound: once each property, in one world."""
    target = target_with("none", *faulty)
    executor = Executor(target)
    seen: collections.Counter[Verdict] = collections.Counter()
    done: set[str] = set()
    for case in build(target, "full").cases:
        if case.property in done or case.subject.endswith("stacked"):
            continue
        done.add(case.property)
        for result in executor.run(Case(case.kind, case.property, case.subject, case.dtypes[:1])):
            seen[result.verdict] += 1
            gloo = case.id in ("collective-layouts/all_reduce",)
            assert result.verdict is Verdict.PASS or gloo, (str(result.id), result.failures)
    assert seen[Verdict.PASS] > 35
