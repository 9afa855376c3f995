"""Test aliasing on the device against the CPU: storages, views, ``out=``, conj and neg bits, results."""

import pytest
import torch


def device_tensor(*args, **kwargs):
    return torch.tensor(*args, device="hpu", **kwargs)


def test_views_share_their_storage():
    base = torch.arange(24.0, device="hpu").reshape(2, 3, 4)
    views = [
        base[1],
        base.t() if base.dim() < 2 else base.transpose(0, 2),
        base.view(-1)[3:],
        base.unfold(2, 2, 1),
    ]
    for view in views:
        assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    base.zero_()
    assert all(view.eq(0).all().item() for view in views)


def test_arguments_that_overlap_stay_overlapping():
    host, dev = torch.arange(10.0), torch.arange(10.0, device="hpu")
    host[2:] += host[2:].clone()
    dev[2:].add_(dev[2:].clone())
    assert dev.tolist() == host.tolist()
    for base in (host, dev):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
            torch.add(base[1:], 1, out=base[:-1])


def test_out_is_returned_and_resized():
    a, out = device_tensor([1.0, 2.0]), torch.empty(0, device="hpu")
    assert torch.add(a, a, out=out) is out
    assert out.tolist() == [2.0, 4.0]
    out = torch.zeros(4, device="hpu")[::2]
    torch.add(a, a, out=out)
    assert out.stride() == (2,) and out.tolist() == [2.0, 4.0]


def test_out_resize_changes_the_storage_of_other_views():
    out = torch.empty(0, device="hpu")
    alias = out.view(0)
    torch.ones(1000, device="hpu", out=None)
    torch.add(torch.ones(1000, device="hpu"), 1, out=out)
    assert alias.untyped_storage().data_ptr() == out.untyped_storage().data_ptr()


def test_in_place_returns_self_and_keeps_the_address():
    a = device_tensor([1.0, 4.0])
    address = a.data_ptr()
    assert a.sqrt_() is a and a.add_(1) is a and a.data_ptr() == address and a.tolist() == [2.0, 3.0]


def test_functions_that_may_return_their_argument():
    a = device_tensor([1.0])
    for function in (
        torch.Tensor.contiguous,
        torch.Tensor.resolve_conj,
        torch.Tensor.resolve_neg,
        torch.Tensor.detach,
    ):
        assert function(a).data_ptr() == a.data_ptr()


@pytest.mark.parametrize("size", [(2,), (3, 5), (0,), (100, 100)])
def test_resize(size):
    host, dev = torch.arange(6.0), torch.arange(6.0, device="hpu")
    host.resize_(size), dev.resize_(size)
    assert dev.shape == host.shape and dev.stride() == host.stride()
    common = min(6, host.numel())
    assert dev.flatten()[:common].tolist() == host.flatten()[:common].tolist()


def test_set_to_storage_tensor_and_nothing():
    source = torch.arange(10.0, device="hpu")
    a = torch.empty(0, device="hpu")
    a.set_(source.untyped_storage(), 2, (2, 2), (3, 1))
    assert a.tolist() == [[2.0, 3.0], [5.0, 6.0]] and a.is_set_to(source[2:].as_strided((2, 2), (3, 1)))
    a.fill_(0)
    assert source[2].item() == 0
    a.set_(source)
    assert a.is_set_to(source)
    a.set_()
    assert a.shape == (0,) and a.untyped_storage().nbytes() == 0 and a.device.type == "hpu"


def test_set_grows_a_storage_that_is_too_small():
    a = torch.arange(4.0, device="hpu")
    b = torch.empty(0, device="hpu").set_(a.untyped_storage(), 0, (100,), (1,))
    assert b[:4].tolist() == [0.0, 1.0, 2.0, 3.0] and a.untyped_storage().nbytes() == 400


def test_set_to_a_cpu_tensor_raises():
    with pytest.raises(RuntimeError):
        torch.empty(0, device="hpu").set_(torch.ones(3))


def test_storage_operations():
    a = torch.arange(4, dtype=torch.uint8, device="hpu")
    storage = a.untyped_storage()
    assert storage.device.type == "hpu" and storage[2] == 2
    copy = storage.clone()
    storage[2] = 9
    assert a[2].item() == 9 and copy[2] == 2 and copy.data_ptr() != storage.data_ptr()
    storage.resize_(100)
    assert storage.nbytes() == 100 and a.tolist() == [0, 1, 9, 3]
    storage.resize_(0)
    assert storage.nbytes() == 0
    assert list(copy.cpu()) == [0, 1, 2, 3] and copy.cpu().device.type == "cpu"


def test_conj_and_neg_bits_survive():
    host = torch.tensor([1 + 2j, 3 - 1j])
    dev = host.to("hpu")
    assert dev.conj().is_conj() and dev.conj().imag.is_neg()
    assert (dev.conj() * 2).tolist() == (host.conj() * 2).tolist()
    assert dev.conj().imag.cpu().tolist() == host.conj().imag.tolist()
    out = torch.zeros(2, dtype=torch.complex64, device="hpu").conj()
    torch.add(dev, 1j, out=out)
    assert out.tolist() == (host + 1j).tolist()


def test_wrapped_numbers_promote_as_on_the_cpu():
    for value in (2, 2.5, True, 1j):
        dev, host = (
            torch.ones(2, dtype=torch.int32, device="hpu") * value,
            torch.ones(2, dtype=torch.int32) * value,
        )
        assert dev.dtype == host.dtype
    assert (torch.ones(2, dtype=torch.bfloat16, device="hpu") + torch.tensor(1.5)).dtype == torch.bfloat16


def test_two_results_that_share_a_storage():
    a = torch.arange(6.0, device="hpu")
    parts = torch.split(a, 2)
    parts[1].fill_(-1)
    assert a.tolist() == [0.0, 1.0, -1.0, -1.0, 4.0, 5.0]
    real = torch.view_as_real(torch.ones(2, dtype=torch.complex64, device="hpu"))
    assert real.shape == (2, 2)


def test_batch_norm_statistics_are_written():
    norm = torch.nn.BatchNorm1d(3).to("hpu")
    norm(torch.randn(8, 3, device="hpu") + 5)
    assert norm.running_mean.abs().min().item() > 0.1 and norm.num_batches_tracked.item() == 1


def test_version_counters_are_shared_by_views():
    a = torch.ones(4, device="hpu")
    before = a._version
    a[1:].mul_(2)
    assert a._version == before + 1
    weight = torch.ones(4, device="hpu", requires_grad=True)
    product = (weight * a).sum()
    a.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_inference_mode():
    with torch.inference_mode():
        a = torch.ones(3, device="hpu")
        b = a.add(1)
        b.mul_(2)
        assert b.is_inference() and b[1:].tolist() == [4.0, 4.0]
    with pytest.raises(RuntimeError, match=r"[Ii]nference"):
        b.requires_grad_().mul(2)


def test_operators_that_branch_on_the_device_act_as_on_the_cpu():
    x = torch.rand(2, 6, 4, 4).to(memory_format=torch.channels_last)
    norm = torch.nn.GroupNorm(3, 6)
    host, dev = norm(x), norm.to("hpu")(x.to("hpu"))
    assert dev.stride() == host.stride() and torch.allclose(dev.cpu(), host)
    dev.sum().backward()
    assert norm.weight.grad.device.type == "hpu"
    assert torch.tensor([1 + 2j], device="hpu").conj_physical_().tolist() == [1 - 2j]
    out = torch.empty(0, device="hpu"), torch.empty(0, dtype=torch.long, device="hpu")
    assert [t.item() for t in torch.mode(torch.tensor([1.0, 2.0, 2.0], device="hpu"), out=out)] == [2, 2]


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_conj_bit_that_a_kernel_sets_on_out_is_applied(left, adjoint):
    generator = torch.Generator().manual_seed(0)
    matrix, right = (torch.randn(2, 2, dtype=torch.complex64, generator=generator) for _ in range(2))
    solutions = []
    for device in ("cpu", "hpu"):
        factor, pivots = torch.linalg.lu_factor(matrix.to(device))
        out = torch.empty(2, 2, dtype=torch.complex64, device=device)
        torch.linalg.lu_solve(factor, pivots, right.to(device), left=left, adjoint=adjoint, out=out)
        solutions.append(out.cpu())
    assert torch.allclose(*solutions)


@pytest.mark.parametrize("median", [torch.median, torch.nanmedian])
def test_the_median_of_an_expanded_input(median):
    row = torch.randn(5, device="hpu")
    assert median(row.expand(5, 5), 0).values.equal(row)


def test_many_tensors_in_one_call():
    tensors = [torch.full((1,), float(i), device="hpu") for i in range(500)]
    torch._foreach_add_(tensors, 1.0)
    assert torch.cat(tensors).tolist() == [i + 1.0 for i in range(500)]
    assert torch.cat([tensors[0]] * 100 + tensors).shape == (600,)
