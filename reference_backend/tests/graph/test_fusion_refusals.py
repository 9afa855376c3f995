"""Graphs that cannot be fused are refused with a reason, before any compiler runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.fusion_programs import fusion, record, run_built

NotFusable = fusion("description").NotFusable


def tensor(buffer: int, dtype: Any = torch.float32, conj: bool = False, neg: bool = False) -> tuple[Any, ...]:
    return ("tensor", buffer, dtype, (4,), (1,), 0, conj, neg)


def described(
    op: str, args: list[Any], results: list[Any], writes: Any = (), role: str = "input"
) -> dict[str, Any]:
    buffers = [{"bytes": 16, "role": role}, {"bytes": 16, "role": "output"}]
    return {
        "buffers": buffers,
        "calls": [{"op": op, "args": args, "results": results, "writes": list(writes)}],
    }


REFUSED = {
    "random generator": (
        described("aten::normal_", [tensor(1), 0.0, 1.0, ("generator",)], [tensor(1)], [0]),
        "a random generator",
    ),
    "random operator": (
        described("aten::native_dropout", [tensor(0), 0.5, True], [tensor(1), tensor(1)]),
        "draws random numbers",
    ),
    "conjugate bit": (
        described("aten::neg", [tensor(0, conj=True)], [tensor(1)]),
        "conjugate or negative bit",
    ),
    "negative bit": (described("aten::neg", [tensor(0, neg=True)], [tensor(1)]), "conjugate or negative bit"),
    "unknown operator": (described("aten::no_such_operator", [tensor(0)], [tensor(1)]), "does not exist"),
    "unknown namespace": (described("nowhere::neg", [tensor(0)], [tensor(1)]), "does not exist"),
    "too few arguments": (described("aten::add.Tensor", [tensor(0)], [tensor(1)]), "1 arguments"),
    "sizes from data": (described("aten::nonzero", [tensor(0)], [tensor(1)]), "DynamicOutputShape"),
    "other dtype": (
        described("aten::neg", [tensor(0)], [tensor(1, torch.int32)]),
        "but torch.int32 was recorded",
    ),
    "constant written": (
        described("aten::neg_", [tensor(0)], [tensor(0)], [0], role="constant"),
        "writes a constant",
    ),
    "unknown role": (
        described("aten::neg", [tensor(0)], [tensor(1)], role="borrowed"),
        "unknown role 'borrowed'",
    ),
    "unrecorded write": (described("aten::neg_", [tensor(0)], [tensor(0)]), "the schema writes"),
    "unknown comparison": (
        described(
            "aten::eq.Tensor", [tensor(0, torch.int32), ("cpu", 2.5, torch.float64)], [tensor(1, torch.bool)]
        ),
        "compares integers",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_fused_is_refused_with_a_reason(name: str) -> None:
    description, reason = REFUSED[name]
    with pytest.raises(NotFusable, match=reason):
        fusion("build").build_module(description)


def test_an_error_without_a_message_is_a_reason_too() -> None:
    """An example is a bare assert, or an unfinished shape rule, of a user's operator."""

    @torch.library.custom_op("fusion_refusals::row", mutates_args=())
    def row(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @row.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    with pytest.raises(NotFusable, match=r"row.default: NotImplementedError: no message"):
        fusion("build").build_module(described("fusion_refusals::row", [tensor(0)], [tensor(1)]))


def test_two_dtypes_over_written_memory_are_refused() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x.view(torch.int32) + 1

    with pytest.raises(NotFusable, match="two dtypes"):
        run_built(record(program, torch.ones(4)))


def test_writes_to_elements_that_share_memory_are_refused() -> None:
    description = described("aten::copy_", [tensor(1), tensor(0), False], [tensor(1)], [0])
    shared = ("tensor", 0, torch.float32, (4,), (0,), 0, False, False)
    description["calls"].append({"op": "aten::relu_", "args": [shared], "results": [shared], "writes": [0]})
    with pytest.raises(NotFusable, match="share memory"):
        fusion("build").build_module(description)


def test_description_file_gives_back_what_went_in() -> None:
    module = fusion("description")
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
        [[tensor(0)], []],
    ]
    args += [torch.strided, torch.channels_last, ("cpu", 3, torch.int64)]
    description = described("aten::whatever", args, [tensor(1)])
    assert module.loads(module.dumps(description)) == description


def test_digest_stands_for_the_description() -> None:
    module = fusion("description")
    negation = module.dumps(described("aten::neg", [tensor(0)], [tensor(1)]))
    relu = module.dumps(described("aten::relu", [tensor(0)], [tensor(1)]))
    assert module.digest_of(negation) == module.digest_of(negation) != module.digest_of(relu)
