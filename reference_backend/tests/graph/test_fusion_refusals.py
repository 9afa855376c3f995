"""Test that a graph that cannot be fused raises `NotFusable` with a reason, before any compiler runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.record_and_run_fused import build_and_run, load_fusion_module, record

NotFusable = load_fusion_module("description").NotFusable


def tensor_ref(
    buffer: int, dtype: Any = torch.float32, conj: bool = False, neg: bool = False
) -> tuple[Any, ...]:
    return ("tensor", buffer, dtype, (4,), (1,), 0, conj, neg)


def describe_call(
    op: str, args: list[Any], results: list[Any], writes: Any = (), role: str = "input"
) -> dict[str, Any]:
    buffers = [{"bytes": 16, "role": role}, {"bytes": 16, "role": "output"}]
    return {
        "buffers": buffers,
        "calls": [{"op": op, "args": args, "results": results, "writes": list(writes)}],
    }


REFUSED = {
    "random generator": (
        describe_call("aten::normal_", [tensor_ref(1), 0.0, 1.0, ("generator",)], [tensor_ref(1)], [0]),
        "a random generator",
    ),
    "random operator": (
        describe_call("aten::native_dropout", [tensor_ref(0), 0.5, True], [tensor_ref(1), tensor_ref(1)]),
        "draws random numbers",
    ),
    "conjugate bit": (
        describe_call("aten::neg", [tensor_ref(0, conj=True)], [tensor_ref(1)]),
        "conjugate or negative bit",
    ),
    "negative bit": (
        describe_call("aten::neg", [tensor_ref(0, neg=True)], [tensor_ref(1)]),
        "conjugate or negative bit",
    ),
    "unknown operator": (
        describe_call("aten::no_such_operator", [tensor_ref(0)], [tensor_ref(1)]),
        "does not exist",
    ),
    "unknown namespace": (describe_call("nowhere::neg", [tensor_ref(0)], [tensor_ref(1)]), "does not exist"),
    "too few arguments": (describe_call("aten::add.Tensor", [tensor_ref(0)], [tensor_ref(1)]), "1 arguments"),
    "sizes from data": (
        describe_call("aten::nonzero", [tensor_ref(0)], [tensor_ref(1)]),
        "DynamicOutputShape",
    ),
    "other dtype": (
        describe_call("aten::neg", [tensor_ref(0)], [tensor_ref(1, torch.int32)]),
        "but torch.int32 was recorded",
    ),
    "constant written": (
        describe_call("aten::neg_", [tensor_ref(0)], [tensor_ref(0)], [0], role="constant"),
        "writes a constant",
    ),
    "unknown role": (
        describe_call("aten::neg", [tensor_ref(0)], [tensor_ref(1)], role="borrowed"),
        "unknown role 'borrowed'",
    ),
    "unrecorded write": (
        describe_call("aten::neg_", [tensor_ref(0)], [tensor_ref(0)]),
        "the schema declares a write",
    ),
    "unknown comparison": (
        describe_call(
            "aten::eq.Tensor",
            [tensor_ref(0, torch.int32), ("cpu", 2.5, torch.float64)],
            [tensor_ref(1, torch.bool)],
        ),
        "compares integers",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unfusable_call_raises_with_a_reason(name: str) -> None:
    description, reason = REFUSED[name]
    with pytest.raises(NotFusable, match=reason):
        load_fusion_module("fx_graph_builder").build_module(description)


def test_error_without_a_message_is_named_as_the_reason() -> None:
    """A bare assert or an unfinished shape rule in a user's operator raises an error without a message."""

    @torch.library.custom_op("fusion_refusals::row", mutates_args=())
    def row(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @row.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    with pytest.raises(NotFusable, match=r"row.default: NotImplementedError: no message"):
        load_fusion_module("fx_graph_builder").build_module(
            describe_call("fusion_refusals::row", [tensor_ref(0)], [tensor_ref(1)])
        )


def test_two_dtypes_over_written_memory_raise() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x.view(torch.int32) + 1

    with pytest.raises(NotFusable, match="two dtypes"):
        build_and_run(record(program, torch.ones(4)))


def test_writes_to_elements_that_share_memory_raise() -> None:
    description = describe_call("aten::copy_", [tensor_ref(1), tensor_ref(0), False], [tensor_ref(1)], [0])
    shared = ("tensor", 0, torch.float32, (4,), (0,), 0, False, False)
    description["calls"].append({"op": "aten::relu_", "args": [shared], "results": [shared], "writes": [0]})
    with pytest.raises(NotFusable, match="share memory"):
        load_fusion_module("fx_graph_builder").build_module(description)


def test_description_survives_a_round_trip() -> None:
    module = load_fusion_module("description")
    args = [
        1,
        2.5,
        float("inf"),
        True,
        None,
        "mean",
        1 + 2j,
        torch.float16,
        torch.device("cpu"),
        [[tensor_ref(0)], []],
    ]
    args += [torch.strided, torch.channels_last, ("cpu", 3, torch.int64)]
    description = describe_call("aten::whatever", args, [tensor_ref(1)])
    assert module.loads(module.dumps(description)) == description


def test_digest_depends_on_the_description() -> None:
    module = load_fusion_module("description")
    negation = module.dumps(describe_call("aten::neg", [tensor_ref(0)], [tensor_ref(1)]))
    relu = module.dumps(describe_call("aten::relu", [tensor_ref(0)], [tensor_ref(1)]))
    assert module.digest_of(negation) == module.digest_of(negation) != module.digest_of(relu)
