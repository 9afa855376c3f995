"""Test each operator of ``torch.ops.hpu``: samples exist, `opcheck` passes, graphs give equal results."""

from __future__ import annotations

import copy
from typing import Any

import habana_frameworks.torch  # noqa: F401
import pytest
import torch
from habana_frameworks.torch.internal.operators import registration
from torch.utils import _pytree as pytree

from tests.support.nightly import every_nth

from . import samples

OPERATORS = {
    registered.name: registered for registered in registration.declared_operators() if not registered.is_lazy
}


def operator_overload(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.hpu, base), overload or "default")


def call_seeded(name: str, arguments: list[Any]) -> Any:
    torch.hpu.manual_seed(3)
    return operator_overload(name)(*arguments)


def test_every_operator_has_samples() -> None:
    sampled_names = {name.replace("_checkpoint", "") for name in OPERATORS}
    assert not sampled_names.symmetric_difference(samples.SAMPLES)
    assert sampled_names >= samples.DRAWN | samples.BY_VALUE


#: Operators that `opcheck` also traces with dynamic shapes, which takes a second for each operator. The
#: nightly run traces all operators, other runs every eighth. `test_a_graph_gives_the_same_results` traces
#: every third operator.
TRACED = every_nth(8, sorted(OPERATORS))


@pytest.mark.nightly("runs torch's checks, which depend only on the schema", every=3)
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_opcheck_passes(name: str) -> None:
    checks = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    if name in samples.BY_VALUE:
        checks = ["test_schema"]
    if name in samples.DRAWN:
        checks = ["test_schema", "test_faketensor"]
    if name not in TRACED and "test_aot_dispatch_dynamic" in checks:
        checks.remove("test_aot_dispatch_dynamic")
    arguments = tuple(samples.sample_arguments(name))
    tensors = pytree.tree_leaves((arguments, call_seeded(name, samples.sample_arguments(name))))
    if any(isinstance(t, torch.Tensor) and t.is_floating_point() and t.itemsize == 1 for t in tensors):
        checks.remove("test_schema")  # the check multiplies fp8 values, which torch's CPU does not support
    check_results = torch.library.opcheck(operator_overload(name), arguments, test_utils=checks)
    assert set(check_results.values()) == {"SUCCESS"}


@pytest.mark.parametrize(
    "name", sorted(name for name, registered in OPERATORS.items() if not registered.is_opaque)
)
def test_autograd_is_registered(name: str) -> None:
    assert torch._C._dispatch_has_kernel_for_dispatch_key(f"hpu::{name}", "CompositeImplicitAutograd")


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_operator_writes_only_arguments_that_its_schema_names(name: str) -> None:
    arguments = samples.sample_arguments(name)
    before = copy.deepcopy(arguments)
    result = call_seeded(name, arguments)
    schema = operator_overload(name)._schema
    written = set()
    for declared, now, then in zip(schema.arguments, arguments, before, strict=False):
        pairs = zip(pytree.tree_leaves(now), pytree.tree_leaves(then), strict=True)
        if any(isinstance(a, torch.Tensor) and not torch.equal(as_bytes(a), as_bytes(b)) for a, b in pairs):
            written.add(declared.name)
    assert written <= {item.name for item in schema.arguments if item.is_write}
    tensors = [t for t in pytree.tree_leaves(arguments) if isinstance(t, torch.Tensor)]
    argument_storages = {t.untyped_storage()._cdata for t in tensors}
    for declared, item in zip(schema.returns, pytree.tree_leaves(result), strict=False):
        if declared.alias_info is None and isinstance(item, torch.Tensor) and item.numel():
            assert item.untyped_storage()._cdata not in argument_storages, (
                f"{name} returns memory of an argument, which its schema does not declare"
            )


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    host = tensor.detach().cpu().contiguous()
    return host.view(torch.uint8) if host.dim() else host.reshape(1).view(torch.uint8)


#: Operators whose graphs the test also compiles with g++, which takes seconds for each operator. Outside the
#: nightly run, only every eighth of these operators is compiled.
FUSED = {
    "cast_to_fp8_v2.scalar_list", "convert_from_int4", "fp8_gemm_v2", "habana_rand", "kv_reorder_",
    "mixture_of_experts", "optimizer_adamw", "rms_norm", "rotary_pos_embedding", "sdpa_fwd",
    "sdpa_recomp_bwd", "scaled_masked_triangular_softmax",
}  # fmt: skip


@pytest.mark.nightly("nox -s conformance captures each operator", every=3)
@pytest.mark.parametrize(
    ("executable", "name"),
    [
        ("interpreted", name)
        for name in every_nth(3, sorted(set(OPERATORS) - samples.BY_VALUE - samples.DRAWN))
    ]
    + [("auto", name) for name in every_nth(8, sorted(FUSED))],
)
def test_a_graph_gives_the_same_results(executable: str, name: str) -> None:
    def program(arguments: list[Any]) -> Any:
        return operator_overload(name)(*arguments), arguments

    eager = samples.sample_arguments(name)
    compiled = copy.deepcopy(eager)
    expected = program(eager)
    torch._dynamo.reset()
    options = {"executable": executable}
    actual = torch.compile(program, backend="hpu_backend", fullgraph=True, options=options)(compiled)
    for expected_item, actual_item in zip(
        pytree.tree_leaves(expected), pytree.tree_leaves(actual), strict=True
    ):
        if isinstance(expected_item, torch.Tensor):
            assert actual_item.dtype == expected_item.dtype and actual_item.shape == expected_item.shape
            close = (
                {"rtol": 2e-2, "atol": 1e-2} if expected_item.itemsize < 4 else {"rtol": 1e-5, "atol": 1e-5}
            )
            torch.testing.assert_close(actual_item.cpu().float(), expected_item.cpu().float(), **close)


def test_cpu_tensors_raise() -> None:
    with pytest.raises(RuntimeError, match=r"hpu::rms_norm takes device tensors.*\.to\('hpu'\)"):
        torch.ops.hpu.rms_norm(torch.ones(2, 4), torch.ones(4), 1e-5)
