"""Run cases in rank pools whose ranks have a fault in torch.distributed, and assert that they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.model.verdicts import Verdict
from conformance.plan.plan import Case, build_plan
from conformance.target import file as target_file
from conformance.target.target import Target
from conformance.worker.executor import Executor

GLOO = """
schema = 1
name = "faulty"
device = "cpu"
module = "tests.support.faulty_ranks"
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
module = "tests.support.faulty_ranks"
modes = ["distributed"]
[hooks]
synchronize = "torch:hpu.synchronize"
delay = "habana_frameworks.torch._C:enqueue_delay"
[compile]
backend = "hpu_backend"
[distributed]
backend = "hccl"
"""
#: Name of a fault -> failure kinds, of which at least one must occur. A fault without an entry must cause the
#: failure kind ``value``.
KINDS: dict[str, set[str]] = {
    "wrong_result_dtype": {"dtype"},
    "work_never_completed": {"state"},
    "broadcast_returns_no_work": {"state"},
    "error_on_one_rank_only": {"state"},
    "no_default_backend": {"state"},
    "barrier_does_not_wait": {"state"},
    "invalid_arguments_accepted": {"refused"},
    "all_reduce_errors_swallowed": {"state"},
    "all_reduce_hangs_instead_of_error": {"timeout"},
    "hpu:wait_blocks_host": {"state"},
    "hpu:dtensor_rand_returns_ones": {"state"},
    "functional_all_reduce_breaks_graph": {"exception"},  # torch cannot compile the function into one graph
}


#: Faults that have no effect while the reference device orders streams by memory, which is its default.
HIDDEN_BY_MEMORY_ORDER = ("side_streams_not_awaited", "wait_does_nothing")


def target_with_faulty_ranks(name: str, folder: Path, patch: pytest.MonkeyPatch) -> Target:
    """Write a target file, set the environment variables so that the ranks have the fault ``name``, and
    return the target. The name ``none`` means no fault. The prefix ``hpu:`` selects the reference device
    instead of the CPU.
    """
    device, _, fault = name.rpartition(":")
    file = folder / "faulty.toml"
    file.write_text(HCCL if device else GLOO)
    patch.setenv("FAULT_DEVICE", device)
    if fault in HIDDEN_BY_MEMORY_ORDER:
        patch.setenv("HPU_REFERENCE_STREAM_ORDER", "events")
    patch.setenv("FAULT", "" if fault == "none" else fault)
    return target_file.load(str(file)).target("distributed")


def assert_fault_is_detected(name: str, expected: list[str], folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Assert that each case of ``expected`` fails with the fault ``name``, with a failure kind that KINDS
    lists for the fault.
    """
    if name.startswith("hpu:"):
        pytest.importorskip("habana_frameworks.torch", reason="the reference device is not built")
    target = target_with_faulty_ranks(name, folder, patch)
    executor = Executor(target)
    planned = {case.id: case for case in build_plan(target, "full").cases}
    unseen = {}
    for wanted in expected:
        case = planned[wanted]
        dtype = "any" if "any" in case.dtypes else "float32"
        (result,) = executor.run(Case(case.kind, case.property, case.subject, (dtype,)))
        kinds = {failure.kind.value for failure in result.failures}
        if result.verdict is not Verdict.FAIL or not kinds & KINDS.get(name, {"value"}):
            unseen[wanted] = (result.verdict, kinds, [failure.message for failure in result.failures])
    assert not unseen, unseen
