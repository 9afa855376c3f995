"""Test sparse, quantized and nested tensors, and tensors of every dtype."""

import copy

import pytest
import torch
from habana_frameworks.torch import _C

pytestmark = pytest.mark.filterwarnings("ignore")


def test_sparse_coo():
    host = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
    dev = host.to("hpu")
    assert dev.device.type == "hpu" and dev.values().device.type == "hpu"
    assert (dev + dev).to_dense().tolist() == (host + host).to_dense().tolist()
    assert torch.sparse.mm(dev, torch.eye(2, device="hpu")).tolist() == host.to_dense().tolist()
    uncoalesced = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2), device="hpu")
    assert not uncoalesced.is_coalesced() and uncoalesced.coalesce().values().tolist() == [3.0]
    dev.mul_(2)
    assert dev.cpu().to_dense().tolist() == (host * 2).to_dense().tolist()
    assert torch.rand(3, 3, device="hpu").to_sparse().coalesce().device.type == "hpu"


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc])
def test_sparse_compressed(layout):
    block = (1, 1) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
    host = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(layout=layout, blocksize=block)
    dev = host.to("hpu")
    assert dev.layout == layout and dev.device.type == "hpu" and dev.values().device.type == "hpu"
    assert dev.to_dense().tolist() == host.to_dense().tolist() and dev.cpu().to_dense().equal(host.to_dense())
    compressed = dev.to_dense().to_sparse(layout=layout, blocksize=block)
    assert compressed.layout == layout and compressed.device.type == "hpu"


def test_sparse_csr_matmul_and_gradient():
    matrix = torch.tensor([[0.0, 2.0], [3.0, 0.0]], device="hpu").to_sparse_csr()
    vector = torch.tensor([1.0, 10.0], device="hpu", requires_grad=True)
    (matrix @ vector).sum().backward()
    assert (matrix @ vector).tolist() == [20.0, 3.0] and vector.grad.tolist() == [3.0, 2.0]


def test_quantized():
    values = torch.tensor([-1.0, 0.0, 0.5, 2.0], device="hpu")
    q = torch.quantize_per_tensor(values, 0.1, 10, torch.quint8)
    assert q.device.type == "hpu" and q.int_repr().tolist() == [0, 10, 15, 30] and q.q_scale() == 0.1
    assert (
        q[1:].dequantize().tolist()
        == torch.quantize_per_tensor(values.cpu(), 0.1, 10, torch.quint8)[1:].dequantize().tolist()
    )
    channel = torch.quantize_per_channel(
        torch.ones(2, 2, device="hpu"),
        torch.tensor([0.1, 0.2], device="hpu"),
        torch.zeros(2, dtype=torch.long, device="hpu"),
        0,
        torch.qint8,
    )
    assert channel.q_per_channel_scales().device.type == "hpu" and channel.int_repr().tolist() == [
        [10, 10],
        [5, 5],
    ]
    assert channel.cpu().dequantize().tolist() == channel.dequantize().tolist()


def test_nested():
    parts = [torch.arange(6.0).reshape(2, 3), torch.arange(3.0).reshape(1, 3)]
    nested = torch.nested.nested_tensor(parts, device="hpu")
    assert nested.device.type == "hpu" and (nested * 2).unbind()[1].tolist() == [[0.0, 2.0, 4.0]]
    assert (
        torch.nested.to_padded_tensor(nested, 0.0).tolist()
        == torch.nested.to_padded_tensor(torch.nested.nested_tensor(parts), 0.0).tolist()
    )
    weight = torch.ones(4, 3, device="hpu")
    assert torch.nn.functional.linear(nested, weight).unbind()[0].shape == (2, 4)
    jagged = torch.nested.nested_tensor(parts, device="hpu", layout=torch.jagged)
    assert (jagged + 1).unbind()[0].tolist() == (parts[0] + 1).tolist()


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.complex64,
        torch.complex128,
        torch.complex32,
        torch.float16,
        torch.bfloat16,
        torch.bool,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.int8,
    ],
)
def test_every_dtype_is_copied_to_the_device_and_back(dtype):
    host = torch.tensor([0, 1, 3, 100]).to(dtype)
    dev = host.to("hpu")
    assert dev.dtype == dtype and dev.cpu().view(torch.uint8).equal(host.view(torch.uint8))
    assert dev[1:].clone().cpu().view(torch.uint8).equal(host[1:].clone().view(torch.uint8))


def test_compressed_tensors_detach_and_share():
    dev = torch.tensor([[0.0, 2.0], [3.0, 0.0]], device="hpu").to_sparse_csr()
    copy = dev.detach()
    assert (
        copy.layout == torch.sparse_csr and copy.device.type == "hpu" and copy.values().tolist() == [2.0, 3.0]
    )
    copy.values().mul_(2)
    assert dev.values().tolist() == [4.0, 6.0] and dev.requires_grad_().detach().requires_grad is False


def test_compressed_zeros_like():
    dev = torch.eye(3, device="hpu").to_sparse_csr()
    for zeros in (torch.zeros_like(dev), torch.zeros_like(dev.to("meta"), device="hpu")):
        assert zeros.device.type == "hpu" and zeros.layout == torch.sparse_csr and zeros._nnz() == 0
        assert zeros.to_dense().tolist() == [[0.0] * 3] * 3


def test_metadata_of_nested_results_is_not_device_memory():
    nested = torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(4, 3)], device="hpu")
    product = torch.bmm(nested, nested.transpose(1, 2))
    assert _C.extended_memory_stats()["scratch"] == 0
    assert product._nested_tensor_storage_offsets().device.type == "cpu"
    assert [part.shape for part in product.unbind()] == [(2, 2), (4, 4)]


def test_nested_metadata_outlives_the_device_tensor_it_came_from():
    shapes = torch.tensor([[2, 3], [4, 3]], device="hpu")
    nested = torch._nested_from_padded(torch.ones(2, 4, 3, device="hpu"), shapes)
    del shapes
    junk = [torch.full((2, 2), 10**9, device="hpu") for _ in range(8)]
    assert [part.shape for part in nested.unbind()] == [(2, 3), (4, 3)] and junk


def test_sparse_gradients_train():
    embedding = torch.nn.Embedding(10, 3, sparse=True).to("hpu")
    before = embedding.weight.detach().clone()
    optimizer = torch.optim.SparseAdam(embedding.parameters(), lr=0.1)
    embedding(torch.tensor([1, 2], device="hpu")).sum().backward()
    optimizer.step()
    changed = (embedding.weight.detach() != before).any(1).nonzero().flatten().tolist()
    assert changed == [1, 2]


def test_packed_weights_keep_their_tensors_alive():
    weight = torch.quantize_per_tensor(torch.ones(4, 4, device="hpu"), 0.1, 0, torch.qint8)
    bias = torch.full((4,), 3.0, device="hpu")
    packed = torch.ops.quantized.linear_prepack(weight, bias)
    del weight, bias
    junk = [torch.full((4,), 99.0, device="hpu") for _ in range(8)]
    assert torch.ops.quantized.linear_unpack(packed)[1].tolist() == [3.0] * 4 and junk


def test_quantized_tensors_are_copied_to_the_device():
    quantized = torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8)
    dev = quantized.to("hpu")
    assert dev.device.type == "hpu" and dev.int_repr().tolist() == [[10, 10], [10, 10]]
    assert copy.deepcopy(dev).dequantize().tolist() == dev.dequantize().tolist()
