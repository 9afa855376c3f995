"""Parts of the harness one by one: plans, shards, selections, scheduling, refusals, accelerators."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from conformance.checking import refusal
from conformance.device.accelerator import check_device
from conformance.errors import UsageError
from conformance.model.patterns import matches
from conformance.model.verdicts import CaseId, ResultId, seed_of
from conformance.oracle import recheck
from conformance.plan import selection
from conformance.plan.plan import Case, Plan, Shard
from conformance.results.ledger import unusable
from conformance.target import file as target_file
from conformance.worker.scheduler import SubjectScheduling

PLAN = Plan(
    [Case("operator", name, f"op{index}", ("float32", "int64")) for index in range(50) for name in ("a", "b")]
)


def test_shards_cut_a_plan_into_parts_that_never_move() -> None:
    parts = [PLAN.shard(Shard(index, 3)) for index in (1, 2, 3)]
    ids = [result_id for part in parts for result_id in part.result_ids()]
    assert sorted(ids) == sorted(PLAN.result_ids())
    assert all(part.cases for part in parts)
    for part in parts:
        assert {case.subject for case in part.cases if case.property == "a"} == {
            case.subject for case in part.cases if case.property == "b"
        }
    # Subjects without a recorded time go by their names alone.
    assert [
        [Shard(i, 4).takes("operator", f"op{n}") for i in (1, 2, 3, 4)].index(True) for n in range(4)
    ] == [0, 2, 0, 2]


def test_a_shard_does_not_depend_on_what_else_there_is() -> None:
    fewer = Plan(PLAN.cases[::2])
    whole = set(PLAN.shard(Shard(2, 3)).result_ids())
    assert set(fewer.shard(Shard(2, 3)).result_ids()) <= whole


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/", "a/b", "-1/2"])
def test_shards_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError, match="is not of the form I/N"):
        Shard.parse(text)


def test_plans_survive_the_way_through_json() -> None:
    assert Plan.from_json(PLAN.to_json()) == PLAN
    assert PLAN.digest() == Plan(PLAN.cases[::-1]).digest() != Plan(PLAN.cases[1:]).digest()
    part = PLAN.only(["a/op3@int64", "b/op7@float32", "b/op7@int64"])
    assert [case.dtypes for case in part.cases] == [("int64",), ("float32", "int64")]


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("add", "value/add@float32 value/addmm@float32 out/add@int64"),
        ("/add@", "value/add@float32 out/add@int64"),
        ("VALUE and not addmm", "value/add@float32 value/nn.relu@bool"),
        ("bool or (out and int64)", "out/add@int64 value/nn.relu@bool"),
        ("not (add or relu)", ""),
        ("not not relu", "value/nn.relu@bool"),
    ],
)
def test_selections(expression: str, chosen: str) -> None:
    ids = ["value/add@float32", "value/addmm@float32", "out/add@int64", "value/nn.relu@bool"]
    assert " ".join(filter(selection.parse(expression), ids)) == chosen


@pytest.mark.parametrize("expression", ["", "and", "a b", "(a", "a or", "not", "a)"])
def test_selections_that_do_not_parse(expression: str) -> None:
    with pytest.raises(UsageError, match="-k "):
        selection.parse(expression)


def test_patterns_know_two_signs_only() -> None:
    assert matches("value/fft_*@float??", "value/fft_rfft2@float16")
    assert not matches("value/add", "value/add@float32")
    assert not matches("value/[ab]@*", "value/a@x")
    assert not matches("value/a.d@*", "value/add@x")


def test_ids_parse_and_print() -> None:
    result_id = ResultId.parse("value/nn.functional.conv2d@float32")
    assert (str(result_id), str(result_id.case)) == (
        "value/nn.functional.conv2d@float32",
        "value/nn.functional.conv2d",
    )
    for wrong in ("value", "value/add", "value/add@", "/add@x", "value@x"):
        with pytest.raises(ValueError, match="is not of the form"):
            ResultId.parse(wrong)
    assert CaseId.parse("a/b/c") == CaseId("a", "b/c")


def test_seeds_never_change() -> None:
    assert seed_of("add", "float32") == 1781496931
    assert seed_of("add", "float32") != seed_of("add", "float64")


@dataclasses.dataclass(eq=False)
class Node:
    """A worker of pytest-xdist as the scheduler sees it."""

    sent: list[int] = dataclasses.field(default_factory=list)
    shutting_down: bool = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduling(subjects: int, workers: int) -> tuple[SubjectScheduling, list[Node], list[str]]:
    ids = [f"m::{name}/op{index}" for index in range(subjects) for name in "abc"]
    scheduler = SubjectScheduling(workers, lambda nodeid: nodeid.partition("/")[2], lambda *words: None)
    nodes = [Node() for _ in range(workers)]
    for node in nodes:
        scheduler.add_node(node)
    assert not scheduler.collection_is_completed
    for node in nodes:
        scheduler.add_node_collection(node, ids)
    assert scheduler.collection_is_completed
    scheduler.schedule()
    return scheduler, nodes, ids


def test_a_worker_gets_whole_subjects() -> None:
    scheduler, (first, second), _ = scheduling(4, 2)
    assert (first.sent, second.sent) == ([0, 1, 2], [3, 4, 5])
    for index in (0, 1):
        scheduler.mark_test_complete(first, index)
    assert first.sent == [0, 1, 2, 6, 7, 8]
    assert not scheduler.tests_finished


def test_what_a_dead_worker_had_not_begun_goes_to_another() -> None:
    scheduler, (first, second), ids = scheduling(2, 2)
    scheduler.mark_test_complete(first, 0)
    assert scheduler.remove_node(first) == ids[1]
    assert not scheduler.tests_finished
    fresh = Node()
    scheduler.add_node(fresh)
    scheduler.add_node_collection(fresh, ids)
    scheduler.schedule()
    assert fresh.sent + second.sent[3:] == [2]
    for node, indices in ((second, (3, 4, 5)), (fresh, (2,))):
        for index in indices:
            if index in scheduler._pending.get(node, ()):
                scheduler.mark_test_complete(node, index)
    assert scheduler.tests_finished


def test_refusals_are_declared_and_clean_or_failures() -> None:
    target = dataclasses.replace(
        target_file.load("cpu").target("eager"), unsupported={"*/fft_*@float16": "no half"}
    )
    declared, other = ResultId.parse("value/fft_rfft@float16"), ResultId.parse("value/fft_rfft@float32")

    def classify(error: BaseException, result_id: ResultId = declared) -> str:
        return refusal.classify(target, result_id, error)

    assert classify(NotImplementedError("no")) == classify(RuntimeError("no")) == "declared"
    assert classify(NotImplementedError("no"), other) == "undeclared"
    for error in (torch.OutOfMemoryError("no"), RecursionError("no"), ValueError("no"), TypeError("no"),
                  RuntimeError("x INTERNAL ASSERT FAILED at y")):  # fmt: skip
        assert classify(error) == "undeclared"
    assert refusal.reason(target, declared) == "no half"


def test_another_accelerator_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = target_file.load("cpu").target("eager")
    target = dataclasses.replace(cpu, name="mine", device="hpu", module="my_backend")
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: torch.device("xpu"))
    with pytest.raises(
        UsageError, match="the accelerator of this process is 'xpu', not 'hpu' of target 'mine'"
    ):
        check_device(target)
    check_device(cpu)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: None)
    with pytest.raises(UsageError, match="no accelerator is present after importing 'my_backend'"):
        check_device(target)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: torch.device("hpu"))
    check_device(target)
    with pytest.raises(UsageError, match="is unknown to torch"):
        check_device(dataclasses.replace(cpu, device="abacus"))


def test_the_oracle_check_names_what_differs() -> None:
    events: list[dict[str, Any]] = [
        {"operator": name, "dtype": "float32", "index": 1, "digest": "same"} for name in ("add", "mul", "sub")
    ]

    def digest(operator: str, dtype: str, index: int) -> str:
        if operator == "sub":
            raise LookupError("no sub")
        return "same" if operator == "add" else "other"

    assert recheck.compare(events, digest) == [
        "oracle value of mul@float32, sample 1 differs without the backend: other instead of same",
        "oracle value of sub@float32, sample 1 cannot be computed without the backend: LookupError: no sub",
    ]


def test_words_of_a_poisoned_device() -> None:
    assert unusable("add gave 3") == "left the device unusable: add gave 3"
