"""Test that invalid input raises the error type that torch raises, and that the next call works."""

import pytest
import torch

SAME_DEVICE = "Expected all tensors to be on the same device, but found at least two devices, hpu:0 and cpu!"


@pytest.mark.parametrize(
    "call",
    [
        lambda h, c: h + c,
        lambda h, c: c + h,
        lambda h, c: torch.mm(h, c),
        lambda h, c: torch.cat([h, c]),
        lambda h, c: torch.where(h > 0, h, c),
        lambda h, c: h.add_(c),
        lambda h, c: torch.add(h, h, out=c),
        lambda h, c: torch.nn.functional.linear(h, c),
    ],
)
def test_host_and_device_tensors_do_not_mix(call):
    h, c = torch.ones(2, 2, device="hpu"), torch.ones(2, 2)
    with pytest.raises(RuntimeError) as caught:
        call(h, c)
    assert SAME_DEVICE in str(caught.value)
    assert h.tolist() == c.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_host_result_tensor_is_never_written():
    target = torch.zeros(())
    with pytest.raises(RuntimeError, match="same device"):
        target.add_(torch.ones((), device="hpu"))
    assert target.item() == 0


def test_host_scalars_and_host_indices_are_allowed():
    a = torch.arange(4.0, device="hpu")
    assert (a + torch.tensor(1.5)).tolist() == [1.5, 2.5, 3.5, 4.5]
    assert (torch.tensor(2) * a).device.type == "hpu"
    assert a[torch.tensor([0, 2])].tolist() == [0.0, 2.0]
    a[torch.tensor([1])] = 9.0
    assert a[1].item() == 9


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda a: a.reshape(5, 5), RuntimeError),
        (lambda a: a[10], IndexError),
        (lambda a: a @ torch.ones(7, device="hpu"), RuntimeError),
        (lambda a: torch.cholesky_inverse(a.int()), RuntimeError),
        (lambda a: a.bitwise_and(a), RuntimeError),
        (lambda a: torch.empty(-1, device="hpu"), RuntimeError),
        (lambda a: a.view(torch.complex128), RuntimeError),
        (lambda a: torch.gather(a, 0, torch.full((2, 2), 99, device="hpu")), RuntimeError),
        (lambda a: torch.nn.functional.embedding(torch.tensor([77], device="hpu"), a), IndexError),
        (lambda a: torch.empty(2, device="hpu", pin_memory=True), RuntimeError),
        (lambda a: a.numpy(), TypeError),
        (lambda a: a.add_(torch.ones(3, 3, device="hpu")), RuntimeError),
        (lambda a: torch.linalg.inv(torch.zeros(2, 2, device="hpu")), torch.linalg.LinAlgError),
        (lambda a: a.to_mkldnn(), RuntimeError),
        (lambda a: torch.rand(2, device="hpu", generator=torch.Generator()), RuntimeError),
        (lambda a: torch.rand(2, generator=torch.Generator("hpu")), RuntimeError),
    ],
)
def test_bad_input(call, error):
    a = torch.ones(2, 2, device="hpu")
    with pytest.raises(error) as caught:
        call(a)
    assert "INTERNAL ASSERT" not in str(caught.value)
    assert a.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_fake_tensors_work_in_their_mode():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        a = torch.empty(2, 3, device="hpu")
        assert a.device.type == "hpu" and (a @ a.t()).shape == (2, 2)
        query = torch.empty(1, 2, 4, 8, device="hpu")
        assert torch.nn.functional.scaled_dot_product_attention(query, query, query).shape == (1, 2, 4, 8)
        real = mode.from_tensor(torch.ones(2, device="hpu"))
        assert real.device.type == "hpu"


def test_batch_sizes_on_the_device_raise():
    lstm = torch.nn.LSTM(3, 4).to("hpu")
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(5, 2, 3, device="hpu"), torch.tensor([5, 3]))
    lstm(packed)[0].data.sum().backward()
    assert lstm.weight_ih_l0.grad.shape == (16, 3)
    state = torch.zeros(1, 2, 4, device="hpu")
    sizes = packed.batch_sizes.to("hpu")
    with pytest.raises(RuntimeError, match="batch_sizes of a packed sequence must be a CPU tensor"):
        torch.lstm(packed.data, sizes, (state, state), lstm._flat_weights, True, 1, 0.0, True, False)


def test_device_indices_of_cpu_tensors_and_cpu_values_raise():
    host, index = torch.arange(4.0), torch.tensor([1], device="hpu")
    with pytest.raises((RuntimeError, IndexError)):
        host.index_put_((index,), torch.ones(1, device="hpu"))
    with pytest.raises((RuntimeError, IndexError)):
        host[index]
    dev = torch.arange(4.0, device="hpu")
    with pytest.raises(RuntimeError):
        dev.index_put_((index,), torch.ones(1))
    assert host.tolist() == dev.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch._sobol_engine_ff_(
            torch.zeros(4, dtype=torch.long, device="hpu"),
            5,
            torch.ones(4, 30, dtype=torch.long, device="hpu"),
            4,
            0,
        ),
        lambda: torch.choose_qparams_optimized(torch.randn(4, 4, device="hpu"), 4, 5, 0.1, 8),
        lambda: torch.kaiser_window(4, device="hpu"),
        lambda: torch.ops.aten._reshape_from_tensor(
            torch.ones(4, device="hpu"), torch.tensor([2, 2], device="hpu")
        ),
        lambda: torch.range(1, 3, device="hpu"),
    ],
)
def test_composites_that_access_memory_on_the_host_do_not_fault(call):
    assert call() is not None
