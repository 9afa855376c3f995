"""Test dtypes that hardware supports and CPU kernels do not. The device computes in float32 instead."""

from __future__ import annotations

import threading
from collections.abc import Callable

import habana_frameworks.torch as ht
import pytest
import torch

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
LOW = [torch.float16, torch.bfloat16]


def random_numbers(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def cpu_kernel_is_missing(call: Callable[[], object]) -> bool:
    """Return whether the call fails because the CPU kernel does not support the dtype."""
    try:
        call()
    except NotImplementedError as error:
        return "not implemented for" in str(error)
    return False


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_results_are_rounded_once(dtype: torch.dtype) -> None:
    a, b = random_numbers(4, 3).to(dtype), random_numbers(5, 3, seed=1).to(dtype)
    distances = torch.cdist(a.to("hpu"), b.to("hpu"))
    assert distances.dtype == dtype
    assert torch.equal(distances.cpu(), torch.cdist(a.float(), b.float()).to(dtype))
    x = random_numbers(64).to(dtype)
    assert cpu_kernel_is_missing(lambda: torch.special.erfcx(x))
    assert torch.equal(torch.special.erfcx(x.to("hpu")).cpu(), torch.special.erfcx(x.float()).to(dtype))


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_out_tensors_are_written(dtype: torch.dtype) -> None:
    x = random_numbers(4, 6).to(dtype)
    expected = torch.special.erfcx(x.float()).to(dtype)
    base = torch.zeros(4, 12, dtype=dtype, device="hpu")
    out = base[:, ::2]
    assert torch.special.erfcx(x.to("hpu"), out=out) is out
    assert torch.equal(base.cpu()[:, ::2], expected) and not base.cpu()[:, 1::2].any()
    grown = torch.empty(0, dtype=dtype, device="hpu")
    torch.special.erfcx(x.to("hpu"), out=grown)
    assert grown.shape == (4, 6) and torch.equal(grown.cpu(), expected)


@pytest.mark.parametrize("dtype", [E4M3, E5M2], ids=str)
def test_fp8_tensors_are_added_in_place(dtype: torch.dtype) -> None:
    a, b = random_numbers(33).to(dtype), random_numbers(33, seed=1).to(dtype)
    expected = (a.float() + b.float()).to(dtype)
    assert cpu_kernel_is_missing(lambda: a.clone().add_(b))
    on_hpu = a.to("hpu")
    assert on_hpu.add_(b.to("hpu")) is on_hpu
    assert torch.equal(on_hpu.cpu().view(torch.uint8), expected.view(torch.uint8))
    on_hpu = a.to("hpu")
    twice = on_hpu.add_(on_hpu)
    assert torch.equal(twice.cpu().view(torch.uint8), (a.float() * 2).to(dtype).view(torch.uint8))


def test_deferred_captured_and_compiled_calls_are_rounded_once() -> None:
    x = random_numbers(64).to(torch.bfloat16)
    expected = torch.special.erfcx(torch.special.erfcx(x.float()).to(torch.bfloat16).float()).to(
        torch.bfloat16
    )
    device_input = x.to("hpu")

    def twice(values: torch.Tensor) -> torch.Tensor:
        return torch.special.erfcx(torch.special.erfcx(values))

    behind = False
    for _ in range(6):  # the host waits in the first calls, until the engine has cached their output metadata
        gate, opened = ht._C.Gate(), threading.Event()
        gate.enqueue()
        opener = threading.Timer(0.2, lambda gate=gate, opened=opened: (opened.set(), gate.open()))
        opener.start()
        result = twice(device_input)
        behind = not opened.is_set()
        assert torch.equal(result.cpu(), expected)
        opener.join()
    assert behind
    graph = ht.hpu.HPUGraph()
    static = device_input.clone()
    with ht.hpu.graph(graph):
        captured = twice(static)
    static.copy_(torch.zeros_like(static))
    graph.replay()
    ones = torch.ones(64)
    assert torch.equal(captured.cpu(), torch.special.erfcx(ones).to(torch.bfloat16))
    torch._dynamo.reset()
    compiled = torch.compile(twice, backend="hpu_backend", options={"executable": "interpreted"})
    assert torch.equal(compiled(device_input).cpu(), expected)


def test_take_accepts_int32_indices() -> None:
    x = random_numbers(12)
    indices = torch.tensor([0, 5, -1, 11], dtype=torch.int32)
    assert torch.equal(x.to("hpu").take(indices.to("hpu")).cpu(), x.take(indices.long()))


def test_dtypes_without_any_kernel_raise() -> None:
    a = torch.ones(3, dtype=torch.int64, device="hpu")
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        torch.nn.functional.gelu(a)
    half, single = torch.ones(2, 3, dtype=E4M3, device="hpu"), torch.ones(2, 3, device="hpu")
    with pytest.raises(RuntimeError):
        half.add_(single)
