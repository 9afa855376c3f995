"""Test operators that torch calls unboxed: results equal boxed calls, and no call affects the next call."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from habana_frameworks.torch._C import engine_counters, enqueue_delay

_SOURCE = Path(__file__).parents[2] / "csrc" / "dispatch" / "unboxed_kernels.cpp"
#: Names of torch's operator classes in the table of unboxed kernels, such as ``add_Tensor``.
CLASSES = re.findall(r"at::_ops::(\w+)", _SOURCE.read_text())


#: Operator names by the names of torch's operator classes.
_OPERATORS = {
    name.removeprefix("aten::").replace(".", "_"): name
    for name in torch._C._dispatch_get_all_op_names()
    if name.startswith("aten::")
}


@pytest.mark.parametrize("name", CLASSES)
def test_operators_of_the_table_are_registered_unboxed(name: str) -> None:
    dump = torch._C._dispatch_dump(_OPERATORS[name])
    (line,) = [row for row in dump.splitlines() if row.startswith("HPU:")]
    assert line.endswith("[ boxed unboxed ]"), line


@pytest.fixture
def enqueue_delay_on_stream() -> Iterator[Callable[[], None]]:
    """Return ``delay_stream()``, which delays the stream, so that the engine boxes and queues later calls."""

    def delay_stream() -> None:
        enqueue_delay(0.2)

    yield delay_stream
    torch.hpu.synchronize()


CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": lambda a, b: torch.add(a, b, alpha=2),
    "add to a number": lambda a, b: a + 3,
    "promotes": lambda a, b: a.to(torch.int32) * b,
    "view and stride": lambda a, b: a.t()[1:] - b.t()[1:],
    "broadcast": lambda a, b: a[:, :1] / b[0],
    "in place": lambda a, b: a.clone().mul_(b),
    "in place of a view": lambda a, b: a.clone()[::2].add_(b[::2]),
    "out": lambda a, b: torch.mm(a, b, out=torch.empty(0, device=a.device)),
    "same tensor twice": lambda a, b: torch.mul(a, a),
    "out is an input": lambda a, b: torch.add(a, c := b.clone(), out=c),
    "softmax": lambda a, b: torch.softmax(a, 1),
    "sum": lambda a, b: a.sum(0, keepdim=True),
    "comparison": lambda a, b: a < b,
    "where": lambda a, b: torch.where(a > 0, a, b),
    "addmm": lambda a, b: torch.addmm(a[0], a, b, beta=0.5),
    "conjugated": lambda a, b: torch.view_as_real(torch.complex(a, b).conj() * torch.complex(b, a)),
    "empty": lambda a, b: a[:0] + b[:0],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_boxed_and_unboxed_calls_match_the_cpu(
    call: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], enqueue_delay_on_stream: Callable[[], None]
) -> None:
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    da, db = a.to("hpu"), b.to("hpu")
    expected, unboxed = call(a, b), call(da, db)
    enqueue_delay_on_stream()
    before = engine_counters()
    boxed = call(da, db)
    after = engine_counters()
    assert any(after[kind] > before[kind] for kind in ("deferred", "learned"))
    for result in (unboxed, boxed):
        assert result.device.type == "hpu"
        assert result.dtype == expected.dtype
        assert result.stride() == expected.stride()
        assert torch.equal(result.cpu(), expected)
    assert torch.equal(da.cpu(), a) and torch.equal(db.cpu(), b)


def test_modes_and_bits_of_a_call_do_not_affect_the_next() -> None:
    x = torch.randn(4, 4, device="hpu")
    expected = (x + x).cpu()
    leaf = x.clone().requires_grad_()
    for _ in range(3):
        with torch.inference_mode():
            inside = x + x
        assert inside.is_inference() and not (x + x).is_inference()
        (leaf * leaf).sum().backward()  # a call whose CPU tensors require gradients
        assert not (x + x).requires_grad
        assert torch.equal((x * 1.0 + x).cpu(), expected)  # torch passes 1.0 as a wrapped number
        z = torch.complex(x, x)
        assert torch.equal((z.conj() + z).real.cpu(), expected)
        assert (x.to(torch.int32) + x.to(torch.int32)).dtype == torch.int32
        assert torch.equal((x + x).cpu(), expected)
        assert (x + x)._version == 0


def test_a_kernel_may_keep_its_argument() -> None:
    retained: list[torch.Tensor] = []
    library = torch.library.Library("aten", "IMPL")
    try:

        def retain_argument(tensor: torch.Tensor) -> torch.Tensor:
            retained.append(tensor)
            return torch.ones(tensor.shape)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that its kernel is replaced
            library.impl("sin", retain_argument, "CPU", allow_override=True)
        x = torch.full((4,), 7.0, device="hpu")
        y = torch.sin(x)
    finally:
        library._destroy()
    assert torch.equal(y.cpu(), torch.ones(4))
    del x
    tensors = [torch.full((4,), float(i), device="hpu") for i in range(20)]
    totals = [(tensor + tensor).sum() for tensor in tensors]
    assert [total.item() for total in totals] == [8.0 * i for i in range(20)]
    assert retained[0].device.type == "cpu" and retained[0].shape == (4,)
    assert retained[0].tolist() == [7.0] * 4


def test_errors_name_the_first_wrong_argument_and_change_nothing() -> None:
    x, host = torch.ones(3, device="hpu"), torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        torch.add(x, host)
    with pytest.raises(RuntimeError, match="same device"):
        x.add_(host)
    with pytest.raises(RuntimeError, match="must match the size"):
        torch.add(x, torch.ones(2, device="hpu"))
    with pytest.raises(RuntimeError):
        torch.mm(x, x)
    out = torch.ones(3, device="hpu")
    result = torch.add(x, x, out=out)
    assert result is out and x.add_(1) is x
    assert torch.equal(out.cpu(), torch.full((3,), 2.0)) and torch.equal(x.cpu(), torch.full((3,), 2.0))


def test_threads_do_not_share_tensors_of_calls() -> None:
    weight = torch.arange(64.0, device="hpu")
    wrong: list[str] = []

    def add_repeatedly(number: int) -> None:
        mine = torch.full((64,), float(number), device="hpu")
        expected = torch.arange(64.0) + number
        for _ in range(300):
            if not torch.equal((weight + mine).cpu(), expected):
                wrong.append(f"thread {number}")

    threads = [threading.Thread(target=add_repeatedly, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_kernel_does_not_see_modes_of_earlier_calls() -> None:
    seen_states: list[tuple[bool, bool]] = []
    library = torch.library.Library("aten", "IMPL")
    x = torch.randn(4, device="hpu")
    leaf = x.clone().requires_grad_()
    try:

        def record_state(tensor: torch.Tensor) -> torch.Tensor:
            seen_states.append((tensor.requires_grad, tensor.is_inference()))
            return torch.ones(tensor.shape)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that its kernel is replaced
            library.impl("sin", record_state, "CPU", allow_override=True)
        # The second call of each pair reuses the CPU tensors of the first call. CPU tensors that a Python
        # kernel received are not reused.
        _ = leaf * leaf  # a call whose CPU tensors require gradients
        torch.sin(x)
        _ = x * x
        with torch.inference_mode():
            torch.sin(x)
            _ = x * x
        torch.sin(x)
    finally:
        library._destroy()
    assert seen_states == [(False, False), (False, True), (False, False)]
