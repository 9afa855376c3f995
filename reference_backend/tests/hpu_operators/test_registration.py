"""Every operator of ``torch.ops.hpu``: it has samples, torch's checks pass, and graphs compute the same."""

from __future__ import annotations

import copy
from typing import Any

import habana_frameworks.torch  # noqa: F401
import pytest
import torch
from habana_frameworks.torch.internal.operators import registration
from torch.utils import _pytree as pytree

from tests.support.nightly import every

from . import samples

OPERATORS = {one.name: one for one in registration.operators() if not one.is_lazy}


def operator(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.hpu, base), overload or "default")


def call(name: str, arguments: list[Any]) -> Any:
    torch.hpu.manual_seed(3)
    return operator(name)(*arguments)


def test_there_are_samples_of_each() -> None:
    known = {name.replace("_checkpoint", "") for name in OPERATORS}
    assert not known.symmetric_difference(samples.SAMPLES)
    assert known >= samples.DRAWN | samples.BY_VALUE


#: Operators that torch's check also traces with open sizes, which takes a second: every fourth outside the
#: nightly run, since `test_a_graph_computes_the_same` traces all of them.
TRACED = every(4, sorted(OPERATORS))


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_torchs_checks_pass(name: str) -> None:
    checks = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    if name in samples.BY_VALUE:
        checks = ["test_schema"]
    if name in samples.DRAWN:
        checks = ["test_schema", "test_faketensor"]
    if name not in TRACED and "test_aot_dispatch_dynamic" in checks:
        checks.remove("test_aot_dispatch_dynamic")
    arguments = tuple(samples.arguments(name))
    tensors = pytree.tree_leaves((arguments, call(name, samples.arguments(name))))
    if any(isinstance(t, torch.Tensor) and t.is_floating_point() and t.itemsize == 1 for t in tensors):
        checks.remove("test_schema")  # it compares by a product that torch's CPU lacks for fp8
    found = torch.library.opcheck(operator(name), arguments, test_utils=checks)
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", sorted(name for name, one in OPERATORS.items() if not one.is_opaque))
def test_autograd_is_registered(name: str) -> None:
    assert torch._C._dispatch_has_kernel_for_dispatch_key(f"hpu::{name}", "CompositeImplicitAutograd")


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_written_are_the_arguments_that_the_schema_names(name: str) -> None:
    arguments = samples.arguments(name)
    before = copy.deepcopy(arguments)
    result = call(name, arguments)
    schema = operator(name)._schema
    written = set()
    for declared, now, then in zip(schema.arguments, arguments, before, strict=False):
        pairs = zip(pytree.tree_leaves(now), pytree.tree_leaves(then), strict=True)
        if any(isinstance(a, torch.Tensor) and not torch.equal(bits(a), bits(b)) for a, b in pairs):
            written.add(declared.name)
    assert written <= {one.name for one in schema.arguments if one.is_write}
    tensors = [t for t in pytree.tree_leaves(arguments) if isinstance(t, torch.Tensor)]
    given = {t.untyped_storage()._cdata for t in tensors}
    for declared, one in zip(schema.returns, pytree.tree_leaves(result), strict=False):
        if declared.alias_info is None and isinstance(one, torch.Tensor) and one.numel():
            assert one.untyped_storage()._cdata not in given, f"{name} returns memory of an argument"


def bits(tensor: torch.Tensor) -> torch.Tensor:
    host = tensor.detach().cpu().contiguous()
    return host.view(torch.uint8) if host.dim() else host.reshape(1).view(torch.uint8)


#: Operators of different kinds, whose graphs are also compiled by g++; it takes seconds each, and outside the
#: nightly run every fourth of them is.
FUSED = {
    "cast_to_fp8_v2.scalar_list", "convert_from_int4", "fp8_gemm_v2", "habana_rand", "kv_reorder_",
    "mixture_of_experts", "optimizer_adamw", "rms_norm", "rotary_pos_embedding", "sdpa_fwd",
    "sdpa_recomp_bwd", "scaled_masked_triangular_softmax",
}  # fmt: skip


@pytest.mark.parametrize(
    ("executable", "name"),
    [("interpreted", name) for name in sorted(set(OPERATORS) - samples.BY_VALUE - samples.DRAWN)]
    + [("auto", name) for name in every(4, sorted(FUSED))],
)
def test_a_graph_computes_the_same(executable: str, name: str) -> None:
    def program(given: list[Any]) -> Any:
        return operator(name)(*given), given

    eager = samples.arguments(name)
    compiled = copy.deepcopy(eager)
    expected = program(eager)
    torch._dynamo.reset()
    options = {"executable": executable}
    actual = torch.compile(program, backend="hpu_backend", fullgraph=True, options=options)(compiled)
    for want, got in zip(pytree.tree_leaves(expected), pytree.tree_leaves(actual), strict=True):
        if isinstance(want, torch.Tensor):
            assert got.dtype == want.dtype and got.shape == want.shape
            close = {"rtol": 2e-2, "atol": 1e-2} if want.itemsize < 4 else {"rtol": 1e-5, "atol": 1e-5}
            torch.testing.assert_close(got.cpu().float(), want.cpu().float(), **close)


def test_tensors_of_the_host_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"hpu::rms_norm takes device tensors.*\.to\('hpu'\)"):
        torch.ops.hpu.rms_norm(torch.ones(2, 4), torch.ones(4), 1e-5)
